"""Summary files of the trials: shares with Monte Carlo intervals."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.calibrate.shares import BAND, rounded, share_of
from bench.calibrate.trial import Cell, Interval, Trial

Pairs = Sequence[tuple[Cell, Trial]]


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
