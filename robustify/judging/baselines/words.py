"""Associations of words and letter sequences with keys: a question-free scorer, and words unusually frequent in keys.

The scorer judges each column (a word or letter sequence) separately, so that a fit is three sums over sparse rows.
Under the null, each of k options is the key with the same probability, so a word in s of them is in the key with
probability s/k, and the number of keys with the word has at most the tails of a binomial distribution with the mean
probability (Hoeffding 1956, for counts at least one from the mean). An item's own group is left out of its counts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, get_index_dtype
from scipy.special import bdtr, bdtrc

from robustify.base.arrays import ROUNDING, Bools, Ints
from robustify.base.texts import EDGES, folded
from robustify.items.item import Item
from robustify.judging.baselines.option_texts import OptionTexts, code_points
from robustify.judging.baselines.wording import FUNCTION_WORDS, words_of
from robustify.judging.readers.fits import FittedModel, Learner, OptionTable, item_sample
from robustify.judging.stats.tests import LEVEL

LENGTHS = (3, 4, 5)
"""Lengths of letter sequences, in characters."""
BITS = 22
FEWEST_OPTIONS = 16
"""Fewest options that must contain a column. Rarer columns cannot help to predict other items."""
LEAST = (1.0, 2.5)
"""Thresholds of association with keys, in standard deviations. Each gives one set of logits."""
RIDGE = 3.0
_LEAST_INFORMATION = 0.5
"""Smallest variance of a column's count under the null. Columns below it carry too little information about keys."""
_CHUNK = 10_000
_FIRST, _LAST = "\x02", "\x03"

Codes = npt.NDArray[np.uint64]


def columns_as_written(items: Sequence[Item]) -> csr_array:
    """Return the `columns` of the options as written, for `score_test`."""
    return columns(items, FEWEST_OPTIONS, _as_written)


def score_test(x: csr_array, options: OptionTable) -> Learner:
    """Prepare a fit of the words and letter sequences that are unusually frequent in keys. `x` (sum of k, columns)
    are `columns` of the options. A model returns two logits of an option, one for each threshold of `LEAST`.

    If m of the k options of an item contain a column, its key does with probability m / k under the null. U is the
    excess of a column over the sum of these, and V its variance. The coefficient is U / (V + ridge), which is one
    Newton step from 0 of a conditional logit on that column (the score test, Rao 1948).
    """
    sampled = item_sample(options.key >= 0)
    is_sampled = np.repeat(np.isin(np.arange(len(options.k)), sampled), options.k)
    key_columns = x[np.flatnonzero(is_sampled & options.is_key)]
    k = options.k[sampled]
    item = np.repeat(np.arange(len(sampled), dtype=np.int32), k)
    option = np.arange(len(item), dtype=np.int32)
    mean_of_item = csr_array((1 / k[item], (item, option)), shape=(len(sampled), len(item)))
    share = csr_array(mean_of_item @ x[np.flatnonzero(is_sampled)])
    spread = csr_array((share.data - share.data**2, share.indices, share.indptr), shape=share.shape)

    def learn(train: Bools) -> FittedModel:
        weight = train[sampled].astype(np.float64)
        excess, variance = weight @ key_columns - weight @ share, weight @ spread
        z = excess / np.sqrt(np.maximum(variance, ROUNDING))
        clear = (np.abs(z) > np.array(LEAST)[:, None]) & (variance > _LEAST_INFORMATION)
        coefficients = np.where(clear, excess / (variance + RIDGE), 0.0).T
        return FittedModel(lambda rows: np.asarray(rows @ coefficients))

    return learn


def _as_written(text: str) -> str:
    return text.strip(EDGES).casefold()


def columns(items: Sequence[Item], fewest: int, form: Callable[[str], str] = folded) -> csr_array:
    """Return a sparse matrix of the words and letter sequences in each option (sum of k, columns). Words and
    sequences in fewer than `fewest` options are left out. Texts are in this form, with a mark at both ends. Columns
    are hashed to 22 bits, so two may collide."""
    choices = [choice for item in items for choice in item.choices]
    # A text of n characters has at most n sequences of each length and n words. Pages that are not written need no memory.
    room = sum(len(form(choice)) + 2 for choice in choices) * (len(LENGTHS) + 1)
    codes, sizes, end = np.empty(room, dtype=np.int32), np.zeros(len(choices) + 1, dtype=np.int64), 0
    options = np.zeros(1 << BITS, dtype=np.int32)
    parts = [slice(start, min(start + _CHUNK, len(choices))) for start in range(0, len(choices), _CHUNK)]
    for part in parts:
        sizes[1:][part], found = _hashed([_FIRST + form(choice) + _LAST for choice in choices[part]])
        codes[end : end + len(found)] = found
        options += np.bincount(found, minlength=1 << BITS).astype(np.int32)
        end += len(found)
    is_common = options >= fewest
    column = np.cumsum(is_common, dtype=np.int32) - 1
    # Columns are written over the codes, because a second array of a large set would need as much memory.
    start = end = 0
    for part in parts:
        size = sizes[1:][part]
        found = codes[start : start + int(size.sum())]
        is_kept, start = is_common[found], start + len(found)
        size[:] = np.bincount(np.repeat(np.arange(len(size)), size)[is_kept], minlength=len(size))
        kept = column[found[is_kept]]
        codes[end : end + len(kept)] = kept
        end += len(kept)
    # Column indices use the same integer type, and four bytes usually suffice.
    ends = np.cumsum(sizes).astype(get_index_dtype(maxval=end))
    return csr_array((np.ones(end, np.int8), codes[:end], ends), shape=(len(choices), int(column[-1]) + 1))


