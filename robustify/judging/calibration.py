"""Calibration of model probabilities, and the temperature that calibrates them, which cannot change the best choice.

On few items, even a calibrated model has a positive calibration error, so its expected value is reported as well.
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax

from robustify.base.arrays import Floats, Ints
from robustify.items.scoring import picks
from robustify.judging.context import Context
from robustify.judging.stats.intervals import FEWEST_CLUSTERS, clusters, interval, rate, resampled
from robustify.judging.summary.scored import Calibration, CalibrationBin, CalibrationViews

BINS = 15
DRAWS = 1_000
COLDEST, HOTTEST = 1e-3, 1e3
_MOST_BAGS = 1_024
_TRIALS = 1 << 20


def calibrations(ctx: Context) -> dict[str, CalibrationViews]:
    """Return each model's calibration on the full question and on cloze, on all and on kept items."""

    def under(view: str, name: str, *, kept: bool = False) -> Calibration | None:
        rows = ctx.first_rows(view, name)
        if kept:
            rows = rows.where(ctx.parts.kept[ctx.index.index_of[rows.item]])
        if (rows.draws > 0).any():
            return None  # shares of a few sampled replies do not show the model's own error
        return calibration(rows.scores, rows.key, rows.k, ctx.row_groups(rows)) if len(rows) else None

    return {
        name: CalibrationViews(
            full=under(ctx.full, name),
            cloze_chars=under("cloze", name),
            full_kept=under(ctx.full, name, kept=True),
            cloze_chars_kept=under("cloze", name, kept=True),
        )
        for name in ctx.names
    }


def calibration(
    scores: Floats, key: Ints, k: Ints, groups: Ints | None = None, *, seed: int = 0
) -> Calibration | None:
    """Return the calibration of a softmax over the choices, or None if fewer than 10 items were answered.

    `scores` (n, K) are log probabilities up to a constant per item. `groups` (n,) are resampled together. `ece` is the
    expected calibration error in 15 equal-width bins (Guo et al. 2017). `ece_if_calibrated` is its mean for keys drawn from
    the model's confidence, and `ece_p` the share of draws that reach the observed error. `ece_ci` is conservative, because
    a plain bootstrap never covers the error of a calibrated model.
    """
    won, _, tie = picks(scores, key, k)
    rows = tie > 0
    n = int(np.count_nonzero(rows))
    if n < FEWEST_CLUSTERS:
        return None
    there = np.arange(scores.shape[1]) < k[rows, None]
    # A choice with probability 0 would make the loss infinite at every temperature.
    logits = log_softmax(np.where(there, np.maximum(scores[rows], -1e4), -np.inf), axis=1)
    key, won, probabilities = key[rows], won[rows], softmax(logits, axis=1)
    sure, loss = probabilities.max(axis=1), brier(probabilities, key)
    error = ece(sure, won)
    together = None if groups is None else groups[rows]
    scaled = _scaled(logits, key, together, seed)
    means, drawn = _resampled(_place(sure), won - sure, loss, together, seed)
    noise = np.abs(drawn[:, :BINS] - means[:BINS]).sum(axis=1)
    # Clustered items are resampled by cluster, and the bootstrap noise replaces that of a calibrated model.
    units = clusters(n, together)
    calibrated = _if_calibrated(sure, seed) if units == n else noise
    # The estimate minus the 97.5 % quantile of the noise is a lower bound for any true error.
    widest = max(float(np.quantile(noise, 0.975)), float(np.quantile(calibrated, 0.975)))
    low = max(0.0, float(np.abs(means[:BINS]).sum()) - widest)
    errors, enough = np.abs(drawn[:, :BINS]).sum(axis=1), units >= FEWEST_CLUSTERS
    return Calibration(
        ece=error,
        ece_ci=(low, float(np.quantile(errors, 0.975))) if enough else None,
        ece_if_calibrated=float(calibrated.mean()),
        ece_p=(1 + int(np.count_nonzero(calibrated >= error))) / (1 + len(calibrated)),
        brier=float(loss.mean()),
        brier_ci=interval(drawn[:, BINS]) if enough else None,
        temperature=temperature(logits, key),
        scaled_ece=ece(scaled.max(axis=1), won),
        scaled_brier=float(brier(scaled, key).mean()),
        n=n,
        bins=bins(sure, won, together),
    )


