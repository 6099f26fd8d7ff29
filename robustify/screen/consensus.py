"""From votes to verdicts: which items were answered without their question.

The same rule is also asked of every other option, as if that had been the key: so is measured what is expected under
the null. An item whose outcome a missing answer could still change is undecided, never robust in silence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from robustify.answers import Answers
from robustify.arrays import Bools, Ints
from robustify.errors import UsageError
from robustify.screen.chance import Chance, chance, chance_by_position
from robustify.screen.item_index import ItemIndex, where_keys_are
from robustify.screen.screen_rules import FDR, ScreenRules, require_voters, votes_needed
from robustify.screen.votes import UNANSWERED, Flagging, Votes, cast_votes, models_asked

T = TypeVar("T", bound=np.generic)

SHORTCUT, ROBUST, UNDECIDED = 1, 0, -1
Word = Literal["shortcut", "robust", "undecided"]
WORDS: dict[int, Word] = {SHORTCUT: "shortcut", ROBUST: "robust", UNDECIDED: "undecided"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one item: `votes` of the `of` voters were right; `reason` says what decided."""

    item: str
    verdict: Word
    votes: int
    of: int
    reason: str


@dataclass(frozen=True, repr=False, eq=False)
class Verdicts(Sequence[Verdict]):
    """The verdicts on n items, in their order: `kinds` what stands beside an item's name, `which` (n,) one of them."""

    items: tuple[str, ...]
    kinds: tuple[tuple[Word, int, int, str], ...]
    which: Ints

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, at: int) -> Verdict: ...

    @overload
    def __getitem__(self, at: slice) -> "Verdicts": ...

    def __getitem__(self, at: int | slice) -> "Verdict | Verdicts":
        if isinstance(at, slice):
            return Verdicts(self.items[at], self.kinds, self.which[at])
        return Verdict(self.items[at], *self.kinds[self.which[at]])

    def __iter__(self) -> Iterator[Verdict]:
        for item, at in zip(self.items, self.which.tolist(), strict=True):
            yield Verdict(item, *self.kinds[at])

    def undecided(self, mask: Bools, reason: str) -> "Verdicts":
        """Return these verdicts, undecided for this reason where `mask` (n,) is true."""
        kinds: list[tuple[Word, int, int, str]] = [
            *self.kinds,
            *(("undecided", votes, of, reason) for _, votes, of, _ in self.kinds),
        ]
        return Verdicts(self.items, tuple(kinds), np.where(mask, self.which + len(self.kinds), self.which))


@dataclass(frozen=True, eq=False)
class Screened:
    """What one rule makes of the votes on n items, asked of every option as if that were the key.

    `right` (n, K) votes, `missing` (n,) votes that are absent, of `voters`. `options` (n, K): the options that exist;
    `would` (n, K): the rule would flag the item by the answers at hand, were that option its key; `open` (n, K): it would
    not, but missing answers could still flag it. `cut`: what `criterion: fdr` flags; None if votes are counted.
    """

    votes: Votes
    rules: ScreenRules
    right: npt.NDArray[np.int16]
    missing: Ints
    options: Bools
    would: Bools
    open: Bools
    voters: int
    cut: Flagging | None

    @cached_property
    def weighed(self) -> Bools:
        """The items (n,) whose outcome depends on no missing answer, whichever option is the key, or of which the
        answers that are there flag some option already.

        Rates and what is expected under the null are measured on these. Which they are does not depend on the keys, so
        leaving the others out biases neither. Every flagged item is among them.
        """
        settled = ~self.open.any(axis=1) | self.would.any(axis=1)
        return np.asarray(self.options.any(axis=1) & settled)

    @cached_property
    def outcome(self) -> Ints:
        """1 shortcut, 0 robust, -1 undecided, (n,)."""
        key = self.votes.key
        undecided = _at_key(self.open, key) | (key < 0)
        return np.where(undecided, UNDECIDED, np.where(_at_key(self.would, key), SHORTCUT, ROBUST))

    @property
    def would_keep(self) -> Bools:
        """The options (n, K) that as the key would have the item kept.

        What was flagged had its key among `would`, what was kept among these: that much, and no more, the selection alone
        says of where the key is.
        """
        return np.asarray(self.options & ~self.would & ~self.open)

    def verdicts(self) -> Verdicts:
        """Return the verdict on each item. One more right vote never turns a shortcut into a robust item."""
        key = self.votes.key
        right = np.where(key >= 0, _at_key(self.right, key), 0).astype(np.int64)
        # A million verdicts share a handful of reasons: each distinct case is worded once.
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
        """Return what was flagged and how much of it is expected under the null, on the items that are `weighed`.

        If voters could see the positions of the choices, a null that knows the positions of the keys is computed too
        (`by_position`) and decides: the same answers would have been right as often for voters that know positions alone.
        """
        there = self.weighed
        would, key, k = self.would[there], self.votes.key[there], self.votes.k[there]
        flagged = _at_key(would, key) & (key >= 0)
        together = None if groups is None else groups[there]
        found = chance(flagged, would, k, together)
        if self.cut is not None:
            return _of_ranking(found, flagged, self.cut)
        positions = where_keys_are(key, k) if self.votes.placed else None
        if positions is None:
            return found
        known = chance_by_position(flagged, would, key, k, together)
        return replace(found, by_position=known, positions=positions)


