"""Engine that implements `Scorer` and `Writer` for a model behind an OpenAI-compatible server.

The server's numbers are checked for consistency before any item is sent. Cached scores are not requested again. If the
server keeps failing, finished scores are kept, but no partial result is returned. The weights of such a model are unknown
here, and its fingerprint says so.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from robustify.engines.cache import Cache, CachedScores
from robustify.engines.openai.capabilities import Capabilities, probe_server
from robustify.engines.openai.client import Client, Json, Refusal, Unreachable
from robustify.engines.openai.continuations import (
    TOO_LONG,
    Job,
    Scored,
    Scoring,
    in_threads,
    jobs_of,
    keys_of,
    one_letter,
)
from robustify.engines.openai.letters import LENGTHS, ByChat, letter_of, read_letter, read_replies
from robustify.engines.openai.logprobs import Questions
from robustify.engines.plan import Encoded
from robustify.engines.protocols import NO_LETTER, Closing, Logprob, Progress, Reply, no_progress
from robustify.engines.settings import DEFAULT_SAMPLES, OpenAIModel
from robustify.errors import DataError, ModelError, RequestError
from robustify.views import BY_CHAT, Request, Template

VERSION = "openai-1"
"""Version of the engine. It is part of the recipe, so each version has separate scores."""
UNKNOWN = "unknown (remote)"
FIRST_TRIES = 2
"""Maximum number of retries of the first contact, so that a wrong address is reported soon."""
_SAME_PROBE = 0.2
_HELLO = "Say hello."
# Pairs of the path for generating text and the field for the length of a reply.
_WRITING = (*(("chat", length) for length in LENGTHS), ("completions", LENGTHS[0]))


class OpenAIServer(Closing):
    """Model on a server. Nothing is sent before the first request or call of `fingerprint`. Raise `ModelError` if the
    openai package is not installed, and the errors of `refuse_servers` and `key_for`."""

    def __init__(self, model: OpenAIModel, cache: Cache | None = None) -> None:
        self.name = model.name
        self._model = model
        self._client = Client(model)
        self._questions = Questions(self._client)
        self._cache = cache

    def __repr__(self) -> str:
        return f"OpenAIServer({self.name!r})"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def usage(self) -> Json:
        """Return the numbers of requests and tokens sent, and their cost at the configured prices."""
        return self._client.usage.as_log(self._model)

    @cached_property
    def capabilities(self) -> Capabilities:
        """Requests that the server supports, as found by the capability probe."""
        return probe_server(self._questions)

    def fingerprint(self) -> dict[str, str]:
        """Return the properties that scores depend on, as far as the server reports them.
        `probe` contains log-probabilities of a harmless text, which identify the model."""
        return {**self._recipe, "licence": "see the model's provider"}

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        """Return one log-probability per request. Identical requests are sent only once.
        Raise `RequestError` if requests do not fit into the context of the model, or cannot be scored by a server. Raise
        `ModelError` if the server keeps failing or returns unusable numbers. Finished scores are kept."""
        can = self.capabilities
        keys = sampled_keys(requests) if can.chat else keys_of(requests)
        asked, kept = Counter(keys), CachedScores(self._cache, self._recipe, self.name)
        known = kept.known(asked)
        progress(sum(asked[key] for key in known))
        # Jobs are planned from all requests, so that a resumed run sends the same requests as an uninterrupted one.
        planned = jobs_of(requests, keys, letter_of if can.chat else one_letter)
        jobs = [job for job in planned if not known.keys() >= job.wanted.keys()]
        if can.form is None and (not (can.top or can.chat) or not all(job.letters for job in jobs)):
            raise self._client.fault("returns no prompt log-probabilities, so only letters can be scored")
        samples = self._model.samples or DEFAULT_SAMPLES
        scoring = Sampling(self._client, can.chat, samples) if can.chat else Scoring(self._questions, can)
        unfit: dict[Encoded, str] = {}
        try:
            for batch in in_threads(scoring, jobs, self._model.concurrency):
                fresh = {key: value for scored in batch for key, value in scored.items() if key not in known}
                unfit |= {key: why for key, why in fresh.items() if isinstance(why, str)}
                known |= kept.keep({k: v for k, v in fresh.items() if isinstance(v, Logprob)})
                progress(sum(asked[key] for key in fresh))
        except ModelError as error:
            raise self._broken_off(error, len(asked), len(known)) from None
        if unfit:
            raise RequestError.of({i: unfit[key] for i, key in enumerate(keys) if key in unfit})
        return [known[key] for key in keys]

    @property
    def has_chat_template(self) -> bool:
        """Whether prompts go through the server's chat template."""
        return self._writing[0] == "chat"

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """Return one reply per prompt, in the order of the prompts. Raise `DataError` if prompts do not fit into the
        context of the model. Raise `ModelError` if the server keeps failing or cannot generate text."""
        writing = self._writing
        replies: dict[int, Reply | None] = {}

        def one(number: int) -> tuple[int, Reply | None]:
            try:
                return number, self._reply(prompts[number], max_tokens, *writing)
            except Refusal as refusal:
                if not refusal.too_long:
                    raise self._client.fault(f"refused a prompt ({refusal.status})") from None
                return number, None

        numbers = range(len(prompts))
        for batch in in_threads(one, numbers, self._model.concurrency):
            replies.update(batch)
        too_long = sorted(number for number, reply in replies.items() if reply is None)
        if too_long:
            raise DataError.gather([f"prompt {number}: {TOO_LONG}" for number in too_long])
        return [reply for _, reply in sorted(replies.items()) if reply is not None]

    @cached_property
    def _writing(self) -> tuple[str, str]:
        """First API path and length parameter that the server accepts for text generation."""
        for path, length in _WRITING:
            try:
                self._reply(_HELLO, 8, path, length)
            except Refusal:
                continue
            return path, length
        raise self._client.fault(
            "supports neither chat nor completions; expected an OpenAI-compatible server with this model"
        )

    def _reply(self, prompt: str, max_tokens: int, path: str, length: str) -> Reply:
        body: dict[str, Any] = {length: max_tokens, "n": 1, "stream": False}
        # A reasoning model samples its replies and accepts only its default temperature.
        if length == "max_tokens":
            body["temperature"] = 0
        if path == "chat":
            sent = self._client.chat({**body, "messages": [{"role": "user", "content": prompt}]})
        else:
            sent = self._client.completions({**body, "prompt": prompt})
        return read_replies(sent, path, self.name)[0]

    def _broken_off(self, error: ModelError, n: int, done: int) -> ModelError:
        usage = self._client.usage
        kept = (
            f"{done:,} are cached, so the same command continues from there"
            if self._cache
            else "none are cached"
        )
        last = f"{self.name}: {n - done:,} of {n:,} requests remain; {kept} ({usage.tokens_in:,} tokens were sent)"
        return type(error)(*error.lines, last)

    @cached_property
    def _recipe(self) -> dict[str, str]:
        """Properties of the server and the model that identify their scores in the cache.
        Two servers may use one name for two models, and a server may change its model. So scores are also stored by probe:
        the first stored probe that equals the current one except for rounding."""
        can = self.capabilities
        recipe = _recipe(self._model, can)
        for n in range(1000):
            kept = CachedScores(self._cache, {**recipe, "variant": str(n)}, self.name)
            before = kept.path
            if before is None:
                kept.path = before = " ".join(f"{number:.4f}" for number in can.probe) or "none"
            if is_same_probe(before, can.probe):
                return {**recipe, "variant": str(n), "probe": before}
        raise self._client.fault("seems to serve a different model every time; expected always the same")


