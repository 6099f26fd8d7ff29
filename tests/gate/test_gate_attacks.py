"""What an attacker would try: content written as text in every way, disguises of words, and images with text in them."""

import base64
import binascii
import gzip
import json
import lzma
import pickle
import struct
import zlib
from collections.abc import Callable

import pytest

from tests.gate.corpus import whole
from tests.gate.repo import mock_items, mock_prints, rules_of

RAW = "\n\n".join(map(whole, mock_items()[:5])).encode()


PICKLE = pickle.dumps([item.texts for item in mock_items()[:5]])
DATA = {"text": RAW, "pickle": PICKLE, "gzip": gzip.compress(RAW, mtime=0)}
STEM, TAIL = mock_items()[5].stem, " ".join(mock_items()[6].texts)


def cut(text: str, n: int) -> list[str]:
    return [text[i : i + n] for i in range(0, len(text), n)]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


WAYS: dict[str, Callable[[bytes], str]] = {
    **{f"base64 in lines of {n}": lambda d, n=n: "\n".join(cut(b64(d), n)) for n in (4, 6, 8, 12, 20, 40, 76)},  # type: ignore[misc]
    "base64 in quotes with +": lambda d: " +\n".join(f'    "{part}"' for part in cut(b64(d), 12)),
    "base64 in a JSON array": lambda d: json.dumps(cut(b64(d), 10)),
    "base64 in comments": lambda d: "\n".join(f"# {part}" for part in cut(b64(d), 30)),
    "base64 with numbered lines": lambda d: "\n".join(f"{i:02d}: {p}" for i, p in enumerate(cut(b64(d), 24))),
    "base64 with dots": lambda d: ".".join(cut(b64(d), 12)),
    "base64 for addresses": lambda d: base64.urlsafe_b64encode(d).decode(),
    "base64 with hidden characters": lambda d: "\u200b".join(cut(b64(d), 3)),
    "base64 of base64": lambda d: b64(b64(d).encode()),
    "base32": lambda d: base64.b32encode(d).decode(),
    "base32 in small letters": lambda d: base64.b32encode(d).decode().lower(),
    "ASCII85": lambda d: base64.a85encode(d, wrapcol=60).decode(),
    "base85 in quotes": lambda d: "\n".join(map(repr, cut(base64.b85encode(d).decode(), 30))),
    "a git binary patch": lambda d: "\n".join(f"z{base64.b85encode(d[i : i + 52]).decode()}" for i in range(0, len(d), 52)),
    "uuencoding": lambda d: "".join(binascii.b2a_uu(d[i : i + 45]).decode() for i in range(0, len(d), 45)),
    "hex": lambda d: d.hex(),
    "hex in lines": lambda d: "\n".join(cut(d.hex(), 8)),
    "percent signs": lambda d: "".join(f"%{b:02x}" for b in d),
    "escapes": lambda d: f'x = b"{"".join(f"{chr(92)}x{b:02x}" for b in d)}"',
    "octal escapes": lambda d: f'x = "{"".join(f"{chr(92)}{b:03o}" for b in d)}"',
    "a literal": lambda d: f"x = {d!r}",
    "binary digits": lambda d: "".join(f"{b:08b}" for b in d),
    "hidden bits": lambda d: "a note" + "".join("\u200b\u200c"[int(bit)] for b in d for bit in f"{b:08b}"),
    "tag characters": lambda d: "a note" + "".join(chr(0xE0020 + b % 95) for b in d),
    "variation selectors": lambda d: "\U0001f600" + "".join(chr(0xE0100 + b) if b > 15 else chr(0xFE00 + b) for b in d),
    "braille": lambda d: "".join(chr(0x2800 + b) for b in d),
}  # fmt: skip


