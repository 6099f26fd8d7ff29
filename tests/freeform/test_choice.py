"""Worded answers: what names the right option, what certainly names another, and what is left undecided."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.freeform.scripted import grade_explanation, grade_mcq, grade_numeric, table
from tests.support.cost import costs_at_most

OPTIONS = ("the mitochondria", "the nucleus", "the ribosome", "the nucleus membrane")
S, N, J = "scored", "no_answer", "needs_judge"


@pytest.mark.parametrize(("answer", "status", "score", "reason"), table("choice_hidden"))
def test_an_answer_to_hidden_options_gets_this_grade(
    answer: str, status: str, score: float | None, reason: str
) -> None:
    found = grade_mcq(answer, OPTIONS, 0, aliases=("powerhouse",))
    assert (found.status, found.score, found.reason) == (status, score, reason)


@pytest.mark.parametrize(("answer", "reference", "status", "score"), table("choice_formulas"))
def test_formulas_are_compared_character_by_character(
    answer: str, reference: str, status: str, score: float | None
) -> None:
    found = grade_mcq(answer, (reference, "rr" if reference == "RR" else "something else"), 0)
    assert (found.status, found.score) == (status, score)


@pytest.mark.parametrize(("answer", "score"), table("choice_shown"))
def test_a_letter_is_an_answer_where_options_were_shown(answer: str, score: float | None) -> None:
    assert grade_mcq(answer, ("stone", "green", "loud"), 1, shown=True).score == score


LETTERS, DOSES, CATS = ("A", "G", "C", "T"), ("5 mg", "7 mg"), ("a cat", "the cat")


@pytest.mark.parametrize(
    ("answer", "options", "score"),
    [("A", LETTERS, 1), ("G", LETTERS, 0), ("Answer: **A**", LETTERS, 1), ("about 5 mg", DOSES, 1), ("0.5 mg", DOSES, None),
     ("-5 mg", DOSES, None), ("A cat", CATS, None), ("a cat", CATS, 1)],
)  # fmt: skip
def test_letters_numbers_and_articles_are_whole_words(
    answer: str, options: tuple[str, ...], score: float | None
) -> None:
    assert grade_mcq(answer, options, 0).score == score


def test_an_explanation_is_right_by_rule_only_when_its_words_are_equal() -> None:
    assert grade_explanation("Water boils at 100 C.", "water boils at 100 C").score == 1
    assert grade_explanation("Water turns to steam.", "water boils at 100 C").status == J
    assert grade_explanation("I don't know.", "water boils").status == N
    assert grade_explanation("Something", " ").status == "reference_error"


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_no_answer_raises_and_no_unread_one_scores(answer: str) -> None:
    for found in (grade_mcq(answer, OPTIONS, 0), grade_numeric(answer, "5"), grade_explanation(answer, "so")):
        assert (found.score is None) == (found.status not in (S, N))


HOSTILE = [
    "a ", "nucleus ", "I don't ", "*a", "'", "Answer A ", "9", "5 ", "1/", "\\boxed{", "answer is ", "=5", "5 kg m s ",
    "\ufdfa", "5 9**9**9 ",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_megabyte_answer_takes_bounded_time(text: str) -> None:
    long = (text * 1_000_000)[:1_000_000]
    graders: list[Any] = [partial(grade_mcq, long, OPTIONS, 0), partial(grade_numeric, long, "5", unit=None)]
    for grade in (*graders, partial(grade_numeric, "5 m", "5", unit=long)):
        found = costs_at_most(200, grade)
        assert found.score is None or found.status in (S, N)
    assert grade_mcq(long + "b", OPTIONS, 0).error_type == "unsafe_input"
