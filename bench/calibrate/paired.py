"""False claims and power of the paired test of two models, against known truth: results/calibration/paired.json.

Whether a model is right depends on its skill, the difficulty of the item, and, in groups, on what each model knows of the
passage. The paired test is that of `compare`. The unpaired one has the two scores and their intervals.
"""

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.calibrate.grid import Files, share_of
from bench.results import commit
from robustify.base.arrays import Floats, Ints
from robustify.judging.accuracy import compare_pair
from robustify.judging.stats.intervals import rate
from robustify.judging.stats.tests import LEVEL, holm, newcombe
from robustify.judging.summary.quantity import Quantity

SETS = 5_000
GAP = 0.4
"""Difference in skill, as logits, of the simulations with a better model: about 6 points."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Simulation of two models: `items` in groups of `size`, `tasks` of this kind, the spread of difficulty (`hard`) and of
    what each model knows of a group (`own`), as standard deviations of logits, and the `gap` of their skills."""

    items: int
    size: int = 1
    tasks: int = 1
    hard: float = 2.0
    own: float = 0.0
    skill: float = 0.5
    gap: float = 0.0


NULL: Mapping[str, Pairing] = {
    "100 items": Pairing(100),
    "300 items": Pairing(300),
    "1,000 items": Pairing(1_000),
    "30 items": Pairing(30),
    "equal difficulty": Pairing(300, hard=0.0),
    "strong models": Pairing(300, skill=3.0),
    "passages of 5": Pairing(300, size=5, own=1.0),
    "passages of 20": Pairing(600, size=20, own=1.0),
    "12 passages of 25": Pairing(300, size=25, own=1.0),
    "6 tasks": Pairing(200, tasks=6),
    "6 tasks of passages": Pairing(200, size=5, tasks=6, own=1.0),
}
POWER: Mapping[str, Pairing] = {
    "100 items": Pairing(100, gap=GAP),
    "300 items": Pairing(300, gap=GAP),
    "1,000 items": Pairing(1_000, gap=GAP),
    "equal difficulty": Pairing(300, hard=0.0, gap=GAP),
    "passages of 5": Pairing(300, size=5, own=1.0, gap=GAP),
}


def drawn(world: Pairing, rng: np.random.Generator) -> tuple[Floats, Floats, Ints | None]:
    """Return the credits of two models on the items of a task (n,), and the groups of the items, or None."""
    groups = np.arange(world.items) // world.size
    difficulty = rng.normal(0.0, world.hard, world.items)
    credits = []
    for skill in (world.skill + world.gap, world.skill):
        ease = rng.normal(0.0, world.own, int(groups.max()) + 1)[groups]
        right = 1 / (1 + np.exp(difficulty - skill - ease))
        credits.append((rng.random(world.items) < right).astype(np.float64))
    return credits[0], credits[1], None if world.size == 1 else groups


def outcome(world: Pairing, seed: int) -> tuple[bool, bool, float]:
    """Return whether the paired and the unpaired test claim a difference in some task, and the mean difference."""
    rng = np.random.default_rng([seed, world.items, world.size, world.tasks])
    mids, excluded, apart, gaps = [], [], [], []
    for _ in range(world.tasks):
        one, two, groups = drawn(world, rng)
        tested, difference = compare_pair(one, two, groups)
        x, y = (Quantity.from_rate(rate(credits, groups)) for credits in (one, two))
        mids.append(1.0 if tested.p_mid is None else tested.p_mid)
        excluded.append(bool(difference.significant))
        gaps.append(difference.value or 0.0)
        ends = newcombe(x.value or 0.0, x.ci, y.value or 0.0, y.ci) if x.ci and y.ci else (-1.0, 1.0)
        apart.append(not ends[0] <= 0 <= ends[1])
    claims = [p <= LEVEL and out for p, out in zip(holm(mids), excluded, strict=True)]
    return any(claims), any(apart), float(np.mean(gaps))


def measured(pool: Executor, world: Pairing, sets: int) -> dict[str, Any]:
    """Return the share of sets with a claim by each test, and the mean difference."""
    rows = list(pool.map(outcome, [world] * sets, range(sets), chunksize=50))
    return {
        "items": world.items,
        "tasks": world.tasks,
        "difference": round(float(np.mean([gap for *_, gap in rows])), 4),
        "paired": share_of([claim for claim, *_ in rows]),
        "unpaired": share_of([claim for _, claim, _ in rows]),
    }


def paired(pool: Executor, scale: float) -> Files:
    """Return the content of paired.json."""
    sets = max(20, round(scale * SETS))
    shares = {
        part: {name: measured(pool, world, sets) for name, world in pairings.items()}
        for part, pairings in (("null", NULL), ("power", POWER))
    }
    return {"paired": {"format": 1, "commit": commit(), "level": LEVEL, **shares}}
