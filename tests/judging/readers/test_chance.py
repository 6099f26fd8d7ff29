"""Gains of readers over chance, and refits with permuted keys, each of which is a plain ridge regression."""

import numpy as np
import pytest
from scipy.stats import kstest

from robustify.base.arrays import Floats, Ints
from robustify.items.item import Item
from robustify.judging.audit.auditor import AuditRate, FreshProbe, Kept
from robustify.judging.readers.chance import FEWEST_REFITS, RIDGE, RidgeFits, gains
from robustify.judging.readers.reader_rows import ProbeSettings
from robustify.judging.stats.tests import holm
from tests.judging.readers.test_readers import items_with


def test_gains_count_groups_and_leave_out_unanswered_items() -> None:
    draw = np.random.default_rng(0)
    won = (draw.random(400) < 0.45).astype(float)
    missing = np.where(np.arange(400) < 100, np.nan, won)
    found = gains({"a": won, "b": missing, "none": np.full(400, np.nan)}, np.full(400, 4))
    assert list(found) == ["a", "b"]
    a = found["a"]
    assert (a.n, found["b"].n, a.chance) == (400, 300, 0.25)
    assert a.value == pytest.approx(won.mean() - 0.25)
    assert [found[x].p_holm for x in "ab"] == holm([found[x].p for x in "ab"])
    error = np.sqrt(won.var() / 400)
    assert a.ci == pytest.approx((a.value - 1.96 * error, a.value + 1.96 * error), abs=1e-4)
    copies = gains({"a": np.tile(won, 2)}, np.full(800, 4), groups=np.tile(np.arange(400), 2))["a"]
    # Student's t with 399 degrees of freedom is as much wider than the normal.
    assert copies.ci == pytest.approx(a.ci, abs=3e-4)
    assert a.power is not None
    many = gains({"a": np.tile(won, 25)}, np.full(10_000, 4))["a"].power
    assert many is not None
    assert many > 0.9 > 0.3 > a.power


def test_an_auditor_that_is_always_right_or_always_wrong_is_told_from_luck() -> None:
    k = np.full(60, 4)
    found = gains({"right": np.ones(60), "wrong": np.zeros(60), "lucky": np.full(60, 0.25)}, k)
    assert found["right"].p_holm < 1e-9
    assert found["right"].ci[0] > 0.6
    assert found["wrong"].p > 0.99
    assert found["lucky"].p == 0.5
    (passage,) = gains({"right": np.ones(60)}, k, groups=np.zeros(60, dtype=np.int64)).values()
    assert passage.p > 0.01, "a passage is one observation"


def test_a_fresh_probe_depends_on_neither_names_nor_the_order_of_rows() -> None:
    items = items_with(lambda text: text + ", bado", n=150)

    def probed(items: list[Item]) -> AuditRate | None:
        key, k = np.array([item.key for item in items]), np.full(150, 3)
        kept = Kept(np.ones(150, dtype=bool), key, k, np.zeros((150, 3), dtype=bool))
        return FreshProbe(items, ProbeSettings(refits=199)).audit(kept)

    found = probed(items)
    assert found is not None
    assert (found.rate.n, found.p) == (150, 1 / 200)
    renamed = [Item(f"other {at}", item.stem, item.choices, item.key) for at, item in enumerate(items[::-1])]
    assert probed(renamed) == found


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
