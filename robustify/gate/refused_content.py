"""Find content that is refused whatever its subject: unreadable content, private files of robustify, and canary lines.

Unreadable characters (encoded pieces, escapes, symbols, hidden characters) are counted over a whole file. Nothing is
decoded, because it may be encoded again, packed or encrypted. Words tell text from code: `getElementById` and `python3`
read as words, but most pieces of base64 do not.
"""

import base64
import json
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from robustify.base.key_file import KEYED_ID, SPLIT, Key, is_split
from robustify.base.texts import TAG_LETTERS, UNSEEN

MOST_BYTES = 16 << 20
"""Maximum number of bytes in a file."""
MOST, _LONGEST = 160, 63
"""Maximum number of unreadable characters in a file, and in one piece. Eight words of text take about 64 in base64."""
SUBMODULE = b"Subproject commit "
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/|Subproject commit [0-9a-f]{40}|/annex/objects/"
    rb"|(?:\.\./)*\.git/annex/objects/|(?:outs|deps):\n(?:.*\n)*?[ \t-]*md5: [0-9a-f]{32}"
)
"""Pointers to content elsewhere: Git LFS, submodules, git-annex, DVC."""
_CACHE = re.compile(rb"(?s)(?:\x37\x7f\x06.*?)?SQLite format 3\0.{52}RBST")
"""SQLite application ID of a score cache (engines/cache.py), in the database or in its journal."""
_DOCUMENTS = ("%PDF-", "%!PS", "{\\rtf")
"""Beginnings of documents that place their text in pieces (PDF, PostScript, RTF)."""
_CONTROL = re.compile("[\0-\x06\x0e-\x19\x1c-\x1f\x7f]")


