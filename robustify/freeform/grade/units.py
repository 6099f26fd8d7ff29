"""Units of measure, read from a closed list of names. Nothing else ever reaches a unit library.

A unit is a product of known names with small whole exponents; a token with anything else is none. So `9**9**9` costs
nothing, and "a", "in" or "h" in prose is no unit. Conversion is pint's, where it is installed; without it only equal
units are comparable, and the rest is left to a judge.
"""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, NamedTuple

LONGEST = 48
"""Characters of a unit."""
Unit = tuple[tuple[str, int], ...]
"""Names of a unit library with exponents, sorted: `(("meter", 1), ("second", -1))`."""

# Words with two meanings (ton, rpm, billion) are left out: a judge reads them.
# Symbols and words that take an SI prefix, and the name that pint knows them by.
_PREFIXED_SYMBOLS = {
    "m": "meter", "g": "gram", "s": "second", "A": "ampere", "K": "kelvin", "mol": "mole", "cd": "candela",
    "Hz": "hertz", "N": "newton", "Pa": "pascal", "J": "joule", "W": "watt", "C": "coulomb", "V": "volt",
    "F": "farad", "Ω": "ohm", "ohm": "ohm", "S": "siemens", "Wb": "weber", "T": "tesla", "H": "henry", "lm": "lumen",
    "lx": "lux", "Bq": "becquerel", "Gy": "gray", "Sv": "sievert", "kat": "katal", "L": "liter", "l": "liter",
    "eV": "electron_volt", "cal": "calorie", "bar": "bar", "M": "molar", "Da": "dalton", "pc": "parsec", "B": "byte",
    "yr": "year", "Ci": "curie",
}  # fmt: skip
_PREFIXED_WORDS = {
    "meter": "meter", "metre": "meter", "gram": "gram", "gramme": "gram", "second": "second", "ampere": "ampere",
    "amp": "ampere", "kelvin": "kelvin", "mole": "mole", "hertz": "hertz", "newton": "newton", "pascal": "pascal",
    "joule": "joule", "watt": "watt", "coulomb": "coulomb", "volt": "volt", "farad": "farad", "siemens": "siemens",
    "tesla": "tesla", "henry": "henry", "becquerel": "becquerel", "gray": "gray", "sievert": "sievert",
    "liter": "liter", "litre": "liter", "electronvolt": "electron_volt", "calorie": "calorie", "molar": "molar",
    "dalton": "dalton", "parsec": "parsec", "byte": "byte", "bit": "bit", "curie": "curie",
}  # fmt: skip
_SYMBOL_PREFIXES = {
    "P": "peta", "T": "tera", "G": "giga", "M": "mega", "k": "kilo", "h": "hecto", "d": "deci", "c": "centi",
    "m": "milli", "µ": "micro", "u": "micro", "n": "nano", "p": "pico", "f": "femto",
}  # fmt: skip
_PLAIN = {
    "min": "minute", "minute": "minute", "sec": "second", "h": "hour", "hr": "hour", "hour": "hour", "d": "day",
    "day": "day", "week": "week", "month": "month", "year": "year", "century": "century", "°": "degree",
    "deg": "degree", "degree": "degree", "rad": "radian", "radian": "radian", "°C": "degree_Celsius",
    "degC": "degree_Celsius", "celsius": "degree_Celsius", "°F": "degree_Fahrenheit", "degF": "degree_Fahrenheit",
    "fahrenheit": "degree_Fahrenheit", "atm": "standard_atmosphere", "atmosphere": "standard_atmosphere",
    "mmHg": "millimeter_Hg", "torr": "torr", "Torr": "torr", "psi": "pound_force_per_square_inch",
    "AU": "astronomical_unit", "au": "astronomical_unit", "ly": "light_year", "lightyear": "light_year",
    "Å": "angstrom", "angstrom": "angstrom", "cc": "cubic_centimeter", "ha": "hectare", "hectare": "hectare",
    "acre": "acre", "inch": "inch", "ft": "foot", "foot": "foot", "feet": "foot", "yd": "yard", "yard": "yard",
    "mi": "mile", "mile": "mile", "mph": "mile_per_hour", "kph": "kilometer_per_hour", "knot": "knot", "lb": "pound",
    "lbs": "pound", "pound": "pound", "oz": "ounce", "ounce": "ounce", "tonne": "metric_ton",
    "gal": "gallon", "gallon": "gallon", "dB": "decibel", "decibel": "decibel",
    "ppm": "ppm", "%": "percent", "percent": "percent", "pct": "percent", "amu": "unified_atomic_mass_unit",
    "micron": "micron",
}  # fmt: skip
_DELTA = {"degree_Celsius": "delta_degree_Celsius", "degree_Fahrenheit": "delta_degree_Fahrenheit"}
STOP_WORDS = frozenset((
    "a", "an", "the", "is", "are", "was", "were", "be", "in", "at", "on", "of", "to", "for", "and",
    "or", "by", "with", "from", "as", "so", "if", "it", "this", "that", "these", "those", "when",
    "where", "which", "who", "because", "since", "then", "than", "but", "not", "no", "i", "we", "you",
    "he", "she", "they", "have", "has", "had", "total", "about", "approximately", "around", "only",
    "each", "all", "any", "out", "there", "here", "after", "before", "during", "while", "between",
    "into", "over", "under", "up", "down",
))  # fmt: skip
"""Words that end a unit: "5 m in total" is 5 m."""

