"""From votes to verdicts: which items were answered without their question.

The same rule is also asked of every other option, as if that had been the key: luck is measured with it. An
item that a missing answer could still turn is undecided, never robust in silence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from robustify.answers import Answers
from robustify.arrays import Bools, Ints
from robustify.screen.chance import Chance, chance, chance_by_place
from robustify.screen.item_index import ItemIndex, item_index
from robustify.screen.key_positions import where_keys_stand
from robustify.screen.screen_rules import ScreenRules, require_voters, votes_needed
from robustify.screen.votes import TIED, UNANSWERED, Votes, cast_votes, models_asked

T = TypeVar("T", bound=np.generic)

SHORTCUT, ROBUST, UNDECIDED = 1, 0, -1
Word = Literal["shortcut", "robust", "undecided"]
WORDS: dict[int, Word] = {SHORTCUT: "shortcut", ROBUST: "robust", UNDECIDED: "undecided"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is held of one item: `votes` of the `of` voters were right; `reason` says what decided."""

    item: str
    verdict: Word
    votes: int
    of: int
    reason: str


@dataclass(frozen=True)
class Tally:
    """Votes for every option, were it the key.

    `right` (n, K) votes, `missing` (n,) votes that are not there; `sure` (n, K) what the probe flags alone,
    `sure_missing` (n,) whether its word is not there.
    """

    right: npt.NDArray[np.int16]
    missing: Ints
    sure: Bools
    sure_missing: Bools
    voters: int


def tally(held: Votes, rules: ScreenRules) -> Tally:
    """Count the votes for every option, (n, K).

    Raises:
        UsageError: the criterion is for another number of voters than voted, those left out since included.
    """
    n, m, width = held.best.shape
    choice = held.choice
    if rules.probe_vote == "with" and held.probe is not None:
        choice, m = np.column_stack([choice, held.probe]), m + 1
    require_voters(rules.criterion, m + held.left_out)
    options = np.arange(width)
    right = np.zeros((n, width), dtype=np.int16)
    for column in choice.T:
        right += column[:, None] == options
    alone = rules.probe_vote == "alone"
    probe = held.probe if alone and held.probe is not None else np.full(n, TIED)
    return Tally(right, (choice == UNANSWERED).sum(axis=1), probe[:, None] == options, probe == UNANSWERED, m)


def would_flag(held: Votes, rules: ScreenRules) -> Bools:
    """For each option (n, K): would these votes flag the item, were this option its key?"""
    count = tally(held, rules)
    return _flagged(count, rules) & _options(held)


def weighed(held: Votes, rules: ScreenRules) -> Bools:
    """The items (n,) whose outcome hangs on no missing answer, whichever option is the key, or of which the
    answers that are there flag some option already.

    Rates and luck are measured on these. Which they are does not depend on the keys, so leaving the others
    out biases neither. Every flagged item is among them.
    """
    return _weighed(held, rules, tally(held, rules))


def outcome(held: Votes, rules: ScreenRules) -> Ints:
    """1 shortcut, 0 robust, -1 undecided, (n,)."""
    count = tally(held, rules)
    key = np.maximum(held.key, 0)[:, None]
    flagged = _at(_flagged(count, rules), key)
    hanging = _at(_hanging(count, rules), key) | (held.key < 0)
    return np.where(hanging, UNDECIDED, np.where(flagged, SHORTCUT, ROBUST))


def screen_verdicts(held: Votes, rules: ScreenRules) -> tuple[Verdict, ...]:
    """The verdict on each item, in the ballot's order.

    One more right vote never turns a shortcut into a robust item.
    """
    count = tally(held, rules)
    key = np.maximum(held.key, 0)[:, None]
    votes = np.where(held.key >= 0, _at(count.right, key), 0).astype(np.int64)
    sure = _at(count.sure, key) & (held.key >= 0)
    code = outcome(held, rules)
    # A million verdicts share a handful of reasons: each distinct case is worded once.
    shape = (3, count.voters + 1, count.voters + 1, 2, 2)
    case = np.ravel_multi_index((code + 1, votes, count.missing, sure * 1, count.sure_missing * 1), shape)
    kinds, which = np.unique(case, return_inverse=True)
    said = []
    for kind in kinds:
        c, right, missing, certain, silent = map(int, np.unravel_index(kind, shape))
        reason = _reason(c - 1, right, missing, bool(certain), bool(silent), count.voters, rules)
        said.append((WORDS[c - 1], right, count.voters, reason))
    return tuple(Verdict(item, *said[i]) for item, i in zip(held.items, which.tolist(), strict=True))


