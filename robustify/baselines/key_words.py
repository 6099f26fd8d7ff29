"""Words that stand in keys more often, or less often, than they would if any option were the key as often as another.

A word that some options of an item hold and others do not tells these options apart. Had each of the k options the same
probability of being the key, a word in s of them would stand in the key with probability s/k; over all items that hold
the word the number of keys with it has then at most the tails of a binomial law of the mean probability (Hoeffding
1956, for counts at least one off the mean). The item itself and those of its group are left out of its own counts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scipy.special import bdtr, bdtrc

from robustify.arrays import Ints
from robustify.baselines.wording import FUNCTION_WORDS, words_of
from robustify.item import Item
from robustify.stats.tests import LEVEL

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
