"""How many removals of the filter are there by chance, where it is known: simulations for criterion `fdr`, and of decoys.

Every benchmark draws its clean keys anew, so an item without a shortcut is a true null. Answers go the whole way: votes,
cross-fitted ranking, cut. Beside them are the models that err as voters do, which random removals alone take for a fall.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.calibrate.arms import alarm_verdict, rounded
from bench.simulate.drawing import draw
from bench.simulate.parameters import Simulation
from robustify.screen.consensus import SHORTCUT
from robustify.screen.decoy_filter import flags
from robustify.screen.item_index import item_index
from robustify.screen.ranking import Ranker
from robustify.screen.screen_rules import ScreenRules
from robustify.stats.intervals import wilson

Q = 0.1
ITEMS = 360
PLANTED = (0, 15, 40, 126)
REPEATS = {False: 200, True: 20}
"""Benchmarks of a world by whether their text is ranked too, which costs twenty times as much."""
SEEDS = 500_000_000
KINDS: dict[str, dict[str, Any]] = {
    "four options": {},
    "three to six options": {"options": (3, 4, 5, 6)},
    "two to six options": {"options": (2, 3, 4, 5, 6)},
    "passages of five items": {"passage": 5},
    "one vote in ten is a tie": {"ties": 0.1},
    "letters in the own order, keys skewed": {"asked": "own", "places": "skewed", "letter_bias": 0.3},
    "voters err alike: correlation 0.9": {"correlation": 0.9},
    "with the options' text": {"text": True},
}
EXACT = ("four options", "three to six options")
"""Simulations in which the rule for finite samples is measured too."""


@dataclass(frozen=True, slots=True)
class World:
    """One world: how many of its items are planted, and whether text is ranked and the exact rule is asked."""

    says: str
    planted: int
    sim: Simulation
    text: bool
    exact: bool


@dataclass(frozen=True, slots=True)
class Filtered:
    """What one benchmark gave: flags, how many of them are clean, planted and clean items, and D / H with its ends."""

    flagged: int
    clean_flagged: int
    planted: int
    clean: int
    estimate: float | None
    ends: tuple[float, float] | None


def simulations() -> Iterator[World]:
    """All of them."""
    for says, changed in KINDS.items():
        settings = dict(changed)
        text = bool(settings.pop("text", False))
        for planted in PLANTED:
            sim = Simulation(
                items=ITEMS,
                shortcut_rate=planted / ITEMS,
                outside=0,
                tested=0,
                graded=True,
                **{"correlation": 0.3, **settings},
            )
            for exact in (False, True) if says in EXACT else (False,):
                yield World(says, planted, sim, text, exact)


def filtered(world: World, seed: int) -> Filtered:
    """One benchmark of a world, filtered at q = 0.1."""
    drawn = draw(world.sim.model_copy(update={"seed": seed}))
    answers = drawn.answers()
    index = item_index(answers, answers.items)
    rules = ScreenRules(voters=world.sim.voter_names)
    items = drawn.items() if world.text else None
    ranking = Ranker(answers, index, items, groups=drawn.facts.groups).rank(rules)
    decision = flags(ranking, index.key, Q, exact=world.exact)
    flagged = decision.outcome == SHORTCUT
    clean = np.array([kind == "clean" for kind in drawn.kind])
    return Filtered(
        int(flagged.sum()), int((flagged & clean).sum()), int((~clean).sum()), int(clean.sum()),
        decision.cut.estimate, decision.cut.interval,
    )  # fmt: skip


def fdr(pool: Executor, scale: float) -> dict[str, Any]:
    """fdr.json: by world the mean false share, with its Monte Carlo interval, and what was found and lost."""
    rows = []
    for i, world in enumerate(simulations()):
        repeats = max(2, round(scale * REPEATS[world.text]))
        seeds = range(SEEDS + 10_000 * i, SEEDS + 10_000 * i + repeats)
        rows.append(_row(world, list(pool.map(filtered, [world] * repeats, seeds, chunksize=8))))
    return {"format": 1, "q": Q, "items": ITEMS, "simulations": rows}


def _row(world: World, found: list[Filtered]) -> dict[str, Any]:
    share = np.array([f.clean_flagged / f.flagged if f.flagged else 0.0 for f in found])
    any_flag = sum(f.flagged > 0 for f in found)
    error = 1.96 * float(share.std(ddof=1)) / len(share) ** 0.5
    mean = float(share.mean())
    # Without a planted item every flag is false: the false share is whether there is one. Where it does not vary it is
    # not known exactly.
    varied = world.planted > 0 and share.std() > 0
    low, high = (mean - error, mean + error) if varied else wilson(any_flag if mean else 0, len(found))
    inside = [
        f.ends[0] <= f.clean_flagged / f.flagged <= f.ends[1]
        for f in found
        if f.flagged and f.ends is not None
    ]
    estimates = [f.estimate for f in found if f.estimate is not None]
    return {
        "says": world.says, "planted": world.planted, "exact": world.exact, "benchmarks": len(found),
        "false_share": rounded(mean), "ci": [rounded(max(0.0, low)), rounded(high)],
        "verdict": alarm_verdict((low, high), Q),
        "estimated": rounded(float(np.mean(estimates))) if estimates else None,
        "interval_holds": rounded(float(np.mean(inside))) if inside else None,
        "any_flag": rounded(any_flag / len(found)),
        "planted_flagged": rounded(sum(f.flagged - f.clean_flagged for f in found) / max(1, sum(f.planted for f in found))),
        "clean_flagged": rounded(sum(f.clean_flagged for f in found) / sum(f.clean for f in found)),
    }  # fmt: skip
