"""Numbers as people and models write them, brought into one notation: plain digits, `.`, `-`, `^`, `a/b`.

Superscripts, other scripts' digits, minus signs, vulgar fractions, LaTeX and Markdown emphasis are rewritten; nothing
is computed, and what has no plain form is left as it is, so that a reader of numbers sees an expression.
"""

import re
import unicodedata

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_SUPERSCRIPT = re.compile("[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_SIGNS = str.maketrans(
    {
        "\u2212": "-", "\ufe63": "-", "\uff0d": "-", "\u2010": "-", "\u2011": "-",
        "\u066b": ".", "\u066c": ",", "\u2044": "/", "\u2215": "/", "\u22c5": "·", "\u2715": "×", "\u2a2f": "×",
        "\u2019": "'", "`": "", "\u2217": "*", "\u223c": "~", "\u2243": "≈", "\u2245": "≈", "\u2264": "<", "\u2265": ">",
    }
)  # fmt: skip
_THIN_GROUP = re.compile(r"(?<=\d)(?:[\u2009\u202f\u00a0\u2006\u2007]|\\,|\{,\})(?=\d{3}(?!\d))")
_EN_DASH_SIGN = re.compile(r"(?:(?<=^)|(?<=[\s(=:\[,~≈]))[–—](?=[\d.])")
_BOLD = re.compile(r"(?<![\w)*])(\*{1,3}|__)(?=\S)([^*\n]{1,300}?)(?<=\S)\1(?![\w*])")
_FRACTION = re.compile(
    r"\\[dt]?frac\s?\{\s?([+-]?\d{1,30}(?:\.\d{1,30})?)\s?\}\s?\{\s?(\d{1,30}(?:\.\d{1,30})?)\s?\}"
)
_WRAPPED = re.compile(r"\\(?:text|mathrm|mathbf|textbf|mathit|operatorname|rm|unit|si)\s?\{([^{}]{0,80})\}")
_POWER = re.compile(r"\^\s?\{\s?([+-]?\d{1,4})\s?\}")
_COMMANDS = {
    r"\times": "×", r"\cdot": "·", r"\pm": "±", r"\approx": "≈", r"\simeq": "≈", r"\sim": "≈", r"\leq": "<",
    r"\geq": ">", r"\le": "<", r"\ge": ">", r"\lt": "<", r"\gt": ">", r"\%": "%", r"\circ": "°", r"\degree": "°",
    r"\pi": "π", r"\mu": "µ", r"\Omega": "Ω", r"\left": "", r"\right": "", r"\quad": " ", r"\qquad": " ", r"\;": " ",
    r"\:": " ", r"\!": "", r"\,": " ", r"\ ": " ", r"\(": " ", r"\)": " ", r"\[": " ", r"\]": " ", r"\$": "", r"\\": "\n",
}  # fmt: skip
_COMMAND = re.compile(r"\\(?:[A-Za-z]+|[^A-Za-z])")


def plain_notation(text: str) -> str:
    """A text in plain notation. Linear in its length."""
    text = _SUPERSCRIPT.sub(lambda m: "^" + m[0].translate(_SUPERSCRIPTS), text)
    text = _THIN_GROUP.sub("", text)
    if not text.isascii():
        text = _plain_characters(text)
    text = _BOLD.sub(r"\2", text)
    if "\\" in text:
        text = _WRAPPED.sub(r" \1", _FRACTION.sub(r" \1/\2 ", text))
        text = _COMMAND.sub(lambda m: _COMMANDS.get(m[0], m[0]), text)
    text = _POWER.sub(r"^\1", text)
    return text.replace("$", "").replace("{}", "").replace("^°", "°")


def _plain_characters(text: str) -> str:
    """Fractions, digits and signs of other scripts, then NFKC."""
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
