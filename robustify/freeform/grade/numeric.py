"""Rules that decide whether a numeric answer is correct, in exact decimal arithmetic.

The tolerance is relative to the reference. The number must be certain: only harmless words, words of the question, or
equal values may surround it. A range, a bound, two results, an expression, several equations or an unexpected unit are
undecided. A number is also undecided if another reading would make it correct, such as a decimal comma, an omitted
prefix or a sign.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import lru_cache

from robustify.freeform.answer_text import Finding, is_refusal, no_answer, right, said, undecided, wrong
from robustify.freeform.grade import word_set
from robustify.freeform.grade.claims import CHANGING, agreed, cores, known_words
from robustify.freeform.grade.quantities import (
    WORDS_OF_TEN,
    NumberWithUnit,
    plain_notation,
    quantities_in,
    value_of,
    whole_quantity,
)
from robustify.freeform.grade.units import (
    Unit,
    comparable,
    convert,
    has_two_meanings,
    is_percent,
    leading_unit,
    other_scales,
    parse_unit,
)

_HARMLESS, _DIFFERENCE = word_set("number"), word_set("difference")
"""Words beside a number that do not change it."""
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_MARKS = re.compile(r"[\s.,;:!()\[\]{}*_~≈—…]*")
_NAME = re.compile(r"([^\W\d_])(?:_\w+)?")
_ARITHMETIC = re.compile(r"[\s\d.+\-*/×·÷()^]*")
_SAME = Decimal("0.01")
"""Relative difference up to which two numbers of one claim are the same value ("5 miles (8 km)")."""
_ASKED_IN = re.compile(
    r"\b(?:in|how many|wie viele|en|combien de|cuántos|cuántas)\s+(?=[^\W\d])", re.IGNORECASE
)
_CONTEXT = Context(prec=60)
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
        with localcontext(_CONTEXT):
            off = abs(answer - reference)
            within = off <= max(self.rel * abs(reference), self.abs)
            return within and all(abs(answer - rival) >= off for rival in self.rivals)


def written(tolerance: float) -> Decimal:
    """Convert a tolerance to its decimal notation, so that 0.05 is exactly 5 %."""
    return Decimal(str(tolerance))


def rivals_of(reference: str, others: Sequence[str]) -> tuple[Decimal, ...]:
    """Return the values of the other options that use the reference's unit."""
    known = whole_quantity(reference)
    found = [whole_quantity(other) for other in others]
    if known is None:
        return ()
    return tuple(q.value for q in found if q is not None and q.unit == known.unit and q.value != known.value)


def find_numeric(answer: str, reference: str, rule: NumericRule, question: str = "") -> Finding:
    """Decide whether an answer gives the reference's number. Never raises because of a text."""
    known = whole_quantity(reference)
    wanted = parse_unit(rule.unit) if rule.unit else None
    if known is None or (rule.unit and wanted is None):
        return Finding("reference_error", None, None, "reference_is_no_quantity")
    text = said(answer)
    if isinstance(text, Finding):
        return text
    # A reference keeps its own unit. A reference without a unit gets the one that the question names.
    asked = None if known.unit or wanted else _asked_unit(question)
    compared = _Comparison(
        known._replace(unit=known.unit or wanted or asked), rule, question, asked is not None
    )
    found = agreed(plain_notation(text), compared.find)
    if found.reason in ("no_number", "several_results") and is_refusal(text):
        return no_answer("refusal")
    return found


