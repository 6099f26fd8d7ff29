"""A whole text read as one number with a unit: its exact decimal values and a unit of pint.

A number is plain digits with separators, a power of ten, or a fraction. A unit is a product of words that pint knows.
Anything more, such as a formula, is no quantity, so `9**9**9` costs nothing.
"""

import re
from decimal import Context, Decimal
from functools import cache, lru_cache
from typing import Any, NamedTuple

from robustify.freeform.grade.worded import plain_text

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
    """A number with its unit. `values` are its readings, the usual one first: "1,234" may be 1.234. `written` is the text
    of the unit, which is one unknown word if there is no `unit`."""

    values: tuple[Decimal, ...]
    unit: Any = None
    written: str = ""


@lru_cache(maxsize=1024)
def read_quantity(text: str) -> Amount | None:
    """Read a whole text as one quantity, or return None."""
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
    known = parse_unit(unit) if unit else None
    if unit and known is None and not unit.isalpha():
        return None
    try:
        return Amount(tuple(_value(number, digits) for digits in _readings(number)), known, unit)
    except ArithmeticError:
        return None


def _readings(number: "re.Match[str]") -> list[str]:
    """Return the digits with a decimal point, in each reading of an unclear separator."""
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
    """Parse a whole text as a unit of pint, or return None. "J/mol K" may mean two things and is no unit."""
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
    """Return whether a word is no unit, or one as people write it: "kilometres", but no "pins" of picoinches."""
    read = registry().parse_unit_name(word)
    return not read or any(
        not prefix or (word.startswith(prefix) and len(word) > len(prefix) + 2)
        or word == registry().get_symbol(prefix + name)
        for prefix, name, _ in read
    )  # fmt: skip


@cache
def registry() -> Any:
    """Return pint's registry, with currencies."""
    from pint import UnitRegistry

    units: Any = UnitRegistry()
    for currency in _CURRENCIES.values():
        units.define(f"{currency} = [{currency}]")
    for code, name in {"USD": "dollar", "EUR": "euro", "GBP": "sterling", "amps": "ampere"}.items():
        units.define(f"@alias {name} = {code}")
    # In pint a gauss has another dimension than a tesla, and "kilos" are kiloseconds.
    units.define("gaussfield = 1e-4 * tesla = G = gauss")
    units.define("kilos = kilogram = kilo")
    return units
