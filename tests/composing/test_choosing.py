"""Choosing distractors: planted cues vanish, nothing else appears, and the same input gives the same bytes."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from robustify.composing.choosing import Choosing, Composition, choose_distractors
from robustify.composing.cue_probes import boosted_logits, candidate_sets, coded_form
from robustify.composing.pool import Candidate, Pool, make_pool
from robustify.export.mending import place_keys
from robustify.items.item import Item
from robustify.judging.baselines.features import NAMES, amounts
from robustify.judging.readers import compared_in_item
from robustify.judging.readers.fits import boosting, by_item

_NOUNS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("rn", "ll", "sk", "t", "m")]


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(_NOUNS, k=words))


def _pools(n: int, seed: int = 0) -> list[Pool]:
    """Make pools in which keys are of two to eight words, own distractors like them, and others longer by three."""
    rng, found = random.Random(seed), []
    for at in range(n):
        sizes = [rng.randint(2, 8) for _ in range(4)]
        key, *own = (_text(rng, size) for size in sizes)
        item = Item(f"q{at}", f"What is the {at}th {_text(rng, 3)}?", (key, *own), 0)
        more = [Candidate(_text(rng, sizes[0] + 3 + rng.randint(0, 2)), "machine") for _ in range(4)]
        found.append(make_pool(item, more))
    return found


def _chosen(pools: Sequence[Pool], how: Choosing) -> Composition:
    return choose_distractors(pools, how, lambda _: None)


def _shortest(pools: Sequence[Pool], found: Composition) -> float:
    won = 0.0
    for pool, picks in zip(pools, found.picks, strict=True):
        key, *others = (len(pool.texts[at]) for at in (0, *(pick + 1 for pick in picks)))
        won += (key <= min(others)) / (1 + others.count(key))
    return won / len(pools)


def test_a_cue_of_the_pool_vanishes() -> None:
    pools = _pools(200)
    found = _chosen(pools, Choosing(rounds=3))
    assert _shortest(pools, found) == pytest.approx(0.25, abs=0.02)
    assert {len(picks) for picks in found.picks} == {3}
    first, last = ((found.trace[at]["form"].value or 0.0) for at in (0, -1))
    assert first > 0.08 > last


def test_the_order_of_items_does_not_matter_and_the_seed_does() -> None:
    pools = _pools(60)
    found = _chosen(pools, Choosing(rounds=1))
    assert _chosen(pools[::-1], Choosing(rounds=1)).picks == found.picks[::-1]
    assert _chosen(pools, Choosing(rounds=1, seed=1)).picks != found.picks


def test_a_pool_that_cannot_hide_its_keys_has_a_bound() -> None:
    rng, pools = random.Random(1), []
    for at in range(150):
        key, *others = (_text(rng, size) for size in (2, 5, 6, 5, 6, 7))
        item = Item(f"q{at}", f"What is the {at}th?", (key, *others[:3]), 0)
        pools.append(make_pool(item, [Candidate(text, "machine") for text in others[3:]]))
    found = _chosen(pools, Choosing(rounds=2))
    assert found.least["form"] > 0.9


def test_preferring_own_distractors_keeps_more_of_them() -> None:
    pools = _pools(120)

    def own(prefer: float) -> int:
        found = _chosen(pools, Choosing(rounds=0, prefer_own=prefer))
        return sum(pick < 3 for picks in found.picks for pick in picks)

    assert own(0) + 20 < own(2.0) < own(9.0)


@pytest.mark.parametrize(
    ("n", "shown", "sizes"),
    [(0, (4, 4), set()), (3, (4, 4), {3}), (60, (3, 5), {2, 3, 4}), (60, (9, 10), {7}), (60, (2, 2), {1})],
)
def test_sets_have_the_options_asked_for_or_all(n: int, shown: tuple[int, int], sizes: set[int]) -> None:
    found = _chosen(_pools(n), Choosing(shown=shown, rounds=0))
    assert {len(picks) for picks in found.picks} == sizes
    assert all(len(set(picks)) == len(picks) for picks in found.picks)


def test_a_pool_without_candidates_has_no_picks() -> None:
    item = Item("q", "Which?", ("a word", "a word"), 0)
    pools = [*_pools(60), make_pool(item)]
    assert _chosen(pools, Choosing(rounds=1)).picks[-1] == ()


def test_many_candidates_are_sampled_and_the_own_set_stays() -> None:
    item = Item("q", "Which?", ("key", "one", "two", "three"), 0)
    pool = make_pool(item, [Candidate(f"candidate {at}", "machine") for at in range(90)])
    sets = candidate_sets([pool], (4, 4), 0)
    assert sets.option.shape[1:] == (126, 4)
    assert (0, 1, 2, 3) in set(map(tuple, sets.option[0].tolist()))
    assert _chosen([pool], Choosing()).picks[0]


def test_trees_give_the_logits_of_the_library() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 64, (30, 7, 10, 3)).astype(np.uint8)
    rows = np.moveaxis(x, 1, 3).reshape(-1, 7)
    library = boosting(60, 8).fit(rows, rows[:, 0] * 2 + rows[:, 1] + rng.normal(0, 30, 900) > 90)
    own = boosted_logits(library, x)
    assert own.shape == (30, 10, 3)
    assert np.ptp(own.ravel() - library.decision_function(rows)) < 1e-4


def test_the_form_of_a_set_is_what_its_auditor_sees() -> None:
    """Each set has the features of an item with these options, whatever else its pool holds."""
    pools = _pools(30)
    sets = candidate_sets(pools, (3, 4), 0)
    codes = coded_form(pools, sets)
    assert codes.shape == (30, 3 * len(NAMES), sets.option.shape[1], 4)
    for nth in (0, -1):
        items = [
            pool.item.with_choices(tuple(pool.texts[at] for at in [0, *filter(None, option)]), 0)
            for pool, option in zip(pools, sets.option[:, nth].tolist(), strict=True)
        ]
        there = sets.exists[:, nth]
        seen = compared_in_item(by_item(amounts(items), there), there)
        for f in range(seen.shape[2]):
            place, levels = np.unique(seen[there][:, f], return_inverse=True)
            code = np.array([codes[:, f, nth][there][levels == at].max() for at in range(len(place))])
            assert (np.diff(code.astype(int)) >= 0).all()


def test_placing_is_balanced_and_repeats_itself() -> None:
    items = [pool.item for pool in _pools(41)]
    found = place_keys(items, 3)
    assert sorted(np.bincount([item.key for item in found])) == [10, 10, 10, 11]
    assert all(set(a.choices) == set(b.choices) for a, b in zip(found, items, strict=True))
    assert [item.choices for item in place_keys(found, 3)] == [item.choices for item in found]
    assert [item.choices for item in place_keys(found[::-1], 3)][::-1] == [item.choices for item in found]
    assert [item.key for item in place_keys(items, 4)] != [item.key for item in found]
