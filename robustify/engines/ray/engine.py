"""A model on the workers of a Ray cluster, behind the same seam as one in memory.

The paths are chosen and the totals summed here, as for a model in memory; workers compute units, which come back in
any order and are put in theirs. Only this process writes the score cache, so that a run is resumed as any other.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from robustify.engines.cache import Cache
from robustify.engines.local.engine import HF
from robustify.engines.local.paths import Pieces, Scored, Together
from robustify.engines.plan import Encoded, Plan
from robustify.engines.ray.cluster import cluster
from robustify.engines.ray.pool import RESTARTS, Pool, Task
from robustify.engines.ray.settings import RayModel
from robustify.engines.ray.worker import Failed, Hello, Spec, Worker

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


@contextmanager
def open_remote(model: RayModel, folder: Path, scores: Cache | None) -> Iterator[HF]:
    """The engine hf with its model on workers: the same recipe, the same cache, the same bits.

    Raises:
        ModelError: the folder is refused.
    """
    with HF(
        model.name,
        folder,
        model.device,
        model.dtype,
        model.budget,
        scores,
        section=model.section,
        n_threads=model.threads,
        elsewhere=partial(Remote, model, folder),
    ) as engine:
        yield engine


class Remote:
    """Copies of the model in this folder on `model.workers` workers; see `Work`. The cluster is joined with the first
    request.

    Raises:
        ModelError: ray is not installed; a worker's model, software or folder differs; workers keep being lost.
        ResourceError: no cluster, or no room on it.
    """

    def __init__(self, model: RayModel, folder: Path, recipe: Mapping[str, str]) -> None:
        self._model, self._folder, self._recipe = model, folder, recipe
        self._open = ExitStack()
        self._processors: set[str] = set()
        self.dtype = model.dtype

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, here: workers are given tokens."""
        return self._tokenizer[0]

    @property
    def max_length(self) -> int:
        """The model's context in tokens."""
        return self._tokenizer[1]

    @property
    def kind(self) -> str:
        """The model's class."""
        return self._hello.kind

    @property
    def fits(self) -> bool:
        """Whether trees are worth a trial."""
        return self._hello.fits

    @property
    def window(self) -> int | None:
        """The sliding window in tokens."""
        return self._hello.window

    def close(self) -> None:
        """End the workers, and a cluster that was started for them."""
        self._open.close()

    def trees(self, planned: Plan, needed: Sequence[bool], budget: int) -> Iterator[Pieces]:
        """See `Work`: a unit is a section."""
        flags = iter(needed)
        wanted = [[next(flags) for _ in section] for section in planned.sections]
        numbers = [number for number, section in enumerate(wanted) if any(section)]
        units = [("section", (planned.sections[n], wanted[n], budget)) for n in numbers]
        for at, pieces in self._results(units):
            yield numbers[at], pieces

    def prefixes(self, batches: Iterator[Together]) -> Iterator[Scored]:
        """See `Work`: a unit is as many batches as a section has."""
        yield from self._in_units("prefixes", batches)

    def rows(self, batches: Iterator[Together]) -> Iterator[Scored]:
        """See `Work`: a unit is as many batches as a section has."""
        yield from self._in_units("rows", batches)

    def alone(self, requests: Sequence[Encoded]) -> list[float]:
        """See `Work`."""
        totals: list[float] = _result(self._pool.call(("alone", (list(requests),))))
        return totals

    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str]:
        """See `Work`."""
        units: list[Task] = [("replies", ([list(ids)], max_tokens)) for ids in prompts]
        said: dict[int, str] = {at: reply for at, [reply] in self._results(units)}
        return [said[at] for at in range(len(prompts))]

    @cached_property
    def _tokenizer(self) -> tuple[Any, int]:
        from robustify.engines.local.model import opened_tokenizer

        return opened_tokenizer(self._folder)

    @cached_property
    def _hello(self) -> Hello:
        first: Hello = self._pool.ready()
        return first

    @cached_property
    def _pool(self) -> Pool:
        model = self._model
        ray = self._open.enter_context(cluster(model))
        folder, recipe = str(self._folder.resolve()), dict(self._recipe)
        spec = Spec(model.name, folder, model.device, model.dtype, model.threads, recipe)
        kind = ray.remote(
            num_cpus=model.threads, num_gpus=model.gpus, scheduling_strategy="SPREAD", **RESTARTS
        )(Worker)
        pool = Pool(
            ray, lambda: kind.remote(spec), self._accepted, model.workers, model.name, model.start_seconds
        )
        self._open.callback(pool.close)
        return pool

    def _accepted(self, greeting: Hello | Failed) -> Hello:
        hello = _result(greeting)
        if self._processors and hello.processor not in self._processors:
            _LOG.warning(
                "%s: workers have unlike processors (%s): the last bits of a number depend on which one computed it",
                self._model.name, ", ".join(sorted({*self._processors, hello.processor})),
            )  # fmt: skip
        self._processors.add(hello.processor)
        return hello

    def _in_units(self, method: str, batches: Iterator[Together]) -> Iterator[Scored]:
        units: list[Task] = []
        while unit := list(islice(batches, self._model.section)):
            units.append((method, (unit,)))
        yield from (scored for _, scored in self._results(units))

    def _results(self, units: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        for at, value in self._pool.run(units):
            yield at, _result(value)


def _result(value: T | Failed) -> T:
    if isinstance(value, Failed):
        raise value.error()
    return value