def screened(votes: Votes, rules: ScreenRules, cut: Flagging | None = None) -> Screened:
    """Apply a rule to the votes; `cut`: what `criterion: fdr` flags.

    Raises:
        UsageError: the criterion is for another number of voters than voted, those left out since included.
    """
    n, m, width = votes.best.shape
    choice = votes.choice
    if rules.probe_vote == "with" and votes.probe is not None:
        choice, m = np.column_stack([choice, votes.probe]), m + 1
    require_voters(rules.criterion, m + votes.left_out)
    options = np.arange(width)
    right = np.zeros((n, width), dtype=np.int16)
    for column in choice.T:
        right += column[:, None] == options
    missing = (choice == UNANSWERED).sum(axis=1)
    if rules.criterion == FDR:
        if cut is None:
            raise UsageError("screen.criterion: fdr needs a ranking of all items; expected a cut")
        would, open_ = cut.would, cut.open
    else:
        due = votes_needed(rules.criterion, m)
        would = np.asarray(right >= due)
        open_ = np.ones_like(would) if m == 0 else ~would & (right + missing[:, None] >= due)
    there = options < votes.k[:, None]
    return Screened(votes, rules, right, missing, there, would & there, open_ & there, m, cut)


def d4_votes(
    answers: Answers, votes: Votes, rules: ScreenRules, index: ItemIndex
) -> tuple[ScreenRules, Votes] | None:
    """Return Deep Ignorance D.4's rule (letters, the first order only, all voters right) and its votes.

    None if a voter was not asked by letter. The votes at hand are taken if they are by letter in one order.
    """
    if not votes.voters:
        return None
    by_letter = rules.mode == "letter"
    template = votes.template if by_letter else None
    d4 = ScreenRules(criterion="unanimous", voters=votes.voters, template=template)
    cast = votes if by_letter and votes.rotations == 1 else cast_votes(answers, d4, index, plain=True)
    asked = models_asked(answers, "choices_only", cast.template)
    return (d4, cast) if cast.template is not None and set(cast.voters) <= set(asked) else None


def _of_ranking(found: Chance, flagged: Bools, ranked: Flagging) -> Chance:
    """What chance explains of the flags of `criterion: fdr`: the share by its cut, and no p.

    The scorer was fitted on these keys and the cut drawn by them, so that a p of counts would be too small. Where nothing
    is flagged no cut reached q, which bounds no rate of shortcuts.
    """
    found = replace(found, p=None, false_share=ranked.false_share)
    return found if flagged.any() else replace(found, latent=None, latent_ci=None)


def _at_key(table: npt.NDArray[T], key: Ints) -> npt.NDArray[T]:
    """The column of each row's key; of the first option if the key is not known."""
    return np.take_along_axis(table, np.maximum(key, 0)[:, None], axis=1)[:, 0]


def _reason(code: int, votes: int, missing: int, voters: int, rules: ScreenRules) -> str:
    said = f"{votes} of {voters} voters right" if voters else "no voter was asked"
    if rules.criterion == FDR:
        ranked = {
            SHORTCUT: "hit above the cut",
            ROBUST: "no hit above the cut",
            UNDECIDED: "tied or unanswered",
        }
        return f"{ranked[code]}, {said}"
    if code == UNDECIDED and voters:
        return f"{said}, {missing} of {voters} unanswered" if missing else f"{said}, no answer at all"
    return f"{said}, {missing} unanswered" if missing and voters else said
