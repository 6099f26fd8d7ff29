"""A whole text read as one number with a unit, as an exact decimal and a unit of pint.

A number is plain digits with separators, a power of ten, a fraction or a short formula. A unit is a product of words
that pint knows. Anything more is no quantity, so `9**9**9` costs nothing.
"""

import logging
import re
from collections.abc import Mapping
from decimal import Context, Decimal, DecimalException
from functools import cache, lru_cache
from typing import Any, NamedTuple

from robustify.freeform.grade.findings import plain_text

LONGEST = 200
"""Longest quantity, in characters."""
Unit = Mapping[str, int]
"""pint's names of units with their exponents; "percent" is a unit."""
CONTEXT = Context(prec=60)
_CURRENCIES = {"$": "dollar", "€": "euro", "£": "sterling", "¥": "yen", "₹": "rupee"}
_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_POWERS = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_NUMBER = re.compile(
    r"(?P<sign>[+-]\s?|[–—](?=[\d.])|(?:minus|negative)\s)?(?P<currency>[$€£¥₹]\s?)?(?:(?P<top>\d{1,30})\s?/\s?(?P<bottom>\d{1,30})"
    r"|(?P<digits>\d{1,3}(?:,\d{3}){2,30}(?:\.\d{1,400})?|\d{1,3},\d{3}\.\d{1,400}|\d{1,3}(?:\.\d{3}){1,30},\d{1,30}"
    r"|\d{1,3}(?:['\u2009\u202f\xa0 ]\d{3}){1,30}(?:\.\d{1,400})?|\d{1,400}(?:[.,]\d{1,400})?|\.\d{1,400})"
    r"(?:[eE](?P<e>[+-]?\d{1,3})|\s?[x×*·]\s?10\s?(?:\^|\*\*)\s?[({]?(?P<ten>[+-]?\d{1,3})[)}]?)?)"
    rf"(?:\s?(?P<word>{'|'.join(_POWERS)})\b)?(?![\d.,]|(?:st|nd|rd|th)\b)\s?-?(?P<unit>.*)"
)
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_UNCLEAR = re.compile(r"\d{1,3}[.,]\d{3}")


class Quantity(NamedTuple):
    """A number with its unit. `other` is its value if its separator means the other thing. `written` is the text of the
    unit, which is one unknown word if there is no `unit`."""

    value: Decimal
    unit: Unit | None = None
    other: Decimal | None = None
    written: str = ""


@lru_cache(maxsize=1024)
def read_quantity(text: str) -> Quantity | None:
    """Read a whole text as one quantity, or return None."""
    if len(text) > LONGEST:
        return None
    plain = plain_text(_latex_removed(text)).rstrip(".")
    if "π" in plain:
        return None
    if plain.casefold() in _ONES:
        return Quantity(Decimal(_ONES.index(plain.casefold())))
    number = _NUMBER.fullmatch(plain)
    if number is None:
        return None
    unit = number["unit"].strip()
    if number["currency"]:
        if unit:
            return None
        unit = _CURRENCIES[number["currency"].strip()]
    digits = number["digits"] or ""
    try:
        value = _value(number, digits.replace(",", "") if _GROUPED.fullmatch(digits) else _decimal(digits))
        others = _decimal(digits) if "," in digits else digits.replace(".", "")
        other = _value(number, others) if _UNCLEAR.fullmatch(digits) else None
    except (DecimalException, ArithmeticError):
        return None
    known = parse_unit(unit) if unit else None
    if unit and known is None and not unit.isalpha():
        return None
    return Quantity(value, known, other, unit)


def _decimal(digits: str) -> str:
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", digits):
        digits = digits.replace(".", "")
    return re.sub(r"['\s]", "", digits).replace(",", ".")


def _value(number: "re.Match[str]", digits: str) -> Decimal:
    value = Decimal(number["top"]) / Decimal(number["bottom"]) if number["top"] else Decimal(digits)
    power = int(number["e"] or number["ten"] or 0) + _POWERS.get(number["word"] or "", 0)
    sign = -1 if (number["sign"] or "+")[0] in "-–—mn" else 1
    return sign * value.scaleb(power, CONTEXT)


_LATEX = (
    (re.compile(r"\\[dt]?frac\s?\{\s?(\d{1,30})\s?\}\s?\{\s?(\d{1,30})\s?\}"), r"\1/\2"),
    (re.compile(r"\\(?:text|mathrm|mathbf|operatorname|rm|unit|si)\s?\{([^{}]{0,80})\}"), r" \1"),
    (re.compile(r"\^\s?\{\s?([+-]?\d{1,3})\s?\}"), r"^\1"),
    (re.compile(r"\{,\}|\\[,!]"), ""),
    (re.compile(r"\\(?:times|cdot)"), "×"),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\^?\s?\\circ"), "°"),
    (re.compile(r"\\\$"), "$"),
    (re.compile(r"\\(?=mu|Omega)"), ""),
    (re.compile(r"(?<=[\s{])Omega\b|^Omega\b"), "Ω"),
)


def _latex_removed(text: str) -> str:
    if "\\" in text or "{" in text:
        for pattern, plain in _LATEX:
            text = pattern.sub(plain, text)
    return text


# Units

