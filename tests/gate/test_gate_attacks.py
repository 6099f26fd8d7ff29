"""What an attacker would try: content written as text in every way, disguises of words, and images with text in them."""

import base64
import binascii
import gzip
import io
import json
import pickle
import re
import struct
import textwrap
import zlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from robustify.gate.opaque import image_fault
from tests.gate.corpus import whole
from tests.gate.repo import mock_items, mock_prints, rules_of

RAW = "\n\n".join(map(whole, mock_items()[:5])).encode()


def array(save: Callable[[io.BytesIO], object]) -> bytes:
    out = io.BytesIO()
    save(out)
    return out.getvalue()


TABLE = pa.table({"question": [RAW.decode()]})
DATA = {
    "text": RAW,
    "pickle": pickle.dumps([item.texts for item in mock_items()[:5]]),
    "gzip": gzip.compress(RAW, mtime=0),
}
BINARY = {
    "npy": array(lambda out: np.save(out, np.array([RAW.decode()]))),
    "Arrow": array(lambda out: pa.ipc.new_file(out, TABLE.schema).write_table(TABLE)),
    "Latin-1": b"bl\xe9 " + RAW,
    "NUL": RAW + b"\0",
}
STEM, TAIL = mock_items()[5].stem, " ".join(mock_items()[6].texts)


def cut(text: str, n: int) -> list[str]:
    return [text[i : i + n] for i in range(0, len(text), n)]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def dumped(data: bytes, row: Callable[[int, bytes], str]) -> str:
    return "\n".join(row(i, data[i : i + 16]) for i in range(0, len(data), 16))


def legible(data: bytes) -> str:
    return "".join(chr(b) if 32 <= b < 127 else "." for b in data)


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


def test_short_pieces_are_counted_over_the_whole_file() -> None:
    pieces = cut(b64(DATA["gzip"]), 20)[:12]
    lines = [f"Note {n} of the pond.\n" * 30 + piece for n, piece in enumerate(pieces)]
    assert rules_of("\n".join(lines)) == {"RBG502"}
    assert rules_of("\n".join(lines[:4])) == set()


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize(
    "way", [way for way in WAYS if re.search(r"of \d\d|addresses|JSON|comments|hex$|of base64", way)]
)
def test_what_is_nearly_text_or_full_of_zeros_is_refused_too(way: str, kind: str) -> None:
    assert rules_of(WAYS[way](BINARY[kind]), mock_prints()) & {"RBG301", "RBG502"}


@pytest.mark.parametrize("data", [b"%b\0", b"\0%b", b"bl\xe9 %b"])
def test_a_short_run_of_what_is_nearly_text_is_read(data: bytes) -> None:
    data %= STEM[:64].encode()
    for form in (b64(data), data.hex(), f'<img src="data:image/png;base64,{b64(data)}">'):
        assert rules_of(form, mock_prints()) & {"RBG301", "RBG502"}


