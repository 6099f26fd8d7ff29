"""Small worlds in which the looks of every model are known, because knowing and picking are drawn apart."""

from dataclasses import dataclass, replace

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints
from robustify.judging.looks.estimate import Estimate, estimates
from robustify.judging.looks.read_options import PickRows, ReadOptions

OTHERS = ("o0", "o1", "o2", "o3", "o4", "o5", "o6")


@dataclass(frozen=True, eq=False)
class World:
    """Reader's logits (n, K), mask, keys, groups; the picks of each model (n,); and the share that `m` owes to looks."""

    logits: Floats
    mask: Bools
    key: Ints
    groups: Ints | None
    picks: dict[str, Ints]
    blind: dict[str, Ints]
    truth: float

    @property
    def options(self) -> ReadOptions:
        return ReadOptions.from_logits(self.logits, self.mask, self.key, self.groups)

    @property
    def asked(self) -> dict[str, PickRows]:
        return {name: self.options.rows(pick) for name, pick in self.picks.items()}

    @property
    def without(self) -> dict[str, PickRows]:
        return {name: self.options.rows(pick) for name, pick in self.blind.items()}

    def with_picks(self, mask: Bools, pick: Ints | int) -> "World":
        """The same, with this pick of `m` for some of the items."""
        return replace(self, picks=self.picks | {"m": np.where(mask, pick, self.picks["m"])})

    def found(self) -> dict[str, Estimate]:
        return estimates(self.options, self.asked, self.without)


def world(
    n: int, seed: int, *, follows: float, k: int = 4, eases: float = 0.0, mixed: bool = False, copies: int = 1
) -> World:
    """A reader sees a cue on a third of the keys. Models follow it by `follows` if they do not know the item, and items
    with the cue are easier by `eases`. Each item stands `copies` times, in one group, with the same answers."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(2, 11, n) if mixed else np.full(n, k)
    mask = np.arange(sizes.max()) < sizes[:, None]
    key = (draw.random(n) * sizes).astype(np.int64)
    cued, rows = draw.random(n) < 1 / 3, np.arange(n)
    logits = np.where(mask, draw.normal(size=mask.shape), np.nan)
    logits[rows, key] += 0.3 + 1.5 * cued
    easy = draw.normal(size=n) + eases * cued

    def by_looks() -> Ints:
        drawn = follows * logits + draw.gumbel(size=mask.shape)
        return np.where(mask, drawn, -np.inf).argmax(axis=1)

    def answers(ability: float) -> Ints:
        knows = draw.random(n) < 1 / (1 + np.exp(-ability - easy))
        return np.where(knows, key, by_looks())

    weight = np.where(mask, np.exp(follows * np.where(mask, logits, 0.0)), 0.0)
    unknown = 1 - 1 / (1 + np.exp(-easy))
    truth = float((unknown * (weight[rows, key] / weight.sum(axis=1) - 1 / sizes)).mean())
    picks = {"m": answers(0.0)} | {
        name: answers(a) for name, a in zip(OTHERS, np.linspace(-1.5, 1.5, len(OTHERS)), strict=True)
    }
    again = np.repeat(rows, copies)
    of_copies = {name: pick[again] for name, pick in picks.items()}
    groups = again if copies > 1 else None
    return World(logits[again], mask[again], key[again], groups, of_copies, {"m": by_looks()[again]}, truth)
