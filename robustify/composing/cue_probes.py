"""Build sets of distractors that could be chosen from pools, and probes that look for the key in each set.

Each probe is cross-fitted: the sets of an item are scored by a fit on the drawn sets of other folds. If a probe gives the
key of a set the probability p, the set's weight is divided by it. Where keys are as likely as other options, all p are
1 / k, and nothing changes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import Bools, Floats, Ints
from robustify.base.redaction import HoldsText
from robustify.composing.pool import OWN, Pool
from robustify.judging.baselines.features import NAMES, amounts
from robustify.judging.baselines.near_duplicates import balanced_folds, content_hashes, independent_groups
from robustify.judging.baselines.option_texts import CHUNK
from robustify.judging.readers import READERS, compared_in_item, tf_idf_words
from robustify.judging.readers.fits import OptionTable, by_item, logistic

MOST_SETS, FEWEST_SETS = 126, 12
"""Most candidate sets of an item, and fewest where many items share the memory."""
MOST_CODES = 350_000_000
"""Most bytes of `coded_form`."""
FEATURES, FOLDS = 3 * len(NAMES), 4
_SAMPLED, _LEVELS = 12_000, 64
_AT_ONCE = 32_768
"""Options that trees score at once, so that their columns stay in the processor's cache."""
Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False, repr=False)
class CandidateSets(HoldsText):
    """Candidate sets of n items: at most S sets of at most K options each. The first option of a set is the key.

    `texts` are the keys and candidates of all pools, and `start` (n,) is the row of each key. `option` (n, S, K) numbers
    the options within their pool from 0, the key, and is 0 beyond the end of a set. An item may have fewer sets (`open`,
    n, S). `own` (n, S) counts the distractors that the item had already.
    """

    texts: tuple[str, ...]
    start: Ints
    option: Ints
    open: Bools
    own: Ints

    @property
    def row(self) -> Ints:
        """Row of each option in `texts` (n, S, K)."""
        return np.asarray(self.start[:, None, None] + self.option)

    @property
    def exists(self) -> Bools:
        """Mask of the options that exist (n, S, K). The key always exists."""
        return np.asarray((self.option > 0) | (np.arange(self.option.shape[2]) == 0))

    @property
    def k(self) -> Ints:
        """Number of options of each set (n, S), at least 1."""
        return np.asarray(self.exists.sum(axis=2))


def candidate_sets(pools: Sequence[Pool], shown: tuple[int, int], seed: int) -> CandidateSets:
    """Return the candidate sets of each pool. A set has `shown` (fewest, most) options, or all options of a smaller pool.

    An item with more sets than memory allows gets a sample. Its own distractors are always one of the sets.
    """
    room = MOST_CODES // max(1, len(pools) * shown[1] * FEATURES)
    limit, rng = min(MOST_SETS, max(FEWEST_SETS, room)), np.random.default_rng(seed)
    chosen = [_sets(len(pool.candidates), shown, limit, rng) for pool in pools]
    size = max((len(sets) for sets in chosen), default=1), max((len(s) for x in chosen for s in x), default=1)
    option = np.zeros((len(pools), *size), dtype=np.int64)
    for i, sets in enumerate(chosen):
        for nth, options in enumerate(sets):
            option[i, nth, : len(options)] = options
    is_open = np.arange(size[0]) < np.array([len(sets) for sets in chosen], dtype=np.int64)[:, None]
    start = np.cumsum([0, *(len(pool.texts) for pool in pools)])[:-1]
    is_own = np.array([own for p in pools for own in (False, *(c.writer == OWN for c in p.candidates))])
    texts = tuple(text for pool in pools for text in pool.texts)
    return CandidateSets(texts, start, option, is_open, is_own[start[:, None, None] + option].sum(axis=2))


