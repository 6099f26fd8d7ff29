"""Rules that decide whether a numeric answer is correct, in exact decimal arithmetic.

The tolerance is relative to the reference. An answer is decided only if it is one number with a unit that compares with
the reference's. A number that would be correct in another reading (separator, sign, power of ten, omitted unit, size of
a gallon) is undecided.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException, localcontext

from robustify.freeform.grade.choices import words_of
from robustify.freeform.grade.findings import Finding, agreed, core_texts, right, said, undecided, wrong
from robustify.freeform.grade.quantities import (
    CONTEXT,
    Quantity,
    Unit,
    parse_unit,
    read_quantity,
    registry,
    units_of,
    value_of,
)

_BEFORE_REFERENCE = re.compile(r"^\s*(?:[A-Za-z][\w']{0,9}\s?[=≈]\s?|[~≈]\s?|(?:approximately|about)\s+)")
_NAMED = re.compile(
    r"(?:(?P<name>[^\W\d_]{1,20})\s?[=≈]\s?)?(?:[\s\d.+\-*/×·÷()]{1,60}[=≈]\s?)?(?P<value>[^=≈]+)"
)
_TAKEN_OFF = re.compile(r"[-–—−>*]\s+\Z")
_CHANGED = re.compile(r"\d\s*!|\d\s*\+\s*\Z")
_PERCENT: Unit = {"percent": 1}
_TEMPERATURES: tuple[Unit, ...] = ({"kelvin": 1}, {"degree_Celsius": 1}, {"degree_Fahrenheit": 1})
_APART = re.compile(
    "(hertz|revolutions_per_minute|radian|degree|becquerel|gray|sievert|percent|ppm|decibel|newton|candela|lumen|count|turn)(?:,|$)"
)
"""Units that pint converts freely into others and a reader does not: 1 Hz is no 1 rad/s, and a torque is no energy."""
_SIZES = re.compile(
    "(?:gallon|ounce|calorie|byte|bit|month|year|pound|ton|pint|quart|cup|mile|barrel)(?:,|$)"
)
"""Units of several sizes: another value is not certainly an error."""
_KNOWN = re.compile(
    r"(?:[a-z]{2,5})?(?:meter|gram|second|minute|hour|day|week|ampere|volt|newton|joule|watt|hertz|pascal|ohm|mole|kelvin"
    r"|liter|foot|inch|coulomb|degree_Celsius|bar|horsepower)(?<!slinch)"
)
"""Units that mean nothing else, so that another dimension is an error. A blob, a point or a count may be words."""
_NAMES_PERCENT = re.compile(r"%|\bper\s?cent(?:age)?s?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NumericRule:
    """Criteria for accepting a number.

    A number is correct within `max(rel * |reference|, abs)`. If both are 0, it must be equal. `unit` is the expected
    unit. `rivals` are known wrong values, such as other options. An answer that is nearer to one of them is wrong,
    however wide the tolerance is.
    """

    rel: Decimal = Decimal("0.05")
    abs: Decimal = Decimal(0)
    unit: str | None = None
    rivals: tuple[Decimal, ...] = ()

    def accepts(self, answer: Decimal, reference: Decimal) -> bool:
        """Return whether an answer is within the inclusive tolerance and not nearer to a rival."""
        with localcontext(CONTEXT):
            off = abs(answer - reference)
            within = off <= max(self.rel * abs(reference), self.abs)
            return within and all(abs(answer - rival) >= off for rival in self.rivals)


def written(tolerance: float) -> Decimal:
    """Convert a tolerance to its decimal notation, so that 0.05 is exactly 5 %."""
    return Decimal(str(tolerance))


def whole_quantity(reference: str) -> Quantity | None:
    """Read a reference as one quantity, with an optional leading `x =` or `~`. Return None if it is anything else."""
    found = read_quantity(_BEFORE_REFERENCE.sub("", reference[:1000]))
    return None if found is None or (found.written and found.unit is None) else found


def rivals_of(reference: str, others: Sequence[str]) -> tuple[Decimal, ...]:
    """Return the values of the other options that use the reference's unit."""
    known, found = whole_quantity(reference), map(whole_quantity, others)
    if known is None:
        return ()
    return tuple(q.value for q in found if q is not None and q.unit == known.unit and q.value != known.value)


def find_numeric(answer: str, reference: str, rule: NumericRule, question: str = "") -> Finding:
    """Decide whether an answer gives the reference's number. Never raises because of a text."""
    known, wanted = whole_quantity(reference), parse_unit(rule.unit) if rule.unit else None
    if known is None or (rule.unit and wanted is None):
        return Finding("reference_error", None, None, "reference_is_no_quantity")
    text = said(answer)
    if isinstance(text, Finding):
        return text
    return agreed(text, _Comparison(known._replace(unit=known.unit or wanted), rule, question).find)


