"""Bytes as text: which encoding, or none.

A byte order mark or a pattern of NUL bytes decides; UTF-8 comes next; what is left is Latin-1 unless it holds the
control characters of something that is no text.
"""

import codecs

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = bytes(b for b in range(32) if b not in b"\t\n\x0b\x0c\r\x08\x1b") + b"\x7f"
_MOST_CONTROL = 0.01
_STRINGS = bytes(b if b in b"\t\n\r" or 32 <= b < 127 else 0 for b in range(256))


def decoded(data: bytes, *, certain: bool = False) -> str | None:
    """The text that bytes hold, or None where they are no text; certain: never by way of Latin-1."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return _tried(data, name)
    if b"\0" in data:
        return _wide(data)
    controls = len(data) - len(data.translate(None, _CONTROL))
    if controls > max(1, _MOST_CONTROL * len(data)):
        return None
    text = _tried(data, "utf-8")
    return data.decode("latin-1") if text is None and not certain else text


def _tried(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeError:
        return None


def _wide(data: bytes) -> str | None:
    """UTF-16 and UTF-32 without a mark, known by where their NUL bytes stand."""
    for width, places, name in (
        (4, (1, 2, 3), "utf-32-le"),
        (4, (0, 1, 2), "utf-32-be"),
        (2, (1,), "utf-16-le"),
        (2, (0,), "utf-16-be"),
    ):
        if len(data) % width == 0 and all(_mostly_zero(data[place::width]) for place in places):
            text = _tried(data, name)
            if text is not None and "\0" not in text:
                return text
    return None


def _mostly_zero(data: bytes) -> bool:
    return data.count(0) >= 0.7 * len(data)


def strings(data: bytes) -> str:
    """What reads as text within binary content, also where it stands as UTF-16."""
    plain = data.translate(_STRINGS).replace(b"\0", b"\n")
    narrow = data.replace(b"\0", b"")
    wide = narrow.translate(_STRINGS).replace(b"\0", b"\n") if len(narrow) != len(data) else b""
    return (plain + b"\n\n" + wide).decode("ascii")
