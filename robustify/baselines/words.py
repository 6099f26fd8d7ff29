"""Words and letter sequences of options: what a scorer may learn without a list of cues; words that keys hold too often.

For the scorer each column is judged alone: how often is the option that holds it the key, above what is expected of the
options that hold it? So a fit is three sums over sparse rows, and 100,000 items are as easy as a hundred. Which columns
are believed, all that have some association with keys or only those with a clear one, is left to level 2 of the ranking
(`screen.ranking`), which is given both.

For the evidence, had each of the k options the same probability of being the key, a word in s of them would stand in the
key with probability s/k; over all items that hold the word the number of keys with it has then at most the tails of a
binomial law of the mean probability (Hoeffding 1956, for counts at least one off the mean). The item itself and those of
its group are left out of its own counts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import bdtr, bdtrc

from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.conditional_logit import MOST_FITTED, Fit, centred
from robustify.baselines.wording import FUNCTION_WORDS, words_of
from robustify.item import Item, folded
from robustify.stats.tests import LEVEL

LENGTHS = (3, 4, 5)
"""Characters of a letter sequence."""
BITS = 22
FEWEST_OPTIONS = 3
"""A column that fewer options hold is left out: nothing could be learnt from it for another item."""
LEAST = (1.0, 2.5)
"""Standard deviations above which an association with keys counts, one scorer for each."""
RIDGE = 3.0
_LEAST_INFORMATION = 0.5
"""A column that could hardly tell the key in any item (variance of its count under the null) is left out."""
_CHUNK = 40_000
_FIRST, _LAST = "\x02", "\x03"

Codes = npt.NDArray[np.uint64]


def scorers(items: Sequence[Item], key: Ints, there: Bools, known: Bools) -> list[Fit]:
    """One scorer of options for each threshold of `LEAST`, to be cross-fitted.

    `key` (n,), `there` (n, K), `known` (n,): items that may be fitted on, at most `MOST_FITTED` of them. If m of the
    k options of an item hold a column, its key does with probability m / k under the null. A column that exceeds
    its sum of these by U, with variance V, has the coefficient U / (V + ridge): one Newton step of its own conditional
    logit from 0 (the score test, Rao 1948).
    """
    present = columns(items)
    chosen = np.flatnonzero(known)
    if len(chosen) > MOST_FITTED:
        chosen = np.sort(np.random.default_rng(0).permutation(chosen)[:MOST_FITTED])
    row = np.zeros(there.shape, dtype=np.int64)
    row[there] = np.arange(present.shape[0])
    at_key = present[row[chosen, key[chosen]]]
    k = there[chosen].sum(axis=1)
    item = np.repeat(np.arange(len(chosen)), k)
    each = csr_array((1 / k[item], (item, np.arange(len(item)))), shape=(len(chosen), len(item)))
    share = csr_array(each @ present[row[chosen][there[chosen]]])
    spread = share - share.power(2)

    def scorer(least: float) -> Fit:
        def fit(train: Bools, test: Bools) -> Floats:
            of = train[chosen].astype(np.float64)
            over, variance = of @ at_key - of @ share, of @ spread
            z = over / np.sqrt(np.maximum(variance, 1e-9))
            counts = (np.abs(z) > least) & (variance > _LEAST_INFORMATION)
            logits = np.zeros(there.shape)
            logits[there] = present @ np.where(counts, over / (variance + RIDGE), 0.0)
            return centred(logits, there)[test]

        return fit

    return [scorer(least) for least in LEAST]


def columns(items: Sequence[Item]) -> csr_array:
    """Which words and letter sequences each option holds, (sum of k, columns) of 1 and 0.

    Case folded, with a mark before and behind each option; hashed to 22 bits, so that two of them may share a column.
    Columns that fewer than three options hold are left out.
    """
    texts = [_FIRST + folded(c) + _LAST for item in items for c in item.choices]
    parts = [_hashed(texts[start : start + _CHUNK]) for start in range(0, len(texts), _CHUNK)]
    sizes = np.concatenate([size for size, _ in parts]) if parts else np.zeros(0, dtype=np.int64)
    found = np.concatenate([code for _, code in parts]) if parts else np.zeros(0, dtype=np.int32)
    options = np.bincount(found, minlength=1 << BITS)
    place = np.cumsum(options >= FEWEST_OPTIONS, dtype=np.int32) - 1
    keep = options[found] >= FEWEST_OPTIONS
    ends = np.concatenate([[0], np.cumsum(keep)])[np.concatenate([[0], np.cumsum(sizes)])]
    indices = place[found[keep]]
    data = np.ones(len(indices), dtype=np.float32)
    return csr_array((data, indices, ends), shape=(len(texts), int(place[-1]) + 1))


def _hashed(texts: Sequence[str]) -> tuple[Ints, npt.NDArray[np.int32]]:
    """How many codes each text has, (r,), and all their codes, each once a text, text by text."""
    signs = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    row = np.repeat(np.arange(len(texts)), [len(t) for t in texts])
    codes = [*_sequences(signs, row), _words(signs, row)]
    both = np.concatenate([(r.astype(np.int64) << BITS) | code.astype(np.int64) for r, code in codes])
    # `np.unique` hashes, and is many times slower here.
    both.sort()
    both = both[np.diff(both, prepend=-1) > 0]
    return np.bincount(both >> BITS, minlength=len(texts)), (both & ((1 << BITS) - 1)).astype(np.int32)


def _sequences(signs: npt.NDArray[np.uint32], row: Ints) -> Iterator[tuple[Ints, Codes]]:
    for n in LENGTHS:
        inside = np.flatnonzero(row[: len(row) - n + 1] == row[n - 1 :]) if len(row) >= n else row[:0]
        code: Codes = np.full(len(inside), n, dtype=np.uint64)
        for i in range(n):
            code = _mixed(code + signs[inside + i])
        yield row[inside], code >> np.uint64(64 - BITS)


def _words(signs: npt.NDArray[np.uint32], row: Ints) -> tuple[Ints, Codes]:
    """Runs of letters and digits, one code a run."""
    letter = np.zeros(int(signs.max(initial=0)) + 1, dtype=bool)
    kinds = np.flatnonzero(np.bincount(signs, minlength=len(letter)))
    letter[kinds] = [chr(c).isalnum() for c in kinds.tolist()]
    inside = letter[signs]
    edge = np.diff(np.concatenate([[0], inside.astype(np.int8), [0]]))
    start, end = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1)
    code: Codes = np.full(len(start), 1, dtype=np.uint64)
    # A million words are read letter by letter together, the first letters first.
    for i in range(int((end - start).max(initial=0))):
        longer = start + i < end
        code[longer] = _mixed(code[longer] + signs[start[longer] + i])
    return row[start], code >> np.uint64(64 - BITS)


def _mixed(code: Codes) -> Codes:
    code = (code ^ (code >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(code ^ (code >> np.uint64(32)))


FEWEST = 3
"""Other items that must hold a word before anything is said of it."""


@dataclass(frozen=True, slots=True, repr=False)
class WordUse:
    """One word in the other items of a benchmark: in `keys` keys of `items` items, `expected` if it did not matter.

    `picked`: whether the option that is spoken of holds the word, or another option of its item; `p` is one-sided
    (more keys than expected where it is picked, else fewer), after Bonferroni over the words of the item.
    """

    word: str
    picked: bool
    items: int
    keys: int
    expected: float
    p: float


class KeyWords:
    """The counts of all words of a benchmark. `group` (n,): the representative of each item's group."""

    def __init__(self, items: Sequence[Item], group: Ints) -> None:
        self.items = items
        self.group = group.tolist()
        self._members: dict[int, list[int]] = defaultdict(list)
        self._counts: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for at, item in enumerate(items):
            self._members[self.group[at]].append(at)
            for word, keys, expected in _telling(item):
                count = self._counts[word]
                count[0] += 1
                count[1] += keys
                count[2] += expected

    def of(self, at: int, pick: int, *, level: float = LEVEL) -> tuple[WordUse, ...]:
        """The words of item `at` that speak for its option `pick`, each significant at `level`; the clearest first."""
        own: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for member in self._members[self.group[at]]:
            for word, keys, expected in _telling(self.items[member]):
                for place, value in enumerate((1.0, float(keys), expected)):
                    own[word][place] += value
        picked = frozenset(words_of(self.items[at].choices[pick]))
        words = [word for word, *_ in _telling(self.items[at]) if word not in FUNCTION_WORDS]
        found = []
        for word in words:
            n, in_keys, even = (all_ - mine for all_, mine in zip(self._counts[word], own[word], strict=True))
            if n >= FEWEST:
                p = min(1.0, _tail(round(in_keys), round(n), even / n, more=word in picked) * len(words))
                found.append(WordUse(word, word in picked, round(n), round(in_keys), even, p))
        return tuple(sorted((use for use in found if use.p <= level), key=lambda use: (use.p, use.word)))


def _telling(item: Item) -> Iterator[tuple[str, bool, float]]:
    """Each word that some options hold and others do not: whether the key holds it, and its share of the options."""
    sets = [frozenset(words_of(choice)) for choice in item.choices]
    key, k = sets[item.key], len(sets)
    for word, n in Counter(word for one in sets for word in one).items():
        if n < k:
            yield word, word in key, n / k


def _tail(keys: int, n: int, p: float, *, more: bool) -> float:
    """P(X >= keys) or P(X <= keys) for X binomial (n, p); 1 where the count is not that far off the mean."""
    if more:
        return float(bdtrc(keys - 1, n, p)) if keys >= n * p + 1 else 1.0
    return float(bdtr(keys, n, p)) if keys <= n * p - 1 else 1.0
