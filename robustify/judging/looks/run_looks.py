"""Points of looks of each model of a run, from its answers and from the scorer that reads only the texts of options."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from robustify.items.answers import Block
from robustify.items.scoring import VIEW_OF, Mode
from robustify.items.views import Hidden
from robustify.judging.baselines.near_duplicates import content_hashes, unit_hashes
from robustify.judging.context import Rules
from robustify.judging.looks.estimate import Estimate, estimates, no_looks
from robustify.judging.looks.read_options import TIED, UNREAD, PickRows, ReadOptions, beats_chance
from robustify.judging.readers.reader_rows import ProbeSettings
from robustify.judging.response_data import ResponseData
from robustify.judging.screen.item_index import ItemIndex
from robustify.judging.screen.ranking import OptionScores, Ranker
from robustify.judging.screen.votes import first_block
from robustify.judging.stats.intervals import unit_index
from robustify.judging.summary.quantity import Reason

MOST_REDRAWN = 5_000
"""Most items of the placebo. With more, it takes groups of items in the order of their contents."""


def looks_of(responses: ResponseData, ranker: Ranker, rules: Rules) -> dict[str, Estimate]:
    """Estimate the looks of each model that was asked the full question, on the items with a known key. `influence`
    has a value for each item of the run (n,), 0 for items without a known key."""
    blocks = {name: first_block(responses.answers, responses.full, name) for name in responses.models}
    blocks = {name: block for name, block in blocks.items() if len(block)}
    reader = ranker.by_options() if blocks else None
    if reader is None:
        reason = Reason.of(
            "looks_no_texts" if responses.items is None else "looks_few_items", n=len(responses.index)
        )
        return {name: _unread(len(responses.index), block, reason) for name, block in blocks.items()}
    run = _Run(responses, reader)
    rows_of = {name: run.rows(block) for name, block in blocks.items()}
    blind = {name: run.rows(_without_question(responses, name, rules.hidden)) for name in blocks}
    blind = {name: rows for name, rows in blind.items() if len(rows.item)}
    looks = {name: run.spread(estimate) for name, estimate in estimates(run.options, rows_of, blind).items()}
    # A placebo costs as much as the reader, so it is fitted only if its result matters.
    if any(estimate.part.state != "cannot tell" for estimate in looks.values()):
        above, accuracy, chance = placebo(responses, rules.probe)
        if above:
            reason = Reason.of("looks_reader_saw_items", value=accuracy, chance=chance)
            return {name: _unread(len(responses.index), block, reason) for name, block in blocks.items()}
    return looks


def placebo(responses: ResponseData, probe: ProbeSettings) -> tuple[bool, float, float]:
    """Fit the reader to keys redrawn by a hash of their texts. Return whether it beats chance, its accuracy, and
    chance. Copies of an item get the same key, so that a reader that saw one of them is recognized."""
    if responses.items is None:
        raise ValueError("looks need the texts of options, which this run lacks")
    content, groups = content_hashes(responses.items), responses.groups
    group = unit_index(len(content), groups)
    first_content = np.full(int(group.max(initial=-1)) + 1, np.inf)
    np.minimum.at(first_content, group, content)
    sampled = np.sort(np.lexsort((content, first_content[group]))[:MOST_REDRAWN])
    items = [responses.items[row] for row in sampled.tolist()]
    k = np.array([item.k for item in items], dtype=np.int16)
    key = np.array(
        [
            int(unit_hashes([f"{own}/{choice}" for choice in item.choices]).argmin())
            for item, own in zip(items, content[sampled].tolist(), strict=True)
        ],
        dtype=np.int16,
    )
    unasked = np.full(len(responses.index.index_of), -1, dtype=np.int32)
    index = ItemIndex(tuple(item.id for item in items), key, k, unasked)
    redrawn = Ranker(responses.answers, index, items, probe, responses.facts.groups).by_options()
    if redrawn is None:
        return False, float((1 / k).mean()), float((1 / k).mean())
    return beats_chance(redrawn.logits, redrawn.mask, key, group[sampled])


def _without_question(responses: ResponseData, name: str, hidden: Hidden) -> Block:
    """Return a model's rows without the question. Prefer the mode (letter or text) of the full question. The block is
    empty if the model was not asked, or saw more than the options."""
    modes: tuple[Mode, ...] = (responses.mode, "text" if responses.mode == "letter" else "letter")
    blocks = [first_block(responses.answers, VIEW_OF[mode], name) for mode in modes]
    if hidden != "question":
        return blocks[0].where(np.zeros(len(blocks[0]), dtype=bool))
    return next((block for block in blocks if len(block)), blocks[0])


def _unread(n_items: int, block: Block, reason: Reason) -> Estimate:
    """Return the looks of a model for a run without a reader."""
    part = no_looks(reason, int(np.count_nonzero(block.correct == 0)), int(np.count_nonzero(block.pick < 0)))
    return Estimate(part, np.zeros(n_items))


@dataclass(frozen=True, eq=False)
class _Run:
    """Items of a run with a known key, as the reader sees them."""

    responses: ResponseData
    reader: OptionScores

    @cached_property
    def options(self) -> ReadOptions:
        """Options of the items with a known key."""
        keyed, groups = self.reader.is_keyed, self.responses.groups
        return ReadOptions.from_logits(
            self.reader.logits[keyed],
            self.reader.mask[keyed],
            self.responses.index.key[keyed],
            None if groups is None else groups[keyed],
        )

    def rows(self, block: Block) -> PickRows:
        """Return the rows of a block that belong to these items, with the picks in the benchmark's order."""
        keyed = self.reader.is_keyed
        row_of = np.append(np.where(keyed, np.cumsum(keyed) - 1, -1), -1)
        item = row_of[self.responses.index.index_of[block.item]]
        block, item = block.where(item >= 0), item[item >= 0]
        order = block.order[:, : self.options.mask.shape[1]]
        position = np.full((len(item), self.options.mask.shape[1]), -1)
        row, column = np.nonzero(order >= 0)
        position[row, order[row, column]] = column
        pick = np.where(block.pick < 0, UNREAD, np.where(block.tie > 1, TIED, block.pick))
        return PickRows(item, pick, block.correct, position)

    def spread(self, estimate: Estimate) -> Estimate:
        """Return an estimate with the influence of all items of the run."""
        influence = np.zeros(len(self.responses.index))
        influence[self.reader.is_keyed] = estimate.influence
        return replace(estimate, influence=influence)
