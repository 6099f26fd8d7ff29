"""The array types of the project, by their element, and the distinct values of a long one."""

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
