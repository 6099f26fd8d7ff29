"""Search for a large subset of items in which no listed cue points to the key or away from it."""

from collections.abc import Sequence

import numpy as np

from robustify.base.arrays import ROUNDING, Bools, Floats
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.items.scoring import best, credit
from robustify.judging.baselines.conditional_logit import centred, log_probabilities
from robustify.judging.baselines.heuristics import listed_credit
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.ranking import Ranker

RULES = ("longest_answer", "shortest_answer", "longest_words", "shortest_words")
"""Length heuristics that earn nothing in the subset."""
FEWEST = 100
"""Fewest items of a subset that is worth exporting."""
MOST_OFF = 0.5
"""Maximum absolute sum of a cue over the subset, in standard deviations."""
_LOOKED_AT, _TRIES = 400, 200


def balanced_items(items: Sequence[Item], answers: Answers) -> tuple[list[Item], float] | None:
    """Return the subset and its largest imbalance in deviations, or None if the subset has fewer than `FEWEST` items."""
    columns = cue_columns(items, answers) if len(items) >= FEWEST else None
    if columns is None:
        return None
    taken, imbalance = balanced_subset(columns)
    chosen = [items[i] for i in np.flatnonzero(taken).tolist()]
    return (chosen, imbalance) if len(chosen) >= FEWEST else None


def cue_columns(items: Sequence[Item], answers: Answers) -> Floats | None:
    """Return the gain of each cue over chance on each item (n, c), in standard deviations. Return None if there are too few
    items to fit the scorer of the filter.

    The cues are the scorer's logit of the key, its probability, and its pick, what form and words contribute to the
    logit, and the four length heuristics.
    """
    index = item_index(answers, [item.id for item in items])
    scores = Ranker(answers, index, items).by_options()
    if scores is None:
        return None
    log_p = log_probabilities(scores.logits, scores.mask)
    key, k = np.array([item.key for item in items]), scores.mask.sum(axis=1)
    of_key = np.arange(len(items)), key
    credits = credit(best(log_p, k), key), *listed_credit(items, RULES).values()
    columns = np.column_stack([
        centred(scores.logits, scores.mask)[of_key], np.exp(log_p[of_key]) - 1 / k,
        scores.surface[of_key], scores.words[of_key],
        *(earned - 1 / k for earned in credits),
    ])  # fmt: skip
    spread = columns.std(axis=0)
    return np.asarray(columns[:, spread > ROUNDING] / spread[spread > ROUNDING])


def balanced_subset(columns: Floats) -> tuple[Bools, float]:
    """Find a large subset of items in which each column sums to about zero (n,). Also return the largest absolute sum.

    A linear program bounds each column sum by `MOST_OFF`. Items that it selects in part are dropped. Then, among randomly
    drawn items, the one or two that balance best are added or dropped, until every sum is within the bound, if ever.
    """
    from scipy.optimize import linprog

    n, draw = len(columns), np.random.default_rng(0)
    both_ways = np.vstack([columns.T, -columns.T])
    solution = linprog(-np.ones(n), A_ub=both_ways, b_ub=np.full(len(both_ways), MOST_OFF), bounds=(0, 1))
    taken = np.asarray(np.asarray(solution.x) > 1 - 1e-6)
    best, least = taken, float(np.abs(columns[taken].sum(axis=0)).max(initial=0.0))
    for _ in range(_TRIES):
        if least <= MOST_OFF:
            break
        rows = draw.permutation(n)[:_LOOKED_AT]
        turned = np.where(taken[rows], -1.0, 1.0)[:, None] * columns[rows]
        total = columns[taken].sum(axis=0) + turned
        off = np.abs(total[:, None] + turned).max(axis=2)
        np.fill_diagonal(off, np.abs(total).max(axis=1))
        first, second = np.unravel_index(off.argmin(), off.shape)
        taken = taken.copy()
        taken[np.unique(rows[[first, second]])] ^= True
        if off[first, second] < least:
            best, least = taken, float(off[first, second])
    return best, least
