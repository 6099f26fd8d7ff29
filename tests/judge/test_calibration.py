"""Calibration: errors by hand, intervals on known truth, and a temperature that is known because we made it."""

import json
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from robustify.judge.calibration import BINS, COLDEST, HOTTEST, Floats, Ints, ece, temperature
from robustify.judge.calibration import bins as judge_bins
from robustify.judge.calibration import calibration as judge_calibration
from robustify.scoring import credit
from robustify.stats.intervals import bootstrap, wilson
from tests.support.trees import in_trees

bins = in_trees(judge_bins)
calibration = in_trees(judge_calibration)


def brier(probabilities: Floats, key: Ints) -> float:
    """Brier's score by its definition."""
    right = np.arange(probabilities.shape[1]) == key[:, None]
    return float(np.mean(np.sum((probabilities - right) ** 2, axis=1)))


def simulated(seed: int, n: int, true_temperature: float, k: int = 4) -> tuple[Floats, Ints, Ints]:
    """Scores that are `true_temperature` times too sharp: their softmax at that temperature made the keys."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k)) * 1.5
    p = softmax(logits, axis=1)
    key = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return log_softmax(logits * true_temperature, axis=1), key, np.full(n, k)


def measured(scores: Floats, key: Ints, k: Ints, groups: Any = None) -> dict[str, Any]:
    found = calibration(scores, key, k, groups)
    assert found is not None
    json.dumps(found, allow_nan=False)
    return found


@pytest.mark.parametrize("true_temperature", [0.3, 1.0, 2.5, 8.0])
def test_the_temperature_is_recovered(true_temperature: float) -> None:
    scores, key, k = simulated(1, 4_000, true_temperature)
    found = measured(scores, key, k)
    assert found["temperature"] == pytest.approx(true_temperature, rel=0.08)
    assert found["n"] == 4_000
    assert found["ece_scaled"] < 0.03
    if true_temperature != 1:
        assert found["ece"] > 0.1


def test_the_fold_that_is_measured_was_not_fitted_on() -> None:
    """Every fifth item is always right, the others 55 % of the time, and all claim the same confidence.

    Out of fold, the first are given 0.55 (44 of 80 right) and the others 0.6625 (53 of 80): both are wrong. A
    temperature fitted on the items that it is measured on would be right about both.
    """
    fold = np.arange(100) % 5
    key = np.where((fold == 0) | (np.arange(100) // 5 < 11), 0, 1)
    scores = np.tile([0.4, 0.0], (100, 1))
    found = measured(scores, key, np.full(100, 2))
    assert found["ece_scaled"] == pytest.approx((20 * 0.45 + 80 * 0.1125) / 100, abs=1e-6)


def test_errors_by_hand() -> None:
    confidence = np.array([0.95, 0.95, 0.35, 0.35])
    assert ece(confidence, np.array([1.0, 0, 0, 0])) == pytest.approx((2 * 0.45 + 2 * 0.35) / 4)
    assert ece(np.array([1.0]), np.array([1.0])) == 0
    p = np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]])
    assert brier(p, np.array([0, 1])) == pytest.approx((0.09 + 0.04 + 0.01 + 0.25 + 0.25) / 2)


def test_bins_are_fifteen_and_equal() -> None:
    # 0.46 and 0.47 are parted by the edge 7/15, 0.47 and 0.53 are not: errors cancel within one bin only.
    assert ece(np.array([0.46, 0.47]), np.array([1.0, 0.0])) == pytest.approx((0.54 + 0.47) / 2)
    assert ece(np.array([0.47, 0.53]), np.array([1.0, 0.0])) == pytest.approx(0)


def test_a_constant_added_to_an_item_changes_nothing() -> None:
    scores, key, k = simulated(2, 200, 2.0)
    shifted = scores + np.arange(200.0)[:, None]
    before, after = measured(scores, key, k), measured(shifted, key, k)
    for name in ("ece_ci", "brier_ci"):
        assert before.pop(name) == pytest.approx(after.pop(name))
    assert [b["n"] for b in before.pop("bins")] == [b["n"] for b in after.pop("bins")]
    assert before == pytest.approx(after)


def test_an_argmax_survives_every_temperature() -> None:
    scores, key, k = simulated(3, 200, 2.0)
    for t in (0.05, 1.0, 40.0):
        assert (credit(scores / t, key, k)[1] == credit(scores, key, k)[1]).all()


def test_unanswered_rows_and_missing_choices() -> None:
    scores, key, k = simulated(5, 60, 1.0)
    wide = np.concatenate([scores, np.full((60, 2), np.nan)], axis=1)
    assert measured(wide, key, k) == measured(scores, key, k)
    gap = np.concatenate([wide, np.full((3, 6), np.nan)])
    more = np.append(key, [0, 0, 0]), np.append(k, [4, 4, 4])
    assert measured(gap, *more) == measured(scores, key, k)
    groups = np.append(np.arange(60) // 2, [99, 99, 99])
    assert measured(gap, *more, groups) == measured(scores, key, k, np.arange(60) // 2)


def test_different_numbers_of_choices() -> None:
    four, two = simulated(6, 2_000, 3.0), simulated(7, 2_000, 3.0, k=2)
    scores = np.full((4_000, 4), np.nan)
    scores[:2_000], scores[2_000:, :2] = four[0], two[0]
    found = measured(scores, np.append(four[1], two[1]), np.append(four[2], two[2]))
    assert found["temperature"] == pytest.approx(3.0, rel=0.08)


def test_too_few_items_are_no_number() -> None:
    scores, key, k = simulated(8, 9, 1.0)
    assert calibration(scores, key, k) is None
    assert calibration(np.empty((0, 0)), np.empty(0, dtype=int), np.empty(0, dtype=int)) is None


def test_the_bounds_of_the_temperature() -> None:
    always = log_softmax(np.tile([2.0, 0.0], (20, 1)), axis=1)
    assert temperature(always, np.zeros(20, dtype=int)) == COLDEST
    assert temperature(always, np.ones(20, dtype=int)) == HOTTEST


def test_an_impossible_choice_does_not_break_the_fit() -> None:
    scores, key, k = simulated(9, 100, 1.0)
    scores[0, (key[0] + 1) % 4] = -np.inf
    scores[1, key[1]] = -np.inf
    found = measured(scores, key, k)
    assert all(np.isfinite(v) for v in found.values() if isinstance(v, float))


@pytest.mark.parametrize("true_temperature", [0.01, 0.5, 1.0, 3.0, 200.0])
def test_the_search_ends_where_a_plain_minimiser_does(true_temperature: float) -> None:
    scores, key, _ = simulated(10, 500, true_temperature)

    def loss(cold: float) -> float:
        p = log_softmax(scores * np.exp(cold), axis=1)
        return -float(np.take_along_axis(p, key[:, None], axis=1).mean())

    best = minimize_scalar(loss, bounds=(-6.9, 6.9), method="bounded", options={"xatol": 1e-10})
    for near in (0.01, 1.0, 500.0):
        assert temperature(scores, key, near) == pytest.approx(np.exp(-best.x), rel=1e-5)


# Intervals on known truth


def binned(n: int, true_temperature: float, seed: int) -> tuple[Floats, Floats, Floats, Ints, Ints]:
    scores, key, k = simulated(seed, n, true_temperature)
    won, _, _ = credit(scores, key, k)
    return softmax(scores, axis=1).max(axis=1), won, scores, key, k


@pytest.mark.slow
@pytest.mark.parametrize(("true_temperature", "n"), [(1.0, 100), (1.0, 1_200), (1.3, 300), (2.5, 150)])
def test_the_interval_of_the_error_covers_it(true_temperature: float, n: int) -> None:
    sure, won, *_ = binned(1_000_000, true_temperature, 99)
    truth = ece(sure, won)
    found = [measured(*simulated(seed, n, true_temperature)) for seed in range(80)]
    hits = [f["ece_ci"][0] <= truth <= f["ece_ci"][1] for f in found]
    assert np.mean(hits) >= 0.94
    assert np.mean([f["ece"] for f in found]) > truth, "few items show more than the true error"
    if true_temperature == 2.5:
        assert np.mean([f["ece_ci"][0] > 0 for f in found]) > 0.9, "a cover that never says anything is easy"


def test_the_plain_bootstrap_of_a_calibrated_model_never_covers() -> None:
    """Why the interval is not that one: resampling adds the noise once more that the error is made of."""
    low = []
    for seed in range(30):
        sure, won, *_ = binned(200, 1.0, seed)
        table = np.where(
            np.arange(BINS) == np.minimum((sure * BINS).astype(int), BINS - 1)[:, None],
            (won - sure)[:, None],
            0.0,
        )
        low.append(bootstrap(table, lambda means: np.abs(means).sum(axis=1), draws=300)[0])
    assert min(low) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 200, 3_000])
def test_a_calibrated_model_shows_the_error_that_is_expected_of_it_and_raises_no_alarm(n: int) -> None:
    found = [measured(*simulated(seed, n, 1.0)) for seed in range(100)]
    shown = np.mean([f["ece"] for f in found])
    assert np.mean([f["ece_if_calibrated"] for f in found]) == pytest.approx(shown, rel=0.07)
    assert np.mean([f["ece_p"] <= 0.05 for f in found]) <= 0.11
    assert np.mean([f["ece_p"] for f in found]) == pytest.approx(0.5, abs=0.09)


def test_a_model_that_claims_too_much_is_told() -> None:
    assert measured(*simulated(1, 300, 3.0))["ece_p"] < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("n", [150, 1_500])
def test_the_interval_of_the_brier_score_covers_it(n: int) -> None:
    *_, scores, key, _ = binned(1_000_000, 1.5, 98)
    truth = brier(softmax(scores, axis=1), key)
    found = [measured(*simulated(seed, n, 1.5))["brier_ci"] for seed in range(120)]
    assert 0.9 <= np.mean([low <= truth <= high for low, high in found]) <= 0.99


def test_copies_of_items_do_not_narrow_the_intervals() -> None:
    """A set and each of its items ten times over: with groups the intervals are as wide, without much less."""
    for n in (100, 1_100):
        scores, key, k = simulated(7, n, 1.5)
        ten = np.repeat(np.arange(n), 10)
        once, copied = measured(scores, key, k), measured(scores[ten], key[ten], k[ten], ten)
        alone = measured(scores[ten], key[ten], k[ten])
        for name in ("ece_ci", "brier_ci"):
            widths = [f[name][1] - f[name][0] for f in (once, copied, alone)]
            assert widths[1] == pytest.approx(widths[0], rel=0.15)
            assert widths[2] < 0.7 * widths[0]


def test_no_jump_where_the_normal_limit_takes_over() -> None:
    scores, key, k = simulated(3, 1_060, 1.5)
    small, large = (measured(scores[:n], key[:n], k[:n]) for n in (1_020, 1_060))
    for name in ("ece_ci", "brier_ci"):
        assert large[name] == pytest.approx(small[name], abs=0.01)
    assert large["ece_if_calibrated"] == pytest.approx(small["ece_if_calibrated"], rel=0.08)
    grouped = measured(scores, key, k, np.arange(1_060))
    for name in ("ece_ci", "brier_ci"):
        assert grouped[name] == pytest.approx(large[name], abs=0.005)


def test_below_ten_groups_there_is_no_interval() -> None:
    found = measured(*simulated(4, 90, 1.0), np.arange(90) // 10)
    assert (found["ece_ci"], found["brier_ci"]) == (None, None)
    assert found["ece"] > 0


def test_the_bins_are_the_error_drawn() -> None:
    sure, won, scores, key, k = binned(500, 2.0, 5)
    found = measured(scores, key, k)
    drawn = found["bins"]
    assert len(drawn) == BINS
    assert sum(b["n"] for b in drawn) == 500
    gaps = [b["n"] * abs(b["accuracy"] - b["confidence"]) for b in drawn if b["n"]]
    assert sum(gaps) / 500 == pytest.approx(found["ece"]) == pytest.approx(ece(sure, won))
    for i, b in enumerate(drawn):
        if b["n"]:
            assert i / BINS <= b["confidence"] <= (i + 1) / BINS
            assert b["ci"] == pytest.approx(list(wilson(b["accuracy"] * b["n"], b["n"])))
    assert bins(np.array([0.99]), np.array([1.0]))[0] == {
        "confidence": None, "accuracy": None, "n": 0, "ci": None,
    }  # fmt: skip
