"""What the screen does to an item of a made-up benchmark, as exact probabilities.

People err together only through the favourite of an item and the letter shown first. Given both, their picks
are independent, so every probability is a sum over them of products; nothing is drawn, and nothing of the
judge's own code is used.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from robustify.arrays import Floats
from robustify.simulate.parameters import (
    Case,
    SimulationParameters,
    key_place_probabilities,
    sight_probabilities,
)

Criterion = Literal["unanimous", "majority"]


@dataclass(frozen=True, slots=True)
class Probabilities:
    """Of one case the probability that it is weighed, flagged, kept, and `luck`: flagged were its key drawn anew.

    `luck_by_place`: the same, were the key at a place as often as the keys of the world are.
    `right` (people,): expected credit in the screen; `right_kept` (people,) with the item kept. `left_out`
    (voters,): kept by the others; `left_out_right` (voters,): the voter's credit with that. With unanswered
    votes only the numbers that are no arrays and `right` hold.
    """

    weighed: float
    flagged: float
    luck: float
    luck_by_place: float
    kept: float
    right: Floats
    right_kept: Floats
    left_out: Floats
    left_out_right: Floats


@dataclass(frozen=True, slots=True)
class Given:
    """One state of what people share: its probability, the key, all picks (people, k), and that of no pick."""

    weight: float
    key: int
    vote: Floats
    shared: float


def screen_probabilities(
    world: SimulationParameters, case: Case, criterion: Criterion = "unanimous", *, plain: bool = False
) -> Probabilities:
    """What the screen makes of a case; `plain`: of the first order alone, as under D.4's rule."""
    # In rotations a place is no property of an option: all are alike.
    places = key_place_probabilities(world, case.k) if world.asked == "own" else np.full(case.k, 1 / case.k)
    total = [(g.weight, _within(world, g, places, criterion)) for g in _states(world, case, plain=plain)]

    def mean(of: Callable[[Probabilities], float]) -> float:
        return sum(weight * of(o) for weight, o in total)

    def means(of: Callable[[Probabilities], Floats]) -> Floats:
        return np.asarray(np.sum([weight * of(o) for weight, o in total], axis=0), dtype=np.float64)

    return Probabilities(
        weighed=mean(lambda o: o.weighed),
        flagged=mean(lambda o: o.flagged),
        luck=mean(lambda o: o.luck),
        luck_by_place=mean(lambda o: o.luck_by_place),
        kept=mean(lambda o: o.kept),
        right=means(lambda o: o.right),
        right_kept=means(lambda o: o.right_kept),
        left_out=means(lambda o: o.left_out),
        left_out_right=means(lambda o: o.left_out_right),
    )


def _states(world: SimulationParameters, case: Case, *, plain: bool) -> Iterator[Given]:
    """All states. In rotations every option is like every other, so the key is option 0 there; in the own
    order options are places, and the letter shown first is that of place 0.
    """
    k, own = case.k, world.asked == "own"
    sees = sight_probabilities(world, case.kind)[:, None]
    bias = world.letter_bias if plain or own else 0.0
    # With a liking for a letter, one asking of somebody without a preference falls on that letter.
    by_letter = 1 - (1 - bias) * (1 - world.ties) if bias else 0.0
    shared = 0.0 if bias else world.ties
    keys = list(enumerate(key_place_probabilities(world, k).tolist())) if own else [(0, 1.0)]
    firsts = [(j, 1 / k) for j in range(k)] if bias and not own else [(0, 1.0)]
    for (key, p_key), favourite, (first, p_first) in product(keys, range(k), firsts):
        p = (1 - world.distractors) / k
        p += world.distractors / (k - 1) if favourite != key else 0.0
        guess = world.correlation * np.eye(k)[favourite] + (1 - world.correlation) / k
        pick = (1 - sees) * guess + sees * np.eye(k)[key]
        vote = (1 - by_letter - shared) * pick + by_letter * np.eye(k)[first]
        yield Given(p_key * p * p_first, key, vote, shared)


def _within(world: SimulationParameters, g: Given, places: Floats, criterion: Criterion) -> Probabilities:
    m, k = world.voters, g.vote.shape[1]
    voters, need = g.vote[:m], needed_votes(criterion, m)
    would = np.array([at_least(voters[:, j], need) for j in range(k)])
    whole = (1 - world.unanswered) ** m
    flagged, luck, by_place = (whole * float(p) for p in (would[g.key], would.mean(), places @ would))
    weighed, kept = _with_holes(world, voters, g.key) if world.unanswered else (1.0, 1 - flagged)
    right = g.vote[:, g.key]
    credit = right + g.shared / k
    rest = [np.delete(right[:m], i) for i in range(m)]
    taken = np.array([
        # A right pick of a voter is a vote; one it shares among all options is none.
        right[i] * at_least(rest[i], need - 1) + g.shared / k * at_least(rest[i], need)
        if i < m
        else credit[i] * would[g.key]
        for i in range(len(right))
    ])  # fmt: skip
    others = np.array([1 - at_least(part, needed_votes(criterion, m - 1)) for part in rest])
    return Probabilities(
        weighed, flagged, luck, by_place, kept, credit, credit - taken, others, others * credit[:m]
    )


def _with_holes(world: SimulationParameters, voters: Floats, key: int) -> tuple[float, float]:
    """That no missing answer could turn the item whichever its key, and that none could with its own.

    Unanimous votes: a missing one matters only where all others agree.
    """
    weighed = kept = 0.0
    for there in product((False, True), repeat=world.voters):
        weight = world.unanswered ** there.count(False) * (1 - world.unanswered) ** there.count(True)
        alike = voters[list(there)].prod(axis=0)
        weighed += weight * (1.0 if all(there) else 1 - float(alike.sum()) if any(there) else 0.0)
        kept += weight * (1 - float(alike[key]))
    return weighed, kept


def needed_votes(criterion: Criterion, voters: int) -> int:
    """How many right votes flag an item."""
    return max(voters, 1) if criterion == "unanimous" else voters // 2 + 1


def at_least(p: Floats, least: int) -> float:
    """P(at least so many of independent events with these probabilities)."""
    pmf = np.ones(1)
    for q in p.tolist():
        pmf = np.convolve(pmf, [1 - q, q])
    return float(pmf[max(0, least) :].sum())
