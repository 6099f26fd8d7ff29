"""The paths by which a model can be scored: trees, shared prefixes, plain rows; the fastest that is exact is used.

What is exact is found by trial: the first results of a model are held to scoring one by one, and again the first
ones of rows longer than a sliding window. Where the computing is done, here or on other machines, is not known here.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from robustify.engines.plan import SECTION, Encoded, Plan, plan
from robustify.engines.recipe import near

_LOG = logging.getLogger(__name__)
_WORDS = {
    "prefixes untried": ("trees", "shared prefixes, which is slower"),
    "rows": ("shared prefixes", "plain rows, which is slower still"),
}
_HELD_TO = 4
"""Requests of a batch that are scored one by one as well."""
Scored = dict[Encoded, float]
"""Requests and their summed log-probabilities."""
Pieces = tuple[int, list[tuple[int, float]]]
"""The number of a section, and of some of its batches in a row (request, log-probability of one token)."""
T = TypeVar("T")


class Refused(Exception):
    """A model cannot be run in this way; the cause is what it raised."""


class Work(Protocol):
    """A model that computes what it is told. What it refuses to do it raises as `Refused`."""

    @property
    def kind(self) -> str:
        """The model's class."""
        ...

    @property
    def dtype(self) -> str:
        """In which precision it computes, by torch's name."""
        ...

    @property
    def fits(self) -> bool:
        """Whether trees are worth a trial."""
        ...

    @property
    def window(self) -> int | None:
        """The sliding window in tokens."""
        ...

    def trees(self, planned: Plan, needed: Sequence[bool], budget: int) -> Iterator[Pieces]:
        """The pieces of every section that is `needed` (a flag a batch of the plan). Those of a section come in
        their order, sections in any."""
        ...

    def prefixes(
        self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int
    ) -> Iterator[Scored]:
        """Requests that are not `known`, by shared prefixes, batch by batch."""
        ...

    def rows(self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int) -> Iterator[Scored]:
        """Requests that are not `known`, in plain rows, batch by batch."""
        ...

    def alone(self, requests: Sequence[Encoded]) -> list[float]:
        """Each request all by itself, without any shortcut of ours."""
        ...


class Paths:
    """How one model is scored. `path` is how it was scored before, or None; `untried`, `trees`, `prefixes` or
    `rows` from then on. A section of a plan has `section` batches."""

    def __init__(self, work: Work, path: str | None, section: int = SECTION) -> None:
        self._work, self._section = work, section
        self.path = path or ("untried" if work.fits else "prefixes untried")
        self._untried = {False, True}
        """Kinds of requests whose first results are still to be held to scoring one by one."""

    def score(self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int) -> Iterator[Scored]:
        """Requests that are not `known`, in batches of about `budget` tokens.

        Batches are planned from all requests before anything is left out, so that a run which is resumed
        computes in the same batches, to the same bits; what is known may come back as well.
        """
        if self.path in ("untried", "trees"):
            yield from self._by_trees(requests, known, budget)
        if self.path in ("prefixes untried", "prefixes"):
            yield from self._by_prefixes(requests, known, budget)
        if self.path == "rows":
            yield from self._work.rows(requests, known, budget)

    def _by_trees(
        self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int
    ) -> Iterator[Scored]:
        planned = plan(requests, budget, self._section)
        needed = [any(requests[want.request] not in known for want in b.wants) for b in planned.batches]
        sums = _Sums(requests)
        units = self._work.trees(planned, needed, budget)
        for unit in _tried(units, lambda: self.path == "untried"):
            if unit is None:
                break
            fresh = sums.completed_by(unit)
            if not self._holds(fresh, self._is_deep):
                break
            # The end of one long continuation may be all that some batches hold.
            if fresh:
                self.path = "trees"
                yield fresh
        else:
            return
        self._go_on_with("prefixes untried")

    def _by_prefixes(
        self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int
    ) -> Iterator[Scored]:
        batches = self._work.prefixes(requests, known, budget)
        # Some models take a context and then have no cache to go on from.
        for fresh in _tried(batches, lambda: True in self._untried):
            if fresh is None or not self._holds(fresh, lambda request: len(request.continuation) > 1):
                break
            self.path = "prefixes"
            yield fresh
        else:
            return
        self._go_on_with("rows")

    def _go_on_with(self, path: str) -> None:
        _LOG.warning("%s: %s are not exact for this model or refused by it; going on with %s",
                     self._work.kind, *_WORDS[path])  # fmt: skip
        self.path = path
        self._untried = {False, True}

    def _holds(self, fresh: Scored, kind: Callable[[Encoded], bool]) -> bool:
        """Whether the first results of either kind are what scoring one by one gives."""
        for one in sorted(self._untried & {kind(request) for request in fresh}):
            if not self._agrees({r: total for r, total in fresh.items() if kind(r) == one}):
                return False
            self._untried.remove(one)
        return True

    def _agrees(self, fresh: Scored) -> bool:
        held = list(fresh)[:: max(1, len(fresh) // _HELD_TO)][:_HELD_TO]
        alone = self._work.alone(held)
        # NaN is near nothing, and then the fault is the model's, not the path's.
        return all(not (abs(a - fresh[r]) > near(self._work.dtype)) for a, r in zip(alone, held, strict=True))

    def _is_deep(self, request: Encoded) -> bool:
        """Whether a row is longer than the sliding window, where there is one."""
        return self._work.window is not None and len(request.row) > self._work.window


class _Sums:
    """The totals of requests, whose tokens come in several batches, and maybe in several sections."""

    def __init__(self, requests: Sequence[Encoded]) -> None:
        self._requests = requests
        self._held: dict[int, list[tuple[int, float]]] = {}

    def completed_by(self, pieces: Pieces) -> Scored:
        """The requests that have all their tokens now."""
        section, found = pieces
        fresh = {}
        for number, logprob in found:
            held = self._held.setdefault(number, [])
            held.append((section, logprob))
            if len(held) == len(self._requests[number].continuation):
                # In the order of the walk, whichever section came first: sums of floats depend on it.
                held.sort(key=lambda piece: piece[0])
                fresh[self._requests[number]] = _sum(logprob for _, logprob in self._held.pop(number))
        return fresh


def _sum(values: Iterator[float]) -> float:
    # Not `sum`, which from Python 3.12 on rounds in another way.
    total = 0.0
    for value in values:
        total += value
    return total


def _tried(batches: Iterator[T], still: Callable[[], bool]) -> Iterator[T | None]:
    """The batches; None where a model that is `still` on trial refuses to be run in this way."""
    try:
        yield from batches
    except Refused as refusal:
        if not still():
            raise (refusal.__cause__ or refusal) from None
        yield None
