"""Boosted trees applied to many rows of small integers.

scikit-learn applies a tree row by row, which takes ten times as long. Here, a tree is a few comparisons of whole columns
(QuickScorer, Lucchese et al. 2015): each split that sends a row to the right rules out the leaves on its left, and the
first leaf left is the row's.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from robustify.composing.form import Codes

_AT_ONCE = 32_768
"""Options that are scored at once, so that their columns stay in the processor's cache."""
Splits = list[tuple[int, int, int]]
"""Feature, highest code that goes left, and leaves on the left as bits."""


def boosted_logits(model: Any, x: Codes) -> npt.NDArray[np.float32]:
    """Return the logits, up to a constant, of options with the features `x` (n, f, S, K): (n, S, K).

    `model` is a fitted `HistGradientBoostingClassifier` of codes from 0 to 254, with at most 16 leaves a tree.
    """
    n, features, s, k = x.shape
    trees = [_read(tree.nodes) for (tree,) in model._predictors]
    out, step = np.zeros((n, s * k), dtype=np.float32), max(1, _AT_ONCE // (s * k))
    for start in range(0, n, step):
        part = out[start : start + step]
        columns = np.ascontiguousarray(np.moveaxis(x[start : start + step], 0, 1)).reshape(features, -1)
        ruled_out, bits = np.zeros((2, columns.shape[1]), dtype=np.uint16)
        for splits, value in trees:
            ruled_out[:] = 0
            for feature, highest, left in splits:
                np.multiply(columns[feature] > highest, np.uint16(left), out=bits)
                ruled_out |= bits
            part += value[ruled_out].reshape(part.shape)
    return out.reshape(n, s, k)


def _read(nodes: Any) -> tuple[Splits, npt.NDArray[np.float32]]:
    """Return the splits of a tree, and its value by ruled-out leaves."""
    leaves, splits = list[float](), Splits()

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
    value = np.zeros(len(states), dtype=np.float32)
    for nth, leaf in enumerate(leaves):
        value[(~states & (states + 1)) == 1 << nth] = leaf
    return splits, value
