"""Readings of a text, its folded words, and the lexicon of categories.

`readings` undoes escapes, entities, tags and colours. `rejoined` joins the pieces of split words. Folding removes case,
punctuation, accents, look-alike letters, digits in place of letters, width, style and invisible characters, so that
disguised words equal plain words. This normalisation is used only for matching, not for item IDs.
"""

import html
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice, zip_longest
from pathlib import Path

from robustify.texts import TAG_LETTERS, UNSEEN

_UNREAD = re.compile(f"[{UNSEEN}]")
"""Invisible characters except `TAG_LETTERS`, which are read as the letters that they copy."""
LEAST_TERMS = 2
"""Minimum number of different lexicon terms in a text about controlled categories."""
BREAK = "\x0b"
"""Replacement for an escaped newline. It separates lines but does not change line numbers, so that findings in unescaped
text have the line numbers of the file."""

# Readings.

_ROUNDS = 4
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?")
# Patterns begin with a literal if possible, because the search can skip to it.
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*")
_QUOTED_BYTES = re.compile(r"=[0-9A-F]{2}(?:=[0-9A-F]{2})*")
_SOFT = re.compile(r"=(?:20|3D|\r?\n)")
_RETURN = re.compile(r"\r\x0b|\r(?!\n)")
"""Carriage return that ends a line without a newline, as in files of old programs."""
_ESCAPE = re.compile(
    r"\\(?:[ux]\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})"
    r"|N\{([A-Za-z0-9 -]{1,80})\}|([0-3]?[0-7]{2})|([nrtvfabe\"'/\\]))"
)
_POINT = re.compile(r"(?:U\+|%u)(?=[0-9a-fA-F]{4})")
_SHORT = {"n": BREAK, "r": "\r", "t": "\t", "v": BREAK, "f": BREAK, "a": "", "b": "", "e": "\x1b"}
_STEERING = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))|(\w)\x08(?=\1)|_\x08")
"""Colours, titles and links of a terminal, and characters that a backspace erases."""
_LATEX = re.compile(r"\\(?:begin|item|emph|text..)\b")
_COMMAND = re.compile(r"\\[A-Za-z]+\*?")
_HYPHENS = re.compile(r"\\[-/]|\{\}")
"""LaTeX marks that may be inside a word."""
_HYPHEN = re.compile(r"-(?:\r?\n|\x0b)(?:\",\r?\n)?[ \t#>*/+|!;%\"-]*(\w+)")
_TAG = re.compile(r"<(/?)([A-Za-z!?][\w:.-]{0,40})((?:\s[^<>]{0,4000})?)/?>")
_SIGN = re.compile(r"<(?:[/!?pPtTq]|br|BR|li|LI|wbr|hr|in)|/>")
"""Quick test for tags: all text with tags matches, but programs with names in angle brackets do not."""
_SECTIONS = ("<!--", "-->", "<![CDATA[", "]]>")
_INLINE = {
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q",
    "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "tspan", "tt", "u", "var", "wbr",
}  # fmt: skip
_PARTING = {"p", "h", "br", "cr", "tr", "tbl", "line-break", "table-row", "list-item"}
"""Elements of office files that separate lines. All other elements may be inside a word."""
_CELL = {"td", "th", "tc", "tab", "table-cell"}
_BETWEEN_TAGS = re.compile(r">\s*\n\s*<")
_CELLS = re.compile(r"(</t[dh]>)[\s\",]+(?=<t[dh])")


def readings(text: str) -> Iterator[str]:
    """Yield the forms of a text that differ from it. Each form is derived from the one before."""
    if "\u202e" in text:
        yield text[::-1]
    for step in (_ended, _narrow, _unescaped, _without_tags):
        changed = step(text)
        if changed != text:
            if step is _without_tags:  # tags may be inside words
                yield _TAG.sub("", _BETWEEN_TAGS.sub("><", text))
            text = changed
            yield text


