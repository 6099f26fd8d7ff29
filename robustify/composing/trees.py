"""Boosted trees applied to many rows of small integers.

scikit-learn applies a tree row by row. Here, a tree is a few comparisons of whole columns (QuickScorer, Lucchese et al.
2015): each split that sends a row to the right rules out the leaves on its left, and the first leaf left is the row's.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

LEAVES = 10
"""Most leaves of a tree. A row's ruled-out leaves are the bits of one 16-bit number."""
Codes = npt.NDArray[np.uint8]


class _Tree(NamedTuple):
    """Splits (feature, highest code that goes left, leaves on the left as bits), and the value by ruled-out leaves."""

    splits: tuple[tuple[int, int, int], ...]
    value: npt.NDArray[np.float32]


class Boosted:
    """Gradient boosting on codes from 0 to 254, fitted by scikit-learn's `HistGradientBoostingClassifier`."""

    def __init__(self, x: Codes, is_key: npt.NDArray[np.bool_], trees: int) -> None:
        """Fit on rows `x` (r, f) and whether each is a key (r,), with one thread, because sums depend on their number."""
        from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        model = HistGradientBoostingClassifier(
            max_iter=trees,
            learning_rate=7 / trees,
            max_leaf_nodes=LEAVES,
            early_stopping=False,
            random_state=0,
        )
        with threadpool_limits(1):
            model.fit(x, is_key)
        self._trees = [_tree(one.nodes) for (one,) in model._predictors]

    def logits(self, x: Codes) -> npt.NDArray[np.float32]:
        """Return the logits, up to a constant, of the rows given by their columns `x` (f, r)."""
        out = np.zeros(x.shape[1], dtype=np.float32)
        ruled_out, bits = np.zeros((2, x.shape[1]), dtype=np.uint16)
        for splits, value in self._trees:
            ruled_out[:] = 0
            for feature, highest, left in splits:
                np.multiply(x[feature] > highest, np.uint16(left), out=bits)
                ruled_out |= bits
            out += value[ruled_out]
        return out


def _tree(nodes: Any) -> _Tree:
    leaves: list[float] = []
    splits: list[tuple[int, int, int]] = []

    def below(at: int) -> int:
        """Return the leaves below a node as bits, counted from the left."""
        node = nodes[at]
        if node["is_leaf"]:
            leaves.append(float(node["value"]))
            return 1 << (len(leaves) - 1)
        left, right = below(node["left"]), below(node["right"])
        splits.append((int(node["feature_idx"]), int(np.floor(node["num_threshold"])), left))
        return left | right

    below(0)
    states = np.arange(1 << len(leaves))
    first = ~states & (states + 1)
    value = np.zeros(len(states), dtype=np.float32)
    for nth, leaf in enumerate(leaves):
        value[first == 1 << nth] = leaf
    return _Tree(tuple(splits), value)
