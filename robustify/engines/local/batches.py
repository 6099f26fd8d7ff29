"""What is computed together where trees are not used: contexts of one length, or rows of like length.

Pure: the batches depend on all requests alone, so that whoever computes some of them computes the same ones.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from robustify.engines.plan import Encoded, Tokens

Same = tuple[Tokens, tuple[Encoded, ...]]
"""A context and its requests, or a row and its requests."""
Together = tuple[Same, ...]
"""A batch."""


def context_batches(
    requests: Sequence[Encoded], known: frozenset[Encoded], most_tokens: int
) -> Iterator[Together]:
    """Distinct requests by context, longest contexts first.

    A batch has contexts of one length, and at most `most_tokens` tokens in the cache of its continuations; one
    whose requests are all `known` is left out.
    """
    distinct = sorted(set(requests), key=lambda r: (-len(r.context), r.context, r.continuation))
    contexts = [(context, tuple(same)) for context, same in groupby(distinct, key=lambda r: r.context)]
    for _, alike in groupby(contexts, key=lambda c: len(c[0])):
        for batch in _full(list(alike), most_tokens):
            if not _is_known(batch, known):
                yield batch


def row_batches(
    requests: Sequence[Encoded], known: frozenset[Encoded], most_tokens: int
) -> Iterator[Together]:
    """Distinct requests by row, longest rows first, about `most_tokens` tokens a batch; a batch whose requests
    are all `known` is left out."""
    distinct = sorted(set(requests), key=lambda r: (-len(r.row), r.row, r.continuation))
    rows = [(row, tuple(same)) for row, same in groupby(distinct, key=lambda r: r.row)]
    while rows:
        size = max(1, most_tokens // len(rows[0][0]))
        batch, rows = tuple(rows[:size]), rows[size:]
        if not _is_known(batch, known):
            yield batch


def _full(contexts: Sequence[Same], most_tokens: int) -> Iterator[Together]:
    batch: list[Same] = []
    held = 0
    for context, same in contexts:
        needs = sum(len(request.row) for request in same)
        if batch and held + needs > most_tokens:
            yield tuple(batch)
            batch, held = [], 0
        batch.append((context, same))
        held += needs
    yield tuple(batch)


def _is_known(batch: Together, known: frozenset[Encoded]) -> bool:
    return all(request in known for _, same in batch for request in same)
