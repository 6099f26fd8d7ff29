"""Normal forms of texts, one for each purpose. No other module lists invisible and look-alike characters.

`identity` is for keyed IDs, `unspaced` and `folded` compare texts, `compatible` and `in_words` are read for words and
labels, and `escaped` is printed. The gate uses this module, so that it imports only the standard library.
"""

import io
import re
import sys
from collections.abc import Sequence
from os.path import commonprefix
from unicodedata import category, normalize

ZERO_WIDTH = "\u200b-\u200d\u2060-\u2065\ufeff"
_MARKS, _OVERRIDES = "\u061c\u200e\u200f", "\u202a-\u202e\u2066-\u2069"
"""Characters that show the direction of a text, and those that can turn it round."""
_FILLERS = "\u115f\u1160\u3164\uffa0"
"""Blanks of Hangul that Unicode does not count as white space."""
UNSEEN = (
    f"{ZERO_WIDTH}{_MARKS}{_OVERRIDES}{_FILLERS}\u00ad\u034f\u17b4\u17b5\u180b-\u180f\u206a-\u206f\ufe00-\ufe0f"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e001f\U000e007f-\U000e0fff"
)
"""The one list of invisible characters, to be put into brackets of a pattern: Unicode's Default_Ignorable without
`TAG_LETTERS`. Keyed IDs depend on it (`identity`), so a change needs a new canonical form."""
TAG_LETTERS = "\U000e0020-\U000e007e"
"""Invisible copies of the printable ASCII characters."""
INVISIBLE = re.compile(f"[{UNSEEN}{TAG_LETTERS}]")
UNPRINTABLE = re.compile(f"[\0-\x1f\x7f-\x9f\u2028\u2029{ZERO_WIDTH}{_MARKS}{_OVERRIDES}]")
"""Characters that an ID or a topic must not contain."""
CONTROLS = re.compile(f"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f{_OVERRIDES}]")
"""Control characters other than blanks, and characters that turn the text round."""
_BLANK = re.compile(f"[\\s\0-\x1f\x7f-\x9f\u2800\ufff9-\ufffb{UNSEEN}{TAG_LETTERS}]*")
_WHITE = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
"""Characters of Unicode's White_Space. `str.split` has four others."""
EDGES = f"{_WHITE}\x1c\x1d\x1e\x1f\u200b\u200c\u200d\u2060\ufeff\u2800{_FILLERS}"
"""White space and invisible characters that are removed from the ends of a text."""
_SPACE = re.compile(f"[{_WHITE}]+")
_PLAIN = re.compile(r"[!-~]+(?: [!-~]+)*")
_JOINERS = "\u200c\u200d"
LOOKALIKES: dict[str, str] = {
    "a": "аАΑαɑᴀɐ", "b": "ЬьВβΒʙɓв", "c": "сСϲᴄɔ", "d": "ԁđðɗᴅԀ", "e": "еЕεΕёєɛəᴇ", "f": "ƒꜰ", "g": "ɡɢցɠԍ",
    "h": "һҺНнΗʜհħ", "i": "іІıɩιΙӏӀɪɨ", "j": "јЈյᴊȷ", "k": "кКκΚᴋ", "l": "ʟł", "m": "мМΜᴍɯ", "n": "пηΝɴոи",
    "o": "оОοΟøᴏσς", "p": "рРρΡᴘ", "q": "ԛԚ", "r": "гГґʀ", "s": "ѕЅꜱ", "t": "тТτΤᴛŧ", "u": "υսᴜʉʋ",
    "v": "νѵѴᴠʌ", "w": "ԝԜωѡᴡ", "x": "хХχΧ", "y": "уУγΥүʏў", "z": "ΖᴢЗз",
}  # fmt: skip
"""Letters that look like an ASCII letter, before case folding."""
_STRAIGHT = str.maketrans(
    dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb", '"')
    | dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
)


def identity(text: str) -> str:
    """Normalize a text to the form `rbcanon-1`: `compatible`, with one space for each run of white space. Case is kept."""
    return text if _PLAIN.fullmatch(text) else _SPACE.sub(" ", compatible(text)).strip(" ")


def unspaced(text: str) -> str:
    """Normalize a text, but keep all differences that a model can see: NFC, collapsed white space, unchanged case."""
    return " ".join(normalize("NFC", text).split())


def folded(text: str) -> str:
    """Normalize a text to compare it with similar texts: NFKC, folded case, collapsed white space."""
    return " ".join((text if text.isascii() else normalize("NFKC", text)).casefold().split())


def compatible(text: str) -> str:
    """Normalize a text to NFKC, and remove invisible characters."""
    if text.isascii():
        return text
    # The characters around an invisible character may compose once it is gone.
    return normalize("NFKC", INVISIBLE.sub("", normalize("NFKC", text)))


def in_words(text: str) -> str:
    """Normalize a text to find words and labels in it: apply `compatible`, and fold case."""
    return text.lower() if text.isascii() else compatible(compatible(text).casefold()).casefold()


def straight(text: str) -> str:
    """Replace curly quotation marks and apostrophes in a text with straight ones."""
    return text if text.isascii() else text.translate(_STRAIGHT)


def bare(text: str) -> str:
    """Remove white space and invisible characters from both ends of a text. A blank text stays unchanged."""
    return text.strip(EDGES) or text


def edges(text: str) -> tuple[str, str]:
    """Return the white space at the beginning and at the end of a text."""
    start = len(text) - len(text.lstrip(EDGES))
    return text[:start], text[max(start, len(text.rstrip(EDGES))) :]


def undressed(options: Sequence[str], *, cut: bool = False) -> tuple[str, ...]:
    """Remove the white space that all options share, because it comes from a delimiter or label. If the options were `cut`
    from one text, no delimiter precedes the first option, and none follows the last."""
    before = commonprefix([edges(option)[0] for option in options[cut:]])  # noqa: RUF071 (texts, not paths)
    after = commonprefix([edges(option)[1][::-1] for option in options[: len(options) - cut]])[::-1]  # noqa: RUF071
    return tuple(option.removeprefix(before).removesuffix(after) for option in options)


def escaped(text: str) -> str:
    """Replace control characters and other unprintable characters with escapes, such as `\\x1b`."""
    return text if text.isascii() and text.isprintable() else "".join(map(_escape, text))


def _escape(c: str) -> str:
    hidden = category(c) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} and c not in _JOINERS
    return f"\\x{ord(c):02x}" if hidden and ord(c) < 256 else f"\\u{ord(c):04x}" if hidden else c


def escape_what_is_missing() -> None:
    """Make stdout and stderr escape characters that their encoding (such as cp1252) lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_blank(text: str) -> bool:
    """Return whether a text has no visible characters."""
    return not (text[:1].isascii() and text[:1].isalnum()) and _BLANK.fullmatch(text) is not None
