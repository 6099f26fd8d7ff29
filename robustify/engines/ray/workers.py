"""The workers of a Ray cluster: what runs on one, and the pool that hands out units of work and takes results.

A worker holds one model in memory. Where its model or software is not that of the machine which asks, it refuses to
work: its numbers would be others. What goes wrong is returned as a value, so that a worker which is lost is never taken
for a model that refuses. A worker that is lost (killed, out of memory, its machine gone) is started again by Ray
(`max_restarts`), which runs its task again there (`max_task_retries`).
"""

import os
import socket
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import robustify
from robustify import errors
from robustify.engines.local.paths import Refused, Scored, Together, Traits
from robustify.engines.plan import Batch, Encoded
from robustify.errors import ModelError, ResourceError, RobustifyError, first_line

if TYPE_CHECKING:
    from robustify.engines.local.model import Local

T = TypeVar("T")
_SETTINGS = ("device", "dtype", "max_batch_tokens", "section", "threads")
"""Parts of a recipe that the config sets, and so the same everywhere."""
MOST = 3
"""Workers that one task may lose."""
RESTARTS: dict[str, int] = {"max_restarts": -1, "max_task_retries": MOST - 1}
"""The options with which workers are made."""
Task = tuple[str, tuple[Any, ...]]
"""The name of a worker's method, and what it is given."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a worker opens: `recipe` is what it must find there, `version` the robustify that asks."""

    name: str
    folder: str
    device: str
    dtype: str
    threads: int
    recipe: Mapping[str, str]
    version: str = robustify.__version__


@dataclass(frozen=True, slots=True)
class Hello:
    """A worker that is ready. `processor` is what its last bits depend on."""

    traits: Traits
    processor: str


@dataclass(frozen=True, slots=True)
class Failed:
    """What a worker could not do. `lines` are those of an error of ours, or what the model raised."""

    why: Literal["refused", "memory", "error"]
    kind: str
    lines: tuple[str, ...]

    def error(self) -> Exception:
        """The same as an exception, as it would have been raised here."""
        text = "; ".join(self.lines)
        match self.why:
            case "memory":
                return MemoryError(text)
            case "refused":
                refused = Refused(text)
                refused.__cause__ = RuntimeError(f"{self.kind}: {text}")
                return refused
            case "error":
                error: Exception = getattr(errors, self.kind, ModelError)(*self.lines)
                return error


