"""Extraction of numbers with units from text, as exact decimals.

Superscripts, digits of other scripts, minus signs, vulgar fractions, LaTeX and Markdown emphasis are first rewritten in
plain notation (plain digits, `.`, `-`, `^`, `a/b`), without computing anything. Digits inside a word, a version, a
power or an index are not numbers. Ranges, lists and expressions are not resolved: every number is returned with its
position.
"""

import logging
import re
import unicodedata
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple

from robustify.freeform.answer_text import powers_marked
from robustify.freeform.grade import closed_lists
from robustify.freeform.grade.units import Unit, leading_unit, parse_unit

_SIGNS, _COMMANDS = str.maketrans(closed_lists()["signs"]), closed_lists()["commands"]
_THIN_GROUP = re.compile(r"(?<=\d)(?:[\u2009\u202f\u00a0\u2006\u2007]|\\,|\{,\})(?=\d{3}(?!\d))")
_SUBSCRIPT = re.compile("(?<=[0-9])(?=[₀-₉])")
_EN_DASH_SIGN = re.compile(r"(?:(?<=^)|(?<=[\s(=:\[,~≈]))[–—](?=[\d.])")
_BOLD = re.compile(r"(?<![\w)*])(\*{1,3}|__)(?=\S)([^*\n]{1,300}?)(?<=\S)\1(?![\w*])")
_FRACTION = re.compile(
    r"\\[dt]?frac\s?\{\s?([+-]?\d{1,30}(?:\.\d{1,30})?)\s?\}\s?\{\s?(\d{1,30}(?:\.\d{1,30})?)\s?\}"
)
_WRAPPED = re.compile(r"\\(?:text|mathrm|mathbf|textbf|mathit|operatorname|rm|unit|si)\s?\{([^{}]{0,80})\}")
_POWER = re.compile(r"\^\s?\{\s?([+-]?\d{1,4})\s?\}")
# "7 minus 5" is an expression, and "minus 5" is a number.
_MINUS = re.compile(
    r"(^|[:=(≈~]\s*|\b(?:is|be|was|equals|about|approximately|exactly|ist|est|es|è|é)\s+)"
    r"(?:minus|negative|moins|menos|meno)\s+(?=\.?\d)",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"\\(?:[A-Za-z]+|[^A-Za-z])")


def plain_notation(text: str) -> str:
    """Rewrite a text in plain notation, in linear time."""
    if not text.isascii() or "\\" in text or "{" in text:
        text = _SUBSCRIPT.sub("_", _THIN_GROUP.sub("", powers_marked(text)))
    text = text.replace("!=", "≠")
    if not text.isascii():
        text = _plain_characters(text)
    text = _BOLD.sub(r"\2", text) if "*" in text or "__" in text else text
    if "\\" in text:
        text = _WRAPPED.sub(r" \1", _FRACTION.sub(r" \1/\2 ", text))
        text = _COMMAND.sub(lambda m: _COMMANDS.get(m[0], m[0]), text)
    text = _MINUS.sub(r"\1-", _POWER.sub(r"^\1", _RUN.sub(_in_digits, text)))
    # One dollar sign is a currency, and two enclose LaTeX.
    return text.replace("$", "＄" if text.count("$") == 1 else "").replace("{}", "").replace("^°", "°")


_ONES, _TENS = (str(closed_lists()[name]).split() for name in ("ones", "tens"))
_DIGIT, _ANY = "|".join(_ONES[1:10]), "|".join([*_ONES, *_TENS, "hundred"])
_RUN = re.compile(rf"\b(?:{_ANY})(?:(?:\s+and)?[\s-]+(?:{_ANY}))*\b", re.IGNORECASE)
_SPELLED = re.compile(
    rf"(?:({_DIGIT}) hundred(?: and)? ?)?(?:({'|'.join(_TENS)})(?:[ -]({_DIGIT}))?|({'|'.join(_ONES)}))?"
)


def _in_digits(run: "re.Match[str]") -> str:
    """Convert an English number below 1000 to digits. Other words, such as "one" inside a sentence, are unchanged."""
    found = _SPELLED.fullmatch(" ".join(run[0].casefold().split()))
    if found is None or (run[0].casefold() == "one" and run[0] != run.string.strip(" .")):
        return run[0]
    hundreds, tens, *ones = found.groups()
    value = 100 * _ONES.index(hundreds or "zero") + (10 * _TENS.index(tens) + 20 if tens else 0)
    return str(value + sum(_ONES.index(word) for word in ones if word))


