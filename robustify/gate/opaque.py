"""Identification of content that is not plain UTF-8 text, and of images without text.

Names and extensions are ignored: the first bytes identify the content. An image passes if it is complete and has only the
parts that a picture needs. Comments, text chunks, metadata, unknown chunks and trailing bytes are refused. The gate does
not read what the pixels show.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterator

MOST_BYTES = 16 << 20
"""Maximum number of bytes in a file."""
_MOST_PIXELS = 1 << 28
"""Maximum number of bytes that the pixels of an image may take."""
SUBMODULE = b"Subproject commit "
_POINTER = re.compile(
    rb"(?:version https://(?:git-lfs\.github|hawser\.github)\.com/spec/|version http://git-media\.io/v/|# git-media\n"
    rb"|Subproject commit [0-9a-f]{40}|/annex/objects/|(?:\.\./)*\.git/annex/objects/"
    rb"|(?:#.*\n)*(?:outs|md5|deps|schema|stages|wdir|frozen|meta|desc)\b"
    rb"(?:.*\n)*?[ \t-]*(?:md5|etag|checksum): *['\"]?[0-9a-f-]{16})"
)
"""Pointers to content elsewhere: Git LFS and its predecessor, submodules, git-annex, DVC."""
_CACHE = re.compile(rb"(?s)(?:\x37\x7f\x06.*?)?SQLite format 3\0.{52}RBST")
"""SQLite application ID of a score cache (engines/cache.py), in the database or in its journal."""
_KINDS: dict[str, tuple[bytes, ...]] = {
    "an archive, a compressed stream or an office file": (
        b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!",
        b"x\x01", b"x\x5e", b"x\x9c", b"x\xda", b"\xd0\xcf\x11\xe0",
    ),
    "a pickle": tuple(bytes((0x80, n)) for n in range(2, 6)),
    "a table or database": (b"PAR1", b"ARROW1", b"FEA1", b"ORC", b"\x89HDF", b"\x93NUMPY", b"SQLite", b"\x37\x7f\x06"),
    "encrypted or a document": (b"%PDF-", b"age-encryption.org/", b"$ANSIBLE_VAULT;", b"Salted__", b"\0GITCRYPT\0"),
    "an image, font or recording": (b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"RIFF", b"wOF", b"II*\0", b"MM\0*"),
    "text in UTF-16 or UTF-32": (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"),
}  # fmt: skip
_ENCRYPTED = re.compile(
    r"%!PS|\s*\{\\rtf|\$ANSIBLE_VAULT;|age-encryption\.org/|Salted__|(?s:.{0,1024}?)^%PDF-\d"
    r"|(?s:.*?)^-----BEGIN (?:PGP MESSAGE|AGE ENC)", re.M
)  # fmt: skip
"""Documents and encrypted messages in plain characters."""
_PROSE = re.compile(rb"(?:[A-Za-z]{2,15}[ ,.?'-]{1,3}){6}")
"""Words in bytes that should be a picture."""
_CONTROL = re.compile("[\0-\x06\x0e-\x19\x1c-\x1f\x7f]")


def text_of(data: bytes) -> str | None:
    """Return the text of plain UTF-8 bytes, or None for any other content."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) or _ENCRYPTED.match(text) else text


def refusal(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the rule that refuses non-text content, with details. Yield nothing for an image without text."""
    if _CACHE.match(data[: 1 << 16]):
        yield "RBG404", "(a score cache)"
    elif fault := image_fault(data):
        yield "RBG501", f"({fault})"


def is_pointer(data: bytes) -> bool:
    """Return whether content only points to other content outside the repository."""
    return _POINTER.match(data[:4096]) is not None


def kind_of(data: bytes) -> str:
    """Return the type of binary content, judged by its first bytes, or an empty string if it is unknown."""
    return next((says for says, marks in _KINDS.items() if data.startswith(marks)), "")


def image_fault(data: bytes) -> str:
    """Return the reason why bytes are not an acceptable image, or an empty string."""
    for mark, check in _PASSES:
        if data.startswith(mark):
            try:
                return check(data) or ("an image with words in it" if _PROSE.search(data) else "")
            except (struct.error, IndexError, zlib.error):
                return "a damaged image"
    return kind_of(data) or "binary or encrypted content, or text that is not UTF-8"


_PNG_CHUNKS = {
    b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"cHRM", b"gAMA", b"sBIT", b"sRGB", b"bKGD", b"pHYs", b"hIST", b"tIME",
}  # fmt: skip
_PLOT = re.compile(rb"Software\0Matplotlib version[\w.+]{1,40}, https://matplotlib\.org/")
"""Text that Matplotlib writes into each plot."""
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def _png(data: bytes) -> str:
    at, packed, head = 8, b"", b""
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        if struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] != zlib.crc32(name + body):
            return "a damaged PNG"
        large = name not in (b"IDAT", b"PLTE", b"hIST", b"tRNS") and size > 32
        if not (name == b"tEXt" and _PLOT.fullmatch(body)) and (name not in _PNG_CHUNKS or large):
            return f"a PNG with the chunk {name.decode('ascii', 'replace')!a}"
        packed += body if name == b"IDAT" else b""
        head = body if name == b"IHDR" else head
        at += 12 + size
        if name == b"IEND":
            break
    width, height, depth, colour = struct.unpack(">IIBB", head[:10])
    passes = [(0, 0, 1, 1)] if not head[12] else _ADAM7
    sizes = [(-(-(width - x) // dx), -(-(height - y) // dy)) for x, y, dx, dy in passes]
    expected = sum(
        h * (1 + -(-w * depth * _SAMPLES.get(colour, 4) // 8)) for w, h in sizes if w > 0 and h > 0
    )
    if expected > _MOST_PIXELS:
        return "a PNG with too many pixels"
    unpacker = zlib.decompressobj()
    pixels = unpacker.decompress(packed, expected + 1)
    whole = (
        not _PROSE.search(pixels) and len(pixels) == expected and unpacker.eof and not unpacker.unused_data
    )
    return "" if whole and at == len(data) else "a PNG with bytes that are not pixels"


_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_JPEG_PARTS = {0xDB, 0xC4, 0xDD, 0xDA, 0xC0, 0xC1, 0xC2}


def _jpeg(data: bytes) -> str:
    at = 2
    while data[at : at + 2] != b"\xff\xd9":
        mark, size = struct.unpack(">xBH", data[at : at + 4])
        small = (mark == 0xE0 and size == 16) or (mark == 0xEE and size == 14)
        if data[at] != 0xFF or not (mark in _JPEG_PARTS or small):
            return f"a JPEG with the part {mark:02X}"
        at += 2 + size
        while mark == 0xDA and not (data[at] == 0xFF and data[at + 1] not in (0, *range(0xD0, 0xD8))):
            at += 1
    return "" if at + 2 == len(data) else "a JPEG with bytes after its end"


_PASSES: tuple[tuple[bytes, Callable[[bytes], str]], ...] = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"\xff\xd8\xff", _jpeg),
)
