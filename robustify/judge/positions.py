"""Whether a model prefers positions, from one order of each item and from all rotations.

A model that is always right picks the positions of the keys; what counts is how much more often it picks a position
than the key is there. PriDe (Zheng et al. 2024, arXiv 2309.03882) removes the preference from a model's answers after
the fact; no item is corrected with a prior that it helped to estimate.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import chdtrc, log_softmax, softmax

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Floats, Ints
from robustify.scoring import as_compared, best, credit
from robustify.screen.item_index import ItemIndex
from robustify.screen.votes import first_block
from robustify.stats.intervals import FEWEST_CLUSTERS, Interval, bootstrap, clopper_pearson, clusters, rate
from robustify.stats.tests import holm, paired_difference, sign_flip
from robustify.summary.quantity import DifferenceQuantity, Quantity
from robustify.summary.scored import Debiased, PlaceBias, PlaceRecall, PositionBias
from robustify.summary.screened import FavouredPlace

FOLDS = 5


def first_rows(answers: Answers, index: ItemIndex, view: str, model: str) -> Block:
    """The first row of each item that a model answered under a view, in its first template, scores as compared."""
    block = first_block(answers, view, model).first()
    return as_compared(block.where(index.place[block.item] >= 0), view)


def row_groups(groups: Ints | None, index: ItemIndex, block: Block) -> Ints | None:
    """The groups (n,) of a block's rows, (r,)."""
    return None if groups is None else groups[index.place[block.item]]


def position_biases(
    answers: Answers, index: ItemIndex, names: Sequence[str], groups: Ints | None = None, full: str = "full"
) -> dict[str, PositionBias | None]:
    """Each model's position bias with the question, asked by the view `full`; None where it was not asked it."""
    blocks = {name: first_rows(answers, index, full, name) for name in names}
    return {
        name: position_bias(block, row_groups(groups, index, block)) if len(block) else None
        for name, block in blocks.items()
    }


def picked_by_place(rows: Block) -> Floats:
    """By place as shown (r, width) the share of each row's pick; ties share."""
    width = rows.order.shape[1]
    tied = best(rows.scores, rows.k)
    tied = np.pad(tied, ((0, 0), (0, max(0, width - tied.shape[1]))))[:, :width]
    # Rows whose own scores name the tied choices share them; elsewhere the pick counts alone.
    shared = (rows.tie > 1) & (tied.sum(axis=1) == rows.tie)
    picked = np.where(shared[:, None], tied, np.arange(width) == rows.pick[:, None]).astype(np.float64)
    picked /= picked.sum(axis=1, keepdims=True)
    known = rows.order >= 0
    return np.where(known, np.take_along_axis(picked, np.where(known, rows.order, 0), axis=1), 0.0)


def position_share(block: Block) -> list[float] | None:
    """The share of the picks that fell on each place as shown, from the first; ties share; None without."""
    there = block.where((block.pick >= 0) & ((block.order >= 0).sum(axis=1) > block.pick))
    return [float(share) for share in picked_by_place(there).mean(axis=0)] if len(there) else None


def favoured_place(block: Block, groups: Ints | None = None) -> FavouredPlace | None:
    """The place on which more than half of a voter's picks sit, over all its askings; None where there is none.

    `picked`: the mean over items of the share of an item's askings in which its pick stood there; askings of one item
    are no more than one item, so n counts items (Wilson). `keys`: the same of the keys; `excess`: picked less keys.
    `groups` by row of the block are resampled together.
    """
    there = (block.pick >= 0) & ((block.order >= 0).sum(axis=1) > block.pick)
    rows = block.where(there)
    if not len(rows):
        return None
    _, first, item = np.unique(rows.item, return_index=True, return_inverse=True)
    asked = np.bincount(item)
    picked, key = picked_by_place(rows), (rows.order == rows.key[:, None]) & (rows.order >= 0)
    at = int(picked.mean(axis=0).argmax())
    if picked[:, at].mean() <= 0.5:
        return None
    share, keys = (
        np.bincount(item, weights=column[:, at].astype(np.float64)) / asked for column in (picked, key)
    )
    ci = _gap_interval(share - keys, None if groups is None else groups[there][first])
    return FavouredPlace(
        place=at,
        picked=Quantity.of(rate(share)),
        keys=float(keys.mean()),
        excess=Quantity(value=float((share - keys).mean()), n=len(first), ci=ci),
    )


