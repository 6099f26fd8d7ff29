"""Answers written, graded and reported: resumable, traceable, and nothing of a restricted set in a file of grades."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.freeform.grade.graders import Grading, grade_answer, grade_answers, refuse_twice_graded
from robustify.freeform.judge.asking import Judging
from robustify.freeform.judge.judges import JudgeCallError
from robustify.freeform.judge.prompting import Shot
from robustify.freeform.questions import Generation, convert_item, generate, prompt_of
from robustify.freeform.report import unscored_in
from robustify.freeform.schema import AnswerRow, FreeItem, Nugget
from robustify.loaders import Source, load
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


def answers(tmp_path: Path, items: Sequence[FreeItem] = ITEMS, **how: Any) -> list[AnswerRow]:
    return generate(items, Model(), Generation(**how), tmp_path / "answers.jsonl")


def test_every_item_that_may_be_asked_is_asked_once(tmp_path: Path) -> None:
    model = Model()
    first = generate(ITEMS, model, Generation(), tmp_path / "a.jsonl")
    assert [row.item_id for row in first] == ["n", "s", "e"]
    assert "mitochondria" not in "".join(model.asked)
    again = Model()
    assert generate(ITEMS, again, Generation(), tmp_path / "a.jsonl") == first
    assert again.asked == []
    assert [row.template_id for row in first] == [
        f"answer/{k}@2.0" for k in ("numeric", "short", "explanation")
    ]


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        generate(ITEMS, Model(after=1), Generation(batch=1), tmp_path / "a.jsonl")
    rest = Model()
    rows = generate(ITEMS, rest, Generation(batch=1), tmp_path / "a.jsonl")
    assert len(rest.asked) == 2
    assert [row.item_id for row in rows] == ["n", "s", "e"]


@pytest.mark.parametrize(
    "how", [{"max_tokens": 9}, {"language": "de"}, {"template": "answer/mistral_instruct"}]
)
def test_what_an_answer_depends_on_is_asked_anew(tmp_path: Path, how: dict[str, Any]) -> None:
    answers(tmp_path)
    again = Model()
    generate(ITEMS, again, Generation(**how), tmp_path / "answers.jsonl")
    assert len(again.asked) == 3


def test_the_mistral_text_is_exact_and_never_wrapped_twice() -> None:
    how = Generation("answer/mistral_instruct@1.0")
    text, sha = prompt_of(ITEMS[0], how)
    assert text == (
        "[INST] Question: How many legs has a spider?\n\nAnswer concisely. If MCQ, output only the option letter."
        " If Numeric, output only the number. [/INST]"
    )
    inner, same = prompt_of(ITEMS[0], how, has_chat_template=True)
    assert (text, sha) == (f"[INST] {inner} [/INST]", same)


def test_a_template_that_asks_for_no_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected one for an answer"):
        answers(tmp_path, template="grader/mcq@2.0")


def test_a_prompt_that_does_not_fit_spoils_no_other(tmp_path: Path) -> None:
    long = FreeItem("l", "Why " * 500 + "?", "short_text", "so")
    rows = generate([*ITEMS, long], Model(longest=500), Generation(), tmp_path / "a.jsonl")
    errors = {"n": None, "s": None, "e": None, "l": "prompt_too_long"}
    assert {r.item_id: r.error for r in rows} == errors
    (grade,) = grade_answers([long], rows[-1:], Grading(), tmp_path / "g.jsonl")
    assert (grade.status, grade.score, grade.reason) == ("truncated", None, "prompt_too_long")


def test_rules_grade_first_and_a_judge_the_rest(tmp_path: Path) -> None:
    rows = answers(tmp_path)
    plain = grade_answers(ITEMS, rows, Grading(), tmp_path / "plain.jsonl")
    assert [(g.status, g.score) for g in plain] == [("scored", 1.0), *[("needs_judge", None)] * 2]
    assert unscored_in(plain) == pytest.approx(2 / 3)
    judge = ScriptedJudge([RIGHT, '{"score": 0}'])
    full = grade_answers(ITEMS, rows, Grading(), tmp_path / "full.jsonl", judge)
    assert [g.score for g in full] == [1.0, 1.0, 0.0]
    assert [g.method for g in full] == ["deterministic", "judge", "judge"]


def test_no_answer_is_graded_twice_under_the_same_rules(tmp_path: Path) -> None:
    rows, path = answers(tmp_path), tmp_path / "grades.jsonl"
    first = grade_answers(ITEMS, rows, Grading(), path, ScriptedJudge([RIGHT, '{"score": 0}']))
    again = grade_answers(ITEMS, rows, Grading(), path, ScriptedJudge([]))
    assert again == first
    assert len(path.read_text().splitlines()) == 3


CHANGES: list[dict[str, Any]] = [
    {"rel_tol": 0.01},
    {"mcq_template": "grader/mcq@1.0"},
    {"judging": Judging(seed=1)},
    {"judging": Judging(shots=(Shot("q", "a", "r", "correct", 1.0),))},
    {"mode": "deterministic"},
]


@pytest.mark.parametrize("change", CHANGES)
def test_other_rules_grade_anew(tmp_path: Path, change: dict[str, Any]) -> None:
    rows, path = answers(tmp_path), tmp_path / "grades.jsonl"
    before = grade_answers(ITEMS, rows, Grading(), path, ScriptedJudge(lambda _: RIGHT))
    after = grade_answers(ITEMS, rows, Grading(**change), path, ScriptedJudge(lambda _: RIGHT))
    assert not {g.key for g in before} & {g.key for g in after}
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == [g.key for g in after]


def test_a_kill_between_grades_loses_none(tmp_path: Path) -> None:
    rows, path = answers(tmp_path), tmp_path / "grades.jsonl"

    def reply(_: object) -> str:
        if len(path.read_text().splitlines()) == 2:
            raise KeyboardInterrupt
        return RIGHT

    with pytest.raises(KeyboardInterrupt):
        grade_answers(ITEMS, rows, Grading(), path, ScriptedJudge(reply))
    assert len(path.read_text().splitlines()) == 2
    judge = ScriptedJudge(['{"score": 1}'])
    assert [g.score for g in grade_answers(ITEMS, rows, Grading(), path, judge)] == [1.0, 1.0, 1.0]


def test_nuggets_are_graded_where_an_item_has_them(tmp_path: Path) -> None:
    item = replace(ITEMS[2], nuggets=(Nugget("a", "Drops fall."), Nugget("b", "Clouds hold them.")))
    rows = answers(tmp_path, [item])
    (found,) = grade_answers(
        [item], rows, Grading(), tmp_path / "g.jsonl", ScriptedJudge(['["support", "not_support"]'])
    )
    assert (found.kind, found.score) == ("nuggets", 0.5)
    (plain,) = grade_answers([item], rows, Grading(mode="deterministic"), tmp_path / "g.jsonl")
    assert (plain.kind, plain.status, plain.reason) == ("nuggets", "needs_judge", "nuggets_need_a_judge")
    assert [n.label for n in plain.nuggets] == [None, None]


def test_an_answer_that_was_cut_off_is_unscored_also_where_it_is_already_right() -> None:
    for text in ("The answer is 8", "The answer is 9!", "Let us count them", ""):
        row = AnswerRow("n", "m", text, "t", "d", "p", finish_reason="length")
        found = grade_answer(ITEMS[0], row, Grading(), ScriptedJudge([]))
        assert (found.status, found.score, found.reason) == ("truncated", None, "cut_off")


def test_a_call_that_failed_is_made_again_by_the_next_run(tmp_path: Path) -> None:
    rows = answers(tmp_path)[1:2]
    (found,) = grade_answers(
        ITEMS, rows, Grading(), tmp_path / "g.jsonl", ScriptedJudge([JudgeCallError("timeout")])
    )
    assert (found.status, found.error_type) == ("grader_error", "timeout")
    (again,) = grade_answers(ITEMS, rows, Grading(), tmp_path / "g.jsonl", ScriptedJudge([RIGHT]))
    assert again.score == 1.0
    assert len((tmp_path / "g.jsonl").read_text().splitlines()) == 1


def test_an_answer_that_stands_twice_among_grades_is_refused(tmp_path: Path) -> None:
    rows = answers(tmp_path)
    one = grade_answers(ITEMS, rows, Grading(), tmp_path / "a.jsonl")
    two = grade_answers(ITEMS, rows, Grading(rel_tol=0.01), tmp_path / "b.jsonl")
    refuse_twice_graded(one)
    with pytest.raises(DataError, match="graded twice"):
        refuse_twice_graded([*one, *two])


def test_answers_that_fit_no_item_or_are_given_twice_are_refused(tmp_path: Path) -> None:
    rows = answers(tmp_path)
    with pytest.raises(DataError, match="no such item"):
        grade_answers(ITEMS[1:], rows, Grading(), tmp_path / "g.jsonl")
    with pytest.raises(DataError, match="given twice"):
        grade_answers(ITEMS, [*rows, rows[0]], Grading(), tmp_path / "g.jsonl")


def test_nothing_of_a_restricted_set_is_written_without_its_key(tmp_path: Path) -> None:
    items = [replace(item, restricted=True) for item in ITEMS]
    with pytest.raises(AuthorisationError):
        answers(tmp_path, items)
    rows = answers(tmp_path, items, seal=b"k" * 32)
    with pytest.raises(AuthorisationError):
        grade_answers(items, rows, Grading(), tmp_path / "g.jsonl")


REAL = [
    "arc/ARC-Challenge-Test.jsonl",
    "openbookqa/openbook_qa.jsonl",
    "mmlu/elementary_mathematics_test.csv",
]


def by_rules(path: Path) -> tuple[int, int]:
    """How many keys are not right and how many other options are, each given as the answer and graded by rules."""
    rules, keys, others = Grading(mode="deterministic"), [], []
    for item in load(Source(path=str(path), skip_bad=True)).items:
        free = convert_item(item)
        if free.excluded_reason:
            continue
        for i, option in enumerate(free.options):
            row = AnswerRow(free.id, "m", option, "t", "d", f"p{i}")
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
