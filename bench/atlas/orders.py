"""What a cue does to the scores of models and to their order.

A cue points at the key of an item, or away from it. A model that knows and does not look at cues is as often right in both
cases, where both kinds of item are equally hard (which no set promises); the difference is the cue's effect on accuracy.
"""

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from bench.atlas.fitted import Entry
from robustify.arrays import Floats
from robustify.judging.accuracy import heuristic_gap
from robustify.stats.intervals import bootstrap, rate
from robustify.stats.tests import LEVEL, holm

Scores = Mapping[str, Floats]
"""By model its credit on each item, (n,); NaN where it did not answer."""


def by_cue(won: Scores, cue: Floats) -> Entry:
    """Of one cue, (n,) the credit of the option it points at: by model the accuracy where it points at the key, where it
    points away, and the gap; and the order of the models in both (`order_with`, `order_without`, best first).

    `overtakes`: pairs of models of which the second is better without the cue, whatever the noise; `moved`: pairs whose
    difference depends on the cue (interval of the item bootstrap, p by its normal error, Holm over the pairs).
    """
    there = ~np.isnan(cue)
    score = {
        part: {model: _weighted(credit, np.where(there, weight, 0.0)) for model, credit in won.items()}
        for part, weight in (("with", cue), ("without", 1 - cue))
    }
    gaps = {model: heuristic_gap(credit, cue) for model, credit in won.items()}
    order = {part: sorted(won, key=found.__getitem__, reverse=True) for part, found in score.items()}
    pairs = list(combinations(order["with"], 2))
    errors = [_interaction(won[a], won[b], cue) for a, b in pairs]
    corrected = holm([p for _, p in errors])
    return {
        "items": {"with": float(np.nansum(cue)), "without": float(np.nansum(1 - cue))},
        "models": {
            model: {
                **{part: score[part][model] for part in score},
                "gap": None if gap is None else gap.model_dump(mode="json"),
            }
            for model, gap in gaps.items()
        },
        **{f"order_{part}": names for part, names in order.items()},
        "pairs": len(pairs),
        "overtakes": [list(pair) for pair in pairs if score["without"][pair[1]] > score["without"][pair[0]]],
        "moved": [list(pair) for pair, p in zip(pairs, corrected, strict=True) if p <= LEVEL],
    }


def by_part(won: Scores, kept: Floats) -> Entry:
    """By model the accuracy on all items and on those that a filter did not flag (`kept` (n,) is 1), and both orders.

    `changed`: pairs of which one is better by more than chance (exact interval of the paired difference) on one of the
    two and not on the other, or the other way round: conclusions that depend on the filter.
    """
    parts = {"all": np.ones_like(kept, dtype=bool), "robust": kept == 1}
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
            if say["all"][pair] != say["robust"][pair]
        ],
    }


def _weighted(credit: Floats, weight: Floats) -> float:
    known = ~np.isnan(credit)
    total = float(weight[known].sum())
    return float(credit[known] @ weight[known]) / total if total else 0.0


def _interaction(a: Floats, b: Floats, cue: Floats) -> tuple[float, float]:
    """How much more model a leads b where the cue points at the key than where it does not, and the two-sided p."""
    from scipy.special import ndtr

    known = ~(np.isnan(a) | np.isnan(b) | np.isnan(cue))
    lead, c = (a - b)[known], cue[known]
    table = np.column_stack([lead * c, c, lead * (1 - c), 1 - c])

    def apart(means: Floats) -> Floats:
        return np.asarray(means[:, 0] / means[:, 1] - means[:, 2] / means[:, 3])

    value = float(apart(table.mean(axis=0)[None])[0])
    low, high = bootstrap(table, apart)
    error = (high - low) / (2 * 1.96)
    return value, float(2 * ndtr(-abs(value) / error)) if error > 0 else 1.0


def _better(a: Floats, b: Floats) -> str:
    """Which of two is better on items that both answered: "first", "second" or "neither", exact McNemar at 5 %."""
    from robustify.stats.tests import mcnemar_exact

    known = ~(np.isnan(a) | np.isnan(b))
    more, less = int((a > b)[known].sum()), int((a < b)[known].sum())
    if mcnemar_exact(more, less) > LEVEL:
        return "neither"
    return "first" if more > less else "second"
