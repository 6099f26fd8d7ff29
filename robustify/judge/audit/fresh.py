"""The fresh probe: a forward probe on the texts of the options that the selection left open.

It is a ridge on the options of items, block after block, each predicted by a fit on those before it. Neither the fit nor
the blocks depend on the key that is predicted. Were every open option as likely to be the key as any other, each scored
pick would be right with a probability of one over the open options, whatever came before: the hits are martingale
differences, and their number is exactly Poisson-binomial. The same blocks, each predicted by all others, have more power
and no such law: their null is made by refits with permuted keys (Ojala and Garriga 2010). The ridge is in closed form, so
that all refits are matrix products.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, compress
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.artifact_probe import FEWEST_ITEMS, ProbeSettings, near_duplicate_groups
from robustify.baselines.features import matrix
from robustify.baselines.linear_probes import BLOCKS, RIDGE, UNSCORED, forward_blocks, forward_rank
from robustify.item import Item
from robustify.judge.audit.auditor import AuditRate, among_open
from robustify.screen.consensus import ROBUST, outcome, weighed, would_flag
from robustify.screen.screen_rules import ScreenRules
from robustify.screen.votes import Votes

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
    def _products(self) -> list[Floats]:
        """Of each block the products (f, f) of its features."""
        return [self.x[rows].T @ self.x[rows] for _, rows in self._blocks]

    @cached_property
    def _factors(self) -> list[Any]:
        """For each block the factors of the penalised products of all others."""
        total = sum(self._products) + RIDGE * np.eye(self.x.shape[1])
        return [cho_factor(total - one) for one in self._products]

    def hits(self, key: Ints, *, forward: bool = False) -> Bools:
        """Whether each pick is the key, (n, c): by all other blocks, or `forward` by those before it alone.

        `key` (n, c): the place of each item's key among its open options, in c arrangements of the keys.
        """
        at, out = self.starts[:, None] + key, np.zeros(key.shape, dtype=bool)
        sums = [self._summed(rows, at[items]) for items, rows in self._blocks]
        if forward:
            known = [*accumulate(sums, initial=np.zeros_like(sums[0]))]
            before = accumulate(self._products, initial=RIDGE * np.eye(self.x.shape[1]))
            factors = list(map(cho_factor, before))
        else:
            total = np.sum(sums, axis=0)
            known, factors = [total - own for own in sums], self._factors
        for b in range(UNSCORED if forward else 0, BLOCKS):
            items, rows = self._blocks[b]
            out[items] = self._right(items, rows, cho_solve(factors[b], known[b]), at)
        return out

    def _summed(self, rows: slice, at: Ints) -> Floats:
        """The sums (f, c) of the features in rows `at` (m, c), all of them within `rows`."""
        chosen = np.zeros((rows.stop - rows.start, at.shape[1]))
        np.put_along_axis(chosen, at - rows.start, 1.0, axis=0)
        return np.asarray(self.x[rows].T @ chosen)

    def _right(self, items: slice, rows: slice, weights: Floats, at: Ints) -> Bools:
        # Rounded, so that options with equal features tie on any machine.
        scores = np.round(self.x[rows] @ weights, 9) + 1e-10 * self.tiebreak[rows, None]
        first, size = self.starts[items] - rows.start, self.size[items]
        top = scores[first]
        # Place by place, many times faster than `np.maximum.reduceat` down columns.
        for place in range(1, int(size.max(initial=0))):
            more = np.flatnonzero(size > place)
            top[more] = np.maximum(top[more], scores[first[more] + place])
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
    forward, crossed = (design.hits(key[:, None], forward=first)[:, 0] for first in (True, False))
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
        yield design.hits(key).sum(axis=0)


def centred(raw: Floats, size: Ints) -> Floats:
    """`raw` (r, f) less its mean within each run of `size` rows."""
    if not len(raw):
        return raw
    starts = np.cumsum(size) - size
    return np.asarray(raw - np.repeat(np.add.reduceat(raw, starts) / size[:, None], size, axis=0))


@dataclass(frozen=True)
class Kept:
    """The items that rules keep and whose outcome depends on no missing answer: chance after selection is exact.

    `mask` (all items,) of `all_items`; of the n kept ones `key`, `k` (n,), and `would` (n, K): the options that as the
    key would have removed them.
    """

    mask: Bools
    all_items: Sequence[str]
    key: Ints
    k: Ints
    would: Bools

    @cached_property
    def items(self) -> tuple[str, ...]:
        """Their n names."""
        return tuple(compress(self.all_items, self.mask.tolist()))

    @cached_property
    def open(self) -> Bools:
        """The options (n, K) that the selection left open."""
        return np.asarray(~self.would & (np.arange(self.would.shape[1]) < self.k[:, None]))


def everything(items: Sequence[str], key: Ints, k: Ints) -> Kept:
    """All items that any row knows, as if they were kept and every option were open."""
    known = np.asarray(k > 0)
    none = np.zeros((int(np.count_nonzero(known)), int(k.max(initial=1))), dtype=bool)
    return Kept(known, items, key[known], k[known], none)


def kept_by(votes: Votes, rules: ScreenRules) -> Kept:
    """What these rules keep of these votes."""
    mask = np.asarray((outcome(votes, rules) == ROBUST) & weighed(votes, rules))
    return Kept(mask, votes.items, votes.key[mask], votes.k[mask], would_flag(votes, rules)[mask])


@dataclass(frozen=True)
class Fitted:
    """The design of some of the items kept. `at` (m,): which; `key` (m,): the key's place among its open options."""

    design: Design
    at: Ints
    key: Ints


