"""Answers written and graded: resumable, rules that are right on real keys, and grades that read back."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import DataError
from robustify.freeform import schema
from robustify.freeform.free_run import generate, prompt_of
from robustify.freeform.grade.graders import grade_answer, grade_answers
from robustify.freeform.questions import convert_item
from robustify.models.replies import Replies
from robustify.pipeline.free_settings import FreeSettings
from robustify.reading.guard import UNGUARDED
from robustify.reading.jsonl import read_jsonl, write_rows
from robustify.reading.loaders import Source, load
from tests.freeform.scripted import ScriptedJudge
from tests.support import shared_data
from tests.support.cases import refuses

ROOT = Path(__file__).parents[2]
ITEMS = [
    schema.FreeItem("n", "How many legs has a spider?", "numeric", "8"),
    schema.FreeItem("s", "Which organelle makes ATP?", "short_text", "mitochondria", None, ("mitochondria", "nucleus"), 0),
    schema.FreeItem("e", "Why does it rain?", "explanation", "Drops fall from clouds."),
    schema.FreeItem("x", "Which of these?", "short_text", "this", excluded_reason="stem_refers_to_choices"),
]  # fmt: skip
REPLIES = {"spider": "8", "ATP": "the powerhouse", "rain": "Because of weather."}


class Model:
    """A writer that knows three answers, counts what it is asked, and can stop in the middle."""

    name = "m"

    def __init__(self, after: int = 99, longest: int = 10_000) -> None:
        self.asked: list[str] = []
        self.after, self.longest = after, longest

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        if any(len(p) > self.longest for p in prompts):
            raise DataError("prompt 0: too many tokens")
        self.asked += prompts
        if len(self.asked) > self.after:
            raise KeyboardInterrupt
        return [next((r for word, r in REPLIES.items() if word in p), "hm") for p in prompts]


def written(
    kept: Path | None, model: Model | None = None, items: Sequence[schema.FreeItem] = ITEMS, batch: int = 8, **how: Any
) -> list[schema.AnswerRow]:  # fmt: skip
    with Replies(kept) as replies, pytest.MonkeyPatch.context() as patch:
        patch.setattr("robustify.models.replies.BATCH", batch)
        return generate(items, model or Model(), FreeSettings(**how), replies)


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path, Model(after=1), batch=1)
    rest = Model()
    assert [row.item_id for row in written(tmp_path, rest, batch=1)] == ["n", "s", "e"]
    assert len(rest.asked) == 2


@pytest.mark.parametrize(
    "how", [{"max_tokens": 9}, {"language": "de"}, {"template": "answer/mistral_instruct"}], ids=str
)
def test_what_an_answer_depends_on_is_asked_anew(tmp_path: Path, how: dict[str, Any]) -> None:
    written(tmp_path)
    again = Model()
    written(tmp_path, again, **how)
    assert len(again.asked) == 3


def test_a_damaged_file_of_replies_is_set_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "replies.sqlite").write_text("not a database, and long enough to be looked at as one")
    assert [row.item_id for row in written(tmp_path)] == ["n", "s", "e"]
    assert "replies.sqlite.corrupt-1" in capsys.readouterr().err
    written(tmp_path, rest := Model())
    assert rest.asked == []


def test_the_mistral_text_is_exact_and_never_wrapped_twice() -> None:
    how = FreeSettings(template="answer/mistral_instruct@1.0")
    text = prompt_of(ITEMS[0], how)
    assert text == (
        "[INST] Question: How many legs has a spider?\n\nAnswer concisely. If MCQ, output only the option letter."
        " If Numeric, output only the number. [/INST]"
    )
    assert text == f"[INST] {prompt_of(ITEMS[0], how, has_chat_template=True)} [/INST]"
    with refuses("template-of-another-kind"):
        prompt_of(ITEMS[0], FreeSettings(template="grader/mcq@2.0"))


def test_a_prompt_that_does_not_fit_spoils_no_other() -> None:
    long = schema.FreeItem("l", "Why " * 500 + "?", "short_text", "so")
    rows = written(None, Model(longest=500), [*ITEMS, long])
    assert {r.item_id: r.error for r in rows} == {"n": None, "s": None, "e": None, "l": "prompt_too_long"}
    (grade,) = grade_answers([long], rows[-1:], FreeSettings())
    assert (grade.status, grade.score, grade.reason) == ("truncated", None, "prompt_too_long")


def test_nuggets_are_graded_where_an_item_has_them() -> None:
    facts = (schema.Nugget("a", "Drops fall."), schema.Nugget("b", "Clouds hold them."))
    item = replace(ITEMS[2], nuggets=facts)
    rows = written(None, items=[item])
    (found,) = grade_answers([item], rows, FreeSettings(), ScriptedJudge(['["support", "not_support"]']))
    assert (found.kind, found.score) == ("nuggets", 0.5)
    (plain,) = grade_answers([item], rows, FreeSettings(mode="deterministic"))
    assert (plain.kind, plain.status, plain.reason) == ("nuggets", "needs_judge", "nuggets_need_a_judge")
    assert [n.label for n in plain.nuggets] == [None, None]


@pytest.mark.parametrize("text", ["The answer is 8", "The answer is 9!", "Let us count them", ""])
def test_an_answer_that_was_cut_off_is_unscored_also_where_it_is_already_right(text: str) -> None:
    row = schema.AnswerRow("n", "m", text, finish_reason="length")
    found = grade_answer(ITEMS[0], row, FreeSettings(), ScriptedJudge([]))
    assert (found.status, found.score, found.reason) == ("truncated", None, "cut_off")


def test_answers_that_fit_no_item_or_are_given_twice_are_refused() -> None:
    rows = written(None)
    with refuses("answer-to-unknown-item"):
        grade_answers(ITEMS[1:], rows, FreeSettings())
    with refuses("repeated-answer"):
        grade_answers(ITEMS, [*rows, rows[0]], FreeSettings())


DEMO = str(ROOT / "configs" / "data" / "benign_demo.jsonl")
REAL = (
    DEMO, "arc/ARC-Challenge-Test.jsonl", "openbookqa/openbook_qa.jsonl", "mmlu/elementary_mathematics_test.csv",
)  # fmt: skip


def by_rules(path: Path) -> tuple[int, int]:
    """How many keys are not right and how many other options are, each given as the answer and graded by rules."""
    rules, keys, others = FreeSettings(mode="deterministic"), [], []
    for item in load(Source(path=str(path), skip_bad=True), UNGUARDED).items:
        free = convert_item(item)
        for i, option in enumerate(() if free.excluded_reason else free.options):
            score = grade_answer(free, schema.AnswerRow(free.id, "m", option), rules).score
            (keys if i == free.correct else others).append(score)
    assert len(others) >= len(keys) > 0
    return sum(score != 1 for score in keys), sum(score == 1 for score in others)


@pytest.mark.parametrize("name", REAL)
def test_the_rules_call_every_key_right_and_no_other_option(name: str) -> None:
    path = (shared_data() or ROOT) / name
    if not path.is_file():
        pytest.skip(f"{name} is absent")
    assert by_rules(path) == (0, 0)


def test_grades_read_back_from_json() -> None:
    attempt = schema.Attempt(0, "p", "r", None, "stop", {"total_tokens": 5})
    trace = schema.JudgeTrace("judge", "grader/mcq@2.0", "d", (attempt,), ("correct", None), 0.5, False)
    grade = schema.GradeResult(
        "i", "m", "nuggets", "nuggets/1", "scored", 1.0, "correct", "judge", "judge", "so", "so", ("f",), None, None,
        None, trace, (schema.NuggetGrade("n", "vital", "support"),), {"vital": 1.0}, "g",
    )  # fmt: skip
    told = json.loads(json.dumps(grade.json()))
    assert schema.grade_from(told | {"answer": "so"}) == grade
    assert told["schema"] == schema.SCHEMA
    with refuses("not-a-grade"):
        schema.grade_from(told | {"schema": "other"})
    for bad in ({"status": "poem"}, {"judge": {"model": "secret words"}}):
        with refuses("invalid-grade", hidden="secret"):
            schema.grade_from(told | bad)


def test_a_repr_holds_no_text() -> None:
    nuggets = (schema.Nugget("n", "Hidden fact."),)
    item = schema.FreeItem("i", "Secret?", "short_text", "hidden", nuggets=nuggets)
    texts = {"extracted": "hidden", "reference": "hidden"}
    grade = schema.GradeResult("i", "m", "short_text", "g", "scored", 1.0, "correct", "equal", **texts)  # type: ignore[arg-type]
    assert "idden" not in repr((item, item.nuggets[0], schema.AnswerRow("i", "m", "hidden"), grade))


def test_an_item_has_an_id_and_a_question_and_an_unscored_grade_no_score() -> None:
    for name, question in (("", "q"), ("i", " ")):
        with refuses("empty-id-or-question"):
            schema.FreeItem(name, question, "numeric", "1")
    for status, score in (("grader_error", 0.0), ("scored", None)):
        with refuses("score-against-status"):
            schema.GradeResult("i", "m", "numeric", "g", status, score, None, "r")  # type: ignore[arg-type]


def test_a_damaged_line_refuses_the_file_and_names_every_fault(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"n": 1}\nsecret words\n[1]\n{"n": 2}\n', encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_jsonl(path, dict)
    assert [line.split(": ")[0] for line in caught.value.lines] == ["rows.jsonl:2", "rows.jsonl:3"]
    assert "secret" not in str(caught.value)
    with pytest.raises(DataError):
        read_jsonl(tmp_path, dict)
    write_rows(path, [{"n": 5}])
    assert read_jsonl(path, dict) == [{"n": 5}]
