"""Verdicts from votes: which items were answered without their question.

The rule is also applied to every other option as a hypothetical key, which gives the flags expected under the null. An item
whose outcome could change with a missing answer is undecided, never silently kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import Bools, Ints
from robustify.items.answers import Answers
from robustify.judging.screen.chance import Chance, chance
from robustify.judging.screen.decoy_filter import Decision
from robustify.judging.screen.item_index import ItemIndex, where_keys_are
from robustify.judging.screen.screen_rules import FDR, ScreenRules, require_voters, votes_needed
from robustify.judging.screen.votes import (
    FLAGGED,
    KEPT,
    UNANSWERED,
    UNDECIDED,
    Votes,
    cast_votes,
    models_asked,
)

T = TypeVar("T", bound=np.generic)

Word = Literal["flagged", "kept", "undecided"]
WORDS: dict[int, Word] = {FLAGGED: "flagged", KEPT: "kept", UNDECIDED: "undecided"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on one item: `votes` of the `of` voters were right, and `reason` gives the deciding fact."""

    item: str
    verdict: Word
    votes: int
    of: int
    reason: str


@dataclass(frozen=True, repr=False, eq=False)
class Verdicts:
    """Verdicts on n items, in order. `which` (n,) indexes the distinct `kinds` of verdict."""

    items: tuple[str, ...]
    kinds: tuple[tuple[Word, int, int, str], ...]
    which: Ints

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, at: int) -> Verdict:
        return Verdict(self.items[at], *self.kinds[self.which[at]])

    def __iter__(self) -> Iterator[Verdict]:
        for item, at in zip(self.items, self.which.tolist(), strict=True):
            yield Verdict(item, *self.kinds[at])

    def undecided(self, mask: Bools, reason: str) -> "Verdicts":
        """Return the verdicts with the items in `mask` (n,) set to undecided for this reason."""
        kinds = [*self.kinds]
        kinds += [("undecided", votes, of, reason) for _, votes, of, _ in self.kinds]
        return Verdicts(self.items, tuple(kinds), np.where(mask, self.which + len(self.kinds), self.which))


@dataclass(frozen=True, eq=False)
class Screened:
    """Outcome of applying one rule to the votes on n items, computed for every option as if it were the key.

    `right` (n, K) counts votes, and `missing` (n,) counts absent votes, of `voters`. `options` (n, K) marks the options
    that exist. `would` (n, K) marks options for which the available answers would flag the item, and `open` (n, K) those
    for which only missing answers still could. `by_ranking` is the decision of `criterion: fdr`, or None if votes count.
    """

    votes: Votes
    rules: ScreenRules
    right: npt.NDArray[np.int16]
    missing: Ints
    options: Bools
    would: Bools
    open: Bools
    voters: int
    by_ranking: Decision | None

    @cached_property
    def measurable(self) -> Bools:
        """Items (n,) whose outcome no missing answer can change, or with an option that the available answers flag.

        Rates and flags expected under the null are measured on these items. The selection does not depend on the keys, so
        it introduces no bias. Every flagged item is among them.
        """
        settled = ~self.open.any(axis=1) | self.would.any(axis=1)
        return np.asarray(self.options.any(axis=1) & settled)

    @cached_property
    def outcome(self) -> Ints:
        """Outcome of each item (n,): 1 flagged, 0 kept, -1 undecided."""
        key = self.votes.key
        undecided = _at_key(self.open, key) | (key < 0)
        return np.where(undecided, UNDECIDED, np.where(_at_key(self.would, key), FLAGGED, KEPT))

    @property
    def would_keep(self) -> Bools:
        """Options (n, K) that would have kept the item if they were the key.

        The selection reveals only that a flagged item has its key in `would`, and a kept item among these.
        """
        return np.asarray(self.options & ~self.would & ~self.open)

    def verdicts(self) -> Verdicts:
        """Return the verdict on each item. One more right vote never turns a flagged item into a kept one."""
        key = self.votes.key
        right = np.where(key >= 0, _at_key(self.right, key), 0).astype(np.int64)
        # A million verdicts share a few reasons, so each distinct case is worded once.
        shape = (3, self.voters + 1, self.voters + 1)
        case = np.ravel_multi_index((self.outcome + 1, right, self.missing), shape)
        kinds, which = np.unique(case, return_inverse=True)
        parts = []
        for kind in kinds:
            c, n_right, missing = map(int, np.unravel_index(kind, shape))
            reason = _reason(c - 1, n_right, missing, self.voters, self.rules)
            parts.append((WORDS[c - 1], n_right, self.voters, reason))
        return Verdicts(self.votes.items, tuple(parts), which)

    def chance(self, groups: Ints | None = None) -> Chance:
        """Return the flags and the number expected under the null, on the items in `measurable`.

        If voters could see the positions of the choices, a null that knows the positions of the keys is computed too
        (`by_position`) and decides. Voters that know only positions would have been right as often.
        """
        there = self.measurable
        would, key, k = self.would[there], self.votes.key[there], self.votes.k[there]
        flagged = _at_key(would, key) & (key >= 0)
        together = None if groups is None else groups[there]
        found = chance(flagged, would, k, together)
        if self.by_ranking is not None:
            # The scorer and the cutoff were fitted to these keys, so a p-value of the counts would be too small.
            found = replace(found, p=None, false_share=self.by_ranking.cutoff.false_share)
            # If nothing is flagged, no cutoff reached q, which does not bound the rate of shortcuts.
            return found if found.flagged else replace(found, latent=None, latent_ci=None)
        positions = where_keys_are(key, k) if self.votes.placed else None
        if positions is None:
            return found
        return replace(found, by_position=chance(flagged, would, k, together, key), positions=positions)


