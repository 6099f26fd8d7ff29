"""Readers: scorers that look for the key in the options alone. `READERS` is the table of those with one fit per fold.

A reader is features of options and a fit. `ReaderFits` applies one to a set of items. Everything that trains on keys goes
through it: the artifact probe's and the encoder's rows of answers, the ranking of the filter, and the auditors of composed
sets. A new reader is a new entry.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints
from robustify.items.item import Item, kept_for_last
from robustify.judging.baselines.conditional_logit import FEWEST_TRAINING_ITEMS, centred
from robustify.judging.baselines.features import matrix
from robustify.judging.readers.fits import (
    MOST_FITTED,
    Fit,
    Learner,
    Linear,
    Model,
    OptionTable,
    boosting,
    by_item,
    classifier,
    conditional_logit,
    item_sample,
    logistic,
)
from robustify.judging.readers.option_features import characters, compared_form, places, words

MOST_LEARNED = 5_000
"""Most items in one fit of a classifier."""
SHRINKAGE = 5.0
"""Ridge penalty of the probe, whose features are standardized within the item."""
_ROWS = 40_000
"""Rows of sparse features that are copied at once."""


@dataclass(frozen=True)
class Reader:
    """Reader of options without their question.

    `features` of items are a matrix with one row per option (sum of k, f), or an array (n, K, f) with zeros for missing
    options (`OptionTable`). Its second argument is the sentence encoder's vectors of the options (sum of k, d), or None
    unless the reader is `encoded`. One fit learns from a sample of at most `most` items, or from all if it is None.
    A reader that takes part in the filter or in composing (`takes_part`) is no independent auditor of what these chose.
    """

    features: Callable[[Sequence[Item], Any], Any]
    fit: Fit
    most: int | None = MOST_LEARNED
    encoded: bool = False
    takes_part: bool = False


class ReaderFits:
    """A reader's logits for the options of a set of items."""

    def __init__(
        self, reader: Reader, items: Sequence[Item], vectors: Floats | None = None, key: Ints | None = None
    ) -> None:
        """Prepare a reader for items. `key` (n,) replaces their keys, and is -1 for items not to learn from."""
        options = OptionTable.of(items)
        self.options = options if key is None else OptionTable(options.k, key.astype(np.int64))
        self.x = reader.features(items, vectors)
        self._reader, self._linear = reader, {} if reader.encoded else _linear_models(items)

    @cached_property
    def _learner(self) -> Learner:
        return self._reader.fit(self.x, self.options)

    def model(self, train: Bools) -> Model:
        """Return the model that is fitted on the items in a mask (n,), or on a sample of `most` of them."""
        mark = self._reader, train.tobytes(), self.options.key.tobytes()
        if mark in self._linear:
            return self._linear[mark]
        chosen = np.zeros(len(train), dtype=bool)
        chosen[item_sample(train & (self.options.key >= 0), self._reader.most)] = True
        model = self._learner(chosen)
        if isinstance(model, Linear):
            self._linear[mark] = model
        return model

    def predict(self, train: Bools, test: Bools) -> Floats:
        """Return the logits of the options of test items (t, K, ...), by a model of the training items. Both are masks."""
        model, mask = self.model(train), self.options.mask[test]
        if self.x.ndim == 3:
            return model(self.x[test])
        rows = np.flatnonzero(np.repeat(test, self.options.k))
        parts = np.array_split(rows, 1 + len(rows) // _ROWS)
        return by_item(np.concatenate([model(self.x[part]) for part in parts]), mask)

    def cross_fit(self, fold: Ints) -> Floats:
        """Predict each item with a fit on all folds but its own. Return logits up to a constant per item (n, K), given
        `fold` (n,). They are NaN if the other folds have fewer than 30 items."""
        out = np.full(self.options.mask.shape, np.nan)
        for number in np.unique(fold).tolist():
            test = fold == number
            if np.count_nonzero(~test) >= FEWEST_TRAINING_ITEMS:
                out[test] = self.predict(~test, test)
        return out

    def logits(self, fold: Ints) -> Floats:
        """Return the logits of `cross_fit`, centered within the item (n, K)."""
        return centred(self.cross_fit(fold), self.options.mask)


@kept_for_last
def _linear_models(items: Sequence[Item]) -> dict[tuple[Reader, bytes, bytes], Linear]:
    """Return an empty store in which all readings of the same items share linear models, which are small."""
    return {}


def _probe_form(items: Sequence[Item], _: Any) -> Floats:
    return OptionTable.of(items).by_item(matrix(items))


READERS: Mapping[str, Reader] = {
    "probe": Reader(_probe_form, conditional_logit(SHRINKAGE), MOST_FITTED, takes_part=True),
    "form": Reader(
        lambda items, _: compared_form(items), classifier(lambda: boosting(60, 8)), takes_part=True
    ),
    "words": Reader(lambda items, _: words(items), logistic(2.0), takes_part=True),
    "characters": Reader(lambda items, _: characters(items), logistic(2.0)),
    "meaning": Reader(places, conditional_logit(10.0), encoded=True),
}
"""Readers by name. `probe` and `form` read the features of `baselines.features`, `words` and `characters` TF-IDF, and
`meaning` the vectors of the sentence encoder."""


def independent_readers() -> list[str]:
    """Return the names of the readers that take part neither in the filter nor in composing."""
    return [name for name, reader in READERS.items() if not reader.takes_part]
