"""Batch planning that computes each distinct prefix once, without torch or a model.

All requests form one trie. A node is one token, and a path from the root spells a context and a continuation. In depth-
first order, the trie is split into batches. The path above the first node of a batch is its trunk, such as a few-shot
header, whose keys and values the previous batch passes on. After some batches, a new section recomputes its trunk, so that
a resumed run never has to go back further.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Tokens = tuple[int, ...]

SECTION = 64
"""Number of batches per section, without those that recompute its trunk."""


@dataclass(frozen=True, slots=True, repr=False)
class Encoded:
    """Tokens of a request. Neither part is empty, and the repr shows only their lengths because tokens reveal text."""

    context: Tokens
    continuation: Tokens

    def __repr__(self) -> str:
        return f"Encoded({len(self.context)} + {len(self.continuation)} tokens)"

    @property
    def row(self) -> Tokens:
        """Input tokens of the model: all but the last token, which is only predicted."""
        return self.context + self.continuation[:-1]


@dataclass(frozen=True, slots=True)
class Want:
    """Token log-probability needed by a request: token `following` after node `node` of its batch."""

    request: int
    node: int
    following: int


@dataclass(frozen=True, slots=True, repr=False)
class Batch:
    """Batch of n nodes in depth-first order, below a trunk of t tokens from the previous batch.

    `depths` are positions in the sequence. Node i is an ancestor of node j if `i <= j < ends[i]`, and trunk token d of the
    nodes before `trunk_ends[d]`. `carry` selects the trunk of the next batch from the trunk followed by the nodes.
    """

    tokens: Tokens
    depths: Tokens
    ends: Tokens
    trunk_ends: Tokens
    wants: tuple[Want, ...]
    carry: Tokens


Sections = tuple[tuple[Batch, ...], ...]
"""All batches in depth-first order. The first batch of a section has no trunk."""


@dataclass(slots=True)
class _Trie:
    tokens: list[int]
    parents: list[int]
    depths: list[int]
    ends: NDArray[np.int64]
    wants: list[list[tuple[int, int]]]

    def path(self, node: int) -> list[int]:
        """Return the proper ancestors of a node, starting at the root."""
        above = []
        while (node := self.parents[node]) >= 0:
            above.append(node)
        return above[::-1]


def plan_batches(requests: Sequence[Encoded], budget: int = 512, section: int = SECTION) -> Sections:
    """Return batches of at most `budget` nodes that cover all requests, in depth-first order.
    The plan depends only on the set of requests, so that a resumed run computes exactly the same batches."""
    trie = _trie(requests)
    cuts = _cuts(trie, budget, section)
    starts = range(0, len(cuts) - 1, section)
    return tuple(_section(trie, cuts[s : s + section + 1], budget) for s in starts)


def _trie(requests: Sequence[Encoded]) -> _Trie:
    tokens: list[int] = []
    parents: list[int] = []
    depths: list[int] = []
    wants: list[list[tuple[int, int]]] = []
    path: list[int] = []
    before = np.empty(0, dtype=np.int64)
    # In sorted order, the prefix that a request shares with any earlier request is the one shared with the previous.
    for number in sorted(range(len(requests)), key=lambda n: requests[n].context + requests[n].continuation):
        request = requests[number]
        row = np.array(request.row, dtype=np.int64)
        shared = _common(before, row)
        del path[shared:]
        for depth, token in enumerate(request.row[shared:], start=shared):
            tokens.append(token)
            parents.append(path[-1] if path else -1)
            depths.append(depth)
            wants.append([])
            path.append(len(tokens) - 1)
        before = row
        for position, following in enumerate(request.continuation, start=len(request.context) - 1):
            wants[path[position]].append((number, following))
    return _Trie(tokens, parents, depths, _ends(parents), wants)


def _common(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    n = min(len(a), len(b))
    differ = np.flatnonzero(a[:n] != b[:n])
    return int(differ[0]) if len(differ) else n


def _ends(parents: Sequence[int]) -> NDArray[np.int64]:
    ends = list(range(1, len(parents) + 1))
    for node in range(len(parents) - 1, -1, -1):
        if (parent := parents[node]) >= 0:
            ends[parent] = max(ends[parent], ends[node])
    return np.array(ends, dtype=np.int64)


def _cuts(trie: _Trie, budget: int, section: int) -> list[int]:
    cuts = [0]
    n = len(trie.tokens)
    while n - cuts[-1] > budget:
        last = cuts[-1]
        if len(cuts) % section:
            cuts.append(last + budget)
        else:
            # A new section recomputes the path above it, so it begins where that path is shortest.
            window = range(last + budget, last + budget - max(budget // 4, 1), -1)
            cuts.append(min(window, key=lambda node: trie.depths[node]))
    return [*cuts, n] if n else [0]


def _section(trie: _Trie, cuts: Sequence[int], budget: int) -> tuple[Batch, ...]:
    stem = trie.path(cuts[0])
    n = len(stem)
    # The trunk alone is a chain: each token descends from all tokens above it, and the last batch still needs them all.
    tokens = [trie.tokens[node] for node in stem]
    chain = _Trie(tokens, [*range(-1, n - 1)], [*range(n)], np.full(n, n + 1), [[] for _ in stem])
    again = [_batch(chain, a, min(a + budget, n), last=False) for a in range(0, n, budget)]
    return (*again, *(_batch(trie, a, b, last=b == cuts[-1]) for a, b in itertools.pairwise(cuts)))


def _batch(trie: _Trie, start: int, stop: int, *, last: bool) -> Batch:
    above = trie.path(start)
    ends = [int(end) for end in trie.ends[[*above, *range(start, stop)]]]
    clipped = [min(end, stop) - start for end in ends]
    return Batch(
        tokens=tuple(trie.tokens[start:stop]),
        depths=tuple(trie.depths[start:stop]),
        ends=tuple(clipped[len(above) :]),
        trunk_ends=tuple(clipped[: len(above)]),
        wants=tuple(Want(r, node - start, t) for node in range(start, stop) for r, t in trie.wants[node]),
        carry=() if last else tuple(seat for seat, end in enumerate(ends) if end > stop),
    )
