"""Linear probes on a frozen model's option vectors: what supervised fitting gets right from the choices alone.

A linear probe is the artifact probe with other features: the vectors that a model has for each option, asked without
stem and without the other options. Much of its power is the fitting, not the model, so a probe of the same
architecture with random weights is its control. It never votes; its rows say where there are too few items. What audits
is fitted on blocks of items, each predicted by a fit on those before it, so that no key is fitted on twice.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, field_validator
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from robustify.answers import Answer
from robustify.arrays import Floats, Ints
from robustify.baselines.artifact_probe import (
    FEWEST_ITEMS,
    UNFITTED,
    ProbeSettings,
    crossfit,
    folds,
    near_duplicate_groups,
    scored_row,
)
from robustify.baselines.features import standardised
from robustify.item import Item

BLOCKS, UNSCORED = 10, 2
"""Blocks of items, and how many of the first are only fitted on."""
RIDGE = 50.0
"""The penalty of the fits: the artifact probe's logistic one, 10, over the variance of a key among four options, 0.19."""


def forward_rank(items: Sequence[Item], seed: int) -> tuple[Ints, Ints]:
    """The rank (n,) of each item in hash order, in which a group of near-duplicates stands together, and its group (n,)."""
    groups = near_duplicate_groups(items)
    smallest: dict[int, str] = {}
    for item, group in zip(items, groups.tolist(), strict=True):
        smallest[group] = min(item.id, smallest.get(group, item.id))
    marks = [
        (_hash(smallest[group], seed), _hash(item.id, seed))
        for item, group in zip(items, groups.tolist(), strict=True)
    ]
    rank = np.empty(len(marks), dtype=np.int64)
    rank[sorted(range(len(marks)), key=marks.__getitem__)] = np.arange(len(marks))
    return rank, groups