def _plain_characters(text: str) -> str:
    """Replace fractions, digits and signs of other scripts, and normalize to NFKC."""
    table: dict[int, str] = {}
    for character in set(text):
        if character.isascii():
            continue
        parts = unicodedata.decomposition(character).split()
        digit = unicodedata.decimal(character, None)
        if parts[:1] == ["<fraction>"]:
            table[ord(character)] = " " + "".join(chr(int(p, 16)) for p in parts[1:]).replace("\u2044", "/")
        elif digit is not None:
            table[ord(character)] = str(digit)
    text = text.translate(table).translate(_SIGNS)
    text = _EN_DASH_SIGN.sub("-", text)
    return unicodedata.normalize("NFKC", text).translate(_SIGNS)


MOST_QUANTITIES = 2000
LONGEST_REFERENCE = 200
WORDS_OF_TEN = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}

_INTEGER = r"\d{1,400}"
_MANTISSA = (
    r"(?:\d{1,3}(?:\.\d{3}){1,30},\d{1,30}(?![\d,])"  # 1.234,5
    r"|\d{1,3}(?:,\d{3}){1,30}(?![\d,])(?:\.\d{1,400})?"  # 1,234.5
    r"|\d{1,3}(?:'\d{3}){1,30}(?!\d)(?:\.\d{1,400})?"  # 1'234.5
    r"|(?<!\d,)(?:0,\d{1,30}|\d{1,30},(?:\d{1,2}|\d{4,30}))(?![\d,]|\.\d)"  # 3,14
    rf"|{_INTEGER}(?:\.\d{{1,400}})?|\.\d{{1,400}})"
)
_TEN = r"\s?[x×*·]\s?10\s?(?:\^|\*\*)\s?\(?(?P<ten>[+-]?\d{1,4})\)?"
_NUMBER = re.compile(
    r"(?P<sign>[+-]\s?)?(?P<currency>[€£¥₹＄]\s?)?(?:"
    r"(?P<top>\d{1,30}(?:\.\d{1,30})?)\s?/\s?(?P<bottom>\d{1,30}(?:\.\d{1,30})?)(?![\d/])"
    rf"|(?P<mantissa>{_MANTISSA})(?:[eE](?P<e>[+-]?\d{{1,4}}(?![\w.]))|{_TEN})?"
    r")(?:\s?(?P<word>thousand|million|billion|trillion)\b)?"
)
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)


class NumberWithUnit(NamedTuple):
    """A number in plain notation with the unit that follows it.

    `bullet` is true if the minus sign may be a list marker. `raw` is the original text.
    """

    value: Decimal
    unit: Unit | None
    start: int
    end: int
    raw: str
    bullet: bool = False


def quantities_in(text: str) -> list[NumberWithUnit]:
    """Find the numbers of a text in plain notation, in linear time."""
    found: list[NumberWithUnit] = []
    place = 0
    while len(found) < MOST_QUANTITIES and (number := _NUMBER.search(text, place)) is not None:
        quantity = _quantity(text, number)
        if quantity is None:
            place = _past_digits(text, number)
        else:
            found.append(quantity)
            place = quantity.end
    return found


@lru_cache(maxsize=1024)
def whole_quantity(text: str) -> NumberWithUnit | None:
    """Parse a complete text as one quantity, with an optional leading `x =` or `~`. Return None if it is anything more."""
    if len(text) > LONGEST_REFERENCE:
        return None
    plain = re.sub(
        r"^\s*(?:[A-Za-z][\w']{0,9}\s?[=≈]\s?|[~≈]\s?|approximately\s+|about\s+)", "", plain_notation(text)
    )
    plain = plain.strip().rstrip(".")
    found = quantities_in(plain)
    if len(found) != 1 or found[0].start != 0 or plain[found[0].end :].strip(" .)"):
        return None
    return found[0]


def _past_digits(text: str, number: "re.Match[str]") -> int:
    end = max(number.end(), number.start() + 1)
    while end < len(text) and text[end].isdigit():
        end += 1
    return end


