"""Rules that decide whether a numeric answer is correct, in exact decimal arithmetic.

The tolerance is relative to the reference. An answer is decided only if it is one number with a unit that compares with
the reference's. A number that would be correct in another reading (separator, sign, power of ten, omitted unit, size of
a gallon) is undecided.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException, localcontext
from typing import Any

from robustify.freeform.grade.quantities import CONTEXT, Amount, parse_unit, read_quantity, registry
from robustify.freeform.grade.worded import Ruling, core_texts, plain_words, said, shared_ruling

_BEFORE_REFERENCE = re.compile(r"^\s*(?:[A-Za-z][\w']{0,9}\s?[=≈]\s?|[~≈]\s?|(?:approximately|about)\s+)")
_NAMED = re.compile(
    r"(?:(?P<name>[^\W\d_]{1,20})\s?[=≈]\s?)?(?:[\s\d.+\-*/×·÷()]{1,60}[=≈]\s?)?(?P<value>[^=≈]+)"
)
_CHANGED = re.compile(r"\A\s*>|\d\s*!|\d\s*\+\s*\Z")
_NAMES_PERCENT = re.compile(r"%|\bper\s?cent(?:age)?s?\b", re.IGNORECASE)
_TEMPERATURES = ("degree_Celsius", "degree_Fahrenheit", "kelvin")
_APART = re.compile(
    r"(hertz|revolutions_per_minute|radian|degree|becquerel|gray|sievert|percent|ppm|decibel|newton|candela|lumen|count|turn)\b"
)
"""Units that pint converts freely into others and a reader does not: 1 Hz is no 1 rad/s, and a torque is no energy."""
_KNOWN = re.compile(
    r"(?:[a-z]{2,5})?(?:meter|gram|second|minute|hour|day|week|ampere|volt|newton|joule|watt|hertz|pascal|ohm|mole|kelvin"
    r"|liter|foot|inch|coulomb|degree_Celsius|bar|horsepower|tesla|watt_hour)"
)
"""Units of one size that mean nothing else, so that another value or dimension is an error."""


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


def whole_quantity(reference: str) -> Amount | None:
    """Read a reference as one quantity, with an optional leading `x =` or `~`. Return None if it is anything else."""
    found = read_quantity(_BEFORE_REFERENCE.sub("", reference[:1000]))
    return None if found is None or (found.written and found.unit is None) else found


def rivals_of(reference: str, others: Sequence[str]) -> tuple[Decimal, ...]:
    """Return the values of the other options that use the reference's unit."""
    known, found = whole_quantity(reference), map(whole_quantity, others)
    if known is None:
        return ()
    same = [one.values[0] for one in found if one is not None and one.unit == known.unit]
    return tuple(value for value in same if value != known.values[0])


def find_numeric(answer: str, reference: str, rule: NumericRule, question: str = "") -> Ruling:
    """Decide whether an answer gives the reference's number. Never raises because of a text."""
    known, unit = whole_quantity(reference), parse_unit(rule.unit) if rule.unit else None
    if known is None or (rule.unit and unit is None):
        return Ruling("reference_is_no_quantity", status="reference_error")
    text = said(answer)
    if isinstance(text, Ruling):
        return text
    wanted = unit if known.unit is None else known.unit
    return shared_ruling(text, _Comparison(known.values[0], wanted, rule, question).find)


