"""Parser of lists and objects that JSON, Python, or NumPy wrote as text, such as `["a", "b"]` or `['a' 'b']`.

Python joins two texts between which a comma is missing, so that two options would become one. Here, the members of a list
are all separated by commas, or all by blanks, as NumPy prints an array. Any other list is refused.
"""

import ast
import json
import re
import warnings
from contextlib import suppress

from robustify.base.errors import ItemError, Notice

_BEGINS = re.compile(r"[\[({]|(?:\w+\.)?(?:array|list)\(")
_QUOTED_LIST = re.compile(r"""\s*[\[({]\s*['"]""")
_SIDE_BY_SIDE = re.compile(r"""['"]\s*[rbuRBU]{0,2}['"]""")
"""Two texts between which nothing but blanks may stand, or an empty text."""
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>[rbuRBU]{0,2}(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))"""
    r"|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))|(?P<word>[A-Za-z_][\w.]*)|(?P<sign>[\[\](){},:=]))",
    re.DOTALL,
)
_WORDS = {"None": None, "null": None, "nan": None, "NaN": None} | {
    word: value for value in (True, False) for word in (str(value), str(value).casefold())
}
_LISTING = re.compile(r"[,，、/]|\s(?:and|or|und|oder|y|o|et|ou)\s", re.IGNORECASE)
"""What stands between options that one text lists in a way that cannot be distinguished from a single option."""
_LISTING_PLURAL = re.compile(_LISTING.pattern + r"|[•*~#<>+&|;\t]+|\s[-–—]\s|\s\s+|[.)]\s", re.IGNORECASE)
_FEWEST_LISTED, _MANY_WORDS = 3, 5
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_CALLS = {"array", "list", "tuple", "str_", "int64", "int32", "float64", "float32", "bool_"}
"""Functions whose first argument is the value, as NumPy and pandas print them."""


class MissingCommaError(ItemError):
    """Error for a list in which only some members are separated by commas."""

    def __init__(self) -> None:
        super().__init__(
            Notice(
                "a comma is missing between two texts of a list, so that the number of its members is uncertain. Separate "
                "all of them with commas",
                code="missing-comma",
            )
        )


def literal(text: str) -> object:
    """Return the list, tuple, or object that a text contains, or None if it contains plain text. Raise
    `MissingCommaError` if only some members of a list are separated by commas."""
    text = text.strip()
    if not _BEGINS.match(text):
        return None
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    if not _SIDE_BY_SIDE.search(text):
        with (
            warnings.catch_warnings(),
            suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError),
        ):
            # Python's warnings about odd escapes quote the text.
            warnings.simplefilter("ignore")
            return ast.literal_eval(text)
    with suppress(_NotPrinted, RecursionError):
        return _Parser(text).parse()
    return None


def unreadable_list(text: str) -> bool:
    """Return whether a text begins like a list of texts but `literal` cannot read it, such as `['a'; 'b']`."""
    return _QUOTED_LIST.match(text) is not None and literal(text) is None


def may_list_several(text: str, plural: bool, alone: bool) -> bool:
    """Return whether one text may list several wrong options, such as `Rome, Sucre`. If its column has no `plural`
    name and is `alone` next to the column of the right option, it must list three or more short options."""
    if plural:
        return _LISTING_PLURAL.search(text.strip()) is not None
    pieces = [piece.split() for piece in _LISTING.split(text)]
    return alone and len(pieces) >= _FEWEST_LISTED and all(0 < len(piece) < _MANY_WORDS for piece in pieces)


def unquoted(text: str) -> str:
    """Return the text between the quotation marks if a whole text is quoted. Return any other text unchanged."""
    token = _TOKEN.fullmatch(text.rstrip())
    with suppress(_NotPrinted):
        value = _parsed(token["text"]) if token and token["text"] else text
        return value if isinstance(value, str) else text
    return text


class _NotPrinted(ValueError):
    """Raised at the first token that does not occur in printed values."""


def _parsed(token: str) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(token)
    except (ValueError, SyntaxError):
        raise _NotPrinted from None


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def parse(self) -> object:
        """Parse the whole text as one value."""
        value = self._value()
        if self.text[self.at :].strip():
            raise _NotPrinted
        return value

    def _next(self) -> "re.Match[str]":
        token = _TOKEN.match(self.text, self.at)
        if token is None:
            raise _NotPrinted
        return token

    def _sign(self, sign: str) -> bool:
        """Read a sign if the next token is one. Return whether it was."""
        token = _TOKEN.match(self.text, self.at)
        if token is None or token["sign"] != sign:
            return False
        self.at = token.end()
        return True

    def _value(self) -> object:
        token = self._next()
        self.at = token.end()
        if token["text"]:
            return _parsed(token["text"])
        if token["number"]:
            return _parsed(token["number"].lstrip("+"))
        if token["word"]:
            return self._word(token["word"])
        match token["sign"]:
            case "[" | "(" as opening:
                members = self._members(_CLOSING[opening])
                return members if opening == "[" else tuple(members)
            case "{":
                return self._object()
        raise _NotPrinted

    def _word(self, word: str) -> object:
        if word in _WORDS:
            return _WORDS[word]
        if word.rpartition(".")[2] not in _CALLS or not self._sign("("):
            raise _NotPrinted
        value = self._value()
        while not self._sign(")"):
            # Only `dtype=...` follows a printed value.
            self.at = self._next().end()
        return value

    def _members(self, close: str) -> list[object]:
        members, commas = list[object](), 0
        while not self._sign(close):
            comma = bool(members) and self._sign(",")
            if comma and self._sign(close):
                break
            commas += comma
            members.append(self._value())
        # Side by side in round brackets, Python joins texts, and NumPy prints none.
        if commas < len(members) - 1 and (commas or close == ")"):
            raise MissingCommaError
        return members

    def _object(self) -> dict[object, object]:
        members: dict[object, object] = {}
        while not self._sign("}"):
            if members and not self._sign(","):
                raise MissingCommaError
            if self._sign("}"):
                break
            name = self._value()
            if not isinstance(name, str | int | float) or not self._sign(":"):
                raise _NotPrinted
            members[name] = self._value()
        return members
