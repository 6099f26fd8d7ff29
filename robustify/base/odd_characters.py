"""Find invisible and look-alike characters in a text, classify them, and replace them.

Texts are compared in a normal form (`texts`), but audited as they are written, because one such character in every key
gives all keys away.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from robustify.base.texts import CONTROLS, EDGES, INVISIBLE, LOOKALIKES, is_blank

OddClass = Literal["invisible", "space", "form", "alphabet", "accent"]
CLASSES: tuple[OddClass, ...] = OddClass.__args__  # type: ignore[attr-defined]
"""Characters without a picture, blanks other than single spaces, compatibility forms such as full-width letters, letters of
another alphabet in a word, and combining marks on Latin letters."""
_SAME = {
    like: plain.upper() if like.isupper() else plain
    for plain, likes in LOOKALIKES.items()
    for like in likes
    if like in "аАВсСԁеЕһНіІјЈКМоОрРԛЅѕТԝуУхХΑΒΕΖΗΙΚΜΝΟΡΤΥΧο"
}
"""Cyrillic and Greek letters that look exactly like a Latin letter. Small Greek letters are common as symbols."""
_CYRILLIC = {latin: like for like, latin in _SAME.items() if like > "\u0400"}
_WORD = re.compile(r"[^\W\d_]+")
_SPACE = re.compile(r"  +|[^\S ]|[\u2800\u115f\u1160\u3164\uffa0]")
_BLANKS = re.compile(r"[\s\u2800\u115f\u1160\u3164\uffa0]+")
_STYLED = re.compile("<(?:font|super|sub|circle|square|fraction)>")
_MARK = re.compile("[A-Za-z\u00c0-\u024f][\u0300-\u036f]+")
_TYPESET = re.compile(
    "(?<=[0-9])[\xa0\u2009\u202f]|[\xa0\u2009\u202f](?=[0-9%‰°:;?!»\u2013\u2014])|(?<=«)[\xa0\u202f]"
)
"""Blanks that typography asks for, as between a number and its unit."""
_ALPHABETS = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC")
_LAST_ALPHABET = "\u058f"
"""End of the Latin, Greek, Cyrillic, and Armenian letters. Behind it, joiners and wide forms are part of normal writing."""
_NAMES = {"\t": "TAB", "\n": "LINE FEED", "\r": "CARRIAGE RETURN"}


def odd_characters(text: str) -> list[tuple[OddClass, str]]:
    """Return the odd characters of a text, each with its class. A run of several spaces counts as one character."""
    if _is_plain(text):
        return []
    odd: list[tuple[OddClass, str]] = [("space", blank[:2]) for blank in _SPACE.findall(text)]
    odd += [
        ("accent", mark) for letter in _MARK.findall(text) for mark in letter[1:] if not INVISIBLE.match(mark)
    ]
    odd += [(of, sign) for sign in text if (of := _class(sign))]
    return odd + [("alphabet", text[i]) for i in _foreign(text)]


def hidden_characters(choices: Sequence[str]) -> list[Counter[str]]:
    """Count the invisible and look-alike characters in each option.

    The list is empty unless the options differ in the classes of these characters. Blanks at the ends, and scripts that
    use such characters normally, are left out."""
    texts = ["" if is_blank(choice) else choice.strip(EDGES) for choice in choices]
    odd = list(map(odd_characters, texts))
    if not any(odd) or not all(map(_is_alphabetic, texts)):
        return []
    rows = [[(of, c) for of, c in row if _hidden(of, c, text)] for row, text in zip(odd, texts, strict=True)]
    differ = len({frozenset(of for of, _ in row) for row in rows}) > 1
    return [Counter(c for _, c in row) for row in rows] if differ else []


def plainly(text: str) -> str:
    """Remove invisible characters, and replace other odd characters with plain ones that look the same. These are unusual
    blanks, full-width letters, ligatures, separate accents, and letters of another alphabet in a word. Line breaks and
    adjacent blanks stay."""
    if _is_plain(text) or not _is_alphabetic(text):
        return text
    foreign = {*_foreign(text)}
    signs = (_counterpart(c, text) or c if i in foreign else _plain(c) for i, c in enumerate(text))
    plain = unicodedata.normalize("NFC", "".join(signs))
    return plain if "\n" in plain else _BLANKS.sub(" ", plain)


def character_name(sign: str) -> str:
    """Return the code point and Unicode name of a character, such as `U+00A0 NO-BREAK SPACE`."""
    if len(sign) > 1:
        return "several spaces"
    return f"U+{ord(sign):04X} {_NAMES.get(sign) or unicodedata.name(sign, 'without a name')}"


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and "  " not in text


def _is_alphabetic(text: str) -> bool:
    """Return whether all letters of a text belong to scripts in which joiners, wide forms, and unusual blanks are odd."""
    return text.isascii() or not any(
        c > _LAST_ALPHABET and c.isalpha() and not (_class(c) or _SPACE.match(c)) for c in text
    )


@lru_cache(maxsize=1 << 16)
def _class(sign: str) -> OddClass | None:
    """Return the class of a character that is odd in any text, or None. Blanks are classified elsewhere, in context."""
    if _SPACE.fullmatch(sign) or (sign.isascii() and sign.isprintable()):
        return None
    if INVISIBLE.match(sign) or CONTROLS.match(sign):
        return "invisible"
    return None if unicodedata.normalize("NFKC", sign) == sign else "form"


@lru_cache(maxsize=1 << 16)
def _alphabet(letter: str) -> str:
    name = "LATIN" if letter.isascii() else unicodedata.name(letter, "").partition(" ")[0]
    return name if name in _ALPHABETS else ""


def _foreign(text: str) -> list[int]:
    """Return the positions of look-alike letters in a Latin text, or else of letters that are not of the main alphabet of
    their word."""
    if text.isascii():
        return []
    of = [_alphabet(c) if c.isalpha() else "" for c in text]
    others = [i for i, name in enumerate(of) if name not in ("", "LATIN")]
    if "LATIN" in of and all(text[i] in _SAME for i in others):
        return others
    return [i for word in _WORD.finditer(text) for i in _fewer(of, *word.span())]


def _fewer(of: Sequence[str], start: int, end: int) -> Iterator[int]:
    counts = Counter(filter(None, of[start:end]))
    main = max(counts, key=lambda name: (counts[name], name == "LATIN"), default="")
    return (i for i in range(start, end) if of[i] not in ("", main))


def _counterpart(letter: str, text: str) -> str:
    """Return the letter of the main alphabet that looks exactly like `letter`, or "" if there is none. Latin letters in
    Greek words are symbols."""
    return _SAME.get(letter, "") or (_CYRILLIC.get(letter, "") if re.search("[\u0400-\u052f]", text) else "")


def _hidden(of: OddClass, sign: str, text: str) -> bool:
    """Return whether an odd character is invisible or looks like a plain one. Defects of other kinds do not count."""
    match of:
        case "invisible":
            return not CONTROLS.match(sign)
        case "space":
            # Programs and tables are indented, and a typist may put two spaces after a sentence.
            return len(sign) == 1 and "\n" not in text and sign in _TYPESET.sub("", text)
        case "form":
            plain = unicodedata.normalize("NFKC", sign) if sign.isalnum() else ""
            return plain.isascii() and plain.isalnum() and not _STYLED.match(unicodedata.decomposition(sign))
        case "alphabet":
            return bool(_counterpart(sign, text))
        case "accent":
            return not unicodedata.is_normalized("NFC", text)


def _plain(sign: str) -> str:
    match _class(sign):
        case "invisible":
            return ""
        case "form" if _hidden("form", sign, sign):
            return unicodedata.normalize("NFKC", sign)
    return sign
