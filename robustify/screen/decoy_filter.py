"""The filter with a bounded share of false removals: which items of a ranking are shortcuts, and where it is cut.

Every wrong option is a decoy: an item without a shortcut has its key at the option that a question-free scorer likes best
with a known probability c, whatever the scorer. So hits by chance are estimated from misses, and the cut is Selective
SeqStep+ (Barber and Candes 2015, section 4; in competitions with c other than 1/2: Emery et al. 2019, arXiv 1907.01458).

Every item is flagged by its own key. Of near-duplicates, whose hits are no independent evidence, one counts for the
cut. An item that is not flagged, but whose ranking lacks an answer or has no single best option, is undecided.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import betainc

from robustify.arrays import Bools, Floats, Ints
from robustify.screen.consensus import ROBUST, SHORTCUT, UNDECIDED
from robustify.screen.ranking import Ranking
from robustify.screen.votes import Flagging
from robustify.stats.intervals import Interval, Rate


@dataclass(frozen=True, slots=True)
class Cut:
    """Everything with a strength of at least `threshold` (None: nothing) lies above the cut.

    `hits` and `misses` above it, `decoys` D: the hits by chance that the misses stand for, one a cut to be safe included;
    `estimate` D / H of the share of the hits that are there by chance, at most the q asked for, with an interval
    (`false_share_interval`). `n` items entered.
    """

    n: int
    threshold: float | None
    hits: int
    misses: int
    decoys: float
    estimate: float | None
    interval: Interval | None


def hits_per_miss(null: Floats) -> Floats:
    """rho = c / (1 - c): hits by chance for each miss among items whose top is the key with probability c, (n,)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(null < 1, null / (1 - null), np.inf))


def decoy_cut(strength: Floats, hit: Bools, rho: Floats, q: float) -> Cut:
    """The lowest cut, after whole ties of the strength alone, at which D / H is at most q.

    `strength`, `hit`, `rho` (n,). D = the largest rho of all items plus the sum of rho over the misses above. Its
    false discovery rate is at most q in finite samples where all rho are equal and the ranking was made without
    these items' keys (Barber and Candes 2015, theorem 3). For unequal rho the same follows at a fixed cut, and at the
    chosen one only simulations show it; `exact_hits` makes them equal.
    """
    n = len(strength)
    if not n:
        return Cut(0, None, 0, 0, 0.0, None, None)
    order = np.argsort(-strength, kind="stable")
    ranked, won = strength[order], hit[order]
    hits = np.cumsum(won)
    decoys = rho.max() + np.cumsum(np.where(won, 0.0, rho[order]))
    last = np.append(ranked[1:] < ranked[:-1], True)
    at = np.flatnonzero(last & (hits > 0) & (decoys <= q * hits + 1e-12))
    if not len(at):
        return Cut(n, None, 0, 0, float(rho.max()), None, None)
    end = int(at[-1])
    h, d = int(hits[end]), float(decoys[end])
    misses = end + 1 - h
    ratio = (d - float(rho.max())) / misses if misses else float(rho[order[: end + 1]].mean())
    return Cut(n, float(ranked[end]), h, misses, d, d / h, false_share_interval(h, misses, ratio))


def false_share_interval(hits: int, misses: int, rho: float, cuts: int = 1) -> Interval:
    """The 95 % interval of the share of `hits` there by chance, from `misses` that each stand for `rho` of them.

    Items without a shortcut are hits with probability c = rho / (1 + rho), so before as many misses their hits are
    negative binomial; the ends are its quantiles for this many misses and for one more in each of the `cuts`. It holds
    for a cut fixed beforehand; `docs/filter.md` says how it does at the cut that the data chose.
    """
    if not hits:
        return 0.0, 1.0
    c = rho / (1 + rho)
    low = _negative_binomial(0.025, misses, c) if misses else 0
    high = _negative_binomial(0.975, misses + cuts, c)
    return min(1.0, low / hits), min(1.0, high / hits)


def _negative_binomial(level: float, misses: int, c: float) -> int:
    """The smallest v with P(at most v successes of probability c before so many misses) >= level."""
    if c >= 1:
        return 1 << 31
    return bisect_left(range(1 << 31), level, key=lambda v: float(betainc(misses, v + 1, 1 - c)))


def exact_cut(
    strength: Floats, hit: Bools, rho: Floats, fold: Ints, content: Floats, q: float
) -> tuple[dict[int, float], Cut]:
    """Return a threshold by fold that keeps the false discovery rate at most q in finite samples, and the whole cut.

    The ranking of a fold must come from fits without its keys. Hits above a fold's `decoy_cut` at q / 2 get the e-value
    n_f / (rho (1 + M_f)), and e-BH flags at q whatever the dependence between folds (Wang and Ramdas 2022; Ren and Barber
    2024). Where rho differs, misses are thinned by the hash of the item's `content`, which makes all rho the largest.
    """
    if not len(strength):
        return {}, Cut(0, None, 0, 0, 0.0, None, None)
    n, largest = len(strength), float(rho.max(initial=0.0))
    left_in = hit | (content * largest < rho) if np.ptp(rho) > 0 else np.ones(n, dtype=bool)
    cuts: list[tuple[float, int, Cut]] = []
    for f in np.unique(fold).tolist():
        of = (fold == f) & left_in
        cut = decoy_cut(strength[of], hit[of], np.full(np.count_nonzero(of), largest), q / 2)
        if cut.threshold is not None:
            cuts.append((np.count_nonzero(fold == f) / (largest * (1 + cut.misses)), f, cut))
    cuts.sort(key=lambda one: -one[0])
    hits = np.cumsum([cut.hits for _, _, cut in cuts], dtype=np.int64)
    enough = [m for m, (e, _, _) in enumerate(cuts) if e * hits[m] >= n / q * (1 - 1e-12)]
    if not enough:
        return {}, Cut(n, None, 0, 0, largest, None, None)
    flagged = cuts[: enough[-1] + 1]
    h, missed = int(hits[enough[-1]]), sum(cut.misses for _, _, cut in flagged)
    d = largest * (len(flagged) + missed)
    thresholds = {f: cut.threshold for _, f, cut in flagged if cut.threshold is not None}
    interval = false_share_interval(h, missed, largest, len(flagged))
    return thresholds, Cut(n, None, h, missed, d, d / h, interval)