_FACTOR = re.compile(
    r"\s{0,3}([*·⋅×/()]|(?:\*\*|\^)\s?\(?([+-]?\d{1,2})\)?|per\b|[^\W\d_]+|[%°µΩÅ][^\W\d_]*|-?\d{1,2})", re.I
)
_TIDY = str.maketrans({"μ": "µ", "Ω": "Ω", "Å": "Å", "℃": "°C", "℉": "°F"})


class Read(NamedTuple):
    """A unit at the beginning of a text: the unit, and how many characters it takes."""

    unit: Unit
    length: int


@lru_cache(maxsize=4096)
def parse_unit(text: str) -> Unit | None:
    """The unit that a whole text is, or None. Bounded time, whatever the text."""
    written = text.strip().translate(_TIDY)
    if not written or len(written) > LONGEST:
        return None
    written = re.sub(r"\blight[ -]years?\b", "lightyear", written, flags=re.IGNORECASE)
    written = re.sub(
        r"\b(?:degrees?|deg\.?)\s+(celsius|fahrenheit|C|F)\b", r"°\1", written, flags=re.IGNORECASE
    )
    written = re.sub(
        r"°\s?(celsius|fahrenheit)", lambda m: "°" + m[1][0].upper(), written, flags=re.IGNORECASE
    )
    return _product(written)


@lru_cache(maxsize=4096)
def leading_unit(text: str) -> Read | None:
    """The longest unit that a text begins with, of whole words, up to a comma or a stop word.

    None also where a unit goes on in a way that can be read in two ways (`J/mol K`).
    """
    head = re.split(r"[,;\n]", text[:LONGEST], maxsplit=1)[0]
    best = None
    for word in list(re.finditer(r"\S+", head))[:6]:
        plain = word[0].rstrip(".)!?:]")
        if plain.casefold() in STOP_WORDS:
            break
        for end in (word.end(), word.start() + len(plain)):
            unit = parse_unit(head[:end])
            if unit is not None:
                best = Read(unit, end)
                break
        else:
            if best is not None and parse_unit(plain) is not None:
                return None
        if plain != word[0] and not word[0].endswith(")"):
            break
    return best


