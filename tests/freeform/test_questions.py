"""Open-ended questions: items without their options, rows of other evaluations, and what is refused."""

import gzip
import json
from pathlib import Path

import pytest

from robustify.freeform import questions
from robustify.freeform.free_run import prompt_of
from robustify.items.item import Item
from robustify.pipeline.free_settings import FreeSettings
from robustify.wings import GUARD
from tests.freeform.scripted import QUESTIONS, SHOWN
from tests.support.cases import Fields, cases, refuses
from tests.support.fake_logs import jsonl

LONG = "a text of more than twelve words that says at some length why it rains"
NUGGETS: Fields = {"query": "Why?", "passage": "so", "nuggets": ["Clouds cool.", "Drops fall."]}


@pytest.mark.parametrize(("reference", "kind"), cases("free", "convert_routes"))
def test_the_key_s_length_chooses_the_kind(reference: str, kind: str) -> None:
    assert questions.route(reference) == kind


@pytest.mark.parametrize(("stem", "choices", "reason"), cases("free", "convert_reasons"))
def test_what_cannot_be_asked_has_a_reason(stem: str, choices: list[str], reason: str) -> None:
    assert questions.convert_item(Item("i", stem, tuple(choices), 0)).excluded_reason == reason


def test_explanations_are_asked_when_they_are_wanted() -> None:
    item = Item("i", "Why does it rain?", (LONG, "because"), 0, "weather", group="g")
    free = questions.convert_item(item, explanations=True)
    assert (free.kind, free.excluded_reason) == ("explanation", "")
    assert (free.options, free.correct, free.topic, free.group) == (item.choices, 0, "weather", "g")


def test_questions_with_a_type_are_read_and_their_options_are_shown_again(tmp_path: Path) -> None:
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(QUESTIONS, indent=1))
    mcq, numeric, explanation = questions.read_items(path, GUARD)
    assert (mcq.kind, mcq.options, mcq.correct) == ("short_text", ("stone", "green", "loud"), 1)
    assert (mcq.options_shown, mcq.question, mcq.asked) == (True, "Which of these is a colour?", SHOWN)
    assert (numeric.kind, numeric.reference, numeric.unit) == ("numeric", "8", "m")
    assert numeric.asked == numeric.question
    assert (explanation.kind, explanation.topic) == ("explanation", "light")
    assert "Output only the option letter." in prompt_of(mcq, FreeSettings())
    assert questions.read_items(jsonl(tmp_path / "q.jsonl", QUESTIONS), GUARD) == [mcq, numeric, explanation]


@pytest.mark.parametrize("text", ["1. water\n2. fire", "(a) water\n(b) fire", "i) water\nii) fire"])
def test_numbered_parts_of_an_open_question_are_no_options(tmp_path: Path, text: str) -> None:
    row = {"id": 1, "question": f"Which are wet?\n{text}", "answer": "only the first"}
    assert questions.read_items(jsonl(tmp_path / "q.jsonl", [row]), GUARD)[0].options == ()
    listed = jsonl(tmp_path / "q.jsonl", [{**row, "type": "mcq", "answer": "water"}])
    assert questions.read_items(listed, GUARD)[0].options == ("water", "fire")


@pytest.mark.parametrize(("text", "options"), cases("free", "rows_options"))
def test_options_are_found_in_a_question(tmp_path: Path, text: str, options: list[str]) -> None:
    row = {"id": 1, "type": "mcq", "question": f"Which?\n{text}", "answer": "B"}
    path = jsonl(tmp_path / "q.jsonl", [row])
    if not options:
        with refuses("answer-names-no-option"):
            questions.read_items(path, GUARD)
        return
    assert [*questions.read_items(path, GUARD)[0].options] == options
    own = row | {"question": "Which?", "options": options, "answer": options[0]}
    assert questions.read_items(jsonl(path, [own]), GUARD)[0].correct == 0


