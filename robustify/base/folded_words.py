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
_CODED = re.compile(r"[&%=\\<*`~]")
_SPACED = re.compile(r"\b\w(?:[^\w\n]\w\b){2,}")
"""Letters of a word with one sign between each two."""
_IN_WORDS = re.compile(f"[{UNSEEN}{TAG_LETTERS}\u2800\ufff9-\ufffc]")
"""Invisible characters, and others that change no word: an empty cell of Braille, and marks of notes and objects."""
_RETURN = re.compile(r"\r\x0b|\r(?!\n)")
"""Carriage return that ends a line without a newline, as in files of old programs."""
_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-3][0-7]{2})|([nrtvfabe\"'/\\])"
    r"|u\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8}))"
)
_SHORT = {"n": BREAK, "r": "\r", "t": "\t", "v": BREAK, "f": BREAK, "a": "", "b": "", "e": "\x1b"}
_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\?)|[()][0-9A-Z])|[\x07\x1a\x1b\u0640]"
)
"""Code for a terminal, such as a color or a link, or another sign that is seen as no letter, or joins Arabic letters."""
_LINE_ENDS = re.compile(r"([\n\x0b])")
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
    for form in _forms(text):
        if form != text:
            yield _changed(text.split("\n"), form.split("\n"))


def decoded(text: str) -> str:
    """Return a text without escapes, entities, tags, and invisible characters, and with spaced letters joined."""
    coded = _CODED.search(text)
    return _SPACED.sub(lambda word: re.sub(r"\W", "", word[0]), [*_forms(text)][-1] if coded else text)


def _forms(text: str) -> dict[str, None]:
    forms = dict[str, None]()
    for shown in _shown(_decoded(narrow(text))):
        # Marks of Markdown may be in a word. Of the tags of HTML, cells become tabs and blocks become breaks.
        read = _EMPHASIS.sub("", _joined(shown))
        read = (
            _TAG.sub(_from_tag, read) if any(mark in read for mark in ("</", "<br", "<wbr", "<!--")) else read
        )
        forms |= dict.fromkeys((read, narrow(read)))
    return forms


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
    return _joined(_shown(_decoded(text))[0])


def _decoded(text: str) -> str:
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
    return _RETURN.sub(BREAK, text) if "\r" in text else text


def _shown(text: str) -> list[str]:
    """Return a text as a terminal shows it. If it has terminal codes, also return it with blanks in their place, and with
    all characters that are struck over."""
    plain = _TERMINAL.sub("", text)
    spaced = plain if plain == text else _TERMINAL.sub(" ", text)
    if "\b" in text:
        lines = map(_without_struck, _LINE_ENDS.split(plain))
        plain, spaced = "".join(lines), spaced.replace("\b", "")
    return [*dict.fromkeys((plain, spaced))]


def _without_struck(line: str) -> str:
    first, *parts = line.split("\b")
    kept = list(first)
    for part in parts:
        del kept[-1:]
        kept += part
    return "".join(kept)


def _joined(text: str) -> str:
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
