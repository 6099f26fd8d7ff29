"""A model behind an OpenAI-compatible server, behind the `Scorer` and `Writer` protocols.

No item is sent before the server's numbers have been checked against each other. What the score cache has is not asked
again; when a server fails for good, what it has scored is kept and nothing partial is returned as whole. The weights of
such a model are not known here, and its fingerprint says so.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from robustify.engines.cache import Cache, KeptScores
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
from robustify.engines.openai.logprobs import Questions
from robustify.engines.openai.replies import LENGTHS, ByChat, letter_of, read_letter, read_replies
from robustify.engines.plan import Encoded
from robustify.engines.protocols import NO_LETTER, Closing, Logprob, Progress, Reply, no_progress
from robustify.engines.settings import DEFAULT_SAMPLES, OpenAIModel
from robustify.errors import DataError, ModelError, RequestError
from robustify.views import BY_CHAT, Request, Template

VERSION = "openai-1"
"""Of the engine: another one is another recipe, whose scores are kept apart."""
UNKNOWN = "unknown (remote)"
FIRST_TRIES = 2
"""Retries of the first contact: an address that is wrong should be reported soon."""
_SAME_PROBE = 0.2
_HELLO = "Say hello."
# By which path a server writes, and what it calls the length of a reply.
_WRITING = (*(("chat", length) for length in LENGTHS), ("completions", LENGTHS[0]))


class OpenAIServer(Closing):
    """One model at one server. Nothing is sent before the first request or `fingerprint`. Raises as `Client`."""

    def __init__(self, model: OpenAIModel, cache: Cache | None = None) -> None:
        self.name = model.name
        self._model = model
        self._client = Client(model)
        self._questions = Questions(self._client)
        self._cache = cache

    def __repr__(self) -> str:
        return f"OpenAIServer({self.name!r})"

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def usage(self) -> Json:
        """Return what was sent, what the server counted, and what it costs by the config's prices."""
        return self._client.usage.as_log(self._model)

    @cached_property
    def capabilities(self) -> Capabilities:
        """What the server can be asked; see `probe_server`."""
        return probe_server(self._questions)

    def fingerprint(self) -> dict[str, str]:
        """Return what the numbers depend on, as far as a server says; `probe` is the model's log-probabilities of a
        harmless text, by which it is recognised."""
        return {**self._recipe, "licence": "see the model's provider"}

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        """See `Scorer`; equal requests are asked once."""
        can = self.capabilities
        keys = sampled_keys(requests) if can.chat else keys_of(requests)
        asked, kept = Counter(keys), KeptScores(self._cache, self._recipe, self.name)
        known = kept.known(asked)
        progress(sum(asked[key] for key in known))
        # All jobs are planned from all requests, so that a resumed run asks as the first one would have.
        planned = jobs_of(requests, keys, letter_of if can.chat else one_letter)
        jobs = [job for job in planned if not known.keys() >= job.wanted.keys()]
        if can.form is None and (not (can.top or can.chat) or not all(job.letters for job in jobs)):
            raise self._client.fault("shows no log-probabilities of a prompt; expected letters alone")
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
        """See `Writer`."""
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
        """The first way of writing that the server knows."""
        for path, length in _WRITING:
            try:
                self._reply(_HELLO, 8, path, length)
            except Refusal:
                continue
            return path, length
        raise self._client.fault(
            "neither chats nor completes; expected an OpenAI-compatible server of this model"
        )

    def _reply(self, prompt: str, max_tokens: int, path: str, length: str) -> Reply:
        body: dict[str, Any] = {length: max_tokens, "n": 1, "stream": False}
        # A model that thinks aloud draws, and refuses another temperature than its own.
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
            f"{done:,} are kept, and the same command goes on from there" if self._cache else "none is kept"
        )
        last = f"{self.name}: {n - done:,} of {n:,} requests are left; {kept} ({usage.tokens_in:,} tokens were sent)"
        return type(error)(*error.lines, last)

    @cached_property
    def _recipe(self) -> dict[str, str]:
        """The recipe of this server's scores.

        Two servers may give one name to two models, and one server another model the next day. So scores are kept by the
        probe too: by the first kept one that equals this one but for rounding.
        """
        can = self.capabilities
        recipe = _recipe(self._model, can)
        for n in range(1000):
            kept = KeptScores(self._cache, {**recipe, "variant": str(n)}, self.name)
            before = kept.path
            if before is None:
                kept.path = before = " ".join(f"{number:.4f}" for number in can.probe) or "none"
            if is_same_probe(before, can.probe):
                return {**recipe, "variant": str(n), "probe": before}
        raise self._client.fault("serves another model every time; expected one")


def check_server(model: OpenAIModel, templates: Sequence[Template]) -> dict[str, str]:
    """Make sure that the server answers, that its numbers can be used and that it can serve these templates. Return what
    says which model it is.

    Raises:
        UsageError: views that it cannot serve, by name; or the environment variable with the key is not set.
        ModelError: no answer, another model, or numbers that cannot be used.
    """
    soon = model.model_copy(update={"retries": min(model.retries, FIRST_TRIES)})
    with OpenAIServer(soon) as server:
        try:
            can = server.capabilities
        except Unreachable as error:
            raise Unreachable(
                f"{error.lines[0]}; expected an OpenAI-compatible server at its base_url"
            ) from None
        can.require(model.name, templates)
        return server.fingerprint()


def is_same_probe(before: str, probe: Sequence[float]) -> bool:
    """Return whether log-probabilities are those that were written down before, but for what half precision wanders."""
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
    """Scores of letters from a server that chats and shows no probability: shares of its replies; as `Scoring`.

    Each letter's share of the replies that can be read is taken for its probability, with half a reply added to each count
    (Krichevsky and Trofimov 1981): none in five is not never. How many were read goes into the answer table. If half or
    more name no letter, the asking is unanswered.
    """

    client: Client
    way: ByChat
    samples: int

    def __call__(self, job: Job) -> Scored:
        """Return the log of each letter's share of the replies, or `NO_LETTER` for all of them.
        Raises `ModelError`: as the client."""
        named = {key: str(letter_of(continuation)) for key, continuation in job.wanted.items()}
        letters = sorted(set(named.values()))
        try:
            replies = self.way.replies(self.client, job.context, letters, self.samples)
        except Refusal as refusal:
            if refusal.too_long:
                return dict.fromkeys(named, TOO_LONG)
            # Hosted models refuse questions that their filter stops; others of the same form they answer.
            replies = []
        counts = Counter(letter for reply in replies if (letter := read_letter(reply, letters)))
        n = counts.total()
        if 2 * n <= self.samples:
            return dict.fromkeys(named, NO_LETTER)
        total = n + len(letters) / 2
        return {key: Logprob(math.log((counts[letter] + 0.5) / total), 1, n) for key, letter in named.items()}


def sampled_keys(requests: Sequence[Request]) -> list[Encoded]:
    """Return by what each share is kept: the text, and the letters of which one was asked for."""
    letters: dict[str, set[str]] = {}
    for request in requests:
        letters.setdefault(request.context, set()).add(letter_of(request.continuation) or "")
    among = ["".join(sorted(letters[request.context])).encode() for request in requests]
    keys = keys_of(requests)
    return [Encoded(k.context, (*k.continuation, *b"|", *a)) for k, a in zip(keys, among, strict=True)]
