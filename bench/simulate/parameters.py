"""The parameters of a simulated benchmark, and what the screen makes of its items as exact probabilities.

Parameters are probabilities: how many items hold a shortcut, how voters err together. They are simple enough for the
truth to be computed exactly, so this is not a model of natural shortcuts. Voters err together only through the favourite
of an item. Given it, their picks are independent, so every probability is a sum over favourites of products. Nothing is
drawn, and nothing of the judge's own code is used.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

Kind = Literal["clean", "length", "hedge", "wordless"]

VOTER, OUTSIDE, TESTED = "voter", "outside", "model"
TOPICS = (0.4, 0.3, 0.2, 0.1)
"""The shares of the four topics; one of them is small."""


class Simulation(BaseModel):
    """Every probability is for one item.

    `shortcut_rate`: every voter sees the key without the question; the kinds in `planted` are equally likely (`length`: the
    key has the most words; `hedge`: the only words like "often"; `wordless`: nothing in the text shows it). A voter that
    does not see the key guesses: with probability `correlation` the item's favourite, which all share, else any option.
    `letter_bias`: one asking of one voter is decided by the first letter shown. `ties`: a voter has no preference.
    `unread`: a voter's replies on an item cannot be read, if its pick is right and if it is wrong.
    `places`: where keys are in the benchmark's own order. `asked`: in all rotations of an order fixed by the id, or once in
    the own order, as in most logs. `passage`: so many items in a row form a group, of one kind unless `each_its_own`.
    `copies`: the share of items that repeat an earlier one with every sixth word replaced (a Jaccard index of 0.7).
    `graded`: how much a voter likes its pick varies, and is more where it sees a shortcut.

    Models under test answer the full question: right with `accuracy` on items without and with a shortcut, and
    each asking is a blind guess with probability 1 - `firmness`. Cloze knows no order.
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
    graded: bool = False
    outside: int = Field(default=1, ge=0, le=9)
    tested: int = Field(default=2, ge=0, le=9)
    accuracy: tuple[float, float] = (0.45, 0.75)
    cloze_accuracy: float = 0.40
    firmness: float = Field(default=0.85, ge=0, le=1)
    orders: int = Field(default=5, ge=1, le=24)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _possible(self) -> "Simulation":
        if not self.options or not all(2 <= k <= 26 for k in self.options):
            raise ValueError(f"options: {list(self.options)}; expected numbers from 2 to 26")
        if not self.planted or not set(self.planted) <= {"length", "hedge", "wordless"}:
            raise ValueError("planted: expected some of length, hedge, wordless")
        return self

    @property
    def kinds(self) -> dict[Kind, float]:
        """The probability of each kind of item."""
        each = self.shortcut_rate / len(set(self.planted))
        return {"clean": 1 - self.shortcut_rate, **dict.fromkeys(self.planted, each)}

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

    def full_accuracy(self, kind: Kind) -> float:
        """How often a model under test is right on this kind of item, before blind guesses."""
        return self.accuracy[0 if kind == "clean" else 1]


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


@dataclass(frozen=True, slots=True)
class Probabilities:
    """Of one case the probability that unanimous voters flag it, and `by_chance`: were its key drawn anew.

    `right`: anybody is right in the screen; `right_kept`: and others do not flag the item; `left_out`: all voters but one
    do not flag it (of at least two); `left_out_right`: and that one is right.
    """

    flagged: float
    by_chance: float
    right: float
    right_kept: float
    left_out: float
    left_out_right: float

    @property
    def kept(self) -> float:
        """The probability that the item is not flagged."""
        return 1 - self.flagged


def screen_probabilities(sim: Simulation, case: Case) -> Probabilities:
    """What the screen, asked in rotations and without ties, makes of a case: every option is like every other."""
    k, m = case.k, sim.voters
    if case.kind != "clean":
        return Probabilities(1.0, 1 / k, 1.0, 0.0, 0.0, 0.0)
    # The key is the favourite, or it is not.
    weight = np.array([1 / k, 1 - 1 / k])
    likes = np.array([sim.correlation + (1 - sim.correlation) / k, (1 - sim.correlation) / k])
    right, rest, flagged, with_one_more = (float(weight @ likes**n) for n in (1, m - 1, m, m + 1))
    return Probabilities(flagged, flagged, right, right - with_one_more, 1 - rest, right - flagged)
