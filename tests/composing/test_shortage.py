"""Bounds hold for every choice from a pool, and requests name the items and the form that they lack."""

from itertools import combinations

import numpy as np
import pytest

from robustify.composing.pool import Candidate, Pool, pooled
from robustify.composing.writers import RULES, _amounts, bounds, requests
from robustify.items.item import Item

WORDS = ("ash", "birch bark", "an oak, 3 m", "Elm (old)", "far-off fir", "a row of very tall poplars.")


def _pool(name: str, key: str, *others: str) -> Pool:
    item = Item(name, f"What is {name}?", (key, others[0]), 0)
    return pooled(item, [Candidate(text, "file") for text in others[1:]])


def _drawn(n: int, size: int, seed: int) -> list[Pool]:
    rng, out = np.random.default_rng(seed), list[Pool]()
    for at in range(n):
        texts = [
            f"{WORDS[w]} {'x' * int(rng.integers(1, 4))}{j}" for j, w in enumerate(rng.integers(6, size=size))
        ]
        out.append(_pool(f"q{at}", *texts))
    return out


@pytest.mark.parametrize("seed", range(3))
def test_no_choice_brings_a_rule_below_its_bound(seed: int) -> None:
    pools = _drawn(12, 6, seed)
    for j, rule in enumerate(RULES):
        least = 0.0
        for pool in pools:
            key, *others = [_amounts(text)[j] for text in pool.texts]
            sets = [(key, *some) for some in combinations(others, 3)]
            least += min((key == max(of)) / of.count(max(of)) for of in sets)
        (bound,) = [one for one in bounds(pools, 4) if one.rule == rule]
        assert bound.least == pytest.approx(least / len(pools)), rule


def test_items_whose_key_no_candidate_matches_are_asked_for_the_form_that_they_lack() -> None:
    short = [_pool(f"s{n}", "oak 1", "an old oak", "a tall elm", "some pines") for n in range(30)]
    fine = [_pool(f"f{n}", "an old oak", "an elm", "some quite old pines", "a tall ash 2") for n in range(30)]
    worst = bounds([*short, *fine], 4)[0]
    assert (worst.rule, worst.lacking, worst.n, worst.above) == ("fewest characters", 30, 60, True)
    assert worst.least >= 0.5
    asked = requests([*short, *fine], (4, 4))
    assert [one.at for one in asked] == list(range(30))
    assert {one.form for one in asked} == {("at most 4 characters", "with a number")}


def test_nothing_is_asked_where_no_rule_is_above_chance_but_too_few_candidates_are_filled_up() -> None:
    pools = [_pool("few", "oak", "elm"), *_drawn(9, 8, 5)]
    assert [(one.at, one.n, one.form) for one in requests(pools, (4, 4))] == [(0, 2, ())]
    assert not any(one.above for one in bounds(pools, 4))
    assert requests([], (4, 4)) == ()
