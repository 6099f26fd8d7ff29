"""Text as a stream of folded words, so that disguises of the same words give the same stream.

Case, punctuation, accents, look-alike letters, digits put for letters, full-width and styled letters and
invisible characters all fall away. It is a canon for matching only: it is not the canon of item ids.
"""

import re
import unicodedata
from dataclasses import dataclass
from itertools import compress, islice

LOOKALIKES: dict[str, str] = {
    "a": "аАαΑɑᴀɐ", "b": "ЬьВβΒʙɓв", "c": "сСϲᴄɔ", "d": "ԁđðɗᴅԀ", "e": "еЕεΕёєɛəᴇ", "f": "ƒꜰ", "g": "ɡɢցɠԍ",
    "h": "һҺНнΗʜհħ", "i": "іІıɩιΙӏӀɪɨ", "j": "јЈյᴊȷ", "k": "кКκΚᴋ", "l": "ʟł", "m": "мМΜᴍɯ", "n": "пηΝɴոи",
    "o": "оОοΟօøᴏσς", "p": "рРρΡᴘ", "q": "ԛԚ", "r": "гГґʀ", "s": "ѕЅꜱ", "t": "тТτΤᴛŧ", "u": "υսᴜʉʋ",
    "v": "νѵѴᴠʌ", "w": "ԝԜωѡᴡ", "x": "хХχΧ", "y": "уУγΥүʏў", "z": "ΖᴢЗз",
}  # fmt: skip
"""Letters that look like an ASCII letter, before case folding."""
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0]"
)
_PLAIN = {ord(like): letter for letter, likes in LOOKALIKES.items() for like in likes}
_LEET = dict(zip(b"0134578l", b"oieastbi", strict=True))
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LONG = bytes([0, 0, *[1] * 254])
_LONE = b"\x01" * 12
_SPACED = re.compile(rb" [^ \n](?: [^ \n](?![^ \n]))+")
_WORD = re.compile(rb"[^ \n]+")


def _byte(code: int) -> int:
    char = chr(code).lower()
    if code >= 0x80 or char == "\n":
        return code
    return _LEET.get(ord(char), ord(char)) if char.isalnum() else 0x20


_BYTES = bytes(map(_byte, range(256)))
_FOREIGN = re.compile("[^\x00-\x7f]+")


class _Folds(dict[int, str]):
    """How each character folds, found once: the map that `str.translate` asks."""

    def __init__(self, invisible: str) -> None:
        super().__init__()
        self._invisible = invisible

    def __missing__(self, code: int) -> str:
        self[code] = folded = self._folded(code)
        return folded

    def _folded(self, code: int) -> str:
        char = chr(code)
        if INVISIBLE.match(char) or 0xE0000 <= code < 0xE1000:
            return self._invisible
        plain = _PLAIN.get(code, char)
        parts = unicodedata.normalize("NFKD", plain.casefold())
        kept = "".join(_PLAIN.get(ord(p), p) for p in parts if not unicodedata.combining(p)).casefold()
        if not kept and unicodedata.combining(char):
            return ""
        return "".join(f" {p} " if _WIDE.match(p) else p if p.isalnum() else " " for p in kept) or " "


_JOINED = _Folds("")
_PARTED = _Folds(" ")


@dataclass(frozen=True, slots=True, repr=False)
class Stream:
    """A text as folded words: `folded` keeps newlines, `parts` are words, `lengths` theirs (to 255), `distinct` each."""

    folded: bytes
    parts: list[bytes]
    lengths: bytes
    distinct: frozenset[bytes]

    @classmethod
    def of(cls, folded: bytes) -> "Stream":
        """The stream of a folded text."""
        parts = folded.split()
        try:
            lengths = bytes(map(len, parts))
        except ValueError:  # a word of more than 255 letters
            lengths = bytes(min(len(part), 255) for part in parts)
        return cls(folded, parts, lengths, frozenset(parts))

    def kept(self) -> list[bytes]:
        """The words that count: neither an article nor the letter of an option parts two words from each other."""
        return list(compress(self.parts, self.lengths.translate(_LONG)))

    def places(self) -> list[int]:
        """The positions among all words of the words that count."""
        return list(compress(range(len(self.parts)), self.lengths.translate(_LONG)))

    def line_of(self, position: int) -> int:
        """The line, from 1, of the word at a position."""
        word = next(islice(_WORD.finditer(self.folded), position, None))
        return self.folded.count(b"\n", 0, word.start()) + 1


def streams(text: str) -> list[Stream]:
    """The text as folded words; a second time, where it has invisible characters, with these parting words."""
    return [Stream.of(plain.encode("utf-8", "replace").translate(_BYTES)) for plain in _plain(text)]


def _plain(text: str) -> list[str]:
    """The text with its characters beyond ASCII folded."""
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
    """The words of a text that count: those of one ASCII letter are dropped, as the letters of options are."""
    return streams(text)[0].kept()


def joined_letters(stream: Stream) -> Stream | None:
    """The stream with `l e t t e r s` put together, or None where there is no run of twelve lone letters."""
    if _LONE not in stream.lengths:
        return None
    spaced = b" " + stream.folded.replace(b"\n", b"\n ")
    return Stream.of(_SPACED.sub(lambda match: b" " + match[0].replace(b" ", b""), spaced))
