"""Error of the adjusted score against known truth, on options of real sets with new keys.

In `redrawn`, keys are uniform. In `planted`, the key of 40 % of the items is the only longest option. Each model knows half
of the items, whatever their text. The truth is this knowledge plus the gain from guessing. Weights depend on form and
words, without an encoder or language model. Texts stay in the process.
"""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from subprocess import check_output
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from bench.atlas.sample import items_of
from bench.calibrate.shares import rounded, share_of
from robustify.base.arrays import Bools, Floats
from robustify.base.errors import RobustifyError
from robustify.items.item import Item
from robustify.judging.adjusted import balanced
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Facts, Rules, context

Arm = Literal["redrawn", "planted"]
SETS = {
    "openbookqa": "$ROBUSTIFY_DATA/openbookqa/openbook_qa.jsonl",
    "arc-challenge": "$ROBUSTIFY_DATA/arc/ARC-Challenge-Test.jsonl",
    "arct": "$ROBUSTIFY_DATA/arct/train.tsv",
}
ITEMS, KNOWS, PLANTED = 500, 0.5, 0.4
DRAWS: dict[Arm, int] = {"redrawn": 40, "planted": 20}
MODELS = 20
"""Models of each type that answer the items of one draw."""
SEEDS = 700_000_000
GOALS = {"bias_points": 0.5, "worth": 0.95, "left": 0.1}
"""Largest bias of a score, smallest worth, and largest share of draws with a significant auditor, on redrawn keys."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """The result of a draw: relative worth of the weights, their status, and three score errors per type of model."""

    worth: float
    status: str
    errors: dict[str, dict[str, float]]


@lru_cache(maxsize=4)
def options_of(name: str) -> tuple[Item, ...]:
    """Return the items of a set as they are read."""
    return items_of(SETS[name])


def drawn(items: Sequence[Item], arm: Arm, draw: Generator) -> tuple[list[Item], Floats, Bools]:
    """Return some items with new keys, the lengths of their options (n, K), and the planted items (n,)."""
    some = [items[row] for row in np.sort(draw.permutation(len(items))[:ITEMS]).tolist()]
    size = np.full((len(some), max(len(item.choices) for item in some)), -1.0)
    for at, item in enumerate(some):
        size[at, : len(item.choices)] = [len(text) for text in item.choices]
    key = draw.integers([len(item.choices) for item in some])
    planted = np.zeros(len(some), dtype=bool)
    if arm == "planted":
        only = np.flatnonzero((size == size.max(axis=1, keepdims=True)).sum(axis=1) == 1)
        planted[draw.permutation(only)[: round(PLANTED * len(some))]] = True
        key = np.where(planted, size.argmax(axis=1), key)
    return [replace(item, key=k) for item, k in zip(some, key.tolist(), strict=True)], size, planted


def answered(key: Floats, size: Floats, planted: Bools, draw: Generator) -> Iterator[tuple[str, Floats]]:
    """Yield each type of model with the credits (n,) of one such model."""
    n, there = len(key), size >= 0
    knows = draw.random(n) < KNOWS
    guessed = np.where(there, draw.random(size.shape), -1).argmax(axis=1)
    longest = (size + 0.5 * draw.random(size.shape)).argmax(axis=1)  # ties at random
    yield "guesses", (knows | (guessed == key)).astype(float)
    yield "takes the longest", (knows | (longest == key)).astype(float)
    if planted.any():
        pick = np.where(planted, longest, guessed)
        yield "takes the longest where it is planted", (knows | (pick == key)).astype(float)


def weighed(name: str, arm: Arm, seed: int) -> Weighed:
    """Draw keys for a set, weigh it as a run does, and score models of known knowledge."""
    draw = np.random.default_rng(seed)
    items, size, planted = drawn(options_of(name), arm, draw)
    ctx = context(guess(items), Facts(name), Rules(), items)
    found = balanced(ctx)
    assert found is not None
    truth, kept = float(np.mean(KNOWS + (1 - KNOWS) / (size >= 0).sum(axis=1))), ctx.parts.robust
    errors: dict[str, dict[str, list[float]]] = {}
    for _ in range(MODELS):
        for kind, credit in answered(np.array([i.key for i in items]), size, planted, draw):
            scores = {"raw": float(credit.mean()), "kept": float(credit[kept].mean())}
            if (rate := found.rate(credit)) is not None and rate.value is not None:
                scores["adjusted"] = rate.value
            for score, value in scores.items():
                errors.setdefault(kind, {}).setdefault(score, []).append(value - truth)
    means, part = (
        {kind: {s: float(np.mean(e)) for s, e in of.items()} for kind, of in errors.items()},
        found.part,
    )
    return Weighed(part.worth / part.n, part.status, means)


def adjusted(pool: Executor, scale: float) -> dict[str, Any] | None:
    """Return the content of adjusted.json: the bias of three scores by set and arm; None without any set."""
    rows = []
    for i, (name, arm) in enumerate((name, arm) for arm in DRAWS for name in SETS):
        draws, first = max(2, round(scale * DRAWS[arm])), SEEDS + 10_000 * i
        seeds = range(first, first + draws)
        try:
            found = list(pool.map(weighed, [name] * draws, [arm] * draws, seeds))
            rows.append(measured(name, arm, first, found))
        except RobustifyError as error:
            print(f"{name}: left out of adjusted.json: {error.lines[0]}", file=sys.stderr)
    commit = check_output(["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, text=True)
    fixed = {"knows": KNOWS, "planted": PLANTED, "models_of_a_kind": MODELS, "goals": GOALS}
    return {"format": 1, "commit": commit.strip(), **fixed, "simulations": rows} if rows else None


def measured(name: str, arm: Arm, first: int, found: Sequence[Weighed]) -> dict[str, Any]:
    """Return each score's bias with its standard error over draws, and the worth and residual of the weights."""
    kinds: dict[str, Any] = {}
    for kind in found[0].errors:
        for score in ("raw", "kept", "adjusted"):
            points = [100 * one.errors[kind][score] for one in found if score in one.errors[kind]]
            if len(points) > 1:
                mean, se = float(np.mean(points)), float(np.std(points, ddof=1)) / len(points) ** 0.5
                kinds.setdefault(kind, {})[score] = {"points": rounded(mean), "se": rounded(se)}
    worth, status = [one.worth for one in found], [one.status for one in found]
    return {
        "set": name, "arm": arm, "n": min(ITEMS, len(options_of(name))), "draws": len(found), "first_seed": first,
        "worth": rounded(float(np.mean(worth))), "least_worth": rounded(min(worth)), "bias": kinds,
        "left": share_of([said == "partly adjusted" for said in status]), "withheld": status.count("withheld"),
    }  # fmt: skip
