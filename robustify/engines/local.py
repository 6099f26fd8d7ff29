"""A model in memory, and the paths by which it can be scored: trees, shared prefixes, plain rows.

The fastest path that is exact is used. What is exact is found by trial: the first batch of a model is held to
scoring one by one, and again the first one with rows longer than a sliding window.
"""

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from robustify.engines.opening import device_of, keep_memory, max_length, opened
from robustify.engines.plan import Encoded, plan
from robustify.engines.prefixes import score_prefixes
from robustify.engines.recipe import near, threads
from robustify.engines.rows import score_alone, score_rows
from robustify.engines.tree import Trees, attending, fits, window

_LOG = logging.getLogger(__name__)
_WORDS = {
    "prefixes untried": ("trees", "shared prefixes, which is slower"),
    "rows": ("shared prefixes", "plain rows, which is slower still"),
}
_HELD_TO = 4
"""Requests of a batch that are scored one by one as well."""
Scored = dict[Encoded, float]
"""Requests and their summed log-probabilities."""


class Local:
    """A causal language model with transformers.

    `path` is how it was scored before, or None; `untried`, `trees`, `prefixes` or `rows` from then on.

    Raises:
        UsageError: a device that torch cannot use.
        ModelError: transformers cannot load the folder.
    """

    def __init__(self, folder: Path, device: str, dtype: str, path: str | None) -> None:
        self.device = device_of(device)
        torch.set_num_threads(threads())
        if self.device.type == "cpu":
            keep_memory()
        self.dtype = getattr(torch, dtype)
        self.tokenizer, self.model = opened(folder, self.dtype, self.device)
        self.max_length = max_length(self.model.config, self.tokenizer)
        self.path = path or ("untried" if fits(self.model) else "prefixes untried")
        self._trees: Trees | None = None
        self._budget = 0
        self._untried = {False, True}
        """Kinds of requests whose first results are still to be held to scoring one by one."""

    def close(self) -> None:
        """Give the memory back."""
        self._trees = None
        self.model = self.tokenizer = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def score(self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int) -> Iterator[Scored]:
        """Requests that are not `known`, in batches of about `budget` tokens.

        Batches are planned from all requests before anything is left out, so that a run which is resumed
        computes in the same batches, to the same bits; what is known may come back as well.
        """
        with torch.inference_mode():
            if self.path in ("untried", "trees"):
                yield from self._by_trees(requests, known, budget)
            if self.path in ("prefixes untried", "prefixes"):
                yield from self._by_prefixes(requests, known, budget)
            if self.path == "rows":
                yield from score_rows(self.model, requests, known, budget, self.device)

    def _by_trees(
        self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int
    ) -> Iterator[Scored]:
        planned = plan(requests, budget)
        needed = [any(requests[want.request] not in known for want in b.wants) for b in planned.batches]
        left = [len(r.continuation) for r in requests]
        totals = [0.0] * len(requests)
        with attending(self.model):
            if self._trees is None or self._budget != budget:
                self._trees, self._budget = Trees(self.model, self.device, budget), budget
            for unit in self._tried(self._trees.score(planned, needed), lambda: self.path == "untried"):
                if unit is None:
                    break
                fresh = {}
                for number, logprob in unit:
                    totals[number] += logprob
                    left[number] -= 1
                    if left[number] == 0:
                        fresh[requests[number]] = totals[number]
                if not self._holds(fresh, _is_deep(self.model)):
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
        batches = score_prefixes(self.model, requests, known, budget, self.device)
        # Some models take a context and then have no cache to go on from.
        for fresh in self._tried(batches, lambda: True in self._untried):
            if fresh is None or not self._holds(fresh, lambda request: len(request.continuation) > 1):
                break
            self.path = "prefixes"
            yield fresh
        else:
            return
        self._go_on_with("rows")

    def _go_on_with(self, path: str) -> None:
        _LOG.warning("%s: %s are not exact for this model or refused by it; going on with %s",
                     type(self.model).__name__, *_WORDS[path])  # fmt: skip
        self.path = path
        self._untried = {False, True}

    def _tried(self, batches: Iterator[Any], still: Callable[[], bool]) -> Iterator[Any]:
        """The batches; None where a model that is `still` on trial refuses to be run in this way."""
        try:
            yield from batches
        except _REFUSALS as error:
            if not still() or is_out_of_memory(error):
                raise
            yield None

    def _holds(self, fresh: Scored, kind: Callable[[Encoded], bool]) -> bool:
        """Whether the first results of either kind are what scoring one by one gives."""
        for one in sorted(self._untried & {kind(request) for request in fresh}):
            if not self._agrees({r: total for r, total in fresh.items() if kind(r) == one}):
                return False
            self._untried.remove(one)
        return True

    def _agrees(self, fresh: Scored) -> bool:
        held = list(fresh)[:: max(1, len(fresh) // _HELD_TO)][:_HELD_TO]
        with attending(self.model, plainly=True):
            alone = [score_alone(self.model, r, self.device) for r in held]
        # NaN is near nothing, and then the fault is the model's, not the path's.
        return all(
            not (abs(a - fresh[r]) > near(str(self.dtype).removeprefix("torch.")))
            for a, r in zip(alone, held, strict=True)
        )


def _is_deep(model: Any) -> Callable[[Encoded], bool]:
    """Whether a row is longer than the sliding window, where there is one."""
    seen = window(model.config.get_text_config())
    return lambda request: seen is not None and len(request.row) > seen


_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError, AssertionError)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch means that there was no memory: a CPU says so in words only."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)
