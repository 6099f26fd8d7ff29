"""Choose distractors from pools, so that over the whole set, no cue points to the key or away from it.

Sets of candidates are drawn by weights that start equal. In each round, fresh probes are fitted to the drawn sets, and the
weights of the sets that give their key away fall: a game between a composer and its auditors, learned by multiplicative
weights (Freund and Schapire 1999), whose equilibrium hides the key as well as the pools allow. Finally, one set per item is
drawn by weight, given that the moments of simple rules and of recent probes sum to zero.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints
from robustify.composing.cue_probes import CandidateSets, Probes, candidate_sets
from robustify.composing.pool import Pool
from robustify.items.scoring import best, credit
from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS, centred, log_probabilities
from robustify.judging.baselines.near_duplicates import content_hashes
from robustify.judging.readers.chance import gains
from robustify.judging.summary.model_parts import Gain

MOST_ROUNDS = 16
QUIET_ROUNDS, LOUD = 2, 0.1
"""Rounds in succession in which no probe has a p-value up to `LOUD`, after which the weights are left alone."""
STEP = 2.0
"""Power of a probe's probabilities by which weights are divided in one round."""
_SLACKS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Squared distance of the moments' sums from their aim in each sweep of the last draw, as a share of the items."""
_NOISE = 2.0
_ROUNDS_KEPT = 4
"""Last rounds whose probes give moments for the last draw."""
_SHARPEST = 3.0
_NEW = 0.25
"""Weight of a new probe in the mean of the recent ones."""


