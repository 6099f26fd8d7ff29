"""What all rows of a file decide together, frames and other data from Python, and what every command says of a file.

The questions have the right answers blue, four and oak.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from robustify.base.errors import DataError, RobustifyError
from robustify.reading.loaders import FieldMap, notes
from tests.reading.loaders.made import (
    Made,
    Row,
    index,
    letter,
    lines,
    listed,
    loaded,
    number,
    right,
    table,
    text,
)

MADE = Made(
    ("Which colour?", "How many legs?", "Which tree?"),
    (("red", "green", "blue", "grey"), ("two", "three", "four", "five"), ("oak", "elm", "fir", "ash")),
    (2, 2, 0),
)
RIGHT, rows, spread = MADE.right, MADE.rows, MADE.spread
CSV = table(spread("ABCD", answer=letter))
NUMBERS = [
    {"question": f"{q} + 1?", "Option 1": "3", "Option 2": "4", "Option 3": "5", "Option 4": "6", "answer": a}
    for q, a in (("2", "3"), ("3", "4"))
]
AS_LABELS = {**NUMBERS[0], "Option 1": "six", "Option 2": "seven", "answer": "2"}
AS_TEXTS = {**NUMBERS[0], "Option 1": "30", "answer": "30"}
LIST = [{"question": f"{n}?", "choices": ["2", "3", "0", "1"], "answer": n} for n in range(4)]


def test_a_passage_from_the_second_row_on_is_read(tmp_path: Path) -> None:
    first, *more = rows(options=listed, answer=letter)
    found = loaded(tmp_path / "x", [first, *({**row, "passage": "P."} for row in more)])
    assert right(found) == RIGHT
    assert [item.stem.startswith("P.") for item in found.items] == [False, True, True]


@pytest.mark.parametrize(
    ("content", "reason", "keys"),
    [
        (table(NUMBERS), "choice 3 as label, choice 1 as text", ["3", "4"]),
        (lines(LIST), "the key is ambiguous", ["0", "1", "2", "3"]),
    ],
)
def test_numbers_that_are_texts_are_read_as_texts_where_that_is_said(
    tmp_path: Path, content: str, reason: str, keys: list[str]
) -> None:
    with pytest.raises(DataError, match=reason):
        loaded(tmp_path / "x", content)
    assert right(loaded(tmp_path / "x", content, fields=FieldMap(key_is="text"))) == keys


@pytest.mark.parametrize(
    ("found", "keys"),
    [
        ([*NUMBERS, AS_LABELS], ["5", "6", "seven"]),
        ([*NUMBERS, AS_TEXTS], ["3", "4", "30"]),
        ([*LIST, {"question": "?", "choices": ["x", "y"], "answer": 1}], ["2", "3", "0", "1", "y"]),
        ([*LIST, {"question": "?", "choices": ["10", "20"], "answer": "10"}], ["0", "1", "2", "3", "10"]),
    ],
    ids=["labels", "texts", "indexes", "texts of a list"],
)
def test_all_other_rows_decide_how_a_key_is_read(
    tmp_path: Path, found: Sequence[Row], keys: list[str]
) -> None:
    assert right(loaded(tmp_path / "x", found)) == keys


def test_rows_that_decide_differently_decide_nothing(tmp_path: Path) -> None:
    found = [*NUMBERS, AS_LABELS, AS_TEXTS]
    with pytest.raises(DataError, match="the key is ambiguous"):
        loaded(tmp_path / "x", found)
    assert loaded(tmp_path / "x", found, fields=FieldMap(key_is="label"), skip_bad=True).items


def test_frames_with_gaps_keep_their_options_and_keys() -> None:
    pd = pytest.importorskip("pandas")
    import robustify as rb

    found = spread("ABCD", answer=lambda o, k: float(k))
    frame = pd.DataFrame([{**row, "E": (None, "none", float("nan"))[at]} for at, row in enumerate(found)])
    for one in (
        frame,
        frame.convert_dtypes(),
        frame.assign(options=[list("xyz")] * 3).drop(columns="options"),
    ):
        assert rb.heuristics(one).attrs["chance_accuracy"] == pytest.approx((2 / 4 + 1 / 5) / 3)
    lists = pd.DataFrame(rows(options=listed, answer=text))
    assert rb.heuristics(lists.assign(options=lists["options"].map(pd.array))).attrs["n"] == 3


def test_keys_that_are_never_the_last_number_of_an_option_are_noted(tmp_path: Path) -> None:
    found = spread([f"Option {n}" for n in range(1, 5)], answer=number)
    for rows_, noted in ((found, True), ([*found, {**found[0], "question": "?", "answer": 4}], False)):
        said = notes(loaded(tmp_path / "x", table(rows_)))
        assert any("no key is the number of the last option" in note for note in said) == noted


def test_what_a_file_says_oddly_is_said_by_every_command(robustify, tmp_path: Path) -> None:
    found = rows(choices=listed, key=lambda o, k: 2)
    shown = [
        {**row, "id": f"{n}{at}", "stem": f"{row['question']} {n}"}
        for n in range(4)
        for at, row in enumerate(found)
    ]
    (tmp_path / "odd.jsonl").write_text(lines(shown), encoding="utf-8")
    for command in ("validate odd.jsonl", "heuristics odd.jsonl", "odd.jsonl --public -o run"):
        _, out, err = robustify(*command.split())
        assert "no key is 0: if keys count from 1" in out + err
    assert "no key is 0" in (tmp_path / "run" / "report.html").read_text("utf-8")


@pytest.mark.parametrize("data", [{"question": ["a"]}, None, 42, [1, 2], [], "\0", 4.5, [None], {"question"}])
def test_what_is_no_data_is_a_typed_error(data: object) -> None:
    import robustify as rb

    with pytest.raises(RobustifyError):
        rb.heuristics(data)  # type: ignore[arg-type]


def test_rows_of_the_dataset_viewer_and_empty_rows_of_a_spreadsheet(tmp_path: Path) -> None:
    viewer = {
        "features": [{"feature_idx": 0, "name": "question"}],
        "rows": [{"row_idx": n, "row": row} for n, row in enumerate(rows(options=listed, answer=index))],
    }
    for content in (json.dumps(viewer), f"{CSV},,,,,\n,,,,,\n"):
        assert right(loaded(tmp_path / "x", content)) == RIGHT
    with pytest.raises(DataError, match=r"x:3: "):
        loaded(tmp_path / "x", CSV.replace("\n", "\n,,,,,\n", 2).replace(",,,,,\n", "", 1))


def test_objects_of_rows_or_of_columns_are_read(tmp_path: Path) -> None:
    asked = rows(options=listed, answer=index)
    by_id = {f"q{n}": row for n, row in enumerate(asked)}
    columns = {name: {str(n): row[name] for n, row in enumerate(asked)} for name in asked[0]}
    for tree in (by_id, columns):
        assert right(loaded(tmp_path / "x", json.dumps(tree))) == RIGHT
    assert [item.id for item in loaded(tmp_path / "x", json.dumps(by_id)).items] == ["q0", "q1", "q2"]