def _product(written: str) -> Unit | None:
    """Factors joined by blanks, `*`, `·`, `/` and `per`; brackets only after a slash."""
    exponents: dict[str, int] = {}
    place, sign, in_brackets, last, fresh, divided = 0, 1, False, "", True, False
    while place < len(written):
        token = _FACTOR.match(written, place)
        if token is None:
            return None
        word, power, place = token[1], token[2], token.end()
        if word in "*·⋅×":
            fresh = True
        elif word == "/" or word.lower() == "per":
            sign, fresh = -1, True
        elif word == "(":
            if in_brackets or not fresh:
                return None
            in_brackets = True
        elif word == ")":
            if not in_brackets:
                return None
            in_brackets, divided, sign, last = False, True, 1, ""
        elif power is not None or word.lstrip("-").isdigit():
            if not last or fresh or abs(int(power or word)) > 12:
                return None
            exponents[last] += (int(power or word) - 1) * (1 if exponents[last] > 0 else -1)
            last = ""
        else:
            name = unit_name(word)
            # After `a/b` another factor may belong above or below the line: it is not certain.
            if name is None or name in exponents or (divided and sign > 0):
                return None
            exponents[name], last, fresh = sign, name, False
            if not in_brackets:
                divided, sign = divided or sign < 0, 1
    if in_brackets or fresh:
        return None
    return _compound({name: n for name, n in exponents.items() if n})


def _compound(exponents: Mapping[str, int]) -> Unit | None:
    """Temperatures in a product are differences; alone they have a zero of their own."""
    if not exponents:
        return None
    alone = len(exponents) == 1 and next(iter(exponents.values())) == 1
    return tuple(sorted((name if alone else _DELTA.get(name, name), n) for name, n in exponents.items()))


@cache
def _symbols() -> dict[str, str]:
    prefixed = {pre + symbol: prefix + name for symbol, name in _PREFIXED_SYMBOLS.items()
                for pre, prefix in _SYMBOL_PREFIXES.items()}  # fmt: skip
    # A plain unit wins over a prefixed one: "min" is a minute and no milli-inch, "ft" a foot.
    return {**prefixed, **_PREFIXED_SYMBOLS, **_PLAIN, "kg": "kilogram"}


@cache
def _words() -> dict[str, str]:
    prefixes = ["", *dict.fromkeys(_SYMBOL_PREFIXES.values())]
    prefixed = {prefix + word: prefix + name for word, name in _PREFIXED_WORDS.items() for prefix in prefixes}
    plain = {word.casefold(): name for word, name in _PLAIN.items() if len(word) > 3 and word.isalpha()}
    return prefixed | plain


def unit_name(word: str) -> str | None:
    """The library's name of one written unit: symbols as they are cased, words in any case and number."""
    if word in _symbols():
        return _symbols()[word]
    folded = word.casefold()
    singular = (folded.removesuffix("s"), folded.removesuffix("es"), folded.replace("inches", "inch"))
    for form in (folded, *singular):
        if form in _words():
            return _words()[form]
    return None


def is_percent(unit: Unit | None) -> bool:
    """Whether a unit is the per cent sign alone."""
    return unit == (("percent", 1),)


class Converted(NamedTuple):
    """A value in another unit. `comparable`: True, False (another dimension) or None (not known)."""

    value: Decimal | None
    comparable: bool | None


def convert(value: Decimal, unit: Unit, wanted: Unit) -> Converted:
    """A value in the wanted unit, rounded to 12 digits; temperatures with their zero."""
    if unit == wanted:
        return Converted(value, True)
    registry = _registry()
    if registry is None:
        return Converted(None, None)
    try:
        given, asked = _in_library(unit, registry), _in_library(wanted, registry)
        if given.dimensionality != asked.dimensionality:
            return Converted(None, False)
        there = Decimal(f"{registry.Quantity(float(value), given).to(asked).magnitude:.12g}")
        return Converted(there, True) if there.is_finite() else Converted(None, None)
    # pint has errors of its own beside the built-in ones; none of them says that an answer is wrong.
    except (ArithmeticError, AttributeError, TypeError, ValueError, InvalidOperation):
        return Converted(None, None)


def dimension(unit: Unit) -> object:
    """What two comparable units have in common; the unit itself where no unit library is installed."""
    registry = _registry()
    if registry is None:
        return unit
    try:
        return _in_library(unit, registry).dimensionality
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return unit


def _in_library(unit: Unit, registry: Any) -> Any:
    out = registry.Unit("")
    for name, exponent in unit:
        out = out * registry.Unit(name) ** exponent
    return out


@cache
def _registry() -> Any:
    """pint's registry, or None where the extra `units` is not installed."""
    try:
        registry = import_module("pint").UnitRegistry
    except (ImportError, AttributeError):
        return None
    return registry()
