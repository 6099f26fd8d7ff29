"""The fresh probe: a forward probe on the texts of the options that the selection left open."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress

import numpy as np

from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.artifact_probe import FEWEST_ITEMS, ProbeSettings, near_duplicate_groups
from robustify.baselines.features import matrix
from robustify.baselines.linear_probes import forward_blocks, forward_rank
from robustify.item import Item
from robustify.judge.audit.auditor import AuditRate, among_open
from robustify.judge.audit.forward import Design, refitted
from robustify.screen.consensus import ROBUST, outcome, weighed, would_flag
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import ScreenRules
from robustify.screen.votes import Votes


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

    `groups` (n,) as `near_duplicate_groups` gives them, where they are at hand. Of near-duplicates only the first in hash
    order is fitted and judged; a passage stays within one block.
    """

    def __init__(
        self, items: Sequence[Item] | None, settings: ProbeSettings, groups: Ints | None = None
    ) -> None:
        self.items = list(items or ())
        self.settings = settings
        self._groups = groups
        self._seen: dict[tuple[object, ...], AuditRate | None] = {}

    def audit(self, votes: Votes, rules: ScreenRules) -> AuditRate | None:
        """A fresh probe on what these rules keep; None where there is too little to fit on."""
        return self.of(kept_by(votes, rules))

    def of(self, kept: Kept) -> AuditRate | None:
        """The same of items already picked out."""
        if not self.items or not kept.items or not all(name in self.place for name in kept.items):
            return None
        mark = (kept.items, kept.open.tobytes())
        if mark not in self._seen:
            self._seen[mark] = self._audit(kept)
        return self._seen[mark]

    def of_all(self, index: ItemIndex) -> AuditRate | None:
        """The same on all items, as if every option were open."""
        return self.of(everything(index.items, index.key, index.k))

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
        starts = np.cumsum(self.size) - self.size
        option = np.arange(kept.open.shape[1])
        rows = (starts[place[at]][:, None] + option)[kept.open[at]]
        key = (kept.open[at] & (option < kept.key[at][:, None])).sum(axis=1)
        design = Design.of(self.features[rows], size[at], forward_blocks(groups[at]), self.settings.seed)
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
    def size(self) -> Ints:
        """The options of each item."""
        return np.array([item.k for item in self.items], dtype=np.int64)

    @cached_property
    def features(self) -> Floats:
        """One row an option of all items."""
        return matrix(self.items)

    @cached_property
    def _order(self) -> tuple[Ints, Ints, Ints]:
        """Of each item its rank in hash order, its near-duplicates, and these with its passage."""
        rank, groups = forward_rank(self.items, self.settings.seed, self._groups)
        alone = [replace(item, group="") for item in self.items]
        passages = any(item.group for item in self.items)
        return rank, near_duplicate_groups(alone) if passages else groups, groups
