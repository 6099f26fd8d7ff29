"""Text as folded words, so that disguises of the same words give the same words, and the lexicon of categories.

Case, punctuation, accents, look-alike letters, digits put for letters, full-width and styled letters and invisible
characters all fall away. This canon serves matching only: it is not the canon of item ids.
"""

import json
import re
import unicodedata
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import compress, islice
from pathlib import Path

LOOKALIKES: dict[str, str] = {
    "a": "аАαΑɑᴀɐ", "b": "ЬьВβΒʙɓв", "c": "сСϲᴄɔ", "d": "ԁđðɗᴅԀ", "e": "еЕεΕёєɛəᴇ", "f": "ƒꜰ", "g": "ɡɢցɠԍ",
    "h": "һҺНнΗʜհħ", "i": "іІıɩιΙӏӀɪɨ", "j": "јЈյᴊȷ", "k": "кКκΚᴋ", "l": "ʟł", "m": "мМΜᴍɯ", "n": "пηΝɴոи",
    "o": "оОοΟօøᴏσς", "p": "рРρΡᴘ", "q": "ԛԚ", "r": "гГґʀ", "s": "ѕЅꜱ", "t": "тТτΤᴛŧ", "u": "υսᴜʉʋ",
    "v": "νѵѴᴠʌ", "w": "ԝԜωѡᴡ", "x": "хХχΧ", "y": "уУγΥүʏў", "z": "ΖᴢЗз",
}  # fmt: skip
"""Letters that look like an ASCII letter, before case folding."""
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000\U000e0001\U000e007f-\U000e0fff]"
)
LEAST_TERMS = 2
"""Different terms of the lexicon that make a text one about controlled categories."""
_PLAIN = {ord(like): letter for letter, likes in LOOKALIKES.items() for like in likes}
_TAGS = range(0xE0020, 0xE007F)
"""Tag characters: invisible copies of the printable ASCII characters."""
_REGIONAL = range(0x1F1E6, 0x1F200)
"""Letters in boxes, of which flags are made."""
_LEET = dict(zip(b"0134578l", b"oieastbi", strict=True))
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LONG = bytes([0, 0, *[1] * 254])
_LONE = b"\x01" * 12
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
    """A map for `str.translate` that folds each character when it first occurs."""

    def __init__(self, invisible: str) -> None:
        super().__init__()
        self._invisible = invisible

    def __missing__(self, code: int) -> str:
        self[code] = folded = self._folded(code)
        return folded

    def _folded(self, code: int) -> str:
        char = chr(code - 0xE0000 if code in _TAGS else code - 0x1F185 if code in _REGIONAL else code)
        if INVISIBLE.match(char):
            return self._invisible
        parts = unicodedata.normalize("NFKD", _PLAIN.get(code, char).casefold())
        kept = "".join(_PLAIN.get(ord(p), p) for p in parts if not unicodedata.combining(p)).casefold()
        if not kept and unicodedata.combining(char):
            return ""
        return "".join(f" {p} " if _WIDE.match(p) else p if p.isalnum() else " " for p in kept) or " "


_JOINED = _Folds("")
_PARTED = _Folds(" ")


@dataclass(frozen=True, slots=True, repr=False)
class Stream:
    """A text as folded words. `folded` keeps newlines; `lengths` holds the length of each word, at most 255."""

    folded: bytes
    words: list[bytes]
    lengths: bytes
    distinct: frozenset[bytes]

    @classmethod
    def of(cls, folded: bytes) -> "Stream":
        """Return the stream of a folded text."""
        words = folded.split()
        return cls(folded, words, bytes(min(n, 255) for n in map(len, words)), frozenset(words))

    def kept(self) -> list[bytes]:
        """Return the words that count: articles and letters of options do not."""
        return list(compress(self.words, self.lengths.translate(_LONG)))

    def positions(self) -> list[int]:
        """Return the positions of the words that count among all words."""
        return list(compress(range(len(self.words)), self.lengths.translate(_LONG)))

    def line_of(self, position: int) -> int:
        """Return the line, from 1, of the word at a position."""
        word = next(islice(_WORD.finditer(self.folded), position, None))
        return self.folded.count(b"\n", 0, word.start()) + 1


def streams(text: str) -> list[Stream]:
    """Return the text as folded words; if it has invisible characters, once more with these parting words."""
    return [Stream.of(plain.encode("utf-8", "replace").translate(_BYTES)) for plain in _plain(text)]


def _plain(text: str) -> list[str]:
    if text.isascii():
        return [text]
    lines = text.split("\n")
    foreign = [i for i, line in enumerate(lines) if not line.isascii()]
    parted = any(INVISIBLE.search(lines[i]) for i in foreign)
    return [_folded(lines, foreign, folds) for folds in ((_JOINED, _PARTED) if parted else (_JOINED,))]


def _folded(lines: list[str], foreign: list[int], folds: _Folds) -> str:
    out = list(lines)
    for i in foreign:
        out[i] = _FOREIGN.sub(lambda match: match[0].translate(folds), lines[i])
    return "\n".join(out)


def kept_words(text: str) -> list[bytes]:
    """Return the words of a text that count."""
    return streams(text)[0].kept()


def joined_letters(stream: Stream) -> Stream | None:
    """Return the stream with `l e t t e r s` put together, or None if it has no run of twelve lone letters."""
    if _LONE not in stream.lengths:
        return None
    spaced = b" " + stream.folded.replace(b"\n", b"\n ")
    return Stream.of(_SPACED.sub(lambda match: b" " + match[0].replace(b" ", b""), spaced))


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The folded terms by their first word, and the day of the last review."""

    reviewed: date
    terms: dict[bytes, tuple[tuple[bytes, ...], ...]]

    def named(self, stream: Stream) -> int:
        """Return how many different terms a text names; a term within a longer one counts once."""
        found = set()
        for at, word in enumerate(stream.words if stream.distinct.intersection(self.terms) else ()):
            if word in self.terms:
                rest = stream.words[at : at + 12]
                matches = [term for term in self.terms[word] if tuple(rest[: len(term)]) == term]
                found |= {max(matches, key=len)} if matches else set()
        return len(found)


def lexicon_file() -> dict[str, list[str]]:
    """Return the shipped lexicon as its file holds it."""
    data: dict[str, list[str]] = json.loads(Path(__file__).with_name("lexicon.json").read_text("utf-8"))
    return data


@cache
def lexicon() -> Lexicon:
    """Return the shipped lexicon, folded."""
    data = lexicon_file()
    terms: dict[bytes, list[tuple[bytes, ...]]] = {}
    for term in (*data["regimes"], *data["categories"]):
        parts = tuple(streams(term)[0].words)
        terms.setdefault(parts[0], []).append(parts)
    return Lexicon(date.fromisoformat(str(data["reviewed"])), {w: tuple(t) for w, t in terms.items()})
