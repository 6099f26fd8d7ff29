"""Answers that rules grade: what is read, what counts as right, and what is left undecided."""

from collections import Counter
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from bench.freeform import Case, ours
from bench.freeform import cases as hard_cases
from robustify.freeform.grade.numbers import parse_unit, read_quantity
from tests.freeform.scripted import grade_explanation, grade_mcq, grade_numeric
from tests.support.cases import Fields, cases, fields, refuses
from tests.support.cost import costs_at_most

ORGANELLES = ("the mitochondria", "the nucleus", "the ribosome", "the nucleus membrane")
CHOICES: dict[str, Fields] = {
    "hidden": {"options": ORGANELLES, "correct": 0, "aliases": ("powerhouse",)},
    "shown": {"options": ("stone", "green", "loud"), "correct": 1, "shown": True},
}
HARD = hard_cases()


@pytest.mark.parametrize(("text", "value"), cases("free", "numbers_read"))
def test_a_whole_text_is_this_number_or_none(text: str, value: str | None) -> None:
    found = read_quantity(text)
    assert (found and found.values[0]) == (None if value is None else Decimal(value))


@pytest.mark.parametrize(("text", "unit"), cases("free", "numeric_units"))
def test_a_unit_is_a_product_of_words_that_pint_knows(text: str, unit: object) -> None:
    found = parse_unit(text)
    assert (None if found is None else [list(one) for one in sorted(found._units.items())]) == unit


@pytest.mark.parametrize("row", cases("free", "numeric_grades"))
def test_a_number_gets_this_grade(row: tuple[Any, ...]) -> None:
    found = grade_numeric(*row[:2], mode="deterministic")
    assert (found.status, found.score, found.reason) == row[2:]
    assert found.tolerance == {"rel": "0.05", "abs": "0.0"}


@pytest.mark.parametrize(("answer", "reference", "how", "expected"), cases("free", "numbers_with_settings"))
def test_tolerances_units_and_rivals(answer: str, reference: str, how: Fields, expected: Fields) -> None:
    assert fields(grade_numeric(answer, reference, **how), expected) == expected


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("bad", [{"rel_tol": -1}, {"abs_tol": NAN}, {"rel_tol": INF}, {"mode": "always"}])
def test_a_tolerance_or_mode_that_is_none_is_misuse(bad: Fields) -> None:
    with pytest.raises(ValidationError):
        grade_numeric("1", "1", **bad)
    with refuses("mode-needs-judge"):
        grade_numeric("1", "1", mode="judge")


@settings(max_examples=40, deadline=None)
@given(st.decimals(-(10**9), 10**9, allow_nan=False, places=4))
def test_a_number_is_read_back_in_every_notation(value: Decimal) -> None:
    for written in (f"{value:f}", f"{value:,f}", f"{value:.12E}", f"The answer is **{value:f}**."):
        assert grade_numeric(written, f"{value:f}", rel_tol=0).score == 1, written


@pytest.mark.parametrize(("choice", "answer", "expected"), cases("free", "choices"))
def test_an_answer_names_an_option_or_is_undecided(choice: Any, answer: str, expected: Fields) -> None:
    how = CHOICES[choice] if isinstance(choice, str) else {"options": choice, "correct": 0}
    assert fields(grade_mcq(answer, **how), expected) == expected


@pytest.mark.parametrize(("answer", "reference", "expected"), cases("free", "explanations"))
def test_an_explanation_with_equal_words_is_right(answer: str, reference: str, expected: Fields) -> None:
    assert fields(grade_explanation(answer, reference), expected) == expected


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_no_answer_raises_and_no_unread_one_scores(answer: str) -> None:
    graded = (grade_mcq(answer, ORGANELLES, 0), grade_numeric(answer, "5"), grade_explanation(answer, "so"))
    for found in graded:
        assert (found.score is None) == (found.status not in ("scored", "no_answer"))


HOSTILE = [
    "a ", "nucleus ", "I don't ", "*a", "'", "Answer A ", "9", "5 ", "1/", "\\boxed{", "answer is ", "=5", "5 kg m s ",
    "\ufdfa", "5 9**9**9 ",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_megabyte_answer_takes_bounded_time(text: str) -> None:
    long = (text * 1_000_000)[:1_000_000]
    graders: list[Any] = [partial(grade_mcq, long, ORGANELLES, 0), partial(grade_numeric, long, "5")]
    for grade in (*graders, partial(grade_numeric, "5 m", "5", unit=long)):
        found = costs_at_most(200, grade)
        assert found.score is None or found.status in ("scored", "no_answer")
    assert grade_mcq(long + "b", ORGANELLES, 0).error_type == "unsafe_input"


@pytest.mark.parametrize("case", HARD, ids=lambda case: f"{case.lang}-{case.topic}-{case.answer[:40]}")
def test_a_hard_answer_is_never_certain_and_wrong(case: Case) -> None:
    assert ours(case) in (case.expected, "undecided")


def test_the_table_of_hard_answers_is_large_and_enough_of_it_is_decided() -> None:
    assert (len(HARD) >= 300, len({case.lang for case in HARD}) >= 10) == (True, True)
    decided = Counter((case.expected, ours(case) != "undecided") for case in HARD)
    # Whatever leaves everything undecided is never wrong.
    for expected, share in (("right", 0.75), ("wrong", 0.25)):
        assert decided[expected, True] >= share * (decided[expected, True] + decided[expected, False])
    assert sum(n for (_, certain), n in decided.items() if certain) >= 450
    assert decided["undecided", True] == 0
