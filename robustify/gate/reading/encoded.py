"""Encoded text made readable: character encodings, runs of base64 and hex, escapes, entities, tags.

A run of base64 is decoded only to be looked at: most are digests or identifiers, and the caller decides. Base32, base85 and
runs that are wrapped at fewer than 24 characters are not found. A newline that was written as an escape becomes
U+000B, which separates lines but is not counted as one of the file, so that a finding in the unescaped text names the
file's own line.
"""

import base64
import codecs
import html
import re
from collections.abc import Iterator

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_CONTROL = bytes(b for b in range(32) if b not in b"\t\n\x0b\x0c\r\x08\x1b") + b"\x7f"
_MOST_CONTROL = 0.01
_STRINGS = bytes(b if b in b"\t\n\r" or 32 <= b < 127 else 0 for b in range(256))


def text_of(data: bytes, *, certain: bool = False) -> str | None:
    """The text that bytes hold, or None where they are no text; certain: never by way of Latin-1."""
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return _as_text(data, name)
    if b"\0" in data:
        return _wide(data)
    controls = len(data) - len(data.translate(None, _CONTROL))
    if controls > max(1, _MOST_CONTROL * len(data)):
        return None
    text = _as_text(data, "utf-8")
    return data.decode("latin-1") if text is None and not certain else text


_LEGACY = (
    "cp1251", "koi8_u", "cp866", "iso8859_5", "mac_cyrillic", "gb18030", "big5hkscs", "cp932", "euc_jp", "cp949", "johab",
    "cp1253", "iso8859_7", "cp1255", "iso8859_8", "cp1256", "iso8859_6", "cp874", "cp1250", "iso8859_2", "cp1258", "cp857",
)  # fmt: skip
_SEVEN_BITS = {b"\x1b": ("iso2022_jp_2", "iso2022_kr"), b"~{": ("hz",)}
"""Encodings of East Asia within ASCII, by a mark that such text holds."""
_LOOKED_AT = 4000
_FOREIGN = re.compile("[^\x00-\x7f]+")


def legacy(data: bytes) -> Iterator[str]:
    """Bytes that are no UTF-8 in every older encoding that gives mostly letters: which one was meant is not known."""
    foreign = not data.isascii() and _as_text(data, "utf-8") is None
    within = (name for mark, names in _SEVEN_BITS.items() if mark in data for name in names)
    for name in _LEGACY if foreign else within:
        text = _as_text(data, name)
        letters = "".join(_FOREIGN.findall(text[: 8 * _LOOKED_AT]))[:_LOOKED_AT] if text is not None else ""
        if text is not None and letters and 10 * sum(map(str.isalpha, letters)) >= 6 * len(letters):
            yield text


