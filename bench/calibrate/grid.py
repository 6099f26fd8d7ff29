"""Trials of the made-up benchmarks of a grid: judged by the production code, and counted against their truth.

Verdicts depend on the Monte Carlo interval of a share rather than on its estimate.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Literal

import numpy as np

from bench.simulate.drawing import Drawn, draw
from bench.simulate.parameters import Simulation
from bench.simulate.truth import Known, true_values
from robustify.judging import judge
from robustify.judging.context import Rules, context
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screening import screen
from robustify.judging.stats.intervals import wilson

Depth = Literal["screen", "whole", "worded"]
"""Depth of judging: the screen alone, everything that needs no text, or everything."""
SEEDS = 100_000
"""Distance between the first seeds of two cells, so that no two benchmarks share a seed."""
ERRORS = {"low": 0.2, "high": 0.8}
"""Correlation of the voters' errors."""
REPEATS: dict[Depth, int] = {"screen": 10, "whole": 5, "worded": 1}


@dataclass(frozen=True, slots=True)
class Cell:
    """A simulation, its depth of judging, and its number of benchmarks."""

    arm: Literal["grid", "power"]
    depth: Depth
    errors: str
    sim: Simulation
    repeats: int


def all_cells(scale: float = 1.0) -> list[Cell]:
    """Return every cell; `scale` multiplies the number of benchmarks (at least one; only some cells with text)."""
    cells = list(_cells())
    worded = [c for c in cells if c.depth == "worded"][:: max(6, round(6 / scale))]
    return [
        Cell(c.arm, c.depth, c.errors, c.sim, max(1, round(scale * c.repeats)))
        for c in cells
        if c.depth != "worded" or c in worded
    ]


def _cells() -> Iterator[Cell]:
    grid = product((100, 300, 1000), (0.0, 0.1, 0.3), ((4,), (3, 4, 5)), (2, 3, 5), ERRORS.items())
    for n, s, k, m, (errors, c) in grid:
        sim = Simulation(items=n, shortcut_rate=s, options=k, voters=m, correlation=c)
        alone = sim.model_copy(update={"outside": 0, "tested": 0})
        for depth, repeats in REPEATS.items():
            yield Cell("grid", depth, errors, alone if depth == "screen" else sim, repeats)
    for n, s, (errors, c) in product((100, 300, 1000), (0.02, 0.05, 0.1, 0.2, 0.3), ERRORS.items()):
        sim = Simulation(items=n, shortcut_rate=s, correlation=c, outside=0, tested=0)
        yield Cell("power", "screen", errors, sim, 15)


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval: its estimator, whether it covers the truth, its error and its width."""

    estimator: str
    inside: bool
    error: float
    width: float


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a benchmark: its intervals, and the tests that raised an alarm."""

    intervals: list[Interval]
    alarms: dict[str, bool]


known_values = lru_cache(maxsize=8)(true_values)
"""True values of the parameters, computed once for all their benchmarks."""


def trial(cell: Cell, seed: int) -> Trial:
    """Make the benchmark of this seed and judge it to the cell's depth."""
    drawn = draw(cell.sim.model_copy(update={"seed": seed}))
    own = ScreenRules(criterion="unanimous", voters=drawn.sim.voter_names)
    rules = Rules(own, under_test=drawn.sim.tested_names)
    if cell.depth == "screen":
        ctx = context(drawn.answers(), drawn.facts, rules)
        tree: Any = {"screen": screen(ctx).model_dump(), "guardrails": ()}
    else:
        items = drawn.items() if cell.depth == "worded" else None
        tree = judge(drawn.answers(items), drawn.facts, rules, items).summary.tree()
    found = list(_beside(known_values(cell.sim), tree))
    if cell.depth == "screen":
        found += _false_share(drawn, tree)
    return Trial(found, alarms(tree))


def _beside(known: Sequence[Known], tree: Mapping[str, object]) -> Iterator[Interval]:
    """Yield each interval of a summary whose true value is known."""
    for estimator, path, truth in known:
        node = value_at(tree, path)
        value, ci = (
            (node["value"], node["ci"]) if isinstance(node, Mapping) else (node, value_at(tree, f"{path}_ci"))
        )
        if value is not None and ci is not None:
            inside = ci[0] - 1e-12 <= truth <= ci[1] + 1e-12
            yield Interval(estimator, inside, value - truth, ci[1] - ci[0])


def value_at(tree: Any, path: str) -> Any:
    """Return the value at a path (names joined by `/`); None if the path does not exist."""
    for name in path.split("/"):
        if not isinstance(tree, Mapping):
            return None
        tree = tree.get(name)
    return tree


def _false_share(drawn: Drawn, tree: Any) -> Iterator[Interval]:
    """Compare the estimated false share with the share of clean items among the flagged items."""
    share, flagged = tree["screen"]["false_share"], tree["screen"]["flagged"]
    n = round(flagged["value"] * flagged["n"])
    if share["value"] is not None and share["ci"] is not None and n:
        clean = np.array([kind == "clean" for kind in drawn.kind])
        agreed = (drawn.picks[:, : drawn.sim.voters] == drawn.key[:, None]).all(axis=1)
        lost, (low, high) = int((clean & agreed).sum()) / n, share["ci"]
        yield Interval("false_share", low - 1e-9 <= lost <= high + 1e-9, share["value"] - lost, high - low)


