"""Preferences of the screen's voters among options, which the ranking uses.

A preference is a vote with a degree. What a missing answer could have added is known, too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints, by_rows, tied
from robustify.items.answers import Answers
from robustify.items.scoring import VIEW_OF, Mode, TextNorm
from robustify.judging.baselines.conditional_logit import centred
from robustify.judging.screen.item_index import ItemIndex
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screen.votes import first_template, mean_preferences, shows_positions, who_votes

GRADED = " by degree"
"""End of the name of a column of votes on one scale for all items."""
_EVERY = slice(None)
Silence = Callable[[Ints], Floats]
"""Function of some items (r,) that returns the share of voters without an answer, times what it could contribute (r,)."""
_ANYTHING = 1e6
"""Stand-in for the unbounded contribution of a voter that never answered."""


@dataclass(frozen=True)
class _Preferences:
    """One voter's preferences among the options in one mode. `centred_values` (n, K) has mean 0 within the item, or is 0 if
    unanswered. Its deviation is typically `scale`, and at most `largest` times that, among `k` (n,) options. `bare` is
    true if no answer has scores."""

    centred_values: Floats
    k: Ints
    largest: float
    scale: float
    answered: Bools
    placed: bool
    was_asked: Bools
    bare: bool

    def values(self, rows: slice | Ints = _EVERY) -> Floats:
        """Return the preferences on some items, scaled to deviation 1 for each item (r, K). Without spread, they are 0."""
        centred_values = self.centred_values[rows]
        deviation = _deviation(centred_values, self.k[rows])
        varies = deviation > ROUNDING
        return centred_values * (varies / np.where(varies, deviation, 1.0))[:, None]

    def graded(self, rows: Ints) -> Floats:
        """Return the preferences on some items, divided by a scale that is the same for all items (r, K)."""
        return self.centred_values[rows] / self.scale


def _deviation(centred_values: Floats, k: Ints) -> Floats:
    return np.asarray(np.sqrt((centred_values**2).sum(axis=1) / np.maximum(k, 1)))


@dataclass(frozen=True, repr=False)
class MeanPreference:
    """Mean preferences of several voters, computed only for the requested items."""

    voters: Sequence[_Preferences]
    of: Callable[[_Preferences, Ints], Floats]

    def __getitem__(self, rows: Ints) -> Floats:
        return np.asarray(sum(self.of(voter, rows) for voter in self.voters)) / len(self.voters)


@dataclass(frozen=True, repr=False)
class MeanPreferences:
    """Mean preferences by mode of the voters that answered (`values`), and the effect of those that did not (`missing`).
    `complete` (n,) marks items that every voter answered. `placed` is true if a voter saw positions. `selection` is how
    many times more often right answers may have been readable than wrong ones."""

    values: dict[str, MeanPreference]
    missing: dict[str, Silence]
    complete: Bools
    placed: bool
    selection: float
    voters: Sequence[_Preferences]

    def picks(self) -> Floats | None:
        """Return each voter's preferences (n, K, m), or None if a voter gave scores. Unanswered items are NaN."""
        if not self.voters or not all(voter.bare for voter in self.voters):
            return None
        return np.stack(
            [np.where(voter.answered[:, None], voter.values(), np.nan) for voter in self.voters], axis=2
        )


