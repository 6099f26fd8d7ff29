"""Decide whether a numeric answer is correct, in exact decimal arithmetic.

A number that would be correct in another reading (separator, sign, power of ten, omitted unit, size of a gallon) is
undecided. A unit is a product of words that pint knows. A formula is no quantity, so `9**9**9` costs nothing.
"""

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from decimal import Context, Decimal, DecimalException, localcontext
from functools import cache, lru_cache
from typing import Any, NamedTuple

from robustify.freeform.grade.text_rules import (
    Ruling,
    core_texts,
    extract_answer,
    plain_text,
    plain_words,
    shared_ruling,
)
from robustify.freeform.schema import FreeItem

LONGEST = 200
"""Longest quantity, in characters."""
CONTEXT = Context(prec=60)
_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_POWERS = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_CURRENCIES = {"$": "dollar", "€": "euro", "£": "sterling", "¥": "yen", "₹": "rupee"}
_PRICE = re.compile(r"([+-]?)([$€£¥₹])\s?([\d.].*)")
_NUMBER = re.compile(
    r"(?P<sign>[+-]\s?|(?:minus|negative)\s)?(?P<digits>(?P<group>\d{1,3}(?:(?P<sep>[,.'\s])\d{3})(?:(?P=sep)\d{3}){0,30})"
    r"(?:(?!(?P=sep))[.,]\d{1,400})?(?![.,\d])|\d{1,400}(?:[.,]\d{1,400})?|\.\d{1,400})(?:\s?/\s?(?P<below>\d{1,30}))?"
    r"(?:[eE](?P<e>[+-]?\d{1,3})|\s?[x×*·]\s?10\s?\^\s?[({]?(?P<ten>[+-]?\d{1,3})[)}]?)?"
    rf"(?:\s?(?P<word>{'|'.join(_POWERS)})\b)?(?![\d.,/]|(?:st|nd|rd|th)\b)\s?-?(?P<unit>.*)"
)
_LATEX = {
    r"\times": "×", r"\cdot": "×", r"\%": "%", r"\$": "$", r"\,": " ", r"\!": "", "{,}": "", r"^\circ": "°",
    r"^{\circ}": "°", r"\mu": "µ", r"\Omega": "Ω",
}  # fmt: skip
_MACRO = re.compile("|".join(map(re.escape, _LATEX)))
_WORDS = re.compile(r"\\(?:text|mathrm|mathbf|operatorname|rm|unit|si)\s?\{([^{}]{0,80})\}")
_BELOW = re.compile(r"\\[dt]?frac\s?\{\s?(\d{1,30})\s?\}\s?\{\s?(\d{1,30})\s?\}")
_POWER = re.compile(r"\^\s?\{\s?([+-]?\d{1,3})\s?\}")


class Amount(NamedTuple):
    """A number with its unit. `values` are its possible readings, the usual reading first ("1,234" may be 1.234). If `unit`
    is None, `written` is a word that is not a known unit."""

    values: tuple[Decimal, ...]
    unit: Any = None
    written: str = ""


@lru_cache(maxsize=1024)
def read_quantity(text: str) -> Amount | None:
    """Parse a text as a number with an optional unit. Return None if the text is anything else."""
    if len(text) > LONGEST:
        return None
    if "\\" in text or "{" in text:
        text = _WORDS.sub(r" \1", _BELOW.sub(r"\1/\2", _MACRO.sub(lambda m: _LATEX[m[0]], text)))
        text = _POWER.sub(r"^\1", text)
    plain = plain_text(text).rstrip(".").replace("–", "-").strip()
    if plain.casefold() in _ONES:
        return Amount((Decimal(_ONES.index(plain.casefold())),))
    plain = _PRICE.sub(lambda m: f"{m[1]}{m[3]} {_CURRENCIES[m[2]]}", plain)
    number = _NUMBER.fullmatch(plain)
    if number is None or "π" in plain:
        return None
    unit = number["unit"].strip()
    parsed_unit = parse_unit(unit) if unit else None
    if unit and parsed_unit is None and not unit.isalpha():
        return None
    try:
        return Amount(tuple(_value(number, digits) for digits in _readings(number)), parsed_unit, unit)
    except ArithmeticError:
        return None


