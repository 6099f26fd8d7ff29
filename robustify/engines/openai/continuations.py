"""From requests to questions and from replies to scores: which prompt says how likely which continuation is.

The letters of one context are one question, what comes next; what that does not show, and every other continuation, is
read from the prompt that contains it. A letter that is not shown has no number where only next tokens are shown: it is
not made up. A token that lies across the end of the context is refused, because its probability is of both sides.
Threads keep the server busy with these questions.
"""

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from typing import TypeVar

from robustify.engines.openai.capabilities import Capabilities
from robustify.engines.openai.client import Refusal
from robustify.engines.openai.logprobs import PART, Prompt, Questions, Token, covers
from robustify.engines.plan import Encoded
from robustify.engines.protocols import Logprob
from robustify.engines.tokens import Speller, encode, split_blanks
from robustify.errors import ModelError
from robustify.views import Request

J = TypeVar("J")
R = TypeVar("R")
TOO_LONG = "does not fit into the model's context (its server says)"
GATHERED = 0.5
"""Seconds for which results are gathered before they are yielded, so that they can be kept together."""


@dataclass(frozen=True, slots=True, repr=False)
class Wanted:
    """One continuation of a job. `key`: by which its score is kept; the tokens, if the request is sent as tokens."""

    continuation: str
    key: Encoded


@dataclass(frozen=True, slots=True, repr=False)
class Job:
    """What one thread does in one go: letters of one context, or one other continuation of it."""

    context: str
    wanted: tuple[Wanted, ...]
    letters: bool


Scored = dict[Encoded, Logprob | str]
"""Scores, or why a request cannot be asked, without its text."""


def keys_of(requests: Sequence[Request], speller: Speller | None) -> list[Encoded]:
    """Return by what each score is kept: the tokens of a request, or the bytes of its text if the server makes the tokens.
    Raises `RequestError`: a continuation without tokens of its own."""
    if speller is not None:
        return encode(speller, requests)
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
    several = [
        Job(context, tuple(Wanted(text, key) for key, text in texts.items()), letters=True)
        for context, texts in letters.items()
    ]
    return several + [Job(c, (Wanted(text, key),), letters=False) for key, (c, text) in others.items()]


@dataclass(frozen=True, slots=True)
class Scoring:
    """Scores of jobs, from a server whose capabilities are known."""

    questions: Questions
    can: Capabilities
    by_tokens: bool

    def __call__(self, job: Job) -> Scored:
        """Return a score, or why there is none, for each of the job's requests.
        Raises `ModelError`: as `Questions`; a reply about another prompt than was sent."""
        try:
            return dict(self._scored(job))
        except Refusal as refusal:
            if not refusal.too_long:
                raise self._fault(f"refused a prompt ({refusal.status}); it took one in the probe") from None
            return {one.key: TOO_LONG for one in job.wanted}

    def unfit(self, job: Job) -> dict[Encoded, str]:
        """Return the requests of the job that cannot be asked, as is known without sending them, and why."""
        longest = self.can.max_length
        faults: dict[Encoded, str] = {}
        for one in job.wanted:
            n = len(one.key.context) + len(one.key.continuation)
            if not self.by_tokens and not job.context:
                faults[one.key] = "has no context, and its server takes text; name the model's `tokenizer`"
            elif self.by_tokens and longest is not None and n >= longest:
                faults[one.key] = f"has {n} tokens; the server takes {longest - 1}"
        return faults

    def _fault(self, what: str) -> ModelError:
        return self.questions.client.fault(what)

    def _scored(self, job: Job) -> Iterator[tuple[Encoded, Logprob | str]]:
        left, seen = list(job.wanted), dict[str, float]()
        if job.letters and self.can.top:
            prompt: Prompt = job.wanted[0].key.context if self.by_tokens else job.context
            likely = self.questions.following(prompt, self.can.top)
            if likely is None:
                raise self._fault("sent no `top_logprobs`; expected them, as in the capability probe")
            seen = likely
            # A letter that is sent as several tokens is no next token.
            single = [one for one in left if not self.by_tokens or len(one.key.continuation) == 1]
            shown = [one for one in single if one.continuation in seen]
            yield from ((one.key, Logprob(seen[one.continuation], 1)) for one in shown)
            left = [one for one in left if one not in shown]
        for one in left:
            if self.can.form is None:
                # No likelier than the least likely one of those that are shown.
                yield one.key, Logprob(min(seen.values(), default=0.0), 0)
            else:
                yield one.key, self._whole(job.context, one)

    def _whole(self, context: str, one: Wanted) -> Logprob | str:
        if self.by_tokens:
            tokens = self._by_tokens(one.key)
            return self._sum(tokens[len(one.key.context) :])
        tokens = self._by_text(context + one.continuation)
        n = tokens_of(one.continuation, tokens)
        if n is None and any(PART in t.text for t in tokens):
            n = self._beyond(context, tokens)
        if n is None:
            return "has a token that lies across the end of its context; name the model's `tokenizer`"
        return self._sum(tokens[len(tokens) - n :])

    def _sum(self, tokens: Sequence[Token]) -> Logprob:
        numbers = [t.logprob for t in tokens if t.logprob is not None]
        if not numbers or len(numbers) < len(tokens):
            raise self._fault(f"sent {len(numbers)} log-probabilities for {len(tokens)} tokens")
        return Logprob(sum(numbers), len(numbers))

    def _by_tokens(self, key: Encoded) -> list[Token]:
        row = key.context + key.continuation
        tokens = self._asked(row)
        if len(tokens) != len(row):
            raise self._fault(
                f"sent {len(tokens)} log-probabilities for {len(row)} tokens; expected one each"
            )
        if any(t.id not in (None, i) for t, i in zip(tokens, row, strict=True)):
            raise self._fault("sent log-probabilities of other tokens than were sent to it")
        return tokens

    def _by_text(self, text: str) -> list[Token]:
        tokens = self._asked(text)
        if not covers(tokens, text):
            raise self._fault(
                f"sent log-probabilities of {len(tokens)} tokens that are not those of the prompt ({len(text)} "
                "characters); expected all of it: it may have been cut"
            )
        return tokens

    def _asked(self, prompt: Prompt) -> list[Token]:
        assert self.can.form is not None
        tokens = self.questions.prompt(prompt, self.can.form)
        if tokens is None:
            raise self._fault("sent no log-probabilities; expected them, as in the capability probe")
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

    pool, left = ThreadPool(max(1, min(width, len(jobs)))), len(jobs)
    try:
        results = pool.imap_unordered(tried, jobs)
        while left:
            batch: list[R] = []
            until = time.monotonic() + GATHERED
            while left and (wait := until - time.monotonic()) > 0:
                try:
                    batch += results.next(wait)
                except multiprocessing.TimeoutError:
                    break
                left -= 1
            if batch:
                yield batch
    finally:
        stop.set()
        pool.close()
    if failures:
        raise failures[0]
