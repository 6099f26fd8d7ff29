"""Numbers in answers: what is read as a quantity, what counts as right, and what is left undecided."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from robustify.errors import UsageError
from robustify.freeform.grade import units
from robustify.freeform.grade.numeric import NumericRule, find_numeric
from robustify.freeform.grade.quantities import plain_notation, quantities_in, whole_quantity
from robustify.freeform.grade.units import convert, parse_unit
from tests.freeform.scripted import grade_numeric, table
from tests.support.cost import costs_at_most

QUANTITIES = table("numeric_quantities")


@pytest.mark.parametrize(("text", "values"), QUANTITIES)
def test_a_text_holds_these_numbers(text: str, values: list[str]) -> None:
    assert [q.value for q in quantities_in(plain_notation(text))] == [Decimal(v) for v in values]


UNITS = table("numeric_units")


@pytest.mark.parametrize(("text", "unit"), UNITS)
def test_a_unit_is_read_from_a_closed_list(text: str, unit: object) -> None:
    assert parse_unit(text) == (unit and tuple(map(tuple, unit)))


S, N, J, R, T = "scored", "no_answer", "needs_judge", "reference_error", "truncated"
GRADES = table("numeric_grades")


@pytest.mark.parametrize(("answer", "reference", "status", "score", "reason"), GRADES)
def test_a_number_gets_this_grade(
    answer: str, reference: str, status: str, score: float | None, reason: str
) -> None:
    found = grade_numeric(answer, reference, mode="deterministic")
    assert (found.status, found.score, found.reason) == (status, score, reason)
    assert found.tolerance == {"rel": "0.05", "abs": "0.0"}


def test_the_question_says_how_a_per_cent_sign_is_read() -> None:
    for question, scores in (("What percentage is it?", (1, 1)), ("How many?", (None, 1))):
        found = (find_numeric("20%", reference, NumericRule(), question) for reference in ("20", "0.2"))
        assert tuple(one.score for one in found) == scores


RIVALS = table("numeric_rivals")


@pytest.mark.parametrize(("answer", "reference", "others", "score", "reason"), RIVALS)
def test_a_wide_tolerance_does_not_take_in_another_option(
    answer: str, reference: str, others: tuple[str, ...], score: float, reason: str
) -> None:
    found = grade_numeric(answer, reference, others=others)
    assert found.score == score
    if reason != "outside_tolerance":
        assert found.reason == reason


CONVERTED = table("numeric_converted")


@pytest.mark.parametrize(("answer", "reference", "score", "reason"), CONVERTED)
def test_compatible_units_are_converted(answer: str, reference: str, score: float, reason: str) -> None:
    found = grade_numeric(answer, reference, rel_tol=0.01, mode="deterministic")
    assert (found.score, found.reason) == (score, reason)


def test_every_unit_of_the_list_is_one_of_the_library() -> None:
    words = {*units._SYMBOLS, *units._SYMBOLS_ALONE, *units._WORDS, *units._WORDS_ALONE}
    words |= {prefix + symbol for prefix in units._PREFIXES for symbol in units._SYMBOLS}
    words |= {prefix + word for prefix in sorted(units._WORD_PREFIXES) for word in units._WORDS}
    for word in words:
        unit = parse_unit(word)
        assert unit is not None, word
        assert convert(Decimal(1), unit, unit) == 1


@pytest.mark.parametrize(
    ("value", "unit", "wanted", "there"),
    [("1", "Hz", "rad/s", None), ("1", "Gy", "Sv", None), ("1", "N m", "J", None), ("32", "°F", "°C", "0"),
     ("1", "kWh", "MJ", "3.6"), ("1", "h", "min", "60"), ("5", "$", "$", "5")],
)  # fmt: skip
def test_what_a_reader_keeps_apart_is_not_converted(
    value: str, unit: str, wanted: str, there: str | None
) -> None:
    here, asked = (parse_unit(text.replace("$", "＄")) for text in (unit, wanted))
    assert here is not None
    assert asked is not None
    assert convert(Decimal(value), here, asked) == (None if there is None else Decimal(there))


def test_the_unit_that_was_asked_for_goes_with_a_bare_reference() -> None:
    assert grade_numeric("5", "5", unit="m").flags == ("unit_assumed",)
    assert grade_numeric("5 m", "5", unit="m").flags == ()
    assert grade_numeric("5", "5", unit="blobs").status == R


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


@given(st.decimals(-(10**9), 10**9, allow_nan=False, places=4))
def test_a_number_is_read_back_in_every_notation(value: Decimal) -> None:
    for written in (f"{value:f}", f"{value:,f}", f"{value:.12E}", f"The answer is **{value:f}**."):
        assert grade_numeric(written, f"{value:f}", rel_tol=0).score == 1, written


@given(st.text(max_size=60))
def test_no_answer_raises_and_no_unread_one_scores(answer: str) -> None:
    found = grade_numeric(answer, "5")
    assert (found.score is None) == (found.status not in ("scored", "no_answer"))
    whole_quantity(answer)


HOSTILE = {
    "digits": "9" * 1_000_000,
    "numbers": "5 " * 500_000,
    "fractions": "1/" * 500_000,
    "boxes": "\\boxed{" * 140_000,
    "answers": "answer is " * 100_000,
    "equals": "=5" * 500_000,
    "units": "5 kg m s " * 100_000,
    "blanks": " " * 999_999 + "5",
    "unit power": "5 9**9**9",
    "ligatures": "\ufdfa" * 1_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_megabyte_answer_takes_bounded_time(name: str) -> None:
    hostile = HOSTILE[name]
    found = costs_at_most(200, lambda: grade_numeric(hostile, "5", unit=None))
    assert found.score is None or found.status in ("scored", "no_answer")
    costs_at_most(200, lambda: grade_numeric("5 m", "5", unit=hostile))
