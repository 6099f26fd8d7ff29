"""Looks of each model of a run, from its answers and from the scorer that reads only the texts of options."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from robustify.base.arrays import Ints
from robustify.items.answers import Block
from robustify.items.scoring import VIEW_OF, Mode
from robustify.judging.baselines.near_duplicates import content_hashes, unit_hashes
from robustify.judging.context import Context
from robustify.judging.looks.estimate import Estimate, estimates, no_looks
from robustify.judging.looks.standardized import TIED, UNREAD, Options, Rows, beats_chance
from robustify.judging.screen.ranking import OptionScores, Ranker
from robustify.judging.screen.votes import first_block
from robustify.judging.summary.quantity import Reason


def looks_of(ctx: Context) -> dict[str, Estimate]:
    """Estimate the looks of each model that was asked the full question, on the items with a known key. `influence` is by
    item of the run (n,), NaN for the others."""
    blocks = {name: first_block(ctx.answers, ctx.full, name) for name in ctx.names}
    blocks = {name: block for name, block in blocks.items() if len(block)}
    reader = ctx.ranker.by_options() if blocks else None
    if reader is None:
        few = Reason.of("looks_no_texts" if ctx.items is None else "looks_few_items", n=len(ctx.index))
        return {name: _unread(ctx, block, few) for name, block in blocks.items()}
    run = _Run(ctx, reader)
    asked = {name: run.rows(block) for name, block in blocks.items()}
    blind = {name: run.rows(_without_question(ctx, name)) for name in blocks}
    blind = {name: rows for name, rows in blind.items() if len(rows.item)}
    found = {name: run.spread(one) for name, one in estimates(run.options, asked, blind).items()}
    # A placebo costs as much as the reader, so it is fitted only if its result matters.
    if any(one.part.state != "cannot tell" for one in found.values()):
        above, accuracy, chance = placebo(ctx)
        if above:
            seen = Reason.of("looks_reader_saw_items", value=accuracy, chance=chance)
            return {name: _unread(ctx, block, seen) for name, block in blocks.items()}
    return found


def placebo(ctx: Context) -> tuple[bool, float, float]:
    """Fit the reader to keys that are redrawn by a hash of their texts, and return whether it beats chance, its accuracy,
    and chance. Copies of an item get the same key, so that a reader that saw one of them is recognized."""
    items, content = ctx.items or (), content_hashes(ctx.items or ())
    keys = np.array(
        [
            int(unit_hashes([f"{own}/{choice}" for choice in item.choices]).argmin())
            for item, own in zip(items, content.tolist(), strict=True)
        ],
        dtype=np.int16,
    )
    index = replace(ctx.index, key=np.where(ctx.index.key >= 0, keys, -1))
    redrawn = Ranker(ctx.answers, index, items, ctx.rules.probe, ctx.facts.groups).by_options()
    assert redrawn is not None, "the placebo has as many items as the reader"
    known, groups = redrawn.known, independent_groups(ctx)
    return beats_chance(
        redrawn.logits[known], redrawn.there[known], keys[known], None if groups is None else groups[known]
    )


def independent_groups(ctx: Context) -> Ints | None:
    """Return the groups of items that depend on each other (n,), or None if none do. It is the only place of this rule."""
    return ctx.groups


def _without_question(ctx: Context, name: str) -> Block:
    """Return a model's rows without the question, in the mode of the full question if it was asked so. The block is empty
    if the model was not asked, or saw more than the options."""
    modes: tuple[Mode, ...] = (ctx.mode, "text" if ctx.mode == "letter" else "letter")
    blocks = [first_block(ctx.answers, VIEW_OF[mode], name) for mode in modes]
    asked = [block for block in blocks if len(block)] if ctx.rules.hidden == "question" else []
    return asked[0] if asked else first_block(ctx.answers, VIEW_OF[ctx.mode], "")


def _unread(ctx: Context, block: Block, reason: Reason) -> Estimate:
    """Return the looks of a model if there is no reader."""
    part = no_looks(reason, int(np.count_nonzero(block.correct == 0)), int(np.count_nonzero(block.pick < 0)))
    return Estimate(part, np.zeros(len(ctx.index)))


@dataclass(frozen=True, eq=False)
class _Run:
    """Items of a run with a known key, as its reader sees them."""

    ctx: Context
    reader: OptionScores

    @cached_property
    def options(self) -> Options:
        """Options of the items with a known key."""
        known, groups = self.reader.known, independent_groups(self.ctx)
        return Options.of(
            self.reader.logits[known],
            self.reader.there[known],
            self.ctx.index.key[known],
            None if groups is None else groups[known],
        )

    def rows(self, block: Block) -> Rows:
        """Return the rows of a block that belong to these items, with the picks in the benchmark's order."""
        known = self.reader.known
        place = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)
        item = place[self.ctx.index.index_of[block.item]]
        block, item = block.where(item >= 0), item[item >= 0]
        order = block.order[:, : self.options.mask.shape[1]]
        position = np.full((len(item), self.options.mask.shape[1]), -1)
        row, at = np.nonzero(order >= 0)
        position[row, order[row, at]] = at
        pick = np.where(block.pick < 0, UNREAD, np.where(block.tie > 1, TIED, block.pick))
        return Rows(item, pick, block.correct, position)

    def spread(self, found: Estimate) -> Estimate:
        """Return an estimate with the influence of each item of the run."""
        influence = np.zeros(len(self.ctx.index))
        influence[self.reader.known] = found.influence
        return replace(found, influence=influence)
