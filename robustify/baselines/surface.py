"""What the heuristics see of all choices, in columns: one look at each text, then numbers alone.

Choices stand one after the other, those of an item together; every column has a row for each of them. Nothing here
looks at a key.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from robustify.arrays import Floats, Ints
from robustify.baselines.features import (
    ABSOLUTES,
    FUNCTION_WORDS,
    HEDGES,
    count_numbers,
    form,
    jaccard,
    points_elsewhere,
    words_of,
)
from robustify.item import Item


@dataclass(frozen=True)
class SurfaceFeatures:
    """n items with c choices in all. `k`, `key` (n,) of each item; all else (c,).

    `place` from 0 in its item; `chars`, `split`: characters and words between blanks, outer blanks aside; `numbers`,
    `absolutes`, `hedges` counted; `points`: 1 where it speaks of the other choices; `alphabet`: how many of its
    item's choices come before it, case folded; `overlap`: mean Jaccard index with the others; `in_stem`: share of
    its words of content that stand in the stem; `forms` (c, traits).
    """

    k: Ints
    key: Ints
    chars: Ints
    split: Ints
    numbers: Ints
    absolutes: Ints
    hedges: Ints
    points: Ints
    alphabet: Ints
    overlap: Floats
    in_stem: Floats
    forms: npt.NDArray[np.bool_]

    @cached_property
    def starts(self) -> Ints:
        """(n,): the row of each item's first choice."""
        return np.cumsum(self.k) - self.k

    @cached_property
    def place(self) -> Ints:
        """(c,): see the class."""
        return np.arange(int(self.k.sum())) - np.repeat(self.starts, self.k)

    @cached_property
    def oddness(self) -> Ints:
        """(c,): in how many traits of form a choice differs from how many of the others; see `features.oddness`."""
        if not len(self.k):
            return np.empty(0, dtype=np.int64)
        k = np.repeat(self.k, self.k)[:, None]
        having = np.repeat(np.add.reduceat(self.forms.astype(np.int64), self.starts), self.k, axis=0)
        return np.asarray(np.where(self.forms, k - having, having).sum(axis=1), dtype=np.int64)


def surface_features(items: Sequence[Item]) -> SurfaceFeatures:
    """The cues of these items."""
    counted: list[tuple[int, ...]] = []
    forms: list[tuple[bool, ...]] = []
    alphabet: list[int] = []
    overlap: list[float] = []
    in_stem: list[float] = []
    k = np.empty(len(items), dtype=np.int64)
    for at, item in enumerate(items):
        texts = [choice.strip() for choice in item.choices]
        found = [words_of(text) for text in texts]
        held = [frozenset(one) for one in found]
        k[at] = len(texts)
        counted.extend(map(_counted, texts, found, held))
        forms.extend(map(form, texts))
        alphabet.extend(_alphabetical(texts))
        overlap.extend(_overlap(held))
        in_stem.extend(_in_stem(item.stem, held))
    chars, split, many, absolutes, hedges, points = np.array(counted, dtype=np.int64).reshape(-1, 6).T
    return SurfaceFeatures(
        k=k,
        key=np.array([item.key for item in items], dtype=np.int64),
        chars=chars,
        split=split,
        numbers=many,
        absolutes=absolutes,
        hedges=hedges,
        points=points,
        alphabet=np.array(alphabet, dtype=np.int64),
        overlap=np.array(overlap, dtype=np.float64),
        in_stem=np.array(in_stem, dtype=np.float64),
        forms=np.array(forms, dtype=bool).reshape(len(forms), len(forms[0]) if forms else 0),
    )


def _counted(text: str, found: list[str], held: frozenset[str]) -> tuple[int, ...]:
    return (
        len(text),
        len(text.split()),
        count_numbers(text),
        _of_kind(found, held, ABSOLUTES),
        _of_kind(found, held, HEDGES),
        points_elsewhere(text),
    )


def _of_kind(found: list[str], held: frozenset[str], kind: frozenset[str]) -> int:
    return 0 if kind.isdisjoint(held) else sum(word in kind for word in found)


def _alphabetical(texts: Sequence[str]) -> list[int]:
    texts = [text.casefold() for text in texts]
    ranked = sorted(texts)
    return [ranked.index(text) for text in texts]


def _overlap(held: Sequence[frozenset[str]]) -> Iterator[float]:
    k = len(held)
    like = [[1.0] * k for _ in held]
    for i in range(k):
        for j in range(i):
            like[i][j] = like[j][i] = jaccard(held[i], held[j])
    return ((sum(row) - 1.0) / (k - 1) for row in like)


def _in_stem(stem: str, held: Sequence[frozenset[str]]) -> Iterator[float]:
    asked = frozenset(words_of(stem)) - FUNCTION_WORDS
    for own in held:
        content = own - FUNCTION_WORDS
        yield len(content & asked) / max(len(content), 1)
