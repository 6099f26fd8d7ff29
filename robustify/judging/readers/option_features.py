"""Features of options that readers learn from: compared form, words, characters, and meaning."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints
from robustify.items.item import Item, kept_for_last
from robustify.judging.baselines.conditional_logit import centred
from robustify.judging.baselines.features import amounts
from robustify.judging.readers.fits import OptionTable, by_item

AXES = 64
"""Principal axes of the encoder's vectors."""
_TOKEN = r"(?u)\b\w+\b|[^\w\s]"


def compared_form(items: Sequence[Item]) -> Floats:
    """Return the form of all options, also as compared with the other options of the item (sum of k, 3 features)."""
    mask = OptionTable.of(items).mask
    return compared(by_item(amounts(items), mask), mask)[mask]


def compared(raw: Floats, mask: Bools) -> Floats:
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
def words(items: Sequence[Item]) -> Any:
    """Return the TF-IDF weights of words and pairs of words in each option (sum of k, terms)."""
    return tf_idf_words([choice for item in items for choice in item.choices])


def tf_idf_words(texts: Sequence[str]) -> Any:
    """Return the TF-IDF weights of words and pairs of words in each text (n, terms)."""
    return _tf_idf(texts, {"ngram_range": (1, 2), "token_pattern": _TOKEN})


@kept_for_last
def characters(items: Sequence[Item]) -> Any:
    """Return the TF-IDF weights of sequences of 2 to 4 characters in each option (sum of k, terms)."""
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
    mask = OptionTable.of(items).mask
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