def _readings(number: "re.Match[str]") -> list[str]:
    digits, sep = number["digits"], number["sep"]
    decimal = digits.replace(",", ".")
    if sep is None:
        return [decimal]
    grouped = digits.replace(sep, "").replace(",", ".")
    if sep not in ",." or digits.count(sep) > 1 or digits != number["group"]:
        return [grouped]
    return [grouped, decimal] if sep == "," and digits[0] != "0" else [decimal, grouped]


def _value(number: "re.Match[str]", digits: str) -> Decimal:
    power = int(number["e"] or number["ten"] or 0) + _POWERS.get(number["word"] or "", 0)
    sign = -1 if (number["sign"] or "+")[0] in "-mn" else 1
    return sign * (Decimal(digits) / Decimal(number["below"] or 1)).scaleb(power, CONTEXT)


# Units

_UNIT = re.compile(r"(?:[^\W\d_]+\)?(?:\^?\(?[+-]?\d\)?(?![\d^]))?|[%°\s·⋅*/(]|(?<=[^\W\d])[-_](?=[^\W\d]))+")
_WRITTEN = (
    (re.compile(r"(?:°|\bdeg(?:rees?|\.)?)\s*c(?:elsius)?\b", re.IGNORECASE), "degree_Celsius"),
    (re.compile(r"(?:°|\bdeg(?:rees?|\.)?)\s*f(?:ahrenheit)?\b", re.IGNORECASE), "degree_Fahrenheit"),
    (re.compile(r"\bper\s?cent\b|\bpct\b"), "percent"),
    (re.compile(r"\blight[ -]years?\b"), "light_year"),
    (re.compile(r"\b([kM]?)N-?m\b"), r"\1N m"),
    (re.compile(r"\bms(?=\^?-[12]\b)"), "m s"),
    (re.compile(r"(?<=[a-z])-(?=[a-z]{3})"), " "),
    (re.compile(r"\s*\bper\b\s*"), "/"),
    (re.compile(r"(?<=[a-zA-Z])(?=[+-]?\d)"), "^"),
    (re.compile(r"\b[A-Z][a-z]{3,}"), lambda word: word[0].lower()),
    (re.compile("[·⋅]"), "*"),
)
_UNCLEAR = re.compile(r"/[^/]*(?:[^\W\d_)][\s\d^]*[\s*]\s*[^\W\d_]|-\d)")


@lru_cache(maxsize=1024)
def parse_unit(text: str) -> Any:
    """Parse a text as a unit that pint knows, or return None. "J/mol K" is ambiguous, so it is not a unit."""
    plain = plain_text(text[: LONGEST + 1]).strip(" .")
    for pattern, name in _WRITTEN:
        plain = pattern.sub(name, plain)
    unclear = _UNCLEAR.search(re.sub(r"\([^()]*\)", "x", plain))
    if len(text) > LONGEST // 2 or not _UNIT.fullmatch(plain) or unclear or "**" in plain:
        return None
    if not all(_is_named(word) for word in re.findall(r"(?<![^\W\d])[a-z]{4,}(?![^\W\d])", plain)):
        return None
    try:
        unit = registry().Unit(f"1{plain}" if plain.startswith("/") else plain)
    # pint raises errors of many kinds at words that it does not know.
    except Exception:
        return None
    return unit if unit._units else None


@cache
def _is_named(word: str) -> bool:
    """Return whether a word is commonly used as a unit. Pint accepts more words: it reads "pins" as picoinches."""
    read = registry().parse_unit_name(word)
    return not read or any(
        not prefix or (word.startswith(prefix) and len(word) > len(prefix) + 2)
        or word == registry().get_symbol(prefix + name)
        for prefix, name, _ in read
    )  # fmt: skip


