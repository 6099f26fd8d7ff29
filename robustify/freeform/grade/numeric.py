"""Whether a number is right, without a judge: decimal, exact, with the tolerance relative to the reference alone.

The number must be certain: one in the final segment, or the one after its last equals sign. A range, a bound or two
numbers are wrong; an expression, an unknown unit or a scale that is off by a power of ten is left to a judge.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from typing import Literal

from robustify.errors import UsageError
from robustify.freeform.answer_text import (
    Finding,
    final_segment,
    is_refusal,
    no_answer,
    right,
    said,
    undecided,
    wrong,
)
from robustify.freeform.grade.quantities import NumberWithUnit, plain_notation, quantities_in, whole_quantity
from robustify.freeform.grade.units import Unit, convert, dimension, is_percent, parse_unit

_BOUND = re.compile(
    r"(?:[<>≤≥]\s?=?|\b(?:at\s+(?:least|most)|(?:more|less|greater|fewer|higher|lower|larger|smaller|not?\s+more|not?\s+less)"
    r"\s+than|up\s+to|under|exceed(?:s|ing)?))\s*$",
    re.IGNORECASE,
)
_JOINT = re.compile(r"\s*(?:-|–|—|to|or|and|and/or|\.\.\.?)\s*", re.IGNORECASE)
_SYMBOLS = re.compile(
    r"[π√∞^_∑∫]|\*\*|\\[A-Za-z]+|\b(?:sqrt|sin|cos|tan|log|ln|exp|pi|arcsin|arccos|arctan|squared|cubed|root)\b",
    re.IGNORECASE,
)
_OPERATOR_AFTER = re.compile(r"\s?(?:[*/×·+]|-(?=\s?[\w(]))\s?[\w(\\]|\s?[x](?=\s?[\d(])|\(")
_OPERATOR_BEFORE = re.compile(r"(?:[\w)]\s?[*/×·+]|[\w)]\s-|\d\s?x|(?<=[a-z])\()\s?$")


def last_right_side(segment: str) -> tuple[int, int]:
    """Where the text after the last `=` or `≈` of the last line begins and ends; (0, length) where there is none."""
    stop = len(segment.rstrip())
    line = segment.rfind("\n", 0, stop) + 1
    sign = max(segment.rfind("=", line, stop), segment.rfind("≈", line, stop))
    return (sign + 1, len(segment)) if sign >= 0 else (0, len(segment))


def joined_pair(segment: str, first: NumberWithUnit, second: NumberWithUnit) -> bool:
    """Whether two numbers are a range or an alternative."""
    between = segment[first.end : second.start]
    if _JOINT.fullmatch(between) or re.fullmatch(r"\s?-\s?", between):
        return True
    return between == "" and segment[second.start - 1 : second.start] == "-"


def bounded(segment: str, quantity: NumberWithUnit) -> bool:
    """Whether a number is only a bound: "at least 5", "> 5"."""
    return _BOUND.search(segment[max(0, quantity.start - 40) : quantity.start]) is not None


def expression(segment: str, inside: Sequence[NumberWithUnit], scope: tuple[int, int] | None = None) -> bool:
    """Whether something is left to compute: roots, powers, functions, or an operator beside a number."""
    start, end = scope or (0, len(segment))
    left, place = [], start
    for quantity in inside:
        left.append(segment[place : quantity.start])
        place = max(place, quantity.end)
    left.append(segment[place:end])
    if _SYMBOLS.search(" ".join(left)):
        return True
    for quantity in inside:
        if _OPERATOR_AFTER.match(segment[quantity.end : quantity.end + 4]):
            return True
        if _OPERATOR_BEFORE.search(segment[max(start, quantity.start - 4) : quantity.start]):
            return True
    return False


Percent = Literal["auto", "face", "strict"]
_CONTEXT = Context(prec=60)
_NAMES_PERCENT = re.compile(r"%|\bper\s?cent(?:age)?s?\b", re.IGNORECASE)
_CELSIUS, _COULOMB, _DEGREE = (("degree_Celsius", 1),), (("coulomb", 1),), (("degree", 1),)
_FAHRENHEIT, _FARAD = (("degree_Fahrenheit", 1),), (("farad", 1),)


@dataclass(frozen=True, slots=True)
class NumericRule:
    """How a number is compared. It is right within `max(rel * |reference|, abs)`; both 0 mean exact equality.

    `unit` is the unit it is wanted in. `percent`: "auto" lets `question` decide whether 20 % may also be 20; "face" and
    "strict" force one reading. `rivals` are wrong values that are known, as of other options: an answer that is nearer
    to one is not right, however wide the tolerance.

    Raises:
        UsageError: a tolerance that is negative or no finite number, or a `percent` that is none.
    """

    rel: Decimal = Decimal("0.05")
    abs: Decimal = Decimal(0)
    unit: str | None = None
    percent: Percent = "auto"
    rivals: tuple[Decimal, ...] = ()

    def __post_init__(self) -> None:
        for name, value in (("rel_tol", self.rel), ("abs_tol", self.abs)):
            if not value.is_finite() or value < 0:
                raise UsageError(f"{name} {value}: expected a finite number of at least 0")
        if self.percent not in ("auto", "face", "strict"):
            raise UsageError(f"percent {self.percent!r}: expected auto, face or strict")

    def close(self, answer: Decimal, reference: Decimal) -> bool:
        """Whether an answer is within the tolerance, its edge included."""
        with localcontext(_CONTEXT):
            return abs(answer - reference) <= max(self.rel * abs(reference), self.abs)

    def accepts(self, answer: Decimal, reference: Decimal) -> bool:
        """Whether an answer is within the tolerance, and nearer to no rival."""
        if not self.close(answer, reference):
            return False
        with localcontext(_CONTEXT):
            off = abs(answer - reference)
            return all(abs(answer - rival) >= off for rival in self.rivals)


def written(tolerance: float) -> Decimal:
    """A tolerance as it is written: 0.05 is 5 %, not 0.05000000000000000277."""
    return Decimal(str(tolerance))


def rivals_of(reference: str, others: Sequence[str]) -> tuple[Decimal, ...]:
    """The values of other options that are written in the reference's unit."""
    known = whole_quantity(reference)
    found = [whole_quantity(other) for other in others]
    if known is None:
        return ()
    return tuple(q.value for q in found if q is not None and q.unit == known.unit and q.value != known.value)


