"""The cut: its arithmetic, its share of false flags in simulations, and what it says when nothing can be found."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from bench.simulate.dependent import DEPENDENT, LATER, UNSEEN
from robustify.base.arrays import Bools, Floats, Ints
from robustify.items.answers import Answers
from robustify.judging.screen.certainty import shortcut_if_hit
from robustify.judging.screen.decoy_filter import (
    Cells,
    Cutoff,
    false_share_interval,
    flags,
    hits_per_miss,
    lowest_cutoff,
    shortcut_share,
)
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.ranking import Ranker
from robustify.judging.screen.screen_rules import ScreenRules
from tests.support.cases import contents
from tests.support.contexts import context_of
from tests.support.fake_answers import bench, rows


def world(
    rng: np.random.Generator, n: int, s: float, k: tuple[int, ...] = (4,), steps: int = 0
) -> tuple[Floats, Bools, Floats, Bools]:
    """Weights, hits, null probabilities and which items have a shortcut; shortcuts are ranked higher, and hit."""
    real = rng.random(n) < s
    null = 1 / rng.choice(k, size=n)
    weight = rng.normal(size=n) + 2.0 * real
    if steps:
        weight = np.round(weight * steps) / steps
    return weight, real | (rng.random(n) < null), null, real


def test_the_cut_by_hand() -> None:
    hit = np.array([1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0], dtype=bool)
    weight = np.arange(13, 0, -1) / 13
    cut = lowest_cutoff(weight, hit, np.full(13, 1 / 3), 0.1)
    # After 12 items: 10 hits and two misses, (1/3 + 2/3) / 10; after 13 D is 4/3.
    assert (cut.hits, cut.misses, cut.n) == (10, 2, 13)
    assert cut.decoys == pytest.approx(1)
    assert cut.false_share.value == pytest.approx(0.1)
    assert cut.threshold == weight[11]
    assert lowest_cutoff(weight, hit, np.full(13, 1 / 3), 0.09).false_share.value == pytest.approx(2 / 30)
    assert lowest_cutoff(weight, hit, np.full(13, 1 / 3), 0.05).threshold is None


def test_no_item_and_a_sure_null_flag_nothing() -> None:
    nothing = Cutoff(0)
    assert lowest_cutoff(np.empty(0), np.empty(0, dtype=bool), np.empty(0), 0.1) == nothing
    sure = lowest_cutoff(np.ones(50), np.ones(50, dtype=bool), hits_per_miss(np.ones(50)), 0.1)
    assert sure.threshold is None
    assert sure.hits == 0


@pytest.mark.parametrize("k", [(4,), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("s", [0.0, 0.1, 0.35])
def test_the_share_of_false_flags_is_at_most_q(k: tuple[int, ...], s: float) -> None:
    q, shares = 0.1, []
    rng = np.random.default_rng(int(100 * s) + len(k))
    for _ in range(200):
        weight, hit, null, real = world(rng, 360, s, k, steps=20)
        cut = lowest_cutoff(weight, hit, hits_per_miss(null), q)
        flagged = hit & (weight >= (np.inf if cut.threshold is None else cut.threshold))
        shares.append(float((flagged & ~real).sum() / max(1, flagged.sum())))
    error = np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) <= q + 3 * error
    if s == 0.35 and k == (4,):
        assert np.mean(shares) > 0.02, "the control: it does find something"


def families(rng: np.random.Generator, sizes: Ints) -> tuple[Floats, Bools, Bools, Ints]:
    """Families whose items are hits or misses together and rank alike; a third has a shortcut."""
    of = np.repeat(np.arange(len(sizes)), sizes)
    real = rng.random(len(sizes)) < 1 / 3
    weight, hit = rng.normal(size=len(sizes)) + 1.5 * real, real | (rng.random(len(sizes)) < 0.25)
    return weight[of] + 0.01 * rng.normal(size=len(of)), hit[of], real[of], of


@pytest.mark.parametrize(("size", "margin"), [(1, 1.0), (4, 4.0), (4, 1.0), (8, 8.0)])
def test_a_margin_of_a_family_keeps_the_promise_and_one_miss_does_not(size: int, margin: float) -> None:
    rng, shares, covered = np.random.default_rng(3), [], []
    for _ in range(400):
        weight, hit, real, _ = families(rng, np.full(360 // size, size))
        cut = lowest_cutoff(weight, hit, np.full(len(hit), 1 / 3), 0.1, margin=margin)
        flagged = hit & (weight >= (np.inf if cut.threshold is None else cut.threshold))
        shares.append(float((flagged & ~real).sum() / max(1, flagged.sum())))
        fixed = hit & (weight > 0.5)
        misses = int((~hit & (weight > 0.5)).sum())
        low, high = false_share_interval(int(fixed.sum()), misses, 1 / 3, margin)
        covered.append(low <= (fixed & ~real).sum() / fixed.sum() <= high)
    error = np.std(shares) / np.sqrt(len(shares))
    if margin == size:
        assert np.mean(shares) <= 0.1 + 3 * error
        assert np.mean(covered) >= 0.93
    else:
        assert np.mean(covered) < 0.85


@pytest.mark.parametrize(
    ("world", "least", "most"), [("plain", 1.0, 1.5), ("five variants with other numbers", 3.5, 6.0)]
)
def test_the_size_of_families_is_found(world: str, least: float, most: float) -> None:
    found = []
    for seed in range(3):
        items = (DEPENDENT | LATER)[world](240, np.random.default_rng(seed)).items
        found.append(context_of(items).screen.decision.cutoff.margin)
    assert least <= np.mean(found) <= most


def test_translations_that_nothing_pairs_have_a_margin_of_their_alphabets() -> None:
    items = LATER[UNSEEN](240, np.random.default_rng(0)).items
    assert context_of(items).screen.decision.cutoff.margin == pytest.approx(4, abs=0.2)
    declared = [replace(item, group=f"g{n}") for n, item in enumerate(items[:120])]
    twice = declared + [replace(item, id=f"{item.id}b") for item in declared]
    assert context_of(twice).screen.ranking.unpaired == 1


def test_the_interval_by_hand() -> None:
    assert false_share_interval(0, 3, 1 / 3) == (0.0, 1.0)
    low, high = false_share_interval(100, 0, 1 / 3)
    # Before the first miss, v hits by chance or fewer have probability 1 - 0.25 ** (v + 1) >= 0.975 from v = 2 on.
    assert (low, high) == (0.0, 0.02)


def test_the_share_of_shortcuts_is_logistic_in_the_scorers_probability() -> None:
    draw, at = np.random.default_rng(0), np.array([0.1, 0.4, 0.9])
    probable, null = draw.random(40_000), draw.choice([1 / 2, 1 / 4], 40_000)
    true = expit(-1 + 2.5 * logit(probable))
    hit = draw.random(40_000) < true + (1 - true) * null
    every = np.ones(40_000, dtype=bool)
    found = shortcut_share(Cells.of(probable, hit, null), every, at)
    assert found == pytest.approx(expit(-1 + 2.5 * logit(at)), abs=0.02)
    # Keys by chance: no probability of the scorer means anything.
    by_chance = Cells.of(probable, draw.random(40_000) < null, null)
    assert shortcut_share(by_chance, every, at).max() < 0.02
    # Without items, the prior.
    assert shortcut_share(by_chance, ~every, at) == pytest.approx(expit(-1 + 1.5 * logit(at)))


CELLS = contents("judging")["benches_of_shortcuts"]


def test_the_probability_of_a_shortcut_holds() -> None:
    """By isotonic regression, .42 was stated for items of which .25 had a shortcut, and up to .7 on clean sets."""
    said, true = [], []
    for seed in range(40):
        b = bench(300, 3, agree=0.4, **CELLS[seed % len(CELLS)], seed=seed)
        answers = Answers.of(rows(b, rotations=False))
        index = item_index(answers, b.ids)
        found = flags(Ranker(answers, index).rank(ScreenRules()), index.key, 0.1)
        said.append(found.shortcut[found.hit])
        true.append(b.shortcut[found.hit])
    p, real = np.concatenate(said), np.concatenate(true)
    for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 0.8), (0.8, 1.01)):
        some = (p >= low) & (p < high)
        assert real[some].mean() == pytest.approx(p[some].mean(), abs=0.09)


def test_of_hits_above_chance_the_rest_are_shortcuts() -> None:
    h, c = np.array([0.25, 0.625, 1.0, 1.0]), np.array([0.25, 0.25, 0.25, 1.0])
    # 0.625 = 0.5 + 0.5 / 4, so half of these items have one, of a hit 0.5 / 0.625.
    assert shortcut_if_hit(h, c) == pytest.approx([0, 0.8, 1, 0])