LIKE_A_DIGEST = {16, 32, 64}
READ = {"percent signs", "octal escapes", "a literal"}
"""Ways of which only the text is read."""


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("way", WAYS)
def test_content_written_as_text_is_refused(way: str, kind: str) -> None:
    if way in READ:
        kind = "text"
    assert rules_of(WAYS[way](DATA[kind]), mock_prints()) & {"RBG301", "RBG502"}
    if kind != "text":  # no index is needed to refuse what is not text
        assert "RBG502" in rules_of(WAYS[way](DATA[kind]))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "text": lambda d: d,
    "raw deflate": lambda d: (packer := zlib.compressobj(9, zlib.DEFLATED, -15)).compress(d) + packer.flush(),
    "raw LZMA": lambda d: lzma.compress(d, lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2}]),
    "LZMA": lambda d: lzma.compress(d, lzma.FORMAT_ALONE),
}
CODES: dict[str, Callable[[bytes], str]] = {"base64": b64, "base32": WAYS["base32"], "hex": bytes.hex}


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("code", CODES)
def test_an_encoded_item_with_a_word_between_its_pieces_is_refused(code: str, packed: str) -> None:
    coded = CODES[code](PACKED[packed](whole(mock_items()[0]).encode()))
    lengths = {8, 10, 12, 16, 20, 24, 31, 32, 39, 64} | ({5, 6, 7} if code == "hex" else set())
    lengths -= LIKE_A_DIGEST if code == "hex" and packed != "text" else set()
    texts = {n: " pond\n".join(cut(coded, n)) for n in lengths}
    assert [n for n, text in texts.items() if "RBG502" not in rules_of(text)] == []


def test_short_pieces_are_counted_over_the_whole_file() -> None:
    pieces = cut(b64(DATA["gzip"]), 20)[:12]
    lines = [f"Note {n} of the pond.\n" * 30 + piece for n, piece in enumerate(pieces)]
    assert rules_of("\n".join(lines)) == {"RBG502"}
    assert rules_of("\n".join(lines[:4])) == set()


# Images.


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(*more: bytes, pixels: bytes = bytes(30), packed: bytes = b"") -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 3, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(pixels) + packed)
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(more) + body + chunk(b"IEND", b"")


NOTE, PLOTTED = STEM.encode(), b"Software\0Matplotlib version3.8.2, https://matplotlib.org/"
TAINTED = {
    "png with a tail": png() + NOTE,
    **{f"png with {name}": png(chunk(name.encode(), NOTE)) for name in ("tEXt", "zTXt", "iTXt", "eXIf", "iCCP", "noTe")},
    "png with a long time": png(chunk(b"tIME", NOTE)),
    "png with many parts": png(*(chunk(b"gAMA", NOTE[i : i + 4]) for i in range(0, 60, 4))),
    "png with a large part": png(chunk(b"gAMA", NOTE[:20])),
    "png with a tail of its pixels": png(packed=NOTE),
    "png with more pixels": png(pixels=bytes(30) + NOTE),
    "png with a palette of words": png(chunk(b"PLTE", NOTE)),
    "png with pixels of words": png(pixels=NOTE[:30]),
    "png with a bad sum": png()[:-1] + b"x",
    "png that is cut": png()[:-20],
    "a jpeg": b"\xff\xd8\xff\xe0" + bytes(40),
    "an icon": b"\0\0\x01\0\x01\0" + bytes(16) + png(),
    "a font": b"wOFF" + bytes(60),
    "gif": b"GIF89a" + bytes(40),
    "a RIFF file": b"RIFF" + struct.pack("<I", 4) + b"WEBP",
    "png with the mark of Matplotlib and more": png(chunk(b"tEXt", PLOTTED + b" and more")),
}  # fmt: skip


def inside(image: bytes) -> list[set[str]]:
    """Return the rules that a page breaks with the image in one line, and in several."""
    codes = (b64(image), base64.encodebytes(image).decode())
    return [rules_of(f'<img src="data:image/png;base64,{code}">', mock_prints()) for code in codes]


def test_an_image_passes_as_a_file_and_in_base64_without_text_but_for_the_mark_of_matplotlib() -> None:
    plot = png(chunk(b"tEXt", PLOTTED))
    assert [rules_of(png(), mock_prints()), rules_of(plot), *inside(png())] == [set()] * 4


@pytest.mark.parametrize("name", TAINTED)
def test_an_image_with_anything_else_in_it_is_refused(name: str) -> None:
    assert rules_of(TAINTED[name]) == {"RBG501"}
    if "png" in name and len(TAINTED[name]) > 120:
        assert all(found & {"RBG301", "RBG502"} for found in inside(TAINTED[name]))