def forward_blocks(groups: Ints) -> Ints:
    """The block (n,) of items in their order, so that no group (n,), which stands together, is cut."""
    if not len(groups):
        return groups
    new = np.append(True, groups[1:] != groups[:-1])
    start = np.maximum.accumulate(np.where(new, np.arange(len(groups)), 0))
    return np.asarray(start * BLOCKS // len(groups))


def _hash(name: str, seed: int) -> bytes:
    return sha256(f"forward/{seed}/{name}".encode("utf-8", "surrogatepass")).digest()


VIEW = "head"
TEMPLATE = "head-v1"
FORWARD = "head-forward-v1"
"""Of the rows that audit: each block of items predicted by a fit on the blocks before it."""
CONTROL = "@random"
"""Ends the name of the control on random weights; no model of a config can be called so."""

UNSCORED_BLOCK = "in a block that is only fitted on"
ITEMS_PER_AXIS = 4
"""Items fitted on for each column that is kept."""


class LinearProbeSettings(BaseModel):
    """Which models' vectors are audited with. Names are those of `models`; linear probes never vote.

    `control`: also a probe on the same architecture with random weights. `folds` and `seed` of the cross-fit, as
    for the probe; the seed makes the random weights too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    models: tuple[str, ...] = ()
    control: bool = True
    folds: int = Field(default=5, ge=2, le=20)
    seed: int = Field(default=0, ge=0)

    @field_validator("models")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("a name stands twice; expected each once")
        return names


def linear_probe(
    items: Sequence[Item], vectors: npt.NDArray[np.floating], name: str, settings: LinearProbeSettings
) -> list[Answer]:
    """One row an item, under the name of the model that the vectors come from.

    `vectors` (sum of k, d): one for each choice of each item, in their order; NaN for an item that could not be
    asked. Scores are cross-fitted log probabilities whose exponentials sum to 1; the folds are the probe's.

    Raises:
        ValueError: not one vector for each choice.
    """
    return _rows(items, vectors, name, TEMPLATE, lambda there, k, x: _crossed(there, k, x, settings))


def forward_probe(
    items: Sequence[Item], vectors: npt.NDArray[np.floating], name: str, settings: LinearProbeSettings
) -> list[Answer]:
    """As `linear_probe`, but each block of items is predicted by a closed-form ridge on the blocks before it.

    Without a shortcut the hits among any options that leave the key's place open are exactly Poisson-binomial, which
    cross-fitted ones are not: so these rows audit. Scores are linear and no log probabilities.
    """
    return _rows(items, vectors, name, FORWARD, lambda there, k, x: _forward(there, k, x, settings))


def both_fits(
    items: Sequence[Item], vectors: npt.NDArray[np.floating], name: str, settings: LinearProbeSettings
) -> list[Answer]:
    """The rows of `linear_probe`, then those of `forward_probe`."""
    return [*linear_probe(items, vectors, name, settings), *forward_probe(items, vectors, name, settings)]


def _rows(
    items: Sequence[Item],
    vectors: npt.NDArray[np.floating],
    name: str,
    template: str,
    fit: Callable[[list[Item], Ints, Floats], Floats],
) -> list[Answer]:
    k = np.array([item.k for item in items], dtype=np.int64)
    if vectors.ndim != 2 or len(vectors) != k.sum():
        raise ValueError(f"{vectors.shape} vectors for {k.sum()} choices")
    ends = np.cumsum(k)
    asked = ~np.logical_or.reduceat(np.isnan(vectors).any(axis=1), ends - k) if len(items) else k > 0
    asked_items = [item for item, there in zip(items, asked.tolist(), strict=True) if there]
    scores = np.full(len(vectors), np.nan)
    if len(asked_items) >= FEWEST_ITEMS:
        rows = np.repeat(asked, k)
        x = standardised(vectors[rows].astype(np.float64), k[asked])
        # One thread: the same bits on any number of cores, and no threads that wait for each other on busy ones.
        with threadpool_limits(1, "blas"):
            scores[rows] = fit(asked_items, k[asked], x)
    why = (
        (UNFITTED if template == TEMPLATE else UNSCORED_BLOCK)
        if len(asked_items) >= FEWEST_ITEMS
        else f"{len(asked_items)} items; a head needs {FEWEST_ITEMS}"
    )
    return [
        scored_row(item, VIEW, name, template, scores[end - item.k : end], why if there else "empty_choice")
        for item, end, there in zip(items, ends.tolist(), asked.tolist(), strict=True)
    ]


def _crossed(items: list[Item], k: Ints, x: Floats, settings: LinearProbeSettings) -> Floats:
    key = np.array([item.key for item in items], dtype=np.int64)
    return crossfit(
        x, k, key, folds(items, ProbeSettings(folds=settings.folds, seed=settings.seed)), on_few_axes
    )


def _forward(items: list[Item], k: Ints, x: Floats, settings: LinearProbeSettings) -> Floats:
    """Scores (sum of k,); NaN in the first blocks."""
    from scipy.linalg import solve  # a run without one should not pay for the import

    rank, groups = forward_rank(items, settings.seed)
    order, block = np.argsort(rank), np.empty(len(items), dtype=np.int64)
    block[order] = forward_blocks(groups[order])
    of_row, key = np.repeat(block, k), np.array([item.key for item in items], dtype=np.int64)
    right = -np.repeat(1 / k, k)
    right[np.cumsum(k) - k + key] += 1
    out = np.full(len(x), np.nan)
    for b in range(UNSCORED, BLOCKS):
        before, now = of_row < b, of_row == b
        if before.any() and now.any():
            train, test = on_few_axes(x[before], x[now], int(np.count_nonzero(block < b)))
            product = train.T @ train + RIDGE * np.eye(train.shape[1])
            out[now] = test @ solve(product, train.T @ right[before], assume_a="pos")
    return out


def on_few_axes(train: Floats, test: Floats, n_items: int) -> tuple[Floats, Floats]:
    """Rows (r, d) and (t, d) on the first principal axes of the former, one for every four of its `n_items`.

    Untouched where there are that few columns anyway. All axes are scaled by one number, so that a column varies
    as much as one of the probe's features does and the ridge weighs the same. Fixed before any model was tried.
    """
    wanted = max(1, n_items // ITEMS_PER_AXIS)
    if wanted >= train.shape[1]:
        return train, test
    axes = _principal(train, wanted)
    on = train @ axes
    size = float(np.sqrt(np.mean(on**2))) or 1.0
    return on / size, test @ axes / size


def _principal(x: Floats, wanted: int) -> Floats:
    """The `wanted` directions (d, q) in which rows (r, d) of mean 0 vary most; fewer where fewer vary at all."""
    from scipy.linalg import eigh

    narrow = x.shape[1] <= x.shape[0]
    # Of the two products that share their eigenvalues, the smaller one.
    product = x.T @ x if narrow else x @ x.T
    values, vectors = eigh(product, subset_by_index=(max(0, len(product) - wanted), len(product) - 1))
    chosen = np.flatnonzero(values > 1e-9 * max(float(values[-1]), 1e-300))[::-1]
    if not len(chosen):
        return np.eye(x.shape[1], 1)
    if narrow:
        return np.asarray(vectors[:, chosen])
    return np.asarray(x.T @ vectors[:, chosen] / np.sqrt(values[chosen]))
