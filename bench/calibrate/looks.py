"""Error of the points that looks bring, against known truth: results/calibration/looks.json.

Each set of a world is drawn, read by a cross-fitted reader, and estimated by the code of a run. `with` tells what a run has
beside the wrong picks: a panel, blind picks, or both. Sets estimated by the same code are kept in the cache, so that a
stopped run goes on.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from bench.calibrate.grid import Files, rounded, share_of
from bench.results import ROOT, commit
from bench.simulate.cued import CuedItems, read
from bench.simulate.looks_world import BY_NAME, DECIDE, OWN, answered
from robustify.base.arrays import Bools, Floats, Ints
from robustify.base.files import cache_folder
from robustify.judging.looks.estimate import estimates
from robustify.judging.looks.read_options import ReadOptions, beats_chance

SETS, DECIDING = 40, 100
"""Sets of a world, and of one that decides."""
LIMITS = {"claimed_without": 0.05, "claimed_with": 0.5, "too_high": 0.03}
"""Goals: the largest share of claims in a world without it, the smallest in those of the bars, and of limits too high."""
WITH: Mapping[str, frozenset[str]] = {
    "panel": frozenset({"wrong", "panel"}),
    "blind": frozenset({"wrong", "blind"}),
    "both": frozenset({"wrong", "panel", "blind"}),
}
"""Sources that a run has."""
Ends = dict[str, tuple[float, float, float]]
"""Value, lower and upper limit of each source."""
CODE = ("bench/simulate", "robustify/judging/looks")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Truth and score of a set as shares, and value, lower and upper limit of each source."""

    truth: float
    score: float
    sources: Ends

    def smallest(self, of: frozenset[str]) -> tuple[float, float, float] | None:
        """Return the smallest value and the interval that spans those of some sources, or nothing with fewer than two."""
        rows = [ends for name, ends in self.sources.items() if name in of]
        if len(rows) < 2:
            return None
        values, lows, highs = zip(*rows, strict=True)
        return min(values), min(lows), max(highs)


def outcome(name: str, seed: int) -> Outcome:
    """Draw a set of a world and estimate it. It has no sources if the reader saw its items."""
    drawn = answered(BY_NAME[name], seed)
    items = drawn.items
    score = float((drawn.pick == items.key).mean())
    saw_items, _, _ = beats_chance(*placebo(items, seed, in_sample=BY_NAME[name].form.in_sample))
    if saw_items:
        return Outcome(drawn.truth, score, {})
    options = ReadOptions.from_logits(items.reader, items.there, items.key, items.groups)
    rows = {f"other-{m}": options.rows(pick) for m, pick in enumerate(drawn.others)}
    asked = {"model": options.rows(drawn.pick), **rows}
    part = estimates(options, asked, {"model": options.rows(drawn.blind)})["model"].part
    sources: Ends = {
        name: (one.value, one.ci[0], one.ci[1])
        for name, one in part.sources.items()
        if one.value is not None and one.ci is not None
    }
    return Outcome(drawn.truth, score, sources)


def placebo(items: CuedItems, seed: int, *, in_sample: bool) -> tuple[Floats, Bools, Ints, Ints]:
    """Return logits, options, keys, and groups of the items if they are read with a redrawn key for each question."""
    turn = np.random.default_rng([seed, 1]).integers(0, 1 << 30, int(items.source.max()) + 1)[items.source]
    key = (items.key + turn) % items.there.sum(axis=1)
    return (
        read(items.features, key, items.there, items.groups, in_sample=in_sample),
        items.there,
        key,
        items.groups,
    )


def sets_of(name: str, scale: float) -> int:
    """Return the number of sets of a world."""
    return max(2, round(scale * (DECIDING if name in DECIDE else SETS)))


def looks(pool: Executor, scale: float) -> Files:
    """Return the content of looks.json."""
    store = cache_folder() / "calibration" / f"looks-{_code()}.jsonl"
    rows = [measured(name, collected(pool, name, sets_of(name, scale), store)) for name in BY_NAME]
    return {"looks": {"format": 1, "commit": commit(), "limits": LIMITS, "simulations": rows}}


def _code() -> str:
    """Return a digest of the code that decides the outcomes."""
    paths = sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py"))
    return sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def collected(pool: Executor, name: str, sets: int, store: Path) -> list[Outcome]:
    """Return the outcomes of a world's seeds from 0. Read those in the store, a file of JSON rows, and add the others."""
    lines = store.read_text(encoding="utf-8").splitlines() if store.is_file() else []
    known = {row["seed"]: row for row in map(json.loads, lines) if row["world"] == name}
    missing = [seed for seed in range(sets) if seed not in known]
    store.parent.mkdir(parents=True, exist_ok=True)
    with store.open("a", encoding="utf-8") as file:
        for seed, one in zip(
            missing, pool.map(outcome, [name] * len(missing), missing, chunksize=4), strict=True
        ):
            known[seed] = {"world": name, "seed": seed, **asdict(one)}
            file.write(json.dumps(known[seed]) + "\n")
            file.flush()
    rows = [known[seed] for seed in range(sets)]
    return [
        Outcome(row["truth"], row["score"], {of: tuple(ends) for of, ends in row["sources"].items()})
        for row in rows
    ]


def measured(name: str, found: Sequence[Outcome]) -> dict[str, Any]:
    """Return the row of a world: truth, and with each set of sources, claims, error, and limits."""
    world = BY_NAME[name]
    return {
        "world": name, "kind": world.kind, "own": name in OWN, "decides": name in DECIDE, "sets": len(found),
        "items": world.form.n, "truth": _points([one.truth for one in found]),
        "score": _points([one.score for one in found]),
        "with": {read: _judged(found, of) for read, of in WITH.items()},
    }  # fmt: skip


def _judged(found: Sequence[Outcome], of: frozenset[str]) -> dict[str, Any]:
    """Return how the smallest of some sources compares with the truth. A set with fewer than two of them has no claim."""
    pairs = [(one.truth, ends) for one in found if (ends := one.smallest(of))]
    silent = [False] * (len(found) - len(pairs))
    return {
        "claimed": share_of([low > 0 for _, (_, low, _) in pairs] + silent),
        "too_high": share_of([low > truth for truth, (_, low, _) in pairs] + silent),
        "value": _points([value for _, (value, _, _) in pairs]),
        "error": _points([value - truth for truth, (value, _, _) in pairs]),
        "covered": rounded(float(np.mean([low <= truth <= high for truth, (_, low, high) in pairs])))
        if pairs
        else None,
        "estimated": rounded(len(pairs) / len(found)),
    }


def _points(shares: Sequence[float]) -> float | None:
    return rounded(100 * float(np.mean(shares))) if shares else None
