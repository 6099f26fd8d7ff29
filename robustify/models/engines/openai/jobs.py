"""Divide requests to a server into jobs, run the jobs in threads, and check that the server reads whole prompts."""

import math
import secrets
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from typing import TypeVar

from robustify.base.errors import Notice
from robustify.items.views import Request
from robustify.models.engines.openai.client import Client, Json, Refusal, count_in
from robustify.models.engines.plan import Encoded, split_blanks
from robustify.models.engines.protocols import Logprob

J = TypeVar("J")
R = TypeVar("R")
TEXT = "The capital of France is Paris, and the capital of Italy is"
"""Harmless text of the probes."""
TOO_LONG = Notice("does not fit into the model's context, according to the server", code="prompt-too-long")
Scored = dict[Encoded, Logprob | str]
"""Scores, or the reason why a request cannot be scored. The reason never contains its text."""
Check = Callable[[str, Json], None]
"""Check of a prompt and the server's reply to it."""
_SEAM = 8
"""Number of tokens by which the parts of a text may differ from the whole, because tokens merge where it is cut."""
_WHOLE = 2**53
"""Number of tokens for a server that refuses long prompts instead of cutting them, or does not count."""


@dataclass(frozen=True, slots=True, repr=False)
class Job:
    """Unit of work for one thread: all letters after one context, or a single continuation of another kind."""

    context: str
    continuations: Mapping[Encoded, str]
    letters: bool


def keys_of(requests: Sequence[Request]) -> list[Encoded]:
    """Return the cache key of each request. The key contains the bytes of the text, because the server tokenizes it."""
    as_bytes = (tuple(p.encode("utf-8", "surrogatepass") for p in split_blanks(r)) for r in requests)
    return [Encoded(tuple(context), tuple(continuation)) for context, continuation in as_bytes]


def one_letter(continuation: str) -> bool:
    """Return whether the continuation is one letter, and so may be a single token."""
    return len(continuation.strip()) == 1


def jobs_of(
    requests: Sequence[Request], keys: Sequence[Encoded], is_letter: Callable[[str], object]
) -> list[Job]:
    """Group requests into jobs, with each distinct request in one job. The longest job comes first, and then jobs with
    letters. `is_letter` returns a true value for a letter."""
    continuations: dict[tuple[str, str | None], dict[Encoded, str]] = {}
    for request, key in zip(requests, keys, strict=True):
        context, continuation = split_blanks(request)
        own = None if context and is_letter(continuation) else continuation
        continuations.setdefault((context, own), {})[key] = continuation
    jobs = [Job(context, texts, letters=own is None) for (context, own), texts in continuations.items()]
    # A server that cannot read the longest one is found out at once.
    longest = max(
        jobs, key=lambda job: len(job.context) + max(map(len, job.continuations.values())), default=None
    )
    return sorted(jobs, key=lambda job: (job is not longest, not job.letters))


def in_threads(work: Callable[[J], R], jobs: Sequence[J], width: int) -> Generator[R, None, None]:
    """Run the jobs in at most `width` threads, and yield results as they finish. The first error is raised after the
    results of the jobs that had begun. An interrupt does not wait for threads, because the threads of `ThreadPool` are
    daemons, unlike those of `concurrent.futures`."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def run(job: J) -> list[R]:
        try:
            return [] if stop.is_set() else [work(job)]
        except BaseException as error:
            stop.set()
            failures.append(error)
            return []

    pool = ThreadPool(max(1, min(width, len(jobs))))
    try:
        for results in pool.imap_unordered(run, jobs):
            yield from results
    finally:
        stop.set()
        pool.close()
    if failures:
        raise failures[0]


class Reach:
    """Thread-safe check that a server reads whole prompts instead of cutting long prompts.

    `spelled` raises an error if the tokens of a prompt do not spell it. Without it, a prompt must have about as many tokens
    as its two halves, as counted in the replies to `send`. Each begins with a new number, because some servers do not count
    tokens that they have cached.
    """

    def __init__(
        self, client: Client, spelled: Callable[[str], object] | None, send: Callable[[str], Json]
    ) -> None:
        self._client, self._spelled, self._send = client, spelled, send
        self._read = 0
        self._lock = threading.Lock()

    def check(self, prompt: str, reply: Json) -> None:
        """Check that the server read this whole prompt, unless it has already read a longer prompt. Raise `ModelError` if
        the prompt was cut."""
        n = count_in(reply, "prompt_tokens")
        with self._lock:
            if n < self._read:
                return
            if self._spelled is not None:
                self._spelled(prompt)
            read = n + 1 if self._spelled is not None or not n else self._read_by_halves(prompt)
            # Some servers report the same count for every prompt.
            self._read = max(read, self._read + 1)

    def _read_by_halves(self, prompt: str) -> int:
        middle = prompt.find(" ", len(prompt) // 2) % (len(prompt) + 1)
        number = secrets.randbelow(8000) + 1000
        texts = ("", prompt[:middle], prompt[middle:], prompt)
        try:
            # The lead is longer than `_SEAM`, so that the loss shows even if the prompt is a single token too long.
            replies = [self._send(f"{number + i}. {TEXT}. {TEXT}.\n\n{text}") for i, text in enumerate(texts)]
        except Refusal:
            return _WHOLE
        n_lead, n_first, n_second, n_read = (count_in(reply, "prompt_tokens") for reply in replies)
        # Counts that are rounded to a multiple of this number are off by up to twice as much.
        grain = math.gcd(n_lead, n_first, n_second, n_read)
        if n_read + max(_SEAM, 2 * grain) < (expected := n_first + n_second - n_lead):
            raise self._client.fault(
                f"cuts long prompts: it read {n_read:,} tokens of a prompt that has {expected:,} or more. Give it a longer "
                "context (such as `num_ctx`), or use fewer shots.",
                code="cut-prompts",
            )
        return n_read or _WHOLE