def _ended(text: str) -> str:
    return _RETURN.sub("\n", text) if "\r" in text else text


def _narrow(text: str) -> str:
    """Return the text with full-width and styled characters made plain, and without invisible characters."""
    lines = [text] if text.isascii() else text.split("\n")
    for i, line in enumerate(lines):
        if not line.isascii():
            lines[i] = (
                _UNREAD.sub("", unicodedata.normalize("NFKC", line)).replace("\n", BREAK).replace("、", ",")
            )
    return "\n".join(lines)


def _unescaped(text: str) -> str:
    """Return the text with up to four levels of escapes undone. Tags remain."""
    if _LATEX.search(text):
        text = _COMMAND.sub(lambda match: " " * len(match[0]), _HYPHENS.sub("", text))
    for _ in range(_ROUNDS):
        before = text
        if "&" in text:
            text = _ENTITY.sub(lambda match: html.unescape(match[0]).replace("\n", BREAK), text)
        if "U+" in text or "%u" in text:
            text = _POINT.sub(r"\\u", text)
        if "%" in text:
            text = _PERCENT.sub(_from_hex, text)
        if "\\" in text:
            text = _ESCAPE.sub(_from_escape, text)  # this may leave half of a surrogate pair
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if "=" in text and _SOFT.search(text):
            text = _QUOTED_BYTES.sub(_from_hex, text.replace("=\r\n", "").replace("=\n", ""))
        if text == before:
            break
    text = _RETURN.sub(BREAK, text) if "\r" in text else text
    text = _STEERING.sub("", text) if "\x1b" in text or "\x08" in text else text
    return _HYPHEN.sub(lambda match: match[1] + ("\n" * match[0].count("\n") or BREAK), text)


def _from_hex(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace(match[0][0], "")).decode("utf-8", "replace").replace("\n", BREAK)


def _from_escape(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3] or match[4]
    if match[5]:
        try:
            return unicodedata.lookup(match[5])
        except KeyError:
            return " "
    if match[7]:
        return _SHORT.get(match[7], match[7])
    code = int(digits, 16) if digits else int(match[6], 8)
    return chr(code).replace("\n", BREAK) if code < 0x110000 else " "


def _without_tags(text: str) -> str:
    """Return the text without tags. Cells become tabs, other blocks become breaks, and inline tags are removed."""
    if not _SIGN.search(text):
        return text
    for mark in _SECTIONS:
        text = text.replace(mark, BREAK)
    return _TAG.sub(_from_tag, _CELLS.sub(r"\1", text))


def _from_tag(match: re.Match[str]) -> str:
    space, _, name = match[2].lower().rpartition(":")
    inline = name not in _PARTING if space else name in _INLINE
    mark = "\t" if name in _CELL else "" if inline else BREAK
    return ("" if match[1] and name in _CELL else mark) + "\n" * match[0].count("\n")


_PIECE = re.compile(r"\"([^\"\n]{1,60})\"|'([^'\n]{1,60})'|`([^`\n]{1,60})`")
_WITHIN = re.compile(
    r"(?<=\w)(?:\\[A-Za-z]+\{|\\[-/]|\\\r?\n|\*{1,3}|[{}])(?=\w)"
    r"|(?<=[^\W_])(?<![^\W_]{2})[-._|/\n](?=[^\W_](?![^\W_]))"
)
"""Marks that may split a word without a blank: LaTeX and Markdown, a line break, a sign between single letters."""
_CAMEL = re.compile(r"(?:[A-Z][a-z]+){7,}")
_ALONE = re.compile(r"^[\d \t,;:|#>*.-]{0,40}\b([^\W\d][\w'-]{0,40})[?.,!]?[\d \t,;:|.-]{0,40}$", re.M)
"""A word on a line that otherwise has only numbers and delimiters."""
_VALUE = re.compile(r"[\"']?\s?[:=]\s?(?:\"((?:[^\"\\\n]|\\.){1,24})\"|'((?:[^'\\\n]|\\.){1,24})')")
_NAME = re.compile(r"[\w-]*\Z")
_BARS = re.compile("[|\u2502\u2503\u2551]")
_ENOUGH = 8
"""Minimum number of pieces to join."""


