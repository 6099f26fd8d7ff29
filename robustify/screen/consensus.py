"""From votes to verdicts: which items were answered without their question.

The same rule is also asked of every other option, as if that had been the key: so is measured what is expected under
the null. An item whose outcome a missing answer could still change is undecided, never robust in silence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeVar, overload
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from robustify.answers import Answers
from robustify.arrays import Bools, Ints
from robustify.errors import UsageError
from robustify.screen.chance import Chance, chance, chance_by_place
from robustify.screen.item_index import ItemIndex, where_keys_stand
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
        """The same, undecided for this reason where `mask` (n,) is true."""
        kinds: list[tuple[Word, int, int, str]] = [
            *self.kinds,
            *(("undecided", votes, of, reason) for _, votes, of, _ in self.kinds),
        ]
        return Verdicts(self.items, tuple(kinds), np.where(mask, self.which + len(self.kinds), self.which))


@dataclass(frozen=True)
class _Count:
    """The rule asked of every option, as if that were the key.

    `right` (n, K) votes, `missing` (n,) votes that are not there; `options` (n, K) which options there are. `flagged`
    (n, K) by the answers that are there; `open` (n, K): not flagged, but missing answers could still flag it.
    """

    right: npt.NDArray[np.int16]
    missing: Ints
    options: Bools
    flagged: Bools
    open: Bools
    voters: int

    @cached_property
    def weighed(self) -> Bools:
        """See the function of this name."""
        settled = ~(self.open & self.options).any(axis=1)
        return np.asarray(self.options.any(axis=1) & (settled | (self.flagged & self.options).any(axis=1)))


def _count(votes: Votes, rules: ScreenRules) -> _Count:
    """The rule asked once of each votes, however often it is needed."""
    known = _COUNTS.setdefault(votes, {})
    if rules not in known:
        known[rules] = _counted(votes, rules)
    return known[rules]


def _counted(votes: Votes, rules: ScreenRules) -> _Count:
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
        if votes.ranked is None:
            raise UsageError("screen.criterion: fdr needs a ranking of all items; expected ranked votes")
        flagging = votes.ranked(votes.voters, rules)
        flagged, undecided = flagging.would, np.repeat(flagging.undecided[:, None], width, axis=1)
    else:
        due = votes_needed(rules.criterion, m)
        flagged = np.asarray(right >= due)
        undecided = np.ones_like(flagged) if m == 0 else ~flagged & (right + missing[:, None] >= due)
    return _Count(right, missing, options < votes.k[:, None], flagged, undecided, m)


_COUNTS: WeakKeyDictionary[Votes, dict[ScreenRules, _Count]] = WeakKeyDictionary()


def would_flag(votes: Votes, rules: ScreenRules) -> Bools:
    """For each option (n, K): would these votes flag the item, were this option its key?

    Raises:
        UsageError: the criterion is for another number of voters than voted, those left out since included.
    """
    count = _count(votes, rules)
    return count.flagged & count.options


def weighed(votes: Votes, rules: ScreenRules) -> Bools:
    """The items (n,) whose outcome depends on no missing answer, whichever option is the key, or of which the
    answers that are there flag some option already.

    Rates and what is expected under the null are measured on these. Which they are does not depend on the keys, so
    leaving the others out biases neither. Every flagged item is among them.
    """
    return _count(votes, rules).weighed


def outcome(votes: Votes, rules: ScreenRules) -> Ints:
    """1 shortcut, 0 robust, -1 undecided, (n,)."""
    return _outcome(votes, _count(votes, rules))


def _outcome(votes: Votes, count: _Count) -> Ints:
    undecided = _at_key(count.open, votes.key) | (votes.key < 0)
    return np.where(undecided, UNDECIDED, np.where(_at_key(count.flagged, votes.key), SHORTCUT, ROBUST))


def screen_verdicts(votes: Votes, rules: ScreenRules) -> Verdicts:
    """The verdict on each item, in the order of the votes.

    One more right vote never turns a shortcut into a robust item.
    """
    count = _count(votes, rules)
    right = np.where(votes.key >= 0, _at_key(count.right, votes.key), 0).astype(np.int64)
    code = _outcome(votes, count)
    # A million verdicts share a handful of reasons: each distinct case is worded once.
    shape = (3, count.voters + 1, count.voters + 1)
    case = np.ravel_multi_index((code + 1, right, count.missing), shape)
    kinds, which = np.unique(case, return_inverse=True)
    parts = []
    for kind in kinds:
        c, n_right, missing = map(int, np.unravel_index(kind, shape))
        reason = _reason(c - 1, n_right, missing, count.voters, rules)
        parts.append((WORDS[c - 1], n_right, count.voters, reason))
    return Verdicts(votes.items, tuple(parts), which)


def d4_rule(
    answers: Answers,
    voters: Sequence[str],
    template: str | None,
    index: ItemIndex,
    own: Votes | None = None,
    groups: Ints | None = None,
) -> tuple[Chance, str] | None:
    """Deep Ignorance D.4's rule: letters, the first order only, all voters right.

    Its chance and its template; None where a voter was not asked by letter. `own`: these voters' votes by letter
    under this template, which are taken as they are where each item was asked in one order. `groups` (n,) of items
    that are resampled together.
    """
    rules = ScreenRules(criterion="unanimous", voters=tuple(voters), template=template)
    single = own is not None and own.rotations == 1 and own.voters == rules.voters
    votes = own if own is not None and single else cast_votes(answers, rules, index, plain=True)
    asked = models_asked(answers, "choices_only", votes.template)
    if votes.template is None or not votes.voters or not set(votes.voters) <= set(asked):
        return None
    return screen_chance(votes, rules, groups), votes.template


def could_be(votes: Votes, rules: ScreenRules) -> tuple[Bools, Bools]:
    """The options (n, K) that as the key would have made each item a shortcut, and those that would have it kept.

    What was flagged had its key among the first, what was kept among the second: that much, and no more, the
    selection alone says of where the key is.
    """
    count = _count(votes, rules)
    return count.flagged & count.options, count.options & ~count.flagged & ~count.open


def screen_chance(votes: Votes, rules: ScreenRules, groups: Ints | None = None) -> Chance:
    """What was flagged and how much of it is expected under the null, on the items that are `weighed`.

    Where voters could see the places of the choices, a null that knows the places of the keys is computed too
    (`by_place`) and decides: the same answers would have been right as often for voters that know places alone.
    """
    count = _count(votes, rules)
    there = count.weighed
    would, key, k = (count.flagged & count.options)[there], votes.key[there], votes.k[there]
    flagged = _at_key(would, key) & (key >= 0)
    together = None if groups is None else groups[there]
    found = chance(flagged, would, k, together)
    if rules.criterion == FDR and votes.ranked is not None:
        return _of_ranking(found, flagged, would, k, together, votes.ranked(votes.voters, rules))
    places = where_keys_stand(key, k) if votes.placed else None
    if places is None:
        return found
    return replace(found, by_place=chance_by_place(flagged, would, key, k, together), places=places)


def _of_ranking(
    found: Chance, flagged: Bools, would: Bools, k: Ints, groups: Ints | None, ranked: Flagging
) -> Chance:
    """What chance explains of the flags of `criterion: fdr`: the share by its cut, and no p.

    The scorer was fitted on these keys and the cut drawn by them, so that a p of counts would be too small. Items that
    follow a flagged near-duplicate are flagged whatever their key, so that they say nothing of chance. Where nothing
    is flagged no cut reached q, which bounds no rate of shortcuts.
    """
    alone = would.sum(axis=1) <= 1
    if not alone.all():
        rest = chance(flagged[alone], would[alone], k[alone], None if groups is None else groups[alone])
        found = replace(rest, n=found.n, flagged=found.flagged, share=found.share)
    found = replace(found, p=None, false_share=ranked.false_share)
    return found if flagged.any() else replace(found, latent=None, latent_ci=None)


def _at_key(table: npt.NDArray[T], key: Ints) -> npt.NDArray[T]:
    """The column of each row's key; of the first option where the key is not known."""
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
