"""False claims and power of the difference of what looks bring two models, against known truth: looks_pairs.json.

Two models and a panel answer one set. Each of the two is estimated by the code of a run from its picks with and without
the question, and the difference is that of `compare`. Under the null, looks bring both models the same.
"""

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bench.calibrate.grid import Files, share_of
from bench.results import commit
from bench.simulate.behavior import Behavior, chances, picked, shared
from bench.simulate.cued import Form, drawn_items
from bench.simulate.looks_world import PLAUSIBLE, F, N
from robustify.judging.looks.estimate import estimates, looks_difference
from robustify.judging.looks.read_options import ReadOptions
from robustify.judging.stats.tests import LEVEL

SETS = 1_000
PANEL = (0.3, 0.4, 0.6, 0.7)
"""Abilities of the other models."""


@dataclass(frozen=True, slots=True)
class LooksPair:
    """Simulation of two models on a set. `like_keys` and `beliefs_by_looks` are as in `looks_world.World`."""

    first: Behavior
    second: Behavior
    form: Form = field(default_factory=Form)
    like_keys: float = 0.0
    beliefs_by_looks: float = 0.0


STRONG = replace(N, ability=0.8)
NULL: Mapping[str, LooksPair] = {
    "neither follows": LooksPair(N, N),
    "neither follows, one stronger": LooksPair(STRONG, N),
    "both follow": LooksPair(F, F),
    "both follow, cued easier": LooksPair(replace(F, ease=1.5), replace(F, ease=1.5)),
    "plausible options look like keys": LooksPair(PLAUSIBLE, PLAUSIBLE, like_keys=0.5),
    "misconceptions by looks": LooksPair(Behavior(misled=0.2), Behavior(misled=0.2), beliefs_by_looks=1.0),
    "both follow, 200 items": LooksPair(F, F, Form(n=200)),
    "both follow, 2,000 items": LooksPair(F, F, Form(n=2_000)),
    "both follow, ten options": LooksPair(F, F, Form(options=(10,))),
    "both follow, passages of 8": LooksPair(F, F, Form(passage=8)),
    "neither follows, copies x3": LooksPair(N, N, Form(copies=3)),
}
POWER: Mapping[str, LooksPair] = {
    "one follows": LooksPair(F, N),
    "one follows half as much": LooksPair(F, replace(F, follows=0.4)),
    "one follows, 2,000 items": LooksPair(F, N, Form(n=2_000)),
    "the weaker follows": LooksPair(F, STRONG),
}


def outcome(pair: LooksPair, seed: int) -> tuple[float, float | None, bool]:
    """Return the true difference, the estimated one if there is any, and whether its interval excludes 0."""
    draw = np.random.default_rng([seed, pair.form.n])
    items = drawn_items(pair.form, draw)
    common = shared(items, pair.like_keys, pair.beliefs_by_looks, draw)
    options = ReadOptions.from_logits(items.reader, items.there, items.key, items.groups)
    behaviors = {"first": pair.first, "second": pair.second}
    behaviors |= {f"other-{ability}": replace(pair.second, ability=ability) for ability in PANEL}
    drawn = {name: chances(items, behavior, common, draw) for name, behavior in behaviors.items()}

    def rows(probabilities: Any) -> Any:
        return options.rows(picked(probabilities, draw.gumbel(size=items.there.shape)))

    asked = {name: rows(of_model.full) for name, of_model in drawn.items()}
    blind = {name: rows(drawn[name].blind) for name in ("first", "second")}
    estimated = estimates(options, asked, blind)
    truths = [float(drawn[name].truth(items.key).mean()) for name in ("first", "second")]
    first, second = estimated["first"], estimated["second"]
    if first.part.value is None or second.part.value is None:
        return truths[0] - truths[1], None, False
    difference = looks_difference(first.values, second.values, items.groups)
    return truths[0] - truths[1], difference.value, bool(difference.significant)


def measured(pool: Executor, pair: LooksPair, sets: int) -> dict[str, Any]:
    """Return the share of sets with a claim, and the mean true and estimated differences in points."""
    rows = list(pool.map(outcome, [pair] * sets, range(sets), chunksize=10))
    values = [value for _, value, _ in rows if value is not None]
    return {
        "items": pair.form.n,
        "truth": round(100 * float(np.mean([truth for truth, *_ in rows])), 2),
        "value": round(100 * float(np.mean(values)), 2) if values else None,
        "claimed": share_of([claim for *_, claim in rows]),
    }


def looks_pairs(pool: Executor, scale: float) -> Files:
    """Return the content of looks_pairs.json."""
    sets = max(20, round(scale * SETS))
    shares = {
        part: {name: measured(pool, pair, sets) for name, pair in pairs.items()}
        for part, pairs in (("null", NULL), ("power", POWER))
    }
    return {"looks_pairs": {"format": 1, "commit": commit(), "level": LEVEL, **shares}}
