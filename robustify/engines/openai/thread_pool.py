"""Threads that keep a server busy: always as many jobs on the way as allowed, results in batches as they come.

The first error ends it: no new job is begun, what is on the way is waited for and yielded, and then the error is raised.
An interrupt waits for no thread: that, and batches by time, is what `concurrent.futures` does not do.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

J = TypeVar("J")
R = TypeVar("R")

GATHERED = 0.5
"""Seconds for which results are gathered before they are yielded, so that they can be kept together."""


class ThreadPool(Generic[J, R]):
    """`work` is called with each job by one of `width` threads; `on_error` once, when the first one fails."""

    def __init__(self, work: Callable[[J], R], width: int, on_error: Callable[[], None]) -> None:
        self._work = work
        self._width = width
        self._on_error = on_error
        self._results: queue.SimpleQueue[R | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._stop = False

    def done(self, jobs: Sequence[J]) -> Iterator[list[R]]:
        """Batches of results in the order in which they come.

        Raises:
            BaseException: the first that a job raised, after the last result.
        """
        left = iter(jobs)
        # Daemons: a process that is interrupted does not wait for a server that hangs.
        threads = [
            threading.Thread(target=self._run, args=(left,), daemon=True)
            for _ in range(min(self._width, len(jobs)))
        ]
        for thread in threads:
            thread.start()
        try:
            ended = 0
            while ended < len(threads):
                batch, over = self._gathered()
                ended += over
                if batch:
                    yield batch
        finally:
            self._stop = True
        if self._failure is not None:
            raise self._failure

    def _gathered(self) -> tuple[list[R], int]:
        batch: list[R] = []
        until = time.monotonic() + GATHERED
        while (wait := until - time.monotonic()) > 0:
            try:
                result = self._results.get(timeout=wait)
            except queue.Empty:
                break
            if result is None:
                return batch, 1
            batch.append(result)
        return batch, 0

    def _run(self, left: Iterator[J]) -> None:
        try:
            while (job := self._next(left)) is not None:
                self._results.put(self._work(job[0]))
        except BaseException as error:
            self._failed(error)
        finally:
            self._results.put(None)

    def _next(self, left: Iterator[J]) -> tuple[J] | None:
        with self._lock:
            if self._stop:
                return None
            return next(((job,) for job in left), None)

    def _failed(self, error: BaseException) -> None:
        with self._lock:
            first, self._stop = self._failure is None, True
            self._failure = self._failure or error
        if first:
            self._on_error()