@dataclass(frozen=True, slots=True, repr=False)
class _Comparison:
    """A reference in the expected unit, compared with the number of an answer."""

    reference: Quantity
    rule: NumericRule
    question: str

    def find(self, claim: str) -> Finding:
        """Decide a claim that is nothing but a number, a formula, or `x =` one of them."""
        if _CHANGED.search(claim):
            return undecided("no_number", claim)
        for core in core_texts(claim, self.question):
            named = _NAMED.fullmatch(core)
            if named and named["name"] and not self._asks_for(named["name"]):
                return undecided("equations", claim)
            value = named["value"].strip() if named else core
            found = read_quantity(value)
            if found is not None and not _TAKEN_OFF.search(claim[: claim.rfind(core)]):
                return self._compared(found, value)
            computed = value_of(value) if found is None else None
            if computed is not None and self.reference.unit is None and self._accepts(computed):
                return right("formula", claim)
        return undecided("no_number", claim)

    def _asks_for(self, name: str) -> bool:
        letters = set(re.findall(r"\b[^\W\d_]\b", self.question)) - {"a", "A", "I"}
        return name in letters or (len(name) == 1 and not letters) or self.question.endswith(f" {name}?")

    def _accepts(self, value: Decimal) -> bool:
        return self.rule.accepts(value, self.reference.value)

    def _compared(self, found: Quantity, raw: str) -> Finding:
        wanted = self.reference.unit
        unknown = found.unit is None and found.written.casefold()
        if unknown and (wanted or unknown not in words_of(self.question)):
            return undecided("words_around", raw)
        if wanted in _TEMPERATURES and found.written in ("C", "F", "degrees"):
            unit = None if found.written == "degrees" else _TEMPERATURES["KCF".index(found.written)]
            found = found._replace(unit=unit)
        if found.unit is not None and wanted is None and found.unit != _PERCENT:
            return undecided("unit_not_asked", raw)
        value = found.value
        flags: tuple[str, ...] = ()
        both = found.unit is not None and wanted is not None
        if _PERCENT in (found.unit, wanted) and found.unit != wanted:
            if found.unit not in (None, _PERCENT) or wanted not in (None, _PERCENT):
                return undecided("unit_unclear", raw)
            # A bare 0.2 is 20 % as well as a bare 20 is.
            if (found.unit is None or _NAMES_PERCENT.search(self.question)) and self._accepts(value):
                return right("within_tolerance", raw, ("percent",))
            value, flags = value.scaleb(-2 if found.unit else 2, CONTEXT), ("percent",)
        elif both:
            if self._differs(found):
                return wrong("unit_mismatch", raw)
            there = _converted(value, found.unit or {}, wanted or {})
            if there is None:
                return undecided("unit_unclear", raw)
            value = there
        elif wanted is not None:
            flags = ("unit_assumed",)
        if self._accepts(value):
            return right("within_tolerance", raw, flags)
        if wanted is not None and found.unit is None and wanted != _PERCENT:
            return undecided("unit_unclear", raw)
        if any(self._accepts(other) for other in self._other_readings(found, value)):
            return undecided("other_reading", raw)
        if found.unit != wanted and _SIZES.search(",".join((*(found.unit or ()), *(wanted or ())))):
            return undecided("unit_unclear", raw)
        if not self.reference.value and not self.rule.abs:
            return wrong("zero_reference_needs_abs", raw, flags)
        return wrong("other_option" if value in self.rule.rivals else "outside_tolerance", raw, flags)

    def _differs(self, found: Quantity) -> bool:
        """Return whether a unit has certainly another dimension. "m" may be metres or minutes."""
        here, there = found.unit or {}, self.reference.unit or {}
        known = all(_KNOWN.fullmatch(name) for name in (*here, *there))
        single = len(found.written) == 1 and found.written not in "sVNJW"
        return known and not single and bool(units_of(here).dimensionality != units_of(there).dimensionality)

    def _other_readings(self, found: Quantity, value: Decimal) -> Iterator[Decimal]:
        yield -value
        if found.other is not None:
            yield from (found.other, -found.other)
        if found.unit is None or found.unit == _PERCENT or self.reference.unit is None:
            shift = self.reference.value.adjusted() - value.adjusted()
            yield from (sign * value.scaleb(shift + more, CONTEXT) for more in (-1, 0, 1) for sign in (1, -1))


def _converted(value: Decimal, unit: Unit, wanted: Unit) -> Decimal | None:
    """Convert a value to a unit of the same dimension and kind, to 12 digits, or return None."""
    if unit == wanted:
        return value
    # A difference of 18 °F is one of 10 °C, and a temperature of 18 °F is not.
    here, there = (set(_APART.findall(",".join(names))) for names in (unit, wanted))
    if unit in _TEMPERATURES or wanted in _TEMPERATURES or here != there:
        return None
    try:
        given = registry().Quantity(float(value), units_of(unit))
        made = Decimal(f"{given.to(units_of(wanted)).magnitude:.12g}")
    # pint's own errors derive from these. None of them means that the answer is wrong.
    except (ArithmeticError, AttributeError, TypeError, ValueError, DecimalException):
        return None
    return made if made.is_finite() else None
