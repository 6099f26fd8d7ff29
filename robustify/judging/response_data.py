"""Answers of models to the judged items, with facts about the benchmark. This module does not know the screen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from robustify.base.arrays import Bools, Ints, group_numbers
from robustify.base.errors import DataError
from robustify.items.answers import Answers, Block
from robustify.items.item import Item
from robustify.items.scoring import FULL_OF, Mode, as_compared
from robustify.items.views import VIEWS
from robustify.judging.baselines.near_duplicates import numbered_groups
from robustify.judging.screen.item_index import ItemIndex, item_index
from robustify.judging.screen.votes import first_block
from robustify.judging.stats.intervals import clusters
from robustify.judging.summary.quantity import Quantity

if TYPE_CHECKING:
    from robustify.judging.free_response import FreeGrades
    from robustify.judging.text_overlap import Overlap


@dataclass(frozen=True)
class Facts:
    """Facts about the benchmark that are not in the answer table. `topics` and `groups` map item IDs to names.
    `n_quarantined` counts rows that were set aside. `defects` are `{"kind", "item", ...}`. `logged` has the accuracies
    that logs state for cloze, by model and metric."""

    name: str
    topics: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    n_quarantined: int = 0
    defects: Sequence[Mapping[str, object]] = ()
    overlap: "Overlap | None" = None
    free: "FreeGrades | None" = None
    logged: Mapping[str, dict[str, Quantity]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ResponseData:
    """Items to judge, and the models' answers to them. `mode` is that of the full question. `groups` (n,) is shared
    by items that depend on each other, and None if every item is independent."""

    answers: Answers
    index: ItemIndex
    items: Sequence[Item] | None
    facts: Facts
    mode: Mode
    groups: Ints | None

    @classmethod
    def from_answers(
        cls, answers: Answers, facts: Facts, mode: Mode, items: Sequence[Item] | None = None
    ) -> "ResponseData":
        """Arrange the answers by item. If the full question was asked in both modes, `mode` chooses. Raise `DataError` if
        rows contradict each other or the items."""
        views = {view for view, _, _ in answers.askings()}
        other: Mode = "text" if mode == "letter" else "letter"
        index = _index(answers, items)
        return cls(
            answers,
            index,
            items,
            facts,
            other if FULL_OF[mode] not in views and FULL_OF[other] in views else mode,
            _passages(index, facts.groups) if items is None else numbered_groups(items),
        )

    @property
    def topics(self) -> list[str]:
        """Topic of each item, or "" for an item without a topic."""
        return [self.facts.topics.get(item, "") for item in self.index.items]

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Models that were asked in at least one view, in order of first appearance."""
        return tuple(dict.fromkeys(model for view, model, _ in self.answers.askings() if view in VIEWS))

    @property
    def full(self) -> str:
        """View of the full question."""
        return FULL_OF[self.mode]

    def first_rows(self, view: str, model: str) -> Block:
        """Return a model's first answer to each item under a view, with text scores per character."""
        block = first_block(self.answers, view, model).first()
        return as_compared(block.where(self.index.index_of[block.item] >= 0), view)

    def in_table(self, values: Bools) -> Bools:
        """Return the values of items in the order of the answer table (n, ...). Other rows of the table get False."""
        index_of = self.index.index_of
        return np.where((index_of >= 0).reshape(-1, *[1] * (values.ndim - 1)), values[index_of], False)

    @cached_property
    def table_groups(self) -> Ints | None:
        """Group of each item of the answer table (t,), or None if items are independent. Others get -1."""
        index_of = self.index.index_of
        return None if self.groups is None else np.where(index_of >= 0, self.groups[index_of], -1)

    def row_groups(self, block: Block) -> Ints | None:
        """Return the group of each row of a block (r,), or None if items are independent."""
        return None if self.groups is None else self.groups[self.index.index_of[block.item]]


def _index(answers: Answers, items: Sequence[Item] | None) -> ItemIndex:
    if items is None:
        return item_index(answers, answers.items)
    index = item_index(answers, [item.id for item in items])
    key, k = np.array([(item.key, item.k) for item in items], dtype=np.int64).reshape(-1, 2).T
    differing = np.flatnonzero((index.k > 0) & ((index.key != key) | (index.k != k)))
    if len(differing):
        raise DataError(
            f"answer table: item {items[differing[0]].id} was asked with a different key or number of choices "
            f"({len(differing)} such items). Restore the original items, or ask models again.",
            code="items-differ-from-answers",
        )
    return replace(index, key=key.astype(np.int16), k=k.astype(np.int16))


def _passages(index: ItemIndex, group_of: Mapping[str, str]) -> Ints | None:
    if not group_of:
        return None
    groups = group_numbers(index.items, group_of)
    return groups if clusters(len(groups), groups) < len(groups) else None
