"""The paths by which a model can be scored: trees, or plain rows where trees are not exact.

What is exact is found by trial: the first results of a model are compared with scoring one by one, and again the first
ones of rows longer than a sliding window. Where the computing is done is not known here. Pure: no torch.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

from robustify.engines.plan import SECTION, Encoded, Sections, Tokens, plan_batches
from robustify.engines.recipe import drift, near

_LOG = logging.getLogger(__name__)
_CHECKED = 4
"""Requests of a batch that are scored one by one as well."""
Scored = dict[Encoded, float]
"""Requests and their summed log-probabilities."""
Pieces = tuple[int, list[tuple[int, float]]]
"""The number of a section, and of some of its batches in a row (request, log-probability of one token)."""
Rows = tuple[tuple[Tokens, tuple[Encoded, ...]], ...]
"""A batch: rows of like length, each with its requests."""


class Refused(Exception):
    """A model cannot be run in this way; the cause is what it raised."""


@dataclass(frozen=True, slots=True)
class Traits:
    """The model's class; torch's name of its precision; whether trees are worth a trial; its sliding window in tokens."""

    kind: str
    dtype: str
    fits: bool
    window: int | None


class Work(Protocol):
    """A model that can be asked now: in this process (`Local`), or on workers (`Remote`). `max_length`: its context in
    tokens. What it refuses to do it raises as `Refused`."""

    @property
    def traits(self) -> Traits: ...  # noqa: D102
    @property
    def max_length(self) -> int: ...  # noqa: D102
    @property
    def tokenizer(self) -> Any: ...  # noqa: D102

    def trees(self, sections: Sections, needed: Sequence[Sequence[bool]]) -> Iterator[Pieces]:
        """Yield the pieces of every section with batches that are `needed` (a flag each). Those of a section come in
        their order, sections in any."""
        ...

    def rows(self, batches: Iterator[Rows]) -> Iterator[Scored]:
        """Yield the totals of batches of plain rows, batch by batch."""
        ...

    def alone(self, requests: Sequence[Encoded]) -> list[float]:
        """Return each request all by itself: no row beside it, no cache, the model's own attention."""
        ...

    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str]:
        """Return what the model says next after each prompt, given in tokens."""
        ...

    def close(self) -> None:
        """Give its memory back."""
        ...


class Paths:
    """How one model is scored. `path` is how it was scored before, or None; `untried`, `trees` or `rows` from then on.
    A section of a plan has `section` batches."""

    def __init__(self, work: Work, path: str | None, section: int = SECTION) -> None:
        self._work, self._section = work, section
        # Scores that were kept by earlier versions may name another path.
        known = path if path in ("trees", "rows") else None
        self.path = known or ("untried" if work.traits.fits else "rows")
        self._untried = {False, True}
        """Kinds of requests (deep or not) whose first results are still to be compared with scoring one by one."""

    def score(self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int) -> Iterator[Scored]:
        """Score requests that are not `known`, in batches of about `budget` tokens.

        Batches are planned from all requests before anything is left out, so that a resumed run computes in the same
        batches, to the same bits; what is known may come back as well.
        """
        if self.path != "rows":
            yield from self._by_trees(requests, known, budget)
        if self.path == "rows":
            yield from self._work.rows(row_batches(requests, known, budget))

    def _by_trees(
        self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int
    ) -> Iterator[Scored]:
        sections = plan_batches(requests, budget, self._section)
        needed = [
            [any(requests[want.request] not in known for want in batch.wants) for batch in section]
            for section in sections
        ]
        sums = Sums(requests)
        try:
            for unit in self._work.trees(sections, needed):
                fresh = sums.completed_by(unit)
                if not self._is_exact(fresh):
                    break
                # The end of one long continuation may be all that some batches have.
                if fresh:
                    self.path = "trees"
                    yield fresh
            else:
                return
        except Refused as refusal:
            if self.path == "trees":
                raise (refusal.__cause__ or refusal) from None
        kind = self._work.traits.kind
        _LOG.warning(
            "%s: trees are not exact for this model or refused by it; going on with plain rows", kind
        )
        self.path = "rows"

    def _is_exact(self, fresh: Scored) -> bool:
        """Return whether the first results of short rows, and of deep ones, are what scoring one by one gives."""
        for deep in sorted(self._untried & {self._is_deep(request) for request in fresh}):
            if not self._agrees({r: total for r, total in fresh.items() if self._is_deep(r) == deep}):
                return False
            self._untried.remove(deep)
        return True

    def _agrees(self, fresh: Scored) -> bool:
        checked = list(fresh)[:: max(1, len(fresh) // _CHECKED)][:_CHECKED]
        alone = self._work.alone(checked)
        # NaN is near nothing, and then the fault is the model's, not the path's.
        most = near(self._work.traits.dtype)
        return all(
            not (abs(a - fresh[r]) > most * drift(len(r.continuation)))
            for a, r in zip(alone, checked, strict=True)
        )

    def _is_deep(self, request: Encoded) -> bool:
        """Return whether a row is longer than the sliding window, where there is one."""
        window = self._work.traits.window
        return window is not None and len(request.row) > window


class Sums:
    """The totals of requests, whose tokens come in several batches, and maybe in several sections."""

    def __init__(self, requests: Sequence[Encoded]) -> None:
        self._requests = requests
        self._pieces: dict[int, list[tuple[int, float]]] = {}

    def completed_by(self, pieces: Pieces) -> Scored:
        """Return the requests that have all their tokens now."""
        section, logprobs = pieces
        fresh = {}
        for number, logprob in logprobs:
            own = self._pieces.setdefault(number, [])
            own.append((section, logprob))
            if len(own) == len(self._requests[number].continuation):
                # In the order of the walk, whichever section came first: sums of floats depend on it.
                own.sort(key=lambda piece: piece[0])
                fresh[self._requests[number]] = _sum(logprob for _, logprob in self._pieces.pop(number))
        return fresh


def _sum(values: Iterator[float]) -> float:
    # Not `sum`, which from Python 3.12 on rounds in another way.
    total = 0.0
    for value in values:
        total += value
    return total


def row_batches(requests: Sequence[Encoded], known: frozenset[Encoded], most_tokens: int) -> Iterator[Rows]:
    """Yield distinct requests by row, longest rows first, in batches of about `most_tokens` tokens. Batches depend on all
    requests; one of `known` requests alone is left out."""
    distinct = sorted(set(requests), key=lambda r: (-len(r.row), r.row, r.continuation))
    rows = [(row, tuple(same)) for row, same in groupby(distinct, key=lambda r: r.row)]
    while rows:
        size = max(1, most_tokens // len(rows[0][0]))
        batch, rows = tuple(rows[:size]), rows[size:]
        if not all(request in known for _, same in batch for request in same):
            yield batch
