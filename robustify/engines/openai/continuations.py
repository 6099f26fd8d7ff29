"""From requests to questions and from replies to scores: which prompt says how likely which continuation is.

The letters of one context are one question, what comes next; what that does not show, and every other continuation, is
read from the prompt that contains it. A letter that is not shown has no number where only next tokens are shown: it is
not made up. A token that lies across the end of the context is refused, because its probability is of both sides.
Threads keep the server busy with these questions.
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
TOO_LONG = "does not fit into the model's context (its server says)"
GATHERED = 0.5
"""Seconds for which results are gathered before they are yielded, so that they can be kept together."""


@dataclass(frozen=True, slots=True, repr=False)
class Job:
    """What one thread does in one go: letters of one context, or one other continuation of it, by their keys."""

    context: str
    wanted: Mapping[Encoded, str]
    letters: bool


Scored = dict[Encoded, Logprob | str]
"""Scores, or why a request cannot be asked, without its text."""


def keys_of(requests: Sequence[Request]) -> list[Encoded]:
    """Return by what each score is kept: the bytes of a request's text, because the server makes the tokens."""
    as_bytes = (tuple(p.encode("utf-8", "surrogatepass") for p in split_blanks(r)) for r in requests)
    return [Encoded(tuple(context), tuple(continuation)) for context, continuation in as_bytes]


def one_letter(continuation: str) -> bool:
    """Return whether a continuation is one letter, which may be one token."""
    return len(continuation.strip()) == 1


def jobs_of(
    requests: Sequence[Request], keys: Sequence[Encoded], letter_of: Callable[[str], object] = one_letter
) -> list[Job]:
    """Return the jobs in the order of the requests, each distinct request in one job. `letter_of` tells the letters."""
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
    """Scores of jobs, from a server whose capabilities are known."""

    questions: Questions
    can: Capabilities

    def __call__(self, job: Job) -> Scored:
        """Return a score, or why there is none, for each of the job's requests.
        Raises `ModelError`: as `Questions`; a reply about another prompt than was sent."""
        if not job.context:
            return dict.fromkeys(
                job.wanted, "has no context, and a server needs one; ask this model with engine hf"
            )
        try:
            return dict(self._scored(job))
        except Refusal as refusal:
            if not refusal.too_long:
                raise self._fault(f"refused a prompt ({refusal.status}); it took one in the probe") from None
            return dict.fromkeys(job.wanted, TOO_LONG)

    def _fault(self, what: str) -> ModelError:
        return self.questions.client.fault(what)

    def _scored(self, job: Job) -> Iterator[tuple[Encoded, Logprob | str]]:
        seen: Mapping[str, float] = {}
        if job.letters and self.can.top:
            likely = self.questions.following(job.context, self.can.top)
            if likely is None:
                raise self._fault("sent no `top_logprobs`; expected them, as in the capability probe")
            seen = likely
        for key, continuation in job.wanted.items():
            if continuation in seen:
                yield key, Logprob(seen[continuation], 1)
            elif self.can.form is None:
                # No likelier than the least likely one of those that are shown.
                yield key, Logprob(min(seen.values(), default=0.0), 0)
            else:
                yield key, self._whole(job.context, continuation)

    def _whole(self, context: str, continuation: str) -> Logprob | str:
        tokens = self._asked(context + continuation)
        n = tokens_of(continuation, tokens)
        if n is None and any(PART in t.text for t in tokens):
            n = self._beyond(context, tokens)
        if n is None:
            return "has a token that lies across the end of its context; ask this model with engine hf"
        own = tokens[len(tokens) - n :]
        numbers = [t.logprob for t in own if t.logprob is not None]
        if not numbers or len(numbers) < n:
            raise self._fault(f"sent {len(numbers)} log-probabilities for {n} tokens")
        return Logprob(sum(numbers), n)

    def _asked(self, text: str) -> list[Token]:
        assert self.can.form is not None
        tokens = self.questions.prompt(text, self.can.form)
        if tokens is None:
            raise self._fault("sent no log-probabilities; expected them, as in the capability probe")
        if not covers(tokens, text):
            raise self._fault(
                f"sent log-probabilities of {len(tokens)} tokens that are not those of the prompt ({len(text)} "
                "characters); expected all of it: it may have been cut"
            )
        return tokens

    def _beyond(self, context: str, tokens: Sequence[Token]) -> int | None:
        """Return how many tokens come after those of the context alone, as lm-eval counts them (`_encode_pair`)."""
        alone = self._asked(context)
        same = [t.text for t in alone] == [t.text for t in tokens[: len(alone)]]
        return len(tokens) - len(alone) if same and len(tokens) > len(alone) else None


def tokens_of(ending: str, tokens: Sequence[Token]) -> int | None:
    """Return how many of the last tokens spell this ending; None if one lies across its beginning or shows no text."""
    length, count = 0, None
    for n, token in enumerate(reversed(tokens), start=1):
        if PART in token.text and length < len(ending):
            return None
        length += len(token.text)
        # The first token of a prompt has no number, and in one of the forms no text.
        if length > len(ending) or token.logprob is None:
            break
        # Parts of a letter show as empty texts before its last one: they belong to it.
        count = n if length == len(ending) else count
    return count


def in_threads(work: Callable[[J], R], jobs: Sequence[J], width: int) -> Iterator[list[R]]:
    """Yield results in batches, in the order in which they come, of at most `width` jobs at once.

    After the first error no job is begun; results on the way are still yielded, and then the error is raised. An interrupt
    waits for no thread: those of a `ThreadPool` are daemons, while `concurrent.futures` joins its own when the process
    ends, and so would wait for a server that hangs.
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