def _hashed(texts: Sequence[str]) -> tuple[Ints, npt.NDArray[np.int32]]:
    signs = code_points(texts)
    row = np.repeat(np.arange(len(texts)), [len(t) for t in texts])
    codes = [*_sequences(signs, row), _words(signs, row)]
    pairs = np.concatenate([(r.astype(np.int64) << BITS) | code.astype(np.int64) for r, code in codes])
    # `np.unique` uses hashing and is many times slower here.
    pairs.sort()
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    return np.bincount(pairs >> BITS, minlength=len(texts)), (pairs & ((1 << BITS) - 1)).astype(np.int32)


def _sequences(signs: npt.NDArray[np.uint32], row: Ints) -> Iterator[tuple[Ints, Codes]]:
    for n in LENGTHS:
        inside = np.flatnonzero(row[: len(row) - n + 1] == row[n - 1 :]) if len(row) >= n else row[:0]
        code: Codes = np.full(len(inside), n, dtype=np.uint64)
        for i in range(n):
            code = _mixed(code + signs[inside + i])
        yield row[inside], code >> np.uint64(64 - BITS)


def _words(signs: npt.NDArray[np.uint32], row: Ints) -> tuple[Ints, Codes]:
    letter = np.zeros(int(signs.max(initial=0)) + 1, dtype=bool)
    kinds = np.flatnonzero(np.bincount(signs, minlength=len(letter)))
    letter[kinds] = [chr(c).isalnum() for c in kinds.tolist()]
    inside = letter[signs]
    edges = np.diff(np.concatenate([[0], inside.astype(np.int8), [0]]))
    start, end = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    code: Codes = np.full(len(start), 1, dtype=np.uint64)
    # All words are hashed together: first their first letters, then their second letters, and so on.
    for i in range(int((end - start).max(initial=0))):
        longer = start + i < end
        code[longer] = _mixed(code[longer] + signs[start[longer] + i])
    return row[start], code >> np.uint64(64 - BITS)


def _mixed(code: Codes) -> Codes:
    code = (code ^ (code >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(code ^ (code >> np.uint64(32)))


FEWEST = 3
"""Fewest other items that must contain a word before it is tested."""


@dataclass(frozen=True, slots=True, repr=False)
class WordUse:
    """Frequency of one word in the keys of other items, compared with chance. Of `items` that contain it, `keys` have it in
    the key, and `expected` by chance. `picked` is true if the option in question contains the word, otherwise another of
    its item does. `p` is one-sided (more keys than expected if `picked`, otherwise fewer), with Bonferroni correction over
    the item's words."""

    word: str
    picked: bool
    items: int
    keys: int
    expected: float
    p: float


class KeyWords:
    """Words that are significantly more or less frequent in keys than expected. The level is 5 % within an
    item. `group` (n,) is the representative of each item's group."""

    def __init__(self, items: Sequence[Item], group: Ints) -> None:
        self._items, self._uses = items, defaultdict[int, list[WordUse]](list)
        options = OptionTexts(items)
        row, word = options.sets
        item_of, base = options.item[row], len(options.vocabulary)
        at_key = row == (np.cumsum(options.k) - options.k + options.key)[item_of]
        codes, inverse, holders = np.unique(item_of * base + word, return_inverse=True, return_counts=True)
        # Arrays below have one entry per item and word (p,). Words in all options of an item are uninformative and omitted.
        is_informative = holders < options.k[codes // base]
        item = codes[is_informative] // base
        word = codes[is_informative] % base
        in_key = np.bincount(inverse, at_key)[is_informative]
        even = holders[is_informative] / options.k[item]
        del row, item_of, codes, inverse, holders  # as large as what follows
        # Counts over the items outside the item's group: items with the word, its keys, and its expected keys.
        group_word = np.unique(group[item] * base + word, return_inverse=True)[1]
        n, keys, expected = (
            np.bincount(word, weights)[word] - np.bincount(group_word, weights)[group_word]
            for weights in (np.ones(len(word)), in_key, even)
        )
        is_content = ~options.vocabulary.among(FUNCTION_WORDS)[word]
        # Number of tested words per item, for the Bonferroni correction.
        tests = np.bincount(item[is_content], minlength=len(items))[item]
        mean = n * (expected / np.maximum(n, 1))
        names = list(options.vocabulary)
        for picked, is_off in ((True, keys >= mean + 1), (False, keys <= mean - 1)):
            tested = np.flatnonzero(is_content & (n >= FEWEST) & is_off)
            binomial = n[tested].astype(np.int64), expected[tested] / n[tested]
            tail = bdtrc(keys[tested] - 1, *binomial) if picked else bdtr(keys[tested], *binomial)
            adjusted = np.minimum(1.0, tail * tests[tested])
            significant = adjusted <= LEVEL
            for pair, p in zip(tested[significant].tolist(), adjusted[significant].tolist(), strict=True):
                use = WordUse(
                    names[word[pair]], picked, int(n[pair]), int(keys[pair]), float(expected[pair]), p
                )
                self._uses[int(item[pair])].append(use)

    def supporting(self, item: int, pick: int) -> tuple[WordUse, ...]:
        """Return the words in favor of option `pick` of item `item`, the most significant first."""
        uses = self._uses.get(item, ())
        picked_words = words_of(self._items[item].choices[pick]) if uses else ()
        supporting = [use for use in uses if use.picked == (use.word in picked_words)]
        return tuple(sorted(supporting, key=lambda use: (use.p, use.word)))
