"""Choice of distractors from pools, so that over the whole set no cue points to the key or away from it.

Sets of candidates are drawn in proportion to weights that start equal. In each round, fresh probes are fitted to the drawn
sets, and the weights of the sets that give their key away fall (`refitting`). This is a game between a composer and its
auditors in which the composer learns by multiplicative weights (Freund and Schapire 1999), and its equilibrium hides the
key as well as the pools allow. Weights change no more than needed, so that no new cue appears, as it does if distractors
are chosen against one classifier. Finally, one set per item is drawn by weight, given that the moments of simple rules
and of the last probes sum to zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints
from robustify.composing.form import CandidateSets, candidate_sets
from robustify.composing.pool import Pool
from robustify.composing.refitting import Kind, Probes, Round
from robustify.items.item import Item
from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS
from robustify.judging.baselines.near_duplicates import content_hashes, unit_hashes
from robustify.judging.stats.tests import NORMAL

MOST_ROUNDS = 16
QUIET_ROUNDS, LOUD = 2, 0.1
"""Rounds in succession in which no probe has a p-value up to `LOUD`, after which the weights are left alone."""
STEP = 2.0
"""Power of a probe's probabilities by which weights are divided in one round."""
_SLACKS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Squared distance of the moments' sums from their aim in each sweep of the last draw, as a share of the items."""
_NOISE = 2.0
_NEW = 0.25
"""Weight of a new probe in the mean of the recent ones."""


@dataclass(frozen=True, slots=True)
class Choosing:
    """How to choose. `shown` are the fewest and the most options of an item.

    Each distractor that an item had already multiplies a set's weight by exp(`prefer_own`). With `meaning`, a probe of
    the encoder's vectors takes part, and is no proof any more.
    """

    shown: tuple[int, int] = (4, 4)
    seed: int = 0
    prefer_own: float = 0.0
    meaning: bool = False
    rounds: int = MOST_ROUNDS


@dataclass(frozen=True, slots=True)
class Composition:
    """Chosen distractors: indices into the candidates of each pool, and what the probes found in each round.

    `quiet` says whether the last rounds' probes found nothing. `least` is the mean accuracy that recent probes of a kind
    have at least, whatever is chosen from these pools. If it is above chance, the pools cannot hide the keys.
    """

    picks: tuple[tuple[int, ...], ...]
    trace: tuple[Round, ...]
    quiet: bool
    least: Mapping[Kind, float]


def chosen(pools: Sequence[Pool], how: Choosing, vectors: Floats | None = None) -> Composition:
    """Choose distractors for the items of pools. With fewer than 50 items, no probe is fitted, and only rules are balanced.

    `vectors` (t, d) are the encoder's of all pools' texts, in order. The result does not depend on the order of the pools.
    """
    if not pools:
        return Composition((), (), True, {})
    order = np.argsort(content_hashes([pool.item for pool in pools]), kind="stable").tolist()
    sorted_pools = [pools[at] for at in order]
    sets = candidate_sets(sorted_pools, how.shown, how.seed)
    game = _Game(Probes(sorted_pools, sets, _sorted(pools, order, vectors) if how.meaning else None), how)
    nth, quiet = game.played()
    options = sets.option[np.arange(len(order)), nth], sets.there[np.arange(len(order)), nth]
    picks = {at: tuple((row[there][1:] - 1).tolist()) for at, row, there in zip(order, *options, strict=True)}
    return Composition(tuple(picks[at] for at in range(len(pools))), tuple(game.trace), quiet, game.least)


def _sorted(pools: Sequence[Pool], order: Sequence[int], vectors: Floats | None) -> Floats | None:
    if vectors is None:
        return None
    ends = np.cumsum([len(pool.texts) for pool in pools])
    return np.concatenate([vectors[ends[at] - len(pools[at].texts) : ends[at]] for at in order])


