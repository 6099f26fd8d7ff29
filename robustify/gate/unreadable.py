"""Unreadable characters in text: encoded pieces, escapes, symbols and hidden characters, counted over a whole file.

Nothing is decoded to find out what such characters say, because their content may be encoded again, packed or encrypted.
A text with more than `MOST` of them is refused, no matter whether they are one run or many pieces. Only short pieces of
base64 and hex are decoded and read, because people paste them. Digests, UUIDs, colours and plain images do not count.

Words are what tells text from code: `getElementById` and `python3` read as words, but most pieces of base64 do not.
"""

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

from robustify.gate.opaque import image_fault
from robustify.texts import TAG_LETTERS, UNSEEN

MOST = 160
"""Maximum number of unreadable characters in a file."""
Piece = tuple[int, str]
"""Offset of unreadable characters, and the characters."""
_LEAST, _STRONG = 40, 16
"""Minimum length of a run that is decoded, and of a piece that always counts. Eight words of text take about 60."""
_SHARE = 0.25
"""Share of the characters in words and pieces from which shorter pieces count, too."""
_TOKEN = re.compile(r"[A-Za-z0-9+/_=-]+")
_PART = re.compile(r"[A-Za-z0-9]+")
_HUMP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_NUMBERED = re.compile(
    r"[A-Za-z]{2,}\d{1,4}|0[xX][0-9a-fA-F]{1,16}[uUlL]*|0[bBoO][0-7]+|\d+[A-Za-z]{1,3}|\d+[A-Za-z]\d+|[0-9a-f]{1,14}p"
)
_DIGEST = re.compile(
    r"(?i:(?:0x)?(?:[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"|[A-Za-z0-9+/_-]{43}=|[A-Za-z0-9+/_-]{86}==|(?:sha\d{1,3}-|h1)[A-Za-z0-9+/]{27,86}={0,2}"
)
"""A digest in hex or base64, or a UUID."""
_HUMP_SIZE, _LONG_HUMP_SIZE = 2.6, 3.4
"""Maximum mean length of a hump (as in camelHump) in encoded text, and in long encoded text. The mean is about 2 in
base64 and hex, and at least 4 in names."""
_LONGEST_WORD, _LONGEST_NAME = 25, 60
_REPEATED = re.compile(r"(.)\1{3,}")
_HARMLESS = re.compile(
    r"\\(?:[nrt]|u[0-9a-fA-F]{4})|%[0-9a-fA-F]{2}|#(?:[0-9a-fA-F]{3}){1,2}\b|&#x?[0-9a-fA-F]{1,6};"
    r"|\b[a-z][a-z+.-]{1,12}://[^\s\"'<>]*|rb1_[a-z2-7]{26}"
)
"""Colours, addresses, keyed IDs, which have a rule of their own, and escapes, whose readings are scanned separately."""
_ESCAPES = re.compile(r"(?:\\x[0-9a-fA-F]{2}){8,}")
_HEX_ONLY = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_BASE32 = re.compile(r"[A-Z2-7]+|[a-z2-7]+")
_IMAGE = re.compile(
    r"(?:iVBORw0KGgo|/9j/)(?:[A-Za-z0-9+/]+(?:[ \"',+\\n]{0,6}\r?\n[\s\"'#>*]{0,40})?)+={0,2}"
)
_HIDDEN = re.compile(
    f"[\u2800-\u28ff\ue000-\uf8ff\U0001f000-\U000dffff\U000f0000-\U0010ffff]+"
    f"|(?<=[!-~{UNSEEN}{TAG_LETTERS}])[{UNSEEN}{TAG_LETTERS}]+"
)
"""Symbols without a fixed meaning, and hidden characters except those within words of other scripts."""
_DENSE = 0.024
"""Maximum probability that two characters of encoded lines are equal. It is 0.012 to 0.02 in base64 and ASCII85, and at
least 0.03 in programs."""
_EDGES = " \t#>*|/\"'`,+;\\"
_GAP = re.compile(r"[\s\"'`+,#\\>|*.:;()-]{0,24}")


def unreadable(text: str) -> list[Piece]:
    """Return the unreadable characters of a text if there are more than `MOST`, or else nothing."""
    bare = _bare(text)
    strong, weak, words = _pieces(bare)
    if _size(weak) > _SHARE * (words + _size(weak)):
        strong += weak
    strong = list({piece: (at, piece) for at, piece in reversed(strong)}.values())  # names are repeated
    strong += [(match.start(), match[0]) for match in _ESCAPES.finditer(bare)]
    if not bare.isascii():
        strong += [(match.start(), match[0]) for match in _HIDDEN.finditer(bare)]
    found = max(strong, _dense_lines(bare), key=_size)
    return sorted(found) if _size(found) > MOST else []


def _size(pieces: Sequence[Piece]) -> int:
    return sum(len(piece) for _, piece in pieces)


def decoded(text: str) -> Iterator[Piece]:
    """Yield the texts in short runs of base64 and hex, with the offset of each run."""
    runs, end, bare = list[tuple[int, str]](), -1, _bare(text)
    for at, piece in sorted(_pieces(bare)[0]):
        if runs and _GAP.fullmatch(bare, end, at):
            runs[-1] = (runs[-1][0], runs[-1][1] + piece)
        else:
            runs.append((at, piece))
        end = at + len(piece)
    for at, run in runs:
        for data in _decodings(run) if _LEAST <= len(run) <= 2 * MOST else ():
            inner = _as_text(data)
            if inner is not None:
                yield at, inner


