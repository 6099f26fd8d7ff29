"""A limit on what a piece of work costs, in units of a fixed piece of Python timed in the same moment: never in seconds."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def _unit() -> float:
    """Processor seconds of this thread for a million additions (about 0.05 s on a machine of 2024)."""
    begin = time.thread_time()
    total = 0
    for i in range(1_000_000):
        total += i % 7
    return time.thread_time() - begin


def costs_at_most(units: float, work: Callable[[], T]) -> T:
    """What `work` returns, if this thread spent at most `units` times a million additions on it.

    Raises:
        AssertionError: it spent more; the slower of two units counts.
    """
    before = time.thread_time()
    result = work()
    spent = time.thread_time() - before
    # No machine makes a million additions in a millisecond: what costs less need not be compared with them.
    if spent > units / 1000:
        unit = max(_unit(), _unit())
        assert spent <= units * unit, f"{spent:.2f} processor seconds"
    return result