class _Game:
    """Weights of candidate sets, and the probes that change them."""

    def __init__(self, probes: Probes, how: Choosing) -> None:
        self._probes, self._sets, self._how = probes, probes.sets, how
        self._log_weight = np.where(self._sets.open, how.prefer_own * self._sets.own, -np.inf)
        self._rng = np.random.default_rng(how.seed)
        self._moments: list[Floats] = []
        self.trace: list[Round] = []
        self.least: dict[Kind, float] = {}
        self._recent: dict[Kind, Floats] = {}

    def played(self) -> tuple[Ints, bool]:
        """Return the set of each item (n,), and whether the last probes found nothing."""
        quiet, fitted = 0, len(self._log_weight) >= FEWEST_ITEMS and bool((self._sets.k > 1).any())
        for number in range(1, (self._how.rounds if fitted else 0) + 1):
            found = self._round(number)
            quiet = quiet + 1 if all(one.p > LOUD for one in found) else 0
            self.trace += found
            if quiet == QUIET_ROUNDS:
                break
        return self._settled(), quiet == QUIET_ROUNDS

    def _round(self, number: int) -> list[Round]:
        picked, seed = self._drawn(), 1_000 * self._how.seed + number
        at, sets, found = np.arange(len(picked)), self._sets, list[Round]()
        change: Floats = np.zeros(self._log_weight.shape)
        self._moments = []
        for kind in self._probes.kinds:
            logits = _centred(self._probes.scores(kind, picked, seed), sets.there)
            slope = _slope(logits[at, picked], sets.there[at, picked])
            log_p = _log_p_of_key(slope * logits, sets.there)
            change += log_p + np.log(sets.k)
            credit, chance = _credit(logits, sets.there), 1 / sets.k
            self._moments += [credit - chance, np.exp(log_p) - chance]
            found.append(_found(number, kind, (credit - chance)[at, picked], chance[at, picked], slope))
            self._remember(kind, credit)
        self._log_weight = np.where(sets.open, self._log_weight - STEP * change, -np.inf)
        return found

    def _remember(self, kind: Kind, credit: Floats) -> None:
        """Raise the bound by the credits (n, S) of a probe. The least credit of each item's sets is that of a best reply to
        the mean of the recent probes, and each such mean gives a bound, as in any game of two players."""
        recent = self._recent.get(kind, credit)
        self._recent[kind] = recent + _NEW * (credit - recent)
        least = np.where(self._sets.open, self._recent[kind], np.inf).min(axis=1)
        self.least[kind] = max(self.least.get(kind, 0.0), float(least.mean()))

    def _drawn(self) -> Ints:
        """Draw a set for each item in proportion to its weight (n,), by the Gumbel trick."""
        return np.asarray((self._log_weight + self._rng.gumbel(size=self._log_weight.shape)).argmax(axis=1))

    def _settled(self) -> Ints:
        """Return a set for each item (n,), drawn by weight given the sums of the moments (Gibbs sampling).

        A sum is to be zero, or what the weights expect less `_NOISE` standard errors, because moving it further would
        disturb their equilibrium. The aim is met ever more closely, so that no item pays for the first draw.
        """
        picked, sets = self._drawn(), self._sets
        n = len(picked)
        moments = np.stack([*self._moments, *_rules(sets)], axis=2)
        spread = moments[sets.open].std(axis=0)
        moments = moments / np.where(spread > ROUNDING, spread, np.inf)
        weight = np.exp(self._log_weight - self._log_weight.max(axis=1, keepdims=True))
        expected = ((weight / weight.sum(axis=1, keepdims=True))[:, :, None] * moments).sum(axis=(0, 1))
        beyond = np.maximum(np.abs(expected) - _NOISE * np.sqrt(n), 0.0)
        total = moments[np.arange(n), picked].sum(axis=0) - np.sign(expected) * beyond
        for slack in _SLACKS:
            for i in self._rng.permutation(n).tolist():
                rest = total - moments[i, picked[i]]
                fit = self._log_weight[i] - ((rest + moments[i]) ** 2).sum(axis=1) / (slack * n)
                picked[i] = (fit + self._rng.gumbel(size=len(fit))).argmax()
                total = rest + moments[i, picked[i]]
        return picked


