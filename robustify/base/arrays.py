"""Array types, integer codes for values, and a search for tied best scores."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.signedinteger[Any]]
Bools = npt.NDArray[np.bool_]
T = TypeVar("T", np.float64, np.int64)
ROWS = 1 << 16
"""Rows of a large table that are computed at once, so that intermediate arrays stay small."""


def by_rows(function: Callable[..., Any], *tables: npt.NDArray[Any]) -> Any:
    """Apply a row-wise function to blocks of rows of long tables, and concatenate the results."""
    starts = range(0, max(len(tables[0]), 1), ROWS)
    parts = [function(*(table[start : start + ROWS] for table in tables)) for start in starts]
    if len(parts) == 1:
        return parts[0]
    return (
        tuple(map(np.concatenate, zip(*parts, strict=True)))
        if isinstance(parts[0], tuple)
        else np.concatenate(parts)
    )


def coded(values: npt.NDArray[T]) -> tuple[npt.NDArray[T], Ints]:
    """Return the sorted distinct values, and the index of each value among them (n,). Unlike `np.unique`,
    this uses hashing, which is faster for few distinct values."""
    import pyarrow as pa  # slow to import, so only on use

    encoded = pa.array(values).dictionary_encode()
    kinds = np.asarray(encoded.dictionary)
    order = np.argsort(kinds, kind="stable")
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order))
    return kinds[order], place[np.asarray(encoded.indices)]


def numbered(names: Sequence[str]) -> tuple[list[str], Ints]:
    """Return the sorted distinct names, and the index of each name among them (n,)."""
    kinds = sorted(set(names))
    place = {name: i for i, name in enumerate(kinds)}
    return kinds, np.fromiter(map(place.__getitem__, names), np.int32, len(names))


def group_numbers(items: Sequence[str], group_of: Mapping[str, str]) -> Ints:
    """Return the group index of each item (n,). An item without a group forms its own group."""
    return numbered([f"group/{group_of[i]}" if group_of.get(i) else f"item/{i}" for i in items])[1]


RELATIVE_TIE = 1e-6
"""Scores closer to the best one than this share of it are tied."""
ROUNDING = 1e-9
"""Largest difference or spread of standardized numbers that is only a rounding error."""


def tied(scores: Floats, best: Floats) -> Bools:
    """Return a mask of the scores that tie with the best score. `best` must broadcast to the shape of `scores`."""
    return np.asarray(best - scores <= RELATIVE_TIE * np.maximum(np.abs(best), 1e-300))


def tied_best(scores: Sequence[float]) -> tuple[int, ...]:
    """Return the indices of all choices with the best score, lowest first. Scores within a relative 1e-6 are equal. On
    public bf16 logs, an argmax, which gives every tie to the first choice, changed accuracy by one point."""
    best = max(scores)
    slack = RELATIVE_TIE * max(abs(best), 1e-300)
    return tuple(i for i, s in enumerate(scores) if best - s <= slack)
