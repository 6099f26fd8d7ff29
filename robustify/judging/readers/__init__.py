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

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints
from robustify.items.item import Item, kept_for_last
from robustify.judging.baselines.conditional_logit import FEWEST_TRAINING_ITEMS, centred
from robustify.judging.baselines.features import amounts, matrix
from robustify.judging.readers.fits import (
    MOST_FITTED,
    Fit,
    FittedModel,
    Learner,
    OptionTable,
    boosting,
    by_item,
    classifier,
    conditional_logit,
    item_sample,
    logistic,
)

MOST_LEARNED = 5_000
"""Most items in one fit of a classifier."""
SHRINKAGE = 5.0
"""Ridge penalty of the probe, whose features are standardized within the item."""
AXES = 64
"""Principal axes of the encoder's vectors."""
_TOKEN = r"(?u)\b\w+\b|[^\w\s]"
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
        options = OptionTable.from_items(items)
        self.options = options if key is None else OptionTable(options.k, key.astype(np.int64))
        self.x = reader.features(items, vectors)
        self._reader, self._linear = reader, {} if reader.encoded else _linear_models(items)

    @cached_property
    def _learner(self) -> Learner:
        return self._reader.fit(self.x, self.options)

    def model(self, train: Bools) -> FittedModel:
        """Return the model fitted to the masked items (n,), or to a sample of `most` of them."""
        mark = self._reader, train.tobytes(), self.options.key.tobytes()
        if mark in self._linear:
            return self._linear[mark]
        chosen = np.zeros(len(train), dtype=bool)
        chosen[item_sample(train & (self.options.key >= 0), self._reader.most)] = True
        model = self._learner(chosen)
        if isinstance(model.fitted, np.ndarray):
            self._linear[mark] = model
        return model

    def predict(self, train: Bools, test: Bools) -> Floats:
        """Fit a model to the training items, and return its logits for the options of the test items (t, K, ...). Both are
        masks."""
        model, mask = self.model(train), self.options.mask[test]
        if self.x.ndim == 3:
            return model.logits(self.x[test])
        rows = np.flatnonzero(np.repeat(test, self.options.k))
        parts = np.array_split(rows, 1 + len(rows) // _ROWS)
        return by_item(np.concatenate([model.logits(self.x[part]) for part in parts]), mask)

    def cross_fit(self, fold: Ints) -> Floats:
        """Predict each item by a fit to all folds except the item's own. Return logits up to a constant per item (n,
        K), given `fold` (n,). They are NaN if the other folds have fewer than 30 items."""
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
def _linear_models(items: Sequence[Item]) -> dict[tuple[Reader, bytes, bytes], FittedModel]:
    """Return an empty dict in which all readers of the same items share their linear models. The models are small."""
    return {}


def _form(items: Sequence[Item]) -> Floats:
    mask = OptionTable.from_items(items).mask
    return compared_in_item(by_item(amounts(items), mask), mask)[mask]


def compared_in_item(raw: Floats, mask: Bools) -> Floats:
    """Append each feature's deviation from the item mean and its rank in the item. Shape (n, K, f) becomes (n, K, 3 f)."""
    existing = np.where(mask[:, :, None], raw, np.nan)
    ranks: Floats = np.zeros(raw.shape)
    for option in range(mask.shape[1]):
        other = existing[:, [option]]
        ranks += (existing > other) * 1.0 - (existing < other)
    k = mask.sum(axis=1)[:, None, None]
    mean = np.where(mask[:, :, None], raw, 0.0).sum(axis=1, keepdims=True) / k
    return np.concatenate([raw, raw - mean, ranks / np.maximum(k - 1, 1)], axis=2)


@kept_for_last
def _words(items: Sequence[Item]) -> Any:
    return tf_idf_words([choice for item in items for choice in item.choices])


def tf_idf_words(texts: Sequence[str]) -> Any:
    """Return the TF-IDF weights of words and pairs of words in each text (n, terms)."""
    return _tf_idf(texts, {"ngram_range": (1, 2), "token_pattern": _TOKEN})


@kept_for_last
def _characters(items: Sequence[Item]) -> Any:
    texts = [choice for item in items for choice in item.choices]
    return _tf_idf(texts, {"ngram_range": (2, 4), "analyzer": "char_wb"})


def _tf_idf(texts: Sequence[str], units: Mapping[str, Any]) -> Any:
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import TfidfVectorizer  # type: ignore[import-untyped]

    try:
        return TfidfVectorizer(min_df=2, sublinear_tf=True, **units).fit_transform(texts)
    except ValueError:  # no two texts share a term
        return csr_array((len(texts), 1))


def places(items: Sequence[Item], vectors: Floats) -> Floats:
    """Return each option's coordinates relative to its item: principal axes, and mean similarity (n, K, axes
    + 1). `vectors` (sum of k, d) are centered within the item, which removes the topic that all options share."""
    mask = OptionTable.from_items(items).mask
    wide = by_item(vectors.astype(np.float64, copy=False), mask)
    k: Ints = mask.sum(axis=1)
    similarity = np.einsum("nkd,nd->nk", wide, wide.sum(axis=1)) - (wide**2).sum(axis=2)
    similarity = centred(similarity / np.maximum(k - 1, 1)[:, None], mask)
    deviation = np.moveaxis(centred(np.moveaxis(wide, 2, 0), mask), 0, 2)
    rows = deviation[mask]
    axes = np.linalg.eigh(rows.T @ rows)[1][:, ::-1][:, :AXES]
    return np.concatenate([_scaled(deviation @ axes, mask), _scaled(similarity[:, :, None], mask)], axis=2)


def _scaled(x: Floats, mask: Bools) -> Floats:
    spread = float(x[mask].std())
    return x / spread if spread > ROUNDING else np.zeros_like(x)


READERS: Mapping[str, Reader] = {
    "probe": Reader(
        lambda items, _: by_item(matrix(items), OptionTable.from_items(items).mask),
        conditional_logit(SHRINKAGE),
        MOST_FITTED,
        takes_part=True,
    ),
    "form": Reader(lambda items, _: _form(items), classifier(lambda: boosting(60, 8)), takes_part=True),
    "words": Reader(lambda items, _: _words(items), logistic(2.0), takes_part=True),
    "characters": Reader(lambda items, _: _characters(items), logistic(2.0)),
    "meaning": Reader(places, conditional_logit(10.0), encoded=True),
}
"""Readers by name. `probe` and `form` read the features of `baselines.features`, `words` and `characters` TF-IDF, and
`meaning` the vectors of the sentence encoder."""


def independent_readers() -> list[str]:
    """Return the names of the readers used in neither the filter nor composing."""
    return [name for name, reader in READERS.items() if not reader.takes_part]
