"""Rows of other evaluations: what is read from which field, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import AuthorisationError, DataError
from robustify.freeform.free_run import prompt_of
from robustify.freeform.questions import read_items, read_nugget_rows, read_predictions, with_facts
from robustify.freeform.schema import FreeSettings
from robustify.wings import GUARD
from tests.freeform.scripted import QUESTIONS, SHOWN
from tests.support.fake_logs import jsonl

# ---- questions and predictions ----


def test_questions_with_a_type_are_read_and_their_options_are_shown_again(tmp_path: Path) -> None:
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(QUESTIONS, indent=1))
    mcq, numeric, explanation = read_items(path, GUARD)
    assert (mcq.kind, mcq.options, mcq.correct) == ("short_text", ("stone", "green", "loud"), 1)
    assert (mcq.options_shown, mcq.question, mcq.asked) == (True, "Which of these is a colour?", SHOWN)
    assert (numeric.kind, numeric.reference, numeric.unit) == ("numeric", "8", "m")
    assert numeric.asked == numeric.question
    assert (explanation.kind, explanation.topic) == ("explanation", "light")
    assert "Output only the option letter." in prompt_of(mcq, FreeSettings())
    assert read_items(jsonl(tmp_path / "q.jsonl", QUESTIONS), GUARD) == [mcq, numeric, explanation]


OPTIONS = [
    ("A. stone\nB. green", ("stone", "green")),
    ("A) stone\nB) green\nC) loud", ("stone", "green", "loud")),
    ("Is (A) in the text? (A) stone (B) green", ("stone", "green")),
    ("(A) stone (C) green", ()),
    ("Only (A) here", ()),
]


def test_numbered_parts_of_an_open_question_are_no_options(tmp_path: Path) -> None:
    for text in ("1. water\n2. fire", "(a) water\n(b) fire", "i) water\nii) fire"):
        row = {"id": 1, "question": f"Which are wet?\n{text}", "answer": "only the first"}
        assert read_items(jsonl(tmp_path / "q.jsonl", [row]), GUARD)[0].options == ()
        listed = jsonl(tmp_path / "q.jsonl", [{**row, "type": "mcq", "answer": "water"}])
        assert read_items(listed, GUARD)[0].options == ("water", "fire")


@pytest.mark.parametrize(("text", "options"), OPTIONS)
def test_options_are_found_in_a_question(tmp_path: Path, text: str, options: tuple[str, ...]) -> None:
    row = {"id": 1, "type": "mcq", "question": f"Which?\n{text}", "answer": "B"}
    path = jsonl(tmp_path / "q.jsonl", [row])
    if not options:
        with pytest.raises(
            DataError, match=r"q\.jsonl:1: The answer names none .* Expected options as \(A\)"
        ):
            read_items(path, GUARD)
        return
    assert read_items(path, GUARD)[0].options == options
    own = row | {"question": "Which?", "options": list(options), "answer": options[0]}
    assert read_items(jsonl(path, [own]), GUARD)[0].correct == 0


def test_predictions_are_read_from_a_table_and_from_lines(tmp_path: Path) -> None:
    table = tmp_path / "p.csv"
    table.write_text('config,question_id,type,predicted,correct\nBase,1,mcq,"two\nlines",B\nTuned,1,mcq,,B\n')
    assert [(a.item_id, a.model, a.text) for a in read_predictions([table], [])] == [
        ("1", "Base", "two\nlines"),
        ("1", "Tuned", ""),
    ]
    lines = jsonl(tmp_path / "p.jsonl", [{"id": 2, "text": "8 m", "finish_reason": "length"}])
    (answer,) = read_predictions([lines], [])
    assert (answer.item_id, answer.model, answer.finish_reason) == ("2", "model", "length")
    with pytest.raises(DataError, match="field `prediction` is missing"):
        read_predictions([jsonl(tmp_path / "p.jsonl", [{"id": 2, "said": "8 m"}])], [])


def test_rows_of_a_restricted_set_come_in_by_its_adapter_alone(tmp_path: Path) -> None:
    for row in ({**QUESTIONS[1], "id": "rb1_x"}, {**QUESTIONS[1], "restricted": True, "id": "rb1_x"}):
        with pytest.raises((AuthorisationError, DataError)):
            read_items(jsonl(tmp_path / "q.jsonl", [row]), GUARD)
    nuggets = {"query": "Why?", "passage": "so", "nuggets": ["a"], "restricted": True}
    with pytest.raises(AuthorisationError):
        read_nugget_rows(jsonl(tmp_path / "n.jsonl", [nuggets]), GUARD)


# ---- passages and their nuggets ----


def test_passages_of_one_query_belong_together(tmp_path: Path) -> None:
    rows = [
        {"query": "Why does it rain?", "passage": "Clouds cool.", "nuggets": ["Clouds cool.", "Drops fall."]},
        {
            "qid": "q2", "query": "What is tea?", "passage": "Leaves in water.",
            "nuggets": [{"text": "Tea has leaves.", "importance": "vital"}, {"text": "Tea is hot.", "importance": "okay"}],
        },
        {"qid": "q2", "query": "What is tea?", "passage": "Hot.", "nuggets": ["Tea is hot."]},
        {"query": "Why?", "passage": "So.", "nuggets": []},
    ]  # fmt: skip
    found = read_nugget_rows(jsonl(tmp_path / "rows.jsonl", rows), GUARD)
    sizes = [(i.id, i.group, len(i.nuggets)) for i in found.items]
    assert sizes == [("row1", "row1", 2), ("q2", "q2", 2), ("q2#2", "q2", 1)]
    assert [n.importance for n in found.items[1].nuggets] == ["vital", "okay"]
    assert [a.text for a in found.answers] == ["Clouds cool.", "Leaves in water.", "Hot."]
    assert found.left_out == {"no_nuggets": 1}


def test_two_models_answer_one_query(tmp_path: Path) -> None:
    row = {"qid": "q", "query": "Why?", "passage": "so", "nuggets": ["a fact"]}
    rows = [{**row, "model": "a"}, {**row, "model": "b"}]
    found = read_nugget_rows(jsonl(tmp_path / "rows.jsonl", rows), GUARD)
    assert [item.id for item in found.items] == ["q"]
    assert [(a.item_id, a.model) for a in found.answers] == [("q", "a"), ("q", "b")]
    rows[1]["nuggets"] = ["another fact"]
    with pytest.raises(DataError, match="query or nuggets differ"):
        read_nugget_rows(jsonl(tmp_path / "rows.jsonl", rows), GUARD)


ROW: dict[str, Any] = {"query": "Why?", "passage": "so", "nuggets": ["Clouds cool.", "Drops fall."]}
BAD_ROWS: list[tuple[Any, dict[str, Any], dict[str, Any], str]] = [
    *((read_items, QUESTIONS[1], *one) for one in (
        ({"id": None}, "`id` is missing"), ({"question": None}, "`question` is missing"),
        ({"answer": None}, "`answer` is missing"),
        ({"question": ["How", "far?"]}, "`question` is neither text"), ({"aliases": 5}, "`aliases` is not a list"),
        ({"type": "mcq", "question": SHOWN, "answer": "E"}, "names none"), ({"options": "ab"}, "`options` is not"),
    )),
    *((read_nugget_rows, ROW, *one) for one in (
        ({"nuggets": None}, "`nuggets` is missing"), ({"nuggets": "Clouds cool."}, "`nuggets` is not a list"),
        ({"nuggets": [["a"]]}, "`text` is neither text"), ({"nuggets": ["word " * 41]}, "41 words"),
        ({"nuggets": [{"text": "a", "importance": "big"}]}, "Expected vital or okay"),
        ({"nuggets": ["Clouds cool.", "The clouds cool"]}, "repeat words"),
        ({"nuggets": [{"id": "a", "text": "Hot."}, {"id": "a", "text": "Cold."}]}, "an ID"),
        ({"query": None}, "`query` is missing"), ({"passage": None}, "`passage` is missing"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "row", "change", "words"), BAD_ROWS)
def test_a_row_that_does_not_fit_is_refused_by_its_line(
    tmp_path: Path, reader: Any, row: dict[str, Any], change: dict[str, Any], words: str
) -> None:
    changed = {k: v for k, v in {**row, **change}.items() if v is not None}
    with pytest.raises(DataError, match=rf"rows\.jsonl:2: .*{words}") as caught:
        reader(jsonl(tmp_path / "rows.jsonl", [row, changed]), GUARD)
    assert "colour" not in str(caught.value)


def test_nuggets_belong_to_the_items_of_their_ids(tmp_path: Path) -> None:
    row = {"id": "a", "stem": "Why does it rain?", "choices": ["Drops fall.", "Nobody knows."], "key": 0}
    items = read_items(jsonl(tmp_path / "data.jsonl", [row, row | {"id": "b"}]), GUARD)
    facts = jsonl(tmp_path / "facts.jsonl", [{"id": "a", "nuggets": ROW["nuggets"]}])
    found = with_facts(items, facts)
    assert [[n.text for n in item.nuggets] for item in found] == [ROW["nuggets"], []]
    with pytest.raises(DataError, match="1 unknown item ID"):
        with_facts(items[1:], facts)