def _bare(text: str) -> str:
    """Return a text with blanks for images without text, colours, addresses and escapes."""
    if "iVBORw0KGgo" in text or "/9j/" in text:
        text = _IMAGE.sub(_without_image, text)
    return _HARMLESS.sub(lambda match: " " * len(match[0]), text)


def _without_image(match: re.Match[str]) -> str:
    """Return blanks for an image that passes as a file. What follows its last byte remains."""
    places = [i for i, c in enumerate(match[0]) if c.isalnum() or c in "+/"]
    coded = "".join(match[0][i] for i in places).removesuffix("n")
    data = base64.b64decode(coded[: len(coded) - (len(coded) % 4 == 1)] + "=" * (-len(coded) % 4))
    end = max(data.find(b"IEND") + 8, data.rfind(b"\xff\xd9") + 2)
    if image_fault(data[:end]):
        return match[0]
    last = places[min(-(-4 * end // 3), len(places)) - 1]
    return " " * (last + 1) + match[0][last + 1 :]


def _pieces(text: str) -> tuple[list[Piece], list[Piece], int]:
    """Return the long and the short encoded pieces of a text, and the number of characters in words."""
    strong, weak, words = list[Piece](), list[Piece](), 0
    for match in _TOKEN.finditer(text):
        size = _coded(match[0])
        if size < 0:
            words -= size
        elif size:
            (strong if size >= _STRONG else weak).append((match.start(), match[0]))
    return strong, weak, words


@lru_cache(maxsize=1 << 16)
def _coded(token: str) -> int:
    """Return the number of encoded characters in a token, or a number below zero if the token consists of words."""
    words = coded = 0
    if _DIGEST.fullmatch(token):
        return 0
    for part in _PART.findall(token[:400]):
        if _is_code(part):
            coded += len(part)
        elif part.isalpha():
            words += len(_REPEATED.sub(r"\1", part))  # zeros are many As in base64
    return len(token) if coded > words else -words


def _is_code(part: str) -> bool:
    if _DIGEST.fullmatch(part):
        return False
    if len(part) > MOST or "AAAAA" in part:
        return len(set(part)) > (1 if len(part) > MOST else 5)
    part = _REPEATED.sub(r"\1", part)
    n, humps = len(part), _HUMP.findall(part)
    if n < 4 or _NUMBERED.fullmatch(part):
        return False
    if n >= _STRONG and _HEX_ONLY.fullmatch(part.removeprefix("0x")):
        return not part.isdigit()
    if n >= _STRONG and _BASE32.fullmatch(part) and sum(hump.isdigit() for hump in humps) >= 2:
        return True
    if n >= _LONGEST_WORD and len(humps) == 1 and part.isalpha():
        return len(set(part)) > 8
    return len(humps) >= 2 and n <= (_HUMP_SIZE if n < _LONGEST_NAME else _LONG_HUMP_SIZE) * len(humps)


def _decodings(run: str) -> Iterator[bytes]:
    """Yield the bytes of a run, decoded as hex or as base64."""
    bare = run.removeprefix("0x")
    if _HEX_ONLY.fullmatch(bare):
        yield bytes.fromhex(bare[: len(bare) // 2 * 2])
        return
    bare = run.replace("-", "+").replace("_", "/").replace("=", "")
    with suppress(binascii.Error):
        yield base64.b64decode(bare[: len(bare) - (len(bare) % 4 == 1)] + "=" * (-len(bare) % 4))


def _as_text(data: bytes) -> str | None:
    """Return the text in bytes, or None if too few of them are printable. Two in five bytes of a digest are."""
    wide = data[1::2].count(0) > len(data) // 4, data[::2].count(0) > len(data) // 4
    with suppress(UnicodeError):
        text = data.decode("utf-16-le" if wide[0] else "utf-16-be" if wide[1] else "utf-8")
        if all(c.isprintable() or c.isspace() for c in text):
            return text
    bare = data.replace(b"\0", b"")
    legible = sum(32 <= b < 127 or b in b"\t\n\r" for b in bare)
    return bare.decode("latin-1") if legible >= max(0.8 * len(bare), 20) else None


def _dense_lines(text: str) -> list[Piece]:
    """Return the lines without blanks and words if together they have as many different characters as encoded text."""
    lines, at = list[Piece](), 0
    for line in text.split("\n"):
        bare = line.strip(_EDGES)
        if len(bare) >= 20 and " " not in bare and bare.isascii() and not _DIGEST.search(bare):
            words = sum(len(part) for part in _PART.findall(bare) if len(part) > 4 and _coded(part) <= 0)
            lines += [(at, bare)] if 3 * words <= len(bare) else []
        at += len(line) + 1
    run = "".join(bare for _, bare in lines)[: 1 << 16]
    n = len(run)
    return lines if sum(k * (k - 1) for k in Counter(run).values()) < _DENSE * n * (n - 1) else []