class FreshProbe:
    """Probes fitted afresh on kept items, each set of items once; without items there are none.

    Of near-duplicates only the first in hash order is fitted and judged; a passage stays within one block.
    """

    def __init__(self, items: Sequence[Item] | None, settings: ProbeSettings) -> None:
        self.items = list(items or ())
        self.settings = settings
        self._seen: dict[tuple[object, ...], AuditRate | None] = {}

    def of(self, kept: Kept) -> AuditRate | None:
        """A fresh probe on these items; None where there is too little to fit on."""
        if not self.items or not kept.items or not all(name in self.place for name in kept.items):
            return None
        mark = (kept.items, kept.open.tobytes())
        if mark not in self._seen:
            self._seen[mark] = self._audit(kept)
        return self._seen[mark]

    def first(self, kept: Kept) -> Bools:
        """Of these items (n,) one of each group of near-duplicates: of those with most options closed by the selection,
        as their copies' keys are no such option either, the first in hash order. All where no text is known.
        """
        if not self.items or not all(name in self.place for name in kept.items):
            return np.ones(len(kept.key), dtype=bool)
        place = np.array([self.place[name] for name in kept.items], dtype=np.int64)
        rank, duplicates, _ = (table[place] for table in self._order)
        order = np.lexsort((rank, -kept.would.sum(axis=1)))
        out = np.zeros(len(place), dtype=bool)
        out[order[np.unique(duplicates[order], return_index=True)[1]]] = True
        return out

    def fitted(self, kept: Kept) -> Fitted | None:
        """The design for these items; None where fewer than 50 can be fitted."""
        place = np.array([self.place[name] for name in kept.items], dtype=np.int64)
        size = kept.open.sum(axis=1)
        rank, _, groups = (table[place] for table in self._order)
        order = np.argsort(rank, kind="stable")
        at = order[(self.first(kept) & (size > 1))[order]]
        if len(at) < FEWEST_ITEMS:
            return None
        starts = np.cumsum([0, *(item.k for item in self.items)])
        option = np.arange(kept.open.shape[1])
        rows = (starts[place[at]][:, None] + option)[kept.open[at]]
        key = (kept.open[at] & (option < kept.key[at][:, None])).sum(axis=1)
        design = Design.of(matrix(self.items)[rows], size[at], forward_blocks(groups[at]), self.settings.seed)
        return Fitted(design, at, key)

    def _audit(self, kept: Kept) -> AuditRate | None:
        found = self.fitted(kept)
        if found is None:
            return None
        result = refitted(found.design, found.key, self.settings.refits, self.settings.seed)
        return among_open(result.credit, found.design.size, kept.k[found.at], result.p, result.refits)

    @cached_property
    def place(self) -> dict[str, int]:
        """Where each item stands among all."""
        return {item.id: i for i, item in enumerate(self.items)}

    @cached_property
    def _order(self) -> tuple[Ints, Ints, Ints]:
        """Of each item its rank in hash order, its near-duplicates, and these with its passage."""
        rank, groups = forward_rank(self.items, self.settings.seed)
        alone = [replace(item, group="") for item in self.items]
        passages = any(item.group for item in self.items)
        return rank, near_duplicate_groups(alone) if passages else groups, groups
