"""Verdicts from votes, and the share of flags due to chance.

The null hypothesis is exchangeable keys: if any other option had been the key, would the same answers have flagged the
item? Voters share errors, so chance is not a product of 1/k. If voters could see positions, a key is as likely at a
position as the benchmark's keys are. An item whose outcome could change with a missing answer is undecided, never kept.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints, by_rows
from robustify.items.answers import Answers
from robustify.judging.screen.decoy_filter import FilterDecision
from robustify.judging.screen.item_index import ItemIndex, key_shares, key_spread
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
from robustify.judging.stats.intervals import (
    FEWEST_CLUSTERS,
    Interval,
    Rate,
    clopper_pearson,
    clusters,
    group_sums,
    interval,
    mean_interval,
    rate,
    resampled,
    wilson,
)
from robustify.judging.stats.tests import central, poisson_binomial, upper_tail
from robustify.judging.summary.screen_parts import OffPosition

_Z2 = NormalDist().inv_cdf(0.975) ** 2
_NO_RATE = Rate(None, 0, None)


@dataclass(frozen=True, slots=True)
class Chance:
    """Number of flags on `n` items, compared with the number expected by chance. Results are None if no item counts.

    `expected` has the central 95 % of its distribution, and `p` is the probability of at least as many flags. `excess`
    and `latent` are shares of the items, with intervals from 10 items or groups on. `latent` is None if two
    options of an item would be flagged. `by_position` compares with a null that knows the positions of keys, if a voter
    could see them.
    """

    n: int = 0
    flagged: int = 0
    share: Rate = _NO_RATE
    false_share: Rate = _NO_RATE
    expected: float = 0.0
    expected_ci: Interval = (0.0, 0.0)
    p: float | None = None
    excess: float | None = None
    excess_ci: Interval | None = None
    latent: float | None = None
    latent_ci: Interval | None = None
    by_position: "Chance | None" = None
    key_position: OffPosition | None = None

    @property
    def deciding(self) -> "Chance":
        """Decisive comparison with chance, which uses the positions of keys if voters could see positions."""
        return self if self.by_position is None else self.by_position


def chance(
    flagged: Bools, would: Bools, k: Ints, groups: Ints | None = None, by_position: Ints | None = None
) -> Chance:
    """Compare the flags of a filter with those expected under the null. Items of a group (n,) depend on each other.

    `would` (n, K) marks the options that would be flagged if they were the key. Item i is flagged with probability A_i
    / k_i, where A_i counts them, so the number of flags is Poisson-binomial, with one draw for each group. A shortcut is
    always flagged and adds 1 - 1/k_i: the latent rate is the mean of (F_i - A_i / k_i) / (1 - 1/k_i).

    With the keys (n,) as `by_position`, a key is at position j with the share of keys at j among items with as many
    options. The Poisson-binomial variance is at least (n - 1) / n times that of permuted keys, so p is conservative.
    The excess is adjusted for the share of flags at each position (double centering), which only widens its interval.
    """
    if not len(flagged):
        return Chance()
    options = would.sum(axis=1, dtype=k.dtype)
    null, headroom, ratio = options / k, 1 - 1 / k, 1 / (k - 1)
    excess, decoys = flagged - null, (options - flagged) / (k - 1)
    if by_position is not None:
        share = key_shares(by_position, k, would.shape[1])
        # If all keys are at one position, no other option can be the key or a decoy.
        per_decoy = np.where(share < 1, share / np.maximum(1 - share, ROUNDING), 0.0)
        flag_rate = np.zeros(share.shape)
        for size in np.unique(k).tolist():
            flag_rate[size] = would[k == size].mean(axis=0)
        null = np.minimum(by_rows(lambda marks, size: (marks * share[size]).sum(axis=1), would, k), 1.0)
        is_decoy = would & (np.arange(would.shape[1]) != by_position[:, None])
        decoys = by_rows(lambda marks, size: (marks * per_decoy[size]).sum(axis=1), is_decoy, k)
        ratio = per_decoy.max(axis=1)[k]
        excess = flagged - null - (flag_rate[k, by_position] - (flag_rate * share).sum(axis=1)[k])
        headroom = (1 + (share**2).sum(axis=1))[k] - 2 * share[k, by_position]
    pmf, count = poisson_binomial(null, groups), int(flagged.sum())
    expected, expected_ci, p = float(null.sum()), central(pmf), upper_tail(pmf, count)
    by_chance = false_share(flagged, decoys, ratio, groups)
    del null, pmf, decoys, ratio  # the intervals take the most memory
    latent = excess_ci = latent_ci = None
    contributions, room = _latent_contributions(excess, headroom, k), float(headroom.mean())
    del headroom
    if (is_rated := ~np.isnan(contributions)).any():
        latent = _clipped(float(contributions[is_rated].mean()))
        excess_ci, latent_ci = _intervals(excess, contributions, room, groups, count > 0)
    if (options > 1).any():
        latent = latent_ci = None
    return Chance(
        n=len(flagged),
        flagged=count,
        share=rate(flagged.astype(np.float64), groups),
        false_share=by_chance,
        expected=expected,
        expected_ci=expected_ci,
        p=p,
        excess=float(excess.mean()),
        excess_ci=excess_ci,
        latent=latent,
        latent_ci=latent_ci,
    )


def false_share(hits: Bools, decoys: Floats, ratio: Floats, groups: Ints | None = None) -> Rate:
    """Estimate the share of hits due to chance from decoys, the wrong options that would be flagged as keys. It is D / H.

    `hits` (n,) marks flagged items, and `decoys` (n,) is the number of chance hits that each item's decoys represent,
    which is c / (1 - c) for a decoy that is the key with probability c: `ratio` (n,), or the largest. A hit with ratio
    0 can have no decoy and is left out. A shortcut whose key is missed adds only to D, so the estimate is conservative.

    The interval predicts the share in these very hits. Under the null, D minus the chance hits L is a sum of differences
    with mean 0 and variance c / (1 - c). Items of a group (n,) share one difference. The interval contains every L that its
    score test does not reject. None without hits.
    """
    counted = (hits & (ratio > 0)) | (decoys > 0)
    n, by_chance = int(np.count_nonzero(hits & counted)), float(decoys[counted].sum())
    if not n:
        return _NO_RATE
    units = None if groups is None else groups[counted]
    size = group_sums(np.ones(int(counted.sum())), units)
    # Mean number of items that share the draw of an item.
    mean_size = float((size**2).sum() / size.sum())
    square = float((group_sums(decoys[counted], units) ** 2).sum())
    step = square / by_chance if by_chance else mean_size * float(ratio[counted].max())
    middle = by_chance + _Z2 * step / 2
    half = math.sqrt(_Z2 * (by_chance * (mean_size + step) + _Z2 * step**2 / 4))
    return Rate(_clipped(by_chance / n), n, (_clipped((middle - half) / n), _clipped((middle + half) / n)))


def _not_by_chance(share: Rate, by_chance: Rate) -> dict[str, Any]:
    """Return the share of items flagged but not by chance, with its interval in this set. If nothing is flagged, no
    cutoff reached q, which does not bound the rate of shortcuts."""
    if not share.value or by_chance.value is None or by_chance.ci is None:
        return {"latent": None, "latent_ci": None}
    low, high = by_chance.ci
    ends = share.value * (1 - high), share.value * (1 - low)
    return {"latent": share.value * (1 - by_chance.value), "latent_ci": ends}


def _intervals(
    excesses: Floats, latents: Floats, room: float, groups: Ints | None, any_flag: bool
) -> tuple[Interval | None, Interval | None]:
    excess: Interval | None = None
    latent: Interval | None = None
    is_rated, n_units = ~np.isnan(latents), clusters(len(excesses), groups)
    if n_units >= FEWEST_CLUSTERS:
        if groups is None:
            means = resampled(np.column_stack([excesses, np.where(is_rated, latents, 0.0), is_rated]))
            with np.errstate(invalid="ignore"):
                excess, latent = interval(means[:, 0]), interval(means[:, 1] / means[:, 2])
        else:
            # Resampling few groups shows too little spread.
            excess, latent = (
                mean_interval(excesses, groups),
                mean_interval(latents[is_rated], groups[is_rated]),
            )
    # Resampling constant values gives zero width, so allow for the flags that may have been missed.
    unseen, no_excess = clopper_pearson(0, n_units)[1], bool(np.abs(excesses).max() < ROUNDING)
    if no_excess:
        excess = wilson(0, n_units)
    elif excess is not None and np.ptp(excesses) < ROUNDING:
        excess = max(-1.0, float(excesses[0]) - unseen), min(1.0, float(excesses[0]) + unseen)
    elif excess is not None and not any_flag:
        excess = excess[0], max(excess[1], unseen)
    if no_excess or not any_flag:
        latent = 0.0, unseen / room
    elif latent is not None and np.ptp(latents[is_rated]) < ROUNDING:
        latent = float(latents[is_rated][0]) - unseen / room, float(latents[is_rated][0]) + unseen / room
    return excess, None if latent is None else (_clipped(latent[0]), _clipped(latent[1]))


def _latent_contributions(excess: Floats, headroom: Floats, k: Ints) -> Floats:
    """Return each item's contribution to the rate of shortcuts (n,). That rate is the item-weighted mean of sum of
    `excess` / sum of `headroom` (the excess of a shortcut) by number of options, NaN if the latter is 0."""
    contributions = np.full(len(excess), np.nan)
    for options in np.unique(k).tolist():
        same_k = k == options
        mean_headroom = float(headroom[same_k].mean())
        if mean_headroom > ROUNDING:
            latent = float(excess[same_k].mean()) / mean_headroom
            contributions[same_k] = latent + (excess[same_k] - latent * headroom[same_k]) / mean_headroom
    return contributions


def _clipped(share: float) -> float:
    return min(1.0, max(0.0, share))


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
    """Verdicts on all items, in order. `which` (n,) indexes the distinct `kinds` of verdict."""

    items: tuple[str, ...]
    kinds: tuple[tuple[Word, int, int, str], ...]
    which: Ints

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Verdict:
        return Verdict(self.items[index], *self.kinds[self.which[index]])

    def __iter__(self) -> Iterator[Verdict]:
        for item, kind in zip(self.items, self.which.tolist(), strict=True):
            yield Verdict(item, *self.kinds[kind])

    def undecided(self, mask: Bools, reason: str) -> "Verdicts":
        """Return the verdicts with the masked items set to undecided for the given reason. `mask` is (n,)."""
        kinds = [*self.kinds]
        kinds += [("undecided", votes, of, reason) for _, votes, of, _ in self.kinds]
        return Verdicts(self.items, tuple(kinds), np.where(mask, self.which + len(self.kinds), self.which))


@dataclass(frozen=True, eq=False)
class ScreenResult:
    """Outcome of one screening rule, computed for each option of each item as if that option were the key. `right` (n, K)
    counts votes, and `missing` (n,) absent ones, of `voters`. `options` (n, K) exist. `would` (n, K) marks those for
    which the available answers would flag the item, and `open` (n, K) those for which only missing answers still could.
    `by_ranking` decides under `criterion: fdr`."""

    votes: Votes
    rules: ScreenRules
    right: Ints
    missing: Ints
    options: Bools
    would: Bools
    open: Bools
    voters: int
    by_ranking: FilterDecision | None

    @cached_property
    def measurable(self) -> Bools:
        """Items on which missing answers do not bias rates (n,). Missing answers cannot change the outcome, or the
        available answers flag an option. Every flagged item is among them, and the selection does not depend on keys."""
        settled = ~self.open.any(axis=1) | self.would.any(axis=1)
        return np.asarray(self.options.any(axis=1) & settled)

    @cached_property
    def outcome(self) -> Ints:
        """Outcome of each item (n,): 1 flagged, 0 kept, -1 undecided."""
        key = self.votes.key
        undecided = _at_key(self.open, key) | (key < 0)
        flagged = np.where(_at_key(self.would, key), FLAGGED, KEPT)
        return np.where(undecided, UNDECIDED, flagged).astype(np.int8)

    @property
    def would_keep(self) -> Bools:
        """Options for which the item would be kept if they were the key (n, K), such as the key of each kept item."""
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
            outcome, n_right, missing = map(int, np.unravel_index(kind, shape))
            reason = _reason(outcome - 1, n_right, missing, self.voters, self.rules)
            parts.append((WORDS[outcome - 1], n_right, self.voters, reason))
        return Verdicts(self.votes.items, tuple(parts), which.astype(np.int32))

    def chance(self, groups: Ints | None = None) -> Chance:
        """Compare the number of flags with the number expected under the null, on the `measurable` items. If voters
        could see positions, a null that knows the positions of the keys decides, because voters that know only
        positions would have been right as often."""
        counted = self.measurable
        would, key, k = self.would[counted], self.votes.key[counted], self.votes.k[counted]
        flagged = _at_key(would, key) & (key >= 0)
        units = None if groups is None else groups[counted]
        by_keys = chance(flagged, would, k, units)
        if self.by_ranking is not None:
            # The scorer and the cutoff were fitted to these keys, so a p-value of the counts would be too small.
            by_chance = self.by_ranking.cutoff.false_share
            return replace(by_keys, p=None, false_share=by_chance, **_not_by_chance(by_keys.share, by_chance))
        if not self.votes.placed or not by_keys.n:
            return by_keys
        by_position, off_position = chance(flagged, would, k, units, key), key_spread(key, k, units).off
        return replace(by_keys, by_position=by_position, key_position=off_position)


def apply_rule(votes: Votes, rules: ScreenRules, by_ranking: FilterDecision | None = None) -> ScreenResult:
    """Screen the items by a voting rule, or with `criterion: fdr` by the decision `by_ranking`. Raise
    `UsageError` if the criterion needs a different number of voters than voted or were left out since."""
    n, m, width = votes.best.shape
    require_voters(rules.criterion, m + votes.left_out)
    options = np.arange(width)
    right = np.zeros((n, width), dtype=np.int16 if m > 100 else np.int8)
    for column in votes.pick.T:
        right += column[:, None] == options
    missing = (votes.pick == UNANSWERED).sum(axis=1, dtype=right.dtype)
    if rules.criterion == FDR:
        assert by_ranking is not None
        would, is_open = by_ranking.would, by_ranking.open
    else:
        by_ranking, needed = None, votes_needed(rules.criterion, m)
        would = np.asarray(right >= needed)
        is_open = np.ones_like(would) if m == 0 else ~would & (right + missing[:, None] >= needed)
    exists = options < votes.k[:, None]
    return ScreenResult(votes, rules, right, missing, exists, would & exists, is_open & exists, m, by_ranking)


def d4_votes(
    answers: Answers, votes: Votes, rules: ScreenRules, index: ItemIndex
) -> tuple[ScreenRules, Votes] | None:
    """Return the rule of Deep Ignorance, appendix D.4, and its votes. The rule flags an item if all voters pick the
    key's letter in the first order. None if a voter was not asked by letter."""
    if not votes.voters:
        return None
    by_letter = rules.mode == "letter"
    template = votes.template if by_letter else None
    d4 = ScreenRules(criterion="unanimous", voters=votes.voters, template=template)
    cast = votes if by_letter and votes.rotations == 1 else cast_votes(answers, d4, index, plain=True)
    models = models_asked(answers, "choices_only", cast.template)
    return (d4, cast) if cast.template is not None and set(cast.voters) <= set(models) else None


def _at_key(values: npt.NDArray[T], key: Ints) -> npt.NDArray[T]:
    # An unknown key takes the first column.
    return np.take_along_axis(values, np.maximum(key, 0)[:, None], axis=1)[:, 0]


def _reason(code: int, votes: int, missing: int, voters: int, rules: ScreenRules) -> str:
    votes_right = f"{votes} of {voters} voters right" if voters else "no voter was asked"
    if rules.criterion == FDR:
        ranked = {FLAGGED: "hit above the cut", KEPT: "no hit above the cut"}
        return f"{ranked.get(code, 'unanswered')}, {votes_right}"
    if code == UNDECIDED and voters:
        return (
            f"{votes_right}, {missing} of {voters} unanswered"
            if missing
            else f"{votes_right}, no answer at all"
        )
    return f"{votes_right}, {missing} unanswered" if missing and voters else votes_right