def find_numeric(answer: str, reference: str, rule: NumericRule, question: str = "") -> Finding:
    """Whether an answer gives the reference's number. Never raises for either text."""
    known = whole_quantity(reference)
    wanted = parse_unit(rule.unit) if rule.unit else None
    if known is None or (rule.unit and wanted is None):
        return Finding("reference_error", None, None, "reference_is_no_quantity")
    text = said(answer)
    if isinstance(text, Finding):
        return text
    # The unit that was asked for goes with a bare number; one that the reference carries itself stays with it.
    reference_quantity = known if known.unit is not None or wanted is None else known._replace(unit=wanted)
    segment = final_segment(plain_notation(text))
    found = _kept(quantities_in(segment), reference_quantity.unit)
    if not found:
        if expression(segment, ()):
            return undecided("expression")
        return no_answer("refusal") if is_refusal(text) else undecided("no_number")
    return _chosen(segment, found, reference_quantity, rule, question)


def _kept(found: Sequence[NumberWithUnit], unit: Unit | None) -> list[NumberWithUnit]:
    """The quantities of the reference's dimension, if there are any; else all."""
    if unit is None or is_percent(unit):
        return list(found)
    wanted = dimension(unit)
    return [q for q in found if q.unit is not None and dimension(q.unit) == wanted] or list(found)


def _chosen(
    segment: str, found: list[NumberWithUnit], reference: NumberWithUnit, rule: NumericRule, question: str
) -> Finding:
    every = quantities_in(segment)
    distinct = _distinct(found)
    if len(distinct) == 1:
        scope = last_right_side(segment) if "=" in segment or "≈" in segment else (0, len(segment))
        if not all(scope[0] <= q.start < scope[1] for q in found):
            scope = (0, len(segment))
        return _one(segment, scope, every, found[-1], reference, rule, question)
    if len(every) == 2 and joined_pair(segment, every[0], every[1]):
        return wrong("range_or_multiple", segment[every[0].start : every[1].end])
    scope = last_right_side(segment)
    on_the_right = [q for q in found if scope[0] <= q.start < scope[1]]
    if scope[0] > 0 and len(_distinct(on_the_right)) == 1:
        return _one(segment, scope, every, on_the_right[-1], reference, rule, question)
    return undecided("multiple_numbers")


