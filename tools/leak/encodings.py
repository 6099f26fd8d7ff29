"""What a stream of bytes may hide: each reading undoes one disguise, so that a canary is looked for in plain text.

Undoing is cheaper than disguising every canary in every way, and what is unpacked is read again.
"""

import base64
import binascii
import bz2
import codecs
import contextlib
import html
import io
import json
import lzma
import quopri
import re
import sqlite3
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

MOST = 64 << 20
"""Bytes that one packed member may grow to."""
DEPTH = 3
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")
_BASE32 = re.compile(rb"[A-Z2-7]{24,}={0,6}")
_HEX = re.compile(rb"(?:[0-9a-f]{2}){12,}|(?:[0-9A-F]{2}){12,}")
_SPACED_HEX = re.compile(rb"(?:[0-9a-fA-F]{2}[ :,]{1,2}){11,}[0-9a-fA-F]{2}")
_ESCAPE = re.compile(rb"\\+(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([0-7]{3}))")
_ROT13 = bytes.maketrans(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    b"nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM",
)


def readings(data: bytes, depth: int = DEPTH) -> Iterator[tuple[str, bytes]]:
    """The stream as it is and with each disguise taken off; packed members are read again."""
    yield "plain", data
    for name, undo in _UNDO.items():
        found = undo(data)
        if found and found != data:
            yield name, found
            if depth > 0 and name in _CODES:
                # What was put into letters is often something packed, or in UTF-16.
                yield from ((f"{name}>{inner}", text) for inner, text in readings(found, 0))
                yield from _unpacked(found, name, depth - 1)
    if depth > 0:
        yield from _unpacked(data, "", depth - 1)


def _unpacked(data: bytes, outer: str, depth: int) -> Iterator[tuple[str, bytes]]:
    for name, unpack in _UNPACK.items():
        for member in unpack(data):
            for inner, found in readings(member, depth):
                yield f"{outer}>{name}>{inner}".lstrip(">"), found


def _wide(data: bytes) -> bytes:
    """UTF-16 and UTF-32 of Latin letters are the letters with NULs between them."""
    return data.replace(b"\0", b"") if b"\0" in data else b""


def _utf16(data: bytes) -> bytes:
    """Other scripts: read as UTF-16 in both orders and at both places, where there is a chance of it."""
    if len(data) > 4 << 20:
        return b""
    return b"\n".join(
        data[start:].decode(order, "ignore").encode("utf-8", "ignore")
        for order in ("utf-16-le", "utf-16-be")
        for start in (0, 1)
    )


def _unescaped(data: bytes) -> bytes:
    """JSON's, Python's and C's escapes, also where a stream was escaped twice."""
    if b"\\" not in data:
        return b""

    def one(found: "re.Match[bytes]") -> bytes:
        four, eight, two, octal = found.groups()
        if four or eight:
            return chr(min(int(four or eight, 16), 0x10FFFF)).encode("utf-8", "surrogatepass")
        return bytes([int(two, 16) if two else int(octal, 8) & 0xFF])

    once = _ESCAPE.sub(one, data)
    text = once.decode("utf-8", "surrogatepass" if b"\xed" in once else "ignore") if _valid(once) else ""
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore").encode("utf-8", "ignore")
    return joined or once


