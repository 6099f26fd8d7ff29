"""Find words in decoded and folded text, and count terms from the lexicon of sensitive categories.

Folding removes case, punctuation, accents, look-alike letters, digits in place of letters, width, style and invisible
characters, so that disguised words equal plain words.
"""

import html
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from robustify.base.texts import INVISIBLE, LOOKALIKES, TAG_LETTERS, UNSEEN

LEAST_TERMS = 2
"""Minimum number of different lexicon terms in a text about controlled categories."""
BREAK = "\x0b"
"""Replacement for an escaped newline. It separates lines but does not change the line numbers of findings."""

# Readings.

_ROUNDS = 4
_NEAR = 60
"""Number of lines around a changed line that a reading keeps."""
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*|=[0-9A-F]{2}(?:=[0-9A-F]{2})+")
"""Bytes as in an address, or as in a mail (quoted-printable)."""
_IN_WORDS = re.compile(f"[{UNSEEN}{TAG_LETTERS}\u2800\ufff9-\ufffc]")
"""Invisible characters, and others that change no word: an empty cell of Braille, and marks of notes and objects."""
_RETURN = re.compile(r"\r\x0b|\r(?!\n)")
"""Carriage return that ends a line without a newline, as in files of old programs."""
_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-3][0-7]{2})|([nrtvfabe\"'/\\])"
    r"|u\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8}))"
)
_SHORT = {"n": BREAK, "r": "\r", "t": "\t", "v": BREAK, "f": BREAK, "a": "", "b": "", "e": "\x1b"}
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|.\x08")
"""Code for a terminal, such as a color or the rest of a line, or a character that is struck over (manual pages)."""
_HYPHEN = re.compile(r"-(?:\r?\n|\x0b)(?:\",\r?\n)?[ \t#>*/+|\"-]*(\w+)")
_TAG = re.compile(
    r"<!--(?:[^\w\n]{0,40}|[^\n<>]{0,16})-->|</?([A-Za-z][A-Za-z0-9]*)"
    r"(?:\s(?:[^<>\n\"']{0,200}(?:\"[^\"\n]{0,200}\"|'[^'\n]{0,200}')){0,8}[^<>\n]{0,400})?/?>"
)
"""Tag, in whose quoted values > may be, or a comment without words, or a short one."""
_EMPHASIS = re.compile(r"[*`~'](?<=[^\W\d_].)(?:(?<!')[*`~]{0,2}|'{1,2})(?=[^\W\d_])")
"""Marks of Markdown and wikis in a word, but no single quote."""
_PARTING = {"p", "br", "div", "li", "tr", "hr", "option", "label"}


def readings(text: str) -> Iterator[str]:
    """Yield a text as it is, and then its decoded forms: first without escapes, entities, and tags, and then also without
    invisible characters. In decoded forms, lines far from any change are blank."""
    yield text
    # Marks of Markdown may be in a word. Of the tags of HTML, cells become tabs and blocks become breaks.
    read = _EMPHASIS.sub("", unescaped(narrow(text)))
    read = _TAG.sub(_from_tag, read) if any(mark in read for mark in ("</", "<br", "<wbr", "<!--")) else read
    for form in dict.fromkeys((read, narrow(read))):
        if form != text:
            yield _changed(text.split("\n"), form.split("\n"))


def _changed(old: list[str], new: list[str]) -> str:
    if len(old) != len(new):
        return "\n".join(new)
    out, done = [""] * len(new), 0
    for i in (i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b):
        begin, end = max(done, i - _NEAR), i + _NEAR + 1
        out[begin:end] = new[begin:end]
        done = min(end, len(new))
    return "\n".join(out)


def narrow(text: str) -> str:
    """Replace full-width and styled characters with plain characters, and remove invisible characters."""
    if "\r" in text:
        text = _RETURN.sub("\n", text)
    if text.isascii():
        return text
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if not line.isascii():
            plain = _IN_WORDS.sub("", unicodedata.normalize("NFKC", line))
            lines[i] = plain.replace("\n", BREAK).replace("、", ",")
    return "\n".join(lines)


def unescaped(text: str) -> str:
    """Decode entities and escapes, including nested ones, and remove terminal codes."""
    for _ in range(_ROUNDS):
        before = text
        if "&" in text:
            text = _ENTITY.sub(lambda match: html.unescape(match[0]).replace("\n", BREAK), text)
        if "%" in text or "=" in text:
            text = _PERCENT.sub(_from_percent, text)
        if "\\" in text:
            text = _ESCAPE.sub(_from_escape, text)  # this may leave half of a surrogate pair
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if text == before:
            break
    text = _RETURN.sub(BREAK, text) if "\r" in text else text
    text = _TERMINAL.sub("", text) if "\x1b" in text or "\b" in text else text
    return _HYPHEN.sub(lambda match: match[1] + ("\n" * match[0].count("\n") or BREAK), text)


def _from_percent(match: re.Match[str]) -> str:
    return bytes.fromhex(re.sub("[%=]", "", match[0])).decode("utf-8", "replace").replace("\n", BREAK)


def _from_escape(match: re.Match[str]) -> str:
    if match[4]:
        return _SHORT.get(match[4], match[4])
    code = int(match[3], 8) if match[3] else int(match[1] or match[2] or match[5] or match[6], 16)
    return chr(code).replace("\n", BREAK) if code <= sys.maxunicode else match[0]


def _from_tag(match: re.Match[str]) -> str:
    name = (match[1] or "").lower()
    return "\t" if name in ("td", "th") else BREAK if name in _PARTING or name[1:].isdigit() else ""


# Folded words.

_PLAIN = {ord(like): letter for letter, likes in LOOKALIKES.items() for like in likes}
_LEET = dict(zip(b"0134578l", b"oieastbi", strict=True))
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_FOREIGN = re.compile("[^\x00-\x7f]+")


def _byte(code: int) -> int:
    char = chr(code).lower()
    if code >= 0x80 or char == "\n":
        return code
    return _LEET.get(ord(char), ord(char)) if char.isalnum() else 0x20


_BYTES = bytes(map(_byte, range(256)))


class _Folds(dict[int, str]):
    def __missing__(self, code: int) -> str:
        char = chr(code)
        parts = unicodedata.normalize("NFKD", _PLAIN.get(code, char).casefold())
        plain = "".join(_PLAIN.get(ord(p), p) for p in parts if not unicodedata.combining(p)).casefold()
        seen = INVISIBLE.sub(" ", plain)  # a filler counts as a letter
        kept = "".join(f" {p} " if _WIDE.match(p) else p if p.isalnum() else " " for p in seen) or " "
        self[code] = folded = "" if unicodedata.combining(char) else kept
        return folded


_FOLDS = _Folds()


def fold(text: str) -> bytes:
    """Return the folded words of a text, separated by blanks, with the same number of lines. Invisible
    characters separate words."""
    plain = _FOREIGN.sub(lambda match: match[0].translate(_FOLDS), text)
    return plain.encode("utf-8", "replace").translate(_BYTES)


def kept_words(text: str) -> list[bytes]:
    """Return the folded words of a text, except one-letter words such as option letters."""
    return [word for word in fold(narrow(text)).split() if len(word) > 1]


# The lexicon.


def terms_named(text: str) -> int:
    """Return the number of different lexicon terms in a text. A term inside a longer term is not counted."""
    split = fold(narrow(text)).split()
    # Most texts have no word with which a term begins.
    words, n = b" %s " % b"  ".join(split), 0
    for term in () if _beginnings().isdisjoint(split) else _terms():
        n += term in words
        words = words.replace(term, b"") if term in words else words
    return n


def lexicon_file() -> dict[str, list[str]]:
    """Return the lexicon, which lists the terms of each sensitive category."""
    data: dict[str, list[str]] = json.loads(Path(__file__).with_name("lexicon.json").read_text("utf-8"))
    return data


@cache
def _beginnings() -> frozenset[bytes]:
    return frozenset(term.split()[0] for term in _terms())


@cache
def _terms() -> list[bytes]:
    data = lexicon_file()
    terms = (b" %s " % b"  ".join(fold(term).split()) for term in (*data["regimes"], *data["categories"]))
    return sorted(terms, key=len, reverse=True)