def _distinct(found: Sequence[NumberWithUnit]) -> set[tuple[Decimal, Unit | None]]:
    return {(q.value.normalize(_CONTEXT), q.unit) for q in found}


def _one(
    segment: str,
    scope: tuple[int, int],
    every: Sequence[NumberWithUnit],
    quantity: NumberWithUnit,
    reference: NumberWithUnit,
    rule: NumericRule,
    question: str,
) -> Finding:
    if bounded(segment, quantity):
        return wrong("inequality", quantity.raw)
    inside = [q for q in every if scope[0] <= q.start < scope[1]]
    if expression(segment, inside, scope):
        return undecided("expression", quantity.raw)
    return _compared(quantity, reference, rule, question)


def _compared(
    quantity: NumberWithUnit, reference: NumberWithUnit, rule: NumericRule, question: str
) -> Finding:
    if quantity.bullet and rule.accepts(-quantity.value, reference.value):
        return undecided("sign_or_bullet", quantity.raw)
    if is_percent(reference.unit) or is_percent(quantity.unit):
        return _by_percent(quantity, reference, rule, question)
    value, unit = quantity.value, _meant(quantity.unit, reference.unit)
    flags: tuple[str, ...] = ()
    if reference.unit is None:
        flags = ("unit_ignored",) if unit is not None or quantity.unknown else ()
    elif unit is not None:
        there = convert(value, unit, reference.unit)
        if there.comparable is None:
            return undecided("unit_not_convertible", quantity.raw)
        if there.value is None:
            return wrong("unit_mismatch", quantity.raw)
        value = there.value
    elif quantity.unknown:
        return undecided("unknown_unit", quantity.raw)
    else:
        flags = ("unit_assumed",)
    if rule.accepts(value, reference.value):
        return right("within_tolerance", quantity.raw, flags)
    if flags and _off_by_tens(value, reference.value, rule):
        return undecided("unit_scale_mismatch", quantity.raw, flags)
    return _missed(quantity, reference, rule, flags)


def _missed(
    quantity: NumberWithUnit, reference: NumberWithUnit, rule: NumericRule, flags: tuple[str, ...]
) -> Finding:
    if reference.value == 0 and rule.abs == 0:
        return wrong("zero_reference_needs_abs", quantity.raw, flags)
    if quantity.value in rule.rivals:
        return wrong("other_option", quantity.raw, flags)
    return wrong("outside_tolerance", quantity.raw, flags)


def _meant(unit: Unit | None, wanted: Unit | None) -> Unit | None:
    """ "25 C" or "25 degrees" for a temperature is no charge and no angle, "77 F" no capacitance."""
    if wanted not in (_CELSIUS, _FAHRENHEIT):
        return unit
    if unit == _DEGREE:
        return wanted
    return _CELSIUS if unit == _COULOMB else _FAHRENHEIT if unit == _FARAD else unit


def _by_percent(
    quantity: NumberWithUnit, reference: NumberWithUnit, rule: NumericRule, question: str
) -> Finding:
    """Face value or fraction: both for a reference in per cent; for another one the question decides."""
    face = quantity.value
    if is_percent(reference.unit):
        if quantity.unit is not None and not is_percent(quantity.unit):
            return wrong("unit_mismatch", quantity.raw)
        if quantity.unknown:
            return undecided("unknown_unit", quantity.raw)
        values = [face] if is_percent(quantity.unit) else [face, face * 100]
        ok = any(rule.accepts(value, reference.value) for value in values)
        return right("within_tolerance", quantity.raw) if ok else _missed(quantity, reference, rule, ())
    if reference.unit is not None:
        return wrong("unit_mismatch", quantity.raw)
    readings = {"face": [face], "strict": [face / 100]}.get(rule.percent)
    if readings is None:
        readings = [face / 100, face] if _NAMES_PERCENT.search(question) else [face / 100]
    if any(rule.accepts(reading, reference.value) for reading in readings):
        return right("within_tolerance", quantity.raw, ("percent",))
    return _missed(quantity, reference, rule, ("percent",))


def _off_by_tens(value: Decimal, reference: Decimal, rule: NumericRule) -> bool:
    """Whether an answer would be right with its decimal point moved: then it may be in another unit."""
    if value == 0 or reference == 0:
        return False
    shift = reference.adjusted() - value.adjusted()
    shifts = (shift - 1, shift, shift + 1)
    return any(s != 0 and rule.close(value.scaleb(s, _CONTEXT), reference) for s in shifts)
