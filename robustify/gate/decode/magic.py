"""What content is, by its first bytes: a name or an extension is never trusted."""

from typing import Literal

Kind = Literal[
    "gzip", "bzip2", "xz", "zlib", "zip", "tar", "parquet", "binary", "cache", "encrypted", "pointer", "text"
]

_STARTS: tuple[tuple[bytes, Kind], ...] = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"PK\x07\x08", "zip"),
    (b"PAR1", "parquet"),
    (b"PARE", "encrypted"),
    (b"%PDF-", "binary"),
    (b"\x89PNG", "binary"),
    (b"GIF8", "binary"),
    (b"\xff\xd8\xff", "binary"),
    (b"II*\x00", "binary"),
    (b"MM\x00*", "binary"),
    (b"RIFF", "binary"),
    (b"OggS", "binary"),
    (b"ARROW1", "binary"),
    (b"FEA1", "binary"),
    (b"ORC", "binary"),
    (b"Obj\x01", "binary"),
    (b"SQLite format 3", "binary"),
    (b"\x89HDF", "binary"),
    (b"\x93NUMPY", "binary"),
    (b"GGUF", "binary"),
    (b"7z\xbc\xaf\x27\x1c", "binary"),
    (b"Rar!\x1a\x07", "binary"),
    (b"\x28\xb5\x2f\xfd", "binary"),
    (b"\x04\x22\x4d\x18", "binary"),
    (b"\xd0\xcf\x11\xe0", "binary"),
    (b"\x7fELF", "binary"),
    (b"MZ", "binary"),
    (b"wOFF", "binary"),
    (b"wOF2", "binary"),
    (b"-----BEGIN PGP MESSAGE-----", "encrypted"),
    (b"-----BEGIN AGE ENCRYPTED FILE-----", "encrypted"),
    (b"age-encryption.org/", "encrypted"),
    (b"$ANSIBLE_VAULT;", "encrypted"),
    (b"Salted__", "encrypted"),
    (b"\x00GITCRYPT\x00", "encrypted"),
    (b"version https://git-lfs.github.com/spec/", "pointer"),
    (b"RBGIX\x01", "encrypted"),
)
_TEXT_WORDS: tuple[bytes, ...] = (b"BZh", b"ORC", b"MZ", b"RIFF", b"GIF8", b"PAR1", b"PARE", b"GGUF", b"FEA1")


_SQLITE = b"SQLite format 3\0"
_WAL = b"\x37\x7f\x06"
_CACHE = b"RBST"
"""SQLite's application id of a score cache (engines/cache.py), at byte 68 of the first page."""


def kind_of(data: bytes) -> Kind:
    """The kind of content. Short marks that could begin a text count only where something binary follows."""
    if data.startswith((_SQLITE, _WAL)):
        at = data.find(_SQLITE)
        return "cache" if at >= 0 and data[at + 68 : at + 72] == _CACHE else "binary"
    for start, kind in _STARTS:
        if data.startswith(start) and not (start in _TEXT_WORDS and _reads(data[:512])):
            return kind
    if data[257:262] == b"ustar":
        return "tar"
    if len(data) > 8 and data[0] == 0x78 and data[1] in b"\x01\x5e\x9c\xda" and not _reads(data[:64]):
        return "zlib"
    return "text"


def _reads(head: bytes) -> bool:
    return all(b >= 32 or b in b"\t\n\r\x0b\x0c" for b in head)
