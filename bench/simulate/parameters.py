"""Parameters of a simulated benchmark, and exact probabilities of its screening outcomes.

Parameters are probabilities: the share of items with a shortcut, the correlation of the voters' errors. They are simple
enough for exact truth, so they do not model natural shortcuts. Voters share errors only through the favourite of an item.
Given the favourite, their picks are independent, so every probability is a sum over favourites of products. Nothing is
drawn, and no code of the judge is used.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["clean", "length", "hedge", "wordless"]

VOTER, OUTSIDE, TESTED = "voter", "outside", "model"
REPLACED = 3 / 17
"""Of u words, both copies share u - r, and either contains u + r: (1 - 3/17) / (1 + 3/17) is a Jaccard index of 0.7."""
TOPICS = (0.4, 0.3, 0.2, 0.1)
"""Shares of the four topics, one of them small."""


class Simulation(BaseModel):
    """Parameters of a simulation; every probability is per item.

    `shortcut_rate`: every voter sees the key without the question. The types in `planted` are equally likely (`length`: the
    key has the most words; `hedge`: only the key has words like "often"; `wordless`: the text shows nothing). A voter that
    does not see the key guesses: with probability `correlation` the item's shared favourite, otherwise any option.
    `letter_bias`: the first letter decides one of a voter's answers. `ties`: a voter has no preference. `unread`:
    probability that a voter's replies on an item are unreadable if its pick is right, and if it is wrong. `places`:
    positions of keys in the benchmark's order. `asked`: in all rotations of an order fixed by the ID, or once in the
    benchmark's order, as in most logs. `passage`: number of consecutive items in a group, of one type unless
    `each_its_own`. `copies`: share of items that repeat an earlier one with the share `replaced` of its words replaced.
    `graded`: the strength of preferences varies, and is larger if a voter sees a shortcut. `bare`: voters only pick.
    `longest`: a voter that does not see the key takes the longest option with this probability.

    Models under test answer the full question: right with `accuracy` on items without and with a shortcut. Each answer is a
    blind guess with probability 1 - `firmness`. Cloze does not depend on the order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: int = Field(default=300, ge=1, le=1_000_000)
    shortcut_rate: float = Field(default=0.1, ge=0, le=1)
    planted: tuple[Kind, ...] = ("length", "hedge", "wordless")
    options: tuple[int, ...] = (4,)
    voters: int = Field(default=3, ge=1, le=9)
    correlation: float = Field(default=0.5, ge=0, le=1)
    letter_bias: float = Field(default=0.2, ge=0, le=1)
    ties: float = Field(default=0.0, ge=0, le=1)
    unread: tuple[float, float] = (0.0, 0.0)
    places: Literal["uniform", "skewed"] = "uniform"
    asked: Literal["rotated", "own"] = "rotated"
    passage: int = Field(default=1, ge=1)
    each_its_own: bool = False
    copies: float = Field(default=0.0, ge=0, lt=1)
    replaced: float = Field(default=REPLACED, ge=0, le=1)
    graded: bool = False
    bare: bool = False
    longest: float = Field(default=0.0, ge=0, le=1)
    outside: int = Field(default=1, ge=0, le=9)
    tested: int = Field(default=2, ge=0, le=9)
    accuracy: tuple[float, float] = (0.45, 0.75)
    cloze_accuracy: float = 0.40
    firmness: float = Field(default=0.85, ge=0, le=1)
    orders: int = Field(default=5, ge=1, le=24)
    seed: int = Field(default=0, ge=0)

    @property
    def kinds(self) -> dict[Kind, float]:
        """Probability of each type of item."""
        each = self.shortcut_rate / len(set(self.planted))
        return {"clean": 1 - self.shortcut_rate, **dict.fromkeys(self.planted, each)}

    @property
    def voter_names(self) -> tuple[str, ...]:
        """Names of the voters."""
        return tuple(f"{VOTER}-{m + 1}" for m in range(self.voters))

    @property
    def outside_names(self) -> tuple[str, ...]:
        """Names of the models that answer the screen without a vote."""
        return tuple(f"{OUTSIDE}-{m + 1}" for m in range(self.outside))

    @property
    def tested_names(self) -> tuple[str, ...]:
        """Names of the models under test."""
        return tuple(f"{TESTED}-{m + 1}" for m in range(self.tested))

    def full_accuracy(self, kind: Kind) -> float:
        """Return the probability that a model under test is right on this type of item, before blind guesses."""
        return self.accuracy[0 if kind == "clean" else 1]


@dataclass(frozen=True, slots=True)
class Case:
    """A type of item with a number of options, and its probability."""

    kind: Kind
    k: int
    weight: float


def cases(sim: Simulation) -> Iterator[Case]:
    """Return all types of items; their weights sum to 1."""
    for kind, rate in sim.kinds.items():
        for k in sim.options:
            if rate > 0:
                yield Case(kind, k, rate / len(sim.options))


@dataclass(frozen=True, slots=True)
class Probabilities:
    """Probabilities of a case that unanimous voters flag it, and `by_chance` with a redrawn key.

    `right`: a given voter is right in the screen; `right_kept`: and others do not flag the item; `left_out`: all voters but
    one do not flag it (of at least two); `left_out_right`: and that one is right.
    """

    flagged: float
    by_chance: float
    right: float
    right_kept: float
    left_out: float
    left_out_right: float

    @property
    def kept(self) -> float:
        """Probability that the item is not flagged."""
        return 1 - self.flagged


def screen_probabilities(sim: Simulation, case: Case) -> Probabilities:
    """Return the screening probabilities of a case, asked in rotations and without ties, so that options are alike."""
    k, m = case.k, sim.voters
    if case.kind != "clean":
        return Probabilities(1.0, 1 / k, 1.0, 0.0, 0.0, 0.0)
    # The key is the favourite, or it is not.
    weight = np.array([1 / k, 1 - 1 / k])
    likes = np.array([sim.correlation + (1 - sim.correlation) / k, (1 - sim.correlation) / k])
    right, rest, flagged, with_one_more = (float(weight @ likes**n) for n in (1, m - 1, m, m + 1))
    return Probabilities(flagged, flagged, right, right - with_one_more, 1 - rest, right - flagged)
