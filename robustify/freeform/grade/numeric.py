"""Whether a number is right, without a judge: decimal, exact, with the tolerance relative to the reference alone.

The number must be certain: alone in its claim, beside it harmless words, words of the question or other ways to write the
same value. A range, a bound, two results, an expression, several equations or a unit that was not asked for are
undecided; so is a number that would be right in another reading (a decimal comma, an omitted prefix, a sign).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from typing import Literal

from robustify.errors import UsageError
from robustify.freeform.answer_text import (
    Finding,
    is_refusal,
    no_answer,
    right,
    said,
    undecided,
    word_set,
    wrong,
)
from robustify.freeform.grade.claims import CHANGING, agreed, cores, known_words
from robustify.freeform.grade.quantities import NumberWithUnit, plain_notation, quantities_in, whole_quantity
from robustify.freeform.grade.units import (
    Unit,
    comparable,
    convert,
    difference,
    has_two_meanings,
    is_percent,
    leading_unit,
    other_scales,
    parse_unit,
)

_HARMLESS = word_set(
    "a an the is are was were be it there that this of in about approximately approx roughly around exactly precisely "
    "equals equal have has had takes lasts weighs measures contains total altogether value number we i get so thus "
    "therefore hence answer result final unit units es sind ist das der die etwa ungefähr rund circa ca genau insgesamt "
    "est sont environ il au hay son aproximadamente unos unas è sono são cerca de la le el o"
)
"""Words beside a number that leave it as it is."""
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_MARKS = re.compile(r"[\s.,;:!()\[\]{}*_~≈—…]*")
_NAME = re.compile(r"[A-Za-z](?:[A-Za-z]*|_\w+)\s*")
_ARITHMETIC = re.compile(r"(?:[\s\d.+\-*/×·÷()^]|\b[A-Za-z]\b)*")
_SAME = Decimal("0.01")
"""Within it two numbers of one claim are the same value ("5 miles (8 km)")."""
_ASKED_IN = re.compile(
    r"\b(?:in|how many|wie viele|en|combien de|cuántos|cuántas)\s+(?=[^\W\d])", re.IGNORECASE
)
Percent = Literal["auto", "face", "strict"]
_CONTEXT = Context(prec=60)
_NAMES_PERCENT = re.compile(r"%|\bper\s?cent(?:age)?s?\b", re.IGNORECASE)


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
    asked = None if known.unit or wanted else _asked_unit(question)
    compared = _Comparison(
        known._replace(unit=known.unit or wanted or asked), rule, question, asked is not None
    )
    found = agreed(plain_notation(text), compared.find)
    if found.reason in ("no_number", "several_results") and is_refusal(text):
        return no_answer("refusal")
    return found


def _asked_unit(question: str) -> Unit | None:
    """The one unit that a question names ("in km", "how many days"), or None."""
    plain = plain_notation(question[:2000])
    read = [leading_unit(plain[place.end() :]) for place in _ASKED_IN.finditer(plain)]
    found = {one.unit for one in read if one is not None}
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The reference, in the unit that is wanted, and how a claim is compared with it."""

    reference: NumberWithUnit
    rule: NumericRule
    question: str
    asked: bool
    """Whether the question names the unit, so that a bare number is certainly in it."""

    def find(self, claim: str) -> Finding:
        """What one claim says."""
        core = re.sub(r"\s*\n\s*", " ; ", claim.strip())
        core = [*cores(core)][-1].lstrip(" ;:,")
        found = quantities_in(core)
        if re.fullmatch(r"[\s*_$]*\d+\s?!\W*", claim):
            return undecided("factorial", claim)
        if not found:
            return undecided("no_number", claim)
        sides = re.split("[=≈]", core)
        place = len(core) - len(sides[-1])
        inside = [q for q in found if q.start >= place]
        if not inside or not self._one_equation(sides):
            return undecided("equations", claim)
        one, first = inside[-1], inside[0]
        if not self._harmless(
            core[place:], [q._replace(start=q.start - place, end=q.end - place) for q in inside]
        ):
            return undecided("words_around" if len(inside) == 1 else "multiple_numbers", claim)
        verdict = self._compared(one)
        same = _Comparison(first, NumericRule(rel=_SAME), self.question, True)
        others = [*inside, *(q for side in sides[:-1] if (q := whole_quantity(side)) is not None)]
        if any(same._compared(q).score != 1 or self._compared(q).score != verdict.score for q in others):
            return undecided("multiple_numbers", claim)
        return self._sure(verdict, core[place:], one) if verdict.score == 0 else verdict

    def _one_equation(self, sides: Sequence[str]) -> bool:
        """Whether sides of equal signs are one chain: a name or a value, computations, and a result."""
        *before, _ = sides
        if not before:
            return True
        left = before[0].strip()
        named = _NAME.fullmatch(left) or whole_quantity(left) or self._words_harmless(left)
        if re.search(r"[,;?]", "".join(before)) or not (named or not _WORD.search(left)):
            return False
        computed = [side for side in before[1:] if whole_quantity(side) is None]
        # A letter that stands alone at the end is the name of the next equation: "x = 14 y = 3".
        return all(
            _ARITHMETIC.fullmatch(_without(side, quantities_in(side)))
            and not re.search(r"[\d)]\s+[A-Za-z]\s*$", side)
            for side in computed
        )

    def _harmless(self, text: str, inside: Sequence[NumberWithUnit]) -> bool:
        """Whether all that stands beside numbers leaves them as they are."""
        rest = _without(text, inside)
        after = _WORD.match(text[inside[-1].end :].lstrip())
        # A word in the place of a unit may be one that is not known.
        foreign = (
            after is not None
            and after[0].casefold() not in _HARMLESS
            and self.reference.unit
            and not self.asked
        )
        return not foreign and self._words_harmless(rest)

    def _words_harmless(self, rest: str) -> bool:
        """Whether a text without its numbers has only harmless words, words of the question, and harmless marks."""
        words = set(_words(rest))
        known = {w for w in known_words(self.question) - CHANGING if len(w) > 1}
        return words <= _HARMLESS | known and _MARKS.fullmatch(_WORD.sub("", rest)) is not None

    def _sure(self, verdict: Finding, side: str, one: NumberWithUnit) -> Finding:
        """A wrong number, or undecided where another reading of it would be right."""
        values: list[tuple[Decimal, Unit | None]] = []
        if re.search(r"\d[.,]\d{3}(?!\d)", one.raw):
            values += [(one.value.scaleb(shift), one.unit) for shift in (3, -3)]
        if "/" in one.raw:
            values += [
                (part.value, one.unit) for part in map(whole_quantity, one.raw.split("/")) if part is not None
            ]
        # "A loss of 5" is -5 where the question asks for the change.
        if set(_words(side.replace(one.raw, ""))) - _HARMLESS:
            values.append((-one.value, one.unit))
        wanted, known = self.reference.unit, self.reference.value
        if one.unit is None and wanted is not None:
            values += [(one.value, scale) for scale in other_scales(wanted)]
        if one.unit is None and wanted is not None and not self.asked and one.value and known:
            # With its decimal point moved it may be in another unit.
            shift = known.adjusted() - one.value.adjusted()
            values += [(one.value.scaleb(s, _CONTEXT), None) for s in (shift - 1, shift, shift + 1)]
        if wanted is None and _NAMES_PERCENT.search(self.question):
            values.append((one.value * 100, None))
        if any(self._compared(one._replace(value=value, unit=unit)).score == 1 for value, unit in values):
            return undecided("other_reading", one.raw)
        return verdict

    def _compared(self, quantity: NumberWithUnit) -> Finding:
        reference, rule = self.reference, self.rule
        if quantity.bullet and rule.accepts(-quantity.value, reference.value):
            return undecided("sign_or_bullet", quantity.raw)
        if is_percent(reference.unit) or is_percent(quantity.unit):
            return self._by_percent(quantity)
        value, unit = quantity.value, quantity.unit
        flags: tuple[str, ...] = ()
        if reference.unit is None:
            if unit is not None:
                return undecided("unit_not_asked", quantity.raw)
        elif unit is None:
            flags = () if self.asked else ("unit_assumed",)
        else:
            pair = comparable(unit, reference.unit)
            if pair is None:
                unsure = has_two_meanings(unit)
                return (
                    undecided("unit_unclear", quantity.raw)
                    if unsure
                    else wrong("unit_mismatch", quantity.raw)
                )
            there = convert(value, *pair)
            if there is None:
                return undecided("unit_not_convertible", quantity.raw)
            apart = difference(value, *pair)
            if (
                apart is not None
                and not rule.accepts(there, reference.value)
                and rule.accepts(apart, reference.value)
            ):
                return undecided("scale_or_difference", quantity.raw)
            value = there
        if rule.accepts(value, reference.value):
            return right("within_tolerance", quantity.raw, flags)
        if unit != reference.unit and any(
            one is not None and has_two_meanings(one, size=True) for one in (unit, reference.unit)
        ):
            return undecided("unit_unclear", quantity.raw)
        return self._missed(quantity, flags)

    def _missed(self, quantity: NumberWithUnit, flags: tuple[str, ...]) -> Finding:
        if self.reference.value == 0 and self.rule.abs == 0:
            return wrong("zero_reference_needs_abs", quantity.raw, flags)
        reason = "other_option" if quantity.value in self.rule.rivals else "outside_tolerance"
        return wrong(reason, quantity.raw, flags)

    def _by_percent(self, quantity: NumberWithUnit) -> Finding:
        """Face value or fraction: both for a reference in per cent; for another one the question decides."""
        face, reference, rule = quantity.value, self.reference, self.rule
        if is_percent(reference.unit):
            if quantity.unit is not None and not is_percent(quantity.unit):
                return wrong("unit_mismatch", quantity.raw)
            values = [face] if is_percent(quantity.unit) else [face, face * 100]
            ok = any(rule.accepts(value, reference.value) for value in values)
            return right("within_tolerance", quantity.raw) if ok else self._missed(quantity, ())
        if reference.unit is not None:
            return wrong("unit_mismatch", quantity.raw)
        readings = {"face": [face], "strict": [face / 100]}.get(rule.percent)
        named = _NAMES_PERCENT.search(self.question) is not None
        if any(
            rule.accepts(reading, reference.value)
            for reading in readings or [face / 100, *([face] if named else [])]
        ):
            return right("within_tolerance", quantity.raw, ("percent",))
        if readings is None and rule.accepts(face, reference.value):
            return undecided("percent_or_number", quantity.raw, ("percent",))
        return self._missed(quantity, ("percent",))


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _without(text: str, inside: Sequence[NumberWithUnit]) -> str:
    """A text with a blank for each of its quantities."""
    left, place = [], 0
    for quantity in inside:
        left.append(text[place : quantity.start])
        place = quantity.end
    return " ".join([*left, text[place:]])
