"""What the first records decide holds for all, and what many rows share is never taken for a row that differs."""

import json
from pathlib import Path

import pytest

from robustify.base.errors import DataError
from robustify.reading.loaders import Loaded
from tests.reading.loaders.made import loaded, right

N = 10_000
"""Records in which the columns are decided."""


def record(at: int, **more: object) -> dict[str, object]:
    return {"question": f"Which toy has number {at}?", "options": [f"kite {at}", f"ball {at}"], **more}


def of(path: Path, skip: bool = False, *later: dict[str, object]) -> Loaded:
    first = [record(at, answer="AB"[at % 2]) for at in range(N)]
    return loaded(path, "\n".join(map(json.dumps, [*first, *later])), skip_bad=skip)


def test_a_later_record_without_the_column_of_the_key_is_a_fault_with_its_line(tmp_path: Path) -> None:
    later = [record(N, label="A"), record(N + 1, answer="B")]
    with pytest.raises(DataError) as error:
        of(tmp_path / "q.jsonl", False, *later)
    assert error.value.lines[0].startswith(f"q.jsonl:{N + 1}: ")
    assert len(error.value.lines) == 1
    found = of(tmp_path / "q.jsonl", True, *later)
    assert [one.line for one in found.quarantined] == [N + 1]
    assert right(found)[-1] == f"ball {N + 1}"


def test_a_column_that_begins_after_the_sample_does_not_change_what_was_decided(tmp_path: Path) -> None:
    later = [record(N + at, answer="A", choices=["drum", "top"], correct_answer="B") for at in range(3)]
    assert right(of(tmp_path / "q.jsonl", False, *later))[-3:] == [f"kite {N + at}" for at in range(3)]


def test_a_later_key_of_another_kind_is_a_fault(tmp_path: Path) -> None:
    found = of(tmp_path / "q.jsonl", True, record(N, answer=1), record(N + 1, answer="A"))
    assert [one.line for one in found.quarantined] == [N + 1]
    assert len(found.items) == N + 1


def test_a_letter_that_many_rows_have_is_read_anew_if_it_is_an_option(tmp_path: Path) -> None:
    rows = [f"Which toy {at}?,kite {at},ball {at},drum {at},A" for at in range(20)]
    text = "\n".join(["question,A,B,C,answer", *rows, "Which vitamin?,B,A ,C,A"])
    found = loaded(tmp_path / "q.csv", text, skip_bad=True)
    # All other keys are letters, so that this one is a letter too, although it is also the text of the second option.
    assert [item.key for item in found.items] == [0] * 21
    by_text = loaded(tmp_path / "t.csv", text, skip_bad=True, fields={"key_is": "text"})
    assert [item.key for item in by_text.items] == [1]


def test_a_letter_that_many_rows_have_is_refused_if_options_bring_their_own_order(tmp_path: Path) -> None:
    rows = [f"Which toy {at}?,kite {at},ball {at},drum {at},A" for at in range(20)]
    text = "\n".join(["question,A,B,C,answer", *rows, "Which sea?,B) lake,A) pond,C) bay,A"])
    found = loaded(tmp_path / "q.csv", text, skip_bad=True)
    assert [one.line for one in found.quarantined] == [22]


@pytest.mark.parametrize(
    "last", ["Which sea?,bay", "Which sea?,bay,pond,A,too,many", ",,,", "Which sea?,bay,,A"]
)
def test_one_uneven_row_is_still_seen_among_even_ones(tmp_path: Path, last: str) -> None:
    rows = [f"Which toy {at}?,kite {at},ball {at},{'AB'[at % 2]}" for at in range(40)]
    text = "\n".join(["question,A,B,answer", *rows[:20], last, *rows[20:]])
    found = loaded(tmp_path / "q.csv", text, skip_bad=True)
    assert [one.line for one in found.quarantined] == [22]
    assert right(found) == [f"{('kite', 'ball')[at % 2]} {at}" for at in range(40)]
