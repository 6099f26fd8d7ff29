"""Rows of other evaluations: what is read from which field, what is refused, and the two evaluations from one command."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from robustify.errors import AuthorisationError, DataError
from robustify.freeform.foreign_rows import read_answers, read_items, read_nugget_rows
from robustify.freeform.jsonl import read_jsonl
from robustify.freeform.judge.label_parse import reading_steps
from robustify.freeform.judge.store import get_store
from robustify.freeform.questions import Generation, prompt_of
from robustify.freeform.schema import grade_from, item_from
from tests.freeform.scripted import run, write_lines
from tests.freeform.stub_server import serving

S, P, N = "support", "partial_support", "not_support"
SHOWN = "Which of these is a colour?\n(A) stone\n(B) green\n(C) loud"
QUESTIONS: list[dict[str, Any]] = [
    {"id": 1, "type": "mcq", "topic": "light", "question": SHOWN, "answer": "B"},
    {"id": 2, "type": "numeric", "topic": "motion", "question": "How far is 5 m and 3 m?", "answer": "8", "unit": "m"},
    {"id": 3, "type": "explanation", "topic": "light", "question": "Why is grass green?", "answer": "It reflects green."},
]  # fmt: skip


@pytest.fixture(scope="module")
def judge() -> Iterator[tuple[str, ...]]:
    with serving() as url:
        yield "--judge", url, "--judge-model", "stub"


# ---- questions and predictions ----


def test_questions_with_a_type_are_read_and_their_options_are_shown_again(tmp_path: Path) -> None:
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(QUESTIONS, indent=1))
    mcq, numeric, explanation = read_items(path)
    assert (mcq.kind, mcq.options, mcq.correct) == ("short_text", ("stone", "green", "loud"), 1)
    assert (mcq.options_shown, mcq.question, mcq.asked) == (True, "Which of these is a colour?", SHOWN)
    assert (numeric.kind, numeric.reference, numeric.unit) == ("numeric", "8", "m")
    assert numeric.asked == numeric.question
    assert (explanation.kind, explanation.topic) == ("explanation", "light")
    mistral = prompt_of(mcq, Generation("answer/mistral_instruct@1.0"))[0]
    assert mistral == (
        f"[INST] Question: {SHOWN}\n\nAnswer concisely. If MCQ, output only the option letter. If Numeric, output only"
        " the number. [/INST]"
    )
    assert "Output only the option letter." in prompt_of(mcq, Generation())[0]
    assert read_items(write_lines(tmp_path / "q.jsonl", QUESTIONS)) == [mcq, numeric, explanation]


OPTIONS = [
    ("A. stone\nB. green", ("stone", "green")),
    ("A) stone\nB) green\nC) loud", ("stone", "green", "loud")),
    ("Is (A) in the text? (A) stone (B) green", ("stone", "green")),
    ("(A) stone (C) green", ()),
    ("Only (A) here", ()),
]


@pytest.mark.parametrize(("text", "options"), OPTIONS)
def test_options_are_found_in_a_question(tmp_path: Path, text: str, options: tuple[str, ...]) -> None:
    row = {"id": 1, "type": "mcq", "question": f"Which?\n{text}", "answer": "B"}
    path = write_lines(tmp_path / "q.jsonl", [row])
    if not options:
        with pytest.raises(DataError, match=r"q\.jsonl:1: question 1: .* expected \(A\)"):
            read_items(path)
        return
    assert read_items(path)[0].options == options
    own = row | {"question": "Which?", "options": list(options), "answer": options[0]}
    assert read_items(write_lines(path, [own]))[0].correct == 0


BAD_QUESTIONS = [
    ({"type": "mcq", "question": SHOWN, "answer": "B"}, "no id"),
    ({"id": 1, "type": "numeric", "answer": "8"}, "no question"),
    ({"id": 1, "type": "mcq", "question": SHOWN}, "no answer"),
    ({"id": 1, "type": "mcq", "question": SHOWN, "answer": "E"}, "names none"),
    ({"id": 1, "kind": "numeric", "question": "Why?", "reference": "8"}, "restricted is missing"),
]


@pytest.mark.parametrize(("row", "words"), BAD_QUESTIONS)
def test_a_question_that_does_not_fit_is_refused_by_its_line(
    tmp_path: Path, row: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError, match=rf"q\.jsonl:2: .*{words}") as caught:
        read_items(write_lines(tmp_path / "q.jsonl", [QUESTIONS[0], row]))
    assert "colour" not in str(caught.value)


def test_predictions_are_read_from_a_table_and_from_lines(tmp_path: Path) -> None:
    table = tmp_path / "p.csv"
    table.write_text('config,question_id,type,predicted,correct\nBase,1,mcq,"two\nlines",B\nTuned,1,mcq,,B\n')
    assert [(a.item_id, a.model, a.text) for a in read_answers(table)] == [
        ("1", "Base", "two\nlines"),
        ("1", "Tuned", ""),
    ]
    lines = write_lines(tmp_path / "p.jsonl", [{"id": 2, "text": "8 m", "finish_reason": "length"}])
    (answer,) = read_answers(lines)
    assert (answer.item_id, answer.model, answer.finish_reason) == ("2", "model", "length")
    with pytest.raises(DataError, match="no prediction; expected one of the fields predicted"):
        read_answers(write_lines(tmp_path / "p.jsonl", [{"id": 2, "said": "8 m"}]))


def test_rows_of_a_restricted_set_come_in_by_its_adapter_alone(tmp_path: Path) -> None:
    for row in ({**QUESTIONS[1], "id": "rb1_x"}, {**QUESTIONS[1], "restricted": True, "id": "rb1_x"}):
        with pytest.raises((AuthorisationError, DataError)):
            read_items(write_lines(tmp_path / "q.jsonl", [row]))
    nuggets = {"query": "Why?", "passage": "so", "nuggets": ["a"], "restricted": True}
    with pytest.raises(AuthorisationError):
        read_nugget_rows(write_lines(tmp_path / "n.jsonl", [nuggets]))


# ---- passages and their nuggets ----


def test_minimal_rows_and_rows_of_another_evaluation_are_read(tmp_path: Path) -> None:
    rows = [
        {"query": "Why does it rain?", "passage": "Clouds cool.", "nuggets": ["Clouds cool.", "Drops fall."]},
        {
            "qid": "q2", "query": "What is tea?", "block": ["Leaves in water.", [{"title": "t", "url": "u"}]],
            "block_nuggets_assignment": [
                {"text": "Tea has leaves.", "importance": "vital", "assignment": "support"},
                {"text": "Tea is hot.", "importance": "okay", "golden_label": "not_support"},
            ],
        },
        {
            "qid": "q2", "query": "What is tea?", "passage": "Hot.", "nuggets": ["Tea is hot."],
            "labels": {"ann": ["supported"], "bob": [None]},
        },
        {"query": "Why?", "passage": "So.", "nuggets": []},
    ]  # fmt: skip
    found = read_nugget_rows(write_lines(tmp_path / "rows.jsonl", rows))
    sizes = [(i.id, i.group, len(i.nuggets)) for i in found.items]
    assert sizes == [("row1", "row1", 2), ("q2", "q2", 2), ("q2#2", "q2", 1)]
    assert [n.importance for n in found.items[1].nuggets] == ["vital", "okay"]
    assert [a.text for a in found.answers] == ["Clouds cool.", "Leaves in water.", "Hot."]
    assert [(label.item_id, label.annotator, dict(label.labels or {})) for label in found.labels] == [
        ("q2", "human", {"q2/n1": S, "q2/n2": N}), ("q2#2", "ann", {"q2#2/n1": S}), ("q2#2", "bob", {}),
    ]  # fmt: skip
    assert found.left_out == {"no_nuggets": 1}


def test_two_models_answer_one_query(tmp_path: Path) -> None:
    row = {"qid": "q", "query": "Why?", "passage": "so", "nuggets": ["a fact"]}
    rows = [{**row, "model": "a"}, {**row, "model": "b"}]
    found = read_nugget_rows(write_lines(tmp_path / "rows.jsonl", rows))
    assert [item.id for item in found.items] == ["q"]
    assert [(a.item_id, a.model) for a in found.answers] == [("q", "a"), ("q", "b")]
    rows[1]["nuggets"] = ["another fact"]
    with pytest.raises(DataError, match="other words or nuggets"):
        read_nugget_rows(write_lines(tmp_path / "rows.jsonl", rows))


ROW: dict[str, Any] = {"query": "Why?", "passage": "so", "nuggets": ["Clouds cool.", "Drops fall."]}
BAD_ROWS = [
    ({"nuggets": None}, "no nuggets; expected nuggets"),
    ({"nuggets": "Clouds cool."}, "nuggets is no list"),
    ({"nuggets": [3]}, "no text"),
    ({"nuggets": [{"text": "a", "importance": "big"}]}, "expected vital or okay"),
    ({"nuggets": ["Clouds cool.", "clouds cool"]}, "repeated words"),
    ({"nuggets": ["word " * 41]}, "41 words"),
    ({"query": None}, "no query"),
    ({"passage": None}, "no passage"),
    ({"labels": [S]}, "labels of human: expected 2"),
    ({"labels": [S, "perhaps"]}, "one is none of not_support"),
]


@pytest.mark.parametrize(("change", "words"), BAD_ROWS)
def test_a_row_that_does_not_fit_is_refused_by_its_line(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    row = {k: v for k, v in {**ROW, **change}.items() if v is not None}
    with pytest.raises(DataError, match=rf"rows\.jsonl:2: .*{words}"):
        read_nugget_rows(write_lines(tmp_path / "rows.jsonl", [ROW, row]))


def test_nuggets_of_an_item_are_never_dropped_in_silence(tmp_path: Path) -> None:
    choices = {"stem": "Why does it rain?", "choices": ["Drops fall.", "Nobody knows."], "key": 0}
    rows = [{"id": "a", **choices, "nuggets": ROW["nuggets"]}, {"id": "b", **choices}]
    data = write_lines(tmp_path / "data.jsonl", rows)
    run("prepare", data, "-o", tmp_path / "items.jsonl")
    items = read_jsonl(tmp_path / "items.jsonl", item_from)
    assert [[n.text for n in item.nuggets] for item in items] == [ROW["nuggets"], []]
    file = write_lines(tmp_path / "rows.jsonl", [ROW])
    assert "free nuggets" in str(run("prepare", file, "-o", tmp_path / "i.jsonl", fails=2).exception)
    answers = write_lines(tmp_path / "a.jsonl", [{"id": "a", "text": "Clouds cool."}])
    run("grade", answers, "--items", tmp_path / "items.jsonl", "-o", tmp_path / "g.jsonl", fails=7)
    (grade,) = read_jsonl(tmp_path / "g.jsonl", grade_from)
    assert (grade.kind, grade.reason) == ("nuggets", "nuggets_need_a_judge")


# ---- the doors ----


@pytest.mark.parametrize("template", ["legacy@1.0", "no_reasoning@1.1", "optimized", "legacy@2.0"])
def test_passages_are_labelled_scored_and_reported_in_one_command(
    tmp_path: Path, judge: tuple[str, ...], template: str
) -> None:
    rows = write_lines(
        tmp_path / "rows.jsonl",
        [ROW | {"passage": "Clouds cool. Hot.", "labels": [S, N]}, ROW | {"nuggets": []}],
    )
    out = tmp_path / "out"
    how = ("--template", template, "--few-shot", 1, "--few-shot-by", "similar", "--domain", "physics")
    how = (*how, "--language", "de")
    told = json.loads(run("nuggets", rows, *judge, *how, "-o", out, "--json").stdout)
    assert json.loads((out / "labels.jsonl").read_text()) == {
        "id": "row1", "model": "passages", "labels": [S, N], "error_type": None,
        "scores": {"strict_vital": 0.5, "vital": 0.5, "strict_all": 0.5, "all": 0.5, "weighted": 0.5},
    }  # fmt: skip
    part = told["models"]["passages"]["kinds"]["nuggets"]
    assert (part["labels"], part["nugget_scores"]["vital"]["lower"]) == ({N: 1, S: 1}, 0.5)
    assert (told["left_out"], told["calibration"]["nuggets"]["n"]) == ({"no_nuggets": 1}, 2)
    assert "Rows left out: no nuggets 1." in (out / "report.md").read_text()
    again = run("nuggets", rows, "--replay", out / "judge.jsonl", *how, "-o", tmp_path / "again").stdout
    assert again.rpartition("\n\n")[0] == (out / "report.md").read_text().rpartition("\n\n")[0]
    assert (tmp_path / "again" / "grades.jsonl").read_bytes() == (out / "grades.jsonl").read_bytes()
    two = ("nugget/no_reasoning@2.0", "nugget/optimized@2.0", "--human", out / "human.jsonl")
    files = ("--items", out / "items.jsonl", "--answers", out / "answers.jsonl", "-o", tmp_path / "c.json")
    assert json.loads(run("templates", "compare", *two, *files, *judge).stdout)["kind"] == "nuggets"


def test_a_format_that_a_template_has_not_names_the_option(tmp_path: Path, judge: tuple[str, ...]) -> None:
    rows, out = write_lines(tmp_path / "rows.jsonl", [ROW]), tmp_path / "out"
    found = run(
        "nuggets", rows, *judge, "--template", "legacy@1.0", "--format-type", "csv", "-o", out, fails=2
    )
    assert "--format-type csv: template nugget/legacy@1.0 has markdown" in str(found.exception)
    with pytest.raises(click.UsageError, match="needs a judge"):
        run("nuggets", rows, "-o", out)


RUBRICS = [word for kind in ("mcq", "numeric", "explanation") for word in ("--rubric", f"{kind}@v1.0")]


def test_questions_are_graded_by_the_three_graders_base_against_tuned(
    tmp_path: Path, judge: tuple[str, ...]
) -> None:
    questions, table = tmp_path / "questions.json", tmp_path / "predictions.csv"
    questions.write_text(json.dumps(QUESTIONS))
    table.write_text(
        "config,question_id,predicted\nBase,1,A\nBase,2,8\nBase,3,Hm.\nTuned,1,B\nTuned,2,8\nTuned,3,It reflects green.\n"
    )
    out = tmp_path / "grades.jsonl"
    command = ("grade", table, "--items", questions, *RUBRICS, *judge, "--base", "Base", "-o", out)
    told = json.loads(run(*command, "--json").stdout)
    grades = read_jsonl(out, grade_from)
    assert [g.score for g in grades] == [0, 1, 0, 1, 1, 1]
    templates = {g.kind: g.judge.template_id for g in grades if g.judge}
    assert templates == {
        k: f"grader/{n}@1.0"
        for k, n in (("short_text", "mcq"), ("numeric", "numeric"), ("explanation", "explanation"))
    }
    # The rules' own verdict stands beside the judge's; a lone letter is an answer.
    assert [g.det_verdict for g in grades] == ["incorrect", "correct", None, "correct", "correct", "correct"]
    tuned = told["against_base"]["models"]["Tuned"]
    gained = {kind: pair["gained"] for kind, pair in tuned["kinds"].items()}
    assert gained == {"short_text": 1, "numeric": 0, "explanation": 1}
    assert {topic: sorted(kinds) for topic, kinds in tuned["topics"].items()} == {
        "light": ["explanation", "short_text"], "motion": ["numeric"],
    }  # fmt: skip
    shown = run(*command).stdout
    assert re.search(
        r"\| light \| short text \| Tuned \| 0\.0 % to 0\.0 % \| 100\.0 % to 100\.0 % \| 1 of 1 \|", shown
    )
    assert "expected mcq, numeric, explanation" in str(
        run(*command, "--rubric", "poem@v1.0", fails=2).exception
    )
    better = ("--rubric", "explanation@v1.1", *judge, "-o", tmp_path / "five.jsonl", "--json")
    five = run("grade", table, "--items", questions, *better)
    assert json.loads(five.stdout)["models"]["Tuned"]["kinds"]["explanation"]["coverage"]["value"] == 1.0


def test_items_are_asked_with_their_options_where_that_is_wanted(tmp_path: Path) -> None:
    row = {"id": "a", "stem": "Which of the following is green?", "choices": ["coal", "grass"], "key": 1}
    data, items = write_lines(tmp_path / "data.jsonl", [row]), tmp_path / "items.jsonl"
    run("prepare", data, "-o", items)
    assert read_jsonl(items, item_from)[0].excluded_reason == "stem_refers_to_choices"
    answers = write_lines(tmp_path / "answers.jsonl", [{"id": "a", "text": "B"}])
    grade = ("grade", answers, "--items", items, "-o", tmp_path / "g.jsonl")
    run(*grade)
    assert read_jsonl(tmp_path / "g.jsonl", grade_from)[0].reason == "letter_without_options"
    run(*grade, "--options-shown")
    assert read_jsonl(tmp_path / "g.jsonl", grade_from)[0].score == 1.0
    run("prepare", data, "-o", items, "--options-shown")
    (item,) = read_jsonl(items, item_from)
    assert (item.excluded_reason, item.asked) == ("", "Which of the following is green?\n(A) coal\n(B) grass")


def test_a_prompt_is_shown_with_a_case_in_it_and_a_reply_is_read_step_by_step(tmp_path: Path) -> None:
    shown = run(
        "templates", "show", "nugget/optimized", "--example", "--format-type", "markdown", "--few-shot", 1
    ).stdout
    assert shown.count("=== assistant") == 1
    assert "=== assistant\n* " in shown
    assert "{{" not in shown
    for template in get_store():
        assert "{%" not in run("templates", "show", template.id, "--example").stdout
    reply = tmp_path / "reply.txt"
    reply.write_text(
        '<think>["support"]</think>First I wrote\n- support\n- support\nNow:\n["support", "not_support"]\n'
    )
    steps = json.loads(run("templates", "parse", reply, "--format-type", "adaptive", "--json").stdout)[
        "steps"
    ]
    assert [s["step"] for s in steps] == [
        "reply",
        "reasoning",
        "text",
        "structure",
        "structure",
        "last",
        "result",
    ]
    assert [s["labels"] for s in steps[3:5]] == [[S, S], [S, N]]
    assert steps[-1] == {
        "step": "result",
        "nuggets": 2,
        "labels": [S, N],
        "format_used": "json",
        "error_type": None,
    }
    assert "wrote" not in run("templates", "parse", reply).stdout
    verdict = reading_steps('{"verdict": "correct"}', get_store().get("grader/mcq@2.0"))
    assert verdict[-1] == {"step": "result", "verdict": "correct", "error_type": None}
    assert reading_steps('{"score": 0.5}', get_store().get("grader/explanation@1.1"))[-1]["score"] == 0.5
