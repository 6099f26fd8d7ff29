"""The reconstruction attack (H2): who knows what every item did under public models, and every published number, asks
an integer program whether only one flagged set fits.

The votes themselves are not known: who reruns the screen has its result, and no release can change that (the docs
say so). What is known of an item is its credit under each measure that a number was published of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from robustify.arrays import Bools, Floats, Ints

Path = tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Rows of `low <= matrix @ x <= high` that the kept items x (n,) fulfil."""

    matrix: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Known:
    """The credits (n,) of the items by measure, the parts of the topics (n,), and the truth, to read what a withheld
    number still says (the attacker is granted it).
    """

    credits: Mapping[Path, Floats]
    topic: Sequence[str]
    kept: Bools


def facts(summary: Mapping[str, Any], known: Known, steps: Mapping[Path, float]) -> Facts:
    """What a summary says of the kept items. `steps`: the step of each number; 0 is exact."""
    rows: list[tuple[Floats, float, float]] = []
    for topic, low, high in _counts(summary):
        rows.append((np.array([t == topic for t in known.topic], dtype=np.float64), low, high))
    n_kept = summary["splits"]["robust"]
    rows.append((np.ones(len(known.kept)), n_kept, n_kept))
    for path, credit in known.credits.items():
        for split, mask in (("robust", known.kept), ("shortcut", ~known.kept)):
            node = _at(summary, _placed(path, split))
            if isinstance(node, dict):
                rows += _told(node, credit, split, mask, steps.get(path, 0.0))
    matrix, low_, high_ = zip(*rows, strict=True)
    return Facts(np.array(matrix), np.array(low_), np.array(high_))


def another(told: Facts, kept: Bools, where: Bools, seconds: float = 20.0) -> Bools | None:
    """A set that fits everything told and differs from the true one among the items of `where` (n,).

    None where there is none, which the solver proves. An answer is checked against the facts before it counts.

    Raises:
        TimeoutError: the solver found none and proved nothing in time.
    """
    n = len(kept)
    differs = np.where(where, np.where(kept, -1.0, 1.0), 0.0)
    at_least_one = 1.0 - float((where & kept).sum())
    constraints = LinearConstraint(
        np.vstack([told.matrix, differs]), np.append(told.low, at_least_one), np.append(told.high, np.inf)
    )
    done = milp(np.zeros(n), integrality=np.ones(n, dtype=np.int64), bounds=Bounds(0, 1), constraints=constraints,
                options={"time_limit": seconds})  # fmt: skip
    if done.x is None:
        if done.status != 2:
            raise TimeoutError(f"solver status {done.status}")
        return None
    found = np.asarray(done.x > 0.5)
    fit = told.matrix @ found
    assert bool((fit >= told.low - 1e-6).all() and (fit <= told.high + 1e-6).all())
    assert bool((found != kept)[where].any())
    return found


def together(released: Sequence[tuple[Facts, Ints]], n: int) -> Facts:
    """What several releases say of the same flags: each with the places (m,) of its items among all `n`."""
    wide = []
    for one, places in released:
        matrix = np.zeros((len(one.matrix), n))
        matrix[:, places] = one.matrix
        wide.append(matrix)
    low, high = (np.concatenate([getattr(one, end) for one, _ in released]) for end in ("low", "high"))
    return Facts(np.vstack(wide), low, high)


def settled(told: Facts, kept: Bools) -> Bools:
    """The items (n,) whose flag is the same in every set that fits."""
    closed = np.ones(len(kept), dtype=bool)
    while closed.any():
        found = another(told, kept, closed)
        if found is None:
            break
        closed &= found == kept
    return closed


def solved(told: Facts, seconds: float = 20.0) -> Bools | None:
    """A set that fits everything told, without knowing the true one; None where the solver finds none."""
    n = told.matrix.shape[1]
    done = milp(np.zeros(n), integrality=np.ones(n, dtype=np.int64), bounds=Bounds(0, 1),
                constraints=LinearConstraint(told.matrix, told.low, told.high),
                options={"time_limit": seconds})  # fmt: skip
    return None if done.x is None else np.asarray(done.x > 0.5)


def _counts(summary: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    rows = (summary["topics"] or {}).get("by_topic") or {}
    return [(t, r["after"], r["after"]) for t, r in rows.items()]


def _told(
    node: Mapping[str, Any], credit: Floats, split: str, mask: Bools, step: float
) -> list[tuple[Floats, float, float]]:
    size, total = float(mask.sum()), float(credit.sum())
    if node.get("value") is None:
        if not str(node.get("withheld", "")).startswith("<"):
            return []
        k = float(str(node["withheld"]).split()[1])
        right = float(credit[mask].sum())
        low, high = (0.0, k) if right < k else (size - k, size)
    else:
        half = step / 2 if step else 1e-9
        low, high = (node["value"] - half) * size, (node["value"] + half) * size
    # Of the shortcuts: what all items did less what the kept ones did.
    return [(credit, low, high) if split == "robust" else (credit, total - high, total - low)]


def _placed(path: Path, split: str) -> Path:
    return (path[0], split, *path[1:]) if path[0] == "heuristics" else (*path, split)


def _at(node: Any, path: Path) -> Any:
    for step in path:
        node = node.get(step) if isinstance(node, Mapping) else None
    return node
