"""What a place is worth to a model, whatever stands there, measured where each choice stood at each place.

PriDe (Zheng et al. 2024, arXiv 2309.03882) takes that liking out of a model's answers after the fact. No item
is freed with a prior that it helped to estimate, and only items asked in every rotation say anything.
"""

import numpy as np
from scipy.special import chdtrc, log_softmax, softmax

from robustify.answers import Block
from robustify.arrays import Floats, Ints
from robustify.scoring import credit
from robustify.stats.differences import paired_difference
from robustify.stats.intervals import FEWEST_CLUSTERS, rate

Tree = dict[str, object]

FOLDS = 5


def of_places(block: Block, turned: Ints, groups: Ints | None = None) -> Tree:
    """`{position_prior, prior_n, debiased, place_recall}`, each None where the rows do not give it.

    `turned` (n, K): the rows of each item, turned by 0, 1, ... places, -1 beyond its k; all answered.
    `groups` by item of the answer table. `position_prior` and `place_recall` are those of the commonest
    number of choices, and None below 10 items of it: a few items tell their own texts, not the places.
    """
    return {
        **_prior_of_most(block, turned),
        "debiased": debiased(block, turned, groups),
        "place_recall": place_recall(block, turned, groups),
    }


def position_prior(block: Block, turned: Ints) -> Floats:
    """The share of a model's probability that each place draws whatever stands there, (k,).

    The softmax over places of the mean log probability over an item's rotations, then the mean over items.
    `turned` (n, k): rows of items of one number of choices, with all their scores.
    """
    return np.asarray(_liking(_shown(block, turned)).mean(axis=0))


def debiased(block: Block, turned: Ints, groups: Ints | None = None) -> Tree | None:
    """Accuracy of the first order with the prior of its places taken out: `{accuracy, raw, difference}`.

    An item's prior is estimated on the other four fifths of the items with as many choices (with groups: on
    other groups); numbers of choices with fewer than 10 items, or 5 groups, are left out. `raw` is the
    accuracy on the same items as they were answered, `difference` the debiased less the raw, paired. None
    where no item counts.
    """
    freed, plain, item = [], [], []
    for rows in _by_size(block, turned):
        shown = _shown(block, rows)
        there = np.isfinite(shown).all(axis=(1, 2))
        rows, shown = rows[there], shown[there]
        apart = None if groups is None else groups[block.item[rows[:, 0]]]
        fold = np.arange(len(rows)) if apart is None else np.unique(apart, return_inverse=True)[1]
        fold = fold % FOLDS
        if len(rows) < 2 * FOLDS or len(np.unique(fold)) < FOLDS:
            continue
        # Normalised again: ties are relative, and differences of logs may lie anywhere about 0.
        without = log_softmax(shown[:, 0] - np.log(_held_out(_liking(shown), fold)), axis=-1)
        freed.append(_freed(block, rows[:, 0], without))
        plain.append(block.correct[rows[:, 0]])
        item.append(block.item[rows[:, 0]])
    if not item:
        return None
    won, raw = np.concatenate(freed), np.concatenate(plain)
    together = None if groups is None else groups[np.concatenate(item)]
    difference = paired_difference(won, raw, together)
    return {"accuracy": rate(won).json(), "raw": rate(raw).json(), "difference": difference.json()}


def place_recall(block: Block, turned: Ints, groups: Ints | None = None) -> Tree | None:
    """How often the key is found at each place: `{by_place, sd, sd_if_even, p, n}`; None below 10 items.

    Counted on items with the commonest number of choices, each of which shows its key at each place once.
    `sd` is the standard deviation of the recalls (RStd of Zheng et al. 2024, there of one order, here of all
    rotations, so that every place holds as many keys), `sd_if_even` what noise alone gives on average, `p`
    the chi-square p that the places do not matter (Cochran's Q with the spread that is seen; sums of groups
    where items hang together).
    """
    rows = max(_by_size(block, turned), key=len, default=turned)
    n, k = rows.shape
    if n < FEWEST_CLUSTERS:
        return None
    place = (block.order[rows] == block.key[rows][:, :, None]).argmax(axis=2)
    found = np.empty((n, k))
    np.put_along_axis(found, place, block.correct[rows], axis=1)
    recall = found.mean(axis=0)
    off = found - found.mean(axis=1, keepdims=True)
    if groups is not None:
        group = np.unique(groups[block.item[rows[:, 0]]], return_inverse=True)[1]
        off = np.stack([np.bincount(group, weights=column) for column in off.T], axis=1)
    total, spread = off.sum(axis=0), off.T @ off
    q = float(total @ np.linalg.pinv(spread, 1e-9, hermitian=True) @ total)
    return {
        "by_place": recall.tolist(),
        "sd": float(recall.std()),
        "sd_if_even": float(np.sqrt(np.trace(spread) / k) / n),
        "p": float(chdtrc(k - 1, q)),
        "n": n,
    }


def _prior_of_most(block: Block, turned: Ints) -> Tree:
    whole = [rows[np.isfinite(_shown(block, rows)).all(axis=(1, 2))] for rows in _by_size(block, turned)]
    rows = max(whole, key=len, default=turned)
    if len(rows) < FEWEST_CLUSTERS:
        return {"position_prior": None, "prior_n": len(rows)}
    return {"position_prior": position_prior(block, rows).tolist(), "prior_n": len(rows)}


def _by_size(block: Block, turned: Ints) -> list[Ints]:
    k = block.k[turned[:, 0]] if len(turned) else np.zeros(0, dtype=np.int64)
    return [turned[k == size][:, :size] for size in np.unique(k).tolist()]


def _shown(block: Block, rows: Ints) -> Floats:
    """Log probabilities by place as shown, (n, rotations, k); NaN where there are no scores."""
    k = rows.shape[1]
    if block.scores.shape[1] < k:
        return np.full((len(rows), k, k), np.nan)
    shown = np.take_along_axis(block.scores[rows, :k], block.order[rows, :k], axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(log_softmax(shown, axis=-1))


def _liking(shown: Floats) -> Floats:
    return np.asarray(softmax(shown.mean(axis=1), axis=-1))


def _held_out(liking: Floats, fold: Ints) -> Floats:
    """The prior (n, k) of each item from the items of the other folds."""
    sums = np.stack([np.bincount(fold, weights=c, minlength=FOLDS) for c in liking.T], axis=1)
    others = len(fold) - np.bincount(fold, minlength=FOLDS)
    return np.asarray(((sums.sum(axis=0) - sums) / others[:, None])[fold])


def _freed(block: Block, rows: Ints, by_place: Floats) -> Floats:
    """The credit (n,) of the best choices when places score as in `by_place`."""
    k = by_place.shape[1]
    scores = np.empty_like(by_place)
    np.put_along_axis(scores, block.order[rows, :k], by_place, axis=1)
    return credit(scores, block.key[rows], np.full(len(rows), k))[0]