def check_server(model: OpenAIModel, templates: Sequence[Template]) -> dict[str, str]:
    """Check that the server replies, its numbers are usable, and it supports these templates. Return its fingerprint. Raise
    `UsageError` if the server does not support some views, or the environment variable with the API key is not set. Raise
    `ModelError` if the server does not reply, has another model, or returns unusable numbers."""
    soon = model.model_copy(update={"retries": min(model.retries, FIRST_TRIES)})
    with OpenAIServer(soon) as server:
        try:
            can = server.capabilities
        except Unreachable as error:
            raise Unreachable(
                f"{error.lines[0]}. Check that an OpenAI-compatible server runs at its base_url."
            ) from None
        can.require(model.name, templates)
        return server.fingerprint()


def is_same_probe(before: str, probe: Sequence[float]) -> bool:
    """Return whether two probes are equal within the error of half precision. `before` is the stored one."""
    numbers = [] if before == "none" else [float(number) for number in before.split()]
    pairs = list(zip(numbers, probe, strict=False))
    return len(numbers) == len(probe) and all(abs(a - b) <= _SAME_PROBE for a, b in pairs)


def _recipe(model: OpenAIModel, can: Capabilities) -> Mapping[str, str]:
    scores = can.form or f"the {can.top} likeliest next tokens, others bounded"
    letters = f"next tokens, {can.top} shown"
    drawn: dict[str, str] = {}
    if can.chat is not None:
        scores, letters = "shares of replies", "structured" if can.chat.structured else "first of a reply"
        words = hashlib.sha256(BY_CHAT.encode()).hexdigest()[:16]
        drawn = {
            "samples": str(model.samples or DEFAULT_SAMPLES),
            "reply_tokens": str(model.reply_tokens),
            "words": words,
        }
    return {
        "engine": VERSION,
        "model": can.base,
        "served_as": model.served,
        "answers_as": model.pin or model.served,
        "weights": UNKNOWN,
        "dtype": UNKNOWN,
        "scores": scores,
        "letters": letters,
        **drawn,
        "tokenizer": "the server's",
    }


