"""Scoring of continuations with a completions server.

The letters of one context share a single request for likely next tokens. Other continuations, and letters that are not
among these tokens, are scored from a prompt that contains them. If the server returns only next tokens, a missing letter
gets an upper bound instead of a score. A token that crosses the end of the context is refused, because its probability
covers both sides. Requests run in parallel threads.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from typing import TypeVar

from robustify.engines.openai.capabilities import Capabilities
from robustify.engines.openai.client import Refusal
from robustify.engines.openai.logprobs import PART, Questions, Token, covers
from robustify.engines.plan import Encoded
from robustify.engines.protocols import Logprob
from robustify.engines.tokens import split_blanks
from robustify.errors import ModelError
from robustify.views import Request

J = TypeVar("J")
R = TypeVar("R")
TOO_LONG = "does not fit into the model's context, according to the server"
GATHERED = 0.5
"""Seconds to collect results before yielding them, so that they are stored together."""


@dataclass(frozen=True, slots=True, repr=False)
class Job:
    """Unit of work of one thread: all letters that continue a context, or one other continuation, with cache keys."""

    context: str
    wanted: Mapping[Encoded, str]
    letters: bool


Scored = dict[Encoded, Logprob | str]
"""Scores, or the reason why a request cannot be scored. The reason never contains its text."""


def keys_of(requests: Sequence[Request]) -> list[Encoded]:
    """Return the cache key of each request. The key contains the bytes of the text, because the server tokenizes it."""
    as_bytes = (tuple(p.encode("utf-8", "surrogatepass") for p in split_blanks(r)) for r in requests)
    return [Encoded(tuple(context), tuple(continuation)) for context, continuation in as_bytes]


def one_letter(continuation: str) -> bool:
    """Return whether the continuation is one letter, which can be a single token."""
    return len(continuation.strip()) == 1


def jobs_of(
    requests: Sequence[Request], keys: Sequence[Encoded], letter_of: Callable[[str], object] = one_letter
) -> list[Job]:
    """Return the jobs in the order of the requests, with each distinct request in one job.
    `letter_of` returns a true value for a letter."""
    letters: dict[str, dict[Encoded, str]] = {}
    others: dict[Encoded, tuple[str, str]] = {}
    for request, key in zip(requests, keys, strict=True):
        context, continuation = split_blanks(request)
        if letter_of(continuation) and context:
            letters.setdefault(context, {})[key] = continuation
        else:
            others.setdefault(key, (context, continuation))
    several = [Job(context, texts, letters=True) for context, texts in letters.items()]
    return several + [Job(c, {key: text}, letters=False) for key, (c, text) in others.items()]


@dataclass(frozen=True, slots=True)
class Scoring:
    """Callable that scores jobs with a server whose capabilities are known."""

    questions: Questions
    can: Capabilities

    def __call__(self, job: Job) -> Scored:
        """Return a score, or the reason why there is none, for each request of the job.
        Raise `ModelError` if the server fails or returns unusable numbers, or its reply is about another prompt."""
        if not job.context:
            return dict.fromkeys(
                job.wanted, "has no context, which a server needs; run this model with the engine hf"
            )
        try:
            return dict(self._scored(job))
        except Refusal as refusal:
            if not refusal.too_long:
                raise self._fault(
                    f"refused a prompt ({refusal.status}), although it accepted one in the capability probe"
                ) from None
            return dict.fromkeys(job.wanted, TOO_LONG)

    def _fault(self, what: str) -> ModelError:
        return self.questions.client.fault(what)

    def _scored(self, job: Job) -> Iterator[tuple[Encoded, Logprob | str]]:
        seen: Mapping[str, float] = {}
        if job.letters and self.can.top:
            likely = self.questions.following(job.context, self.can.top)
            if likely is None:
                raise self._fault("sent no `top_logprobs`, although it did so in the capability probe")
            seen = likely
        for key, continuation in job.wanted.items():
            if continuation in seen:
                yield key, Logprob(seen[continuation], 1)
            elif self.can.form is None:
                # The upper bound is the least likely of the tokens shown.
                yield key, Logprob(min(seen.values(), default=0.0), 0)
            else:
                yield key, self._whole(job.context, continuation)

    def _whole(self, context: str, continuation: str) -> Logprob | str:
        tokens = self._asked(context + continuation)
        n = tokens_of(continuation, tokens)
        if n is None and any(PART in t.text for t in tokens):
            n = self._beyond(context, tokens)
        if n is None:
            return "has a token that crosses the end of its context; run this model with the engine hf"
        own = tokens[len(tokens) - n :]
        numbers = [t.logprob for t in own if t.logprob is not None]
        if not numbers or len(numbers) < n:
            raise self._fault(f"sent {len(numbers)} log-probabilities for {n} tokens")
        return Logprob(sum(numbers), n)

    def _asked(self, text: str) -> list[Token]:
        assert self.can.form is not None
        tokens = self.questions.prompt(text, self.can.form)
        if tokens is None:
            raise self._fault("sent no log-probabilities, although it did so in the capability probe")
        if not covers(tokens, text):
            raise self._fault(
                f"sent log-probabilities of {len(tokens)} tokens that do not spell the prompt ({len(text)} "
                "characters). The prompt may have been shortened."
            )
        return tokens

    def _beyond(self, context: str, tokens: Sequence[Token]) -> int | None:
        """Return the number of tokens that follow the context, using the rule of lm-eval (`_encode_pair`)."""
        alone = self._asked(context)
        same = [t.text for t in alone] == [t.text for t in tokens[: len(alone)]]
        return len(tokens) - len(alone) if same and len(tokens) > len(alone) else None


def tokens_of(ending: str, tokens: Sequence[Token]) -> int | None:
    """Return the number of final tokens that spell `ending`, or None if a token spans its start or part of a character."""
    length, count = 0, None
    for n, token in enumerate(reversed(tokens), start=1):
        if PART in token.text and length < len(ending):
            return None
        length += len(token.text)
        # The first token of a prompt has no log-probability, and in one format no text.
        if length > len(ending) or token.logprob is None:
            break
        # Parts of a character have empty texts, except for its last part.
        count = n if length == len(ending) else count
    return count


def in_threads(work: Callable[[J], R], jobs: Sequence[J], width: int) -> Iterator[list[R]]:
    """Run the jobs in at most `width` threads and yield results in batches as they finish.

    After the first error, no job is started. Pending results are still yielded before the error is raised. An interrupt
    does not wait for threads, because those of `ThreadPool` are daemons. `concurrent.futures` would join its threads when
    the process ends, and so wait for a server that hangs.
    """
    stop = threading.Event()
    failures: list[BaseException] = []

    def tried(job: J) -> list[R]:
        if stop.is_set():
            return []
        try:
            return [work(job)]
        except BaseException as error:
            stop.set()
            failures.append(error)
            return []

    pool = ThreadPool(max(1, min(width, len(jobs))))
    batch: list[R] = []
    until = time.monotonic() + GATHERED
    try:
        for found in pool.imap_unordered(tried, jobs):
            batch += found
            if time.monotonic() >= until:
                yield batch
                batch, until = [], time.monotonic() + GATHERED
        yield batch
    finally:
        stop.set()
        pool.close()
    if failures:
        raise failures[0]
