"""Worded answers: what names the right option, what certainly names another, and what is left undecided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.freeform.grade.worded import find_choice
from tests.freeform.scripted import grade_explanation, grade_mcq, table
from tests.support.cost import costs_at_most

OPTIONS = ("the mitochondria", "the nucleus", "the ribosome", "the nucleus membrane")
S, N, J, T = "scored", "no_answer", "needs_judge", "truncated"


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


def test_a_letter_that_is_an_option_is_an_answer() -> None:
    assert grade_mcq("A", ("A", "G", "C", "T"), 0).score == 1
    assert grade_mcq("G", ("A", "G", "C", "T"), 0).score == 0
    assert grade_mcq("Answer: **A**", ("A", "G", "C", "T"), 0).score == 1


def test_numbers_are_whole_tokens() -> None:
    assert grade_mcq("0.5 mg", ("5 mg", "7 mg"), 0).status == J
    assert grade_mcq("-5 mg", ("5 mg", "7 mg"), 0).score != 1
    assert grade_mcq("about 5 mg", ("5 mg", "7 mg"), 0).score == 1


@pytest.mark.parametrize("options", [("in the box", "the box"), ("(a) the cat", "a cat")])
def test_options_that_fold_alike_are_not_told_apart_by_words(options: tuple[str, str]) -> None:
    found = grade_mcq("a box in the box cat", options, 0)
    assert found.score is None or found.score in (0, 1)
    assert grade_mcq("A cat", ("a cat", "the cat"), 0).status == J
    assert grade_mcq("a cat", ("a cat", "the cat"), 0).score == 1


def test_an_explanation_is_right_by_rule_only_when_its_words_are_equal() -> None:
    assert grade_explanation("Water boils at 100 C.", "water boils at 100 C").score == 1
    found = grade_explanation("Water turns to steam.", "water boils at 100 C")
    assert (found.status, found.score) == (J, None)
    assert grade_explanation("I don't know.", "water boils").status == N
    assert grade_explanation("Something", " ").status == "reference_error"


@given(st.text(max_size=80))
def test_no_answer_raises(answer: str) -> None:
    found = grade_mcq(answer, OPTIONS, 0)
    assert (found.score is None) == (found.status not in (S, N))
    grade_explanation(answer, "water boils")


@pytest.mark.parametrize(
    "text",
    ["a " * 500_000, "nucleus " * 125_000, "I don't " * 125_000, "*a" * 500_000, "'" * 1_000_000, "Answer A " * 111_000,
     "answer" + " " * 999_000 + "!"],
    ids=lambda t: t[:12],
)  # fmt: skip
def test_a_megabyte_answer_takes_bounded_time(text: str) -> None:
    assert costs_at_most(200, lambda: grade_mcq(text[:1_000_000], OPTIONS, 0)).score is None
    assert grade_mcq(text * 2, OPTIONS, 0).error_type == "unsafe_input"


@pytest.mark.parametrize(("answer", "score"), table("choice_shown"))
def test_a_letter_is_an_answer_where_options_were_shown(answer: str, score: float | None) -> None:
    assert find_choice(answer, ("stone", "green", "loud"), 1, shown=True).score == score
