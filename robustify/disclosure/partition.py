"""One partition of the topics for every table of a report, in which no cell is small.

Small topics are merged into one "Other", never left out: totals stay true and nothing can be found by
subtraction. A topic's name goes out only with at least k items in each of its cells, and only if it is a name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LONGEST, MOST_WORDS = 60, 8
"""A longer topic is no name but perhaps a text, and is numbered instead."""


@dataclass(frozen=True, slots=True)
class TopicBlock:
    """Topics that are shown as one: how many items they had, and how many were kept."""

    name: str
    before: int
    after: int
    merged: int = 1

    @property
    def least(self) -> int:
        """Its smallest cell: items, items kept, items not kept."""
        return min(self.before, self.after, self.before - self.after)


def counts(rows: Mapping[str, object]) -> list[TopicBlock]:
    """The topics of summary.json with both counts; rows without both are passed over."""
    out = []
    for name, row in rows.items():
        before, after = (row.get(end) if isinstance(row, Mapping) else None for end in ("before", "after"))
        if isinstance(before, int) and isinstance(after, int):
            out.append(TopicBlock(name, before, after))
    return out


def partition(topics: Sequence[TopicBlock], k: int) -> list[TopicBlock] | None:
    """The topics, the small ones as one "Other" of at least two; None where even all together are too small.

    Topics with a cell below `k` are merged, then the smallest one after the other until Other is large enough.
    """
    kept = sorted((t for t in topics if t.least >= k), key=lambda t: (-t.least, t.name))
    other = [t for t in topics if t.least < k]
    while other and kept and (len(other) < 2 or _whole(other, "").least < k):
        other.append(kept.pop())
    if other and _whole(other, "").least < k:
        return None
    named = [_named(t, i) for i, t in enumerate(sorted(kept, key=lambda t: t.name), start=1)]
    return [*named, *([_whole(other, _free(len(other), named))] if other else [])]


def _whole(parts: Sequence[TopicBlock], name: str) -> TopicBlock:
    return TopicBlock(name, sum(p.before for p in parts), sum(p.after for p in parts), len(parts))


def _free(n: int, named: Sequence[TopicBlock]) -> str:
    name = f"Other ({n} topics)"
    while any(p.name == name for p in named):
        name += "_"
    return name


def _named(topic: TopicBlock, place: int) -> TopicBlock:
    name = topic.name
    if len(name) <= LONGEST and len(name.split()) <= MOST_WORDS and name.isprintable():
        return topic
    return TopicBlock(f"Topic {place}", topic.before, topic.after)
