"""Shares of the trials with Monte Carlo intervals, and verdicts that depend on the interval rather than the estimate."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.calibrate.trial import Cell, Interval, Trial
from robustify.judging.stats.intervals import wilson

Pairs = Sequence[tuple[Cell, Trial]]

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


def gathered(pairs: Pairs) -> dict[str, dict[str, Any]]:
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
