"""Probability that a scorer's favorite option is the key, and ranking of items by this probability (docs/filter.md).

Length may point to the key where voters agree, and not elsewhere. A logistic regression on properties of the favorite
that do not use the item's key therefore predicts hits, fitted on the hits of other folds. Picks without scores say
little unless the form of the option is known, so that boosting on both then has half of the say.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.special import expit, logit

from robustify.base.arrays import Bools, Floats, Ints, tied
from robustify.judging.baselines.conditional_logit import fit_conditional_logit, log_probabilities
from robustify.judging.readers.fits import boosting
from robustify.judging.screen.votes import TIED, UNANSWERED

Certainty = Callable[[Mapping[str, Floats], Bools, Ints, Floats], Floats]
"""Function of contributions (m, K) to the logits by name, existing options (m, K), one option of each item (m,), and the
form and picks to boost (m, K, f). Returns the probability that this option is the key (m,), if it is the favorite.
"""
RIDGE = 10.0
_CONSTANT = 10.0
"""Value of the constant property. It is large, so that the ridge penalty hardly affects its coefficient."""
_UNBOUNDED = 1e3
"""Contribution of missing answers, in deviations, above which any strength can be reached."""
_LEAF = 30
"""Smallest number of items in a leaf of a boosted tree."""
_LEAST = 1e-3
"""Smallest probability of a shortcut before its logarithm is taken."""


class CrossFit:
    """Cross-fitted logits of the options, with the probability of a shortcut, filled in fold by fold.
    `logits` are (n, K). `probable` (n,) is the probability of a shortcut if the favorite is the key, and
    `reachable` (n, K), or (1, 1) if no answer is missing, the same for an option that all missing answers
    prefer. `missing` (n,) is the largest contribution of missing answers, in deviations. `contributes` (n,) marks
    items with text or with a contribution, because options that texts cannot tell apart are a tie."""

    def __init__(self, fold: Ints, mask: Bools) -> None:
        n = len(mask)
        self.fold, self.mask, self.logits = fold, mask, np.zeros(mask.shape)
        self.probable, self.reachable = np.full(n, np.nan), np.full((1, 1), np.nan)
        self.missing, self.contributes = np.zeros(n), np.zeros(n, dtype=bool)

    def fill(
        self,
        rows: Ints,
        parts: Mapping[str, Floats],
        missing: Mapping[str, Floats],
        shown: Floats,
        certainty: Certainty,
    ) -> None:
        """Fill in the logits and probabilities of the items `rows` (m,). `parts` are contributions (m, K), `missing`
        (m,) are the largest contributions of missing answers, and `shown` (m, K, f) are the features to boost."""
        mask = self.mask[rows]
        self.logits[rows] = sum(parts.values(), np.zeros(mask.shape))
        if (added := sum(missing.values(), np.zeros(len(rows)))).any():
            self.missing[rows] = added
        self.contributes[rows] = "surface" in parts or sum((part != 0).any(axis=1) for part in parts.values())
        favorite = _log_p(parts, mask).argmax(axis=1)
        self.probable[rows] = _shortcut(certainty(parts, mask, favorite, shown), mask)
        incomplete = np.flatnonzero(self.missing[rows] > 0)
        if len(incomplete) and self.reachable.shape != self.mask.shape:
            self.reachable = np.full(self.mask.shape, np.nan)
        for j in range(mask.shape[1]) if len(incomplete) else ():
            preference = single_preference(mask[incomplete], j)
            changed = {
                name: part[incomplete] + missing.get(name, np.zeros(len(rows)))[incomplete, None] * preference
                for name, part in parts.items()
            }
            picked = np.where(np.isnan(shown[incomplete]), preference[:, :, None], shown[incomplete])
            reached = certainty(changed, mask[incomplete], np.full(len(incomplete), j), picked)
            reached = _shortcut(reached, mask[incomplete])
            self.reachable[rows[incomplete], j] = np.where(
                self.missing[rows[incomplete]] > _UNBOUNDED, 1.0, reached
            )


def own_certainty(parts: Mapping[str, Floats], mask: Bools, option: Ints, _: Floats) -> Floats:
    """Return the scorer's own probability of one option per item. This `Certainty` is for too few items for a fit."""
    return np.asarray(np.exp(_log_p(parts, mask)[np.arange(len(option)), option]))


def fitted_certainty(parts: Mapping[str, Floats], mask: Bools, key: Ints, shown: Floats) -> Certainty:
    """Fit a function that predicts whether a scorer's favorite option is the key. `parts` are (n, K), and `shown` (n,
    K, f) has the form and picks for boosting."""
    favorite = _log_p(parts, mask).argmax(axis=1)
    properties = _properties(parts, mask, favorite)
    mean, deviation = properties.mean(axis=0), properties.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)

    def standardized(x: Floats) -> Floats:
        x = np.column_stack([(x - mean) / scale, np.full(len(x), _CONSTANT)])
        # A logistic regression is a conditional logit with a second option whose features are 0.
        return np.stack([x, np.zeros_like(x)], axis=1)

    two = np.ones((len(key), 2), dtype=bool)
    coefficients = fit_conditional_logit(
        standardized(properties), (favorite != key).astype(np.int64), two, RIDGE
    )

    def by_regression(parts: Mapping[str, Floats], mask: Bools, option: Ints, _: Floats) -> Floats:
        return np.asarray(standardized(_properties(parts, mask, option))[:, 0] @ coefficients)

    is_hit = favorite == key
    if not shown.shape[2] or is_hit.all() or not is_hit.any():
        return lambda *inputs: expit(by_regression(*inputs))
    if len(key) < 2 * _LEAF:
        # No tree can split so few items, so that all predict the share of hits.
        share = logit(is_hit.mean())
        return lambda *inputs: expit((by_regression(*inputs) + share) / 2)
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    trees = boosting(40, 4, min_samples_leaf=_LEAF, l2_regularization=1.0)
    with threadpool_limits(1):
        trees.fit(np.column_stack([properties, shown[np.arange(len(favorite)), favorite]]), is_hit)

    def by_both(parts: Mapping[str, Floats], mask: Bools, option: Ints, shown: Floats) -> Floats:
        x = np.column_stack([_properties(parts, mask, option), shown[np.arange(len(option)), option]])
        return np.asarray(expit((by_regression(parts, mask, option, shown) + trees.decision_function(x)) / 2))

    return by_both


