"""Preferences of voters without the question: option scores standardized within the item, averaged over voters.

A vote names the best option. A preference also gives a degree, and is an input of level 2 of the ranking.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robustify.answers import Answers
from robustify.arrays import ROUNDING, Bools, Floats, tied
from robustify.baselines.conditional_logit import centred
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import VIEW_OF, Mode, ScreenRules, TextNorm
from robustify.screen.votes import first_template, in_own_order, item_means, preferences, who_votes
from robustify.stats.missing import reading_ratio

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
    """One voter's preferences (n, K) in one mode, standardized within the item, with 0 if unanswered."""

    values: Floats
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
        answers, index = self._answers, self._index
        template, voters = who_votes(answers, rules)
        complete, placed, every = np.ones(len(index), dtype=bool), False, list[_Preferences]()
        found: dict[str, Floats] = {}
        missing: dict[str, Floats] = {}
        modes: tuple[Mode, ...] = ("text", "letter")
        for mode in modes:
            by = template if mode == rules.mode else first_template(answers, VIEW_OF[mode], voters)
            total, n, voted, silent = np.zeros(self._there.shape), np.zeros(len(index)), 0, False
            if by is None:
                continue
            for name in voters:
                voter = self._of(mode, name, by, rules.norm if mode == rules.mode else "chars")
                if not voter.asked.any() and mode != rules.mode:
                    continue
                voted += 1
                complete &= voter.answered
                total += voter.values
                n += voter.answered
                placed |= voter.placed
                if voter.answered.any():
                    every.append(voter)
                else:
                    silent = True
            if n.any():
                found[f"{mode} votes"] = total / voted
                missing[f"{mode} votes"] = np.full(len(n), _ANYTHING) if silent else 1 - n / voted
        return MeanPreferences(found, missing, complete, placed, self._selection(every))

    def _selection(self, voters: Sequence[_Preferences]) -> float:
        known, key = (self._index.key >= 0) & (self._index.k > 0), np.maximum(self._index.key, 0)
        if all((one.answered | ~one.asked | ~known).all() for one in voters):
            return 1.0
        right = [tied(one.values[np.arange(len(key)), key], one.values.max(axis=1)) for one in voters]
        asked, read = [known & one.asked for one in voters], [known & one.answered for one in voters]
        return reading_ratio(*(np.stack(parts, axis=1) for parts in (asked, read, right)))

    def _of(self, mode: Mode, name: str, template: str, norm: TextNorm) -> _Preferences:
        asking = mode, name, template, norm
        if asking not in self._read:
            block = self._answers.block(VIEW_OF[mode], name, template)
            preference = item_means(*preferences(block, mode, self._index, norm), self._index)
            answered = ~(np.isnan(preference) & self._there).any(axis=1) & (self._index.k > 0)
            values = np.where(answered[:, None], _standardised(preference, self._there), 0.0)
            placed = mode == "letter" and in_own_order(block)
            there = self._index.index_of[block.item]
            asked = np.bincount(there[there >= 0], minlength=len(self._index)) > 0
            self._read[asking] = _Preferences(values, answered, placed, asked)
        return self._read[asking]


def _standardised(values: Floats, there: Bools) -> Floats:
    middle = centred(np.nan_to_num(values), there)
    spread = np.sqrt((middle**2).sum(axis=1) / np.maximum(there.sum(axis=1), 1))
    alive = spread > ROUNDING
    return np.asarray(middle * (alive / np.where(alive, spread, 1.0))[:, None])