@cache
def registry() -> Any:
    """Return pint's registry of units, with currencies added."""
    from pint import UnitRegistry

    units: Any = UnitRegistry()
    for currency in _CURRENCIES.values():
        units.define(f"{currency} = [{currency}]")
    for code, name in {"USD": "dollar", "EUR": "euro", "GBP": "sterling", "amps": "ampere"}.items():
        units.define(f"@alias {name} = {code}")
    # In pint a gauss has a different dimension than a tesla, and "kilos" are kiloseconds.
    units.define("gaussfield = 1e-4 * tesla = G = gauss")
    units.define("kilos = kilogram = kilo")
    return units


# Comparison with the reference

_BEFORE_REFERENCE = re.compile(r"^\s*(?:[A-Za-z][\w']{0,9}\s?[=≈]\s?|[~≈]\s?|(?:approximately|about)\s+)")
_NAMED = re.compile(
    r"(?:(?P<name>[^\W\d_]{1,20})\s?[=≈]\s?)?(?:[\s\d.+\-*/×·÷()]{1,60}[=≈]\s?)?(?P<value>[^=≈]+)"
)
_CHANGED = re.compile(r"\A\s*>|\d\s*!|\d\s*\+\s*\Z")
_TEMPERATURES = ("degree_Celsius", "degree_Fahrenheit", "kelvin")
_APART = re.compile(
    r"(hertz|revolutions_per_minute|radian|degree|becquerel|gray|sievert|percent|ppm|decibel|newton|candela|lumen|count|turn)\b"
)
"""Units that pint converts freely into others and a reader does not: 1 Hz is no 1 rad/s, and a torque is no energy."""
_COMMON = re.compile(
    r"(?:[a-z]{2,5})?(?:meter|gram|second|minute|hour|day|week|ampere|volt|newton|joule|watt|hertz|pascal|ohm|mole|kelvin"
    r"|liter|foot|inch|coulomb|degree_Celsius|bar|horsepower|tesla|watt_hour)"
)
"""Units of one size that mean nothing else, so that another value or dimension is an error."""


def whole_quantity(reference: str) -> Amount | None:
    """Parse a reference as one quantity, with an optional leading `x =` or `~`. Return None if it is anything else."""
    amount = read_quantity(_BEFORE_REFERENCE.sub("", reference[:1000]))
    return None if amount is None or (amount.written and amount.unit is None) else amount


def find_numeric(item: FreeItem, answer: str, rel: Decimal, absolute: Decimal) -> Ruling:
    """Decide whether an answer gives an item's reference number, within a tolerance of `max(rel * |reference|, absolute)`.
    An answer that is nearer to another option is wrong. No answer raises an error."""
    reference, unit = whole_quantity(item.reference), parse_unit(item.unit) if item.unit else None
    if reference is None or (item.unit and unit is None):
        return Ruling("reference_is_no_quantity", status="reference_error")
    text = extract_answer(answer)
    if isinstance(text, Ruling):
        return text
    value, others = reference.values[0], map(whole_quantity, item.options)
    rivals = {other.values[0] for other in others if other is not None and other.unit == reference.unit} - {
        value
    }
    with localcontext(CONTEXT):
        tolerance = max(rel * abs(value), absolute)
    wanted = unit if reference.unit is None else reference.unit
    return shared_ruling(text, _Comparison(value, wanted, tolerance, rivals, item.question).find)


