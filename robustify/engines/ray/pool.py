"""Hands tasks to the workers of a Ray cluster and takes results as they come.

A worker that is lost (killed, out of memory, its machine gone) is replaced and its task is run again; a task that
loses one worker after the other is refused. Each task yields one result, in whatever order.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

from robustify.errors import ModelError, ResourceError

_LOG = logging.getLogger(__name__)
MOST = 3
"""Workers that one task may lose, or that may be lost one after the other before any is ready."""
Task = tuple[str, tuple[Any, ...]]
"""The name of a worker's method, and what it is given."""


class Pool:
    """`n` workers, each made by `make`. What a worker's `hello` says `accept` takes, or raises what it refuses;
    then the worker is ready. `name` stands in errors.

    Raises:
        ModelError: workers are lost before any is ready, or again and again on one task.
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
        self._ray, self._make, self._accept = ray, make, accept
        self._name, self._patience = name, patience
        self._idle: list[Any] = []
        self._starting: dict[Any, Any] = {}
        self._leaving: dict[Any, Any] = {}
        """Workers that still do what nobody waits for any more."""
        self._lost_at_start = 0
        self.greetings: list[Any] = []
        """What every worker has said when it was ready."""
        for _ in range(n):
            self._start()

    def ready(self) -> Any:
        """What the first worker says when it is ready."""
        while not self.greetings:
            self._wait({})
        return self.greetings[0]

    def call(self, task: Task) -> Any:
        """The result of one task."""
        return next(iter([result for _, result in self.run([task])]))

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[int, Any], None, None]:
        """The number of each task and its result, as they come. Whoever takes one may `call` before the next: the
        worker that it came from is idle until then."""
        todo = deque(range(len(tasks)))
        lost: Counter[int] = Counter()
        busy: dict[Any, tuple[Any, int]] = {}
        try:
            while todo or busy:
                while todo and self._idle:
                    worker, number = self._idle.pop(), todo.popleft()
                    method, given = tasks[number]
                    busy[getattr(worker, method).remote(*given)] = worker, number
                for done in self._wait(busy):
                    worker, number = busy.pop(done)
                    there, result = self._result(done)
                    if there:
                        self._idle.append(worker)
                        yield number, result
                        continue
                    lost[number] += 1
                    self._refuse_deadly(lost[number], number, len(tasks))
                    todo.appendleft(number)
                    self._replace(worker)
        finally:
            self._leaving |= {ref: worker for ref, (worker, _) in busy.items()}

    def close(self) -> None:
        """End the workers."""
        for worker in [*self._idle, *self._starting.values(), *self._leaving.values()]:
            self._ray.kill(worker, no_restart=True)
        self._idle, self._starting, self._leaving = [], {}, {}

    def _start(self) -> None:
        worker = self._make()
        self._starting[worker.hello.remote()] = worker

    def _replace(self, worker: Any) -> None:
        self._ray.kill(worker, no_restart=True)
        self._start()

    def _wait(self, busy: dict[Any, tuple[Any, int]]) -> list[Any]:
        """Which of the busy are done. Workers that have become ready meanwhile are idle."""
        every = [*busy, *self._starting, *self._leaving]
        done, _ = self._ray.wait(every, num_returns=1, timeout=None if busy else self._patience)
        if not done:
            raise ResourceError(
                f"{self._name}: no worker was ready after {self._patience:g} s; expected room for one: fewer threads "
                "a worker, a larger cluster, or more start_seconds"
            )
        for ref in done:
            if ref in self._starting:
                self._greeted(ref, self._starting.pop(ref))
            elif ref in self._leaving:
                worker = self._leaving.pop(ref)
                self._idle.append(worker) if self._result(ref)[0] else self._replace(worker)
        return [ref for ref in done if ref in busy]

    def _greeted(self, ref: Any, worker: Any) -> None:
        there, greeting = self._result(ref)
        if there:
            self._lost_at_start = 0
            self._idle.append(worker)
            self.greetings.append(self._accept(greeting))
            return
        self._lost_at_start += 1
        if self._lost_at_start >= MOST:
            raise ModelError(
                f"{self._name}: {MOST} workers were lost while they opened the model; expected room for it in memory, "
                "and robustify[hf] on every machine (Ray's own logs say more)"
            )
        self._replace(worker)

    def _result(self, ref: Any) -> tuple[bool, Any]:
        """Whether the worker lived to give one, and its result."""
        lost = self._ray.exceptions
        try:
            return True, self._ray.get(ref)
        except lost.RayTaskError:
            raise
        except lost.RayError as error:
            _LOG.warning(
                "%s: a worker was lost (%s); another takes its work", self._name, type(error).__name__
            )
            return False, None

    def _refuse_deadly(self, times: int, number: int, n: int) -> None:
        if times >= MOST:
            raise ModelError(
                f"{self._name}: unit {number + 1} of {n} has lost {times} workers, one after the other; expected "
                "memory for it: fewer max_batch_tokens or threads, or larger machines (Ray's own logs say more)"
            )
