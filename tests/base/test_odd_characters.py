"""Characters that nobody sees or that look like others: what is odd, what is hidden, and what stands in their place."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.base.odd_characters import CLASSES, character_name, hidden_characters, odd_characters, plainly
from robustify.base.texts import CONTROLS, in_words

WRITTEN = {
    "invisible": ["ta\u200bble", "ta\u200dble", "ta\ufeffble", "ta\u200eble", "ta\u00adble", "ta\ufe0fble",
        "ta\U000e0041ble"],
    "space": ["a\u00a0bee", "a\u2009bee", "a\u200abee", "a\u2007bee", "a\u3000bee", "a\u202fbee", "a\tbee", "a\u2800bee",
              "a\u2028bee", "a\u3164bee"],
    "form": ["ta\uff42le", "\ufb01sh", "\u2163 kings", "\u212a"],
    "alphabet": ["t\u0430ble", "spok\u0435", "\u0410 table", "f\u03bfx", "\u0441\u043e\u0440 of tea",
        "\u0441\u0442a\u043b"],
    "accent": ["cafe\u0301", "E\u0300ve"],
}  # fmt: skip
"""Texts with one hidden character or more, by class."""


@pytest.mark.parametrize(("of", "text"), [(of, text) for of, texts in WRITTEN.items() for text in texts])
def test_what_looks_plain_is_odd_hidden_and_mended(of: str, text: str) -> None:
    assert {own for own, _ in odd_characters(text)} == {of}
    hidden = hidden_characters(("a plain text", text, "another"))
    assert [bool(counts) for counts in hidden] == [False, True, False]
    plain = plainly(text)
    assert not odd_characters(plain)
    assert unicodedata.is_normalized("NFC", plain)
    assert plainly(plain) == plain


NATURAL = [
    "\u03b8\u03c6j", "\u0393\u0394T",
    "It\u2019s \u201cso\u201d \u2013 or not\u2026", "x\u00b2 + 1", "5 \u00b5m", "5 \u03bcm", "h\u03bd", "\u0394H",
    "sin \u03b1", "\u00bd cup", "na\u00efve", "10\u00a0000",
    "50\u202f%", "5\u00a0km", "\u00ab\u00a0oui\u00a0\u00bb", "two.  Sentences", "if a:\n    b",
    "HIV-\u0438\u043d\u0444\u0435\u043a\u0446\u0438\u044f", "\u0434\u043e\u043c \u0438 \u0441\u0430\u0434",
    "x\u0304",
    "\u0645\u06cc\u200c\u0631\u0648\u0645", "\uff11\u5e74\uff08\u5e73\u621012\u5e74\uff09",
    "\u6771\u4eac\u3000\u5927\u962a", "\u0915\u094d\u200d\u0937", "H\u2082O", "\u2116 5", "\u2122",
]  # fmt: skip
"""Symbols, typography, and the normal writing of other scripts."""


@pytest.mark.parametrize("text", NATURAL)
def test_what_writers_need_is_not_called_hidden(text: str) -> None:
    assert not hidden_characters((text, "a plain text"))


def test_what_all_options_have_does_not_distinguish_them() -> None:
    assert hidden_characters(("a\u00a0b", "c\u00a0d")) == []
    assert hidden_characters(("\uff21", "\uff22", "\uff23")) == []
    assert hidden_characters((" a", "b\u00a0")) == []
    assert hidden_characters(("red\u00a0or\u00a0blue", "grey")) == [{"\u00a0": 2}, {}]


def test_characters_have_names() -> None:
    assert character_name("\u00a0") == "U+00A0 NO-BREAK SPACE"
    assert character_name("\t") == "U+0009 TAB"
    assert character_name("\x01").startswith("U+0001 ")
    assert odd_characters("a   b") == [("space", "  ")]
    assert character_name("  ") == "several spaces"


@given(st.text(max_size=30))
def test_any_text_has_classes_and_a_stable_plain_form(text: str) -> None:
    assert {of for of, _ in odd_characters(text)} <= set(CLASSES)
    plain = plainly(text)
    assert plainly(plain) == plain
    assert hidden_characters((text, text)) == []
    if not any(of == "alphabet" for of, _ in odd_characters(text)):
        assert letters(plain) == letters(text)


def letters(text: str) -> str:
    """Return the letters and signs of a text in the form in which words are compared."""
    return "".join(CONTROLS.sub("", in_words(text)).replace("\u2800", "").split())
