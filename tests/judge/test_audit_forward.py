"""The forward probe: no key in a fit ahead of it, hits like coins on noise, a permutation p that is uniform."""

from dataclasses import replace

import numpy as np
import pytest

from robustify.arrays import Floats, Ints
from robustify.baselines.artifact_probe import ProbeSettings
from robustify.baselines.linear_probes import BLOCKS, UNSCORED, forward_blocks
from robustify.item import Item
from robustify.judge.audit.fresh import (
    FEWEST_REFITS,
    Design,
    FreshProbe,
    Kept,
    everything,
    permuted,
    refitted,
)
from robustify.stats.intervals import clopper_pearson
from tests.support.fake_answers import bench, items_of


def made(n: int, seed: int, *, signal: float = 0.0, options: tuple[int, ...] = (4,)) -> tuple[Design, Ints]:
    rng = np.random.default_rng(seed)
    size = rng.choice(np.array(options), size=n)
    key = rng.integers(0, size)
    x = rng.normal(size=(int(size.sum()), 12))
    x[np.cumsum(size) - size + key, 0] += signal
    return Design.of(x, size, np.arange(n) * BLOCKS // n, seed), key


def slowly(design: Design, key: Ints) -> Floats:
    """The forward hits by ordinary least squares with a penalty, block by block."""
    item = np.repeat(np.arange(len(key)), design.size)
    right = np.zeros(len(item))
    right[design.starts + key] = 1
    out = np.full(len(key), np.nan)
    for b in range(UNSCORED, BLOCKS):
        before = design.block[item] < b
        x = np.vstack([design.x[before], np.sqrt(50.0) * np.eye(12)])
        beta = np.linalg.lstsq(x, np.append(right[before], np.zeros(12)), rcond=None)[0]
        for i in np.flatnonzero(design.block == b):
            out[i] = np.argmax(design.x[item == i] @ beta) == key[i]
    return out


def test_the_closed_form_is_ridge_on_the_blocks_before() -> None:
    design, key = made(120, 1, signal=1.0, options=(2, 3, 5))
    forward, crossed = design.hits(key[:, None], forward=True), design.hits(key[:, None])
    np.testing.assert_array_equal(np.where(design.scored, forward[:, 0], np.nan), slowly(design, key))
    assert crossed.any()
    arrangements = np.column_stack(
        [key, *(np.random.default_rng(s).integers(0, design.size) for s in range(3))]
    )
    for first in (True, False):
        together = design.hits(arrangements, forward=first)
        for c in range(4):
            alone = design.hits(arrangements[:, [c]], forward=first)
            np.testing.assert_array_equal(together[:, [c]], alone)


def test_a_key_changes_no_pick_of_its_own_block_or_before() -> None:
    design, key = made(100, 2, signal=0.5)
    forward = design.hits(key[:, None], forward=True)[:, 0]
    other = key.copy()
    other[85] = (key[85] + 1) % 4
    again = design.hits(other[:, None], forward=True)[:, 0]
    same = (design.block <= design.block[85]) & (np.arange(100) != 85)
    np.testing.assert_array_equal(forward[same], again[same])


def test_hits_on_noise_are_a_coin_s_and_their_interval_covers() -> None:
    n, sets, won, covered = 100, 300, [], 0
    for seed in range(sets):
        design, key = made(n, seed)
        hits = design.hits(key[:, None], forward=True)[design.scored]
        won.append(hits.sum())
        low, high = clopper_pearson(int(hits.sum()), hits.size)
        covered += low <= 0.25 <= high
    scored = n * (BLOCKS - UNSCORED) // BLOCKS
    assert np.mean(won) == pytest.approx(scored / 4, abs=3 * np.sqrt(scored * 0.1875 / sets))
    assert np.var(won) == pytest.approx(scored * 0.1875, rel=0.3), (
        "a coin's, though all are fitted on one set"
    )
    assert covered >= 0.93 * sets


@pytest.mark.slow
def test_the_permutation_p_is_uniform_on_noise() -> None:
    noise = np.array([refitted(*made(80, seed), refits=99).p for seed in range(200)])
    assert np.mean(noise <= 0.05) <= 0.05 + 3 * np.sqrt(0.0475 / 200)
    assert np.mean(noise <= 0.5) == pytest.approx(0.5, abs=0.12)


def test_a_cue_has_the_smallest_p_that_the_refits_allow() -> None:
    found = refitted(*made(80, 1, signal=2.0), refits=199)
    assert (found.p, found.refits) == (1 / 200, 199)
    assert np.isnan(found.credit).sum() == 16


def test_cross_fitted_hits_vary_more_than_a_coin_s() -> None:
    """Which is why permuted keys and no binomial give their p."""
    right = np.array([np.count_nonzero(d.hits(key[:, None])) for d, key in (made(80, s) for s in range(400))])
    assert np.var(right) > 1.15 * 80 * 0.1875


def test_very_many_options_get_fewer_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustify.judge.audit.fresh._CELLS", 4 * 80 * 250)
    assert refitted(*made(80, 1)).refits == 250
    monkeypatch.setattr("robustify.judge.audit.fresh._CELLS", 1)
    assert refitted(*made(80, 1)).refits == FEWEST_REFITS
    assert sum(len(lot) for lot in permuted(made(80, 1)[0], 30, 0)) == 30


# Blocks and groups


def test_a_group_is_never_cut() -> None:
    groups = np.repeat(np.arange(20), 5)
    blocks = forward_blocks(groups)
    assert (np.diff(blocks) >= 0).all()
    assert all(len(np.unique(blocks[groups == g])) == 1 for g in range(20))
    assert set(forward_blocks(np.arange(100)).tolist()) == set(range(BLOCKS))
    assert len(forward_blocks(np.arange(0))) == 0


def kept(items: list[Item]) -> Kept:
    key, k = (np.array([getattr(i, name) for i in items], dtype=np.int64) for name in ("key", "k"))
    return everything([i.id for i in items], key, k)


def test_copies_of_an_item_count_once_and_a_passage_stays_in_one_block() -> None:
    items = items_of(bench(80, 1, seed=3))
    copies = [replace(i, id=f"{i.id}-{n}") for n in range(3) for i in items]
    once = FreshProbe(copies, ProbeSettings()).fitted(kept(copies))
    assert len(once.at) == 80
    passages = [replace(i, group=f"p{n % 20}") for n, i in enumerate(items)]
    found = FreshProbe(passages, ProbeSettings()).fitted(kept(passages))
    assert len(found.at) == 80
    block = dict(zip(found.at.tolist(), found.design.block.tolist(), strict=True))
    assert all(len({block[i] for i in range(g, 80, 20)}) == 1 for g in range(20))


def test_options_that_selection_closed_are_neither_fitted_nor_picked() -> None:
    items = items_of(bench(90, 1, seed=4))
    whole = kept(items)
    would = np.zeros_like(whole.would)
    would[np.arange(90), (whole.key + 1) % 4] = True
    found = FreshProbe(items, ProbeSettings()).fitted(replace(whole, would=would))
    assert set(found.design.size.tolist()) == {3}
    assert (found.key < 3).all()
    np.testing.assert_allclose(np.add.reduceat(found.design.x, found.design.starts), 0, atol=1e-9)
    audit = FreshProbe(items, ProbeSettings()).of(replace(whole, would=would))
    assert audit.chance == pytest.approx(1 / 3)
    only = np.ones_like(would)
    only[np.arange(90), whole.key] = False
    assert FreshProbe(items, ProbeSettings()).of(replace(whole, would=only)) is None, "nothing is left open"


def test_the_fresh_probe_of_the_same_items_is_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    items = items_of(bench(90, 1, seed=5))
    probe, fits = FreshProbe(items, ProbeSettings()), []
    fit = probe.fitted
    monkeypatch.setattr(probe, "fitted", lambda k: fits.append(1) or fit(k))
    first = probe.of(kept(items))
    assert first is not None
    assert probe.of(kept(items)) is first
    assert len(fits) == 1
    assert FreshProbe(None, ProbeSettings()).of(kept(items)) is None
    assert FreshProbe(items[:40], ProbeSettings()).of(kept(items[:40])) is None
