"""Characters that nobody sees or that look like others: what is odd, what is hidden, and what stands in their place."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.base.odd_characters import CLASSES, character_name, hidden_characters, odd_characters, plainly
from robustify.base.texts import CONTROLS, in_words
from tests.support.cases import cases, contents


@pytest.mark.parametrize(("of", "text"), cases("base", "hidden_characters"))
def test_what_looks_plain_is_odd_hidden_and_mended(of: str, text: str) -> None:
    assert {own for own, _ in odd_characters(text)} == {of}
    hidden = hidden_characters(("a plain text", text, "another"))
    assert [bool(counts) for counts in hidden] == [False, True, False]
    plain = plainly(text)
    assert not odd_characters(plain)
    assert unicodedata.is_normalized("NFC", plain)
    assert plainly(plain) == plain


@pytest.mark.parametrize("text", contents("base")["normal_writing"])
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
