"""What voters like without the question: the mean over voters of each option's score, standardised within the item.

A vote says which option is best; a liking says by how much, and is what level 2 of the ranking is fitted on.
"""

from dataclasses import dataclass

import numpy as np

from robustify.answers import Answers
from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.conditional_logit import centred
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import VIEW_OF, Mode, ScreenRules, TextNorm
from robustify.screen.votes import first_template, in_own_order, preferences, who_votes

_EQUAL = 1e-9
"""Scores that differ by less differ by rounding."""


@dataclass(frozen=True)
class _Liking:
    """What one voter likes in one mode: `values` (n, K) standardised within the item, 0 where it did not answer;
    `answered` (n,); whether it answered by letter and saw places; whether it was asked at all.
    """

    values: Floats
    answered: Bools
    placed: bool
    asked: bool


class Likings:
    """The likings of all voters, each read once."""

    def __init__(self, answers: Answers, index: ItemIndex) -> None:
        self._answers, self._index = answers, index
        self._there = np.arange(index.width) < index.k[:, None]
        self._heard: dict[tuple[str, str, str, TextNorm], _Liking] = {}

    def of(self, rules: ScreenRules) -> tuple[dict[str, Floats], Bools, bool]:
        """Return what the rules' voters like, one (n, K) a mode, whether all answered (n,), and whether one saw places.

        The mean over voters of the score standardised within the item (mean 0, deviation 1).
        """
        answers, index = self._answers, self._index
        template, voters = who_votes(answers, rules)
        complete, placed = np.ones(len(index), dtype=bool), False
        found: dict[str, Floats] = {}
        modes: tuple[Mode, ...] = ("text", "letter")
        for mode in modes:
            by = template if mode == rules.mode else first_template(answers, VIEW_OF[mode], voters)
            total, n = np.zeros(self._there.shape), np.zeros(len(index))
            if by is None:
                continue
            for name in voters:
                liking = self._liking(mode, name, by, rules.norm if mode == rules.mode else "chars")
                # A voter that was asked and answered nothing leaves every item incomplete.
                complete &= liking.answered | (not liking.asked and mode != rules.mode)
                if liking.answered.any():
                    total += liking.values
                    n += liking.answered
                    placed |= liking.placed
            if n.any():
                found[f"{mode} votes"] = total / np.maximum(n, 1)[:, None]
        return found, complete, placed

    def _liking(self, mode: Mode, name: str, template: str, norm: TextNorm) -> _Liking:
        asking = mode, name, template, norm
        if asking not in self._heard:
            block = self._answers.block(VIEW_OF[mode], name, template)
            liking = _mean(*preferences(block, mode, self._index, norm), self._index)
            answered = ~(np.isnan(liking) & self._there).any(axis=1) & (self._index.k > 0)
            values = np.where(answered[:, None], _standardised(liking, self._there), 0.0)
            placed = mode == "letter" and in_own_order(block)
            self._heard[asking] = _Liking(values, answered, placed, len(block) > 0)
        return self._heard[asking]


def _mean(at: Ints, liking: Floats, index: ItemIndex) -> Floats:
    asked = np.bincount(at, minlength=len(index))
    total = np.stack([np.bincount(at, weights=column, minlength=len(index)) for column in liking.T], axis=1)
    return np.where(asked[:, None] > 0, total / np.maximum(asked, 1)[:, None], np.nan)


def _standardised(values: Floats, there: Bools) -> Floats:
    middle = centred(np.nan_to_num(values), there)
    spread = np.sqrt((middle**2).sum(axis=1) / np.maximum(there.sum(axis=1), 1))
    alive = spread > _EQUAL
    return np.asarray(middle * (alive / np.where(alive, spread, 1.0))[:, None])