def utf8_text(data: bytes) -> str | None:
    """Return the text of plain UTF-8 bytes, or None for any other content."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) or text.lstrip().startswith(_DOCUMENTS) else text


def is_pointer(data: bytes) -> bool:
    """Return whether content only points to content outside the repository."""
    return _POINTER.match(data[:4096]) is not None


def binary_fault(data: bytes) -> tuple[str, str] | None:
    """Return the rule that refuses content other than text, and the reason. Return None for an image without text."""
    if _CACHE.match(data[: 1 << 16]):
        return "RBG404", "(a score cache)"
    return ("RBG501", f"({fault})") if (fault := _image_fault(data)) else None


# Images.

_PNG_CHUNKS = {
    b"IHDR": 13, b"PLTE": 768, b"IEND": 0, b"tRNS": 256, b"cHRM": 32, b"gAMA": 4, b"sBIT": 4, b"sRGB": 1, b"bKGD": 6,
    b"pHYs": 9, b"tIME": 7,
}  # fmt: skip
"""Parts of a PNG that may be there once, with their maximum sizes."""
_PLOT = re.compile(rb"Software\0Matplotlib version[\w.+]{1,40}, https://matplotlib\.org/")
"""Text that Matplotlib writes into each plot."""
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_MOST_PIXELS = 1 << 28
"""Maximum number of bytes that the pixels of an image may take."""
_PROSE = re.compile(rb"(?:[A-Za-z]{2,15}[ ,.?'-]{1,3}){6}")
"""Words in bytes that should be a picture."""


def _image_fault(data: bytes) -> str:
    """Return why an image is not a complete PNG with only the parts that a picture needs, or "" if it is."""
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "an archive, other binary or encrypted content, or text that is not UTF-8"
    try:
        fault = _png_fault(data)
    except (struct.error, IndexError, KeyError, zlib.error):
        fault = "a damaged image"
    return fault or ("an image with words in it" if _PROSE.search(data) else "")


def _png_fault(data: bytes) -> str:
    offset, packed, head, name, most = 8, b"", b"", b"", dict(_PNG_CHUNKS)
    while name != b"IEND":
        size, name = struct.unpack(">I4s", data[offset : offset + 8])
        body = data[offset + 8 : offset + 8 + size]
        (checksum,) = struct.unpack(">I", data[offset + 8 + size : offset + 12 + size])
        plain = name == b"IDAT" or (name == b"tEXt" and _PLOT.fullmatch(body))
        if not plain and size > most.pop(name, -1):
            return f"a PNG with the chunk {name.decode('ascii', 'replace')!a}"
        if checksum != zlib.crc32(name + body):
            return "a damaged PNG"
        packed += body if name == b"IDAT" else b""
        head = body if name == b"IHDR" else head
        offset += 12 + size
    width, height, depth, colour, interlaced = struct.unpack(">IIBBxxB", head)
    expected = height * (1 + -(-width * depth * _SAMPLES[colour] // 8))
    if interlaced or expected > _MOST_PIXELS:
        return "an interlaced PNG" if interlaced else "a PNG with too many pixels"
    unpacker = zlib.decompressobj()
    pixels = unpacker.decompress(packed, expected + 1)
    complete = len(pixels) == expected and unpacker.eof and not unpacker.unused_data and offset == len(data)
    return "" if complete and not _PROSE.search(pixels) else "a PNG with bytes that are not pixels"


# Unreadable characters in text.

_STRONG = 16
"""Minimum length of a piece that always counts."""
_SHARE = 0.25
"""Share of the characters in words and pieces from which shorter pieces count, too."""
_TOKEN = re.compile(r"[A-Za-z0-9+/_=-]+")
_PART = re.compile(r"[A-Za-z0-9]+")
_HUMP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_NUMBERED = re.compile(
    r"[A-Za-z]{2,}\d{1,4}|0[xX][0-9a-fA-F]{1,16}[uUlL]*|0[bBoO][0-7]+|\d+[A-Za-z]{1,3}|\d+[A-Za-z]\d+|[0-9a-f]{1,14}p"
)
_DIGEST = re.compile(
    r"(?!(?:0x)?(?:[2-7][0-9A-Fa-f]|0[9AaDd])+\Z)(?i:(?:0x)?(?:[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"|[A-Za-z0-9+/_-]{43}=|[A-Za-z0-9+/_-]{86}==|(?:sha\d{1,3}-|h1)[A-Za-z0-9+/]{27,86}={0,2}|AAAAC3Nza[A-Za-z0-9+/]{59}"
)
"""A digest in hex or base64, a UUID, or a public key of SSH, but no hex of plain text."""
_HUMP_SIZE, _LONG_HUMP_SIZE = 2.6, 3.4
"""Maximum mean length of a hump (as in camelHump) in encoded text, and in long encoded text. The mean is about 2 in base64
and hex, and at least 4 in names."""
_LONGEST_WORD, _LONGEST_NAME = 25, 60
_REPEATED = re.compile(r"(.)\1{3,}")
_HARMLESS = re.compile(
    r"\\(?:[nrt]|u[0-9a-fA-F]{4})|%[0-9a-fA-F]{2}|#(?:[0-9a-fA-F]{3}){1,2}\b|&#x?[0-9a-fA-F]{1,6};"
)
"""Colors, and escapes, whose readings are scanned separately."""
_END = r"(?:\r?\n|(?:\\r)?\\n)"
"""End of a line, possibly in a string of JSON."""
_SIGNATURE = re.compile(
    r"-----BEGIN ((?:PGP|SSH) SIGNATURE|SIGNED MESSAGE)-----"
    rf"{_END}((?:[ >]*[A-Z][A-Za-z]{{2,14}}: [^\n\\]{{0,400}}{_END}){{0,8}})(?:[ >]*{_END})?[ >]*"
    rf"((?:i[A-Za-z]|w[g-v]|U1NIU0lH|MI[A-L])(?:(?:[\w+=]|\\?/){{0,76}}{_END}[ >]*){{1,400}})-----END \1-----"
)
"""Signature (PGP, SSH, or X.509) of a commit, tag or mail, which begins as only a signature begins."""
_ADDRESS = re.compile(r"\b[a-z][a-z+.-]{1,12}://[^\s\"'<>]*")
_ESCAPES = re.compile(r"(?:\\x[0-9a-fA-F]{2}){8,}")
_HEX_ONLY = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_BASE32 = re.compile(r"[A-Z2-7]+|[a-z2-7]+")
_IMAGE = re.compile(r"iVBORw0KGgo(?:[A-Za-z0-9+/]+(?:\\n|\r?\n[ \t]*)?)+={0,2}")
_HIDDEN = re.compile(
    f"[\u2800-\u28ff\ue000-\uf8ff\U0001f000-\U000dffff\U000f0000-\U0010ffff]+"
    f"|(?<=[!-~{UNSEEN}{TAG_LETTERS}])[{UNSEEN}{TAG_LETTERS}]+"
)
"""Symbols without a fixed meaning, and hidden characters except those within words of other scripts."""
_DENSE = 0.024
"""Maximum probability that two characters of encoded lines are equal. It is 0.012 to 0.02 in base64 and ASCII85, and at
least 0.03 in programs."""
_EDGES = " \t#>*|/\"'`,+;\\"


def unreadable_pieces(text: str) -> list[str]:
    """Return the distinct unreadable pieces of a text, if one is long or if together they exceed `MOST` characters."""
    bare = _without_harmless(text)
    tokens = Counter(_TOKEN.findall(bare))
    sizes = {token: _n_encoded(token) for token in tokens}
    strong = [token for token, size in sizes.items() if size >= _STRONG]
    weak = {token: tokens[token] * size for token, size in sizes.items() if 0 < size < _STRONG}
    words = -sum(tokens[token] * size for token, size in sizes.items() if size < 0)
    hexed = {
        token: n * len(token) for token, n in tokens.items()
        if 5 <= len(token) < _STRONG and sizes[token] >= 0 and _HEX_ONLY.fullmatch(token)
    }  # fmt: skip
    # Hex has letters in every second piece, and numbers seldom.
    if 3 * sum(n for token, n in hexed.items() if not token.isdigit()) > sum((weak | hexed).values()):
        weak |= hexed
    long = any(len(token) > _LONGEST for token in strong)
    if sum(weak.values()) > _SHARE * (words + sum(weak.values())):
        strong += weak
    strong += _ESCAPES.findall(bare)
    if not bare.isascii():
        strong += _HIDDEN.findall(bare)
    pieces = max(strong, _dense_lines(bare), key=lambda pieces: sum(map(len, pieces)))
    return pieces if long or sum(map(len, pieces)) > MOST else []


def _without_harmless(text: str) -> str:
    """Return a text without signatures, plain images, colors, addresses, keyed IDs, and escapes."""
    if "-----BEGIN" in text:
        text = _SIGNATURE.sub(_without_signature, text)
    if "iVBORw0KGgo" in text:
        text = _IMAGE.sub(_without_image, text)
    if "rb1_" in text:
        text = KEYED_ID.sub(" ", text)
    return _HARMLESS.sub(" ", _ADDRESS.sub(" ", text) if "://" in text else text)


def _without_signature(match: re.Match[str]) -> str:
    """Return the header lines of a signature, and also its data if the data contains words."""
    coded = re.sub(r"\\[rn]|[^\w+/]", "", match[3])
    ways = (base64.b64decode(coded[i : i + (len(coded) - i) // 4 * 4]) for i in range(4))
    return f"{match[2]} {match[3] if any(map(_PROSE.search, ways)) else ''}"


def _without_image(match: re.Match[str]) -> str:
    coded = re.sub(r"\\n|\s+", "", match[0]).rstrip("=")
    data = base64.b64decode(coded[: len(coded) - (len(coded) % 4 == 1)] + "=" * (-len(coded) % 4))
    return match[0] if _image_fault(data) else " "


@lru_cache(maxsize=1 << 16)
def _n_encoded(token: str) -> int:
    """Return the number of encoded characters in a token. The number is negative if the token consists of words."""
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
    if n >= 8 and _BASE32.fullmatch(part):
        least = 1 if n < _STRONG and part.isupper() else 2
        if sum(hump.isdigit() for hump in humps) >= least:
            return True
    if n >= _LONGEST_WORD and len(humps) == 1 and part.isalpha():
        return len(set(part)) > 8
    return len(humps) >= 2 and n <= (_HUMP_SIZE if n < _LONGEST_NAME else _LONG_HUMP_SIZE) * len(humps)


def _dense_lines(text: str) -> list[str]:
    """Return the lines without blanks or words, if together they have as many different characters as encoded text."""

    def in_words(line: str) -> int:
        return sum(len(part) for part in _PART.findall(line) if len(part) > 4 and _n_encoded(part) <= 0)

    bare = (line.strip(_EDGES) for line in text.split("\n"))
    lines = [line for line in bare if len(line) >= 20 and " " not in line and line.isascii()]
    lines = [line for line in lines if not _DIGEST.search(line) and 3 * in_words(line) <= len(line)]
    run = "".join(lines)[: 1 << 16]
    n = len(run)
    return lines if sum(k * (k - 1) for k in Counter(run).values()) < _DENSE * n * (n - 1) else []


# Private state, and canary lines.

_PRIVATE = (
    ("robustify.registered", "the record of registered sets, with its secret"),
    ("robustify.licences", "the record of accepted terms"),
    ("robustify.release-claim", "the claim of a run, with digests of items"),
)
_NAMED = r"\bformat[\"'\\]{0,3}\s?:[\s\"'\\]{0,6}"
_MARKS = (('"robustify.',), ('"sensitivity"', '"restricted"'), ('"release"', '"evaluator"'))
"""Marks of robustify's documents. Every document contains all marks of one group."""
_MANY_IDS = 5
"""Number of keyed IDs outside a hashed split that is too many for an example."""
_GUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_PATTERNS = (
    ("RBG403", "evaluator", "", r"release[\s_-]+level[\s:=\"'_*-]+evaluator\b"),
    ("RBG401", "canary", "", rf"canary\s+(?:guid|string|token)\W{{1,6}}{_GUID}"),
    ("RBG401", "corpora", "", r"benchmark\s+data\s+should\s+never\s+appear\s+in\s+training\s+corpora"),
    ("RBG403", "sensitivity", "", r"\bsensitivity\W{1,8}restricted\b[\s\S]{0,400}?\bsignature\W{1,8}set:"),
    ("RBG404", "robustify.releases", "(a record of releases)", rf"{_NAMED}robustify\.releases/\d"),
    *(
        ("RBG404", name, f"({says})", rf"{_NAMED}{name}/\d[\s\S]{{0,80}}?[0-9a-f]{{40}}")
        for name, says in _PRIVATE
    ),
)
"""Rule, a word that each match contains, details, and pattern."""
_PREFIX = re.compile(r"rbk1\W{0,4}:")
_BETWEEN = re.compile(r"[\s\"'`\\+,#>|()]+")
"""Characters between the parts of a key that is split over lines: blanks, quotes, comment marks."""
_SECRET = re.compile(r"[0-9a-f]{16}:[\w-]{43}", re.ASCII)