@dataclass(frozen=True, slots=True, repr=False)
class _Comparison:
    reference: Decimal
    unit: Any
    within: Decimal
    rivals: Set[Decimal]
    question: str

    def find(self, claim: str) -> Ruling:
        """Decide on a claim that consists only of a number, or of `x =` and a number."""
        if _CHANGED.search(claim):
            return Ruling("no_number", None, claim)
        for core in core_texts(claim, self.question):
            named = _NAMED.fullmatch(core)
            if named and named["name"] and not self._asks_for(named["name"]):
                return Ruling("equations", None, claim)
            value = named["value"].strip() if named else core
            if (amount := read_quantity(value)) is not None:
                return self._rule(amount, value)
        return Ruling("no_number", None, claim)

    def _asks_for(self, name: str) -> bool:
        letters = set(re.findall(r"\b[^\W\d_]\b", self.question)) - {"a", "A", "I"}
        return name in letters or (len(name) == 1 and not letters) or self.question.endswith(f" {name}?")

    def _accepts(self, value: Decimal) -> bool:
        with localcontext(CONTEXT):
            off = abs(value - self.reference)
            return off <= self.within and all(abs(value - rival) >= off for rival in self.rivals)

    def _rule(self, amount: Amount, raw: str) -> Ruling:
        (value, *others), flags = amount.values, tuple[str, ...]()
        unit, wanted, percent = amount.unit, self.unit, registry().percent
        words = plain_words(self.question)
        if amount.written and unit is None and (wanted is not None or amount.written.casefold() not in words):
            return Ruling("words_around", None, raw)
        if unit == wanted or (unit is None and wanted is None):
            pass
        elif {unit, wanted} == {None, percent}:
            # A bare 0.2 is 20 % as well as a bare 20 is.
            flags, asks = ("percent",), "%" in self.question or "percent" in self.question.casefold()
            others.append(value)
            if not ((unit is None or asks) and self._accepts(value)):
                value = value.scaleb(-2 if unit is not None else 2, CONTEXT)
        elif unit is None:
            if wanted == percent or not self._accepts(value):
                return Ruling("unit_unclear", None, raw)
            flags = ("unit_assumed",)
        elif wanted is None:
            return Ruling("unit_not_asked", None, raw)
        elif _is_unmistakable(amount) and unit.dimensionality != wanted.dimensionality and _is_common(wanted):
            return Ruling("unit_mismatch", 0.0, raw)
        elif (converted := _converted(value, unit, wanted)) is None:
            return Ruling("unit_unclear", None, raw)
        else:
            value = converted
        if self._accepts(value):
            return Ruling("within_tolerance", 1.0, raw, flags)
        if any(self._accepts(other) for other in self._other_readings(value, others, unit)):
            return Ruling("other_reading", None, raw)
        if (
            unit != wanted
            and unit is not None
            and unit != percent
            and not (_is_common(unit) and _is_common(wanted))
        ):
            return Ruling("unit_unclear", None, raw)
        if not self.within and not self.reference:
            return Ruling("zero_reference_needs_abs", 0.0, raw, flags)
        return Ruling("other_option" if value in self.rivals else "outside_tolerance", 0.0, raw, flags)

    def _other_readings(self, value: Decimal, others: Sequence[Decimal], unit: Any) -> Iterator[Decimal]:
        for other in (value, *others):
            yield from (other, -other)
        if unit is None or unit == registry().percent or self.unit is None:
            shift = self.reference.adjusted() - value.adjusted()
            yield from (sign * value.scaleb(shift + more, CONTEXT) for more in (-1, 0, 1) for sign in (1, -1))


def _is_common(unit: Any) -> bool:
    return all(_COMMON.fullmatch(name) for name in unit._units)


def _is_unmistakable(amount: Amount) -> bool:
    # "m" may be metres or minutes.
    return _is_common(amount.unit) and (len(amount.written) > 1 or amount.written in "sVNJW")


def _converted(value: Decimal, unit: Any, wanted: Any) -> Decimal | None:
    # A difference of 18 °F is one of 10 °C, and a temperature of 18 °F is not.
    unit_name, wanted_name = str(unit), str(wanted)
    if {unit_name, wanted_name} & {*_TEMPERATURES}:
        return None
    if {*_APART.findall(unit_name)} != {*_APART.findall(wanted_name)}:
        return None
    try:
        converted = Decimal(f"{registry().Quantity(float(value), unit).to(wanted).magnitude:.12g}")
    # pint's own errors derive from these. None of them means that the answer is wrong.
    except (ArithmeticError, AttributeError, TypeError, ValueError, DecimalException):
        return None
    return converted if converted.is_finite() else None
