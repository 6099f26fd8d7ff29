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
from robustify.composing.trees import boosted_logits
from robustify.judging.audit.probing import Kind, classifier, tf_idf
from robustify.judging.baselines.near_duplicates import balanced_folds, content_hashes, fold_groups

FOLDS = 4


class Probes:
    """Probes of the options of pools' candidate sets. `vectors` (texts, d) are the encoder's, for the kind `meaning`."""

    def __init__(self, pools: Sequence[Pool], sets: CandidateSets, vectors: Floats | None) -> None:
        self._pools, self.sets, self._vectors = pools, sets, vectors
        items = [pool.item for pool in pools]
        self._groups, self._content = fold_groups(items), content_hashes(items)
        self.kinds: tuple[Kind, ...] = ("form", "words", *(("meaning",) if vectors is not None else ()))

    def scores(self, kind: Kind, picked: Ints, seed: int) -> Floats:
        """Return logits of all options of all sets (n, S, K), by fits on the sets `picked` (n,) in folds by `seed`."""
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        fold, sets, model = (
            balanced_folds(self._groups, self._content, FOLDS, seed),
            self.sets,
            classifier(kind, 0),
        )
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
