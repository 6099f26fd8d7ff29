"""Make the topic table of a released page.

Small topics are merged into one, never left out: totals stay true, and nothing is found by subtraction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from robustify.disclosure.rounding import bits, interval, rounded
from robustify.summary.screened import TopicRow

LONGEST, MOST_WORDS = 60, 8
"""A longer topic is perhaps a text, and is numbered instead."""


class ReleasedTopic(BaseModel):
    """A topic, or several small ones together: its items, and the share of them that the filter kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    n: int
    kept: float
    ci: tuple[float, float]


class ReleasedTopics(BaseModel):
    """The topic table. `merged`: how many topics are shown as one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: tuple[ReleasedTopic, ...]
    merged: int
    bits: float

    @property
    def name(self) -> str:
        """How the table is called among the numbers."""
        return "topic table"


@dataclass(frozen=True, slots=True)
class Block:
    """Topics shown as one: how many items they had, and how many were kept."""

    name: str
    before: int
    after: int
    topics: int = 1

    @property
    def least(self) -> int:
        """The smallest cell: the items kept, or those not kept."""
        return min(self.after, self.before - self.after)


def topic_table(topics: Mapping[str, TopicRow], k: int, step: float) -> ReleasedTopics:
    """Return the table; without rows if its topics are too small even together."""
    blocks = partition(
        [
            Block(_shown_name(name, i), row.before, row.after)
            for i, (name, row) in enumerate(sorted(topics.items()), start=1)
        ],
        k,
    )
    shares = [rounded(block.after / block.before, step) for block in blocks]
    rows = [
        ReleasedTopic(name=block.name, n=block.before, kept=kept, ci=interval(kept, block.before))
        for block, kept in zip(blocks, shares, strict=True)
    ]
    # Charged for each topic: its share, and whether it is shown by itself.
    cost = len(topics) * (1 + bits("share", step))
    return ReleasedTopics(
        rows=tuple(rows), merged=sum(b.topics for b in blocks if b.topics > 1), bits=round(cost, 2)
    )


def partition(blocks: Sequence[Block], k: int) -> list[Block]:
    """Return the topics with the small ones as one "Other" of two or more; nothing if even that is too small."""
    kept = sorted((b for b in blocks if b.least >= k), key=lambda b: (-b.least, b.name))
    small = [b for b in blocks if b.least < k]
    while small and kept and (len(small) < 2 or _merged(small).least < k):
        small.append(kept.pop())
    if small and _merged(small).least < k:
        return []
    return [*sorted(kept, key=lambda b: b.name), *([_merged(small)] if small else [])]


def _merged(blocks: Sequence[Block]) -> Block:
    before, after = sum(b.before for b in blocks), sum(b.after for b in blocks)
    return Block(f"Other ({len(blocks)} topics)", before, after, len(blocks))


def _shown_name(name: str, number: int) -> str:
    is_name = len(name) <= LONGEST and len(name.split()) <= MOST_WORDS and name.isprintable()
    return name if is_name else f"topic {number}"
