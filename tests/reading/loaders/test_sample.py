"""What the first records decide holds for all, and what many rows share is never taken for a row that differs."""

import json
from pathlib import Path

from robustify.reading.loaders import Loaded
from tests.reading.loaders.made import loaded, right
from tests.support.cases import refuses

N = 10_000
"""Records in which the columns are decided."""


def record(at: int, **more: object) -> dict[str, object]:
    return {"question": f"Which toy has number {at}?", "options": [f"kite {at}", f"ball {at}"], **more}


def of(path: Path, skip: bool = False, *later: dict[str, object]) -> Loaded:
    first = [record(at, answer="AB"[at % 2]) for at in range(N)]
    return loaded(path, "\n".join(map(json.dumps, [*first, *later])), skip_bad=skip)


def test_a_later_record_without_the_column_of_the_key_is_a_fault_with_its_line(tmp_path: Path) -> None:
    later = [record(N, label="A"), record(N + 1, answer="B")]
    with refuses("missing-field") as refusal:
        of(tmp_path / "q.jsonl", False, *later)
    assert str(refusal.value).startswith(f"q.jsonl:{N + 1}: ")
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
