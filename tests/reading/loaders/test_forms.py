"""Forms in which people write items: every key is right, or the file is refused by name and its mend works.

Each form has three questions whose right answers are blue, four and oak; what is wrong silently fails here.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import DataError, RobustifyError
from robustify.cli.data import mapped
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
ASKED, OPTIONS, KEYS, RIGHT, rows, spread = (
    MADE.asked, MADE.options, MADE.keys, MADE.right, MADE.rows, MADE.spread,
)  # fmt: skip


def wrong(options: Sequence[str], key: int) -> list[str]:
    return [option for at, option in enumerate(options) if at != key]


def flagged(name: str, flag: str, *said: object) -> Any:
    return lambda o, k: [{name: one, flag: said[at == k]} for at, one in enumerate(o)]


def joined(mark: str, label: str = "{}) ") -> Any:
    return lambda o, _: mark.join(label.format("ABCD"[at]) + one for at, one in enumerate(o))


def other(options: Sequence[str], key: int) -> str:
    return options[(key + 1) % 4]


READ: dict[str, str] = {
    "labelled, between bars": table(rows(options=joined(" | "), answer=letter)),
    "labelled, on lines": table(rows(options=joined("\n"), answer=letter)),
    "labelled, in a row": table(rows(options=joined(" ", "({}) "), answer=letter)),
    "unlabelled, between semicolons": table(rows(options=joined("; ", ""), answer=letter)),
    "unlabelled, between bars, the text as key": table(rows(options=joined("|", ""), answer=text)),
    "correct as 0 and 1": lines(rows(options=flagged("option", "is_correct", 0, 1))),
    "marks that agree with a key": lines(rows(options=flagged("text", "correct", "no", "yes"), answer=letter)),
    "answer and distractors": lines(rows(answer=text, distractors=wrong)),
    "label and text as key": table(spread("ABCD", answer=lambda o, k: f"{'ABCD'[k]}) {o[k]}")),
    "the text in another case": table(spread("ABCD", answer=lambda o, k: o[k].upper())),
    "numbers with a point": table(spread("ABCD", answer=lambda o, k: f"{k}.0")),
    "shuffled labels of objects": lines(rows(options=lambda o, _: [{"id": "DCBA"[at], "text": one} for at,
        one in enumerate(o)], answer=lambda o, k: "DCBA"[k])),
    "the correct answer beside a student's": table(
        spread("ABCD", Answer=lambda *_: "B", **{"Correct Answer": letter})
    ),
    "the correct option beside a label": table(spread("ABCD", label=lambda *_: 1, correct_option=letter)),
    "right or not beside the key": table(spread("ABCD", answer=letter, correct=lambda *_: "True")),
    "a fifth option from the second row on": lines([spread("ABCD", answer=letter)[0], *({**row,
        "E": "none"} for row in spread("ABCD", answer=letter)[1:])]),
    "a passage from the second row on": lines([rows(options=listed, answer=letter)[0], *({**row,
        "passage": "P."} for row in rows(options=listed, answer=letter)[1:])]),
}  # fmt: skip


@pytest.mark.parametrize("form", READ)
def test_every_key_is_right(tmp_path: Path, form: str) -> None:
    found = loaded(tmp_path / "x", READ[form])
    assert right(found) == RIGHT
    if "fifth" in form:
        assert [item.k for item in found.items] == [4, 5, 5]
    if "passage" in form:
        assert [item.stem.startswith("P.") for item in found.items] == [False, True, True]


CSV = table(spread("ABCD", answer=letter))
QUIZ = "is a quiz export"
AIKEN = "Which colour?\nA. red\nB. green\nC. blue\nD. grey\nANSWER: C\n\n" * 3
GIFT = "::Q::Which colour? {~red ~green =blue ~grey}\n\n" * 3
NUMBERS = [
    {"question": f"{q} + 1?", "Option 1": "3", "Option 2": "4", "Option 3": "5", "Option 4": "6", "answer": a}
    for q, a in (("2", "3"), ("3", "4"))
]
AS_LABELS = {**NUMBERS[0], "Option 1": "six", "Option 2": "seven", "answer": "2"}
AS_TEXTS = {**NUMBERS[0], "Option 1": "30", "answer": "30"}
LIST = [{"question": f"{n}?", "choices": ["2", "3", "0", "1"], "answer": n} for n in range(4)]
REFUSED: dict[str, tuple[str, str, dict[str, str] | str, list[str]]] = {
    "Aiken": (AIKEN, QUIZ, CSV, RIGHT),
    "GIFT": (GIFT, QUIZ, CSV, RIGHT),
    "Moodle XML": ('<?xml version="1.0"?>\n<quiz><question type="multichoice"></question></quiz>', QUIZ, CSV, RIGHT),
    "a title above the header": (f"My quiz, spring\n\n{CSV}", "the header is on line 3", CSV, RIGHT),
    "a title in a cell": (f'"My quiz";;;;;\n{CSV.replace(",", ";")}', "the header is on line 2", CSV, RIGHT),
    "labels that are texts of other options": (table(NUMBERS), "choice 3 as label, choice 1 as text",
        {"key_is": "text"}, ["3", "4"]),
    "integers that are texts": (lines(LIST), "the key is ambiguous", {"key_is": "text"}, ["0", "1", "2", "3"]),
    "rival keys that differ": (table(spread("ABCD", answer=letter, label=lambda *_: "A")),
        "`answer` names choice 3, but `label` names choice 1", {"key": "answer"}, RIGHT),
    "a flag beside the key": (table(spread("ABCD", answer=letter, correct=lambda *_: 1)), "`correct` names choice 1",
        {"key": "answer"}, RIGHT),
    "a student's letter beside an index": (lines([{**row, "options": [{"label": str(n), "text": one} for n,
        one in enumerate(o, 1)]} for row, o in zip(rows(label=lambda *_: "B", correct=index), OPTIONS, strict=True)]),
        "`label` names choice 2, but `correct` names choice 1", {"key": "correct", "key_is": "index"}, RIGHT),
    "a student's letter beside a key from 1": (table(spread("ABCD", label=lambda *_: "B", correct=number)),
        "`label` names choice 2, but `correct` names choice 3", {"key": "correct", "key_is": "number"}, RIGHT),
    "marks that contradict the key": (
        lines(rows(options=flagged("text", "correct", False, True), answer=lambda *_: "A")),
        "the mark in the choices names choice 3",
        lines(rows(options=flagged("text", "correct", False, True))),
        RIGHT,
    ),
    "two marked": (lines(rows(options=flagged("text", "correct", True, True))),
        "the item has several right answers (4 are named)", CSV, RIGHT),
    "letters of one of two scripts": (table(spread("ABCD", answer=lambda o, k: "АБВГ"[k])),
        "the key is ambiguous (mark of several alphabets)", CSV, RIGHT),
    "a separator inside an option": (table(rows(options=joined("; ", ""), answer=letter)).replace("three",
        "three; or so"), "Put each option in its own column", CSV, RIGHT),
    "two separators": (table([*rows(options=joined("; ", ""), answer=letter)[:2], *rows(options=joined("|", ""),
        answer=letter)[2:]]), "Put each option in its own column", CSV, RIGHT),
    "a label and another's text": (table(spread("ABCD", answer=lambda o, k: f"{'ABCD'[k - 1]}) {o[k]}")),
        "the key is ambiguous", CSV, RIGHT),
    "columns from 1, keys from 0": (table(spread([f"option{n}" for n in range(1, 5)], answer=index)),
        "--map key_is=index", {"key_is": "index"}, RIGHT),
    "no prompt beside chosen": (lines([{"chosen": "a", "rejected": "b"}]), "the replies have no prompt",
        lines(rows(chosen=text, rejected=lambda o, k: "x")), RIGHT),
}  # fmt: skip


@pytest.mark.parametrize("form", REFUSED)
def test_what_is_refused_names_itself_and_its_mend_works(tmp_path: Path, form: str) -> None:
    content, reason, mend, expected = REFUSED[form]
    path = tmp_path / "x"
    with pytest.raises(DataError) as caught:
        loaded(path, content)
    assert reason in caught.value.lines[0]
    assert not any(word in str(caught.value) for word in (*RIGHT, "legs", "quiz, spring"))
    mended = mend if isinstance(mend, str) else content
    said = (
        {} if isinstance(mend, str) else {"fields": mapped([f"{part}={name}" for part, name in mend.items()])}
    )
    assert right(loaded(path, mended, **said)) == expected


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