def position_bias(block: Block, groups: Ints | None = None) -> PositionBias | None:
    """How a model's picks and its keys fall on the places, over the first row of each item; None without picks.

    For each place as shown, over the items that have it: `picked` and `key`, shares; `excess`, picked minus key, with an
    item bootstrap; `p_holm` of an exact McNemar test (picked here and the key elsewhere, against the reverse; ties
    left out), by Holm over the places; `recall`, the accuracy where the key is there. `recall_sd`: their
    standard deviation, RStd of Zheng et al. 2024.
    `groups` (one for each item, as in `block.first()`) of items that are resampled together; the test then
    flips the signs of their sums, which is McNemar's where every item is alone. An excess that does not
    vary has an exact bound.
    """
    rows = block.first()
    asked = len(rows)
    answered = (rows.pick >= 0) & (rows.key >= 0)
    together = None if groups is None else groups[answered]
    rows = rows.where(answered)
    if not len(rows):
        return None
    picked, there = picked_by_place(rows), rows.order >= 0
    key = (rows.order == rows.key[:, None]) & there
    whole = picked.max(axis=1) == 1
    tests = [_mcnemar(picked[:, j], key[:, j], whole & there[:, j], together) for j in range(picked.shape[1])]
    places = tuple(
        _place(picked[:, j], key[:, j], there[:, j], rows.correct, p_holm, together)
        for j, p_holm in enumerate(holm(tests))
    )
    recalls = [float(rows.correct[key[:, j]].mean()) for j in range(key.shape[1]) if key[:, j].any()]
    return PositionBias(
        n=len(rows),
        asked=asked,
        tied=int(np.count_nonzero(~whole)),
        places=places,
        recall_sd=float(np.std(recalls)) if len(recalls) > 1 else None,
    )


def _mcnemar(picked: Floats, key: Bools, among: Bools, groups: Ints | None) -> float:
    apart = (picked[among] == 1).astype(np.int64) - key[among]
    return sign_flip(apart, None if groups is None else groups[among])


def _place(
    picked: Floats, key: Bools, there: Bools, correct: Floats, p_holm: float, groups: Ints | None
) -> PlaceBias:
    gap = picked[there] - key[there]
    ci = _gap_interval(gap, None if groups is None else groups[there])
    return PlaceBias(
        picked=Quantity.of(rate(picked[there])),
        key=float(key[there].mean()) if len(gap) else None,
        excess=Quantity(value=float(gap.mean()) if len(gap) else None, n=len(gap), ci=ci),
        p_holm=p_holm,
        recall=Quantity.of(rate(correct[key])),
    )


def _gap_interval(gap: Floats, groups: Ints | None) -> Interval | None:
    units = clusters(len(gap), groups)
    if units < FEWEST_CLUSTERS:
        return None
    if np.ptp(gap) > 0:
        return bootstrap(gap, groups=groups)
    # Nothing varied, so resampling would give no interval: what was not seen may differ by one pick.
    value, unseen = float(gap[0]), clopper_pearson(0, units)[1]
    return max(-1.0, value - unseen), min(1.0, value + unseen)


def of_rotations(block: Block, turned: Ints, groups: Ints | None = None) -> dict[str, Any]:
    """The fields `position_prior`, `prior_n`, `debiased` and `place_recall`, each None where the rows do not give it.

    `turned` (n, K): the rows of each item, turned by 0, 1, ... places, -1 beyond its k; all answered.
    `groups` by item of the answer table. `position_prior` and `place_recall` are those of the commonest
    number of choices, and None below 10 items of it: a few items show their own texts, not the places.
    """
    return {
        **_prior_of_most(block, turned),
        "debiased": debiased(block, turned, groups),
        "place_recall": place_recall(block, turned, groups),
    }