def _valid(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _entities(data: bytes) -> bytes:
    return html.unescape(data.decode("latin-1")).encode("utf-8", "ignore") if b"&" in data else b""


def _percent(data: bytes) -> bytes:
    return urllib.parse.unquote_to_bytes(data.replace(b"+", b" ")) if b"%" in data else b""


def _quoted(data: bytes) -> bytes:
    return quopri.decodestring(data) if b"=" in data else b""


def _letters(data: bytes) -> bytes:
    """Without anything between the letters: spaced out, hyphenated, one a line."""
    return bytes(re.sub(rb"[^A-Za-z]+", b"", data))


_AROUND_TOKENS = re.compile(
    rb"[\"'][^\"'\n]{0,40}[\"']\s*:|<[^<>\n]{0,200}>|\b(?:null|true|false|None|nan)\b"
)


def _tokens(data: bytes) -> bytes:
    """Tokens in records and cells, one after the other: without names, tags and numbers, and nothing between letters."""
    bare = _AROUND_TOKENS.sub(b"", data)
    return _letters(bare) if bare != data else b""


def _runs(pattern: "re.Pattern[bytes]", decode: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def undo(data: bytes) -> bytes:
        out = []
        for source in (data, re.sub(rb"\s+|\\n", b"", data)):
            out += [decode(run[0]) for run in pattern.finditer(source)]
        found = b"\n".join(out)
        return found + b"\n" + found.replace(b"\0", b"") if found else b""

    return undo


def _base64(run: bytes) -> bytes:
    bare = run.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    # A run may begin and end in the middle of a group.
    parts = (bare[start:] + b"A" * (-(len(bare) - start) % 4) for start in range(4))
    return b"\n".join(binascii.a2b_base64(part) for part in parts)


def _base32(run: bytes) -> bytes:
    bare = run.rstrip(b"=")
    parts = (bare[start:] + b"A" * (-(len(bare) - start) % 8) for start in range(8))
    return b"\n".join(base64.b32decode(part) for part in parts)


def _hex(run: bytes) -> bytes:
    digits = re.sub(rb"[^0-9a-fA-F]", b"", run)
    return b"\n".join(bytes.fromhex(digits[s : s + (len(digits) - s) // 2 * 2].decode()) for s in (0, 1))


_UNDO: dict[str, Callable[[bytes], bytes]] = {
    "without NULs": _wide,
    "UTF-16": _utf16,
    "escapes": _unescaped,
    "entities": _entities,
    "percent": _percent,
    "quoted-printable": _quoted,
    "base64": _runs(_BASE64, _base64),
    "base32": _runs(_BASE32, _base32),
    "hex": _runs(_HEX, _hex),
    "spaced hex": _runs(_SPACED_HEX, _hex),
    "ROT13": lambda data: data.translate(_ROT13),
    "reversed": lambda data: data[::-1] + b"\n" + data.decode("utf-8", "ignore")[::-1].encode(),
    "letters alone": _letters,
    "tokens": _tokens,
}


def _starts(data: bytes, *marks: bytes) -> Iterator[int]:
    for mark in marks:
        at = data.find(mark)
        while at >= 0:
            yield at
            at = data.find(mark, at + 1)


def _packed(unpacker: Callable[[], Any], *marks: bytes) -> Callable[[bytes], Iterator[bytes]]:
    def unpack(data: bytes) -> Iterator[bytes]:
        for at in _starts(data, *marks):
            with contextlib.suppress(zlib.error, OSError, EOFError, ValueError, lzma.LZMAError):
                found = unpacker().decompress(data[at:], MOST)
                if len(found) >= 12:
                    yield found

    return unpack


def _zstd(data: bytes) -> Iterator[bytes]:
    import pyarrow as pa

    for at in _starts(data, b"\x28\xb5\x2f\xfd"):
        with contextlib.suppress(OSError, ValueError):
            yield pa.CompressedInputStream(pa.py_buffer(data[at:]), "zstd").read(MOST)


def _zip(data: bytes) -> Iterator[bytes]:
    if b"PK\x03\x04" not in data:
        return
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield name.encode("utf-8", "surrogateescape") + b"\n" + archive.read(name)[:MOST]
    except (zipfile.BadZipFile, RuntimeError, OSError, NotImplementedError):
        return


def _parquet(data: bytes) -> Iterator[bytes]:
    if data[:4] != b"PAR1":
        return
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(io.BytesIO(data))
    except (OSError, ValueError):
        return
    yield json.dumps(table.to_pylist(), default=repr, ensure_ascii=False).encode("utf-8", "surrogatepass")
    yield repr(table.schema.metadata).encode()


def _sqlite(data: bytes) -> Iterator[bytes]:
    """The rows of a database, because a long value is cut over several pages; its free pages are read as they are."""
    if not data.startswith(b"SQLite format 3\0"):
        return
    db = sqlite3.connect(":memory:")
    try:
        db.deserialize(data)
        yield "\n".join(db.iterdump()).encode("utf-8", "surrogatepass")
    except (sqlite3.Error, UnicodeDecodeError):
        return
    finally:
        db.close()


_CODES = ("base64", "base32", "hex", "spaced hex")
_UNPACK: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _packed(lambda: zlib.decompressobj(31), b"\x1f\x8b\x08"),
    # PNG, PDF and git objects keep their texts as zlib streams.
    "zlib": _packed(zlib.decompressobj, b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"),
    "bz2": _packed(bz2.BZ2Decompressor, b"BZh"),
    "xz": _packed(lzma.LZMADecompressor, b"\xfd7zXZ\x00"),
    "zstd": _zstd,
    "zip": _zip,
    "Parquet": _parquet,
    "SQLite": _sqlite,
}


def _pieces(text: str, mark: str = " ") -> list[str]:
    """The text as a tokenizer cuts it: words in fours, `mark` before each that follows a blank."""
    words = text.split(" ")
    return [
        (mark if n and not i else "") + word[i : i + 4]
        for n, word in enumerate(words)
        for i in range(0, len(word), 4)
    ]


def _each(form: Callable[[int, str], str], text: str, sep: str = "", mark: str = " ") -> bytes:
    return sep.join(form(i, piece) for i, piece in enumerate(_pieces(text, mark))).encode()


ENCODERS: dict[str, Callable[[str], bytes]] = {
    "UTF-8": str.encode,
    "UTF-16LE": lambda t: t.encode("utf-16-le"),
    "UTF-16BE": lambda t: t.encode("utf-16-be"),
    "UTF-32": lambda t: t.encode("utf-32"),
    "upper case": lambda t: t.upper().encode(),
    "JSON escapes": lambda t: "".join(f"\\u{ord(c):04x}" for c in t).encode(),
    "Python escapes": lambda t: "".join(f"\\x{b:02x}" for b in t.encode()).encode(),
    "twice escaped": lambda t: "".join(f"\\\\u{ord(c):04X}" for c in t).encode(),
    "HTML entities": lambda t: "".join(f"&#{ord(c)};" for c in t).encode(),
    "percent": lambda t: "".join(f"%{b:02X}" for b in t.encode()).encode(),
    "quoted-printable": lambda t: "".join(f"={b:02X}" for b in t.encode()).encode(),
    "base64": lambda t: base64.b64encode(t.encode()),
    "base64 at 1": lambda t: base64.b64encode(b"x" + t.encode()),
    "base64 at 2": lambda t: base64.b64encode(b"xy" + t.encode()),
    "base64 in lines": lambda t: base64.encodebytes(b"-" * 50 + t.encode() + b"-" * 50),
    "base64 for URLs": lambda t: base64.urlsafe_b64encode(b"\xff\xfe\xfb" + t.encode()),
    "base64 of UTF-16": lambda t: base64.b64encode(t.encode("utf-16-le")),
    "base32": lambda t: base64.b32encode(b"abc" + t.encode()),
    "hex": lambda t: t.encode().hex().encode(),
    "hex dump": lambda t: t.encode().hex(" ").encode(),
    "ROT13": lambda t: codecs.encode(t, "rot13").encode(),
    "reversed": lambda t: t[::-1].encode(),
    "spaced out": lambda t: " ".join(t).encode(),
    "one a line": lambda t: "\n".join(t).encode(),
    "gzip": lambda t: b"junk" + __import__("gzip").compress(t.encode() * 2),
    "zlib": lambda t: b"junk" + zlib.compress(t.encode() * 2),
    "bz2": lambda t: b"junk" + bz2.compress(t.encode()),
    "xz": lambda t: b"junk" + lzma.compress(t.encode()),
    "base64 of gzip": lambda t: base64.b64encode(__import__("gzip").compress(t.encode())),
    "token records": lambda t: json.dumps(
        [{"token": p, "logprob": -0.25, "top": None} for p in _pieces(t)]
    ).encode(),
    "prompt_logprobs": lambda t: json.dumps(
        [{str(i): {"logprob": -1.5, "rank": 2, "decoded_token": p}} for i, p in enumerate(_pieces(t))]
    ).encode(),
    "columns of tokens": lambda t: json.dumps({"token": dict(enumerate(_pieces(t, "Ġ")))}).encode(),
    "token and number a line": lambda t: _each(lambda i, p: f"{p}\t-{i}.25\n", t),
    "BPE": lambda t: _each(lambda i, p: p, t, " ", "Ġ"),
    "WordPiece": lambda t: _each(lambda i, p: p if p[:1] == " " else f" ##{p}", t),
    "table of a page": lambda t: _each(lambda i, p: f"<tr>\n<td>{p}</td>\n<td>{i}.5</td>\n</tr>\n", t),
    "one token a cell": lambda t: _each(lambda i, p: f'"{p}"', t, ","),
    "LaTeX table": lambda t: _each(lambda i, p: f"{i} & {p} & 0.5 \\\\\n", t),
    "pickle": lambda t: __import__("pickle").dumps({"a": [t]}),
}
"""The disguises by which the search is tested; no part of the search itself."""
