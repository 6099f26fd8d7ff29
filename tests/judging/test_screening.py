"""Key positions as the summary gives them, and what the screen's sentence is made from."""

from dataclasses import replace

import numpy as np

from robustify.base.arrays import Bools
from robustify.judging.screen.consensus import Chance, apply_rule, chance
from robustify.judging.screen.item_index import key_shares, key_spread
from robustify.judging.screening import flag_fields
from robustify.judging.summary.screen_parts import OffPosition, Screen
from robustify.report.printing import finding
from tests.support.fake_answers import Bench, bench, votes_of
from tests.support.rules import unanimous
from tests.support.trees import filled

UNANIMOUS = unanimous()


def screen_of(found: Chance, level: float = 0.05) -> Screen:
    """The numbers from which the screen's sentence is made."""
    return Screen.model_validate(filled(Screen, {**flag_fields(found), "level": level}))


def said(found: Chance, level: float = 0.05) -> str:
    return finding("screen", screen_of(found, level))


def test_the_sentence_says_when_the_excess_is_not_significant() -> None:
    clean = apply_rule(votes_of(bench(300, 2, s=0.0, agree=0.7, seed=1)), UNANIMOUS).chance()
    assert "not significant" in said(clean)
    gamed = apply_rule(votes_of(bench(300, 2, s=0.3, agree=0.7, seed=1)), UNANIMOUS).chance()
    assert f"{gamed.flagged} of 300 items" in said(gamed)
    assert "excess over" in said(replace(gamed, p=0.0137))
    assert "(p = 0.014, limit 0.005)" in said(replace(gamed, p=0.0137), 0.005)
    one = apply_rule(votes_of(bench(300, 2, s=0.4, seed=3)), UNANIMOUS).chance(np.zeros(300, dtype=np.int64))
    assert "too few" in said(one)
    nothing: Bools = np.zeros((0, 4), dtype=bool)
    assert "Nothing" in said(chance(nothing[:, 0], nothing, np.zeros(0, dtype=np.int64)))


def test_where_all_keys_are_at_one_place_the_sentence_says_so() -> None:
    b = bench(206, 3, s=0.4, options=(2,), seed=6)
    first = Bench(np.where(b.key[:, None] == 0, b.picks, 1 - b.picks), np.zeros_like(b.key), b.k, b.shortcut)
    found = apply_rule(replace(votes_of(first), placed=True), UNANIMOUS).chance()
    assert all(
        words in said(found) for words in (f"{found.flagged} of 206 items", "100 %", "not significant")
    )


def test_the_place_with_most_keys_too_many_is_named() -> None:
    places = key_spread(np.repeat([0, 1, 2, 3], [100, 100, 170, 30]), np.full(400, 4))
    assert (places.shares, places.test) == ((0.25, 0.25, 0.425, 0.075), "chi-square")
    assert places.off == OffPosition(position=2, share=0.425, even=0.25)
    told = finding("key_spread", places)
    assert all(words in told for words in ("third", "42.5 %", "25.0 %", "n = 400, p < 0.001 (chi-square)"))


def test_even_keys_have_no_sentence_and_no_items_have_no_numbers() -> None:
    even = key_spread(np.arange(400) % 4, np.full(400, 4))
    assert (even.off, even.p, even.n, finding("key_spread", even)) == (None, 1.0, 400, "")
    none = key_spread(np.full(3, -1), np.zeros(3, dtype=np.int64))
    assert none.tree() == {**dict.fromkeys(even.tree()), "n": 0}


def test_options_that_differ_in_number_are_counted_apart() -> None:
    key, k = np.array([0, 1, 0, 1, 2, 4]), np.array([2, 2, 5, 5, 5, 5])
    places = key_spread(key, k)
    assert places.tree()["by_options"] == {
        "2": {"n": 2, "shares": [0.5, 0.5]},
        "5": {"n": 4, "shares": [0.25, 0.25, 0.25, 0.0, 0.25]},
    }
    assert places.test == "drawn"
    shares = key_shares(key, k, 5)[k]
    assert shares[0].tolist() == [0.5, 0.5, 0, 0, 0]
    assert shares[2].tolist() == [0.25, 0.25, 0.25, 0.0, 0.25]
    assert np.allclose(shares.sum(axis=1), 1)