def rejoined(text: str) -> Iterator[str]:
    """Yield joined pieces of text, which are used only to search for words.

    Pieces may be quoted, in one long name, on separate lines, in the cells of a printed table, or separated by numbers or
    by one repeated word.
    """
    if len(pieces := _PIECE.findall(text)) >= _ENOUGH:
        yield "".join(max(piece) for piece in pieces)
    if len(_WITHIN.findall(text)) >= _ENOUGH:
        yield _WITHIN.sub("", text)
    if names := _CAMEL.findall(text):
        yield "\n\n".join(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name) for name in names)
    if len(words := _ALONE.findall(text)) >= _ENOUGH:
        yield " ".join(words)
    rows = [cells for line in text.split("\n") if len(cells := _BARS.split(line)) > 2]
    if rows:
        yield "\n".join(" ".join(column) for column in zip_longest(*rows, fillvalue=""))
    words = re.findall(r"[^\W_]+", text)
    fillers = {word for word, n in Counter(words).items() if 9 * n > len(words) or not word.isalpha()}
    kept = [word for word in words if word not in fillers]
    kept = [word for word, last in zip(kept, ["", *kept], strict=False) if word.lower() != last.lower()]
    if _ENOUGH <= len(kept) <= 0.8 * len(words):
        yield " ".join(kept)


def under_names(text: str) -> Iterator[str]:
    """Yield the joined short values under each name, such as chunks of a reply, tokens, or words of a transcript."""
    values: dict[str, list[str]] = defaultdict(list)
    for match in _VALUE.finditer(text):
        name = _NAME.search(text, max(0, match.start() - 30), match.start())
        values[name[0] if name else ""].append(match[1] or match[2])
    for pieces in values.values():
        if len(set(pieces)) >= _ENOUGH:
            yield "".join(pieces)
            yield " ".join(pieces)


# Folded words.

LOOKALIKES: dict[str, str] = {
    "a": "аАΑαɑᴀɐ", "b": "ЬьВβΒʙɓв", "c": "сСϲᴄɔ", "d": "ԁđðɗᴅԀ", "e": "еЕεΕёєɛəᴇ", "f": "ƒꜰ", "g": "ɡɢցɠԍ",
    "h": "һҺНнΗʜհħ", "i": "іІıɩιΙӏӀɪɨ", "j": "јЈյᴊȷ", "k": "кКκΚᴋ", "l": "ʟł", "m": "мМΜᴍɯ", "n": "пηΝɴոи",
    "o": "оОοΟօøᴏσς", "p": "рРρΡᴘ", "q": "ԛԚ", "r": "гГґʀ", "s": "ѕЅꜱ", "t": "тТτΤᴛŧ", "u": "υսᴜʉʋ",
    "v": "νѵѴᴠʌ", "w": "ԝԜωѡᴡ", "x": "хХχΧ", "y": "уУγΥүʏў", "z": "ΖᴢЗз",
}  # fmt: skip
"""Letters that look like an ASCII letter, before case folding."""
_PLAIN = {ord(like): letter for letter, likes in LOOKALIKES.items() for like in likes}
_TAGS, _REGIONAL = range(ord(TAG_LETTERS[0]), ord(TAG_LETTERS[-1]) + 1), range(0x1F1E6, 0x1F200)
"""Invisible copies of the printable ASCII characters, and the boxed letters of which flags are made."""
_LEET = dict(zip(b"0134578l", b"oieastbi", strict=True))
_SIGNS, _SIGNED = str.maketrans("@$!|", "asil"), re.compile(r"[A-Za-z][@$!|][A-Za-z]")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LONE = re.compile(rb"(?<![ \n])(?:[ \n]+[^ \n]){12}")
_SPACED = re.compile(rb" [^ \n](?: [^ \n](?![^ \n]))+")
_WORD = re.compile(rb"[^ \n]+")
_FOREIGN = re.compile("[^\x00-\x7f]+")


