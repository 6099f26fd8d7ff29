"""The array types of the project, by their element, the distinct values of a long one, and which scores share the best."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
T = TypeVar("T", np.float64, np.int64)


def coded(values: npt.NDArray[T]) -> tuple[npt.NDArray[T], Ints]:
    """As `np.unique(values, return_inverse=True)`, (n,): by hashing, which of few kinds is far faster than sorting."""
    import pyarrow as pa  # only what needs it pays for the import

    found = pa.array(values).dictionary_encode()
    kinds = np.asarray(found.dictionary)
    order = np.argsort(kinds, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return kinds[order], place[np.asarray(found.indices)]


def numbered(names: Sequence[str]) -> tuple[list[str], Ints]:
    """The sorted distinct names, and the place among them of each (n,)."""
    kinds = sorted(set(names))
    place = {name: i for i, name in enumerate(kinds)}
    return kinds, np.fromiter(map(place.__getitem__, names), np.int64, len(names))


RELATIVE_TIE = 1e-6


def tied_best(scores: Sequence[float]) -> tuple[int, ...]:
    """The indices that share the best score, lowest first; equal means within a relative 1e-6.

    An argmax alone gives every tie to the first place: on public bf16 logs that moved accuracy by a point.
    """
    best = max(scores)
    slack = RELATIVE_TIE * max(abs(best), 1e-300)
    return tuple(i for i, s in enumerate(scores) if best - s <= slack)