def d4_rule(
    answers: Answers,
    voters: Sequence[str],
    template: str | None,
    order: Sequence[str] | ItemIndex,
    own: Votes | None = None,
    groups: Ints | None = None,
) -> tuple[Chance, str] | None:
    """Deep Ignorance D.4's rule: letters, the first order only, all voters right.

    Its chance and its template; None where a voter was not asked by letter. `own`: these voters' votes by letter
    under this template, which are taken as they are where each item was asked in one order. `groups` (n,) of items
    that are resampled together.
    """
    held = order if isinstance(order, ItemIndex) else item_index(answers, order)
    rules = ScreenRules(voters=tuple(voters), template=template)
    single = own is not None and own.rotations == 1 and own.voters == rules.voters
    votes = own if own is not None and single else cast_votes(answers, rules, held, plain=True)
    asked = models_asked(answers, "choices_only", votes.template)
    if votes.template is None or not votes.voters or not set(votes.voters) <= set(asked):
        return None
    return screen_chance(votes, rules, groups), votes.template


def could_be(held: Votes, rules: ScreenRules) -> tuple[Bools, Bools]:
    """The options (n, K) that as the key would have made each item a shortcut, and those that would have it kept.

    What was flagged had its key among the first, what was kept among the second: that much, and no more, the
    selection alone says of where the key stands.
    """
    count = tally(held, rules)
    options = _options(held)
    flagged = _flagged(count, rules) & options
    return flagged, options & ~flagged & ~_hanging(count, rules)


def screen_chance(held: Votes, rules: ScreenRules, groups: Ints | None = None) -> Chance:
    """What was flagged and how much of it is luck, on the items whose outcome hangs on no missing answer.

    Where voters could see the places at which the choices stand, luck with places stands beside it (`by_place`)
    and decides: the same answers would have been right as often for voters that know places alone.
    """
    count = tally(held, rules)
    there = _weighed(held, rules, count)
    would, key, k = (_flagged(count, rules) & _options(held))[there], held.key[there], held.k[there]
    flagged = _at(would, np.maximum(key, 0)[:, None]) & (key >= 0)
    together = None if groups is None else groups[there]
    luck = chance(flagged, would, k, together)
    places = where_keys_stand(key, k) if held.placed else None
    if places is None:
        return luck
    return replace(luck, by_place=chance_by_place(flagged, would, key, k, together), places=places)


def _flagged(count: Tally, rules: ScreenRules) -> Bools:
    return np.asarray((count.right >= votes_needed(rules.criterion, count.voters)) | count.sure)


def _weighed(held: Votes, rules: ScreenRules, count: Tally) -> Bools:
    flagged = _flagged(count, rules) & _options(held)
    hanging = _hanging(count, rules) & _options(held)
    return (held.k > 0) & (~hanging.any(axis=1) | flagged.any(axis=1))


def _hanging(count: Tally, rules: ScreenRules) -> Bools:
    if count.voters == 0 and rules.probe_vote != "alone":
        return np.ones(count.right.shape, dtype=bool)
    could = count.right + count.missing[:, None] >= votes_needed(rules.criterion, count.voters)
    return np.asarray(~_flagged(count, rules) & (could | count.sure_missing[:, None]))


def _options(held: Votes) -> Bools:
    return np.asarray(np.arange(held.best.shape[2]) < held.k[:, None])


def _at(table: npt.NDArray[T], key: Ints) -> npt.NDArray[T]:
    return np.take_along_axis(table, key, axis=1)[:, 0]


def _reason(
    code: int, votes: int, missing: int, sure: bool, silent: bool, voters: int, rules: ScreenRules
) -> str:
    if voters == 0 and rules.probe_vote != "alone":
        return "no voter was asked"
    said = f"{votes} of {voters} voters right" if voters else "no voter was asked"
    if sure:
        return f"{said}, the probe is right and sure"
    if code == UNDECIDED:
        absent = [f"{missing} of {voters} unanswered"] * (missing > 0) + ["the probe unanswered"] * silent
        return ", ".join([said, *(absent or ["no answer at all"])])
    return f"{said}, {missing} unanswered" if missing else said
