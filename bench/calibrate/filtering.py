"""False removals of `criterion: fdr` in scenarios with known truth.

Every benchmark draws new keys for its clean items, so an item without a shortcut is a true null. Answers pass through the
complete pipeline: votes, cross-fitted ranking, cutoff. All scenarios were fixed before the first result and are all
reported.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from bench.calibrate.grid import Files, alarm_verdict, rounded
from bench.simulate import dependent
from bench.simulate.dependent import DEPENDENT, LATER
from bench.simulate.drawing import Drawn, draw
from bench.simulate.parameters import Simulation
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.judging.context import Rules, context
from robustify.judging.response_data import Facts
from robustify.judging.screen.decoy_filter import FilterDecision, flags
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.ranking import Ranker
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screen.votes import FLAGGED
from robustify.judging.stats.intervals import wilson

Q = 0.1
PLANTED = (0.0, 0.11, 0.35)
REPEATS = {False: 100, True: 25}
"""Benchmarks per scenario, fewer if the text is ranked too, which costs many times as much."""
WORLD_REPEATS = 200
SEEDS = 500_000_000
NAMES = 12
BUILDERS = DEPENDENT | LATER
SCENARIOS: dict[str, dict[str, Any]] = {
    "four options": {},
    "two options": {"options": (2,)},
    "two to six options": {"options": (2, 3, 4, 5, 6)},
    "passages of five items, alike": {"passage": 5},
    "passages of five items, each its own": {"passage": 5, "each_its_own": True},
    "one vote in ten is a tie": {"ties": 0.1},
    "letters in the own order, keys skewed": {"asked": "own", "places": "skewed", "letter_bias": 0.3},
    "voters err alike: correlation 0.9": {"correlation": 0.9},
    "40 items": {"items": 40},
    "60 items": {"items": 60},
    "120 items": {"items": 120},
    "with the options' text": {"text": True},
    "with text, 60 items": {"text": True, "items": 60},
    "with text, 60 % copies at Jaccard 0.7": {"text": True, "copies": 0.6, "repeats": 100},
    "with text, passages, two to six options": {
        "text": True, "passage": 5, "each_its_own": True, "options": (2, 3, 4, 5, 6),
    },
    "one reply in ten is unread": {"unread": (0.1, 0.1)},
    "replies unread: 5 % if right, 20 % if wrong": {"unread": (0.05, 0.2)},
}  # fmt: skip
PICKED: dict[str, dict[str, Any]] = {
    "half-changed copies": {"copies": 0.5, "replaced": 0.5, "repeats": 40},
    "plain": {},
    "voters share nine errors in ten": {"correlation": 0.9},
    "all voters like the longest option": {"longest": 0.7},
    "no shortcut": {"correlation": 0.9, "shortcut_rate": 0.0},
}
"""Scenarios of voters that only pick, each with every entry of `NUMBERS_OF_OPTIONS`."""
NUMBERS_OF_OPTIONS = {"two": (2,), "four": (4,), "two to six": (2, 3, 4, 5, 6)}
PICKED_REPEATS, PICKED_PLANTED = 24, 0.3


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario: whether text is ranked, and the number of benchmarks. A `world` has text and no voters."""

    says: str
    sim: Simulation
    text: bool
    repeats: int
    world: str = ""


@dataclass(frozen=True, slots=True)
class Filtered:
    """Flags of a benchmark, clean ones among them, planted items, D / H with its interval, and whether it was evaluated."""

    flagged: int
    clean_flagged: int
    planted: int
    estimate: float | None
    ends: tuple[float, float] | None
    evaluated: bool = True


def scenarios() -> Iterator[Scenario]:
    """Return all scenarios."""
    for says, changed in SCENARIOS.items():
        settings = {"items": 360, "correlation": 0.3, **changed}
        text = bool(settings.pop("text", False))
        repeats = settings.pop("repeats", REPEATS[text])
        for rate in PLANTED:
            sim = Simulation(shortcut_rate=rate, outside=0, tested=0, graded=True, **settings)
            yield Scenario(says, sim, text, repeats)
    yield from map(_of_world, DEPENDENT)
    for (says, changed), (many, options) in product(PICKED.items(), NUMBERS_OF_OPTIONS.items()):
        fixed = {"items": 360, "shortcut_rate": PICKED_PLANTED, "correlation": 0.3, "options": options}
        settings = {**fixed, "bare": True, "asked": "own", "repeats": PICKED_REPEATS, **changed}
        repeats = settings.pop("repeats")
        sim = Simulation(outside=0, tested=0, **settings)
        yield Scenario(f"picks alone, {many} options, {says}", sim, True, repeats)


def _of_world(world: str) -> Scenario:
    sim = Simulation(items=360, shortcut_rate=dependent.PLANTED, outside=0, tested=0)
    return Scenario(f"options alone, {world}", sim, True, WORLD_REPEATS, world)


