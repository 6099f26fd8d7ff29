"""Rounding of released numbers, the bits that they may reveal, and the rounded output of `validate` and `heuristics`.

The output for a restricted set names no line, ID, file or topic.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from robustify.judging.stats.intervals import wilson
from robustify.reading.loaders import Loaded

FINE, COARSE = 0.01, 0.05
CELL = 10
"""Minimum number of items, right answers, wrong answers or flags behind a released number or topic."""
P_VALUES = 28
"""Number of values of a rounded p-value: 0.001 to 0.009, 0.01 to 0.09, and 0.1 to 1."""

Kind = Literal["share", "p"]


def rounded(x: float, step: float) -> float:
    """Return the nearest multiple of `step`. Zero is never negative."""
    return round(round(x / step) * step, 6) + 0.0


def one_digit_up(p: float) -> float:
    """Round a p-value upwards to one digit, so that it never looks more significant. The minimum is 0.001."""
    if p <= 0.001:
        return 0.001
    unit = 10.0 ** math.floor(math.log10(p) + 1e-12)
    return min(1.0, round(math.ceil(p / unit - 1e-9) * unit, 6))


def rounded_interval(share: float, n: int) -> tuple[float, float]:
    """Return the rounded Wilson interval of a share of `n`, which reveals nothing beyond these two arguments."""
    low, high = wilson(share * n, n)
    return rounded(low, FINE), rounded(high, FINE)


def bits(kind: Kind, step: float) -> float:
    """Return log2 of the number of values that a released number may have, including the reasons for not being shown: a p
    is not measured, and a share not measured or based on too few items."""
    return math.log2(P_VALUES + 1 if kind == "p" else round(1 / step) + 3)


def log2_choose(n: int, m: int) -> float:
    """Return log2 of the binomial coefficient C(n, m)."""
    return (math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)) / math.log(2)


def described(bench: Loaded, k: int) -> dict[str, Any]:
    """Return the counts of a benchmark. A count between 0 and `k` is shown as "< k" and cannot be derived from the
    others."""
    items = bench.items
    defects = Counter(defect.kind for defect in bench.defects)
    return {
        "name": bench.name,
        "layout": bench.layout,
        "n_items": len(items),
        "n_quarantined": _cell(len(bench.quarantined), k),
        "option_counts": _partition(Counter(item.k for item in items), k),
        "key_positions": _partition(Counter(item.key for item in items), k),
        "chance_accuracy": rounded(sum(1 / item.k for item in items) / len(items), FINE) if items else None,
        "n_topics": len({item.topic for item in items}),
        "defects": {kind: _cell(count, k) for kind, count in sorted(defects.items())},
    }


def rounded_rates(table: Mapping[str, Any], k: int) -> dict[str, Any]:
    """Return the table of `heuristics` in whole percents and without counts of ties."""
    chance = table["chance_accuracy"]
    rates: dict[str, Any] = {}
    for name, row in table["heuristics"].items():
        value = None if row["value"] is None or row["n"] < k else rounded(row["value"], FINE)
        ci = None if value is None else list(rounded_interval(value, row["n"]))
        rates[name] = {"value": value, "n": row["n"], "ci": ci}
    chance = None if chance is None else rounded(chance, FINE)
    return {"n": table["n"], "chance_accuracy": chance, "heuristics": rates}


def _cell(n: int, k: int) -> int | str:
    return n if n == 0 or n >= k else f"< {k}"


def _partition(counts: Mapping[int, int], k: int) -> dict[str, int] | None:
    """Return the counts of all items by value, or None if one of the counts is below `k`."""
    if any(n < k for n in counts.values()):
        return None
    return {str(number): n for number, n in sorted(counts.items())}
