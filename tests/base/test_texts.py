"""Normal forms of texts, and the list of invisible characters."""

import pytest

from robustify.base.errors import ItemError
from robustify.base.texts import (
    INVISIBLE,
    bare,
    compatible,
    edges,
    escaped,
    folded,
    identity,
    in_words,
    is_blank,
    undressed,
    unspaced,
)
from robustify.reading.loaders.rows import cell_label
from robustify.restricted.ids import canonical
from tests.support.cases import cases, contents


def test_the_invisible_characters_are_those_of_the_published_form_of_keyed_ids() -> None:
    wanted = set()
    for span in contents("base")["invisible"]:
        first, _, last = span.partition("-")
        wanted |= set(range(int(first, 16), int(last or first, 16) + 1))
    assert {code for code in range(0x110000) if INVISIBLE.match(chr(code))} == wanted
    assert {code for code in wanted if identity(f"a{chr(code)}b") != "ab"} == set()


def test_each_purpose_has_its_form() -> None:
    text = " Na\u00efve\u200b\u3000\uff21 \n"
    assert identity(text) == canonical(text) == "Na\u00efve A"
    assert unspaced(text) == "Na\u00efve\u200b \uff21"
    assert folded(text) == "na\u00efve\u200b a"
    assert compatible(text) == " Na\u00efve A \n"
    assert in_words(text) == " na\u00efve a \n"
    assert escaped(text + "\u200c\u202e\x1b") == " Na\u00efve\\u200b\u3000\uff21 \\x0a\u200c\\u202e\\x1b"


def test_only_shared_blanks_are_taken_off() -> None:
    for texts, cut, expected in cases("base", "undressed"):
        assert undressed(texts, cut=cut) == tuple(expected)
    assert edges(" \ta b\u200b") == (" \t", "\u200b")
    assert edges(" \n") == (" \n", "")
    assert (bare(" \ta b\u200b"), bare(" \n")) == ("a b", " \n")


@pytest.mark.parametrize("text", ["", " \t", "\u200b", "\u2800", "\ufff9\ufffb", "\U000e0041", "\x00\u3164"])
def test_texts_without_visible_characters_are_blank(text: str) -> None:
    assert is_blank(text)
    assert not is_blank(f"{text}x")


@pytest.mark.parametrize("char", ["\x1b", "\u2028", "\u200b", "\u202e", "\u061c", "\ufeff"])
def test_no_label_contains_what_a_terminal_would_obey_or_hide(char: str) -> None:
    with pytest.raises(ItemError) as error:
        cell_label({"id": f"a{char}b"}, "id")
    assert error.value.code == "control-characters"
