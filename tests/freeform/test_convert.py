"""Items without options: the route by the key's length, the reasons for leaving one out, rows that read back."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from robustify.errors import DataError
from robustify.freeform.jsonl import appending, read_jsonl, write_rows
from robustify.freeform.questions import convert_item, exclusions, route
from robustify.freeform.schema import (
    SCHEMA,
    AnswerRow,
    Attempt,
    FreeItem,
    GradeResult,
    JudgeTrace,
    Nugget,
    NuggetGrade,
    answer_from,
    grade_from,
    item_from,
)
from robustify.item import Item

ROUTES = [
    ("42", "numeric", ()),
    ("3.5 km", "numeric", ()),
    ("x = 7", "numeric", ("small_count",)),
    ("0", "numeric", ("zero_reference_needs_abs",)),
    ("12", "numeric", ("small_count",)),
    ("120", "numeric", ()),
    ("20 %", "numeric", ()),
    ("5 apples", "short_text", ()),
    ("mitochondria", "short_text", ()),
    ("one two three four five", "short_text", ()),
    ("one two three four five six", "short_text", ("check_unique",)),
    (" ".join(["word"] * 12), "short_text", ("check_unique",)),
    (" ".join(["word"] * 13), "explanation", ()),
]


@pytest.mark.parametrize(("reference", "kind", "flags"), ROUTES)
def test_the_key_s_length_chooses_the_kind(reference: str, kind: str, flags: tuple[str, ...]) -> None:
    assert route(reference) == (kind, flags)


LONG = "a text of more than twelve words that says at some length why it rains"
REASONS = [
    ("What colour is grass?", ("green", "red"), ""),
    ("Which of the following is green?", ("grass", "coal"), "stem_refers_to_choices"),
    ("Which animal is NOT a bird?", ("a bat", "a crow"), "negative_stem"),
    ("The colour of grass is", ("green", "red"), "incomplete_stem"),
    ("What colours has grass?", ("both A and B", "red"), "cross_reference"),
    ("What colours has grass?", ("green", "all of the above"), ""),
    ("Why does it rain?", (LONG, "because"), "long_answer"),
]


@pytest.mark.parametrize(("stem", "choices", "reason"), REASONS)
def test_what_cannot_be_asked_has_a_reason(stem: str, choices: tuple[str, ...], reason: str) -> None:
    assert convert_item(Item("i", stem, choices, 0)).excluded_reason == reason


def test_explanations_are_asked_when_they_are_wanted() -> None:
    item = Item("i", "Why does it rain?", (LONG, "because"), 0, "weather", "g")
    free = convert_item(item, explanations=True, restricted=True)
    assert (free.kind, free.excluded_reason, free.restricted) == ("explanation", "", True)
    assert (free.options, free.correct, free.topic, free.group) == (item.choices, 0, "weather", "g")


def test_every_exclusion_is_counted_by_topic() -> None:
    items = [Item(f"i{n}", r[0], r[1], 0, "t" if n % 2 else "u") for n, r in enumerate(REASONS)]
    told = exclusions(map(convert_item, items))
    assert told["n"] == told["asked"] + sum(told["excluded"].values()) == len(REASONS)
    assert sum(told["kinds"].values()) == told["asked"]
    for name in ("n", "asked"):
        assert sum(t[name] for t in told["topics"].values()) == told[name]


def trace() -> JudgeTrace:
    attempt = Attempt("k", 0, "p", "r", None, "stop", {"total_tokens": 5})
    return JudgeTrace("judge", "grader/mcq@2.0", "d", (attempt,), ("correct", None), 0.5, False)


def test_rows_read_back_from_json() -> None:
    facts = (Nugget("n", "It rains."),)
    item = FreeItem("i", "Why?", "short_text", "so", options=("so", "no"), correct=0, nuggets=facts)
    answer = AnswerRow("i", "m", "so", "answer/short@2.0", "d", "p", {"max_tokens": 8})
    grade = GradeResult(
        "i", "m", "nuggets", "nuggets/1", "scored", 1.0, "correct", "judge", "judge", "so", "so", ("f",), None, None,
        None, trace(), (NuggetGrade("n", "vital", "support"),), {"vital": 1.0}, "key", "sha", "g",
    )  # fmt: skip
    assert item_from(json.loads(json.dumps(asdict(item)))) == item
    assert answer_from(json.loads(json.dumps(asdict(answer)))) == answer
    assert grade_from(json.loads(json.dumps(grade.json()))) == grade
    assert grade.json()["schema"] == SCHEMA


def test_a_repr_holds_no_text() -> None:
    item = FreeItem("i", "Secret?", "short_text", "hidden", nuggets=(Nugget("n", "Hidden fact."),))
    grade = GradeResult(
        "i", "m", "short_text", "g", "scored", 1.0, "correct", "equal", extracted="hidden", reference="hidden"
    )
    for thing in (item, item.nuggets[0], AnswerRow("i", "m", "hidden", "t", "d", "p"), grade):
        assert "idden" not in repr(thing)


BAD_ITEMS = [
    {"id": "", "question": "q", "kind": "numeric", "reference": "1"},
    {"id": "i", "question": " ", "kind": "numeric", "reference": "1"},
    {"id": "i", "question": "q", "kind": "poem", "reference": "1"},
    {"id": "i", "question": "q", "kind": "numeric", "reference": "1", "options": ["a"], "correct": 3},
    {"id": "i", "question": "q", "kind": "numeric"},
    {"id": "i", "question": "q", "kind": "numeric", "reference": "1", "extra": 1},
    {"id": "i", "question": "q", "kind": "explanation", "reference": "r", "nuggets": [{"id": "n", "text": ""}]},
    {"id": "i", "question": "q", "kind": "explanation", "reference": "r", "nuggets": [{"id": "n", "text": "x " * 41}]},
]  # fmt: skip


@pytest.mark.parametrize("row", BAD_ITEMS)
def test_a_bad_item_is_refused_without_its_text(row: dict[str, object]) -> None:
    with pytest.raises(DataError):
        item_from(row | {"restricted": False})


def test_an_unscored_grade_has_no_score() -> None:
    for status, score in (("grader_error", 0.0), ("scored", None)):
        with pytest.raises(DataError, match="does not go with score"):
            GradeResult("i", "m", "numeric", "g", status, score, None, "r")


@pytest.mark.parametrize(("left", "kept"), [('{"n": 2, "cut', [1]), ('{"n": 2}', [1, 2])])
def test_rows_are_appended_after_what_a_kill_left(tmp_path: Path, left: str, kept: list[int]) -> None:
    path = tmp_path / "rows.jsonl"
    with appending(path) as append:
        append({"n": 1})
    with open(path, "a", encoding="utf-8") as file:
        file.write(left)
    assert [row["n"] for row in read_jsonl(path, dict)] == kept
    with appending(path) as append:
        append({"n": 3, "text": "ü\ud800"})
    assert [row["n"] for row in read_jsonl(path, dict)] == [*kept, 3]


def test_a_damaged_line_refuses_the_file_and_names_every_fault(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"n": 1}\nsecret words\n[1]\n{"n": 2}\n', encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_jsonl(path, dict)
    assert [line.split(": ")[0] for line in caught.value.lines] == ["rows.jsonl:2", "rows.jsonl:3"]
    assert "secret" not in str(caught.value)
    with pytest.raises(DataError, match="cannot be read"):
        read_jsonl(tmp_path / "absent.jsonl", dict)
    write_rows(path, [{"n": 5}])
    assert read_jsonl(path, dict) == [{"n": 5}]
