"""Probes that look for the key of a composed set.

Each probe is cross-fitted: the sets of an item are scored by a fit on the drawn sets of other folds. If a probe gives the
key of a set the probability p, the set's weight is divided by it. Where keys are as likely as other options, all p are
1 / k, and nothing changes.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from robustify.base.arrays import Floats, Ints
from robustify.composing.form import CandidateSets, Codes, coded_form
from robustify.composing.pool import Pool
from robustify.judging.audit.probing import Kind, classifier, tf_idf
from robustify.judging.baselines.near_duplicates import balanced_folds, content_hashes, repeats

FOLDS = 4
_AT_ONCE = 32_768
"""Options that trees score at once, so that their columns stay in the processor's cache."""


class Probes:
    """Probes of the options of pools' candidate sets. `vectors` (texts, d) are the encoder's, for the kind `meaning`."""

    def __init__(self, pools: Sequence[Pool], sets: CandidateSets, vectors: Floats | None) -> None:
        self._pools, self.sets, self._vectors = pools, sets, vectors
        items = [pool.item for pool in pools]
        # Relatives do not share a fold, because composed items have other relatives, by which auditors find more.
        self._groups, self._content = repeats(items), content_hashes(items)
        self.kinds: tuple[Kind, ...] = ("form", "words", *(("meaning",) if vectors is not None else ()))

    def scores(self, kind: Kind, picked: Ints, seed: int) -> Floats:
        """Return logits of all options of all sets (n, S, K), by fits on the sets `picked` (n,) in folds by `seed`."""
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        fold = balanced_folds(self._groups, self._content, FOLDS, seed)
        sets, model = self.sets, classifier(kind, 0)
        there, out = sets.there, np.zeros(sets.option.shape)
        with threadpool_limits(1):
            for f in np.unique(fold).tolist():
                train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
                shown = there[train, picked[train]]
                is_key = np.nonzero(shown)[1] == 0
                if kind == "form":
                    model.fit(np.moveaxis(self._codes[train, :, picked[train]], 1, 2)[shown], is_key)
                    out[test] = boosted_logits(model, self._codes[test])
                else:
                    x: Any = self._words if kind == "words" else self._vectors
                    model.fit(x[sets.row[train, picked[train]][shown]], is_key)
                    out[test] = model.decision_function(x)[sets.row[test]]
        return np.where(there, out, 0.0)

    @cached_property
    def _codes(self) -> Codes:
        return coded_form(self._pools, self.sets)

    @cached_property
    def _words(self) -> Any:
        return tf_idf("words", self.sets.texts)


def boosted_logits(model: Any, x: Codes) -> Floats:
    """Return the logits, up to a constant, of options with the features `x` (n, f, S, K): (n, S, K).

    `model` is a fitted `HistGradientBoostingClassifier` of codes from 0 to 254, with at most 16 leaves a tree, which its
    library applies row by row in 15 times as long. Here, a tree is a few comparisons of whole columns (QuickScorer,
    Lucchese et al. 2015): each split that sends a row to the right rules out the leaves on its left, and the first leaf
    left is the row's.
    """
    n, features, s, k = x.shape
    trees = [_splits(tree.nodes) for (tree,) in model._predictors]
    out, step = np.zeros((n, s * k), dtype=np.float32), max(1, _AT_ONCE // (s * k))
    for start in range(0, n, step):
        part = out[start : start + step]
        columns = np.ascontiguousarray(np.moveaxis(x[start : start + step], 0, 1)).reshape(features, -1)
        for splits, value in trees:
            ruled_out = np.zeros(columns.shape[1], dtype=np.uint16)
            for feature, highest, left in splits:
                ruled_out |= (columns[feature] > highest) * np.uint16(left)
            part += value[ruled_out].reshape(part.shape)
    return out.reshape(n, s, k).astype(np.float64)


def _splits(nodes: Any) -> tuple[list[tuple[int, int, int]], Any]:
    """Return the splits of a tree (feature, highest code on the left, and leaves there as bits from the left), and its
    value by the leaves that are ruled out."""
    leaves, splits = list[float](), list[tuple[int, int, int]]()

    def below(at: int) -> int:
        node = nodes[at]
        if node["is_leaf"]:
            leaves.append(float(node["value"]))
            return 1 << (len(leaves) - 1)
        left, right = below(node["left"]), below(node["right"])
        splits.append((int(node["feature_idx"]), int(node["num_threshold"]), left))
        return left | right

    ruled_out = np.arange(below(0))
    first = np.log2(~ruled_out & (ruled_out + 1)).astype(np.int64)
    return splits, np.array(leaves, dtype=np.float32)[first]
