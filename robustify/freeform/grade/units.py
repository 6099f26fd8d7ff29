"""Units of measurement, parsed from a closed list and converted with pint.

A unit is a product of known tokens with small integer exponents. Any other text is not a unit, so `9**9**9` costs
nothing, pint never parses text of an answer, and "a", "at" or "e" in prose is not a unit. This module adds units that
pint does not know or converts in unexpected ways (32 °F, rpm, gauss, Hz and rad/s).
"""

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from typing import Any, NamedTuple

from robustify.freeform.answer_text import powers_marked
from robustify.freeform.grade import closed_lists, word_set

LONGEST = 48
"""Longest unit, in characters."""
Unit = tuple[tuple[str, int], ...]
"""Sorted pint names with exponents: `(("meter", 1), ("second", -1))`."""

_SYMBOLS, _PREFIXES, _SYMBOLS_ALONE = word_set("symbols"), word_set("prefixes"), word_set("symbols_alone")
_WORDS, _WORD_PREFIXES, _WORDS_ALONE = word_set("words"), word_set("word_prefixes"), word_set("words_alone")
_TWO_MEANINGS, _TWO_SIZES = word_set("two_meanings"), tuple(word_set("two_sizes"))
_RENAMED, _SORTS = closed_lists()["renamed"], closed_lists()["sorts"]
_DELTA = {"degree_Celsius": "delta_degree_Celsius", "degree_Fahrenheit": "delta_degree_Fahrenheit"}
_TEMPERATURES: tuple[Unit, ...] = ((("kelvin", 1),), *(((name, 1),) for name in _DELTA))
_ANGLES: tuple[Unit, ...] = ((("degree", 1),), (("radian", 1),))
_FACTOR = re.compile(
    r"\s*(?P<over>/|per\b)?\s*(?P<joint>[*·⋅×]\s*)?(?P<word>[^\W\d_]+|[%°µΩÅ€£¥₹＄][^\W\d_]*)"
    r"(?:(?:(?:\^|\*\*)\s?\(?)?(?P<power>[+-]?\d{1,2})\)?)?",
    re.IGNORECASE,
)
_BELOW = re.compile(r"/\s?\(([^()/]+)\)")
_TIDY = str.maketrans({"μ": "µ", "Ω": "Ω", "Å": "Å", "℃": "°C", "℉": "°F"})
_SPELLED = (
    (re.compile(r"\blight[ -]years?\b", re.IGNORECASE), "lightyear"),
    (re.compile(r"\b(?:degrees?|deg\.?)\s+(?=(?:celsius|fahrenheit|C|F)\b)", re.IGNORECASE), "°"),
    (re.compile(r"°\s?(?:celsius|C)\b", re.IGNORECASE), "°C"),
    (re.compile(r"°\s?(?:fahrenheit|F)\b", re.IGNORECASE), "°F"),
    (re.compile(r"(?<=[a-z])-(?=[a-z]{3})", re.IGNORECASE), " "),
    (re.compile(r"\b([kM]?)N-?m\b"), r"\1N m"),
)


class Read(NamedTuple):
    """Unit of measurement at the start of a string, with its length in characters."""

    unit: Unit
    length: int


@lru_cache(maxsize=4096)
def parse_unit(text: str) -> Unit | None:
    """Parse a complete text as a unit, or return None."""
    if len(text) > 2 * LONGEST:
        return None
    written = powers_marked(text.strip()).translate(_TIDY)
    for pattern, plain in _SPELLED:
        written = pattern.sub(plain, written)
    return _product(written) if 0 < len(written) <= LONGEST else None


@lru_cache(maxsize=4096)
def leading_unit(text: str) -> Read | None:
    """Parse the longest unit of complete words at the beginning of a text, up to a comma.

    Return None also if the continuation is ambiguous (`J/mol K`). "in" is an inch only at the end, as in "6 in."
    """
    head = re.split(r"[,;\n]", text[:LONGEST], maxsplit=1)[0]
    if re.match(r"in\s*(?:[.)!]|$)", head):
        return Read((("inch", 1),), 2)
    best = None
    for word in list(re.finditer(r"\S+", head))[:6]:
        plain = word[0].rstrip(".)!?:]")
        for end in (word.end(), word.start() + len(plain)):
            unit = parse_unit(head[:end])
            if unit is not None:
                best = Read(unit, end)
                break
        else:
            if best is not None and plain not in ("per", "/", "*", "·", "⋅", "×"):
                return None if parse_unit(plain) is not None else best
        if plain != word[0] and not word[0].endswith(")"):
            break
    return best


