"""Topic table of a released page.

Small topics are merged, not left out, so that totals stay correct and no topic can be found by subtraction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from robustify.judging.summary.screened import TopicRow
from robustify.restricted.disclosure.rounding import bits, rounded, rounded_interval

LONGEST, MOST_WORDS = 60, 8
"""Maximum number of characters and words in a topic name. A longer name may be text and is replaced by a number."""


class ReleasedTopic(BaseModel):
    """A topic or several merged topics, with the number of items and the share that the filter kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    n: int
    kept: float
    ci: tuple[float, float]


class ReleasedTopics(BaseModel):
    """Topic table of a released page. `merged` is the number of topics that were merged."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: tuple[ReleasedTopic, ...]
    merged: int
    bits: float

    @property
    def name(self) -> str:
        """Name of the table among the released numbers."""
        return "topic table"


@dataclass(frozen=True, slots=True)
class TopicBlock:
    """A topic or several merged topics, with the number of items before and after the filter."""

    name: str
    before: int
    after: int
    topics: int = 1

    @property
    def least(self) -> int:
        """Size of the smaller cell: the kept or the removed items."""
        return min(self.after, self.before - self.after)


def topic_table(topics: Mapping[str, TopicRow], k: int, step: float) -> ReleasedTopics:
    """Return the topic table, which has no rows if the topics are too small even when merged."""
    blocks = partition(
        [
            TopicBlock(_shown_name(name, i), row.before, row.after)
            for i, (name, row) in enumerate(sorted(topics.items()), start=1)
        ],
        k,
    )
    shares = [rounded(block.after / block.before, step) for block in blocks]
    rows = [
        ReleasedTopic(name=block.name, n=block.before, kept=kept, ci=rounded_interval(kept, block.before))
        for block, kept in zip(blocks, shares, strict=True)
    ]
    # Each topic is charged for its share and for whether it is shown separately.
    cost = len(topics) * (1 + bits("share", step))
    return ReleasedTopics(
        rows=tuple(rows), merged=sum(b.topics for b in blocks if b.topics > 1), bits=round(cost, 2)
    )


def partition(blocks: Sequence[TopicBlock], k: int) -> list[TopicBlock]:
    """Merge small topics into one block "Other" of two or more topics. Return an empty list if this block is too small."""
    kept = sorted((b for b in blocks if b.least >= k), key=lambda b: (-b.least, b.name))
    small = [b for b in blocks if b.least < k]
    while small and kept and (len(small) < 2 or _merged(small).least < k):
        small.append(kept.pop())
    if small and _merged(small).least < k:
        return []
    return [*sorted(kept, key=lambda b: b.name), *([_merged(small)] if small else [])]


def _merged(blocks: Sequence[TopicBlock]) -> TopicBlock:
    before, after = sum(b.before for b in blocks), sum(b.after for b in blocks)
    return TopicBlock(f"Other ({len(blocks)} topics)", before, after, len(blocks))


def _shown_name(name: str, number: int) -> str:
    is_name = len(name) <= LONGEST and len(name.split()) <= MOST_WORDS and name.isprintable()
    return name if is_name else f"topic {number}"
