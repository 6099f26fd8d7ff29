"""Error of the adjusted score against known truth, and what fresh probes still find under the weights of real sets.

In `redrawn`, keys are uniform. In `planted`, the key of 40 % of the items is the only longest option. Each model knows half
of the items, whatever their text. The truth is this knowledge plus the gain from guessing. The encoder is not asked.

In `real`, the keys are the sets' own, and the encoder is asked. Fresh probes of all kinds, with folds that took no part in
the weights, look for the keys before and after weighting. Texts stay in the process.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from bench.atlas.audit import items_of
from bench.atlas.fitted import tie_fair
from bench.calibrate.grid import Files, rounded, share_of
from bench.results import commit
from robustify.base.arrays import Bools, Floats
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.judging.adjusted import balanced
from robustify.judging.audit.probing import gains, probed
from robustify.judging.baselines.artifact_probe import ProbeSettings
from robustify.judging.baselines.heuristics import guess
from robustify.judging.baselines.near_duplicates import balanced_folds, content_hashes, fold_groups
from robustify.judging.context import Facts, Rules, context
from robustify.judging.summary.scored import LeftToFind
from robustify.models.folder import cache_folder
from robustify.pipeline.by_meaning import ask_by_meaning, text_vectors

Arm = Literal["redrawn", "planted"]
SETS = {
    "openbookqa": "$ROBUSTIFY_DATA/openbookqa/openbook_qa.jsonl",
    "arc-challenge": "$ROBUSTIFY_DATA/arc/ARC-Challenge-Test.jsonl",
    "arct": "$ROBUSTIFY_DATA/arct/train.tsv",
}
REAL = SETS | {
    "commonsenseqa": "$ROBUSTIFY_DATA/commonsenseqa/dev_rand_split.jsonl",
    "mmlu-pro (people)": "$ROBUSTIFY_DATA/distractors/mmlu_pro/items_people.jsonl",
    "mmlu-pro (GPT-5.2)": "$ROBUSTIFY_DATA/distractors/mmlu_pro/items_gpt52.jsonl",
    "arc-challenge (GPT-5.2)": "$ROBUSTIFY_DATA/distractors/arc/items_gpt52.jsonl",
}
FRESH = range(900_000, 900_002)
"""Seeds of the partitions of fresh probes. Their gains are averaged."""
ITEMS, KNOWS, PLANTED = 500, 0.5, 0.4
DRAWS: dict[Arm, int] = {"redrawn": 40, "planted": 20}
MODELS = 20
"""Models of each type that answer the items of one draw."""
SEEDS = 700_000_000
GOALS = {"bias_points": 0.5, "worth": 0.95, "left": 0.1}
"""Largest bias of a score, smallest worth, and largest share of draws with a significant auditor, on redrawn keys."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """Relative worth of the weights, their status, and by type of model, the errors of three scores and the share of
    intervals of the adjusted score that contain the truth."""

    worth: float
    status: str
    errors: dict[str, dict[str, float]]
    covered: dict[str, float]


@lru_cache(maxsize=4)
def options_of(name: str) -> tuple[Item, ...]:
    """Return the items of a set as they are read."""
    return tuple(items_of(REAL[name]))


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
    truth, kept = float(np.mean(KNOWS + (1 - KNOWS) / (size >= 0).sum(axis=1))), ctx.parts.kept
    errors: dict[str, dict[str, list[float]]] = {}
    covered: dict[str, list[bool]] = {}
    for _ in range(MODELS):
        for kind, credit in answered(np.array([i.key for i in items]), size, planted, draw):
            scores = {"raw": float(credit.mean()), "kept": float(credit[kept].mean())}
            if (rate := found.rate(credit)) is not None and rate.value is not None:
                scores["adjusted"] = rate.value
                covered.setdefault(kind, []).append(rate.ci is not None and rate.ci[0] <= truth <= rate.ci[1])
            for score, value in scores.items():
                errors.setdefault(kind, {}).setdefault(score, []).append(value - truth)
    means = {kind: {s: float(np.mean(e)) for s, e in of.items()} for kind, of in errors.items()}
    within = {kind: float(np.mean(inside)) for kind, inside in covered.items()}
    return Weighed(found.part.worth / found.part.n, found.part.status, means, within)


def real(pool: Executor, _scale: float) -> Files:
    """Return the content of real.json: what is left under the weights of each real set. Raise `DataError` without a set."""
    return {"real": {"format": 1, "commit": commit(), "sets": list(pool.map(remaining, REAL))}}


def remaining(name: str) -> dict[str, Any]:
    """Weigh a real set as a run does, and return what auditors and fresh probes gain before and after weighting."""
    items, settings = options_of(name), ProbeSettings()
    meant = Answers.of(ask_by_meaning(items, settings, cache_folder(), keep=True))
    ctx = context(Answers.concat([guess(items), meant]), Facts(name), Rules(), items)
    found = balanced(ctx)
    assert found is not None
    vectors = text_vectors([text for item in items for text in item.choices], cache_folder(), keep=True)
    groups, k, key = fold_groups(items), ctx.index.k, ctx.index.key
    fresh: dict[str, list[LeftToFind]] = {}
    for seed in FRESH:
        fold = balanced_folds(groups, content_hashes(items), settings.folds, seed)
        probes = probed(items, fold, seed=seed, vectors=vectors)
        won = {kind: tie_fair(logits, key, k) for kind, logits in probes.items()}
        for kind, one in gains(won, k, found.scored, groups).items():
            fresh.setdefault(kind, []).append(one)
    part = found.part
    return {
        "set": name, "n": part.n, "status": part.status, "worth": rounded(part.worth / part.n),
        "left": {kind: _points([one]) for kind, one in part.left.items()},
        "fresh": {kind: _points(every) for kind, every in fresh.items()},
    }  # fmt: skip


def _points(found: Sequence[LeftToFind]) -> dict[str, float]:
    """Return the mean gain over partitions in points, before and after weighting, and the mean standard error."""
    columns = {
        "before": [one.before for one in found],
        "after": [one.value or 0.0 for one in found],
        "se": [(one.ci[1] - one.ci[0]) / 3.92 for one in found if one.ci is not None],
    }
    return {name: rounded(100 * float(np.mean(column))) for name, column in columns.items()}


def adjusted(pool: Executor, scale: float) -> Files:
    """Return the content of adjusted.json: the bias of three scores by set and arm. Raise `DataError` without a set."""
    rows = []
    for i, (name, arm) in enumerate((name, arm) for arm in DRAWS for name in SETS):
        draws, first = max(2, round(scale * DRAWS[arm])), SEEDS + 10_000 * i
        seeds = range(first, first + draws)
        found = list(pool.map(weighed, [name] * draws, [arm] * draws, seeds))
        rows.append(measured(name, arm, first, found))
    fixed = {"knows": KNOWS, "planted": PLANTED, "models_of_a_kind": MODELS, "goals": GOALS}
    return {"adjusted": {"format": 1, "commit": commit(), **fixed, "simulations": rows}}


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
        "covered": {k: rounded(float(np.mean([one.covered[k] for one in found if k in one.covered]))) for k in kinds},
        "left": share_of([said == "partly adjusted" for said in status]), "withheld": status.count("withheld"),
    }  # fmt: skip