def alarms(tree: Any) -> dict[str, bool]:
    """Return the tests that were positive; tests missing from the summary are omitted."""
    out: dict[str, bool] = {}
    excess = value_at(tree, "screen/excess_over_chance")
    if excess and excess["p"] is not None:
        out["excess_p"] = excess["p"] <= 0.05
        out["excess_significant"] = out["excess_p"] and bool(excess["ci"] and excess["ci"][0] > 0)
    if audit := value_at(tree, "residual/state"):
        out["residual_failed"] = audit == "failed"
    if tree["guardrails"]:
        failed = [c["name"] for c in tree["guardrails"] if c["state"] == "failed"]
        out |= {name: name in failed for name in ("topic_collapse", "topic_drift")}
    if rules := value_at(tree, "measures/rule/rule"):
        out["heuristics_holm_all"] = any((r["all"]["p_holm"] or 1) <= 0.05 for r in rules.values())
    leaning = value_at(tree, "position_bias") or {}
    if one := next(filter(None, leaning.values()), None):
        out["position_bias_holm"] = min(place["p_holm"] for place in one["positions"]) <= 0.05
    full = [pair["full"] for pair in (value_at(tree, "pairs") or {}).values() if pair["full"]]
    if full:
        corrected = [pair[split]["p_holm"] for pair in full for split in ("all", "kept")]
        out["pairs_mcnemar_holm_any"] = any(p is not None and p <= 0.05 for p in corrected)
    return out


Pairs = Sequence[tuple[Cell, Trial]]
Files = dict[str, dict[str, Any]]
"""Contents of files in results/calibration by name."""
BAND = (0.93, 0.97)
"""Goal for the coverage of a 95 % interval."""
ALARM = 0.05


def coverage_verdict(ci: Sequence[float]) -> str:
    """Judge a coverage as inside the goal, too narrow, too wide, or undecided."""
    if BAND[0] <= ci[0] and ci[1] <= BAND[1]:
        return "yes"
    return "wide" if ci[0] > BAND[1] else "narrow" if ci[1] < BAND[0] else "not excluded"


def alarm_verdict(ci: Sequence[float], level: float = ALARM) -> str:
    """Judge a share of false alarms as at most the level, above the level, or undecided."""
    return "yes" if ci[1] <= level else "no" if ci[0] > level else "not excluded"


def rounded(value: float) -> float:
    """Round a number for the result files."""
    return round(value, 4)


def share_of(said: Sequence[bool], benchmarks: int | None = None) -> dict[str, Any]:
    """Return a share with its interval; `benchmarks` is the sample size because results of one benchmark are dependent."""
    share, n = float(np.mean(said)), len(said) if benchmarks is None else benchmarks
    return {"share": rounded(share), "ci": [rounded(x) for x in wilson(share * n, n)], "benchmarks": n}


def grid(pool: Executor, scale: float) -> Files:
    """Return the content of calibration.json and power.json."""
    cells = all_cells(scale)
    work = [(cell, SEEDS * (i + 1) + at) for i, cell in enumerate(cells) for at in range(cell.repeats)]
    found = pool.map(trial, *zip(*work, strict=True), chunksize=8)
    return gathered([(cell, one) for (cell, _), one in zip(work, found, strict=True)])


def gathered(pairs: Pairs) -> Files:
    """Return the files by name: `calibration` over the grid, `power` by size and rate."""
    grid = [(c, t) for c, t in pairs if c.arm == "grid"]
    clean = [(c, t) for c, t in grid if not c.sim.shortcut_rate]
    calibration = {
        "format": 2, "benchmarks": len(grid), "band": list(BAND),
        "coverage_detail": coverage(grid), "false_alarm_detail": false_alarms(clean),
    }  # fmt: skip
    points: dict[tuple[int, float, str], list[bool]] = defaultdict(list)
    for cell, t in pairs:
        if cell.arm == "power":
            points[cell.sim.items, cell.sim.shortcut_rate, cell.errors].append(t.alarms["excess_significant"])
    powered = [
        {"items": n, "shortcut_rate": rate, "correlation": errors, "significant": share_of(said)}
        for (n, rate, errors), said in points.items()
    ]
    return {"calibration": calibration, "power": {"format": 2, "points": powered}}


def coverage(pairs: Pairs) -> dict[str, Any]:
    """Return the coverage of each estimator with its interval, bias and width, overall and by size."""
    found: dict[str, list[tuple[int, int, Interval]]] = defaultdict(list)
    for benchmark, (cell, t) in enumerate(pairs):
        for one in t.intervals:
            found[one.estimator].append((benchmark, cell.sim.items, one))
    return {
        name: {
            **share_of([i.inside for _, _, i in rows], len({b for b, _, _ in rows})),
            "intervals": len(rows),
            "bias": rounded(float(np.mean([i.error for _, _, i in rows]))),
            "half_width": rounded(float(np.mean([i.width for _, _, i in rows])) / 2),
            "by_items": {
                str(size): rounded(float(np.mean([i.inside for _, n, i in rows if n == size])))
                for size in sorted({n for _, n, _ in rows})
            },
        }
        for name, rows in sorted(found.items())
    }


def false_alarms(clean: Pairs) -> dict[str, Any]:
    """Return the share of sets without a shortcut on which each test was positive."""
    said: dict[str, list[bool]] = defaultdict(list)
    for _, t in clean:
        for name, yes in t.alarms.items():
            said[name].append(yes)
    return {name: share_of(yes) for name, yes in sorted(said.items())}
