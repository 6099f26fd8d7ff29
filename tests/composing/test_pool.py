"""Pools: what is a candidate, and typography that tells no writer."""

import pytest

from robustify.composing.pool import OWN, Candidate, alike, pooled, pools_of, same_form
from robustify.items.item import Item

FROST = Item("frost", "What covers the grass at dawn?", ("Rain falls.", "A thin frost.", "Warm sand."), 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a thin frost", "repeats_key"),
        ("A thin  frost", "repeats_key"),
        ("A thin frost and snow", "contains_key"),
        ("Frost", "in_key"),
        ("thin frost", "in_key"),
        ("All of the above", "refers_to_options"),
        ("Rain falls", "repeated"),
        ("\u200b ", "blank"),
        ("A thin frosting", ""),
        ("Hot tea", ""),
    ],
)
def test_what_is_no_candidate_is_set_aside_with_its_reason(text: str, why: str) -> None:
    pool = pooled(FROST, [Candidate(text, "file")])
    assert pool.aside == ((why,) if why else ())
    assert [one.writer for one in pool.candidates] == [OWN, OWN, *["file"] * (not why)]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("5", "0.5"),
        ("5", "5x"),
        ("Tt", "tt"),
        ("Tt", "TT"),
        ("-5", "5"),
        ("x²", "x2"),
        ("iron", "environment"),
    ],
)
def test_a_number_a_formula_or_a_part_of_a_word_is_a_candidate(key: str, text: str) -> None:
    item = Item("x", "Which one?", (key, "other"), 0)
    assert pooled(item, [Candidate(text, "file")]).texts == (key, "other", text)


def test_the_key_of_another_item_with_the_same_question_is_no_candidate() -> None:
    twin = Item("twin", FROST.stem, ("Dew drops", "Warm sand"), 0)
    pools = pools_of([FROST, twin], [[Candidate("dew drops.", "file")], []])
    assert [pool.aside for pool in pools] == [("other_key",), ()]
    assert "frost" not in f"{pools!r} {pools[0].candidates!r}"


@pytest.mark.parametrize(
    ("options", "same"),
    [
        (("A thin frost.", "warm sand"), ("A thin frost", "Warm sand")),
        (("It\u2019s “cold”", "It's \u00abhot\u00bb"), ("It's \"cold\"", 'It\'s "hot"')),
        (("5\u201310", "5-10", "dry \u2014 cold", "dry\u2014cold"), ("5-10", "5-10", "dry - cold", "dry - cold")),
        (("red  clay", "white\u00a0clay "), ("red clay", "white clay")),
        (("the U.S.", "in Peru."), ("the U.S.", "in Peru")),
        (("pH", "Salt"), ("pH", "Salt")),
        (("m/s", "Metres"), ("m/s", "Metres")),
        (("sin(x)", "Other"), ("sin(x)", "Other")),
        (("x²", "½ kg."), ("x²", "½ kg")),
        (("red", "blue"), ("red", "blue")),
    ],
)  # fmt: skip
def test_options_get_the_same_typography_and_keep_it(options: tuple[str, ...], same: tuple[str, ...]) -> None:
    assert alike(options) == same
    assert alike(same) == same
    assert [same_form(one) for one in options] == [same_form(one) for one in same]
