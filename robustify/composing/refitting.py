"""Probes that look for the key of a composed set.

Each probe is cross-fitted: the sets of an item are scored by a fit on the drawn sets of other folds. If a probe gives the
key of a set the probability p, the set's weight is divided by it. Where keys are as likely as other options, all p are
1 / k, and nothing changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from robustify.base.arrays import Floats, Ints
from robustify.composing.form import CandidateSets, coded_form
from robustify.composing.pool import Pool
from robustify.composing.trees import Boosted
from robustify.judging.audit.probing import tf_idf
from robustify.judging.baselines.near_duplicates import balanced_folds, content_hashes, fold_groups

Kind = Literal["form", "words", "meaning"]
FOLDS, TREES = 4, 100
_SCORED = 32_768
"""Options that trees score at once, so that their columns stay in the processor's cache."""


class Probes:
    """Probes of the options of pools' candidate sets. `vectors` (texts, d) are the encoder's, for the kind `meaning`."""

    def __init__(self, pools: Sequence[Pool], sets: CandidateSets, vectors: Floats | None) -> None:
        self._pools, self.sets, self._vectors = pools, sets, vectors
        items = [pool.item for pool in pools]
        self._groups, self._content = fold_groups(items), content_hashes(items)
        self.kinds: tuple[Kind, ...] = ("form", "words", *(("meaning",) if vectors is not None else ()))

    def scores(self, kind: Kind, picked: Ints, seed: int) -> Floats:
        """Return logits of all options of all sets (n, S, K), by fits on the sets `picked` (n,) in folds by `seed`."""
        fold, sets = balanced_folds(self._groups, self._content, FOLDS, seed), self.sets
        out = np.zeros(sets.option.shape)
        for f in np.unique(fold).tolist():
            train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
            out[test] = (
                self._by_form(train, picked, test)
                if kind == "form"
                else self._by_text(kind, train, picked, test)
            )
        return np.where(sets.there, out, 0.0)

    def _by_form(self, train: Ints, picked: Ints, test: Ints) -> Floats:
        codes, sets = self._codes, self.sets
        shown = sets.there[train, picked[train]]
        x = np.moveaxis(codes[train, :, picked[train]], 1, 2)[shown]
        model = Boosted(x, np.nonzero(shown)[1] == 0, TREES)
        _, features, s, k = codes.shape
        out, step = np.zeros((len(test), s, k)), max(1, _SCORED // (s * k))
        for start in range(0, len(test), step):
            part = test[start : start + step]
            columns = np.ascontiguousarray(np.moveaxis(codes[part], 0, 1)).reshape(features, -1)
            out[start : start + step] = model.logits(columns).reshape(len(part), s, k)
        return out

    def _by_text(self, kind: Kind, train: Ints, picked: Ints, test: Ints) -> Floats:
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        x: Any = self._words if kind == "words" else self._vectors
        sets = self.sets
        shown, row = sets.there[train, picked[train]], sets.row
        chosen = x[row[train, picked[train]][shown]]
        with threadpool_limits(1):
            fit = LogisticRegression(C=2.0, max_iter=150).fit(chosen, np.nonzero(shown)[1] == 0)
            return np.asarray(fit.decision_function(x)[row[test]])

    @cached_property
    def _codes(self) -> Any:
        return coded_form(self._pools, self.sets)

    @cached_property
    def _words(self) -> Any:
        return tf_idf("words", self.sets.texts)


@dataclass(frozen=True, slots=True)
class Round:
    """What one fresh probe found in drawn sets: its `accuracy` over n items, beside `chance`, and the one-sided `p`.

    `slope` is the factor by which its logits predict the keys best. 0 means that they predict nothing.
    """

    number: int
    kind: Kind
    accuracy: float
    chance: float
    n: int
    p: float
    slope: float
