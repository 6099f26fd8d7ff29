"""The artifact probe: what a small trained classifier gets right from the choices alone.

A conditional logit on hand-made features of the choices (never the stem, never the position), cross-fitted: an item is
judged by a fit that saw neither it nor a near-duplicate of it. With too few items to fit on it does not guess, and says so
in the row.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from robustify import orders
from robustify.answers import Answer, answer, unanswered
from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.conditional_logit import coefficients, cross_fitted, log_probabilities
from robustify.baselines.features import matrix
from robustify.baselines.wording import words_of
from robustify.item import Item, folded, kept_for_last

VIEW = "probe"
NAME = "probe"
TEMPLATE = "probe-v1"

FEWEST_ITEMS = 50
FEWEST_TRAINING_ITEMS = 30
SHRINKAGE = 5.0
"""The strength of the ridge on features standardised within the item."""
NEAR = 0.8
"""The Jaccard index of two items' choices from which on they count as near-duplicates."""
_COMPARED = 1_000
"""Sets of words that are compared with all others together."""
UNFITTED = f"fewer than {FEWEST_TRAINING_ITEMS} items without near-duplicates to fit on"


class ProbeSettings(BaseModel):
    """How the artifact probe is fitted; nothing here needs a model.

    Every item is predicted once, with `folds` (and `seed`) of the cross-fit. `refits`: how many with permuted keys the
    residual audit compares its fresh probe with.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    folds: int = Field(default=5, ge=2, le=20)
    seed: int = Field(default=0, ge=0)
    refits: int = Field(default=999, ge=199, le=9999)


def probe(items: Sequence[Item], settings: ProbeSettings) -> list[Answer]:
    """Return one row per item; the scores are log probabilities whose exponentials sum to 1."""
    k = np.array([item.k for item in items], dtype=np.int64)
    key = np.array([item.key for item in items], dtype=np.int64)
    if len(items) < FEWEST_ITEMS:
        scores, why = np.full(int(k.sum()), np.nan), f"{len(items)} items; the probe needs {FEWEST_ITEMS}"
    else:
        scores, why = crossfit(matrix(items), k, key, folds(items, settings)), UNFITTED

    def row(item: Item, own_scores: Floats) -> Answer:
        asked = (item.id, VIEW, NAME, orders.own(item.k), TEMPLATE, item.key)
        if np.isnan(own_scores).any():
            return unanswered(*asked, why)
        return answer(*asked, own_scores.tolist())

    ends = np.cumsum(k).tolist()
    return [row(item, scores[end - item.k : end]) for item, end in zip(items, ends, strict=True)]


def crossfit(x: Floats, k: Ints, key: Ints, fold: Ints) -> Floats:
    """Return cross-fitted log probabilities of all choices, (sum of k,), normalised within each item.

    `x` (sum of k, f) features, `k`, `key`, `fold` (n,). NaN if the other folds hold too few items to fit on.
    """
    there = np.arange(int(k.max(initial=1))) < k[:, None]
    wide = padded(x, there)

    def fit(train: Bools, test: Bools) -> Floats:
        if np.count_nonzero(train) < FEWEST_TRAINING_ITEMS:
            return np.full((int(np.count_nonzero(test)), there.shape[1]), np.nan)
        return np.asarray(wide[test] @ coefficients(wide, key, there, SHRINKAGE, train))

    logits = cross_fitted(fit, fold)
    return np.asarray(log_probabilities(logits, there)[there], dtype=np.float64)


def padded(x: Floats, there: Bools) -> Floats:
    """Return rows (sum of k, f) of options as (n, K, f), 0 if an item has no such option; `there` (n, K)."""
    if there.all():
        return x.reshape(*there.shape, -1)
    out = np.zeros((*there.shape, x.shape[1]))
    out[there] = x
    return out


def folds(items: Sequence[Item], settings: ProbeSettings) -> Ints:
    """Return the fold of each item, (n,), equal within a group of near-duplicates."""
    return group_folds([item.id for item in items], near_duplicate_groups(items), settings)


def group_folds(names: Sequence[str], group: Ints, settings: ProbeSettings) -> Ints:
    """Return the fold of each name, (n,): a hash of the smallest name in its group, `group` (n,) numbers."""
    kinds, inverse = np.unique(group, return_inverse=True)
    if len(kinds) == len(names):
        return _hashed(names, settings)
    smallest: list[str | None] = [None] * len(kinds)
    for name, g in zip(names, inverse.tolist(), strict=True):
        known = smallest[g]
        smallest[g] = name if known is None else min(name, known)
    return _hashed([name for name in smallest if name is not None], settings)[inverse]


def _hashed(names: Iterable[str], settings: ProbeSettings) -> Ints:
    start = f"fold/{settings.seed}/"
    digests = [
        hashlib.sha256(f"{start}{name}".encode("utf-8", "surrogatepass")).digest()[:8] for name in names
    ]
    return (np.frombuffer(b"".join(digests), dtype=">u8") % settings.folds).astype(np.int64)


@kept_for_last
def near_duplicate_groups(items: Sequence[Item]) -> Ints:
    """Return for each item the index of the first item of its group, (n,).

    Two items are in one group when the words of their choices have a Jaccard index of `NEAR` or more,
    when they name the same `group` (a passage), or through a chain of such items. Every such pair is found.
    """
    from scipy.sparse import coo_array  # only a run with a probe should pay for the import
    from scipy.sparse.csgraph import connected_components

    n = len(items)
    first: dict[str, int] = {}
    a, b = _near([_bag(item) for item in items], NEAR)
    passages = [(first.setdefault(item.group, i), i) for i, item in enumerate(items) if item.group]
    if passages:
        of, at = np.array(passages, dtype=np.int64).T
        a, b = np.concatenate([a, of]), np.concatenate([b, at])
    labels = connected_components(coo_array((np.ones(len(a)), (a, b)), shape=(n, n)), directed=False)[1]
    _, smallest, group = np.unique(labels, return_index=True, return_inverse=True)
    found = np.asarray(smallest[group], dtype=np.int64)
    found.flags.writeable = False
    return found


def _bag(item: Item) -> frozenset[str]:
    # Choices that are all symbols have no words; their texts are compared.
    return frozenset(w for c in item.choices for w in words_of(c)) or frozenset(map(folded, item.choices))


def _near(bags: Sequence[frozenset[str]], threshold: float) -> tuple[Ints, Ints]:
    """Return pairs at or above the threshold, by prefix filtering (Chaudhuri et al. 2006; Bayardo et al. 2007).

    Sets that are that alike share one of their rarest few members, so only sets that do are compared.
    """
    from scipy.sparse import csr_array

    first: dict[frozenset[str], int] = {}
    same = [(first.setdefault(bag, i), i) for i, bag in enumerate(bags)]
    pairs = [np.array([pair for pair in same if pair[0] != pair[1]], dtype=np.int64).reshape(-1, 2)]
    rarity = Counter(w for bag in first for w in bag)
    rank = {w: r for r, w in enumerate(sorted(rarity, key=lambda w: (rarity[w], w)))}
    size = np.fromiter(map(len, first), np.int64, len(first))
    words = np.fromiter((rank[w] for bag in first for w in bag), np.int64, int(size.sum()))
    row = np.repeat(np.arange(len(size)), size)
    # The rarest word of each set first.
    words = np.sort(row * len(rank) + words) % max(len(rank), 1)
    starts = np.cumsum(size) - size
    fewest = np.ceil(threshold * size - 1e-9)
    prefix = np.arange(len(words)) - starts[row] < (size - fewest + 1)[row]
    shape = len(size), len(rank)
    whole = csr_array((np.ones(len(words), dtype=np.int32), (row, words)), shape=shape)
    rare = csr_array((np.ones(int(prefix.sum()), dtype=np.int32), (row[prefix], words[prefix])), shape=shape)
    holders = rare.T.tocsr()
    number = np.fromiter(first.values(), np.int64, len(first))
    for start in range(0, len(size), _COMPARED):
        met = (rare[start : start + _COMPARED] @ holders).tocoo()
        i, j = met.coords[0] + start, met.coords[1]
        less, more = np.minimum(size[i], size[j]), np.maximum(size[i], size[j])
        # What the prefix of neither holds, both share at most as far as the longer rest goes.
        most = met.data + np.maximum(fewest[i], fewest[j]) - 1
        enough = most >= threshold / (1 + threshold) * (less + more) - 1e-6
        alike = (j < i) & (less >= threshold * more - 1e-9) & enough
        i, j = i[alike], j[alike]
        shared = np.asarray(whole[i].multiply(whole[j]).sum(axis=1)).ravel()
        near = shared / (size[i] + size[j] - shared) >= threshold - 1e-9
        pairs.append(np.column_stack([number[j[near]], number[i[near]]]))
    a, b = np.concatenate(pairs).T
    return a, b
