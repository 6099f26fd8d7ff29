"""Hands tasks to the workers of a Ray cluster and takes results as they come.

A worker that is lost (killed, out of memory, its machine gone) is started again by Ray (`max_restarts`), which runs its
task again there (`max_task_retries`); a task that loses one worker after the other is refused. Each task yields one
result, in whatever order.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

from robustify.errors import ModelError, ResourceError

MOST = 3
"""Workers that one task may lose."""
RESTARTS: dict[str, int] = {"max_restarts": -1, "max_task_retries": MOST - 1}
"""The options with which workers are made."""
Task = tuple[str, tuple[Any, ...]]
"""The name of a worker's method, and what it is given."""


class Pool:
    """`n` workers, each made by `make` with the options `RESTARTS`. What a worker's `hello` says `accept` takes, or
    raises what it refuses; then the worker is ready. `name` is that of the model, for errors.

    Raises:
        ModelError: workers are lost again and again on one task, or before they are ready.
        ResourceError: no worker is ready after `patience` seconds.
    """

    def __init__(
        self,
        ray: Any,
        make: Callable[[], Any],
        accept: Callable[[Any], Any],
        n: int,
        name: str,
        patience: float,
    ) -> None:
        self._ray, self._accept = ray, accept
        self._name, self._patience = name, patience
        self._idle: list[Any] = []
        self._starting: dict[Any, Any] = {}
        self._leaving: dict[Any, Any] = {}
        """Workers that still compute what is not wanted any more."""
        self.greetings: list[Any] = []
        """What `accept` made of each worker that is ready."""
        self._workers = [make() for _ in range(n)]
        for worker in self._workers:
            self._starting[worker.hello.remote()] = worker

    def ready(self) -> Any:
        """What the first worker says when it is ready."""
        while not self.greetings:
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
                    result = self._result(ref, f"unit {number + 1} of {len(tasks)} has lost {MOST} workers")
                    self._idle.append(worker)
                    if number in left:
                        left.remove(number)
                        yield number, result
                if not done and self._idle and not todo:
                    # Where a machine is gone and there is no room for its workers, others do their tasks too.
                    todo.extend({number for _, number in busy.values()})
        finally:
            self._leaving |= {ref: worker for ref, (worker, _) in busy.items()}

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            self._ray.kill(worker, no_restart=True)
        self._workers, self._idle, self._starting, self._leaving = [], [], {}, {}

    def _wait(self, busy: dict[Any, tuple[Any, int]]) -> list[Any]:
        """Which of the busy are done. Workers that have become ready meanwhile are idle."""
        refs = [*busy, *self._starting, *self._leaving]
        done, _ = self._ray.wait(refs, num_returns=1, timeout=self._patience)
        if not done and not busy:
            raise ResourceError(
                f"{self._name}: no worker was ready after {self._patience:g} s; expected room for one: fewer threads "
                "a worker, a larger cluster, or more start_seconds"
            )
        for ref in done:
            if ref in self._starting:
                worker = self._starting.pop(ref)
                greeting = self._result(ref, f"{MOST} workers were lost while they opened the model")
                self._idle.append(worker)
                self.greetings.append(self._accept(greeting))
            elif ref in self._leaving:
                self._idle.append(self._leaving.pop(ref))
        return [ref for ref in done if ref in busy]

    def _result(self, ref: Any, lost: str) -> Any:
        """The result of a task; `lost`: what happened where Ray has given it up."""
        try:
            return self._ray.get(ref)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError as error:
            raise ModelError(
                f"{self._name}: {lost}, one after the other ({type(error).__name__}); expected memory for it, and "
                "robustify[hf] on every machine: fewer max_batch_tokens or threads, or larger machines (Ray's own logs "
                "say more)"
            ) from None
