"""`rbcanon-1`: the one form of a text that ids are made of, so that the same words give the same id anywhere.

NFKC, without default-ignorable characters, every run of white space one space. Case is kept. What has no stable
form (lone surrogates, NUL, unassigned code points) is refused.
"""

import re
import unicodedata

from robustify.errors import ItemError

NAME = "rbcanon-1"
UNICODE = unicodedata.unidata_version
"""The Unicode version of this Python: an unassigned code point here may be assigned elsewhere."""

_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
"""The characters of Unicode's White_Space; `str.split` knows four more."""
_PLAIN = re.compile(r"[!-~]+(?: [!-~]+)*")


def canonical(text: str) -> str:
    """The canonical form; canonical already is left as it is.

    Raises:
        ItemError: a lone surrogate, NUL or an unassigned code point, named by its number and not by its text.
    """
    if _PLAIN.fullmatch(text):
        return text
    _refuse(text)
    plain = _IGNORABLE.sub("", unicodedata.normalize("NFKC", text))
    # What stood around an ignorable may compose now.
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", plain)).strip(" ")


def _refuse(text: str) -> None:
    for char in text:
        if char == "\0" or unicodedata.category(char) in ("Cs", "Cn"):
            kind = {"Cs": "a lone surrogate", "Cn": "an unassigned code point"}.get(
                unicodedata.category(char), "NUL"
            )
            raise ItemError(
                f"text holds {kind} (U+{ord(char):04X}), which has no canonical form; expected Unicode {UNICODE} text"
            )
