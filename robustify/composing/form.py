"""Candidate sets of a pool's distractors, and the form of the options in each set, as arrays over items and sets."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import Bools, Floats, Ints
from robustify.base.redaction import HoldsText
from robustify.composing.pool import OWN, Pool
from robustify.judging.audit.probing import compared
from robustify.judging.baselines.artifact_probe import padded
from robustify.judging.baselines.features import end_words, first_numbers, own_amounts
from robustify.judging.baselines.option_texts import CHUNK, Options

MOST_SETS, FEWEST_SETS = 126, 12
"""Most candidate sets of an item, and fewest where many items share the memory."""
MOST_CODES = 350_000_000
"""Most bytes of `coded_form`."""
FEATURES = 26
_AT_ONCE, _SAMPLED, _LEVELS, _LARGEST = 100, 1_000, 64, 1e12

Codes = npt.NDArray[np.uint8]


class _Shown(NamedTuple):
    """Options of a pool, which may be more or fewer than those of an item."""

    choices: tuple[str, ...]
    stem: str = ""
    key: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class CandidateSets(HoldsText):
    """Candidate sets of n items: at most S sets of at most K options each, of which the first is the key.

    `texts` are the keys and candidates of all pools, and `start` (n,) is the row of each key. `option` (n, S, K) numbers
    the options within their pool from 0, the key, and is 0 if a set has fewer (`there`, n, S, K) or an item has fewer
    sets (`open`, n, S). `own` (n, S) counts the distractors that the item had already.
    """

    texts: tuple[str, ...]
    start: Ints
    option: Ints
    there: Bools
    own: Ints

    @property
    def open(self) -> Bools:
        """Sets that exist (n, S)."""
        return np.asarray(self.there[:, :, 0])

    @property
    def row(self) -> Ints:
        """Row of each option in `texts` (n, S, K)."""
        return np.asarray(self.start[:, None, None] + self.option)

    @property
    def k(self) -> Ints:
        """Number of options of each set (n, S), at least 1."""
        return np.asarray(np.maximum(self.there.sum(axis=2), 1))


def candidate_sets(pools: Sequence[Pool], shown: tuple[int, int], seed: int) -> CandidateSets:
    """Return the candidate sets of pools, with `shown` options (fewest, most), or all options of a smaller pool.

    An item with more sets than memory allows gets a sample. Its own distractors are always one of the sets.
    """
    room = MOST_CODES // max(1, len(pools) * shown[1] * 3 * FEATURES)
    limit, rng = min(MOST_SETS, max(FEWEST_SETS, room)), np.random.default_rng(seed)
    chosen = [_sets(len(pool.candidates), shown, limit, rng) for pool in pools]
    size = max((len(sets) for sets in chosen), default=1), max((len(s) for x in chosen for s in x), default=1)
    option = np.zeros((len(pools), *size), dtype=np.int64)
    there = np.zeros(option.shape, dtype=bool)
    for at, sets in enumerate(chosen):
        for nth, one in enumerate(sets):
            option[at, nth, : len(one)], there[at, nth, : len(one)] = one, True
    m = np.array([len(pool.candidates) + 1 for pool in pools], dtype=np.int64)
    owned = np.zeros((len(pools), int(m.max(initial=1))), dtype=np.int64)
    for at, pool in enumerate(pools):
        owned[at, 1 : m[at]] = [one.writer == OWN for one in pool.candidates]
    own = owned[np.arange(len(pools))[:, None, None], option].sum(axis=2)
    return CandidateSets(tuple(t for p in pools for t in p.texts), np.cumsum(m) - m, option, there, own)


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

    A feature appears three times: as it is, less the mean of the set, and as a rank in the set.
    """
    n, s, k = sets.option.shape
    some = slice(None, None, max(1, n // _SAMPLED)), slice(FEWEST_SETS)
    seen = [x for _, _, x in _described(pools[some[0]], sets.option[some], sets.there[some])]
    places = np.linspace(0, 1, _LEVELS)
    cuts = [
        np.unique(np.quantile(column, places)) for column in np.concatenate(seen).reshape(-1, 3 * FEATURES).T
    ]
    out = np.zeros((n, 3 * FEATURES, s, k), dtype=np.uint8)
    for item, nth, x in _described(pools, sets.option, sets.there):
        for f, cut in enumerate(cuts):
            out[item, f, nth] = np.searchsorted(cut, x[:, :, f])
    return out


def _described(pools: Sequence[Pool], option: Ints, there: Bools) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Yield items (q,), the number of a set of each (q,), and its options' form (q, K, 3 * features), for all sets."""
    for start in range(0, len(pools), CHUNK):
        of = slice(start, start + CHUNK)
        form = _Form(Options([_Shown(pool.texts) for pool in pools[of]]))
        for low in range(0, len(option[of]), _AT_ONCE):
            part = slice(low, low + _AT_ONCE)
            item, nth = np.nonzero(there[of][part].any(axis=2))
            raw = form.of(item + low, option[of][part][item, nth], shown := there[of][part][item, nth])
            yield item + start + low, nth, compared(raw, shown)


class _Form:
    """Features of the options of some pools, of which those that compare options are computed for each set."""

    def __init__(self, options: Options) -> None:
        number = np.clip(np.nan_to_num(first_numbers(options.texts)), -_LARGEST, _LARGEST)
        self._own = padded(np.column_stack([own_amounts(options), number]), options.there)
        self._forms = padded(options.forms.astype(np.float64), options.there) > 0
        self._likeness, self._ends = options.likeness, end_words(options)

    def of(self, item: Ints, option: Ints, there: Bools) -> Floats:
        """Return the unscaled features (q, K, features) of options (q, K) of items (q,). `there` (q, K) masks them."""
        at, k = item[:, None], there.sum(axis=1)[:, None]
        others = there[:, :, None] & there[:, None, :] & ~np.eye(there.shape[1], dtype=bool)
        like = np.where(others, self._likeness[at[:, :, None], option[:, :, None], option[:, None, :]], 0.0)
        ends = (words[at, option] for words in self._ends)
        same = [((words[:, :, None] == words[:, None, :]) & others).sum(axis=2) for words in ends]
        forms = self._forms[at, option] & there[:, :, None]
        having = forms.sum(axis=1, keepdims=True)
        odd = np.where(forms, k[:, :, None] - having, having).sum(axis=2)
        contrasts = [like.sum(axis=2) / np.maximum(k - 1, 1), like.max(axis=2), *same, odd]
        return np.concatenate([self._own[at, option], np.stack(contrasts, axis=2)], axis=2)