_FACTOR = r"(?:[^\W\d_]+|[%°Ωµ]\s?[^\W\d_]*)(?:\^?\(?[+-]?\d\)?)?"
_PRODUCT = re.compile(rf"(?:per\s)?{_FACTOR}(?:(?:\s?[*·⋅×/]\s?|\s)(?:per\s)?{_FACTOR}){{0,5}}")
_BELOW = re.compile(r"/\s?\(([^()/]{1,40})\)")
_WRITTEN = (
    (re.compile(r"\b(?:degrees?|deg\.?|°)\s*(?:c|celsius)\b|°\s?C", re.IGNORECASE), "degree_Celsius"),
    (re.compile(r"\b(?:degrees?|deg\.?|°)\s*(?:f|fahrenheit)\b|°\s?F", re.IGNORECASE), "degree_Fahrenheit"),
    (re.compile(r"^(?:%|per ?cent|pct)\Z"), "percent"),
    (re.compile(r"\blight[ -]years?\b"), "light_year"),
    (re.compile(r"\b(k|M)?N-?m\b"), r"\1N m"),
    (re.compile(r"\bms(?=\^?-[12]\b)"), "m s"),
    (re.compile(r"\bkilos?\b"), "kilogram"),
    (re.compile(r"\b([km]?)G\b|\bgauss\b"), lambda m: f"{m[1] or ''}gaussfield"),
    (re.compile(r"\bamps?\b"), "ampere"),
    (re.compile(r"(?<=[a-z])-(?=[a-z]{3})"), " "),
    (re.compile(r"µ"), "u"),
    (re.compile(r"(?<=[a-zA-Z])(?=[+-]\d)"), "^"),
)
_UNCLEAR_SLASH = re.compile(
    r"(?:/|\bper\b)[^/]*-\d|(?:/|\bper\b)[^/]*[^\W\d_][\s\d^+-]*[\s*·⋅×]\s*(?!per\b)[^\W\d_/]"
)


@lru_cache(maxsize=1024)
def parse_unit(text: str) -> Unit | None:
    """Parse a whole text as a unit, or return None. "J/mol K" may mean two things and is no unit."""
    plain = plain_text(text).strip(" .")[:80]
    for pattern, name in _WRITTEN:
        plain = pattern.sub(name, plain)
    plain = _BELOW.sub(lambda m: "/" + re.sub(r"\s*[*·⋅×]\s*|\s+", "/", m[1].strip()), plain)
    if "degree_" in plain or plain in ("percent", "light_year"):
        return (
            {plain: 1} if re.fullmatch(r"degree_(?:Celsius|Fahrenheit)|percent|light_year", plain) else None
        )
    if not _PRODUCT.fullmatch(plain) or _UNCLEAR_SLASH.search(plain):
        return None
    if plain.startswith("per "):
        plain = "1 / " + plain[4:]
    for written in dict.fromkeys((plain, re.sub(r"[A-Za-z]{4,}", lambda m: m[0].lower(), plain))):
        if not all(_is_named(word) for word in re.findall(r"(?<![^\W\d_])[a-z]{4,}(?![^\W\d_])", written)):
            continue
        try:
            units = registry().Unit(re.sub(r"[·⋅×]", "*", re.sub(r"\s?\bper\b\s?", "/", written)))
        # pint raises errors of many kinds at words that it does not know.
        except Exception:
            continue
        return {str(name): int(power) for name, power in units._units.items()} or None
    return None


@cache
def _is_named(word: str) -> bool:
    """Return whether a word is a unit without a prefix, or with one as people write it. "kilos" are no kiloseconds."""
    spelled = word.replace("metre", "meter").replace("litre", "liter").replace("gramme", "gram")
    for prefix, name, _ in registry().parse_unit_name(word):
        if (
            not prefix
            or spelled.removesuffix("s") == prefix + name
            or word == registry().get_symbol(prefix + name)
        ):
            return True
    return not registry().parse_unit_name(word)


@cache
def registry() -> Any:
    """Return pint's registry, with currencies."""
    from pint import UnitRegistry

    units: Any = UnitRegistry()
    for currency in _CURRENCIES.values():
        units.define(f"{currency} = [{currency}]")
    # In pint a gauss has another dimension than a tesla.
    units.define("gaussfield = 1e-4 * tesla")
    for code, currency in (("USD", "dollar"), ("EUR", "euro"), ("GBP", "sterling")):
        units.define(f"@alias {currency} = {code}")
    return units


def units_of(unit: Unit) -> Any:
    """Return a unit as an object of pint."""
    return registry().Unit(registry().UnitsContainer(dict(unit)))


# Formulas. A sum may be a range, and a power of a power may never finish.

_FORMULA = re.compile(
    r"-?(?:\d{1,9}(?:\.\d{1,9})?|\\d?frac|\\sqrt|√|π|\\?pi\b|\^\s?\{?\s?-?\d{1,2}(?![\d.])\s?\}?|[\s(){}/·×]|\\(?:cdot|times|left|right))+"
)
_ROOT = re.compile(r"(?:\\?sqrt|√)\s?\(([^()]{1,40})\)|√\s?(\d+)")
_ADVANCED = re.compile(r"sqrt|√|π|pi\b|\^|frac")


@lru_cache(maxsize=1024)
def value_of(text: str) -> Decimal | None:
    """Evaluate a text that consists of one formula with `math-verify`. Return None for any other text."""
    plain = _ROOT.sub(r"\\sqrt{\1\2}", text[:LONGEST].strip(" $").rstrip("."))
    plain = re.sub(r"π|\\?\bpi\b", r"\\pi ", plain)
    if (
        not _ADVANCED.search(plain)
        or len(plain) > 60
        or not _FORMULA.fullmatch(plain)
        or plain.count("^") > 1
    ):
        return None
    from math_verify import LatexExtractionConfig, parse

    # Its log messages would contain the text.
    for name in ("math_verify", "latex2sympy2_extended"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    plain = re.sub("[·×]", r"\\cdot ", plain)
    found = parse(f"${plain}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)
    try:
        value = found[0].evalf(15)
        return Decimal(str(value)) if value.is_real and value.is_finite else None
    except (IndexError, AttributeError, DecimalException, ValueError):
        return None
