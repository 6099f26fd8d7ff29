"""Answers written and graded: resumable, and rules that are right on real keys."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import DataError, UsageError
from robustify.freeform.free_run import generate, prompt_of
from robustify.freeform.grade.graders import grade_answer, grade_answers
from robustify.freeform.questions import convert_item
from robustify.freeform.schema import AnswerRow, FreeItem, FreeSettings, Nugget
from robustify.models.replies import Replies
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from tests.freeform.scripted import ScriptedJudge

ROOT = Path(__file__).parents[2]

ITEMS = [
    FreeItem("n", "How many legs has a spider?", "numeric", "8"),
    FreeItem(
        "s", "Which organelle makes ATP?", "short_text", "mitochondria", None, ("mitochondria", "nucleus"), 0
    ),
    FreeItem("e", "Why does it rain?", "explanation", "Drops fall from clouds."),
    FreeItem("x", "Which of these?", "short_text", "this", excluded_reason="stem_refers_to_choices"),
]
REPLIES = {"spider": "8", "ATP": "the powerhouse", "rain": "Because of weather."}
RIGHT = '{"verdict": "correct"}'


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
    kept: Path | None,
    model: Model | None = None,
    items: Sequence[FreeItem] = ITEMS,
    batch: int = 8,
    **how: Any,
) -> list[AnswerRow]:
    with Replies(kept) as replies, pytest.MonkeyPatch.context() as patch:
        patch.setattr("robustify.models.replies.BATCH", batch)
        return generate(items, model or Model(), FreeSettings(**how), replies)


def answers(items: Sequence[FreeItem] = ITEMS, **how: Any) -> list[AnswerRow]:
    return written(None, items=items, **how)


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path, Model(after=1), batch=1)
    rest = Model()
    assert [row.item_id for row in written(tmp_path, rest, batch=1)] == ["n", "s", "e"]
    assert len(rest.asked) == 2


@pytest.mark.parametrize(
    "how", [{"max_tokens": 9}, {"language": "de"}, {"template": "answer/mistral_instruct"}]
)
def test_what_an_answer_depends_on_is_asked_anew(tmp_path: Path, how: dict[str, Any]) -> None:
    written(tmp_path)
    again = Model()
    written(tmp_path, again, **how)
    assert len(again.asked) == 3


def test_a_damaged_file_of_replies_is_set_aside_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "replies.sqlite").write_text("not a database, and long enough to be looked at as one")
    assert [row.item_id for row in written(tmp_path)] == ["n", "s", "e"]
    assert "replies.sqlite is damaged and was renamed to replies.sqlite.corrupt-1" in capsys.readouterr().err
    written(tmp_path, rest := Model())
    assert rest.asked == []


def test_the_mistral_text_is_exact_and_never_wrapped_twice() -> None:
    how = FreeSettings(template="answer/mistral_instruct@1.0")
    text = prompt_of(ITEMS[0], how)
    with pytest.raises(UsageError, match="Choose a template in answer"):
        prompt_of(ITEMS[0], FreeSettings(template="grader/mcq@2.0"))
    assert text == (
        "[INST] Question: How many legs has a spider?\n\nAnswer concisely. If MCQ, output only the option letter."
        " If Numeric, output only the number. [/INST]"
    )
    assert text == f"[INST] {prompt_of(ITEMS[0], how, has_chat_template=True)} [/INST]"


def test_a_prompt_that_does_not_fit_spoils_no_other() -> None:
    long = FreeItem("l", "Why " * 500 + "?", "short_text", "so")
    rows = written(None, Model(longest=500), [*ITEMS, long])
    errors = {"n": None, "s": None, "e": None, "l": "prompt_too_long"}
    assert {r.item_id: r.error for r in rows} == errors
    (grade,) = grade_answers([long], rows[-1:], FreeSettings())
    assert (grade.status, grade.score, grade.reason) == ("truncated", None, "prompt_too_long")


def test_nuggets_are_graded_where_an_item_has_them() -> None:
    item = replace(ITEMS[2], nuggets=(Nugget("a", "Drops fall."), Nugget("b", "Clouds hold them.")))
    rows = answers([item])
    (found,) = grade_answers([item], rows, FreeSettings(), ScriptedJudge(['["support", "not_support"]']))
    assert (found.kind, found.score) == ("nuggets", 0.5)
    (plain,) = grade_answers([item], rows, FreeSettings(mode="deterministic"))
    assert (plain.kind, plain.status, plain.reason) == ("nuggets", "needs_judge", "nuggets_need_a_judge")
    assert [n.label for n in plain.nuggets] == [None, None]


def test_an_answer_that_was_cut_off_is_unscored_also_where_it_is_already_right() -> None:
    for text in ("The answer is 8", "The answer is 9!", "Let us count them", ""):
        row = AnswerRow("n", "m", text, finish_reason="length")
        found = grade_answer(ITEMS[0], row, FreeSettings(), ScriptedJudge([]))
        assert (found.status, found.score, found.reason) == ("truncated", None, "cut_off")


def test_answers_that_fit_no_item_or_are_given_twice_are_refused() -> None:
    rows = answers()
    with pytest.raises(DataError, match="not in this set"):
        grade_answers(ITEMS[1:], rows, FreeSettings())
    with pytest.raises(DataError, match="answer 4: repeats the model and item of answer 1"):
        grade_answers(ITEMS, [*rows, rows[0]], FreeSettings())


REAL = [
    "arc/ARC-Challenge-Test.jsonl",
    "openbookqa/openbook_qa.jsonl",
    "mmlu/elementary_mathematics_test.csv",
]


def by_rules(path: Path) -> tuple[int, int]:
    """How many keys are not right and how many other options are, each given as the answer and graded by rules."""
    rules, keys, others = FreeSettings(mode="deterministic"), [], []
    for item in load(Source(path=str(path), skip_bad=True), UNGUARDED).items:
        free = convert_item(item)
        if free.excluded_reason:
            continue
        for i, option in enumerate(free.options):
            row = AnswerRow(free.id, "m", option)
            score = grade_answer(free, row, rules).score
            (keys if i == free.correct else others).append(score)
    assert keys
    assert len(others) >= len(keys)
    return sum(score != 1 for score in keys), sum(score == 1 for score in others)


def test_the_rules_call_every_key_right_and_no_other_option() -> None:
    assert by_rules(ROOT / "configs" / "data" / "benign_demo.jsonl") == (0, 0)


@pytest.mark.parametrize("name", REAL)
def test_the_rules_call_every_real_key_right_and_no_other_option(data: Path, name: str) -> None:
    if not (data / name).is_file():
        pytest.skip(f"{name} is absent")
    assert by_rules(data / name) == (0, 0)