def _log_p(parts: Mapping[str, Floats], mask: Bools) -> Floats:
    return log_probabilities(np.asarray(sum(parts.values(), np.zeros(mask.shape))), mask)


def _properties(parts: Mapping[str, Floats], mask: Bools, option: Ints) -> Floats:
    """Return properties of one option of each item that predict whether it is the key (m, p). They do not use the keys."""
    row, log_p = np.arange(len(option)), _log_p(parts, mask)
    own, others = log_p[row, option], log_p.copy()
    others[row, option] = -np.inf
    k = mask.sum(axis=1)
    return np.stack(
        [
            np.log(np.maximum(_shortcut(np.exp(own), mask), _LEAST)),
            own - others.max(axis=1),
            *(part[row, option] for part in parts.values()),
            *(k == size for size in range(3, mask.shape[1] + 1)),
        ],
        axis=1,
    )


def _shortcut(w: Floats, mask: Bools) -> Floats:
    return np.round(shortcut_if_hit(w, 1 / np.maximum(mask.sum(axis=1), 2)), 9)


def shortcut_if_hit(w: Floats, c: Floats) -> Floats:
    """Return the probability (w - c) / ((1 - c) w) that an item has a shortcut if the pick is its key. `w` (n,) is P(hit),
    and `c` that of an item without a shortcut, because a shortcut is always a hit."""
    return np.where(c < 1, (w - c) / np.maximum((1 - c) * np.maximum(w, _LEAST), 1e-300), 0.0)


def single_preference(mask: Bools, j: int) -> Floats:
    """Return the standardized preferences (n, K) of a voter that prefers option j and is indifferent among the others."""
    k = np.maximum(mask.sum(axis=1, keepdims=True), 2)
    preference = np.where(np.arange(mask.shape[1]) == j, np.sqrt(k - 1), -1 / np.sqrt(k - 1))
    return np.where(mask, preference, 0.0)


def top_options(log_p: Floats) -> tuple[Ints, Floats]:
    """Return the best option of each item and its log probability (n,). The option is -1 if unknown, or -2 if tied."""
    maximum = np.where(np.isnan(log_p), -np.inf, log_p).max(axis=1, initial=-np.inf)
    is_known = np.isfinite(maximum)
    shared = tied(log_p, np.where(is_known, maximum, np.inf)[:, None]).sum(axis=1)
    top = np.where(shared == 1, np.nan_to_num(log_p, nan=-np.inf).argmax(axis=1), TIED)
    return np.where(is_known, top, UNANSWERED).astype(np.int16), maximum


def reachable_strengths(fits: Sequence[CrossFit], ranked: Bools, counted: Bools) -> Floats:
    """Return the rank that each item would have if all its missing answers preferred a given option (n, K). It is NaN
    if the option would not be the top, and (1, 1) without missing answers."""
    missing = np.mean([fit.missing for fit in fits], axis=0)
    incomplete = np.flatnonzero(ranked & (missing > 0))
    if not len(incomplete):
        return np.full((1, 1), np.nan)
    logits, mask = mean_logits(fits)[incomplete], fits[0].mask[incomplete]
    out = np.full(fits[0].mask.shape, np.nan)
    for j in range(mask.shape[1]):
        changed = log_probabilities(logits + missing[incomplete, None] * single_preference(mask, j), mask)
        reached = np.zeros(len(out), dtype=bool)
        probable = [np.broadcast_to(fit.reachable, out.shape)[:, j] for fit in fits]
        reached[incomplete] = mask[:, j] & (top_options(changed)[0] == j)
        out[:, j] = mean_ranks(fits, counted, reached, probable)
    return out


def mean_logits(fits: Sequence[CrossFit]) -> Floats:
    """Average the logits over several partitions of the items into folds (n, K)."""
    return fits[0].logits if len(fits) == 1 else np.asarray(np.mean([fit.logits for fit in fits], axis=0))


def mean_ranks(fits: Sequence[CrossFit], counted: Bools, ranked: Bools, probable: Sequence[Floats]) -> Floats:
    """Rank items within their fold by the probability of a shortcut, and average over partitions (n,). The items
    `ranked` are ranked among the `counted` ones, from 0 to 1, and others are NaN."""
    ranks = np.full((len(fits), len(ranked)), np.nan)
    for rank, fit, probability in zip(ranks, fits, probable, strict=True):
        for f in np.flatnonzero(np.bincount(fit.fold)).tolist():
            items = np.flatnonzero(ranked & (fit.fold == f))
            # Sorted values are found many times faster.
            items = items[np.argsort(probability[items])]
            others = np.sort(fit.probable[counted & (fit.fold == f)])
            below, at_most = (np.searchsorted(others, probability[items], side) for side in ("left", "right"))
            rank[items] = (below + at_most) / (2 * max(len(others), 1))
    return np.asarray(np.round(ranks.mean(axis=0), 9))