@dataclass(frozen=True, slots=True, repr=False)
class _Comparison:
    """A reference in the expected unit, compared with the number of an answer."""

    reference: Decimal
    unit: Any
    rule: NumericRule
    question: str

    def find(self, claim: str) -> Ruling:
        """Decide a claim that is nothing but a number, or `x =` one."""
        if _CHANGED.search(claim):
            return Ruling("no_number", None, claim)
        for core in core_texts(claim, self.question):
            named = _NAMED.fullmatch(core)
            if named and named["name"] and not self._asks_for(named["name"]):
                return Ruling("equations", None, claim)
            value = named["value"].strip() if named else core
            if (found := read_quantity(value)) is not None:
                return self._compared(found, value)
        return Ruling("no_number", None, claim)

    def _asks_for(self, name: str) -> bool:
        letters = set(re.findall(r"\b[^\W\d_]\b", self.question)) - {"a", "A", "I"}
        return name in letters or (len(name) == 1 and not letters) or self.question.endswith(f" {name}?")

    def _accepts(self, value: Decimal) -> bool:
        return self.rule.accepts(value, self.reference)

    def _compared(self, found: Amount, raw: str) -> Ruling:
        found, (value, *others) = self._as_temperature(found), found.values
        unit, wanted, percent = found.unit, self.unit, registry().percent
        if found.written and unit is None and (wanted is not None or not self._names(found.written)):
            return Ruling("words_around", None, raw)
        flags: tuple[str, ...] = ()
        if unit == wanted or (unit is None and wanted is None):
            pass
        elif {unit, wanted} == {None, percent}:
            # A bare 0.2 is 20 % as well as a bare 20 is.
            flags, direct = ("percent",), unit is None or bool(_NAMES_PERCENT.search(self.question))
            others.append(value)
            if not (direct and self._accepts(value)):
                value = value.scaleb(-2 if unit is not None else 2, CONTEXT)
        elif unit is None:
            if wanted == percent or not self._accepts(value):
                return Ruling("unit_unclear", None, raw)
            flags = ("unit_assumed",)
        elif wanted is None:
            return Ruling("unit_not_asked", None, raw)
        elif _plainly(found) and unit.dimensionality != wanted.dimensionality and _known(wanted):
            return Ruling("unit_mismatch", 0.0, raw)
        elif (converted := _converted(value, unit, wanted)) is None:
            return Ruling("unit_unclear", None, raw)
        else:
            value = converted
        if self._accepts(value):
            return Ruling("within_tolerance", 1.0, raw, flags)
        if any(self._accepts(other) for other in self._other_readings(value, others, unit)):
            return Ruling("other_reading", None, raw)
        if unit != wanted and unit is not None and unit != percent and not (_known(unit) and _known(wanted)):
            return Ruling("unit_unclear", None, raw)
        if not self.reference and not self.rule.abs:
            return Ruling("zero_reference_needs_abs", 0.0, raw, flags)
        return Ruling("other_option" if value in self.rule.rivals else "outside_tolerance", 0.0, raw, flags)

    def _names(self, word: str) -> bool:
        return word.casefold() in plain_words(self.question)

    def _as_temperature(self, found: Amount) -> Amount:
        """Read the "C" or "degrees" of an answer as the temperature that is expected."""
        units = {"C": "degree_Celsius", "F": "degree_Fahrenheit", "degrees": str(self.unit)}
        if str(self.unit) not in _TEMPERATURES or found.written not in units:
            return found
        return found._replace(unit=registry().Unit(units[found.written]))

    def _other_readings(self, value: Decimal, others: Sequence[Decimal], unit: Any) -> Iterator[Decimal]:
        for other in (value, *others):
            yield from (other, -other)
        if unit is None or unit == registry().percent or self.unit is None:
            shift = self.reference.adjusted() - value.adjusted()
            yield from (sign * value.scaleb(shift + more, CONTEXT) for more in (-1, 0, 1) for sign in (1, -1))


def _known(unit: Any) -> bool:
    return all(_KNOWN.fullmatch(name) for name in unit._units)


def _plainly(found: Amount) -> bool:
    """Return whether a unit means one thing. "m" may be metres or minutes."""
    return _known(found.unit) and (len(found.written) > 1 or found.written in "sVNJW")


def _converted(value: Decimal, unit: Any, wanted: Any) -> Decimal | None:
    """Convert a value to a unit of the same dimension and kind, to 12 digits, or return None."""
    # A difference of 18 °F is one of 10 °C, and a temperature of 18 °F is not.
    one, other = str(unit), str(wanted)
    if {one, other} & {*_TEMPERATURES} or {*_APART.findall(one)} != {*_APART.findall(other)}:
        return None
    try:
        made = Decimal(f"{registry().Quantity(float(value), unit).to(wanted).magnitude:.12g}")
    # pint's own errors derive from these. None of them means that the answer is wrong.
    except (ArithmeticError, AttributeError, TypeError, ValueError, DecimalException):
        return None
    return made if made.is_finite() else None