@lru_cache(maxsize=1024)
def _asked_unit(question: str) -> Unit | None:
    """Return the only unit that a question names ("in km", "how many days"), or None."""
    plain = plain_notation(question[:2000])
    read = [leading_unit(plain[place.end() :]) for place in _ASKED_IN.finditer(plain)]
    found = {one.unit for one in read if one is not None}
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True, repr=False)
class _Comparison:
    """A reference in the expected unit, compared with the numbers of an answer."""

    reference: NumberWithUnit
    rule: NumericRule
    question: str
    asked: bool
    """Whether the question names the unit, so that a number without a unit is certainly in that unit."""

    def find(self, claim: str) -> Finding:
        """Decide one claim by its number, or by its formula if the formula has the correct value."""
        found = self._by_number(claim)
        if found.score is None and (self.reference.unit is None or self.asked):
            values = (value_of(core) for core in cores(claim))
            value = next((value for value in values if value is not None), None)
            if value is not None and self.rule.accepts(value, self.reference.value):
                return right("formula", claim)
        return found

    def _by_number(self, claim: str) -> Finding:
        core = [*cores(re.sub(r"\s*\n\s*", " ; ", claim.strip()))][-1].lstrip(" ;:,")
        *sides, last = re.split("[=≈]", core)
        found = quantities_in(last)
        if re.fullmatch(r"[\s*_$]*\d+\s?!\W*", claim):
            return undecided("factorial", claim)
        if not found:
            return undecided("equations" if quantities_in(core) else "no_number", claim)
        if sides:
            found = [quantity._replace(bullet=False) for quantity in found]
            if not self._one_equation(sides):
                return undecided("equations", claim)
        if not self._harmless(last, found):
            return undecided("words_around" if len(found) == 1 else "multiple_numbers", claim)
        one = found[-1]
        verdict = self._compared(one)
        same = _Comparison(one, NumericRule(rel=_SAME), self.question, True)
        others = [*found[:-1], *filter(None, map(whole_quantity, sides))]
        if any(same._compared(q).score != 1 or self._compared(q).score != verdict.score for q in others):
            return undecided("multiple_numbers", claim)
        if verdict.score == 0 and any(self._compared(q).score == 1 for q in self._other_readings(one, last)):
            return undecided("other_reading", one.raw)
        return verdict

    def _one_equation(self, sides: Sequence[str]) -> bool:
        """Return whether the parts before a result form one chain: a name or a value, followed by computations."""
        first, *computed = sides
        letters = {word for word in _WORD.findall(self.question) if len(word) == 1} - {"a", "A", "I"}
        if name := _NAME.fullmatch(first.strip()):
            # A letter that is not in the question is a different quantity.
            named = name[1] in letters or not letters
        else:
            named = not _WORD.search(first) or bool(whole_quantity(first)) or self._words_harmless(first)
        return (
            named
            and not re.search(r"[,;?]", "".join(sides))
            and all(
                _ARITHMETIC.fullmatch(_without_quantities(side, quantities_in(side))) for side in computed
            )
        )

    def _harmless(self, text: str, inside: Sequence[NumberWithUnit]) -> bool:
        after = _WORD.match(text[inside[-1].end :].lstrip())
        # A word after the number may be an unknown unit.
        if after and after[0].casefold() not in _HARMLESS and self.reference.unit and not self.asked:
            return False
        return self._words_harmless(_without_quantities(text, inside))

    def _words_harmless(self, rest: str) -> bool:
        words = set(_words(rest))
        known = {w for w in known_words(self.question) - CHANGING if len(w) > 1}
        return words <= _HARMLESS | known and _MARKS.fullmatch(_WORD.sub("", rest)) is not None

    def _other_readings(self, one: NumberWithUnit, side: str) -> Iterator[NumberWithUnit]:
        value, wanted, known = one.value, self.reference.unit, self.reference.value
        shifts = [3, -3] if re.search(r"\d[.,]\d{3}(?!\d)", one.raw) else []
        # "5 million" and 5000 may answer "in millions" and "how many thousands".
        shifts += [-tens for word, tens in WORDS_OF_TEN.items() if word in self.question.lower()]
        if "/" in one.raw:
            parts = map(whole_quantity, one.raw.split("/"))
            yield from (one._replace(value=part.value) for part in parts if part is not None)
        # "A loss of 5" is -5 if the question asks for the change, and -5 is a loss of 5.
        if set(_words(side.replace(one.raw, ""))) - _HARMLESS or set(_words(self.question)) & _DIFFERENCE:
            yield one._replace(value=-value)
        if wanted is None and _NAMES_PERCENT.search(self.question):
            shifts.append(2)
        if one.unit is None and wanted is not None:
            yield from (one._replace(unit=scale) for scale in other_scales(wanted))
            if not self.asked and value and known:
                # With the decimal point moved, the number may be in another unit.
                shift = known.adjusted() - value.adjusted()
                shifts += [shift - 1, shift, shift + 1]
        yield from (one._replace(value=value.scaleb(shift, _CONTEXT)) for shift in shifts)

    def _compared(self, quantity: NumberWithUnit) -> Finding:
        reference, rule, raw = self.reference, self.rule, quantity.raw
        if quantity.bullet and rule.accepts(-quantity.value, reference.value):
            return undecided("sign_or_bullet", raw)
        if is_percent(reference.unit) or is_percent(quantity.unit):
            return self._by_percent(quantity)
        value, unit = quantity.value, quantity.unit
        if reference.unit is None or unit is None:
            if unit is not None:
                return undecided("unit_not_asked", raw)
        elif (pair := comparable(unit, reference.unit)) is None:
            return undecided("unit_unclear", raw) if has_two_meanings(unit) else wrong("unit_mismatch", raw)
        else:
            here, wanted = pair
            # A difference of 18 °F is a difference of 10 °C.
            asked = known_words(self.question)
            if here != wanted and other_scales(here) and (not asked or asked & _DIFFERENCE):
                return undecided("scale_or_difference", raw)
            there = convert(value, here, wanted)
            if there is None:
                return undecided("unit_not_convertible", raw)
            value = there
        flags = () if reference.unit is None or unit is not None or self.asked else ("unit_assumed",)
        if rule.accepts(value, reference.value):
            return right("within_tolerance", raw, flags)
        sizes = [u for u in (unit, reference.unit) if u is not None and has_two_meanings(u, size=True)]
        return (
            undecided("unit_unclear", raw)
            if sizes and unit != reference.unit
            else self._missed(quantity, flags)
        )

    def _missed(self, quantity: NumberWithUnit, flags: tuple[str, ...]) -> Finding:
        if self.reference.value == 0 and self.rule.abs == 0:
            return wrong("zero_reference_needs_abs", quantity.raw, flags)
        reason = "other_option" if quantity.value in self.rule.rivals else "outside_tolerance"
        return wrong(reason, quantity.raw, flags)

    def _by_percent(self, quantity: NumberWithUnit) -> Finding:
        """Compare a percentage as written or as a fraction, depending on the reference and the question."""
        face, reference, rule = quantity.value, self.reference, self.rule
        units = [u for u in (quantity.unit, reference.unit) if u is not None and not is_percent(u)]
        if units:
            return wrong("unit_mismatch", quantity.raw)
        flags: tuple[str, ...] = ()
        if is_percent(reference.unit):
            readings = [face] if is_percent(quantity.unit) else [face, face * 100]
        else:
            flags, readings = ("percent",), [face / 100]
            if _NAMES_PERCENT.search(self.question):
                readings.append(face)
            elif rule.accepts(face, reference.value):
                return undecided("percent_or_number", quantity.raw, flags)
        if any(rule.accepts(reading, reference.value) for reading in readings):
            return right("within_tolerance", quantity.raw, flags)
        return self._missed(quantity, flags)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _without_quantities(text: str, inside: Sequence[NumberWithUnit]) -> str:
    left, place = [], 0
    for quantity in inside:
        left.append(text[place : quantity.start])
        place = quantity.end
    return " ".join([*left, text[place:]])
