"""Items without options: the route by the key's length, the reasons for leaving one out, rows that read back."""

import json
from pathlib import Path

import pytest

from robustify.base.errors import DataError
from robustify.freeform.questions import convert_item, route
from robustify.freeform.schema import (
    SCHEMA,
    AnswerRow,
    Attempt,
    FreeItem,
    GradeResult,
    JudgeTrace,
    Nugget,
    NuggetGrade,
    grade_from,
)
from robustify.items.item import Item
from robustify.reading.jsonl import read_jsonl, write_rows
from tests.support.cases import cases


@pytest.mark.parametrize(("reference", "kind"), cases("free", "convert_routes"))
def test_the_key_s_length_chooses_the_kind(reference: str, kind: str) -> None:
    assert route(reference) == kind


LONG = "a text of more than twelve words that says at some length why it rains"
REASONS = cases("free", "convert_reasons")


@pytest.mark.parametrize(("stem", "choices", "reason"), REASONS)
def test_what_cannot_be_asked_has_a_reason(stem: str, choices: tuple[str, ...], reason: str) -> None:
    assert convert_item(Item("i", stem, choices, 0)).excluded_reason == reason


def test_explanations_are_asked_when_they_are_wanted() -> None:
    item = Item("i", "Why does it rain?", (LONG, "because"), 0, "weather", group="g")
    free = convert_item(item, explanations=True)
    assert (free.kind, free.excluded_reason) == ("explanation", "")
    assert (free.options, free.correct, free.topic, free.group) == (item.choices, 0, "weather", "g")


def trace() -> JudgeTrace:
    attempt = Attempt(0, "p", "r", None, "stop", {"total_tokens": 5})
    return JudgeTrace("judge", "grader/mcq@2.0", "d", (attempt,), ("correct", None), 0.5, False)


def test_grades_read_back_from_json() -> None:
    grade = GradeResult(
        "i", "m", "nuggets", "nuggets/1", "scored", 1.0, "correct", "judge", "judge", "so", "so", ("f",), None, None,
        None, trace(), (NuggetGrade("n", "vital", "support"),), {"vital": 1.0}, "g",
    )  # fmt: skip
    told = json.loads(json.dumps(grade.json()))
    assert grade_from(told | {"answer": "so"}) == grade
    assert told["schema"] == SCHEMA
    for bad in ({"schema": "other"}, {"status": "poem"}, {"judge": {"model": "secret words"}}):
        with pytest.raises(DataError) as caught:
            grade_from(told | bad)
        assert "secret" not in str(caught.value)


def test_a_repr_holds_no_text() -> None:
    item = FreeItem("i", "Secret?", "short_text", "hidden", nuggets=(Nugget("n", "Hidden fact."),))
    grade = GradeResult(
        "i", "m", "short_text", "g", "scored", 1.0, "correct", "equal", extracted="hidden", reference="hidden"
    )
    for thing in (item, item.nuggets[0], AnswerRow("i", "m", "hidden"), grade):
        assert "idden" not in repr(thing)


def test_an_item_without_an_id_or_question_is_refused() -> None:
    for name, question in (("", "q"), ("i", " ")):
        with pytest.raises(DataError):
            FreeItem(name, question, "numeric", "1")


def test_an_unscored_grade_has_no_score() -> None:
    for status, score in (("grader_error", 0.0), ("scored", None)):
        with pytest.raises(DataError, match="cannot have score"):
            GradeResult("i", "m", "numeric", "g", status, score, None, "r")


def test_a_damaged_line_refuses_the_file_and_names_every_fault(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"n": 1}\nsecret words\n[1]\n{"n": 2}\n', encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_jsonl(path, dict)
    assert [line.split(": ")[0] for line in caught.value.lines] == ["rows.jsonl:2", "rows.jsonl:3"]
    assert "secret" not in str(caught.value)
    with pytest.raises(DataError, match="cannot be read"):
        read_jsonl(tmp_path, dict)
    write_rows(path, [{"n": 5}])
    assert read_jsonl(path, dict) == [{"n": 5}]
