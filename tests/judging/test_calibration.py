"""Calibration: errors by hand, intervals on known truth, and a temperature that is known because we made it."""

import json
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from robustify.base.arrays import Floats, Ints
from robustify.items.scoring import picks
from robustify.judging.accuracy import BINS, ece, temperature
from robustify.judging.accuracy import bins as judge_bins
from robustify.judging.accuracy import calibration as judge_calibration
from robustify.judging.stats.intervals import wilson
from robustify.judging.summary.model_parts import COLDEST, HOTTEST
from tests.support.trees import in_trees

bins = in_trees(judge_bins)
calibration = in_trees(judge_calibration)


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
    if true_temperature != 1:
        assert found["ece"] > 0.1
        assert found["scaled_ece"] < 0.03
        assert found["scaled_brier"] < found["brier"]


def test_errors_by_hand() -> None:
    confidence = np.array([0.95, 0.95, 0.35, 0.35])
    assert ece(confidence, np.array([1.0, 0, 0, 0])) == pytest.approx((2 * 0.45 + 2 * 0.35) / 4)
    assert ece(np.array([1.0]), np.array([1.0])) == 0
    p = np.log([[0.7, 0.2, 0.1], [0.5, 0.25, 0.25]] * 5)
    found = measured(p, np.array([0, 1] * 5), np.full(10, 3))
    assert found["brier"] == pytest.approx((0.09 + 0.04 + 0.01 + 0.25 + 0.5625 + 0.0625) / 2)


def test_unanswered_rows_and_missing_choices() -> None:
    scores, key, k = simulated(5, 60, 1.0)
    wide = np.concatenate([scores, np.full((60, 2), np.nan)], axis=1)
    assert measured(wide, key, k) == measured(scores, key, k)
    gap = np.concatenate([wide, np.full((3, 6), np.nan)])
    more = np.append(key, [0, 0, 0]), np.append(k, [4, 4, 4])
    assert measured(gap, *more) == measured(scores, key, k)
    groups = np.append(np.arange(60) // 2, [99, 99, 99])
    assert measured(gap, *more, groups) == measured(scores, key, k, np.arange(60) // 2)


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


def binned(n: int, true_temperature: float, seed: int) -> tuple[Floats, Floats, Floats, Ints, Ints]:
    scores, key, k = simulated(seed, n, true_temperature)
    won, _, _ = picks(scores, key, k)
    return softmax(scores, axis=1).max(axis=1), won, scores, key, k


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


def test_scaling_cannot_flatter_itself_with_the_items_that_it_is_tested_on() -> None:
    """Scores without signal: a temperature of the same items would always improve the loss."""
    better = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scores, key = log_softmax(rng.normal(size=(20, 4)) * 0.1, axis=1), rng.integers(0, 4, 20)
        found = measured(scores, key, np.full(20, 4))
        better += found["scaled_brier"] < found["brier"] - 1e-12
    assert better < 30