def _as_text(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeError:
        return None


def _wide(data: bytes) -> str | None:
    """UTF-16 and UTF-32 without a mark, known by the places of their NUL bytes."""
    for width, places, name in (
        (4, (1, 2, 3), "utf-32-le"),
        (4, (0, 1, 2), "utf-32-be"),
        (2, (1,), "utf-16-le"),
        (2, (0,), "utf-16-be"),
    ):
        parts = [data[place::width] for place in places]
        if len(data) % width == 0 and all(part.count(0) >= 0.7 * len(part) for part in parts):
            text = _as_text(data, name)
            if text is not None and "\0" not in text:
                return text
    return None


def strings(data: bytes) -> str:
    """What reads as text within binary content, also as UTF-16."""
    plain = data.translate(_STRINGS).replace(b"\0", b"\n")
    narrow = data.replace(b"\0", b"")
    wide = narrow.translate(_STRINGS).replace(b"\0", b"\n") if len(narrow) != len(data) else b""
    return (plain + b"\n\n" + wide).decode("ascii")


SHORTEST = 40
"""Characters from which a run is decoded: eight words of text make about 60."""
_LEAST_RUN = 24
_JOINT = r"""["',]{0,2}(?:\\n)?["',]{0,2}[ ]?\\?\r?[\n\x0b][ \t#>*"',|]{0,80}"""
_RUN = re.compile(
    rf"[A-Za-z0-9+/_-]{{{_LEAST_RUN},}}(?:{_JOINT}[A-Za-z0-9+/_-]{{{_LEAST_RUN},}})*(?:({_JOINT}[A-Za-z0-9+/_-]+))?"
)
_JOINTS = re.compile(r"\\n|[^A-Za-z0-9+/_-]+")
_HEX = re.compile(r"(?:0x)?(?:(?:[0-9a-f]{2})+|(?:[0-9A-F]{2})+)\Z")
_ALPHABET = bytes(97 if (b < 128 and chr(b).isalnum()) or b in b"+/_-" else 32 for b in range(256))
_PROBE = b"a" * _LEAST_RUN


def runs(text: str) -> Iterator[tuple[int, bytes]]:
    """The offset of each run and the bytes that it decodes to, once for each way in which it reads."""
    marked = text.encode("latin-1", "replace").translate(_ALPHABET)
    at = marked.find(_PROBE)
    while at >= 0:
        match = _RUN.match(text, at)
        assert match is not None  # the probe is as long as the shortest run
        for bare in _bare(match):
            yield from ((at, data) for data in _decoded(bare))
        at = marked.find(_PROBE, match.end())


def _bare(match: re.Match[str]) -> Iterator[str]:
    """The run without what joins its lines; also without its last short line, which may be no part of it."""
    whole = _JOINTS.sub("", match[0])
    if len(whole) >= SHORTEST:
        yield whole
    if match[1]:
        less = _JOINTS.sub("", match[0][: match.start(1) - match.start()])
        if len(less) >= SHORTEST:
            yield less


def _decoded(bare: str) -> Iterator[bytes]:
    if _HEX.match(bare):
        yield bytes.fromhex(bare.removeprefix("0x"))
        return
    plain = bare.replace("-", "+").replace("_", "/")
    if len(plain) % 4 == 1:  # a character that fits no group of 4
        plain = plain[:-1]
    yield base64.b64decode(plain + "=" * (-len(plain) % 4))


BREAK = "\x0b"
_ROUNDS = 4
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
# Patterns begin with a literal where they can: the search then skips to it.
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*")
_QUOTED_BYTES = re.compile(r"=[0-9A-F]{2}(?:=[0-9A-F]{2})*")
_SOFT = re.compile(r"=(?:20|3D|\r?\n)")
_CUT = re.compile(r"-(?:\r?\n|\x0b)")
RETURN = re.compile(r"\r\x0b|\r(?!\n)")
"""A carriage return that ends a line without a newline, as old programs write it."""
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([0-3][0-7]{2})|([nrtvfab\"'/\\]))"
)
_SHORT = {"n": BREAK, "r": "\r", "t": "\t", "v": BREAK, "f": BREAK, "a": "", "b": ""}
_TAG = re.compile(r"<(/?[A-Za-z!?][\w:.-]{0,40})((?:\s[^<>]{0,4000})?)/?>")
_SIGN = re.compile(r"<(?:[/!?pPtTq]|br|BR|li|LI|wbr|hr|in)")
"""Every text with tags has one of these; code that only names things in angle brackets has none."""
_SECTIONS = ("<!--", "-->", "<![CDATA[", "]]>")
_INLINE = {
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q",
    "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var", "wbr",
}  # fmt: skip
_CELL = {"td", "th"}
_HYPHEN = re.compile(r"-(?:\r?\n|\x0b)(?:\",\r?\n)?[ \t#>*/+|!;%\"-]*(\w+)")
"""The quotes: the lines of a text as a list of strings, as notebooks keep them."""
_COMMAND = re.compile(r"\\[A-Za-z]+\*?")


def unescaped(text: str) -> str:
    """The text with its encodings undone, at most four deep; tags stay."""
    if "\\begin{" in text or "\\item" in text:
        text = _COMMAND.sub(lambda match: " " * len(match[0]), text)
    for _ in range(_ROUNDS):
        before = text
        if "&" in text:
            text = _ENTITY.sub(lambda match: _unbroken(html.unescape(match[0])), text)
        if "%" in text:
            text = _PERCENT.sub(_from_hex, text)
        if "\\" in text:
            text = _paired(_ESCAPE.sub(_from_escape, text))
        if "=" in text and _SOFT.search(text):
            text = _QUOTED_BYTES.sub(_from_hex, text.replace("=\r\n", "").replace("=\n", ""))
        if text == before:
            break
    if "\r" in text:
        text = RETURN.sub(BREAK, text)
    if _CUT.search(text):
        text = _HYPHEN.sub(lambda match: match[1] + ("\n" * match[0].count("\n") or BREAK), text)
    return text


def without_tags(text: str) -> str:
    """The text without its tags: cells become tabs, other blocks become breaks, inline marks vanish."""
    if not _SIGN.search(text) and "/>" not in text:
        return text
    for mark in _SECTIONS:
        text = text.replace(mark, BREAK)
    return _TAG.sub(_from_tag, text)


def _from_tag(match: re.Match[str]) -> str:
    name = (match[1] or "").lstrip("/").lower()
    mark = "" if name in _INLINE else "\t" if name in _CELL else BREAK
    if match[1] and match[1].startswith("/") and name in _CELL:
        mark = ""
    return mark + "\n" * match[0].count("\n")


def _unbroken(text: str) -> str:
    return text.replace("\n", BREAK)


def _from_hex(match: re.Match[str]) -> str:
    """`%41%42` and `=41=42` as text."""
    return _unbroken(bytes.fromhex(match[0].replace(match[0][0], "")).decode("utf-8", "replace"))


def _from_escape(match: re.Match[str]) -> str:
    for digits in match.group(1, 2, 3, 4):
        if digits:
            code = int(digits, 16)
            return _unbroken(chr(code)) if code < 0x110000 else " "
    if match[5]:
        return _unbroken(chr(int(match[5], 8)))
    return _SHORT.get(match[6], match[6])


def _paired(text: str) -> str:
    """Surrogate pairs that escapes left behind, joined; lone ones become question marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
