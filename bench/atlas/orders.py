"""Effects of a filter on the scores of models and on their order."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from bench.atlas.fitted import Entry
from robustify.base.arrays import Floats
from robustify.judging.stats.intervals import rate
from robustify.judging.stats.tests import LEVEL

Scores = Mapping[str, Floats]
"""Credit of each model on each item, (n,); NaN without an answer."""


def by_part(won: Scores, kept: Floats) -> Entry:
    """Return each model's accuracy on all and on the kept items (`kept` (n,) is 1), and both orders of models.

    `changed` lists pairs of which one model is significantly better (exact interval of the paired difference) on one part
    only, or in opposite directions. These conclusions depend on the filter.
    """
    parts = {"all": np.ones_like(kept, dtype=bool), "kept": kept == 1}
    score = {part: {m: rate(c[mask]) for m, c in won.items()} for part, mask in parts.items()}
    mean = {part: {m: found.value or 0.0 for m, found in of.items()} for part, of in score.items()}
    order = {part: sorted(won, key=found.__getitem__, reverse=True) for part, found in mean.items()}
    pairs = list(combinations(order["all"], 2))
    say = {
        part: {pair: _better(won[pair[0]][mask], won[pair[1]][mask]) for pair in pairs}
        for part, mask in parts.items()
    }
    return {
        "models": {m: {part: score[part][m].json() for part in parts} for m in won},
        **{f"order_{part}": names for part, names in order.items()},
        "pairs": len(pairs),
        "changed": [
            {"pair": list(pair), **{part: say[part][pair] for part in parts}}
            for pair in pairs
            if say["all"][pair] != say["kept"][pair]
        ],
    }


def _better(a: Floats, b: Floats) -> str:
    """Return the better model on the items that both answered: first, second or neither (exact McNemar, 5 %)."""
    from robustify.judging.stats.tests import mcnemar

    known = ~(np.isnan(a) | np.isnan(b))
    more, less = int((a > b)[known].sum()), int((a < b)[known].sum())
    if mcnemar(more, less)[0] > LEVEL:
        return "neither"
    return "first" if more > less else "second"
