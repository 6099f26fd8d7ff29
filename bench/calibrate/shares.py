"""Shares with Monte Carlo intervals, and verdicts that depend on the interval rather than the estimate."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from robustify.judging.stats.intervals import wilson

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
