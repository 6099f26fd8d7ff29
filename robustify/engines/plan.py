"""Which token is computed once, and where: requests become rows, rows that begin alike become packs, packs batches.

Pure lists and no torch. A pack is a small tree of tokens: every token knows its parent, so a beginning that
several rows share stands in it once. It decides nothing about numbers: whoever cannot compute trees exactly asks
for packs that are chains.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
class Read:
    """Where a request is read off: continuation token `i` is predicted at place `nodes[i]` of the pack."""

    request: Encoded
    nodes: Tokens


@dataclass(frozen=True, slots=True)
class Pack:
    """Tokens that are computed together. `parents[i]` is the place of the token before token i, -1 at a start."""

    tokens: Tokens
    parents: Tokens
    reads: tuple[Read, ...]

    @property
    def chain(self) -> bool:
        """Whether it is one plain row, so that ordinary causal attention is right."""
        return all(parent == i - 1 for i, parent in enumerate(self.parents))

    @property
    def depths(self) -> list[int]:
        """The position of each token in its own row, from 0."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        return depths

    @property
    def places(self) -> list[int]:
        """The places at which the output head is needed, each once."""
        return sorted({node for read in self.reads for node in read.nodes})


def packs(requests: Sequence[Encoded], *, most: int, deepest: int) -> list[Pack]:
    """Every distinct request in one pack. A pack holds about `most` tokens, or one longer row.

    Rows of at most `deepest` tokens share their beginnings; longer ones are chains (`deepest=0`: all are). The
    result depends on the set of requests alone, not on their order.
    """
    by_row: dict[Tokens, list[Encoded]] = {}
    for request in sorted(set(requests), key=lambda r: (r.row, r.context, r.continuation)):
        by_row.setdefault(request.row, []).append(request)
    short = sorted(row for row in by_row if len(row) <= deepest)
    long = sorted(row for row in by_row if len(row) > deepest)
    return [
        _pack(rows, by_row)
        for rows in (*_slices(short, _cuts(short, most)), *_slices(long, _chain_cuts(long)))
        if rows
    ]


def batches(planned: Sequence[Pack], *, most_tokens: int, most_places: int) -> Iterator[list[Pack]]:
    """Packs of like length together, longest first: at most `most_tokens` with padding, `most_places` head places."""
    batch: list[Pack] = []
    places = 0
    for pack in sorted(planned, key=lambda p: (p.chain, -len(p.tokens), p.tokens)):
        n = len(pack.places)
        full = batch and (
            pack.chain != batch[0].chain
            or (len(batch) + 1) * len(batch[0].tokens) > most_tokens
            or places + n > most_places
        )
        if full:
            yield batch
            batch, places = [], 0
        batch.append(pack)
        places += n
    if batch:
        yield batch


def _common(a: Tokens, b: Tokens) -> int:
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))


def _slices(rows: Sequence[Tokens], cuts: Sequence[int]) -> list[Sequence[Tokens]]:
    return [rows[a:b] for a, b in pairwise([0, *cuts, len(rows)])]


def _chain_cuts(rows: Sequence[Tokens]) -> list[int]:
    # In sorted order a row that begins another stands right before it: both are read off the longer one.
    return [i for i, (a, b) in enumerate(pairwise(rows), 1) if b[: len(a)] != a]


def _cuts(rows: Sequence[Tokens], most: int) -> list[int]:
    common = [0, *(_common(a, b) for a, b in pairwise(rows))]
    cuts: list[int] = []
    while rows and (end := _cut(rows, common, cuts[-1] if cuts else 0, most)) < len(rows):
        cuts.append(end)
    return cuts


def _cut(rows: Sequence[Tokens], common: Sequence[int], start: int, most: int) -> int:
    """Where the pack that begins at `start` ends: past half of `most`, where the shared beginning is shortest."""
    size = len(rows[start])
    candidates: list[int] = []
    for end in range(start + 1, len(rows)):
        if 2 * size >= most:
            candidates.append(end)
        size += len(rows[end]) - common[end]
        if size > most:
            return min(candidates or [end], key=lambda cut: (common[cut], -cut))
    return len(rows)


def _pack(rows: Sequence[Tokens], by_row: dict[Tokens, list[Encoded]]) -> Pack:
    tokens: list[int] = []
    parents: list[int] = []
    reads: list[Read] = []
    path: list[int] = []
    before: Tokens = ()
    for row in rows:
        path = path[: _common(before, row)]
        for token in row[len(path) :]:
            parents.append(path[-1] if path else -1)
            path.append(len(tokens))
            tokens.append(token)
        for request in by_row[row]:
            reads.append(Read(request, tuple(path[len(request.context) - 1 :])))
        before = row
    return Pack(tuple(tokens), tuple(parents), tuple(reads))
