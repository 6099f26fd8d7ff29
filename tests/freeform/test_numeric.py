"""Numbers in answers: what is read as a quantity, what counts as right, and what is left undecided."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.errors import UsageError
from robustify.freeform.grade import units
from robustify.freeform.grade.numeric import NumericRule, Percent, find_numeric
from robustify.freeform.grade.quantities import plain_notation, quantities_in, whole_quantity
from robustify.freeform.grade.units import convert, parse_unit
from tests.freeform.scripted import grade_numeric
from tests.support.cost import costs_at_most

QUANTITIES = [
    ("42", ["42"]),
    ("-5 and +3", ["-5", "3"]),
    ("−5", ["-5"]),
    ("–5", ["-5"]),
    ("2–3", ["2", "3"]),
    ("5-6", ["5", "6"]),
    ("1,234.5", ["1234.5"]),
    ("1.234,5", ["1234.5"]),
    ("1'234", ["1234"]),
    ("12\u202f000", ["12000"]),
    ("\\$1{,}200", ["1200"]),
    ("3,14", ["3.14"]),
    ("0,125", ["0.125"]),
    ("1,2,3", ["1", "2", "3"]),
    (".5", ["0.5"]),
    ("6.02e23", ["6.02E+23"]),
    ("6.02 × 10^23", ["6.02E+23"]),
    ("6.02×10²³", ["6.02E+23"]),
    ("6.02 x 10**23", ["6.02E+23"]),
    ("6.02 \\times 10^{23}", ["6.02E+23"]),
    ("10^{-3}", ["0.001"]),
    ("10⁻³", ["0.001"]),
    ("1/2", ["0.5"]),
    ("½", ["0.5"]),
    ("1½", ["1.5"]),
    ("1 1/2", ["1.5"]),
    ("\\frac{3}{4}", ["0.75"]),
    ("5 million", ["5E+6"]),
    ("5k", ["5E+3"]),
    ("€5", ["5"]),
    ("$5", ["5"]),
    ("5 ± 0.2", ["5"]),
    ("١٢", ["12"]),
    ("٣٫٥", ["3.5"]),
    ("４２", ["42"]),
    ("**42**", ["42"]),
    ("H2O", []),
    ("3rd", []),
    ("x_1", []),
    ("COVID-19", []),
    ("v1.2.3", []),
    ("12/05/2020", []),
    ("2**10", []),
    ("9**9**9", []),
    ("2^10", []),
    ("5x", []),
    ("1/0", []),
    ("1e999999", []),
    ("no number", []),
    ("", []),
]


@pytest.mark.parametrize(("text", "values"), QUANTITIES)
def test_a_text_holds_these_numbers(text: str, values: list[str]) -> None:
    assert [q.value for q in quantities_in(plain_notation(text))] == [Decimal(v) for v in values]


UNITS = [
    ("m/s^2", (("meter", 1), ("second", -2))),
    ("m s^-2", (("meter", 1), ("second", -2))),
    ("m·s⁻²", (("meter", 1), ("second", -2))),
    ("m/s/s", (("meter", 1), ("second", -2))),
    ("m/s^-2", None),
    ("m 2", None),
    ("Nm", (("meter", 1), ("newton", 1))),
    ("days", (("day", 1),)),
    ("kWh", (("kilowatt_hour", 1),)),
    ("kg m^2/s^2", (("kilogram", 1), ("meter", 2), ("second", -2))),
    ("J/(mol K)", (("joule", 1), ("kelvin", -1), ("mole", -1))),
    ("J/mol/K", (("joule", 1), ("kelvin", -1), ("mole", -1))),
    ("J/mol K", None),
    ("meters per second", (("meter", 1), ("second", -1))),
    ("light years", (("light_year", 1),)),
    ("degrees Celsius", (("degree_Celsius", 1),)),
    ("℃", (("degree_Celsius", 1),)),
    ("J/°C", (("delta_degree_Celsius", -1), ("joule", 1))),
    ("µm", (("micrometer", 1),)),
    ("μm", (("micrometer", 1),)),
    ("kΩ", (("kiloohm", 1),)),
    ("hr", (("hour", 1),)),
    ("%", (("percent", 1),)),
    ("9**9**9", None),
    ("m^999", None),
    ("m^99", None),
    ("apples", None),
    ("in", None),
    ("a", None),
    ("5", None),
    ("", None),
    ("m" * 100, None),
    ("((((m))))", None),
    ("m/", None),
    ("__import__", None),
]


@pytest.mark.parametrize(("text", "unit"), UNITS)
def test_a_unit_is_read_from_a_closed_list(text: str, unit: object) -> None:
    assert parse_unit(text) == unit


S, N, J, R, T = "scored", "no_answer", "needs_judge", "reference_error", "truncated"
# answer, reference, status, score, reason
GRADES = [
    ("42", "42", S, 1, "within_tolerance"),
    ("The answer is 42.", "42", S, 1, "within_tolerance"),
    ("105", "100", S, 1, "within_tolerance"),
    ("95", "100", S, 1, "within_tolerance"),
    ("105.0001", "100", S, 0, "outside_tolerance"),
    ("-42", "42", S, 0, "outside_tolerance"),
    ("−42", "-42", S, 1, "within_tolerance"),
    ("6.02 × 10^23", "6.02e23", S, 1, "within_tolerance"),
    ("1e-9", "1e-3", S, 0, "outside_tolerance"),
    ("0.0000002", "0.0000001", S, 0, "outside_tolerance"),
    ("2.2e-10", "2.2e-11", S, 0, "outside_tolerance"),
    ("1,000", "1000", S, 1, "within_tolerance"),
    ("3/4", "0.75", S, 1, "within_tolerance"),
    ("0", "0", S, 1, "within_tolerance"),
    ("0.001", "0", S, 0, "zero_reference_needs_abs"),
    ('{"answer": 25}', "25", S, 1, "within_tolerance"),
    ("<answer>7</answer>", "7", S, 1, "within_tolerance"),
    ("First 3, then 4.\n#### 7", "7", S, 1, "within_tolerance"),
    ("\\boxed{5} and not 6", "5", J, None, "multiple_numbers"),
    ("We get 3 × 4, so the answer is 12", "12", S, 1, "within_tolerance"),
    ("Final answer: 12", "12", S, 1, "within_tolerance"),
    ("x = 2 + 3 = 5", "5", S, 1, "within_tolerance"),
    ("v = 2 * 5 = 10 m/s", "10 m/s", S, 1, "within_tolerance"),
    ("5.0, that is 5", "5", S, 1, "within_tolerance"),
    ("<think>maybe 6</think>5", "5", S, 1, "within_tolerance"),
    # certainly wrong
    ("43", "42", S, 1, "within_tolerance"),
    ("53", "42", S, 0, "outside_tolerance"),
    # undecided
    ("42 or 43", "42", J, None, "multiple_numbers"),
    ("42-43", "42", J, None, "multiple_numbers"),
    ("between 5 and 6", "5", J, None, "multiple_numbers"),
    ("at least 5", "5", J, None, "words_around"),
    ("> 5", "5", J, None, "words_around"),
    ("≥ 5", "5", J, None, "words_around"),
    ("sqrt(2)", "1.41", J, None, "words_around"),
    ("√2", "1.41", J, None, "words_around"),
    ("3π", "9.42", J, None, "no_number"),
    ("2^10", "1024", J, None, "no_number"),
    ("9**9**9", "5", J, None, "no_number"),
    ("- 5", "5", J, None, "sign_or_bullet"),
    ("It is:\n- 5", "5", J, None, "sign_or_bullet"),
    ("- 5", "-5", S, 1, "within_tolerance"),
    ("-5", "5", S, 0, "outside_tolerance"),
    ("x = - 5", "5", S, 0, "outside_tolerance"),
    ("2 × 5", "10", J, None, "multiple_numbers"),
    ("The total is 12 because 3 times 4 is 12", "12", J, None, "multiple_numbers"),
    ("five", "5", J, None, "no_number"),
    ("It depends.", "5", J, None, "no_number"),
    # no answer, cut off, no reference
    ("", "5", N, 0, "empty"),
    ("<think>5</think>", "5", N, 0, "empty"),
    ("I don't know.", "5", N, 0, "refusal"),
    ("I'm sorry, but I cannot help with that.", "5", N, 0, "refusal"),
    ("<think>it may be 5", "5", T, None, "unterminated_reasoning"),
    ("5", "about five", R, None, "reference_is_no_quantity"),
    ("5", "3 to 5", R, None, "reference_is_no_quantity"),
    # units
    ("9.9 m/s", "9.9 m/s", S, 1, "within_tolerance"),
    ("9.9 m s^-1", "9.9 m/s", S, 1, "within_tolerance"),
    ("9.9", "9.9 m/s", S, 1, "within_tolerance"),
    ("9900", "9.9 m/s", J, None, "other_reading"),
    ("8", "9.9 m/s", S, 0, "outside_tolerance"),
    ("9.9 blobs", "9.9 m/s", J, None, "words_around"),
    ("9.9 km", "9.9", J, None, "unit_not_asked"),
    ("9900 m", "9.9", J, None, "unit_not_asked"),
    ("25 C", "25 °C", S, 1, "within_tolerance"),
    ("25 degrees", "25 °C", S, 1, "within_tolerance"),
    # per cent
    ("20%", "0.2", S, 1, "within_tolerance"),
    ("20%", "20", J, None, "percent_or_number"),
    ("20%", "20%", S, 1, "within_tolerance"),
    ("20", "20%", S, 1, "within_tolerance"),
    ("0.2", "20%", S, 1, "within_tolerance"),
    ("0.2%", "20%", S, 0, "outside_tolerance"),
    ("20%", "20 m", S, 0, "unit_mismatch"),
    ("20 m", "20%", S, 0, "unit_mismatch"),
    ("20 blobs", "20%", J, None, "words_around"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "reference", "status", "score", "reason"), GRADES)
def test_a_number_gets_this_grade(
    answer: str, reference: str, status: str, score: float | None, reason: str
) -> None:
    found = grade_numeric(answer, reference, mode="deterministic")
    assert (found.status, found.score, found.reason) == (status, score, reason)
    assert found.tolerance == {"rel": "0.05", "abs": "0.0"}


PERCENT: list[tuple[str, str, Percent, float]] = [
    ("20%", "20", "auto", 1),
    ("20%", "20", "face", 1),
    ("20%", "20", "strict", 0),
    ("20%", "0.2", "face", 0),
    ("20%", "0.2", "strict", 1),
]


@pytest.mark.parametrize(("answer", "reference", "percent", "score"), PERCENT)
def test_the_question_or_a_rule_says_how_a_per_cent_sign_is_read(
    answer: str, reference: str, percent: Percent, score: float
) -> None:
    rule = NumericRule(percent=percent)
    assert find_numeric(answer, reference, rule, "What percentage is it?").score == score


RIVALS = [
    ("104", "100", ("104", "200"), 0, "other_option"),
    ("103", "100", ("104", "200"), 0, "outside_tolerance"),
    ("101", "100", ("104", "200"), 1, "within_tolerance"),
    ("102", "100", ("104", "200"), 1, "within_tolerance"),
    ("0.5", "1/2", ("0.50", "2"), 1, "within_tolerance"),
    ("104", "100", ("104 m", "some 104"), 1, "within_tolerance"),
    ("104 m", "100 m", ("104 m", "200 m"), 0, "outside_tolerance"),
    ("21%", "20%", ("21%", "30%"), 0, "other_option"),
    ("0.21", "20%", ("21%", "30%"), 0, "outside_tolerance"),
]


@pytest.mark.parametrize(("answer", "reference", "others", "score", "reason"), RIVALS)
def test_a_wide_tolerance_does_not_take_in_another_option(
    answer: str, reference: str, others: tuple[str, ...], score: float, reason: str
) -> None:
    found = grade_numeric(answer, reference, others=others)
    assert found.score == score
    if reason != "outside_tolerance":
        assert found.reason == reason


CONVERTED = [
    ("5000 m", "5 km", 1, "within_tolerance"),
    ("5 km (5000 m)", "5 km", 1, "within_tolerance"),
    ("298.15 K", "25 °C", 1, "within_tolerance"),
    ("77 F", "25 °C", 1, "within_tolerance"),
    ("5 s", "5 m", 0, "unit_mismatch"),
    ("36 km/h", "10 m/s", 1, "within_tolerance"),
    ("32 F", "0 °C", 1, "within_tolerance"),
    ("60 rpm", "1 Hz", 1, "within_tolerance"),
    ("10000 G", "1 T", 1, "within_tolerance"),
    ("5 ft 6 in", "66 in", 1, "within_tolerance"),
    ("2 kcal", "8.368 kJ", 1, "within_tolerance"),
]


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
    with pytest.raises(UsageError):
        grade_numeric("1", "1", **bad)
    with pytest.raises(UsageError, match="mode"):
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
    "minus": "-" * 1_000_000,
    "powers": "9**" * 333_333,
    "dots": "1." * 500_000,
    "groups": "1,000" * 200_000,
    "boxes": "\\boxed{" * 140_000,
    "answers": "answer is " * 100_000,
    "equals": "=5" * 500_000,
    "units": "5 kg m s " * 100_000,
    "stars": "*a" * 500_000,
    "commands": "\\text{" * 160_000,
    "blanks": " " * 999_999 + "5",
    "slashes": "/" * 1_000_000,
    "thai": "๑" * 1_000_000,
    "unit power": "5 9**9**9",
    "ligatures": "\ufdfa" * 1_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_megabyte_answer_takes_bounded_time(name: str) -> None:
    hostile = HOSTILE[name]
    found = costs_at_most(200, lambda: grade_numeric(hostile, "5", unit=None))
    assert found.score is None or found.status in ("scored", "no_answer")
    costs_at_most(200, lambda: grade_numeric("5 m", "5", unit=hostile))