def _sets(
    candidates: int, shown: tuple[int, int], limit: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Return sets of option numbers: 0 (the key), and some of 1 to `candidates`. All sizes share `limit` equally."""
    fewest, most = (min(size - 1, candidates) for size in shown)
    sizes = range(fewest, most + 1)
    sets: dict[tuple[int, ...], None] = {}
    for size in sizes:
        room = limit // len(sizes)
        if math.comb(candidates, size) <= room:
            sets |= dict.fromkeys(combinations(range(1, candidates + 1), size))
            continue
        sets[tuple(range(1, size + 1))] = None
        drawn = rng.random((2 * room, candidates)).argsort(axis=1)[:, :size] + 1
        distinct = dict.fromkeys(map(tuple, np.sort(drawn, axis=1).tolist()))
        sets |= dict.fromkeys(list(distinct)[: room - 1])
    return [(0, *others) for others in sets]


def coded_form(pools: Sequence[Pool], sets: CandidateSets) -> Codes:
    """Return features of the form of each option in each candidate set, coded in at most 64 levels (n, features, S, K).

    The features are those of the auditor `form`, as if each set were an item.
    """
    (n, s, k), exists = sets.option.shape, sets.exists
    items, set_numbers = np.nonzero(sets.k > 1)
    sample = np.unique(np.linspace(0, len(items) - 1, min(_SAMPLED, len(items)), dtype=np.int64))
    sampled = _form(pools, sets, items[sample], set_numbers[sample])
    seen = np.concatenate([features[exists[i, j]] for i, j, features in sampled])
    cuts = [np.unique(np.quantile(column, np.linspace(0, 1, _LEVELS))) for column in seen.T]
    out = np.zeros((n, FEATURES, s, k), dtype=np.uint8)
    for i, j, features in _form(pools, sets, items, set_numbers):
        for f, cut in enumerate(cuts):
            out[i, f, j] = np.searchsorted(cut, features[:, :, f])
    return out


def _form(
    pools: Sequence[Pool], sets: CandidateSets, items: Ints, set_numbers: Ints
) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Yield chunks of candidate sets: item numbers (q,), set numbers (q,), and form features (q, K, features)."""
    parts, row, exists = math.ceil(len(items) / CHUNK), sets.row, sets.exists
    for i, j in zip(np.array_split(items, parts), np.array_split(set_numbers, parts), strict=True):
        shown = zip(i.tolist(), row[i, j].tolist(), exists[i, j].sum(axis=1).tolist(), strict=True)
        shown_items = [
            pools[n].item.with_choices(tuple(sets.texts[r] for r in rows[:k]), 0) for n, rows, k in shown
        ]
        yield i, j, compared_in_item(by_item(amounts(shown_items), exists[i, j]), exists[i, j])


class Probes:
    """Probes that look for the key in each candidate set. The probe `meaning` uses the encoder's `vectors` (texts, d)."""

    def __init__(self, pools: Sequence[Pool], sets: CandidateSets, vectors: Floats | None) -> None:
        self._pools, self.sets, self._vectors = pools, sets, vectors
        items = [pool.item for pool in pools]
        # Relatives do not share a fold, because composed items have other relatives, by which auditors find more.
        self._groups, self._content = independent_groups(items), content_hashes(items)
        self.readers = ("form", "words", *(("meaning",) if vectors is not None else ()))
        # On whole vectors, the conditional logit of `meaning` would take six times as long.
        self._fits = {name: READERS[name].fit for name in self.readers} | {"meaning": logistic(0.1)}

    def scores(self, reader: str, picked: Ints, seed: int) -> Floats:
        """Return cross-fitted logits of all options in all candidate sets (n, S, K). The probes are fitted to the sets
        `picked` (n,), and `seed` determines the folds."""
        fold = balanced_folds(self._groups, self._content, FOLDS, seed)
        sets, out = self.sets, np.zeros(self.sets.option.shape)
        for f in np.unique(fold).tolist():
            train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
            rows, mask = sets.row[train, picked[train]], sets.exists[train, picked[train]]
            # The first option of each set is the key.
            options, every = (
                OptionTable(mask.sum(axis=1), np.zeros_like(train)),
                np.ones(len(train), dtype=bool),
            )
            if reader == "form":
                x = np.moveaxis(self._codes[train, :, picked[train]], 1, 2)[mask]
            else:
                x = self._of_texts(reader)[rows[mask]]
            model = self._fits[reader](x, options)(every)
            out[test] = (
                boosted_logits(model.fitted, self._codes[test])
                if reader == "form"
                else model.logits(self._of_texts(reader))[sets.row[test]]
            )
        return np.where(sets.exists, out, 0.0)

    @cached_property
    def _codes(self) -> Codes:
        return coded_form(self._pools, self.sets)

    @cached_property
    def _words(self) -> Any:
        return tf_idf_words(self.sets.texts)

    def _of_texts(self, reader: str) -> Any:
        return self._words if reader == "words" else self._vectors


def boosted_logits(model: Any, x: Codes) -> Floats:
    """Return the logits (n, S, K) that a boosted model gives the options with features `x` (n, f, S, K), up to a constant.

    `model` is a fitted `HistGradientBoostingClassifier` of codes from 0 to 254, with at most 16 leaves a tree. Its library
    gives no public access to the trees, and its `decision_function`, row by row, takes 25 times as long. Here, a tree is a
    few comparisons of whole columns (QuickScorer, Lucchese et al. 2015): each split that sends a row to the right rules
    out the leaves on its left, and the first remaining leaf is the row's.
    """
    n, features, s, k = x.shape
    trees = [_splits(tree.nodes) for (tree,) in model._predictors]
    out, step = np.zeros((n, s * k), dtype=np.float32), max(1, _AT_ONCE // (s * k))
    for start in range(0, n, step):
        part = out[start : start + step]
        columns = np.ascontiguousarray(np.moveaxis(x[start : start + step], 0, 1)).reshape(features, -1)
        for splits, value in trees:
            ruled_out = np.zeros(columns.shape[1], dtype=np.uint16)
            for feature, highest, left_leaves in splits:
                ruled_out |= (columns[feature] > highest) * np.uint16(left_leaves)
            part += value[ruled_out].reshape(part.shape)
    return out.reshape(n, s, k).astype(np.float64)


def _splits(nodes: Any) -> tuple[list[tuple[int, int, int]], Any]:
    """Return the splits of a decision tree, and an array with the tree's output for each bit mask of excluded leaves. A
    split is a feature, the highest code on the left, and a bit mask of the leaves on the left."""
    leaves, splits = list[float](), list[tuple[int, int, int]]()

    def below(number: int) -> int:
        node = nodes[number]
        if node["is_leaf"]:
            leaves.append(float(node["value"]))
            return 1 << (len(leaves) - 1)
        left_leaves, right_leaves = below(node["left"]), below(node["right"])
        splits.append((int(node["feature_idx"]), int(node["num_threshold"]), left_leaves))
        return left_leaves | right_leaves

    ruled_out = np.arange(below(0))
    first = np.log2(~ruled_out & (ruled_out + 1)).astype(np.int64)
    return splits, np.array(leaves, dtype=np.float32)[first]
