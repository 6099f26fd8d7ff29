"""Preferences of voters without the question, and their agreement.

A vote names the best option. A preference also gives a degree: option scores are standardized within the item and averaged
over voters. It is an input of level 2 of the ranking. Agreement does not affect a verdict. Independence of
voters, which share training data and habits, would expect too few flags by chance. Its formulas are only reported.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints, tied
from robustify.items.answers import Answers
from robustify.items.scoring import VIEW_OF, Mode, TextNorm
from robustify.judging.baselines.conditional_logit import centred
from robustify.judging.screen.item_index import ItemIndex
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screen.votes import (
    first_template,
    in_own_order,
    item_means,
    preferences,
    who_votes,
)
from robustify.judging.stats.agreement import fleiss_kappa

GRADED = " by degree"
"""End of the name of a column of votes on one scale for all items."""
_ANYTHING = 1e6
"""Stand-in for the unbounded contribution of a voter that never answered."""


@dataclass(frozen=True, repr=False)
class MeanPreferences:
    """Mean preferences of the voters in each mode.

    `values` are the means over voters (n, K), and `missing` is the share of voters without an answer (n,). `complete` (n,)
    marks items that every voter answered. `placed` is true if a voter saw positions. `selection` is how many times more
    often right answers may have been readable than wrong ones.
    """

    values: dict[str, Floats]
    missing: dict[str, Floats]
    complete: Bools
    placed: bool
    selection: float


@dataclass(frozen=True)
class _Preferences:
    """One voter's preferences (n, K) in one mode, standardized within the item, with 0 if unanswered.

    `graded` (n, K) are the centered preferences on one scale for all items, so that a sure pick counts more. `largest` is
    their largest deviation within an item.
    """

    values: Floats
    graded: Floats
    largest: float
    answered: Bools
    placed: bool
    asked: Bools


class VoterPreferences:
    """Preferences of all voters. The answers of each voter are read once."""

    def __init__(self, answers: Answers, index: ItemIndex) -> None:
        self._answers, self._index = answers, index
        self._there = np.arange(index.width) < index.k[:, None]
        self._read: dict[tuple[str, str, str, TextNorm], _Preferences] = {}

    def of(self, rules: ScreenRules) -> MeanPreferences:
        """Return the mean preferences of the rules' voters, standardized within the item (mean 0, deviation 1).

        A missing answer has no preference, so an item with few answers ranks below one on which all voters agree.
        """
        template, voters = who_votes(self._answers, rules)
        found: dict[str, Floats] = {}
        missing: dict[str, Floats] = {}
        every: list[_Preferences] = []
        modes: tuple[Mode, ...] = ("text", "letter")
        for mode in modes:
            own = mode == rules.mode
            by = template if own else first_template(self._answers, VIEW_OF[mode], voters)
            if by is None:
                continue
            read = [self._of(mode, name, by, rules.norm if own else "chars") for name in voters]
            read = [one for one in read if own or one.asked.any()]
            n = sum((one.answered for one in read), np.zeros(len(self._index)))
            if n.any():
                silent = not all(one.answered.any() for one in read)
                unheard = np.full(len(n), _ANYTHING) if silent else 1 - n / len(read)
                found[f"{mode} votes"] = np.asarray(sum(one.values for one in read)) / len(read)
                missing[f"{mode} votes"] = unheard
                found[f"{mode} votes{GRADED}"] = np.asarray(sum(one.graded for one in read)) / len(read)
                missing[f"{mode} votes{GRADED}"] = unheard * max(one.largest for one in read)
            every += read
        complete = np.logical_and.reduce(
            [np.ones(len(self._index), dtype=bool), *(v.answered for v in every)]
        )
        placed, spoke = any(one.placed for one in every), [one for one in every if one.answered.any()]
        return MeanPreferences(found, missing, complete, placed, self._selection(spoke))

    def _selection(self, voters: Sequence[_Preferences]) -> float:
        known, key = (self._index.key >= 0) & (self._index.k > 0), np.maximum(self._index.key, 0)
        if all((one.answered | ~one.asked | ~known).all() for one in voters):
            return 1.0
        right = [tied(one.values[np.arange(len(key)), key], one.values.max(axis=1)) for one in voters]
        asked, read = [known & one.asked for one in voters], [known & one.answered for one in voters]
        return _reading_ratio(*(np.stack(parts, axis=1) for parts in (asked, read, right)))

    def _of(self, mode: Mode, name: str, template: str, norm: TextNorm) -> _Preferences:
        asking = mode, name, template, norm
        if asking not in self._read:
            block = self._answers.block(VIEW_OF[mode], name, template)
            preference = item_means(*preferences(block, mode, self._index, norm), self._index)
            answered = ~(np.isnan(preference) & self._there).any(axis=1) & (self._index.k > 0)
            middle = np.where(answered[:, None], centred(np.nan_to_num(preference), self._there), 0.0)
            spread = np.sqrt((middle**2).sum(axis=1) / np.maximum(self._index.k, 1))
            alive = spread > ROUNDING
            scale = float(np.sqrt((spread[alive] ** 2).mean())) if alive.any() else 1.0
            values = middle * (alive / np.where(alive, spread, 1.0))[:, None]
            graded, largest = middle / scale, float(spread.max(initial=0.0)) / scale
            there = self._index.index_of[block.item]
            asked = np.bincount(there[there >= 0], minlength=len(self._index)) > 0
            placed = mode == "letter" and in_own_order(block)
            self._read[asking] = _Preferences(values, graded, largest, answered, placed, asked)
        return self._read[asking]


def independence(accuracy: Floats, k: Ints) -> tuple[float | None, float | None]:
    """Return the share of items on which all voters would be right if they were independent.

    The first value uses the voters' accuracies (m,). The second assumes that each guesses among k options (n,). None
    without voters, or if a voter answered nothing.
    """
    if not len(accuracy) or not len(k) or bool(np.isnan(accuracy).any()):
        return None, None
    return float(accuracy.prod()), float(((1 / k) ** len(accuracy)).mean())


def voter_agreement(pick: Ints, key: Ints, k: Ints) -> dict[str, float | None]:
    """Return how often all voters pick the same option, compared with what position preferences alone explain.

    `pick` (n, m) is coded as in `Votes`. Only items that every voter answered count, and a tie agrees with nothing.
    """
    there = (pick != -1).all(axis=1)
    pick, key, k = pick[there], key[there], k[there]
    if pick.shape[1] < 2 or not len(pick):
        names = ("observed", "independent", "ratio", "fleiss_kappa", "all_right")
        return {"n": len(pick) if pick.shape[1] > 1 else None, **dict.fromkeys(names)}
    alike = (pick >= 0).all(axis=1) & (pick == pick[:, :1]).all(axis=1)
    observed, together = float(alike.mean()), 0.0
    for options in np.unique(k).tolist():
        part = pick[k == options]
        shares = np.stack([(part == j).mean(axis=0) for j in range(options)])
        together += len(part) * float(shares.prod(axis=1).sum())
    independent = together / len(pick)
    right = pick == key[:, None]
    kappa = fleiss_kappa(right)
    return {
        "n": len(pick),
        "observed": observed,
        "independent": independent,
        "ratio": observed / independent if independent > 0 else None,
        "fleiss_kappa": None if math.isnan(kappa) else kappa,
        "all_right": float(right.all(axis=1).mean()),
    }


def _reading_ratio(asked: Bools, read: Bools, right: Bools) -> float:
    """Return a conservative estimate of how many times more often right replies are readable than wrong ones.

    This is the estimate plus one standard error, at least 1. Arguments are (n, m), with a column per voter, and the voters'
    ratios are multiplied. If right replies are readable with probability p and wrong ones with q, then right / p + wrong /
    q sums to the items asked, also if items are weighted by the share of other voters that were right. These are two
    equations for p and q (method of moments, sandwich error). Without other voters, all unreadable replies count as wrong.
    """
    total = variance = most = 0.0
    won, lost = read & right, read & ~right
    for v in range(asked.shape[1]):
        here = asked[:, v]
        unread, wrong = int((here & ~read[:, v]).sum()), int(lost[:, v].sum())
        if not unread:
            continue
        worst = math.log1p(unread / max(1, wrong))
        most += worst
        answered, right_ones = (np.delete(part, v, axis=1)[here].sum(axis=1) for part in (read, won))
        others = right_ones / np.maximum(answered, 1)
        weights = np.stack([np.ones(len(others)), others])
        seen = np.stack([won[here, v], lost[here, v]], axis=1).astype(np.float64)
        moments = weights @ seen
        factors = (
            np.zeros(2) if np.linalg.cond(moments) > 1e9 else np.linalg.solve(moments, weights.sum(axis=1))
        )
        if (factors <= 0).any():
            total += worst
            continue
        noise = (weights * (1 - seen @ factors) ** 2) @ weights.T
        slope = np.linalg.solve(moments.T, np.array([-1.0, 1.0]) / factors)
        total += min(worst, max(-worst, math.log(factors[1] / factors[0])))
        variance += min(worst**2, float(slope @ noise @ slope))
    return math.exp(min(most, max(0.0, total + math.sqrt(variance))))
