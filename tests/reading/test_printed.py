"""Lists that Python, JSON, or NumPy wrote into a text: read with all members, or refused, and never with two joined."""

import pytest

from robustify.reading.printed import MissingCommaError, literal

FOUR = ["Rome", "Sucre's", "La Paz", "x, y"]
ESCAPED = ['say "hi"', "it's", "tab\tend", "é"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("""['Rome' "Sucre's" 'La Paz' 'x, y']""", FOUR),
        ("""['Rome'\n "Sucre's"\n 'La Paz'\n 'x, y']""", FOUR),
        ("""['Rome', "Sucre's", 'La Paz', 'x, y',]""", FOUR),
        ('["Rome", "Sucre\'s", "La Paz", "x, y"]', FOUR),
        ("""array(['Rome', "Sucre's", 'La Paz', 'x, y'], dtype='<U7')""", FOUR),
        ("""[np.str_('Rome'), np.str_("Sucre's"), np.str_('La Paz'), np.str_('x, y')]""", FOUR),
        (f"[{' '.join(map(repr, ESCAPED))}]", ESCAPED),
        ("{'text': array(['a', 'b'], dtype=object), 'n': 2}", {"text": ["a", "b"], "n": 2}),
        ("['' 'b']", ["", "b"]),
        ("[0 0 1 0]", [0, 0, 1, 0]),
        ("[ 0.5  1.  -2.]", [0.5, 1.0, -2.0]),
        ("[True False]", [True, False]),
        ("[]", []),
        ("(a) red 'b' 'c'", None),
        ("[B]", None),
        ("[see the 'map' 'below']", None),
        ("Rome, 'x' 'y'", None),
        ("[" * 5000, None),
    ],
)
def test_a_printed_list_has_all_of_its_members(written: str, value: object) -> None:
    assert literal(written) == value


@pytest.mark.parametrize(
    "written",
    [
        "['Rome', 'Sucre' 'Madrid']",
        "['Rome' 'Sucre', 'Madrid']",
        '["Rome" "Sucre", "Madrid"]',
        "('Rome' 'Sucre')",
        "['it''s', 'b']",
        "{'text': ['a', 'b' 'c']}",
        "{'a': 'b' 'c': 'd'}",
        "array(['a', 'b' 'c'], dtype=object)",
    ],
)
def test_texts_without_a_comma_between_them_are_never_joined(written: str) -> None:
    with pytest.raises(MissingCommaError):
        literal(written)