def _rules(sets: CandidateSets) -> list[Floats]:
    """Return the credits less chance (n, S) of picking the longest or shortest option, in characters and in words."""
    sizes = [[len(text) for text in sets.texts], [len(text.split()) for text in sets.texts]]
    found = [np.array(size, dtype=np.float64)[sets.row] for size in sizes]
    return [_credit(sign * size, sets.there) - 1 / sets.k for size in found for sign in (1, -1)]


def _credit(scores: Floats, there: Bools) -> Floats:
    """Return the tie-fair credit of the key, the first option, for having the highest of scores (n, S, K): (n, S)."""
    shown = np.where(there, scores, -np.inf)
    best = there & (shown >= shown.max(axis=2, keepdims=True) - ROUNDING)
    return np.asarray(best[:, :, 0] / np.maximum(best.sum(axis=2), 1))


def _centred(logits: Floats, there: Bools) -> Floats:
    mean = logits.sum(axis=2, keepdims=True) / np.maximum(there.sum(axis=2, keepdims=True), 1)
    return np.where(there, logits - mean, 0.0)


def _log_p_of_key(logits: Floats, there: Bools) -> Floats:
    """Return the log probability of the first option given logits (..., K)."""
    shown = np.where(there, logits, -np.inf)
    top = np.where(there.any(axis=-1), shown.max(axis=-1), 0.0)
    total = np.exp(shown - top[..., None]).sum(axis=-1)
    return np.asarray(logits[..., 0] - top - np.log(np.maximum(total, ROUNDING)))


def _slope(logits: Floats, there: Bools, steps: int = 30) -> float:
    """Return the factor of at least 0 with which logits (n, K) predict the first option best (Newton's method)."""
    slope = 0.0
    for _ in range(steps):
        p = np.where(there, np.exp(slope * logits - (slope * logits).max(axis=1, keepdims=True)), 0.0)
        p /= p.sum(axis=1, keepdims=True)
        mean = (p * logits).sum(axis=1)
        curve = ((p * logits**2).sum(axis=1) - mean**2).sum()
        step = float((logits[:, 0] - mean).sum() / max(curve, ROUNDING))
        slope += float(np.clip(step, -1.0, 1.0))
        if abs(step) < ROUNDING:
            break
    return max(slope, 0.0)


def _found(number: int, kind: Kind, beyond: Floats, chance: Floats, slope: float) -> Round:
    error = float(np.sqrt((chance * (1 - chance)).sum()))
    p = NORMAL.cdf(-float(beyond.sum()) / error) if error else 1.0
    even, n = float(chance.mean()), len(chance)
    return Round(number, kind, float(beyond.mean()) + even, even, n, p, slope)


def placed(items: Sequence[Item], seed: int) -> tuple[Item, ...]:
    """Return the items with their options in an order that depends only on texts and the seed.

    Items with equally many options are ranked by a hash, and the key's place is the rank modulo that number, so that each
    place has equally many keys. The other options follow in the order of their hashes. Placing the result again changes
    nothing.
    """
    marks = unit_hashes([f"{seed}\0{item.stem}\0" + "\0".join(sorted(item.choices)) for item in items])
    rank: dict[int, int] = {}
    found: dict[int, Item] = {}
    for at in np.argsort(marks, kind="stable").tolist():
        item = items[at]
        rank[item.k] = place = rank.get(item.k, -1) + 1
        mixed = unit_hashes([f"{seed}\0{item.stem}\0{choice}" for choice in item.choices])
        others = [one for one in np.argsort(mixed, kind="stable").tolist() if one != item.key]
        found[at] = item.permuted([*others[: place % item.k], item.key, *others[place % item.k :]])
    return tuple(found[at] for at in range(len(items)))
