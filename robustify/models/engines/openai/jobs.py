"""Units of work for a server, and the threads that run them."""

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from typing import TypeVar

from robustify.items.views import Request
from robustify.models.engines.plan import Encoded
from robustify.models.engines.protocols import Logprob
from robustify.models.engines.tokens import split_blanks

J = TypeVar("J")
R = TypeVar("R")
TOO_LONG = "does not fit into the model's context, according to the server"
Scored = dict[Encoded, Logprob | str]
"""Scores, or the reason why a request cannot be scored. The reason never contains its text."""


@dataclass(frozen=True, slots=True, repr=False)
class Job:
    """Unit of work of one thread: all letters that continue a context, or one other continuation, with cache keys."""

    context: str
    wanted: Mapping[Encoded, str]
    letters: bool


def keys_of(requests: Sequence[Request]) -> list[Encoded]:
    """Return the cache key of each request. The key contains the bytes of the text, because the server tokenizes it."""
    as_bytes = (tuple(p.encode("utf-8", "surrogatepass") for p in split_blanks(r)) for r in requests)
    return [Encoded(tuple(context), tuple(continuation)) for context, continuation in as_bytes]


def one_letter(continuation: str) -> bool:
    """Return whether the continuation is one letter, which can be a single token."""
    return len(continuation.strip()) == 1


def jobs_of(
    requests: Sequence[Request], keys: Sequence[Encoded], is_letter: Callable[[str], object] = one_letter
) -> list[Job]:
    """Return the jobs in the order of the requests, the longest and those of letters first, with each distinct request in
    one job. `is_letter` returns a true value for a letter."""
    wanted: dict[tuple[str, str | None], dict[Encoded, str]] = {}
    for request, key in zip(requests, keys, strict=True):
        context, continuation = split_blanks(request)
        own = None if context and is_letter(continuation) else continuation
        wanted.setdefault((context, own), {})[key] = continuation
    jobs = [Job(context, texts, letters=own is None) for (context, own), texts in wanted.items()]
    # A server that cannot read the longest one is found out at once.
    longest = max(jobs, key=lambda job: len(job.context) + max(map(len, job.wanted.values())), default=None)
    return sorted(jobs, key=lambda job: (job is not longest, not job.letters))


def in_threads(work: Callable[[J], R], jobs: Sequence[J], width: int) -> Generator[R, None, None]:
    """Run the jobs in at most `width` threads and yield results as they finish.

    After the first error, no job is started. Other results are still yielded before the error is raised. An interrupt
    does not wait for threads, because those of `ThreadPool` are daemons. `concurrent.futures` would join its threads when
    the process ends, and so wait for a server that hangs.
    """
    stop = threading.Event()
    failures: list[BaseException] = []

    def tried(job: J) -> list[R]:
        try:
            return [] if stop.is_set() else [work(job)]
        except BaseException as error:
            stop.set()
            failures.append(error)
            return []

    pool = ThreadPool(max(1, min(width, len(jobs))))
    try:
        for found in pool.imap_unordered(tried, jobs):
            yield from found
    finally:
        stop.set()
        pool.close()
    if failures:
        raise failures[0]