@dataclass(frozen=True, slots=True)
class Sampling:
    """Callable that scores letters by their shares of sampled chat replies, for servers without log-probabilities.

    The probability of a letter is its share of the readable replies after adding half a reply to each count (Krichevsky and
    Trofimov 1981), because zero replies out of five do not mean zero probability. The answer table contains the number of
    readable replies. If half or more of the replies name no letter, the question is unanswered.
    """

    client: Client
    way: ByChat
    samples: int

    def __call__(self, job: Job) -> Scored:
        """Return the log of each letter's share of the replies, or `NO_LETTER` for all letters if too few are readable.
        Raise `ModelError` if the server keeps failing."""
        named = {key: str(letter_of(continuation)) for key, continuation in job.wanted.items()}
        letters = sorted(set(named.values()))
        try:
            replies = self.way.replies(self.client, job.context, letters, self.samples)
        except Refusal as refusal:
            if refusal.too_long:
                return dict.fromkeys(named, TOO_LONG)
            # Hosted models refuse questions that trigger a content filter, and answer others of the same form.
            replies = []
        counts = Counter(letter for reply in replies if (letter := read_letter(reply, letters)))
        n = counts.total()
        if 2 * n <= self.samples:
            return dict.fromkeys(named, NO_LETTER)
        total = n + len(letters) / 2
        return {key: Logprob(math.log((counts[letter] + 0.5) / total), 1, n) for key, letter in named.items()}


def sampled_keys(requests: Sequence[Request]) -> list[Encoded]:
    """Return the cache key of each request, which contains its text and all letters of its question."""
    letters: dict[str, set[str]] = {}
    for request in requests:
        letters.setdefault(request.context, set()).add(letter_of(request.continuation) or "")
    among = ["".join(sorted(letters[request.context])).encode() for request in requests]
    keys = keys_of(requests)
    return [Encoded(k.context, (*k.continuation, *b"|", *a)) for k, a in zip(keys, among, strict=True)]