def _byte(code: int) -> int:
    char = chr(code).lower()
    if code >= 0x80 or char == "\n":
        return code
    return _LEET.get(ord(char), ord(char)) if char.isalnum() else 0x20


_BYTES = bytes(map(_byte, range(256)))


class _Folds(dict[int, str]):
    """Translation table that folds each character when it first occurs."""

    def __missing__(self, code: int) -> str:
        char = chr(code - 0xE0000 if code in _TAGS else code - 0x1F185 if code in _REGIONAL else code)
        parts = unicodedata.normalize("NFKD", _PLAIN.get(code, char).casefold())
        plain = "".join(_PLAIN.get(ord(p), p) for p in parts if not unicodedata.combining(p)).casefold()
        kept = "".join(f" {p} " if _WIDE.match(p) else p if p.isalnum() else " " for p in plain) or " "
        self[code] = folded = "" if _UNREAD.match(char) or unicodedata.combining(char) else kept
        return folded


_FOLDS = _Folds()


@dataclass(frozen=True, slots=True, repr=False)
class Stream:
    """Text as folded words. `folded` keeps newlines."""

    folded: bytes
    words: list[bytes]

    def kept(self) -> list[bytes]:
        """Return the words of two or more letters, and thus no option letters."""
        return [word for word in self.words if len(word) > 1]

    def positions(self) -> list[int]:
        """Return the positions of the kept words among all words."""
        return [i for i, word in enumerate(self.words) if len(word) > 1]

    def line_of(self, position: int) -> int:
        """Return the one-based line number of the word at a position."""
        word = next(islice(_WORD.finditer(self.folded), position, None))
        return self.folded.count(b"\n", 0, word.start()) + 1


def _stream(folded: bytes) -> Stream:
    return Stream(folded, folded.split())


def streams(text: str) -> list[Stream]:
    """Return a stream of folded words for each reading of a text. The second stream is split at invisible characters,
    and the third reads signs as letters."""
    forms = [text]
    if not text.isascii() and _UNREAD.search(text):
        forms.append(_UNREAD.sub(" ", text))
    if len(_SIGNED.findall(text)) >= 3:
        forms.append(text.translate(_SIGNS))
    folded = (_FOREIGN.sub(lambda match: match[0].translate(_FOLDS), form) for form in forms)
    return [_stream(one.encode("utf-8", "replace").translate(_BYTES)) for one in folded]


def kept_words(text: str) -> list[bytes]:
    """Return the case-folded words of a text that have two or more letters."""
    return streams(text)[0].kept()


def joined_letters(stream: Stream) -> Stream | None:
    """Return the stream with `l e t t e r s` joined, or None if it has no run of twelve single letters."""
    if not _LONE.search(stream.folded):
        return None
    spaced = b" " + stream.folded.replace(b"\n", b"\n ")
    return _stream(_SPACED.sub(lambda match: b" " + match[0].replace(b" ", b""), spaced))


# The lexicon.


def terms_named(stream: Stream) -> int:
    """Return the number of different lexicon terms in a text. A term inside a longer term is not counted."""
    text, n = b" %s " % b"  ".join(stream.words), 0
    for term in _terms():
        n += term in text
        text = text.replace(term, b"") if term in text else text
    return n


def lexicon_file() -> dict[str, list[str]]:
    """Return the lexicon as stored in its file."""
    data: dict[str, list[str]] = json.loads(Path(__file__).with_name("lexicon.json").read_text("utf-8"))
    return data


@cache
def _terms() -> list[bytes]:
    data = lexicon_file()
    terms = (b" %s " % b"  ".join(streams(term)[0].words) for term in (*data["regimes"], *data["categories"]))
    return sorted(terms, key=len, reverse=True)
