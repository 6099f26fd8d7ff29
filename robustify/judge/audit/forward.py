"""The forward probe: a ridge on the options of items, block after block, each predicted by a fit on those before it.

Neither the fit nor the blocks depend on the key that is predicted. Were every open option as likely to be the key as
any other, each scored pick would be right with a probability of one over the open options, whatever came before: the
hits are martingale differences, and their number is exactly Poisson-binomial. The same blocks, each predicted by all
others, have more power and no such law: their null is made by refits with permuted keys (Ojala and Garriga 2010).
The ridge is in closed form, so that all refits are matrix products.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.linear_probes import BLOCKS, RIDGE, UNSCORED

FEWEST_REFITS = 199
_CELLS = 1 << 26
"""Options times refits beyond which fewer refits are made."""
_AT_ONCE = 1 << 23


@dataclass(frozen=True)
class Design:
    """n items that are fitted and predicted, in the order of their blocks; nothing here depends on a key.

    `x` (r, f): the features of their open options, one item after the other, centred within each item. `size`
    (n,): how many open options each has, at least 2. `block` (n,), rising from 0. `tiebreak` (r,): which of two
    options with equal scores is picked.
    """

    x: Floats
    size: Ints
    block: Ints
    tiebreak: Floats

    @classmethod
    def of(cls, raw: Floats, size: Ints, block: Ints, seed: int = 0) -> "Design":
        """The design of features `raw` (r, f) that are not yet centred within the open options."""
        drawn = np.random.default_rng(seed).random(len(raw))
        return cls(centred(raw, size), size, block, drawn)

    @property
    def scored(self) -> Bools:
        """The items (n,) that the forward probe predicts."""
        return np.asarray(self.block >= UNSCORED)

    @cached_property
    def starts(self) -> Ints:
        """The row (n,) of each item's first open option."""
        return np.asarray(np.cumsum(self.size) - self.size)

    @cached_property
    def _blocks(self) -> list[tuple[slice, slice]]:
        """The items and the rows of each block."""
        edge = np.searchsorted(self.block, np.arange(BLOCKS + 1))
        row = np.append(self.starts, len(self.x))[edge]
        return [(slice(*edge[b : b + 2]), slice(*row[b : b + 2])) for b in range(BLOCKS)]

    @cached_property
    def _factors(self) -> list[tuple[Any, Any]]:
        """For each block the factors of the penalised products of the blocks before it, and of all others."""
        ridge = RIDGE * np.eye(self.x.shape[1])
        own = [self.x[rows].T @ self.x[rows] for _, rows in self._blocks]
        total, before, out = sum(own) + ridge, ridge, []
        for one in own:
            out.append((cho_factor(before), cho_factor(total - one)))
            before = before + one
        return out

    def hits(self, key: Ints) -> tuple[Bools, Bools]:
        """Whether each pick is the key, (n, c) forward and (n, c) by all other blocks.

        `key` (n, c): the place of each item's key among its open options, in c arrangements of the keys.
        """
        at = self.starts[:, None] + key
        sums = [self._summed(rows, at[items]) for items, rows in self._blocks]
        total, before = np.sum(sums, axis=0), np.zeros_like(sums[0])
        forward, crossed = np.zeros(key.shape, dtype=bool), np.zeros(key.shape, dtype=bool)
        for b, ((items, rows), (first, others)) in enumerate(zip(self._blocks, self._factors, strict=True)):
            if items.stop > items.start:
                crossed[items] = self._right(items, rows, cho_solve(others, total - sums[b]), at)
                if b >= UNSCORED:
                    forward[items] = self._right(items, rows, cho_solve(first, before), at)
            before = before + sums[b]
        return forward, crossed

    def _summed(self, rows: slice, at: Ints) -> Floats:
        """The sums (f, c) of the features in rows `at` (m, c), all of them within `rows`."""
        chosen = np.zeros((rows.stop - rows.start, at.shape[1]))
        np.put_along_axis(chosen, at - rows.start, 1.0, axis=0)
        return np.asarray(self.x[rows].T @ chosen)

    def _right(self, items: slice, rows: slice, weights: Floats, at: Ints) -> Bools:
        # Rounded, so that options with equal features tie on any machine.
        scores = np.round(self.x[rows] @ weights, 9) + 1e-10 * self.tiebreak[rows, None]
        top = np.maximum.reduceat(scores, self.starts[items] - rows.start, axis=0)
        return np.asarray(np.take_along_axis(scores, at[items] - rows.start, axis=0) >= top)


@dataclass(frozen=True, slots=True)
class Refitted:
    """The forward picks' credit (n,), NaN where not scored, and the permutation p of the cross-fitted hits.

    `refits`: how many arrangements of permuted keys the p rests on.
    """

    credit: Floats
    p: float
    refits: int


def refitted(design: Design, key: Ints, refits: int = 999, seed: int = 0) -> Refitted:
    """The forward probe of keys (n,), and p = (1 + refits with as many cross-fitted hits) / (1 + refits).

    Fewer refits, and never fewer than 199, are made of very many options.
    """
    forward, crossed = (hit[:, 0] for hit in design.hits(key[:, None]))
    n = int(np.clip(_CELLS // max(1, len(design.x)), min(FEWEST_REFITS, refits), refits))
    found = int(np.count_nonzero(crossed))
    reached = sum(int(np.count_nonzero(lot >= found)) for lot in permuted(design, n, seed))
    credit = np.where(design.scored, forward.astype(np.float64), np.nan)
    return Refitted(credit, (1 + reached) / (1 + n), n)


def permuted(design: Design, refits: int, seed: int) -> Iterator[Ints]:
    """The numbers of cross-fitted hits under permuted keys, some refits at a time."""
    rng = np.random.default_rng(seed)
    step = max(1, _AT_ONCE // max(1, len(design.x)))
    for start in range(0, refits, step):
        drawn = rng.random((len(design.size), min(step, refits - start)))
        key = (drawn * design.size[:, None]).astype(np.int64)
        yield design.hits(key)[1].sum(axis=0)


def centred(raw: Floats, size: Ints) -> Floats:
    """`raw` (r, f) less its mean within each run of `size` rows."""
    if not len(raw):
        return raw
    starts = np.cumsum(size) - size
    return np.asarray(raw - np.repeat(np.add.reduceat(raw, starts) / size[:, None], size, axis=0))