DRESSES: dict[str, str] = {
    "pieces with +": " + ".join(repr(part) for part in cut(STEM, 4)),
    "pieces of bytes": " ".join(f'b"{part}"' for part in cut(STEM, 5)),
    "pieces in a list": json.dumps(cut(STEM, 3)),
    "letters in a list": json.dumps(list(STEM)),
    "names of letters": "".join(f"\\N{{LATIN SMALL LETTER {c}}}" if c.isalpha() else c for c in STEM.upper()),
    "entities twice": "".join(f"&amp;#{ord(c)};" for c in STEM),
    "letters in marks": "".join(f'<tspan x="{i}">{c}</tspan>' for i, c in enumerate(STEM)),
    "one long name": "".join(word.capitalize() for word in STEM.rstrip("?").split()),
    "letters of flags": "".join(chr(0x1F1E6 + ord(c) - 97) if c.isalpha() else c for c in STEM.lower()),
    "words with numbers": "\n".join(f"{i},{word},{7 * i}" for i, word in enumerate(STEM.split())),
    "numbered words": "\n".join(f"{i}: {word}" for i, word in enumerate(STEM.split())),
    "xxd": dumped(RAW, lambda i, d: f"{i:08x}: {d.hex(' ', 2)}  {legible(d)}"),
    "hexdump": dumped(RAW, lambda i, d: f"{i:08x}  {d.hex(' ')}  |{legible(d)}|"),
    "a comment wrapped": "\n".join(f"// {line}" for line in textwrap.wrap(STEM, 25)),
    "log-probabilities": "\n".join(f"{piece}\t-0.{n + 11}" for n, piece in enumerate(RAW.decode().split())),
    # In pieces, as programs write a text.
    "a streamed reply": "".join(f"data: {json.dumps({'choices': [{'delta': {'content': p}}]})}\n\n" for p in cut(STEM, 3)),
    "a streamed reply in lines": "".join(json.dumps({"model": "m", "response": p, "done": False}) + "\n" for p in cut(STEM, 5)),  # noqa: E501
    "words of a transcript": json.dumps([{"word": word, "start": n / 3} for n, word in enumerate(STEM.split())], indent=1),
    "runs of Word": "<w:p>" + "".join(f"<w:r><w:rPr><w:b/></w:rPr><w:t>{p}</w:t></w:r>" for p in cut(STEM, 4)) + "</w:p>",
    "runs of Word in lines": "<w:p>\n" + "\n ".join(f"<w:r>\n<w:t>{p}</w:t>\n</w:r>" for p in cut(STEM, 4)) + "\n</w:p>",
    "spans of Writer": "".join(f'<text:span text:style-name="T{n}">{p}</text:span>' for n, p in enumerate(cut(STEM, 4))),
    "boxes": "".join(f'<div style="left:{n}px">{piece}</div>' for n, piece in enumerate(cut(STEM, 4))),
    "colours": "".join(f"\x1b[38;5;{n}m{piece}\x1b[0m" for n, piece in enumerate(cut(STEM, 4))),
    "colours in escapes": "".join(f"\\033[3{n % 8}m{piece}\\033[0m" for n, piece in enumerate(cut(STEM, 4))),
    # Found from outside.
    "pieces with two signs": " || ".join(f"'{part}'" for part in cut(STEM, 5)),
    "pieces in calls": "\n".join(f'buffer.append("{part}");' for part in cut(STEM, 5)),
    "pieces in a template": "".join(f"${{'{part}'}}" for part in cut(STEM, 4)),
    "a broken line": '"' + "\\\n".join(cut(STEM, 7)) + '"',
    "bold within words": " ".join(f"{w[:1]}**{w[1:2]}**{w[2:]}" for w in STEM.split()),
    "braces within words": " ".join(f"{{{w[:1]}}}{w[1:]}" for w in STEM.split()),
    "bold of LaTeX within words": " ".join(f"\\textbf{{{w[:2]}}}{w[2:]}" for w in STEM.split()),
    **{f"letters with {sign}": " ".join(sign.join(w) for w in STEM.split()) for sign in "-._|"},
    "letters in lines": "\n".join(STEM),
    "from right to left": f"\u202e{STEM[::-1]}",
    "code points": " ".join(f"U+{ord(c):04X}" for c in STEM),
    "code points of an old script": "".join(f"%u{ord(c):04x}" for c in STEM),
    "code points in braces": "".join(f"\\x{{{ord(c):x}}}" for c in STEM),
    "words with their lemmas": "\n".join(f"{i}\t{w}\t{w.lower()}\tNOUN\t_\tdep" for i, w in enumerate(STEM.split())),
    "pairs of words": "\n".join(f"{a} {b}\t1" for a, b in zip(STEM.split(), STEM.split()[1:], strict=False)),
    "a chain of words": "; ".join(f"{a} -> {b}" for a, b in zip(STEM.split(), STEM.split()[1:], strict=False)),
    # Further.
    "printed bold": "".join(f"{c}\b{c}" if c.isalpha() else c for c in STEM),
    "soft hyphens of LaTeX": "\\begin{quote}" + " ".join(f"{w[:2]}\\-{w[2:]}" for w in STEM.split()) + "\\end{quote}",
    "subtitles": "".join(f"{n}\n00:00:0{n % 9},100 --> 00:00:0{n % 9},900\n{word}\n\n" for n, word in enumerate(STEM.split())),  # noqa: E501
    "one word between all": json.dumps(dict.fromkeys(STEM.split(), True)),
    "cells that are wrapped": "\n".join(f"| {a:<20} | {b:<20} |" for a, b in zip(textwrap.wrap(STEM, 20), textwrap.wrap(TAIL, 20), strict=False)),  # noqa: E501
    "signs for letters": STEM.translate(str.maketrans("asil", "@$!|")),
    "braille": "".join(chr(0x2800 + ord(c) % 64) if c.isalpha() else c for c in STEM + TAIL),
}  # fmt: skip


