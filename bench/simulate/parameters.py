"""The parameters of a simulated benchmark, and what the screen makes of its items as exact probabilities.

Parameters are probabilities: how many items hold a shortcut, who sees it, how voters err together. They are simple
enough for the truth to be computed exactly, so this is no model of natural shortcuts. Voters err together only through
the favourite of an item and the letter shown first. Given both, their picks are independent, so every probability is
a sum over them of products; nothing is drawn, and nothing of the judge's own code is used.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import product
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from robustify.arrays import Floats

Kind = Literal["clean", "length", "hedge", "wordless", "hidden"]

VOTER, OUTSIDE, TESTED = "voter", "outside", "model"
TOPICS = (0.4, 0.3, 0.2, 0.1)
"""The shares of the four topics; one of them is small."""


class Simulation(BaseModel):
    """Every probability is for one item.

    `shortcut_rate`: some key can be seen without the question, by each voter with probability `sight`; the kinds
    in `planted` are equally likely (`length`: the key has the most words; `hedge`: the only words like "often";
    `wordless`: nothing in the text shows it). `hidden_rate`: a key that only outside models see. `knowing`: a
    voter sees the key of any other item. A voter that does not see it guesses: with probability `correlation` the item's
    favourite, which all share, else any option. `distractors`: the favourite is a wrong option for certain.
    `letter_bias`: one asking of one voter is decided by the first letter shown. `ties`, `unanswered`: a voter
    has no preference, gives no answer. `places`: where keys are in the benchmark's own order. `asked`: in all
    rotations of an order fixed by the id, or once in the own order, as in most logs. `passage`: so many items in
    a row are of one kind and form a group. `graded`: how much a voter likes its pick varies, and is more where it sees a
    shortcut.

    Models under test answer the full question: right with `accuracy` on items without and with a shortcut, and
    each asking is a blind guess with probability 1 - `firmness`. Cloze knows no order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: int = Field(default=300, ge=1, le=1_000_000)
    shortcut_rate: float = Field(default=0.1, ge=0, le=1)
    planted: tuple[Kind, ...] = ("length", "hedge", "wordless")
    hidden_rate: float = Field(default=0.0, ge=0, le=1)
    options: tuple[int, ...] = (4,)
    voters: int = Field(default=3, ge=1, le=9)
    sight: float = Field(default=1.0, ge=0, le=1)
    knowing: float = Field(default=0.0, ge=0, le=1)
    correlation: float = Field(default=0.5, ge=0, le=1)
    distractors: float = Field(default=0.0, ge=0, le=1)
    letter_bias: float = Field(default=0.2, ge=0, le=1)
    ties: float = Field(default=0.0, ge=0, le=1)
    unanswered: float = Field(default=0.0, ge=0, le=1)
    places: Literal["uniform", "skewed"] = "uniform"
    asked: Literal["rotated", "own"] = "rotated"
    passage: int = Field(default=1, ge=1)
    graded: bool = False
    outside: int = Field(default=1, ge=0, le=9)
    tested: int = Field(default=2, ge=0, le=9)
    accuracy: tuple[float, float] = (0.45, 0.75)
    cloze_accuracy: tuple[float, float] = (0.40, 0.40)
    firmness: float = Field(default=0.85, ge=0, le=1)
    orders: int = Field(default=5, ge=1, le=24)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _possible(self) -> "Simulation":
        if self.shortcut_rate + self.hidden_rate > 1:
            raise ValueError("shortcut_rate and hidden_rate: more than 1 together")
        if not self.options or not all(2 <= k <= 26 for k in self.options):
            raise ValueError(f"options: {list(self.options)}; expected numbers from 2 to 26")
        if not self.planted or not set(self.planted) <= {"length", "hedge", "wordless"}:
            raise ValueError("planted: expected some of length, hedge, wordless")
        if not all(0 <= a <= 1 for a in (*self.accuracy, *self.cloze_accuracy)):
            raise ValueError("accuracy, cloze_accuracy: expected probabilities")
        return self

    @property
    def kinds(self) -> dict[Kind, float]:
        """The probability of each kind of item."""
        each = self.shortcut_rate / len(set(self.planted))
        rates: dict[Kind, float] = {"clean": 1 - self.shortcut_rate - self.hidden_rate}
        rates |= dict.fromkeys(dict.fromkeys(self.planted), each)
        return rates | {"hidden": self.hidden_rate}

    @property
    def voter_names(self) -> tuple[str, ...]:
        """The voters."""
        return tuple(f"{VOTER}-{m + 1}" for m in range(self.voters))

    @property
    def outside_names(self) -> tuple[str, ...]:
        """The models that answer the screen without a vote."""
        return tuple(f"{OUTSIDE}-{m + 1}" for m in range(self.outside))

    @property
    def tested_names(self) -> tuple[str, ...]:
        """The models under test."""
        return tuple(f"{TESTED}-{m + 1}" for m in range(self.tested))


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of item with so many options, and how likely it is."""

    kind: Kind
    k: int
    weight: float


def cases(sim: Simulation) -> Iterator[Case]:
    """All kinds of items; the weights sum to 1."""
    for kind, rate in sim.kinds.items():
        for k in sim.options:
            if rate > 0:
                yield Case(kind, k, rate / len(sim.options))


def sight_probabilities(sim: Simulation, kind: Kind) -> Floats:
    """How likely each voter, then each outside model, sees the key of an item of this kind, (people,)."""
    seen_by_voters = kind not in ("clean", "hidden")
    voters = sim.sight if seen_by_voters else sim.knowing
    outside = sim.knowing if kind == "clean" else sim.sight
    return np.repeat([voters, outside], [sim.voters, sim.outside])


def place_probabilities(sim: Simulation, k: int) -> Floats:
    """How likely the key is at each of k places; skewed means k to 1 in proportion."""
    weights = np.ones(k) if sim.places == "uniform" else np.arange(k, 0, -1, dtype=np.float64)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def tested_accuracy(sim: Simulation, kind: Kind) -> tuple[float, float]:
    """The accuracy of a model under test on this kind of item: full before blind guesses, and cloze."""
    column = 0 if kind == "clean" else 1
    return sim.accuracy[column], sim.cloze_accuracy[column]


Criterion = Literal["unanimous", "majority"]


@dataclass(frozen=True, slots=True)
class Probabilities:
    """Of one case the probability that it is weighed, flagged, kept, and `by_chance`: flagged were its key drawn anew.

    `by_chance_by_position`: the same, were the key at a place as often as the keys of the benchmark are.
    `right` (people,): expected credit in the screen; `right_kept` (people,) with the item kept. `left_out`
    (voters,): kept by the others; `left_out_right` (voters,): the voter's credit with that. With unanswered
    votes only the numbers that are no arrays and `right` hold.
    """

    weighed: float
    flagged: float
    by_chance: float
    by_chance_by_position: float
    kept: float
    right: Floats
    right_kept: Floats
    left_out: Floats
    left_out_right: Floats


@dataclass(frozen=True, slots=True)
class Given:
    """One state of what voters share: its probability, the key, all picks (people, k), and that of no pick."""

    weight: float
    key: int
    vote: Floats
    shared: float


def screen_probabilities(
    sim: Simulation, case: Case, criterion: Criterion = "unanimous", *, plain: bool = False
) -> Probabilities:
    """What the screen makes of a case; `plain`: of the first order alone, as under D.4's rule."""
    # In rotations a place is no property of an option: all are alike.
    places = place_probabilities(sim, case.k) if sim.asked == "own" else np.full(case.k, 1 / case.k)
    total = [(g.weight, _within(sim, g, places, criterion)) for g in _states(sim, case, plain=plain)]

    names = [field.name for field in fields(Probabilities)]
    return Probabilities(*(sum(weight * getattr(o, name) for weight, o in total) for name in names))


