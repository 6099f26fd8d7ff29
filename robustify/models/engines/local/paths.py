"""Choose the scoring path of a model: prefix trees, or plain rows of tokens if trees are not exact for the model.

The first results of a model, and the first beyond a sliding window, are compared with one-by-one scoring. This module does
not know where scores are computed and does not import torch.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

from robustify.models.engines.plan import SECTION, Encoded, Sections, Tokens, plan_batches
from robustify.models.engines.protocols import tolerance

_LOG = logging.getLogger(__name__)
_CHECKED = 4
"""Number of requests per batch that are also scored one by one."""
Scored = dict[Encoded, float]
"""Summed log-probability of each request."""
Pieces = list[tuple[int, float]]
"""Pairs (request, token log-probability) of a batch, in depth-first order."""
Rows = tuple[tuple[Tokens, tuple[Encoded, ...]], ...]
"""Batch of rows of similar length, each with its requests."""


class Refused(Exception):
    """Raised if a model does not support a scoring path. The cause is the original error."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Model properties that determine the scoring path: class name, dtype, sliding window, and whether trees
    can be tried."""

    kind: str
    dtype: str
    fits: bool
    window: int | None


class Work(Protocol):
    """Interface of a model that is ready for requests, in this process or on Ray workers (`Local`, `Remote`). Methods raise
    `Refused` if the model does not support an operation. Results arrive in the order of the plan."""

    @property
    def traits(self) -> Traits: ...  # noqa: D102
    @property
    def max_length(self) -> int: ...  # noqa: D102
    @property
    def tokenizer(self) -> Any: ...  # noqa: D102
    def trees(self, sections: Sections, needed: Sequence[Sequence[bool]]) -> Iterator[Pieces]: ...  # noqa: D102
    def rows(self, batches: Iterator[Rows]) -> Iterator[Scored]: ...  # noqa: D102
    def alone(self, requests: Sequence[Encoded]) -> list[float]: ...  # noqa: D102
    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str]: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class Paths:
    """Scorer that uses the fastest scoring path that is exact for its model. `path` is at first the path of earlier scores
    or None, and becomes `untried`, `trees`, or `rows`. A section of a plan has `section` batches."""

    def __init__(self, work: Work, path: str | None, section: int = SECTION) -> None:
        self._work, self._section = work, section
        # Earlier versions may have stored the name of another path.
        stored = path if path in ("trees", "rows") else None
        self.path = stored or ("untried" if work.traits.fits else "rows")
        self._untried = {False, True}
        """Whether deep (True) and short (False) rows still have to be compared with one-by-one scoring."""

    def score(self, requests: Sequence[Encoded], cached: frozenset[Encoded], budget: int) -> Iterator[Scored]:
        """Yield, batch by batch, the scores of all requests that are not `cached`. Cached requests may also be scored.
        Batches of about `budget` tokens are planned from all requests, so a resumed run gets bit-identical scores."""
        if self.path != "rows":
            yield from self._by_trees(requests, cached, budget)
        if self.path == "rows":
            yield from self._work.rows(row_batches(requests, cached, budget))

    def _by_trees(
        self, requests: Sequence[Encoded], cached: frozenset[Encoded], budget: int
    ) -> Iterator[Scored]:
        sections = plan_batches(requests, budget, self._section)
        needed = [
            [any(requests[want.request] not in cached for want in batch.wants) for batch in section]
            for section in sections
        ]
        n_missing, totals = [len(request.continuation) for request in requests], [0.0] * len(requests)
        try:
            for pieces in self._work.trees(sections, needed):
                fresh: Scored = {}
                for number, logprob in pieces:
                    # One at a time, because float sums depend on the order, and `sum` on the version of Python.
                    totals[number] += logprob
                    n_missing[number] -= 1
                    if not n_missing[number]:
                        fresh[requests[number]] = totals[number]
                if not self._is_exact(fresh):
                    break
                # Some batches contain only a part of one long continuation.
                if fresh:
                    self.path = "trees"
                    yield fresh
            else:
                return
        except Refused as refusal:
            if self.path == "trees":
                raise (refusal.__cause__ or refusal) from None
        _LOG.warning(
            "%s: prefix trees are not exact for this model or not supported; using plain rows instead",
            self._work.traits.kind,
        )
        self.path = "rows"

    def _is_exact(self, fresh: Scored) -> bool:
        """Return whether the first results agree with one-by-one scoring, within and beyond the sliding window."""
        window = self._work.traits.window
        by_depth: dict[bool, list[Encoded]] = {False: [], True: []}
        for request in fresh:
            by_depth[window is not None and len(request.row) > window].append(request)
        for is_deep in sorted(is_deep for is_deep in self._untried if by_depth[is_deep]):
            checked = by_depth[is_deep][:: max(1, len(by_depth[is_deep]) // _CHECKED)][:_CHECKED]
            one_by_one = zip(checked, self._work.alone(checked), strict=True)
            dtype = self._work.traits.dtype
            # Comparisons with NaN are false. NaN is a fault of the model, not of the path.
            if any(abs(a - fresh[r]) > tolerance(dtype, len(r.continuation)) for r, a in one_by_one):
                return False
            self._untried.remove(is_deep)
        return True


def row_batches(requests: Sequence[Encoded], cached: frozenset[Encoded], max_tokens: int) -> Iterator[Rows]:
    """Yield batches of distinct rows with their requests, longest rows first. A batch has about `max_tokens` tokens.
    Batches are formed from all requests, but a batch is skipped if all its requests are cached."""
    distinct = sorted(set(requests), key=lambda r: (-len(r.row), r.row, r.continuation))
    rows = [(row, tuple(same)) for row, same in groupby(distinct, key=lambda r: r.row)]
    while rows:
        size = max(1, max_tokens // len(rows[0][0]))
        batch, rows = tuple(rows[:size]), rows[size:]
        if not all(request in cached for _, same in batch for request in same):
            yield batch
