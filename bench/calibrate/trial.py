"""Trial of one made-up benchmark of the grid: judged by the production code and compared with its truth."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Literal

import numpy as np

from bench.simulate.drawing import Drawn, draw
from bench.simulate.parameters import Simulation
from bench.simulate.truth import true_values
from robustify.judging.context import Rules, context
from robustify.judging.judgement import judge
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screening import screen

Depth = Literal["screen", "whole", "worded"]
"""Depth of judging: the screen alone, everything that needs no text, or everything."""
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


def _beside(known: Mapping[str, float], tree: Mapping[str, object]) -> Iterator[Interval]:
    """Yield each interval of a summary whose true value is known."""
    for path, truth in known.items():
        node = value_at(tree, path)
        value, ci = (
            (node["value"], node["ci"]) if isinstance(node, Mapping) else (node, value_at(tree, f"{path}_ci"))
        )
        if value is not None and ci is not None:
            inside = ci[0] - 1e-12 <= truth <= ci[1] + 1e-12
            yield Interval(estimator(path), inside, value - truth, ci[1] - ci[0])


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


def estimator(path: str) -> str:
    """Return the estimator of a path in summary.json, without names of models and topics."""
    match path.split("/"):
        case ["measures", _, "choices_only", _, _]:
            return "voter_choices_only_accuracy"
        case ["screen", name]:
            return "flagged_rate" if name == "flagged" else name
        case ["measures", _, "format_gap", _, _]:
            return "format_gap"
        case ["measures", _, "longest_gap", _, _]:
            return "heuristic_gap_full"
        case ["measures", _, measure, _, part]:
            return f"accuracy_{measure}_{part}"
        case ["topics", *_]:
            return "topic_retention"
        case ["residual", kind, *_]:
            return f"residual_{kind}"
        case ["pairs", _, _, split, _]:
            return f"pair_difference_{split}"
        case ["calibration" | "permutation", *_, name]:
            return name
        case ["label_noise", name]:
            return f"label_noise_{name}"
    raise ValueError(path)


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
