"""Every form in which a text may be read: as it is, unescaped, without tags, and with its pieces put together.

A newline that was written as an escape becomes U+000B, which separates lines but is not counted as one of the file, so
that a finding in an unescaped text names the file's own line.
"""

import html
import re
import unicodedata
from collections.abc import Iterator

from robustify.gate.words import INVISIBLE

BREAK = "\x0b"
_ROUNDS = 4
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?")
# Patterns begin with a literal where they can: the search then skips to it.
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*")
_QUOTED_BYTES = re.compile(r"=[0-9A-F]{2}(?:=[0-9A-F]{2})*")
_SOFT = re.compile(r"=(?:20|3D|\r?\n)")
_CUT = re.compile(r"-(?:\r?\n|\x0b)")
_RETURN = re.compile(r"\r\x0b|\r(?!\n)")
"""A carriage return that ends a line without a newline, as old programs write it."""
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})"
    r"|N\{([A-Za-z0-9 -]{1,80})\}|([0-3]?[0-7]{2})|([nrtvfab\"'/\\]))"
)
_SHORT = {"n": BREAK, "r": "\r", "t": "\t", "v": BREAK, "f": BREAK, "a": "", "b": ""}
_TAG = re.compile(r"<(/?[A-Za-z!?][\w:.-]{0,40})((?:\s[^<>]{0,4000})?)/?>")
_SIGN = re.compile(r"<(?:[/!?pPtTq]|br|BR|li|LI|wbr|hr|in)")
"""Every text with tags has one of these; code that only names things in angle brackets has none."""
_SECTIONS = ("<!--", "-->", "<![CDATA[", "]]>")
_INLINE = {
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q",
    "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "tspan", "tt", "u", "var", "wbr",
}  # fmt: skip
_CELL = {"td", "th"}
_CELLS = re.compile(r"(</t[dh]>)[\s\",]+(?=<t[dh])")
_HYPHEN = re.compile(r"-(?:\r?\n|\x0b)(?:\",\r?\n)?[ \t#>*/+|!;%\"-]*(\w+)")
_COMMAND = re.compile(r"\\[A-Za-z]+\*?")
_JOINT = re.compile(r"([\"'`])\s*(?:[+.&|,]|\\?\n)?\s*[rbfu]{0,2}([\"'`])")
"""What stands between two pieces of a text in a program: `"one pi" + "ece"`."""
_CAMEL = re.compile(r"(?:[A-Z][a-z]+){7,}")
_ALONE = re.compile(r"^[\d \t,;:|#>*.-]{0,40}\b([^\W\d][\w'-]{0,40})[?.,!]?[\d \t,;:|.-]{0,40}$", re.M)
"""A word with nothing but numbers and delimiters in its line."""
_ENOUGH = 8
"""Joints of a text that make it worth putting together."""


def readings(text: str) -> Iterator[str]:
    """Yield the forms of a text that differ from it. All have as many newlines as the text, or are whole new texts."""
    if "\r" in text and (ended := _RETURN.sub("\n", text)) != text:
        text = ended
        yield text
    if not text.isascii() and (plain := _narrow(text)) != text:
        yield plain
    plain = unescaped(text)
    if plain != text:
        yield plain
    bare = without_tags(plain)
    if bare != plain:
        yield bare


def rejoined(text: str) -> Iterator[str]:
    """Yield texts for the search of words alone: with the pieces put together that `"one pi" + "ece"` parts, with the
    words of `OneNameOfManyWords` apart, and with words that stand alone in their lines, without the numbers around them."""
    if len(_JOINT.findall(text)) >= _ENOUGH:
        yield _JOINT.sub("", text)
    if names := _CAMEL.findall(text):
        yield "\n\n".join(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name) for name in names)
    if len(words := _ALONE.findall(text)) >= _ENOUGH:
        yield " ".join(words)


def _narrow(text: str) -> str:
    """Return the text with full-width and styled characters as plain ones, without invisible characters."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if not line.isascii():
            lines[i] = INVISIBLE.sub("", unicodedata.normalize("NFKC", line)).replace("\n", BREAK)
    return "\n".join(lines)


def unescaped(text: str) -> str:
    """Return the text with its escapes undone, at most four deep; tags stay."""
    if "\\begin{" in text or "\\item" in text:
        text = _COMMAND.sub(lambda match: " " * len(match[0]), text)
    for _ in range(_ROUNDS):
        before = text
        if "&" in text:
            text = _ENTITY.sub(lambda match: _unbroken(html.unescape(match[0])), text)
        if "%" in text:
            text = _PERCENT.sub(_from_hex, text)
        if "\\" in text:
            text = _paired(_ESCAPE.sub(_from_escape, text))
        if "=" in text and _SOFT.search(text):
            text = _QUOTED_BYTES.sub(_from_hex, text.replace("=\r\n", "").replace("=\n", ""))
        if text == before:
            break
    if "\r" in text:
        text = _RETURN.sub(BREAK, text)
    if _CUT.search(text):
        text = _HYPHEN.sub(lambda match: match[1] + ("\n" * match[0].count("\n") or BREAK), text)
    return text


def without_tags(text: str) -> str:
    """Return the text without its tags: cells become tabs, other blocks become breaks, inline marks vanish."""
    if not _SIGN.search(text) and "/>" not in text:
        return text
    for mark in _SECTIONS:
        text = text.replace(mark, BREAK)
    text = _CELLS.sub(r"\1", text)
    return _TAG.sub(_from_tag, text)


def _from_tag(match: re.Match[str]) -> str:
    name = match[1].lstrip("/").lower()
    mark = "" if name in _INLINE else "\t" if name in _CELL else BREAK
    if match[1].startswith("/") and name in _CELL:
        mark = ""
    return mark + "\n" * match[0].count("\n")


def _unbroken(text: str) -> str:
    return text.replace("\n", BREAK)


def _from_hex(match: re.Match[str]) -> str:
    """Return `%41%42` or `=41=42` as text."""
    return _unbroken(bytes.fromhex(match[0].replace(match[0][0], "")).decode("utf-8", "replace"))


def _from_escape(match: re.Match[str]) -> str:
    for digits in match.group(1, 2, 3, 4):
        if digits:
            code = int(digits, 16)
            return _unbroken(chr(code)) if code < 0x110000 else " "
    if match[5]:
        return _named(match[5])
    if match[6]:
        return _unbroken(chr(int(match[6], 8)))
    return _SHORT.get(match[7], match[7])


def _named(name: str) -> str:
    try:
        return _unbroken(unicodedata.lookup(name))
    except KeyError:
        return " "


def _paired(text: str) -> str:
    """Return the text with surrogate pairs joined that escapes left behind; lone ones become question marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