def position_prior(block: Block, turned: Ints) -> Floats:
    """The share of a model's probability that each place draws whatever option is there, (k,).

    The softmax over places of the mean log probability over an item's rotations, then the mean over items.
    `turned` (n, k): rows of items of one number of choices, with all their scores.
    """
    return np.asarray(_preference(_shown(block, turned)).mean(axis=0))


def debiased(block: Block, turned: Ints, groups: Ints | None = None) -> Debiased | None:
    """Accuracy of the first order with the prior of its places taken out.

    An item's prior is estimated on the other four fifths of the items with as many choices (with groups: on
    other groups); numbers of choices with fewer than 10 items, or 5 groups, are left out. `raw` is the
    accuracy on the same items as they were answered, `difference` the debiased less the raw, paired. None
    where no item counts.
    """
    corrected, plain, item = [], [], []
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
        without = log_softmax(shown[:, 0] - np.log(_cross_fitted(_preference(shown), fold)), axis=-1)
        corrected.append(_credit(block, rows[:, 0], without))
        plain.append(block.correct[rows[:, 0]])
        item.append(block.item[rows[:, 0]])
    if not item:
        return None
    won, raw = np.concatenate(corrected), np.concatenate(plain)
    together = None if groups is None else groups[np.concatenate(item)]
    difference = DifferenceQuantity.from_stats(paired_difference(won, raw, together))
    return Debiased(accuracy=Quantity.of(rate(won)), raw=Quantity.of(rate(raw)), difference=difference)


def place_recall(block: Block, turned: Ints, groups: Ints | None = None) -> PlaceRecall | None:
    """How often the key is found at each place; None below 10 items.

    Counted on items with the commonest number of choices, each of which shows its key at each place once.
    `sd` is the standard deviation of the recalls (RStd of Zheng et al. 2024, there of one order, here of all
    rotations, so that every place has as many keys), `sd_if_even` what noise alone gives on average, `p`
    the chi-square p that the places do not matter (Cochran's Q with the spread that is seen; sums of groups
    where items are grouped).
    """
    rows = max(_by_size(block, turned), key=len, default=turned)
    n, k = rows.shape
    if n < FEWEST_CLUSTERS:
        return None
    place = (block.order[rows] == block.key[rows][:, :, None]).argmax(axis=2)
    right = np.empty((n, k))
    np.put_along_axis(right, place, block.correct[rows], axis=1)
    recall = right.mean(axis=0)
    off = right - right.mean(axis=1, keepdims=True)
    if groups is not None:
        group = np.unique(groups[block.item[rows[:, 0]]], return_inverse=True)[1]
        off = np.stack([np.bincount(group, weights=column) for column in off.T], axis=1)
    total, spread = off.sum(axis=0), off.T @ off
    q = float(total @ np.linalg.pinv(spread, 1e-9, hermitian=True) @ total)
    return PlaceRecall(
        by_place=tuple(recall.tolist()),
        sd=float(recall.std()),
        sd_if_even=float(np.sqrt(np.trace(spread) / k) / n),
        p=float(chdtrc(k - 1, q)),
        n=n,
    )


def _prior_of_most(block: Block, turned: Ints) -> dict[str, Any]:
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


def _preference(shown: Floats) -> Floats:
    return np.asarray(softmax(shown.mean(axis=1), axis=-1))


def _cross_fitted(preference: Floats, fold: Ints) -> Floats:
    """The prior (n, k) of each item from the items of the other folds."""
    sums = np.stack([np.bincount(fold, weights=c, minlength=FOLDS) for c in preference.T], axis=1)
    others = len(fold) - np.bincount(fold, minlength=FOLDS)
    return np.asarray(((sums.sum(axis=0) - sums) / others[:, None])[fold])


def _credit(block: Block, rows: Ints, by_place: Floats) -> Floats:
    """The credit (n,) of the best choices when places score as in `by_place`."""
    k = by_place.shape[1]
    scores = np.empty_like(by_place)
    np.put_along_axis(scores, block.order[rows, :k], by_place, axis=1)
    return credit(scores, block.key[rows], np.full(len(rows), k))[0]
