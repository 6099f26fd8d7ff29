"""Refits with permuted keys: each is a plain ridge regression, and p-values of random keys are uniform."""

import numpy as np
import pytest
from scipy.stats import kstest

from robustify.base.arrays import Floats, Ints
from robustify.judging.readers.chance import FEWEST_REFITS, RIDGE, RidgeFits


def made(n: int, seed: int, cue: float = 0.0) -> tuple[RidgeFits, Ints]:
    """Items of two to five options with four random features, centered, in five folds, and their random keys."""
    rng = np.random.default_rng(seed)
    size = rng.integers(2, 6, n)
    key = rng.integers(size)
    starts = np.cumsum(size) - size
    x = rng.normal(size=(int(size.sum()), 4))
    x[starts + key, 0] += cue
    x -= np.repeat(np.add.reduceat(x, starts) / size[:, None], size, axis=0)
    return RidgeFits(x, size, np.arange(n) * 5 // n, seed), key


def plain_hits(fits: RidgeFits, key: Ints) -> list[bool]:
    """The hits of one assignment of keys, by a ridge regression for each fold."""
    starts, fold_of = np.cumsum(fits.size) - fits.size, np.repeat(fits.fold, fits.size)
    is_key = np.zeros(len(fits.x))
    is_key[starts + key] = 1
    scores: Floats = np.zeros(len(fits.x))
    for f in range(5):
        x, y = fits.x[fold_of != f], is_key[fold_of != f]
        weights = np.linalg.solve(x.T @ x + RIDGE * np.eye(4), x.T @ y)
        scores[fold_of == f] = fits.x[fold_of == f] @ weights
    return [
        int(scores[at : at + k].argmax()) == own for at, k, own in zip(starts, fits.size, key, strict=True)
    ]


def test_every_refit_is_a_plain_ridge_regression() -> None:
    fits, key = made(60, 0, cue=0.5)
    keys = np.column_stack([key, *(np.random.default_rng(at).integers(fits.size) for at in range(6))])
    found = fits.hits(keys)
    for column, hits in zip(keys.T, found.T, strict=True):
        assert hits.tolist() == plain_hits(fits, column)


def p_value(fits: RidgeFits, key: Ints) -> float:
    """The p-value of the residual audit."""
    by_chance = fits.hits_by_chance(FEWEST_REFITS)
    return (1 + int((by_chance >= fits.hits(key[:, None]).sum()).sum())) / (1 + len(by_chance))


def test_p_values_of_random_keys_are_uniform_and_small_where_there_is_a_cue() -> None:
    ps = np.array([p_value(*made(60, seed)) for seed in range(300)])
    assert kstest(ps, "uniform").pvalue > 0.01
    # The binomial distribution of 300 draws at 5 %, with three standard errors. Ties only make p-values larger.
    assert np.mean(ps <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)
    assert p_value(*made(60, 1, cue=1.5)) == 1 / (1 + FEWEST_REFITS)


def test_a_large_set_is_refitted_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    fits, _ = made(60, 2)
    every = fits.hits_by_chance(999)
    assert len(every) == 999
    for cells, refits in ((300 * len(fits.x), 300), (1, FEWEST_REFITS)):
        monkeypatch.setattr("robustify.judging.readers.chance._CELLS", cells)
        monkeypatch.setattr("robustify.judging.readers.chance._AT_ONCE", 128 * len(fits.x))
        assert len(fits.hits_by_chance(999)) == refits


def test_options_with_equal_features_are_told_apart_at_random() -> None:
    size = np.full(4_000, 4)
    fits = RidgeFits(np.zeros((16_000, 2)), size, np.arange(4_000) // 400, 0)
    assert fits.hits(np.zeros((4_000, 1), dtype=np.int64)).mean() == pytest.approx(0.25, abs=0.03)
