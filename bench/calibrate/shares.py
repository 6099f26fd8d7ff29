"""Shares with their Monte Carlo intervals, and when one is as it should be: by the interval, never by the point."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from robustify.stats.intervals import wilson

BAND = (0.93, 0.97)
"""The goal: a 95 % interval covers between these shares."""
ALARM = 0.05


def coverage_verdict(ci: Sequence[float]) -> str:
    """Whether a coverage is within 93 to 97 %, outside, or not decided."""
    if BAND[0] <= ci[0] and ci[1] <= BAND[1]:
        return "yes"
    return "wide" if ci[0] > BAND[1] else "narrow" if ci[1] < BAND[0] else "not excluded"


def alarm_verdict(ci: Sequence[float], level: float = ALARM) -> str:
    """Whether a share of false alarms is at most the level, above it, or not decided."""
    return "yes" if ci[1] <= level else "no" if ci[0] > level else "not excluded"


def rounded(value: float) -> float:
    """A number as it is written."""
    return round(value, 4)


def share_of(said: Sequence[bool], benchmarks: int | None = None) -> dict[str, Any]:
    """How often something was said; the interval counts `benchmarks`, as what one of them says hangs together."""
    share, n = float(np.mean(said)), len(said) if benchmarks is None else benchmarks
    return {"share": rounded(share), "ci": [rounded(x) for x in wilson(share * n, n)], "benchmarks": n}
