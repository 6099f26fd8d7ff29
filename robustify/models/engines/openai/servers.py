"""Servers of one model: the least busy one gets the next request, and one that is lost is set aside.

Each server is probed as if it were alone, and all must have the same model. What a server answered counts only if a later
probe of it finds that model. Other servers repeat what a lost server answered since its last probe.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TypeVar

from robustify.models.engines.openai.capabilities import Capabilities, probe_server, require_same
from robustify.models.engines.openai.client import Client, Json, Unreachable
from robustify.models.engines.openai.jobs import Job, Scored, in_threads
from robustify.models.engines.openai.letters import LENGTHS, Sampling, read_replies
from robustify.models.engines.openai.logprobs import Questions, Scoring
from robustify.models.engines.openai.reach import Reach
from robustify.models.engines.openai.refusals import Refusal
from robustify.models.engines.protocols import Reply
from robustify.models.engines.settings import DEFAULT_SAMPLES, OpenAIModel

_LOG = logging.getLogger(__name__)
# Pairs of the path for generating text and the field for the length of a reply.
_WRITING = (*(("chat", length) for length in LENGTHS), ("completions", LENGTHS[0]))
J = TypeVar("J")
R = TypeVar("R")


class Server:
    """One server of a model. Nothing is sent before the first use. Raise the errors of `Client`."""

    def __init__(self, model: OpenAIModel) -> None:
        self.client = Client(model)
        self.questions = Questions(self.client)

    @cached_property
    def capabilities(self) -> Capabilities:
        """Requests that the server supports, as found by the capability probe."""
        return probe_server(self.questions)

    @cached_property
    def score(self) -> Callable[[Job], Scored]:
        """Function that scores a job, and checks that the server reads its whole prompt."""
        can, client = self.capabilities, self.client
        if (way := can.chat) is not None:
            reach = Reach(client, None, lambda text: way.ask(client, text))
            return Sampling(client, way, client.model.samples or DEFAULT_SAMPLES, reach.check)
        spelled = None if can.form is None else partial(self.questions.spelled, form=can.form)
        reach = Reach(client, spelled, lambda text: client.completions({"prompt": text, "max_tokens": 1}))
        return Scoring(Questions(client, reach.check), can.form, can.top)

    @cached_property
    def writing(self) -> tuple[str, str]:
        """First API path and length parameter that the server accepts for text generation."""
        for path, length in _WRITING:
            try:
                read_replies(self._sent("Say hello.", 8, path, length), path, self.client.model.name)
            except Refusal:
                continue
            return path, length
        raise self.client.fault(
            "supports neither chat nor completions; expected an OpenAI-compatible server with this model"
        )

    def write(self, prompt: str, max_tokens: int) -> Reply | None:
        """Return the reply to a prompt, which is empty if a filter blocks the prompt, or None if the prompt is too long."""
        path, length = self.writing
        try:
            reply = self._sent(prompt, max_tokens, path, length)
            self._written.check(prompt, reply)
            return read_replies(reply, path, self.client.model.name)[0]
        except Refusal as refusal:
            if refusal.too_long:
                return None
            if refusal.filtered:
                return Reply("", "content_filter")
            raise

    @cached_property
    def _written(self) -> Reach:
        return Reach(self.client, None, lambda prompt: self._sent(prompt, 8, *self.writing))

    def _sent(self, prompt: str, max_tokens: int, path: str, length: str) -> Json:
        body: Json = {length: max_tokens, "n": 1, "stream": False}
        # A reasoning model samples its replies and accepts only its default temperature.
        if length == "max_tokens":
            body["temperature"] = 0
        if path == "chat":
            return self.client.chat({**body, "messages": [{"role": "user", "content": prompt}]})
        return self.client.completions({**body, "prompt": prompt})


class Servers:
    """Thread-safe pool of the servers of a model. `living` are those that were not lost.

    A server is lost if it sends no usable reply after all retries. The last one is never set aside: its error is raised.
    """

    def __init__(self, model: OpenAIModel) -> None:
        self.model = model
        self.living = self._all = tuple(map(Server, model.servers))
        self._busy: Counter[Server] = Counter()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections."""
        for server in self._all:
            server.client.close()

    def usage(self) -> Json:
        """Return the sum of what the clients count, and its cost (`Client.usage`)."""
        first, *others = (server.client.usage() for server in self._all)
        summed = {n: sum((o[n] for o in others), v) for n, v in first.items() if n not in ("model", "cost")}
        return {
            "model": self.model.name,
            **summed,
            "cost": self.model.cost(summed["tokens_in"], summed["tokens_out"]),
        }

    @cached_property
    def capabilities(self) -> Capabilities:
        """Requests that all servers support. Raise `ModelError` if their models or abilities differ."""
        can, *others = self.each(lambda server: server.capabilities)
        for server, other in zip(self.living[1:], others, strict=False):
            if (other.form, other.top, other.base, other.chat) != (can.form, can.top, can.base, can.chat):
                raise server.client.fault(
                    "has another model or supports other requests than the first one; expected the same model and options "
                    "on all servers of base_urls"
                )
        if others:
            self.each(lambda server: require_same(server.questions, can))
        return can

    def verify(self) -> None:
        """Repeat the probe of each server. Raise `ModelError` if one has another model than at first."""
        self.each(lambda server: require_same(server.questions, self.capabilities))

    def each(self, ask: Callable[[Server], R]) -> list[R]:
        """Return the result of each server in turn, without those that are lost."""
        found = []
        for server in self.living:
            with self._losing(server):
                found.append(ask(server))
        return found

    def least_busy(self, ask: Callable[[Server], R]) -> tuple[Server, R]:
        """Return a server and its result. If it is lost, the next one is asked."""
        while True:
            with self._lock:
                server = min(self.living, key=self._busy.__getitem__)
                self._busy[server] += 1
            try:
                with self._losing(server):
                    return server, ask(server)
            finally:
                with self._lock:
                    self._busy[server] -= 1

    def run(
        self, work: Callable[[Server, J], R], jobs: Sequence[J], verify: Callable[[], object]
    ) -> Iterator[tuple[J, R]]:
        """Yield each job with its result, in any order, after `verify`. Jobs of a server that was lost are run again."""
        while jobs:
            width = self.model.concurrency * len(self.living)
            done = list(in_threads(lambda job: (job, self.least_busy(lambda s: work(s, job))), jobs, width))
            verify()
            living = set(self.living)
            yield from ((job, result) for job, (server, result) in done if server in living)
            jobs = [job for job, (server, _) in done if server not in living]

    @contextmanager
    def _losing(self, server: Server) -> Iterator[None]:
        """Set the server aside if the block cannot reach it. Raise the error if it is the last one."""
        try:
            yield
        except Unreachable as error:
            with self._lock:
                if server not in self.living:
                    return
                if len(self.living) == 1:
                    raise
                self.living = tuple(one for one in self.living if one is not server)
                _LOG.warning(
                    "%s. The run goes on with %d of %d servers.", error, len(self.living), len(self._all)
                )