def brier(probabilities: Floats, key: Ints) -> Floats:
    """Return the squared error of each item (n,), summed over its choices (Brier 1950)."""
    right = np.arange(probabilities.shape[1]) == key[:, None]
    return np.asarray(((probabilities - right) ** 2).sum(axis=1))


def _scaled(logits: Floats, key: Ints, groups: Ints | None, seed: int) -> Floats:
    """Return the probabilities (n, K) after temperature scaling. The temperature of each random half of the items, or of
    the groups, is fitted on the other half, because a fit on the same items would flatter it."""
    units = np.arange(len(key)) if groups is None else np.unique(groups, return_inverse=True)[1]
    first = np.random.default_rng(seed).permutation(int(units.max()) + 1)[units] % 2 == 0
    out = logits
    for half in (first, ~first):
        if half.any() and not half.all():
            out = np.where(half[:, None], logits / temperature(logits[~half], key[~half]), out)
    return np.asarray(softmax(out, axis=1))


def ece(confidence: Floats, correct: Floats) -> float:
    """Return the mean gap between confidence (n,) and accuracy (n,) over 15 equal-width bins, weighted by items."""
    gap = np.bincount(_place(confidence), weights=correct - confidence, minlength=BINS)
    return float(np.abs(gap).sum() / len(confidence))


def bins(confidence: Floats, correct: Floats, groups: Ints | None = None) -> tuple[CalibrationBin, ...]:
    """Return the bins of the reliability diagram, from least to most confident, with Wilson intervals."""
    place, out = _place(confidence), []
    for b in range(BINS):
        accuracy = rate(correct[place == b], None if groups is None else groups[place == b])
        mean = float(confidence[place == b].mean()) if accuracy.n else None
        out.append(CalibrationBin(confidence=mean, accuracy=accuracy.value, n=accuracy.n, ci=accuracy.ci))
    return tuple(out)


def _place(confidence: Floats) -> Ints:
    return np.minimum((confidence * BINS).astype(np.int64), BINS - 1)


def _if_calibrated(confidence: Floats, seed: int) -> Floats:
    """Return simulated calibration errors (draws,) of a calibrated model: of items, or of the normal limits of many."""
    rng, place, n = np.random.default_rng(seed), _place(confidence), len(confidence)
    if n * DRAWS <= _TRIALS:
        right = rng.random((DRAWS, n)) < confidence
        in_bin = np.arange(BINS) == place[:, None]
        gap = (right - confidence) @ in_bin
    else:
        spread = np.bincount(place, weights=confidence * (1 - confidence), minlength=BINS)
        gap = rng.normal(size=(DRAWS, BINS)) * np.sqrt(spread)
    return np.asarray(np.abs(gap).sum(axis=1) / n)


def _resampled(
    place: Ints, gap: Floats, loss: Floats, groups: Ints | None, seed: int
) -> tuple[Floats, Floats]:
    """Return the mean gap in each bin and the mean loss (16,), with bootstrap replicates. Many units are first combined
    into random bags, which have the same spread at a lower cost (Wolter 2007)."""
    table = np.column_stack([np.where(np.arange(BINS) == place[:, None], gap[:, None], 0.0), loss])
    units = np.arange(len(loss)) if groups is None else np.unique(groups, return_inverse=True)[1]
    bags = groups if clusters(len(loss), groups) <= _MOST_BAGS else units % _MOST_BAGS
    return table.mean(axis=0), resampled(table, bags, DRAWS, seed)


def temperature(logits: Floats, key: Ints) -> float:
    """Return the temperature T that minimizes the log loss of softmax(logits / T), which is convex in 1/T.

    `logits` (n, K) are -inf beyond an item's choices. T is 1000 without signal, and 0.001 for scores that are never wrong.
    """
    columns = np.ascontiguousarray(logits.T)  # (choices, items), because sums along long rows are fast
    centred = np.asarray(columns - columns.max(axis=0))
    known = np.where(np.isfinite(centred), centred, 0.0)
    right = float(known[key, np.arange(len(key))].mean())

    def slope(at: float) -> float:
        weight = np.exp(centred * math.exp(at))
        return float(((weight * known).sum(axis=0) / weight.sum(axis=0)).mean()) - right

    hottest, coldest = -math.log(HOTTEST), -math.log(COLDEST)
    if slope(hottest) >= 0:
        return HOTTEST
    return COLDEST if slope(coldest) <= 0 else math.exp(-float(brentq(slope, hottest, coldest, xtol=1e-12)))