def test_predictions_are_read_from_a_table_and_from_lines(tmp_path: Path) -> None:
    table = tmp_path / "p.csv"
    table.write_text('config,question_id,type,predicted,correct\nBase,1,mcq,"two\nlines",B\nTuned,1,mcq,,B\n')
    read = [(a.item_id, a.model, a.text) for a in questions.read_predictions([table], [])]
    assert read == [("1", "Base", "two\nlines"), ("1", "Tuned", "")]
    packed = tmp_path / "p.csv.gz"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    assert [(a.item_id, a.model, a.text) for a in questions.read_predictions([packed], [])] == read
    lines = jsonl(tmp_path / "p.jsonl", [{"id": 2, "text": "8 m", "finish_reason": "length"}])
    (answer,) = questions.read_predictions([lines], [])
    assert (answer.item_id, answer.model, answer.finish_reason) == ("2", "model", "length")
    with refuses("missing-field"):
        questions.read_predictions([jsonl(tmp_path / "p.jsonl", [{"id": 2, "said": "8 m"}])], [])


@pytest.mark.parametrize("more", [{}, {"restricted": True}])
def test_rows_of_a_restricted_set_come_in_by_its_adapter_alone(tmp_path: Path, more: dict[str, bool]) -> None:
    with refuses("rows-of-restricted-set"):
        questions.read_items(jsonl(tmp_path / "q.jsonl", [{**QUESTIONS[1], "id": "rb1_x", **more}]), GUARD)
    with refuses("rows-of-restricted-set"):
        questions.read_nugget_rows(jsonl(tmp_path / "n.jsonl", [NUGGETS | {"restricted": True}]), GUARD)


def test_passages_of_one_query_belong_together(tmp_path: Path) -> None:
    tea = {"qid": "q2", "query": "What is tea?"}
    hot = {"text": "Tea is hot.", "importance": "okay"}
    leaves = {"text": "Tea has leaves.", "importance": "vital"}
    rows = [
        {**NUGGETS, "query": "Why does it rain?"}, {**tea, "passage": "Leaves in water.", "nuggets": [leaves, hot]},
        {**tea, "passage": "Hot.", "nuggets": ["Tea is hot."]}, {**NUGGETS, "nuggets": []},
    ]  # fmt: skip
    found = questions.read_nugget_rows(jsonl(tmp_path / "rows.jsonl", rows), GUARD)
    sizes = [(i.id, i.group, len(i.nuggets)) for i in found.items]
    assert sizes == [("row1", "row1", 2), ("q2", "q2", 2), ("q2#2", "q2", 1)]
    assert [n.importance for n in found.items[1].nuggets] == ["vital", "okay"]
    assert [a.text for a in found.answers] == ["so", "Leaves in water.", "Hot."]
    assert found.left_out == {"no_nuggets": 1}
    # Two models may answer one query.
    rows = [{**NUGGETS, "qid": "q", "model": model} for model in "ab"]
    found = questions.read_nugget_rows(jsonl(tmp_path / "rows.jsonl", rows), GUARD)
    assert [item.id for item in found.items] == ["q"]
    assert [(a.item_id, a.model) for a in found.answers] == [("q", "a"), ("q", "b")]
    with refuses("conflicting-rows"):
        rows[1] = {**rows[1], "nuggets": ["another"]}
        questions.read_nugget_rows(jsonl(tmp_path / "rows.jsonl", rows), GUARD)


READERS = {"item": (questions.read_items, QUESTIONS[1]), "nuggets": (questions.read_nugget_rows, NUGGETS)}


@pytest.mark.parametrize(("kind", "change", "code", "names"), cases("free", "rows_refused"))
def test_an_unfit_row_is_refused_by_its_line(
    tmp_path: Path, kind: str, change: Fields, code: str, names: str
) -> None:
    read, row = READERS[kind]
    changed = {k: v for k, v in {**row, **change}.items() if v is not None}
    with refuses(code, hidden="colour") as error:
        read(jsonl(tmp_path / "rows.jsonl", [row, changed]), GUARD)
    assert str(error.value).startswith("rows.jsonl:2: ")
    assert names in str(error.value)


def test_nuggets_belong_to_the_items_of_their_ids(tmp_path: Path) -> None:
    row = {"id": "a", "stem": "Why does it rain?", "choices": ["Drops fall.", "Nobody knows."], "key": 0}
    items = questions.read_items(jsonl(tmp_path / "data.jsonl", [row, row | {"id": "b"}]), GUARD)
    facts = jsonl(tmp_path / "facts.jsonl", [{"id": "a", "nuggets": NUGGETS["nuggets"]}])
    found = questions.with_facts(items, facts)
    assert [[n.text for n in item.nuggets] for item in found] == [NUGGETS["nuggets"], []]
    with refuses("unknown-item-ids"):
        questions.with_facts(items[1:], facts)