def _quantity(text: str, number: "re.Match[str]") -> NumberWithUnit | None:
    start, end = number.start(), number.end()
    negative = (number["sign"] or "").startswith("-")
    if number["sign"]:
        before = text[:start].rstrip()[-1:] if start else ""
        if before.isdigit() or before in (")", "%"):
            # The character joins two numbers instead of being a sign, so the number begins after it.
            negative, start = False, start + len(number["sign"])
        elif start and (text[start - 1].isalpha() or text[start - 1] in "_^"):
            return None
    previous = text[start - 1] if start else ""
    if number["sign"] and not negative and previous in "+-":
        previous = ""
    if previous.isalnum() or (previous and previous in "._^/\\!") or text.endswith("**", 0, start):
        return None
    if text.startswith(("^", "**"), end) or re.match(r"/\d", text[end : end + 2]):
        return None
    value = _value(number)
    if value is None:
        return None
    found = _with_unit(text, -value if negative else value, start, end)
    if found is not None and number["currency"]:
        # "$5 m" may be millions or metres.
        found = found._replace(unit=parse_unit(number["currency"])) if found.unit is None else None
    listed = negative and number["sign"] == "- " and not text[:start].rpartition("\n")[2].strip()
    return found._replace(bullet=True) if found is not None and listed else found


def _value(number: "re.Match[str]") -> Decimal | None:
    try:
        if number["top"] is not None:
            value = Decimal(number["top"]) / Decimal(number["bottom"])
        else:
            value = Decimal(_unseparated(number["mantissa"])).scaleb(int(number["e"] or number["ten"] or 0))
    except (ArithmeticError, InvalidOperation):
        return None
    return value.scaleb(WORDS_OF_TEN.get(number["word"], 0))


def _unseparated(mantissa: str) -> str:
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", mantissa):
        return mantissa.replace(".", "").replace(",", ".")
    if re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", mantissa):
        return mantissa.replace(",", "")
    return mantissa.replace("'", "").replace(",", ".")


def _with_unit(text: str, value: Decimal, start: int, end: int) -> NumberWithUnit | None:
    after = text[end : end + 60]
    attached = bool(after) and not after[0].isspace()
    if attached and _ORDINAL.match(after):
        return None
    blanks = len(after) - len(
        after.lstrip(" ~-" if after[:1] in " ~" else "-" if after[:2].strip("-").isalpha() else "")
    )
    read = leading_unit(after[blanks:])
    if read is not None:
        stop = end + blanks + read.length
        return NumberWithUnit(value, read.unit, start, stop, text[start:stop])
    if attached and (after[0].isalpha() or after[0] == "_"):
        return None
    if re.match(r"\.\d", after):
        return None
    return NumberWithUnit(value, None, start, end, text[start:end])


# Formulas are short products of numbers, roots, powers and fractions. A sum may be a range, and a power of a power
# may never finish.

_LONGEST_FORMULA = 60
_FORMULA = re.compile(
    r"-?(?:\d{1,9}(?:\.\d{1,9})?|\\d?frac|\\sqrt|sqrt|√|π|\\?pi\b|\^\s?\{?\s?-?\d{1,2}(?![\d.])\s?\}?|\\left|\\right"
    r"|[\s(){}*/·×])+"
)
_ADVANCED = re.compile(r"sqrt|√|π|pi\b|\^|frac")
_AS_LATEX = (
    (re.compile(r"\\?sqrt\s?\(([^()]{1,40})\)"), r"\\sqrt{\1}"),
    (re.compile(r"√\s?(?:\(([^()]{1,40})\)|(\d+(?:\.\d+)?))"), lambda m: f"\\sqrt{{{m[1] or m[2]}}}"),
    (re.compile(r"π|\\?\bpi\b"), r"\\pi "),
    (re.compile(r"[·×*]"), r"\\cdot "),
)


@lru_cache(maxsize=1024)
def value_of(text: str) -> Decimal | None:
    """Evaluate a text that consists of one formula, to 15 digits. Return None for any other text."""
    plain = text.strip(" ;:,$").rstrip(".")
    if len(plain) > _LONGEST_FORMULA or not _ADVANCED.search(plain) or not _FORMULA.fullmatch(plain):
        return None
    if plain.count("^") > 1:
        return None
    from math_verify import LatexExtractionConfig, parse

    # Its log messages would contain the text.
    for name in ("math_verify", "latex2sympy2_extended"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    for pattern, latex in _AS_LATEX:
        plain = pattern.sub(latex, plain)
    found = parse(f"${plain}$", [LatexExtractionConfig()], fallback_mode="no_fallback", parsing_timeout=None)
    try:
        value = found[0].evalf(15)
        return Decimal(str(value)) if value.is_real and value.is_finite else None
    except (IndexError, AttributeError, InvalidOperation, ValueError):
        return None