class VoterPreferences:
    """Preferences of all voters among the options of each item. The answers of each voter are read once."""

    def __init__(self, answers: Answers, index: ItemIndex) -> None:
        self._answers, self._index = answers, index
        self.mask = np.arange(index.width) < index.k[:, None]
        self._read: dict[tuple[str, str, str, TextNorm], _Preferences] = {}

    def forget(self) -> None:
        """Release the cached answers."""
        self._read.clear()

    def mean(self, rules: ScreenRules) -> MeanPreferences:
        """Return the mean preferences of the voters that the rules select. A missing answer has none, so that an item with
        few answers ranks lower."""
        template, voters = who_votes(self._answers, rules)
        # An audit leaves out a voter at a time, so that the preferences of few others are needed again.
        self._read = {asking: read for asking, read in self._read.items() if asking[1] in voters}
        values: dict[str, MeanPreference] = {}
        missing: dict[str, Silence] = {}
        read_voters: list[_Preferences] = []
        modes: tuple[Mode, ...] = ("text", "letter")
        for mode in modes:
            is_own = mode == rules.mode
            asked_template = template if is_own else first_template(self._answers, VIEW_OF[mode], voters)
            if asked_template is None:
                continue
            in_mode = [
                self._read_voter(mode, name, asked_template, rules.norm if is_own else "chars")
                for name in voters
            ]
            in_mode = [voter for voter in in_mode if is_own or voter.was_asked.any()]
            answered = [voter.answered.any() for voter in in_mode]
            if any(answered):
                name, largest = f"{mode} votes", max(voter.largest for voter in in_mode)
                values[name] = MeanPreference(in_mode, _Preferences.values)
                values[name + GRADED] = MeanPreference(in_mode, _Preferences.graded)
                missing[name] = partial(_silence, in_mode, 1.0, silent=not all(answered))
                missing[name + GRADED] = partial(_silence, in_mode, largest, silent=not all(answered))
            read_voters += in_mode
        complete = np.ones(len(self._index), dtype=bool)
        for voter in read_voters:
            complete &= voter.answered
        placed = any(voter.placed for voter in read_voters)
        heard = [voter for voter in read_voters if voter.answered.any()]
        selection, key = 1.0, np.maximum(self._index.key, 0)
        is_keyed = (self._index.key >= 0) & (self._index.k > 0)
        if not all((voter.answered | ~voter.was_asked | ~is_keyed).all() for voter in heard):
            tables = (voter.values() for voter in heard)
            right = [tied(table[np.arange(len(key)), key], table.max(axis=1)) for table in tables]
            was_asked = [is_keyed & voter.was_asked for voter in heard]
            was_read = [is_keyed & voter.answered for voter in heard]
            selection = _reading_ratio(*(np.stack(parts, axis=1) for parts in (was_asked, was_read, right)))
        return MeanPreferences(values, missing, complete, placed, selection, heard)

    def _read_voter(self, mode: Mode, name: str, template: str, norm: TextNorm) -> _Preferences:
        asking = mode, name, template, norm
        if asking not in self._read:
            block = self._answers.block(VIEW_OF[mode], name, template)
            preference = mean_preferences(block, mode, self._index, norm)
            answered = ~(np.isnan(preference) & self.mask).any(axis=1) & (self._index.k > 0)
            centred_preference = by_rows(
                lambda values, mask, heard: np.where(heard[:, None], centred(np.nan_to_num(values), mask), 0.0),
                preference, self.mask, answered
            )  # fmt: skip
            spread = by_rows(_deviation, centred_preference, self._index.k)
            varies = spread > ROUNDING
            scale = float(np.sqrt((spread[varies] ** 2).mean())) if varies.any() else 1.0
            place = self._index.index_of[block.item]
            was_asked = np.bincount(place[place >= 0], minlength=len(self._index)) > 0
            placed = mode == "letter" and shows_positions(block)
            bare = not any(np.isfinite(part.scores).any() for part in block.parts())
            largest = float(spread.max(initial=0.0)) / scale
            self._read[asking] = _Preferences(
                centred_preference, self._index.k, largest, scale, answered, placed, was_asked, bare
            )
        return self._read[asking]


def _silence(voters: Sequence[_Preferences], largest: float, rows: Ints, *, silent: bool) -> Floats:
    """Return the most that missing answers could add to a mean preference, for each item of `rows` (r,). It is the share of
    voters without an answer times `largest`, or unbounded if a voter is `silent` on all items."""
    n_answered = sum((voter.answered[rows] for voter in voters), np.zeros(len(rows)))
    return (np.full(len(n_answered), _ANYTHING) if silent else 1 - n_answered / len(voters)) * largest


def _reading_ratio(was_asked: Bools, was_read: Bools, is_right: Bools) -> float:
    """Return a conservative estimate of p / q if right replies are readable with probability p and wrong ones with q.

    This is the estimate plus one standard error, at least 1, of (n, m) with a column per voter, multiplied over voters.
    The sum of right / p + wrong / q is the number of items asked, also if items are weighted by the share of other
    voters that were right: two equations for p and q (method of moments, sandwich error). Without other voters, all
    unreadable replies count as wrong.
    """
    total = variance = total_worst = 0.0
    right, lost = was_read & is_right, was_read & ~is_right
    for v in range(was_asked.shape[1]):
        own = was_asked[:, v]
        unread, wrong = int((own & ~was_read[:, v]).sum()), int(lost[:, v].sum())
        if not unread:
            continue
        worst = math.log1p(unread / max(1, wrong))
        total_worst += worst
        answered, right_ones = (np.delete(part, v, axis=1)[own].sum(axis=1) for part in (was_read, right))
        others = right_ones / np.maximum(answered, 1)
        weights = np.stack([np.ones(len(others)), others])
        seen = np.stack([right[own, v], lost[own, v]], axis=1).astype(np.float64)
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
    return math.exp(min(total_worst, max(0.0, total + math.sqrt(variance))))