@pytest.mark.parametrize("text", DRESSES.values(), ids=DRESSES.keys())
def test_registered_words_in_another_dress_are_refused(text: str) -> None:
    assert rules_of(text, mock_prints()) & {"RBG301", "RBG502"}


# Images.


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(*more: bytes, pixels: bytes = bytes(30), packed: bytes = b"") -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 3, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(pixels) + packed)
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(more) + body + chunk(b"IEND", b"")


def part(mark: int, body: bytes) -> bytes:
    return bytes((0xFF, mark)) + struct.pack(">H", len(body) + 2) + body


def jpeg(*more: bytes) -> bytes:
    head = b"\xff\xd8" + part(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0") + b"".join(more)
    return (
        head
        + part(0xDB, bytes(65))
        + part(0xC0, bytes(15))
        + part(0xDA, bytes(10))
        + b"\x12\xff\0\x34\xff\xd9"
    )


NOTE = STEM.encode()
IMAGES = {"png": png(), "jpeg": jpeg()}
TAINTED = {
    **{f"{name} with a tail": data + NOTE for name, data in IMAGES.items()},
    **{f"png with {name}": png(chunk(name.encode(), NOTE)) for name in ("tEXt", "zTXt", "iTXt", "eXIf", "iCCP", "noTe")},
    "png with a long time": png(chunk(b"tIME", NOTE)),
    "png with a tail of its pixels": png(packed=NOTE),
    "png with more pixels": png(pixels=bytes(30) + NOTE),
    "png with a palette of words": png(chunk(b"PLTE", NOTE)),
    "png with pixels of words": png(pixels=NOTE[:30]),
    "jpeg with a scan of words": jpeg().replace(b"\x12\xff\0\x34", NOTE),
    "png with a bad sum": png()[:-1] + b"x",
    "png that is cut": png()[:-20],
    "jpeg with a comment": jpeg(part(0xFE, NOTE)),
    "jpeg with EXIF": jpeg(part(0xE1, b"Exif\0\0" + NOTE)),
    "jpeg with a profile": jpeg(part(0xE2, NOTE)),
    "jpeg with a thumbnail": jpeg(part(0xE0, b"JFXX\0" + NOTE)),
    "an icon": b"\0\0\x01\0\x01\0" + bytes(16) + png(),
    "a font": b"wOFF" + bytes(60),
    "gif": b"GIF89a" + bytes(40),
    "a RIFF file": b"RIFF" + struct.pack("<I", 4) + b"WEBP",
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_without_text_passes_as_a_file_and_in_base64(name: str) -> None:
    assert not image_fault(IMAGES[name])
    assert rules_of(IMAGES[name], mock_prints()) == set()
    encoded = base64.encodebytes(IMAGES[name] if len(IMAGES[name]) > 120 else png(pixels=bytes(30))).decode()
    assert rules_of(f'<img src="data:image/png;base64,{encoded}">', mock_prints()) == set()


def test_the_mark_of_matplotlib_in_a_plot_passes_and_no_other_text() -> None:
    note = b"Software\0Matplotlib version3.8.2, https://matplotlib.org/"
    assert rules_of(png(chunk(b"tEXt", note))) == set()
    assert rules_of(png(chunk(b"tEXt", note + b" and more"))) == {"RBG501"}


@pytest.mark.parametrize("head", ["{\\rtf1\\ansi ", "%!PS-Adobe-3.0\n", "\n\n%PDF-1.4\n"])
def test_a_document_in_plain_characters_is_refused(head: str) -> None:
    assert rules_of(f"{head}A note.") == {"RBG501"}


@pytest.mark.parametrize("name", TAINTED)
def test_an_image_with_anything_else_in_it_is_refused(name: str) -> None:
    assert rules_of(TAINTED[name]) == {"RBG501"}
    if "png" in name and len(TAINTED[name]) > 120:
        encoded = f'<img src="data:image/png;base64,{b64(TAINTED[name])}">'
        assert rules_of(encoded, mock_prints()) & {"RBG301", "RBG502"}
