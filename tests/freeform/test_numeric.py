"""Numbers in answers: what is read as a quantity, what counts as right, and what is left undecided."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from robustify.base.errors import UsageError
from robustify.freeform.grade.numbers import parse_unit, read_quantity
from tests.freeform.scripted import grade_numeric, table

NUMBERS = {
    "42": "42", "−5": "-5", "–5": "-5", "1,234.5": "1234.5", "1.234,5": "1234.5", "1'234": "1234",
    "12 000": "12000", "\\$1{,}200": "1200",
    "3,14": "3.14", ".5": "0.5", "6.02 × 10^23": "6.02E+23", "6.02×10²³": "6.02E+23",
    "6.02 \\times 10^{23}": "6.02E+23", "½": "0.5",
    "\\frac{3}{4}": "0.75", "5 million": "5E+6", "$5": "5", "١٢": "12", "４２": "42", "seven": "7", "minus 5": "-5",
    "5-6": None, "1,2,3": None, "1 1/2": None, "5 ± 0.2": None, "H2O": None, "3rd": None,
    "COVID-19": None, "v1.2.3": None, "12/05/2020": None,
    "9**9**9": None, "1/0": None, "1e999999": None, "3π": None, "": None,
}  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
def test_a_whole_text_is_this_number_or_none(text: str) -> None:
    found, value = read_quantity(text), NUMBERS[text]
    assert (None if found is None else found.values[0]) == (None if value is None else Decimal(value))


@pytest.mark.parametrize(("text", "unit"), table("numeric_units"))
def test_a_unit_is_a_product_of_words_that_pint_knows(text: str, unit: object) -> None:
    found = parse_unit(text)
    assert (None if found is None else [list(one) for one in sorted(found._units.items())]) == unit


S, N, J, R, T = "scored", "no_answer", "needs_judge", "reference_error", "truncated"


@pytest.mark.parametrize(("answer", "reference", "status", "score", "reason"), table("numeric_grades"))
def test_a_number_gets_this_grade(
    answer: str, reference: str, status: str, score: float | None, reason: str
) -> None:
    found = grade_numeric(answer, reference, mode="deterministic")
    assert (found.status, found.score, found.reason) == (status, score, reason)
    assert found.tolerance == {"rel": "0.05", "abs": "0.0"}


def test_the_question_says_how_a_per_cent_sign_is_read() -> None:
    for question, scores in (("What percentage is it?", (1, 1)), ("How many?", (None, 1))):
        found = (grade_numeric("20%", reference, question=question) for reference in ("20", "0.2"))
        assert tuple(one.score for one in found) == scores


@pytest.mark.parametrize(("answer", "reference", "others", "score", "reason"), table("numeric_rivals"))
def test_a_wide_tolerance_does_not_take_in_another_option(
    answer: str, reference: str, others: tuple[str, ...], score: float, reason: str
) -> None:
    found = grade_numeric(answer, reference, others=others)
    assert found.score == score
    if reason != "outside_tolerance":
        assert found.reason == reason


@pytest.mark.parametrize(("answer", "reference", "score", "reason"), table("numeric_converted"))
def test_compatible_units_are_converted(answer: str, reference: str, score: float, reason: str) -> None:
    found = grade_numeric(answer, reference, rel_tol=0.01, mode="deterministic")
    assert (found.score, found.reason) == (score, reason)


@pytest.mark.parametrize(
    ("answer", "reference", "score"),
    [("1 Hz", "1 rad/s", None), ("1 Gy", "1 Sv", None), ("1 N m", "1 J", None), ("1 kWh", "3.6 MJ", 1),
     ("1 h", "60 min", 1), ("32 °F", "0 °C", None),
     ("$5", "$5", 1), ("2 kilos", "2 kg", 1), ("2 amps", "2 A", 1), ("3 m", "3 days", None), ("3 gallons", "14 l", None),
     ("5 km", "5 m", 0)],
)  # fmt: skip
def test_what_a_reader_keeps_apart_is_not_converted(answer: str, reference: str, score: float | None) -> None:
    assert grade_numeric(answer, reference, mode="deterministic").score == score


def test_the_unit_that_was_asked_for_goes_with_a_bare_reference() -> None:
    assert grade_numeric("5", "5", unit="m").flags == ("unit_assumed",)
    assert grade_numeric("5 m", "5", unit="m").flags == ()
    assert grade_numeric("5", "5", unit="zorks").status == R


def test_tolerances_are_decimal_and_inclusive() -> None:
    assert grade_numeric("1.1", "1.0", rel_tol=0.1).score == 1
    assert grade_numeric("1.100000000000000000001", "1.0", rel_tol=0.1).score == 0
    assert grade_numeric("0.3", "0.1", rel_tol=0, abs_tol=0.2).score == 1
    assert grade_numeric("5.0", "5", rel_tol=0).score == 1
    assert grade_numeric("5.0000001", "5", rel_tol=0).score == 0
    assert grade_numeric("0.001", "0", abs_tol=0.01).score == 1


@pytest.mark.parametrize("bad", [{"rel_tol": -1}, {"abs_tol": float("nan")}, {"rel_tol": float("inf")}])
def test_a_tolerance_that_is_none_is_misuse(bad: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        grade_numeric("1", "1", **bad)
    with pytest.raises(ValidationError, match="mode"):
        grade_numeric("1", "1", mode="always")
    with pytest.raises(UsageError, match="judge"):
        grade_numeric("1", "1", mode="judge")


@settings(max_examples=40, deadline=None)
@given(st.decimals(-(10**9), 10**9, allow_nan=False, places=4))
def test_a_number_is_read_back_in_every_notation(value: Decimal) -> None:
    for written in (f"{value:f}", f"{value:,f}", f"{value:.12E}", f"The answer is **{value:f}**."):
        assert grade_numeric(written, f"{value:f}", rel_tol=0).score == 1, written
