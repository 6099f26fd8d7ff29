"""Choosing distractors: planted cues vanish, nothing else appears, and the same input gives the same bytes."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from robustify.composing.choosing import Choosing, Composition, chosen, placed
from robustify.composing.form import candidate_sets, coded_form
from robustify.composing.pool import Candidate, Pool, pooled
from robustify.composing.trees import Boosted
from robustify.items.item import Item

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
        found.append(pooled(item, more))
    return found


def _shortest(pools: Sequence[Pool], found: Composition) -> float:
    won = 0.0
    for pool, picks in zip(pools, found.picks, strict=True):
        key, *others = (len(pool.texts[at]) for at in (0, *(pick + 1 for pick in picks)))
        won += (key <= min(others)) / (1 + others.count(key))
    return won / len(pools)


def test_a_cue_of_the_pool_vanishes_and_the_order_of_items_does_not_matter() -> None:
    pools = _pools(240)
    how = Choosing(rounds=3)
    found = chosen(pools, how)
    drawn = chosen(pools, Choosing(rounds=0, seed=1))
    assert _shortest(pools, found) == pytest.approx(0.25, abs=0.02)
    assert {len(picks) for picks in found.picks} == {3}
    assert found.trace[0].accuracy > 0.33 > found.trace[-2].accuracy
    assert found.picks != drawn.picks
    assert chosen(pools[::-1], how).picks == found.picks[::-1]


def test_a_pool_that_cannot_hide_its_keys_has_a_bound() -> None:
    rng, pools = random.Random(1), []
    for at in range(150):
        key, *others = (_text(rng, size) for size in (2, 5, 6, 5, 6, 7))
        item = Item(f"q{at}", f"What is the {at}th?", (key, *others[:3]), 0)
        pools.append(pooled(item, [Candidate(text, "machine") for text in others[3:]]))
    found = chosen(pools, Choosing(rounds=2))
    assert found.least["form"] > 0.9
    assert not found.quiet


def test_preferring_own_distractors_keeps_more_of_them() -> None:
    pools = _pools(120)

    def own(prefer: float) -> int:
        found = chosen(pools, Choosing(rounds=1, prefer_own=prefer))
        return sum(pick < 3 for picks in found.picks for pick in picks)

    assert own(0) + 20 < own(2.0) < own(9.0)


@pytest.mark.parametrize(
    ("n", "shown", "sizes"),
    [(0, (4, 4), set()), (3, (4, 4), {3}), (60, (3, 5), {2, 3, 4}), (60, (9, 10), {7}), (60, (2, 2), {1})],
)
def test_sets_have_the_options_asked_for_or_all_that_a_pool_has(
    n: int, shown: tuple[int, int], sizes: set[int]
) -> None:
    found = chosen(_pools(n), Choosing(shown=shown, rounds=1))
    assert {len(picks) for picks in found.picks} == sizes
    assert all(len(set(picks)) == len(picks) for picks in found.picks)


def test_a_pool_without_candidates_has_no_picks() -> None:
    item = Item("q", "Which?", ("a word", "a word"), 0)
    pools = [*_pools(60), pooled(item)]
    assert chosen(pools, Choosing(rounds=1)).picks[-1] == ()


def test_many_candidates_are_sampled_and_the_own_set_stays() -> None:
    item = Item("q", "Which?", ("key", "one", "two", "three"), 0)
    pool = pooled(item, [Candidate(f"candidate {at}", "machine") for at in range(90)])
    sets = candidate_sets([pool], (4, 4), 0)
    assert sets.option.shape[1:] == (126, 4)
    assert (0, 1, 2, 3) in set(map(tuple, sets.option[0].tolist()))
    assert chosen([pool], Choosing()).picks[0]


def test_trees_give_the_logits_of_the_library() -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]

    rng = np.random.default_rng(0)
    x = rng.integers(0, 64, (900, 7)).astype(np.uint8)
    y = x[:, 0] * 2 + x[:, 1] + rng.normal(0, 30, 900) > 90
    library = HistGradientBoostingClassifier(
        max_iter=20, learning_rate=0.35, max_leaf_nodes=10, early_stopping=False, random_state=0
    ).fit(x, y)
    own = Boosted(x, y, 20).logits(np.ascontiguousarray(x.T))
    assert np.ptp(own - library.decision_function(x)) < 1e-4


def test_the_form_of_a_set_does_not_depend_on_candidates_outside_it() -> None:
    pools = _pools(30)
    sets = candidate_sets(pools, (4, 4), 0)
    codes = coded_form(pools, sets)
    assert codes.shape == (30, 78, 35, 4)
    same = [Pool(pool.item, pool.candidates[:3]) for pool in pools]
    alone = coded_form(same, candidate_sets(same, (4, 4), 0))
    # Levels are cut by the sets at hand, so only the order of options is equal.
    rank = codes[:, 52:, 0].astype(int)
    assert (
        np.sign(rank[..., :1] - rank) == np.sign(alone[:, 52:, 0, :1].astype(int) - alone[:, 52:, 0])
    ).all()


def test_placing_is_balanced_and_repeats_itself() -> None:
    items = [pool.item for pool in _pools(41)]
    found = placed(items, 3)
    assert sorted(np.bincount([item.key for item in found])) == [10, 10, 10, 11]
    assert all(set(a.choices) == set(b.choices) for a, b in zip(found, items, strict=True))
    assert [item.choices for item in placed(found, 3)] == [item.choices for item in found]
    assert [item.choices for item in placed(found[::-1], 3)][::-1] == [item.choices for item in found]
    assert [item.key for item in placed(items, 4)] != [item.key for item in found]
