"""A model in memory, which computes what its paths tell it: sections of trees, shared prefixes, rows."""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from robustify.engines.local.batches import Together, context_batches, row_batches
from robustify.engines.local.opening import device_of, keep_memory, max_length, opened
from robustify.engines.local.paths import Paths, Pieces, Refused, Scored
from robustify.engines.local.prefixes import score_contexts
from robustify.engines.local.replies import reply
from robustify.engines.local.rows import score_alone, score_rows
from robustify.engines.local.tree import Trees, attending, fits, window
from robustify.engines.plan import SECTION, Batch, Encoded, Plan
from robustify.engines.recipe import threads


class Local:
    """A causal language model with transformers; `path` as in `Paths`.

    `n_threads`: of this process, as many as `recipe.threads` says unless given.

    Raises:
        UsageError: a device that torch cannot use.
        ModelError: transformers cannot load the folder.
    """

    def __init__(
        self,
        folder: Path,
        device: str,
        dtype: str,
        path: str | None,
        *,
        section: int = SECTION,
        n_threads: int | None = None,
    ) -> None:
        self.device = device_of(device)
        torch.set_num_threads(n_threads or threads())
        if self.device.type == "cpu":
            keep_memory()
        self.dtype = dtype
        self.tokenizer, self.model = opened(folder, getattr(torch, dtype), self.device)
        self.max_length = max_length(self.model.config, self.tokenizer)
        self.kind = type(self.model).__name__
        self.fits = fits(self.model)
        self.window = window(self.model.config.get_text_config())
        self._trees: Trees | None = None
        self._budget = 0
        self._paths = Paths(self, path, section)

    @property
    def path(self) -> str:
        """By which path the model is scored."""
        return self._paths.path

    def close(self) -> None:
        """Give the memory back."""
        self._trees = None
        self.model = self.tokenizer = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def score(self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int) -> Iterator[Scored]:
        """See `Paths.score`."""
        with torch.inference_mode():
            yield from self._paths.score(requests, known, budget)

    def trees(self, planned: Plan, needed: Sequence[bool], budget: int) -> Iterator[Pieces]:
        """See `Work`."""
        asked = iter(needed)
        for number, section in enumerate(planned.sections):
            for pieces in self.section(section, [next(asked) for _ in section], budget):
                yield number, pieces

    def section(
        self, batches: Sequence[Batch], needed: Sequence[bool], budget: int
    ) -> Iterator[list[tuple[int, float]]]:
        """See `Trees.score`."""
        with attending(self.model), _refusing():
            if self._trees is None or self._budget != budget:
                self._trees, self._budget = Trees(self.model, self.device, budget), budget
            yield from self._trees.score(batches, needed)

    def prefixes(
        self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int
    ) -> Iterator[Scored]:
        """See `Work`."""
        yield from self.contexts(context_batches(requests, known, budget))

    def rows(self, requests: Sequence[Encoded], known: frozenset[Encoded], budget: int) -> Iterator[Scored]:
        """See `Work`."""
        yield from self.plain_rows(row_batches(requests, known, budget))

    def contexts(self, batches: Iterable[Together]) -> Iterator[Scored]:
        """The totals of batches of contexts, batch by batch."""
        with _refusing():
            for batch in batches:
                yield score_contexts(self.model, batch, self.device)

    def plain_rows(self, batches: Iterable[Together]) -> Iterator[Scored]:
        """The totals of batches of rows, batch by batch."""
        for batch in batches:
            yield score_rows(self.model, batch, self.device)

    def alone(self, requests: Sequence[Encoded]) -> list[float]:
        """See `Work`."""
        with attending(self.model, plainly=True):
            return [score_alone(self.model, request, self.device) for request in requests]

    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str]:
        """What the model says next after each prompt, given in tokens."""
        return [reply(self.model, self.tokenizer, ids, max_tokens) for ids in prompts]


_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError, AssertionError)


@contextmanager
def _refusing() -> Iterator[None]:
    """What a model raises that cannot be run in this way, as `Refused`."""
    try:
        yield
    except _REFUSALS as error:
        if is_out_of_memory(error):
            raise
        raise Refused from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch means that there was no memory: a CPU says so in words only."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)