class Worker:
    """One copy of a model, opened by `hello` or, where Ray has started the worker again, by the first unit."""

    def __init__(self, spec: Spec) -> None:
        # Before torch is loaded, which reads it once.
        os.environ["OMP_NUM_THREADS"] = str(spec.threads)
        self._spec = spec
        self._local: Local | None = None

    def hello(self) -> Hello | Failed:
        """Open the model, if it is the one that is wanted."""
        return _as_value(self._hello)

    def section(
        self, batches: Sequence[Batch], needed: Sequence[bool], budget: int
    ) -> list[tuple[int, float]] | Failed:
        """Every piece of a section that is needed, in order."""
        return _as_value(lambda: [p for ps in self._model().section(batches, needed, budget) for p in ps])

    def prefixes(self, batches: Sequence[Together]) -> Scored | Failed:
        """The totals of these batches, by shared prefixes."""
        return _as_value(lambda: {r: t for part in self._model().prefixes(batches) for r, t in part.items()})

    def rows(self, batches: Sequence[Together]) -> Scored | Failed:
        """The totals of these batches, in plain rows."""
        return _as_value(lambda: {r: t for part in self._model().rows(batches) for r, t in part.items()})

    def alone(self, requests: Sequence[Encoded]) -> list[float] | Failed:
        """Each request all by itself."""
        return _as_value(lambda: self._model().alone(requests))

    def replies(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[str] | Failed:
        """What the model says next after each prompt."""
        return _as_value(lambda: self._model().replies(prompts, max_tokens))

    def _hello(self) -> Hello:
        import torch

        local = self._model()
        if local.device.type == "cuda":
            return Hello(local.traits, torch.cuda.get_device_name(local.device))
        return Hello(local.traits, torch.backends.cpu.get_cpu_capability())

    def _model(self) -> "Local":
        if self._local is None:
            from robustify.engines.local.model import Local

            spec = self._spec
            _check(spec)
            self._local = Local(Path(spec.folder), spec.device, spec.dtype, spec.threads)
        return self._local


def _check(spec: Spec) -> None:
    from robustify.engines.recipe import recipe
    from robustify.models.folder import check_folder

    where = f"{spec.name}: worker on {socket.gethostname()}"
    if robustify.__version__ != spec.version:
        raise ModelError(
            f"{where}: has robustify {robustify.__version__}; expected {spec.version}, as on the machine that "
            "asks: install the same on every machine"
        )
    folder = Path(spec.folder)
    if not folder.is_dir():
        raise ModelError(
            f"{where}: has no folder {folder}; expected the model there, as on the machine that asks: put it on "
            "a disk that all machines see, or copy it to the same place on each"
        )
    check_folder(folder)
    here = recipe(folder, spec.device, spec.dtype, 0, n_threads=spec.threads)
    other = [n for n, v in spec.recipe.items() if n not in _SETTINGS and here.get(n) != v]
    if other:
        raise ModelError(
            f"{where}: differs in {', '.join(other)}; expected the same files and versions as on the machine "
            "that asks"
        )


def _as_value(work: Callable[[], T]) -> T | Failed:
    """What the work gives, or why it cannot be done. What else is raised is a bug, and not caught."""
    from robustify.engines.local.model import is_out_of_memory

    try:
        return work()
    except RobustifyError as error:
        return Failed("error", type(error).__name__, error.lines)
    except Refused as refusal:
        cause = refusal.__cause__ or refusal
        return Failed("refused", type(cause).__name__, (first_line(cause),))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return Failed("memory", type(error).__name__, (first_line(error),))


class Pool:
    """Workers made with the options `RESTARTS`, each idle once its `hello` has returned; `greeted` is then given what all
    that are ready have said. `name` is that of the model, for errors. What a worker `Failed` to do is raised.

    Raises:
        ModelError: workers are lost again and again on one task, or before they are ready.
        ResourceError: no worker is ready after `patience` seconds.
    """

    def __init__(
        self,
        ray: Any,
        workers: Sequence[Any],
        greeted: Callable[[Sequence[Any]], None],
        name: str,
        patience: float,
    ) -> None:
        self._ray, self._workers, self._greeted = ray, workers, greeted
        self._name, self._patience = name, patience
        self._idle: list[Any] = []
        self._starting = {worker.hello.remote(): worker for worker in workers}
        self.greetings: list[Any] = []
        """What each worker that is ready has said."""

    def ready(self, n: int = 1) -> Any:
        """What the first worker says, once `n` are ready."""
        while len(self.greetings) < n:
            self._wait({})
        return self.greetings[0]

    def call(self, task: Task) -> Any:
        """The result of one task."""
        return next(iter([result for _, result in self.run([task])]))

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[int, Any], None, None]:
        """The number of each task and its result, as they come. Before the next one is taken there may be a `call`: the
        worker that the last one came from is idle until then."""
        todo = deque(range(len(tasks)))
        left = set(todo)
        busy: dict[Any, tuple[Any, int]] = {}
        try:
            while left:
                while todo and self._idle:
                    worker, number = self._idle.pop(), todo.popleft()
                    method, given = tasks[number]
                    busy[getattr(worker, method).remote(*given)] = worker, number
                done = self._wait(busy)
                for ref in done:
                    worker, number = busy.pop(ref)
                    self._idle.append(worker)
                    result = self._result(ref, f"unit {number + 1} of {len(tasks)} has lost {MOST} workers")
                    if number in left:
                        left.remove(number)
                        yield number, result
                if not done and self._idle and not todo:
                    # Where a machine is gone and there is no room for its workers, others do their tasks too.
                    todo.extend({number for _, number in busy.values()})
        finally:
            # Those still at work end that first: what they are given next waits for it.
            self._idle += [worker for worker, _ in busy.values()]

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            self._ray.kill(worker, no_restart=True)
        self._workers, self._idle, self._starting = [], [], {}

    def _wait(self, busy: dict[Any, tuple[Any, int]]) -> list[Any]:
        """Which of the busy are done. Workers that have become ready meanwhile are idle."""
        refs = [*busy, *self._starting]
        done, _ = self._ray.wait(refs, num_returns=1, timeout=self._patience)
        if not done and not busy:
            raise ResourceError(
                f"{self._name}: no worker was ready after {self._patience:g} s; expected room for one: fewer threads "
                "a worker, a larger cluster, or more start_seconds"
            )
        for ref in done:
            if ref in self._starting:
                self._idle.append(self._starting.pop(ref))
                hello = self._result(ref, f"{MOST} workers were lost while they opened the model")
                self.greetings.append(hello)
                self._greeted(self.greetings)
        return [ref for ref in done if ref in busy]

    def _result(self, ref: Any, lost: str) -> Any:
        """The result of a task; `lost`: what happened where Ray has given it up."""
        try:
            result = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError as error:
            raise ModelError(
                f"{self._name}: {lost}, one after the other ({type(error).__name__}); expected memory for it, and "
                "robustify[hf] on every machine: fewer max_batch_tokens or threads, or larger machines (Ray's own logs "
                "say more)"
            ) from None
        if isinstance(result, Failed):
            raise result.error()
        return result
