"""Text taken out of what programs wrap it in: entities, percent signs, escapes, quoted-printable, tags, hyphens.

A decoded newline becomes U+000B, which parts lines but is not counted as one of the file, so that a finding in the
unwrapped text names the line where it stands in the file.
"""

import html
import re

BREAK = "\x0b"
_ROUNDS = 4
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
# Patterns begin with a literal where they can: the search then skips to it.
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*")
_QUOTED = re.compile(r"=[0-9A-F]{2}(?:=[0-9A-F]{2})*")
_SOFT = re.compile(r"=(?:20|3D|\r?\n)")
_CUT = re.compile(r"-(?:\r?\n|\x0b)")
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([0-3][0-7]{2})|([nrtvfab\"'/\\]))"
)
_SHORT = {"n": BREAK, "r": "", "t": "\t", "v": BREAK, "f": BREAK, "a": "", "b": ""}
_TAG = re.compile(r"<(/?[A-Za-z!?][\w:.-]{0,40})((?:\s[^<>]{0,4000})?)/?>")
_SIGN = re.compile(r"<(?:[/!?pPtTq]|br|BR|li|LI|wbr|hr|in)")
"""One of these stands in every text with tags; code that only names things in angle brackets has none."""
_MARKS = ("<!--", "-->", "<![CDATA[", "]]>")
_INLINE = {
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q",
    "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var", "wbr",
}  # fmt: skip
_CELL = {"td", "th"}
_HYPHEN = re.compile(r"-(?:\r?\n|\x0b)(?:\",\r?\n)?[ \t#>*/+|!;%\"-]*(\w+)")
"""The quotes: the lines of a text as a list of strings, as notebooks keep them."""
_COMMAND = re.compile(r"\\[A-Za-z]+\*?")
_SMUGGLED = re.compile("[\U000e0020-\U000e007e]")


def unwrapped(text: str) -> str:
    """The text with its encodings undone, at most four deep; tags still stand."""
    if "\\begin{" in text or "\\item" in text:
        text = _COMMAND.sub(lambda match: " " * len(match[0]), text)
    for _ in range(_ROUNDS):
        before = text
        if "&" in text:
            text = _ENTITY.sub(lambda match: _unbroken(html.unescape(match[0])), text)
        if "%" in text:
            text = _PERCENT.sub(_from_percent, text)
        if "\\" in text:
            text = _whole(_ESCAPE.sub(_from_escape, text))
        if "=" in text and _SOFT.search(text):
            text = _QUOTED.sub(_from_quoted, text.replace("=\r\n", "").replace("=\n", ""))
        if text == before:
            break
    if _CUT.search(text):
        text = _HYPHEN.sub(_from_hyphen, text)
    if not text.isascii() and _SMUGGLED.search(text):
        text = _SMUGGLED.sub(lambda match: chr(ord(match[0]) - 0xE0000), text)
    return text


def untagged(text: str) -> str:
    """The text without its tags: cells become tabs, other blocks become breaks, inline marks vanish."""
    if not _SIGN.search(text) and "/>" not in text:
        return text
    for mark in _MARKS:
        text = text.replace(mark, BREAK)
    return _TAG.sub(_from_tag, text)


def _from_tag(match: re.Match[str]) -> str:
    name = (match[1] or "").lstrip("/").lower()
    mark = "" if name in _INLINE else "\t" if name in _CELL else BREAK
    if match[1] and match[1].startswith("/") and name in _CELL:
        mark = ""
    return mark + "\n" * match[0].count("\n")


def _unbroken(found: str) -> str:
    return found.replace("\n", BREAK)


def _from_hyphen(match: re.Match[str]) -> str:
    return match[1] + ("\n" * match[0].count("\n") or BREAK)


def _from_percent(match: re.Match[str]) -> str:
    return _unbroken(bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"))


def _from_quoted(match: re.Match[str]) -> str:
    return _unbroken(bytes.fromhex(match[0].replace("=", "")).decode("utf-8", "replace"))


def _from_escape(match: re.Match[str]) -> str:
    for digits in match.group(1, 2, 3, 4):
        if digits:
            code = int(digits, 16)
            return _unbroken(chr(code)) if code < 0x110000 else " "
    if match[5]:
        return _unbroken(chr(int(match[5], 8)))
    return _SHORT.get(match[6], match[6])


def _whole(text: str) -> str:
    """Surrogate pairs that escapes left behind, joined; lone ones become question marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