def shortcut_share(strength: Floats, hit: Bools, null: Floats, at: Floats) -> Floats:
    """Return the share of items with a shortcut at the strengths `at` (m,); 0 below all of these.

    Isotonic regression of (hit - c) / (1 - c), whose mean is that share, on `strength` (n,), by pooled adjacent violators
    (Ayer et al. 1955); `null` (n,) is c. Items of one strength share one value.
    """
    if not len(strength):
        return np.zeros(len(at))
    kinds, place = np.unique(strength, return_inverse=True)
    over, room = (np.bincount(place, weights=x) for x in (hit - null, 1 - null))
    share = np.clip(isotonic_regression(over / room, weights=room).x, 0.0, 1.0)
    below = np.searchsorted(kinds, at, side="right") - 1
    return np.asarray(np.where(below >= 0, share[np.maximum(below, 0)], 0.0))


def shortcut_probability(h: Floats, null: Floats) -> Floats:
    """P(shortcut | hit) = (h - c) / ((1 - c) h), (n,), were a shortcut always a hit; `h` is P(hit | weight) >= c > 0.

    Of the items at a weight a share s has a shortcut: h = s + (1 - s) c, and a hit is one with probability s / h.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (h - null) / ((1 - null) * h)
    return np.asarray(np.where((null < 1) & (h > 0), found, 0.0))


@dataclass(frozen=True, repr=False)
class Decision:
    """The filter's outcome on n items.

    `outcome` (n,) 1 shortcut, 0 robust, -1 undecided. `cut` counts the items that entered, without a threshold under the
    exact rule, which has one a fold. `above` (n,): the item lies above its cut; `hit` (n,): the top is the key. `open`
    (n, K): were option j the key, a missing answer could still flag the item, or nothing says whether. `posterior` (n,) h,
    the probability that the top is the key at this strength, by the items of other folds; `shortcut` (n,) the probability
    that an item has a shortcut, given that its top is its key; both NaN where there is no top.
    """

    outcome: Ints
    cut: Cut
    above: Bools
    hit: Bools
    open: Bools
    posterior: Floats
    shortcut: Floats


def flags(ranking: Ranking, key: Ints, q: float, *, exact: bool = False) -> Decision:
    """Flag items so that at most a share `q` of them is there by chance, in expectation; `key` (n,), -1 unknown.

    `exact`: the finite-sample rule (`exact_cut`).
    """
    n = len(ranking.items)
    # Where places alone always give the key, no answer can be distinguished from chance.
    ranked = (ranking.top >= 0) & (key >= 0) & (ranking.null < 1)
    hit = ranked & (ranking.top == key)
    enter = np.flatnonzero(ranked & (ranking.group == np.arange(n)))
    strength, won, null = ranking.strength[enter], hit[enter], ranking.null[enter]
    rho = hits_per_miss(null)
    threshold = np.full(n, np.inf)
    if exact:
        by_fold, cut = exact_cut(strength, won, rho, ranking.fold[enter], ranking.content[enter], q)
        for f, least in by_fold.items():
            threshold[ranking.fold == f] = least
    else:
        cut = decoy_cut(strength, won, rho, q)
        threshold[:] = np.inf if cut.threshold is None else cut.threshold
    above = ranked & (ranking.strength >= threshold)
    share = np.full(n, np.nan)
    for f in np.unique(ranking.fold).tolist():
        # No item's own hit says how probable its shortcut is.
        mine, others = ranked & (ranking.fold == f), ranking.fold[enter] != f
        share[mine] = shortcut_share(strength[others], won[others], null[others], ranking.strength[mine])
    posterior = share + (1 - share) * ranking.null
    # Without a cut, a missing answer could have made one.
    reached = np.where(np.isfinite(threshold), threshold, 0.0)[:, None]
    open_ = (ranking.reachable >= reached) | (ranking.null >= 1)[:, None]
    at_key = open_[np.arange(n), np.maximum(key, 0)] | (key < 0)
    outcome = np.where(above & hit, SHORTCUT, np.where(at_key, UNDECIDED, ROBUST))
    return Decision(outcome, cut, above, hit, open_, posterior, shortcut_probability(posterior, ranking.null))


def cuts_at(ranking: Ranking, key: Ints, shares: Sequence[float]) -> list[Cut]:
    """Return the cut at each of these shares by chance; `key` (n,)."""
    enter = np.flatnonzero(
        (ranking.top >= 0) & (key >= 0) & (ranking.null < 1) & (ranking.group == np.arange(len(key)))
    )
    strength, hit = ranking.strength[enter], ranking.top[enter] == key[enter]
    return [decoy_cut(strength, hit, hits_per_miss(ranking.null[enter]), q) for q in shares]


def flagging(ranking: Ranking, made: Decision, width: int) -> Flagging:
    """Return what a decision would flag were any other option the key, (n, width)."""
    at = np.flatnonzero(made.above)
    would = np.zeros((len(made.above), width), dtype=bool)
    would[at, ranking.top[at]] = True
    share = Rate(made.cut.estimate, made.cut.hits, made.cut.interval)
    return Flagging(would, made.open & ~would, share)