def screened(votes: Votes, rules: ScreenRules, by_ranking: Decision | None = None) -> Screened:
    """Apply a rule to the votes, or `by_ranking`, the decision of `criterion: fdr`. Raise `UsageError` if the criterion
    needs a different number of voters than voted or were left out since."""
    n, m, width = votes.best.shape
    require_voters(rules.criterion, m + votes.left_out)
    options = np.arange(width)
    right = np.zeros((n, width), dtype=np.int16)
    for column in votes.pick.T:
        right += column[:, None] == options
    missing = (votes.pick == UNANSWERED).sum(axis=1)
    if rules.criterion == FDR:
        assert by_ranking is not None
        would, open_ = by_ranking.would, by_ranking.open
    else:
        by_ranking, due = None, votes_needed(rules.criterion, m)
        would = np.asarray(right >= due)
        open_ = np.ones_like(would) if m == 0 else ~would & (right + missing[:, None] >= due)
    there = options < votes.k[:, None]
    return Screened(votes, rules, right, missing, there, would & there, open_ & there, m, by_ranking)


def d4_votes(
    answers: Answers, votes: Votes, rules: ScreenRules, index: ItemIndex
) -> tuple[ScreenRules, Votes] | None:
    """Return the rule of Deep Ignorance D.4 (letters, first order only, all voters right) and its votes, or None if a
    voter was not asked by letter."""
    if not votes.voters:
        return None
    by_letter = rules.mode == "letter"
    template = votes.template if by_letter else None
    d4 = ScreenRules(criterion="unanimous", voters=votes.voters, template=template)
    cast = votes if by_letter and votes.rotations == 1 else cast_votes(answers, d4, index, plain=True)
    asked = models_asked(answers, "choices_only", cast.template)
    return (d4, cast) if cast.template is not None and set(cast.voters) <= set(asked) else None


def _at_key(table: npt.NDArray[T], key: Ints) -> npt.NDArray[T]:
    # An unknown key takes the first column.
    return np.take_along_axis(table, np.maximum(key, 0)[:, None], axis=1)[:, 0]


def _reason(code: int, votes: int, missing: int, voters: int, rules: ScreenRules) -> str:
    said = f"{votes} of {voters} voters right" if voters else "no voter was asked"
    if rules.criterion == FDR:
        ranked = {FLAGGED: "hit above the cut", KEPT: "no hit above the cut"}
        return f"{ranked.get(code, 'unanswered')}, {said}"
    if code == UNDECIDED and voters:
        return f"{said}, {missing} of {voters} unanswered" if missing else f"{said}, no answer at all"
    return f"{said}, {missing} unanswered" if missing and voters else said