def _states(sim: Simulation, case: Case, *, plain: bool) -> Iterator[Given]:
    """All states. In rotations every option is like every other, so the key is option 0 there; in the own
    order options are places, and the letter shown first is that of place 0.
    """
    k, own = case.k, sim.asked == "own"
    sees = sight_probabilities(sim, case.kind)[:, None]
    bias = sim.letter_bias if plain or own else 0.0
    # With a liking for a letter, one asking of somebody without a preference falls on that letter.
    by_letter = 1 - (1 - bias) * (1 - sim.ties) if bias else 0.0
    shared = 0.0 if bias else sim.ties
    keys = list(enumerate(place_probabilities(sim, k).tolist())) if own else [(0, 1.0)]
    firsts = [(j, 1 / k) for j in range(k)] if bias and not own else [(0, 1.0)]
    for (key, p_key), favourite, (first, p_first) in product(keys, range(k), firsts):
        p = (1 - sim.distractors) / k
        p += sim.distractors / (k - 1) if favourite != key else 0.0
        guess = sim.correlation * np.eye(k)[favourite] + (1 - sim.correlation) / k
        pick = (1 - sees) * guess + sees * np.eye(k)[key]
        vote = (1 - by_letter - shared) * pick + by_letter * np.eye(k)[first]
        yield Given(p_key * p * p_first, key, vote, shared)


def _within(sim: Simulation, g: Given, places: Floats, criterion: Criterion) -> Probabilities:
    m, k = sim.voters, g.vote.shape[1]
    voters, need = g.vote[:m], needed_votes(criterion, m)
    would = np.array([at_least(voters[:, j], need) for j in range(k)])
    whole = (1 - sim.unanswered) ** m
    flagged, by_chance, by_place = (whole * float(p) for p in (would[g.key], would.mean(), places @ would))
    weighed, kept = _with_holes(sim, voters, g.key) if sim.unanswered else (1.0, 1 - flagged)
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
        weighed, flagged, by_chance, by_place, kept, credit, credit - taken, others, others * credit[:m]
    )


def _with_holes(sim: Simulation, voters: Floats, key: int) -> tuple[float, float]:
    """That no missing answer could turn the item whichever its key, and that none could with its own.

    Unanimous votes: a missing one matters only where all others agree.
    """
    weighed = kept = 0.0
    for there in product((False, True), repeat=sim.voters):
        weight = sim.unanswered ** there.count(False) * (1 - sim.unanswered) ** there.count(True)
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
