"""Strength by which items are sorted: the rank, within the fold, of the probability that the item has a shortcut.

If the top has probability W and is the key, the item has a shortcut with probability (W - c) / ((1 - c) W), where c is 1 /
k. Fits for different folds differ in scale, so items are compared only within a fold. Copies count once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustify.arrays import Bools, Floats, Ints, tied
from robustify.baselines.conditional_logit import log_probabilities
from robustify.screen.votes import TIED, UNANSWERED


@dataclass(frozen=True, repr=False)
class CrossFit:
    """Cross-fitted logits (n, K), with the fold of each item (n,).

    `missing` (n,) is the largest contribution that missing answers could make if they all agreed.
    """

    fold: Ints
    logits: Floats
    missing: Floats


def top_options(log_p: Floats) -> tuple[Ints, Floats]:
    """Return the best option of each item (n,), -1 if unknown or -2 if tied, and its log probability (n,)."""
    best = np.where(np.isnan(log_p), -np.inf, log_p).max(axis=1, initial=-np.inf)
    there = np.isfinite(best)
    shared = tied(log_p, np.where(there, best, np.inf)[:, None]).sum(axis=1)
    top = np.where(shared == 1, np.nan_to_num(log_p, nan=-np.inf).argmax(axis=1), TIED)
    return np.where(there, top, UNANSWERED), best


def mean_logits(fits: Sequence[CrossFit]) -> Floats:
    """Return the mean logits over partitions (n, K)."""
    return np.asarray(np.mean([fit.logits for fit in fits], axis=0))


def strengths(fits: Sequence[CrossFit], there: Bools, ranked: Bools, counted: Bools) -> Floats:
    """Return each `ranked` item's mean rank among the `counted` items of its fold (n,), from 0 to 1. Others are NaN."""
    out, at = np.full(len(ranked), np.nan), np.flatnonzero(ranked)
    out[at] = _ranks(fits, there, counted, at, [fit.logits[at] for fit in fits])
    return out


def reachable_strengths(fits: Sequence[CrossFit], there: Bools, ranked: Bools, counted: Bools) -> Floats:
    """Return the strength (n, K) of an item if all missing answers were for one option and made that option the top.

    NaN if no answer is missing, or if another option would remain the top.
    """
    out, k = np.full(there.shape, np.nan), np.maximum(there.sum(axis=1, keepdims=True), 2)
    missing = np.mean([fit.missing for fit in fits], axis=0)
    for j in range(there.shape[1]):
        # A voter that prefers one option and is indifferent between the others, in standardized scores.
        picked = np.arange(there.shape[1]) == j
        alone = np.where(there, np.where(picked, np.sqrt(k - 1), -1 / np.sqrt(k - 1)), 0.0)
        at = np.flatnonzero(ranked & (missing > 0) & there[:, j])
        logits = mean_logits(fits)[at] + missing[at, None] * alone[at]
        at = at[top_options(log_probabilities(logits, there[at]))[0] == j]
        own = [fit.logits[at] + fit.missing[at, None] * alone[at] for fit in fits]
        out[at, j] = _ranks(fits, there, counted, at, own)
    return out


def _ranks(
    fits: Sequence[CrossFit], there: Bools, counted: Bools, at: Ints, logits: Sequence[Floats]
) -> Floats:
    """Return the within-fold ranks (m,) of the items `at` (m,), averaged over fits, given their `logits` in each fit."""
    ranks = np.full((len(fits), len(at)), np.nan)
    for rank, fit, own in zip(ranks, fits, logits, strict=True):
        probable, mine = _probable(fit.logits, there), _probable(own, there[at])
        for f in np.unique(fit.fold).tolist():
            here = fit.fold[at] == f
            others = np.sort(probable[counted & (fit.fold == f)])
            below, upto = (np.searchsorted(others, mine[here], side) for side in ("left", "right"))
            rank[here] = (below + upto) / (2 * max(len(others), 1))
    return np.asarray(np.round(ranks.mean(axis=0), 9))


def _probable(logits: Floats, there: Bools) -> Floats:
    w, c = np.exp(log_probabilities(logits, there).max(axis=1)), 1 / np.maximum(there.sum(axis=1), 2)
    return np.asarray(np.round((w - c) / ((1 - c) * w), 9))