def private_states(text: str, keys: Sequence[Key] = ()) -> Iterator[tuple[str, int, str]]:
    """Yield the rule, offset, and details of each key, canary line, and private document in a text."""
    yield from (("RBG402", offset, "") for offset in find_keys(text, keys))
    low = text.lower()
    for rule, word, says, pattern in _PATTERNS:
        for match in re.finditer(pattern, text, re.I) if word in low else ():
            yield rule, match.start(), says
    try:
        tree = json.loads(text) if any(all(mark in text for mark in marks) for marks in _MARKS) else None
    except (ValueError, RecursionError):
        tree = None
    if isinstance(tree, dict):
        yield from ((rule, 0, says) for rule, says in _record_faults(tree))
    if "rb1_" in text and not is_split(tree):
        offsets = [match.start() for match in KEYED_ID.finditer(text)]
        if len(offsets) >= _MANY_IDS:
            yield "RBG405", offsets[0], f"({len(offsets):,} ids)"


def find_keys(text: str, keys: Sequence[Key] = ()) -> Iterator[int]:
    """Yield the offset of each key in a text, even if the key is split over lines. A secret without its prefix looks like
    any other 43 letters, so it is found only if its key is in `keys`."""
    for match in _PREFIX.finditer(text):
        if _SECRET.match(_BETWEEN.sub("", text[match.end() : match.end() + 240])):
            yield match.start()
    for key in keys:
        coded = key.as_text()[-44:-1]
        for secret in (coded, coded.replace("-", "+").replace("_", "/"), key.secret.hex()):
            start = text.find(secret[:8])
            if start >= 0 and secret in re.sub(r"[^\w/+-]+", "", text[start : start + 3 * len(secret)]):
                yield start


def _record_faults(tree: dict[str, object]) -> Iterator[tuple[str, str]]:
    named, config, release = tree.get("format"), tree.get("config"), tree.get("release")
    if named == SPLIT and not is_split(tree):
        yield "RBG405", "(a hashed split with more than its format has)"
    levels = (tree.get("sensitivity"), config.get("sensitivity") if isinstance(config, dict) else None)
    manifest = isinstance(tree.get("files"), dict) and "restricted" in levels
    if manifest or (isinstance(release, dict) and release.get("level") == "evaluator"):
        yield "RBG403", ""
