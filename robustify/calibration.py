"""Whether a model's probabilities mean what they say, and the temperature at which they would.

A temperature rescales confidence only. It cannot change which choice is best, so no accuracy is ever scaled.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax

from robustify.cloze import credit

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BINS = 15
FOLDS = 5
COLDEST, HOTTEST = 1e-3, 1e3


def calibration(scores: Floats, key: Ints, k: Ints) -> dict[str, float] | None:
    """`{ece, brier, temperature, ece_scaled, n}` of a softmax over the choices; None below 10 answered items.

    `scores` (n, K) log probabilities up to a constant per item, `key` and `k` (n,). `ece`: expected
    calibration error in 15 equal bins of confidence, with tie-fair credit (Guo et al. 2017). `brier`: mean
    over items of the squared error summed over choices, 0 to 2. `temperature` minimises the likelihood loss
    over all items; `ece_scaled` is measured on items that the temperature used for them was not fitted on (5
    folds). Rows with a score missing are unanswered and left out; `n` says how many are in.
    """
    won, _, tie = credit(scores, key, k)
    rows = tie > 0
    n = int(np.count_nonzero(rows))
    if n < 2 * FOLDS:
        return None
    logits, key, won = _logits(scores[rows], k[rows]), key[rows], won[rows]
    probabilities = softmax(logits, axis=1)
    fold = np.arange(n) % FOLDS
    scaled = np.empty_like(logits)
    for f in range(FOLDS):
        scaled[fold == f] = logits[fold == f] / temperature(logits[fold != f], key[fold != f])
    return {
        "ece": ece(probabilities.max(axis=1), won),
        "brier": brier(probabilities, key),
        "temperature": temperature(logits, key),
        "ece_scaled": ece(softmax(scaled, axis=1).max(axis=1), won),
        "n": n,
    }


def ece(confidence: Floats, correct: Floats) -> float:
    """Mean gap between confidence and accuracy over 15 equal bins, weighted by items; both (n,)."""
    place = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    gap = np.bincount(place, weights=correct - confidence, minlength=BINS)
    return float(np.abs(gap).sum() / len(confidence))


def brier(probabilities: Floats, key: Ints) -> float:
    """Mean over items of the summed squares of probability minus whether it is the key (Brier 1950)."""
    right = np.arange(probabilities.shape[1]) == key[:, None]
    return float(np.mean(np.sum((probabilities - right) ** 2, axis=1)))


def temperature(logits: Floats, key: Ints) -> float:
    """The T that minimises the mean loss of softmax(logits / T), (n, K) with -inf where there is no choice.

    The loss is convex in 1/T, so its slope has one root. Scores without signal end at the bound 1000, scores
    that are never wrong at 0.001.
    """
    cold, hot = math.log(COLDEST), math.log(HOTTEST)
    if _slope(logits, key, 1 / HOTTEST) >= 0:
        return HOTTEST
    if _slope(logits, key, 1 / COLDEST) <= 0:
        return COLDEST
    return math.exp(brentq(lambda log_t: _slope(logits, key, math.exp(-log_t)), cold, hot, xtol=1e-7))


def _slope(logits: Floats, key: Ints, inverse: float) -> float:
    """The derivative of the mean loss with respect to 1/T."""
    p = softmax(logits * inverse, axis=1)
    expected = np.sum(p * np.where(np.isfinite(logits), logits, 0.0), axis=1)
    return float(np.mean(expected - np.take_along_axis(logits, key[:, None], axis=1)[:, 0]))


def _logits(scores: Floats, k: Ints) -> Floats:
    there = np.arange(scores.shape[1]) < k[:, None]
    # A choice that a model calls impossible would make the loss infinite at every temperature.
    held = np.where(there, np.maximum(scores, -1e4), -np.inf)
    return np.asarray(log_softmax(held, axis=1))