def _product(written: str) -> Unit | None:
    """Combine the factors of a unit, joined by spaces, `*`, `·`, `/` or `per`. Brackets may follow only a slash."""
    written = _BELOW.sub(lambda m: "/" + re.sub(r"\s*[*·⋅×]\s*|\s+", "/", m[1].strip()), written)
    exponents: dict[str, int] = {}
    place, divided = 0, False
    while place < len(written):
        token = _FACTOR.match(written, place)
        if token is None or (token["joint"] and not place):
            return None
        name, below, n = unit_name(token["word"]), bool(token["over"]), int(token["power"] or 1)
        again = name in exponents and not (below and exponents[name] < 0)
        # After `a/b`, a further factor may belong above or below the line. "m/s^-2" is ambiguous too.
        if name is None or again or (divided and not below) or (below and n < 0) or abs(n) > 12:
            return None
        exponents[name] = exponents.get(name, 0) + (-n if below else n)
        divided, place = divided or below, token.end()
    factors = {name: n for name, n in exponents.items() if n}
    # Temperatures in a product are differences. A temperature alone is a point on its scale.
    alone = list(factors.values()) == [1]
    return (
        tuple(sorted((name if alone else _DELTA.get(name, name), n) for name, n in factors.items())) or None
    )


@cache
def unit_name(word: str) -> str | None:
    """Return the name that pint uses for a unit. Symbols are case-sensitive, and words are not."""
    prefixed = word[:1] in _PREFIXES and word[1:] in _SYMBOLS
    if word in _SYMBOLS_ALONE or word in _SYMBOLS or prefixed:
        return _named(_RENAMED.get(word, word))
    folded = word.casefold()
    # "Calories" with a capital are kilocalories.
    forms = (folded, folded.removesuffix("s"), folded.removesuffix("es"), folded.replace("ies", "y"))
    for form in forms if not word.startswith("Calorie") else ():
        stem = next(
            (form.removeprefix(p) for p in _WORD_PREFIXES if form.removeprefix(p) in _WORDS and form != p),
            form,
        )
        if stem in _WORDS or form in _WORDS_ALONE:
            return _named(_RENAMED.get(form, form.replace("gramme", "gram")))
    return None


def _named(word: str) -> str:
    return str(_registry().get_name(word.replace("u", "µ", 1) if re.match(r"u(?=[A-Zmgsl])", word) else word))


def is_percent(unit: Unit | None) -> bool:
    """Return whether a unit is exactly percent."""
    return unit == (("percent", 1),)


def comparable(unit: Unit, wanted: Unit) -> tuple[Unit, Unit] | None:
    """Return readings of two units that share a dimension, or None if there are none."""
    for there in _readings(wanted):
        for here in _readings(unit):
            if _in_library(here).dimensionality == _in_library(there).dimensionality:
                return here, there
    return None


def has_two_meanings(unit: Unit, size: bool = False) -> bool:
    """Return whether a unit's symbol also means something else. With `size`, return whether the unit has several sizes."""
    if size:
        return any(name.endswith(_TWO_SIZES) for name, _ in unit)
    return any(name == "molar" or (unit == ((name, 1),) and name in _TWO_MEANINGS) for name, _ in unit)


def _readings(unit: Unit) -> Iterator[Unit]:
    yield unit
    for written, meant in closed_lists()["written_for"]:
        if [list(factor) for factor in unit] == written:
            yield tuple((name, n) for name, n in meant)


def convert(value: Decimal, unit: Unit, wanted: Unit) -> Decimal | None:
    """Convert a value to a unit of the same dimension, to 12 digits. Return None if the conversion is uncertain."""
    if unit == wanted:
        return value
    sorts = [_sorts(unit), _sorts(wanted)]
    if sorts[0] and sorts[1] and sorts[0] != sorts[1]:
        return None
    try:
        given, asked = _in_library(unit), _in_library(wanted)
        there = Decimal(f"{_registry().Quantity(float(value), given).to(asked).magnitude:.12g}")
    # pint's own errors derive from these. None of them means that the answer is wrong.
    except (ArithmeticError, AttributeError, TypeError, ValueError, InvalidOperation):
        return None
    # Binary rounding shifts the zeros of temperature scales by about 1e-14.
    there = round(there, 9) if wanted in _TEMPERATURES else there
    return there if there.is_finite() else None


def _sorts(unit: Unit) -> frozenset[str]:
    found = {sort for name, _ in unit for known, sort in _SORTS.items() if name.endswith(known)}
    return frozenset(found | ({"torque"} if unit == (("meter", 1), ("newton", 1)) else set()))


def other_scales(unit: Unit) -> tuple[Unit, ...]:
    """Return the other scales of temperature or angle that a number without a unit may use."""
    scales = next((scales for scales in (_TEMPERATURES, _ANGLES) if unit in scales), ())
    return tuple(scale for scale in scales if scale != unit)


@lru_cache(maxsize=4096)
def _in_library(unit: Unit) -> Any:
    out = _registry().Unit("")
    for name, exponent in unit:
        out = out * _registry().Unit(name) ** exponent
    return out


@cache
def _registry() -> Any:
    from pint import UnitRegistry

    registry: Any = UnitRegistry()
    # In pint a gauss has another dimension than a tesla, and 60 rpm are 6.28 Hz.
    registry.define("gauss_field = 1e-4 * tesla")
    registry.define("rotation_rate = hertz / 60")
    if "electronvolt" not in registry:  # before pint 0.25
        registry.define("@alias electron_volt = electronvolt")
    for currency in ("dollar", "euro", "sterling", "yen", "rupee"):
        registry.define(f"{currency} = [{currency}]")
    return registry
