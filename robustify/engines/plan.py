"""Which tokens to compute, so that each distinct prefix is computed once. Pure: no torch, no model.

All requests are laid into one trie: a path from its root spells a context and a continuation, and a node is
one token. The trie is cut, in depth-first order, into batches of at most a budget of nodes. The path above a
batch (a few-shot header, the words that every prompt begins with) is its trunk. Within a batch, nodes are cut
into segments, each a piece of the tree with the nodes above it, so that attention stays small.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A request in tokens. Neither part is empty."""

    context: Tokens
    continuation: Tokens

    @property
    def row(self) -> Tokens:
        """What the model must read: all but the last token, which is only predicted."""
        return self.context + self.continuation[:-1]


@dataclass(frozen=True, slots=True)
class Want:
    """The log-probability of token `following` at `node` (local to its batch) counts for this request."""

    request: int
    node: int
    following: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes `start` to `stop` of a batch, which all descend from the same first `trunk` tokens of the trunk
    and then from the nodes `above` of the same batch. Among one another they see their ancestors.
    """

    start: int
    stop: int
    above: tuple[int, ...]
    trunk: int


@dataclass(frozen=True, slots=True)
class Batch:
    """n nodes in depth-first order. `parents` are local indices, -1 for a child of some node of the trunk;
    `depths` are positions in the sequence: such a child sees the first `depth` tokens of the trunk.
    """

    trunk: Tokens
    tokens: Tokens
    parents: Tokens
    depths: Tokens
    wants: tuple[Want, ...]
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All batches. `distinct` counts the nodes of the trie, `planned` what is computed with the trunks,
    `naive` what a scorer computes that runs every request alone.
    """

    batches: tuple[Batch, ...]
    distinct: int
    planned: int
    naive: int


@dataclass(slots=True)
class _Trie:
    tokens: list[int]
    parents: list[int]
    depths: list[int]
    sizes: list[int]
    wants: list[list[tuple[int, int]]]


def plan(requests: Sequence[Encoded], budget: int = 2048, widest: int = 256) -> Plan:
    """Batches that hold every request, in the order of a depth-first walk.

    `budget`: nodes a batch; `widest`: nodes a segment. The plan depends on the requests alone, so that a run
    that is resumed computes exactly what it would have computed.
    """
    trie = _trie(requests)
    cuts = _cuts(trie, budget)
    batches = tuple(_batch(trie, a, b, widest) for a, b in itertools.pairwise(cuts))
    # A trunk is computed anew only where it changes.
    trunks = [trunk for trunk, _ in itertools.groupby(batch.trunk for batch in batches)]
    return Plan(
        batches,
        distinct=len(trie.tokens),
        planned=len(trie.tokens) + sum(map(len, trunks)),
        naive=sum(len(r.row) for r in requests),
    )


def _trie(requests: Sequence[Encoded]) -> _Trie:
    trie = _Trie([], [], [], [], [])
    path: list[int] = []
    spelled: Tokens = ()
    # In sorted order a request shares with the one before it exactly what it shares with all before it.
    for number in sorted(range(len(requests)), key=lambda n: requests[n].context + requests[n].continuation):
        request = requests[number]
        row = request.row
        shared = _common(spelled, row)
        del path[shared:]
        for depth in range(shared, len(row)):
            trie.tokens.append(row[depth])
            trie.parents.append(path[-1] if path else -1)
            trie.depths.append(depth)
            trie.wants.append([])
            path.append(len(trie.tokens) - 1)
        spelled = row
        for place, following in enumerate(request.continuation, start=len(request.context) - 1):
            trie.wants[path[place]].append((number, following))
    trie.sizes = _subtree_sizes(trie.parents)
    return trie


def _common(a: Tokens, b: Tokens) -> int:
    n = min(len(a), len(b))
    return next((i for i in range(n) if a[i] != b[i]), n)


def _subtree_sizes(parents: Sequence[int]) -> list[int]:
    sizes = [1] * len(parents)
    for node in range(len(parents) - 1, -1, -1):
        if parents[node] >= 0:
            sizes[parents[node]] += sizes[node]
    return sizes


def _cuts(trie: _Trie, budget: int) -> list[int]:
    # A cut in the last quarter of the budget where the path above is shortest: that path is computed again.
    cuts = [0]
    n = len(trie.tokens)
    while n - cuts[-1] > budget:
        last = cuts[-1]
        window = range(last + budget, last + budget - max(budget // 4, 1), -1)
        cuts.append(min(window, key=lambda node: trie.depths[node]))
    return [*cuts, n] if n else [0]


def _batch(trie: _Trie, start: int, stop: int, widest: int) -> Batch:
    trunk = []
    node = trie.parents[start]
    while node >= 0:
        trunk.append(trie.tokens[node])
        node = trie.parents[node]
    parents = [max(trie.parents[node] - start, -1) for node in range(start, stop)]
    depths = trie.depths[start:stop]
    return Batch(
        trunk=tuple(reversed(trunk)),
        tokens=tuple(trie.tokens[start:stop]),
        parents=tuple(parents),
        depths=tuple(depths),
        wants=tuple(Want(r, node - start, t) for node in range(start, stop) for r, t in trie.wants[node]),
        segments=tuple(_segments(parents, depths, widest)),
    )


def _segments(parents: Sequence[int], depths: Sequence[int], widest: int) -> Iterator[Segment]:
    sizes = _subtree_sizes(parents)
    start = 0
    while start < len(parents):
        stop = start + 1
        if sizes[start] > widest:
            # A wide node's next in depth-first order is its child, so a run of wide nodes is a chain.
            while stop < len(parents) and sizes[stop] > widest:
                stop += 1
        else:
            stop = start + sizes[start]
            room = start + widest
            while stop < len(parents) and stop + sizes[stop] <= room and _joins(parents, depths, start, stop):
                stop += sizes[stop]
        yield _segment(parents, depths, start, stop)
        start = stop


def _joins(parents: Sequence[int], depths: Sequence[int], first: int, second: int) -> bool:
    # Children of the trunk hang at different heights: only those of one height see the same part of it.
    return parents[first] == parents[second] and depths[first] == depths[second]


def _segment(parents: Sequence[int], depths: Sequence[int], start: int, stop: int) -> Segment:
    above = []
    node = parents[start]
    while node >= 0:
        above.append(node)
        node = parents[node]
    return Segment(start, stop, tuple(reversed(above)), trunk=depths[start] - len(above))
