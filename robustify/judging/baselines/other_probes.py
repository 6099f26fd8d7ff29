"""Independent probes that find shortcuts beyond the listed cues.

Each probe is a conditional logit on features that the filter's scorer does not use directly. One uses which option has
the most or least of a surface feature. The other uses the position of an option in a low-dimensional space of words
(latent semantic analysis, Deerwester et al. 1990). Probes see only the options.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints, tied
from robustify.items.item import Item
from robustify.judging.baselines.artifact_probe import padded
from robustify.judging.baselines.conditional_logit import centred, coefficients, cross_fitted
from robustify.judging.baselines.features import amounts
from robustify.judging.baselines.words import columns

DIMENSIONS = 64
"""Dimensions of the space of words."""
_FEWEST_OPTIONS = 3
"""Fewest options that contain a compared word or letter sequence."""
_RIDGES = {"extremes": 5.0, "latent_words": 30.0}


def other_probes(items: Sequence[Item], key: Ints, there: Bools, fold: Ints) -> Mapping[str, Floats]:
    """Return the cross-fitted logits (n, K) of each probe by name, given `key` and `fold` (n,) and `there` (n, K)."""
    features = {"extremes": _extremes(items, there), "latent_words": _latent_words(items, there)}

    def fitted(x: Floats, ridge: float) -> Floats:
        return cross_fitted(
            lambda train, test: np.asarray(x[test] @ coefficients(x, key, there, ridge, train)), fold
        )

    return {name: fitted(x, _RIDGES[name]) for name, x in features.items()}


def _extremes(items: Sequence[Item], there: Bools) -> Floats:
    """Mark the options with the most or the least of each surface feature in their item, centered (n, K, f)."""
    raw, option = padded(amounts(items), there), there[:, :, None]
    most = np.where(option, raw, -np.inf).max(axis=1, keepdims=True)
    least = np.where(option, raw, np.inf).min(axis=1, keepdims=True)
    differ = ~tied(least, most)
    found = np.concatenate([tied(raw, most) & differ, tied(-raw, -least) & differ], axis=2)
    return _centred(found.astype(np.float64), there)


def _latent_words(items: Sequence[Item], there: Bools) -> Floats:
    """Return coordinates of each option in the space of words and letter sequences, centered and scaled (n, K, d)."""
    from scipy.sparse import diags_array  # deferred, because only an audit needs it
    from scipy.sparse.linalg import svds

    present = columns(items, _FEWEST_OPTIONS).astype(np.float64)
    d = min(DIMENSIONS, *(size - 1 for size in present.shape))
    if d < 1:
        return np.zeros((*there.shape, 1))
    rarity = np.log(present.shape[0] / np.maximum(np.asarray(present.sum(axis=0)).ravel(), 1))
    by_rarity = present @ diags_array(rarity)
    length = np.sqrt(np.asarray(by_rarity.multiply(by_rarity).sum(axis=1)).ravel())
    # A fixed starting vector makes the coordinates reproducible.
    left, size, _ = svds(
        diags_array(1 / np.maximum(length, ROUNDING)) @ by_rarity, k=d, v0=np.ones(min(present.shape))
    )
    place = _centred(padded(left * size, there), there)
    spread = float(place[there].std())
    return place / spread if spread > ROUNDING else place


def _centred(x: Floats, there: Bools) -> Floats:
    return np.moveaxis(centred(np.moveaxis(x, 2, 0), there), 0, 2)