@dataclass(frozen=True, slots=True)
class Choosing:
    """Settings for choosing distractors. `shown` is the minimum and maximum number of options of an item.

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
    """Chosen distractors, as indices of the candidates of each pool, and the findings of the probes in each round.

    `least` is the mean accuracy that recent probes of a kind have at least, whatever is chosen from these pools. If it is
    above chance, the pools cannot hide the keys.
    """

    picks: tuple[tuple[int, ...], ...]
    trace: tuple[Mapping[str, Gain], ...]
    least: Mapping[str, float]


def choose_distractors(
    pools: Sequence[Pool], settings: Choosing, vectors: Callable[[Sequence[str]], Floats | None]
) -> Composition:
    """Choose distractors for the items of pools. With fewer than 50 items, no probe is fitted, and only rules are balanced.

    `vectors` returns the encoder's of texts. The result does not depend on the order of the pools.
    """
    if not pools:
        return Composition((), (), {})
    order = np.argsort(content_hashes([pool.item for pool in pools]), kind="stable").tolist()
    sorted_pools = [pools[i] for i in order]
    sets = candidate_sets(sorted_pools, settings.shown, settings.seed)
    game = _Game(Probes(sorted_pools, sets, vectors(sets.texts) if settings.meaning else None), settings)
    options = sets.option[np.arange(len(order)), game.played()].tolist()
    picks = {i: tuple(option - 1 for option in row if option) for i, row in zip(order, options, strict=True)}
    return Composition(tuple(picks[i] for i in range(len(pools))), tuple(game.trace), game.least)


class _Game:
    """Search in rounds: probes look for the keys in drawn sets, and the weights of candidate sets change in response."""

    def __init__(self, probes: Probes, settings: Choosing) -> None:
        self._probes, self._sets, self._settings = probes, probes.sets, settings
        self._log_weight = np.where(self._sets.open, settings.prefer_own * self._sets.own, -np.inf)
        self._rng = np.random.default_rng(settings.seed)
        self._moments: deque[Floats] = deque(maxlen=_ROUNDS_KEPT * 2 * len(probes.readers))
        self.trace: list[Mapping[str, Gain]] = []
        self.least: dict[str, float] = {}
        self._recent: dict[str, Floats] = {}

    def played(self) -> Ints:
        """Change the weights until the probes find no keys, and return the index of each item's final set (n,)."""
        quiet, fitted = 0, len(self._log_weight) >= FEWEST_ITEMS and bool((self._sets.k > 1).any())
        while fitted and quiet < QUIET_ROUNDS and len(self.trace) < self._settings.rounds:
            self.trace.append(self._round(len(self.trace) + 1))
            quiet = quiet + 1 if all(gain.p > LOUD for gain in self.trace[-1].values()) else 0
        return self._settled()

    def _round(self, number: int) -> dict[str, Gain]:
        picked, seed = self._drawn(), 1_000 * self._settings.seed + number
        rows, sets, credits_by_reader = np.arange(len(picked)), self._sets, dict[str, Floats]()
        change, exists, key = np.zeros(self._log_weight.shape), sets.exists, np.zeros_like(picked)
        for reader in self._probes.readers:
            logits = centred(self._probes.scores(reader, picked, seed), exists)
            slope = _sharpness(logits[rows, picked], exists[rows, picked], key)
            log_p = log_softmax(np.where(exists, slope * logits, -np.inf), axis=2)[:, :, 0]
            change += log_p + np.log(sets.k)
            credits = _credits(logits, sets)
            self._moments += [credits - 1 / sets.k, np.exp(log_p) - 1 / sets.k]
            credits_by_reader[reader] = credits[rows, picked]
            # The least credits of best replies to the mean of recent probes are a bound, as in any game of two players.
            recent = self._recent.get(reader, credits)
            self._recent[reader] = recent + _NEW * (credits - recent)
            least = np.where(sets.open, self._recent[reader], np.inf).min(axis=1)
            self.least[reader] = max(self.least.get(reader, 0.0), float(least.mean()))
        self._log_weight = np.where(sets.open, self._log_weight - STEP * change, -np.inf)
        return gains(credits_by_reader, sets.k[rows, picked])

    def _drawn(self) -> Ints:
        """Draw a set for each item in proportion to its weight (Gumbel trick). Return their indices (n,)."""
        return np.asarray((self._log_weight + self._rng.gumbel(size=self._log_weight.shape)).argmax(axis=1))

    def _settled(self) -> Ints:
        """Draw each item's final set at random by weight, so that rules and probes gain nothing overall (Gibbs sampling).

        The aim of a sum is zero, or its expected value under the weights minus `_NOISE` standard errors, because moving a
        sum further would disturb their equilibrium. The aim is met ever more closely, so that no item pays for the first
        draw.
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
                without_item = total - moments[i, picked[i]]
                fit = self._log_weight[i] - ((without_item + moments[i]) ** 2).sum(axis=1) / (slack * n)
                picked[i] = (fit + self._rng.gumbel(size=len(fit))).argmax()
                total = without_item + moments[i, picked[i]]
        return picked


def _sharpness(logits: Floats, exists: Bools, key: Ints) -> float:
    """Return the inverse temperature, from 0 to 3, at which the logits predict the keys best."""
    from scipy.optimize import minimize_scalar  # loaded only when needed

    def loss(scale: float) -> float:
        return -float(log_probabilities(scale * logits, exists)[np.arange(len(key)), key].sum())

    return float(minimize_scalar(loss, bounds=(0, _SHARPEST), method="bounded").x)


def _rules(sets: CandidateSets) -> list[Floats]:
    """Return each rule's gain over chance (n, S). A rule picks the longest or shortest option, in characters or words."""
    sizes = [[len(text) for text in sets.texts], [len(text.split()) for text in sets.texts]]
    amounts = [np.array(size, dtype=np.float64)[sets.row] for size in sizes]
    return [_credits(sign * amount, sets) - 1 / sets.k for amount in amounts for sign in (1, -1)]


def _credits(scores: Floats, sets: CandidateSets) -> Floats:
    """Return the credit for the key in each set (n, S): 1 if the key scores highest, a share if it ties, or else 0."""
    top = best(scores.reshape(-1, scores.shape[2]), sets.k.ravel())
    return credit(top, np.zeros(len(top), dtype=np.int64)).reshape(sets.k.shape)