def filtered(scenario: Scenario, seed: int) -> Filtered:
    """Make and filter a benchmark of a scenario at q = 0.1."""
    if scenario.world:
        drawn = BUILDERS[scenario.world](scenario.sim.items, np.random.default_rng(seed))
        found, clean = (
            context(Answers.of([]), Facts("made up"), Rules(), drawn.items).screen.decision,
            drawn.clean,
        )
    else:
        made = draw(scenario.sim.model_copy(update={"seed": seed}))
        found, clean = decided(made, scenario.text), np.array([kind == "clean" for kind in made.kind])
    flagged = found.outcome == FLAGGED
    return Filtered(
        int(flagged.sum()), int((flagged & clean).sum()), int((~clean).sum()), found.cutoff.false_share.value,
        found.cutoff.false_share.ci, found.cutoff.groups is None
    )  # fmt: skip


def decided(drawn: Drawn, text: bool) -> FilterDecision:
    """Rank a benchmark by its voters, and by its text if asked, and filter it at q = 0.1."""
    answers = drawn.answers()
    index = item_index(answers, answers.items)
    rules = ScreenRules(voters=drawn.sim.voter_names)
    ranker = Ranker(answers, index, drawn.items() if text else None, groups=drawn.facts.groups)
    return flags(ranker.rank(rules), index.key, Q)


def names_permuted(items: Sequence[Item], times: int = NAMES) -> int:
    """Count the different verdicts of the same items under other names and row orders."""
    found = set()
    for name in range(times):
        order = np.random.default_rng(name).permutation(len(items))
        named = [replace(items[at], id=f"file-{name}:{row}") for row, at in enumerate(order.tolist())]
        outcome = context(Answers.of([]), Facts("made up"), Rules(), named).screen.decision.outcome
        found.add(tuple(outcome[np.argsort(order)].tolist()))
    return len(found)


def fdr(pool: Executor, scale: float, known: Mapping[str, Any] | None = None, says: str = "") -> Files:
    """Return the content of fdr.json: the mean false share by scenario with its Monte Carlo interval, and the power. With a
    `known` content, only the scenarios whose names contain `says` are simulated again."""
    before = [*known["simulations"], known["unseen"], *known.get("later", ())] if known else []
    rows = []
    for i, scenario in enumerate([*scenarios(), *map(_of_world, LATER)]):
        if known and says not in scenario.says:
            rows.append(before[i])
            continue
        repeats = max(2, round(scale * scenario.repeats))
        seeds = range(SEEDS + 10_000 * i, SEEDS + 10_000 * i + repeats)
        rows.append(measured(scenario, list(pool.map(filtered, [scenario] * repeats, seeds, chunksize=8))))
    if known:
        named = known["names_permuted"]
        return {"fdr": _file(rows, named)}
    small = Simulation(items=60, shortcut_rate=0.5, planted=("length",), outside=0, tested=0)
    sets = [
        draw(small.model_copy(update={"seed": SEEDS + n})).items() for n in range(max(1, round(5 * scale)))
    ]
    named = {"items": 60, "copies": NAMES, "sets": len(sets), "verdicts": max(map(names_permuted, sets))}
    return {"fdr": _file(rows, named)}


def _file(rows: Sequence[dict[str, Any]], named: Mapping[str, Any]) -> dict[str, Any]:
    first = len(rows) - len(LATER)
    unseen, *later = rows[first:]
    content = {"simulations": rows[:first], "unseen": unseen, "later": later}
    return {"format": 2, "q": Q, "names_permuted": named, **content}


def measured(scenario: Scenario, found: Sequence[Filtered]) -> dict[str, Any]:
    """Return the mean false share of a scenario's benchmarks with its Monte Carlo interval, and its power.

    Benchmarks for which the filter was not evaluated flag nothing and are counted apart, unless all are.
    """
    apart = sum(not f.evaluated for f in found)
    found = [f for f in found if f.evaluated] or found
    share = np.array([f.clean_flagged / f.flagged if f.flagged else 0.0 for f in found])
    any_flag = sum(f.flagged > 0 for f in found)
    error = 1.96 * float(share.std(ddof=1)) / len(share) ** 0.5
    mean = float(share.mean())
    # Without planted items every flag is false, and the false share is 0 or 1. A share that does not vary over benchmarks
    # has a standard error of 0, but is not known exactly.
    varied = scenario.sim.shortcut_rate > 0 and share.std() > 0
    low, high = (mean - error, mean + error) if varied else wilson(any_flag if mean else 0, len(found))
    inside = [f.ends[0] <= f.clean_flagged / f.flagged <= f.ends[1] for f in found if f.flagged and f.ends]
    estimates = [f.estimate for f in found if f.estimate is not None]
    right = sum(f.flagged - f.clean_flagged for f in found)
    return {
        "says": scenario.says, "items": scenario.sim.items, "planted": scenario.sim.shortcut_rate,
        "benchmarks": len(found), "not_evaluated": apart,
        "false_share": rounded(mean), "ci": [rounded(max(0.0, low)), rounded(high)],
        "verdict": alarm_verdict((low, high), Q),
        "estimated": rounded(float(np.mean(estimates))) if estimates else None,
        "interval_holds": rounded(float(np.mean(inside))) if inside else None,
        "any_flag": rounded(any_flag / len(found)),
        "planted_flagged": rounded(right / max(1, sum(f.planted for f in found))),
    }  # fmt: skip
