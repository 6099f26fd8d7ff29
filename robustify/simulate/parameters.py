"""The laws of a made-up benchmark: how many items hold a shortcut, who sees it, how voters err together.

A world fixes probabilities and nothing else; `simulate` draws from it and `truth` computes what must come out.
The laws are kept simple enough for that second part to be exact, so this is no model of natural shortcuts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from robustify.arrays import Floats

Kind = Literal["clean", "length", "hedge", "wordless", "hidden"]

VOTER, OUTSIDE, TESTED = "voter", "outside", "model"
TOPICS = (0.4, 0.3, 0.2, 0.1)
"""The shares of the four topics: one of them is small."""


class SimulationParameters(BaseModel):
    """Every probability is for one item.

    `shortcut_rate`: some key can be seen without the question, by each voter with probability `sight`; the kinds
    in `planted` are equally likely (`length`: the key has the most words; `hedge`: the only words like "often";
    `wordless`: nothing in the text shows it). `hidden_rate`: a key that only outside models see. `knowing`: a
    voter sees the key of any other item. Who does not see it guesses: with probability `correlation` the item's
    favourite, which all share, else any option. `distractors`: the favourite is a wrong option for certain.
    `letter_bias`: one asking of one voter is decided by the first letter shown. `ties`, `unanswered`: a voter
    has no preference, gives no answer. `places`: where keys stand in the benchmark's own order. `asked`: in all
    rotations of an order fixed by the id, or once in the own order, as in most logs. `passage`: so many items in
    a row are of one kind and form a group.

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
    outside: int = Field(default=1, ge=0, le=9)
    tested: int = Field(default=2, ge=0, le=9)
    accuracy: tuple[float, float] = (0.45, 0.75)
    cloze_accuracy: tuple[float, float] = (0.40, 0.40)
    firmness: float = Field(default=0.85, ge=0, le=1)
    orders: int = Field(default=5, ge=1, le=24)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _possible(self) -> "SimulationParameters":
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
        """Who votes."""
        return tuple(f"{VOTER}-{m + 1}" for m in range(self.voters))

    @property
    def outside_names(self) -> tuple[str, ...]:
        """Who answers the screen without a vote."""
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


def cases(world: SimulationParameters) -> Iterator[Case]:
    """All kinds of items of a world; the weights sum to 1."""
    for kind, rate in world.kinds.items():
        for k in world.options:
            if rate > 0:
                yield Case(kind, k, rate / len(world.options))


def sight_probabilities(world: SimulationParameters, kind: Kind) -> Floats:
    """How likely each voter, then each outside model, sees the key of an item of this kind, (people,)."""
    seen_by_voters = kind not in ("clean", "hidden")
    voters = world.sight if seen_by_voters else world.knowing
    outside = world.knowing if kind == "clean" else world.sight
    return np.repeat([voters, outside], [world.voters, world.outside])


def key_place_probabilities(world: SimulationParameters, k: int) -> Floats:
    """How likely the key stands at each of k places; skewed means k to 1 in proportion."""
    weights = np.ones(k) if world.places == "uniform" else np.arange(k, 0, -1, dtype=np.float64)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def tested_accuracy(world: SimulationParameters, kind: Kind) -> tuple[float, float]:
    """The accuracy of a model under test on this kind of item: full before blind guesses, and cloze."""
    column = 0 if kind == "clean" else 1
    return world.accuracy[column], world.cloze_accuracy[column]
