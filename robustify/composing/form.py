"""Candidate sets of a pool's distractors, and the form of the options in each set, as arrays over items and sets."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import Bools, Floats, Ints
from robustify.base.redaction import HoldsText
from robustify.composing.pool import OWN, Pool
from robustify.judging.audit.probing import compared
from robustify.judging.baselines.artifact_probe import padded
from robustify.judging.baselines.features import NAMES, amounts
from robustify.judging.baselines.option_texts import CHUNK

MOST_SETS, FEWEST_SETS = 126, 12
"""Most candidate sets of an item, and fewest where many items share the memory."""
MOST_CODES = 350_000_000
"""Most bytes of `coded_form`."""
FEATURES = 3 * len(NAMES)
_SAMPLED, _LEVELS = 12_000, 64

Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False, repr=False)
class CandidateSets(HoldsText):
    """Candidate sets of n items: at most S sets of at most K options each, of which the first is the key.

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
    def there(self) -> Bools:
        """Options that exist (n, S, K). The key always does."""
        return np.asarray((self.option > 0) | (np.arange(self.option.shape[2]) == 0))

    @property
    def k(self) -> Ints:
        """Number of options of each set (n, S), at least 1."""
        return np.asarray(self.there.sum(axis=2))


def candidate_sets(pools: Sequence[Pool], shown: tuple[int, int], seed: int) -> CandidateSets:
    """Return the candidate sets of pools, with `shown` options (fewest, most), or all options of a smaller pool.

    An item with more sets than memory allows gets a sample. Its own distractors are always one of the sets.
    """
    room = MOST_CODES // max(1, len(pools) * shown[1] * FEATURES)
    limit, rng = min(MOST_SETS, max(FEWEST_SETS, room)), np.random.default_rng(seed)
    chosen = [_sets(len(pool.candidates), shown, limit, rng) for pool in pools]
    size = max((len(sets) for sets in chosen), default=1), max((len(s) for x in chosen for s in x), default=1)
    option = np.zeros((len(pools), *size), dtype=np.int64)
    for at, sets in enumerate(chosen):
        for nth, one in enumerate(sets):
            option[at, nth, : len(one)] = one
    is_open = np.arange(size[0]) < np.array([len(sets) for sets in chosen], dtype=np.int64)[:, None]
    start = np.cumsum([0, *(len(pool.texts) for pool in pools)])[:-1]
    own = np.array([own for p in pools for own in (False, *(one.writer == OWN for one in p.candidates))])
    texts = tuple(text for pool in pools for text in pool.texts)
    return CandidateSets(texts, start, option, is_open, own[start[:, None, None] + option].sum(axis=2))


def _sets(
    candidates: int, shown: tuple[int, int], limit: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Return sets of options, 0 and some of 1 to `candidates`. With more than `limit` sets, each size gets equally many."""
    fewest, most = (min(size - 1, candidates) for size in shown)
    sizes = range(fewest, most + 1)
    found: dict[tuple[int, ...], None] = {}
    for size in sizes:
        room = limit // len(sizes)
        if math.comb(candidates, size) <= room:
            found |= dict.fromkeys(combinations(range(1, candidates + 1), size))
            continue
        found[tuple(range(1, size + 1))] = None
        drawn = rng.random((2 * room, candidates)).argsort(axis=1)[:, :size] + 1
        distinct = dict.fromkeys(map(tuple, np.sort(drawn, axis=1).tolist()))
        found |= dict.fromkeys(list(distinct)[: room - 1])
    return [(0, *one) for one in found]


def coded_form(pools: Sequence[Pool], sets: CandidateSets) -> Codes:
    """Return the form of each option in each candidate set (n, features, S, K), each feature in at most 64 levels.

    The features are those of the auditor `form`, as if each set were an item.
    """
    (n, s, k), there = sets.option.shape, sets.there
    at, nth = np.nonzero(sets.k > 1)
    sample = np.unique(np.linspace(0, len(at) - 1, min(_SAMPLED, len(at)), dtype=np.int64))
    seen = np.concatenate([x[there[i, j]] for i, j, x in _form(pools, sets, at[sample], nth[sample])])
    cuts = [np.unique(np.quantile(column, np.linspace(0, 1, _LEVELS))) for column in seen.T]
    out = np.zeros((n, FEATURES, s, k), dtype=np.uint8)
    for i, j, x in _form(pools, sets, at, nth):
        for f, cut in enumerate(cuts):
            out[i, f, j] = np.searchsorted(cut, x[:, :, f])
    return out


def _form(
    pools: Sequence[Pool], sets: CandidateSets, at: Ints, nth: Ints
) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Yield the sets `nth` of items `at` in parts: items (q,), sets (q,), and the features (q, K, features) of options."""
    parts, row, there = math.ceil(len(at) / CHUNK), sets.row, sets.there
    for i, j in zip(np.array_split(at, parts), np.array_split(nth, parts), strict=True):
        shown = zip(i.tolist(), row[i, j].tolist(), there[i, j].sum(axis=1).tolist(), strict=True)
        items = [
            pools[one].item.with_choices(tuple(sets.texts[r] for r in rows[:k]), 0) for one, rows, k in shown
        ]
        yield i, j, compared(padded(amounts(items), there[i, j]), there[i, j])
