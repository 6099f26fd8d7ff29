"""Servers of one model. The least busy server gets the next request, and lost servers are set aside.

All must have the same model. What a server answered counts only if a later probe of it finds that model, so other servers
repeat what a lost one answered since its last probe.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeVar

from robustify.base.errors import ModelError
from robustify.items.views import by_chat
from robustify.models.engines.openai.capabilities import Capabilities, probe_server, require_same
from robustify.models.engines.openai.client import Client, Json, Refusal, Unreachable, count_in
from robustify.models.engines.openai.jobs import Job, Reach, Scored, in_threads
from robustify.models.engines.openai.letters import (
    LENGTHS,
    ByChat,
    letter_of,
    read_letter,
    read_replies,
    sampled,
)
from robustify.models.engines.openai.logprobs import Questions, score
from robustify.models.engines.openai.probes import LETTERS, PROBES, Heard, Probe, Question, Session
from robustify.models.engines.protocols import Closing, Reply
from robustify.models.model_settings import DEFAULT_SAMPLES, OpenAIModel

_LOG = logging.getLogger(__name__)
# Pairs of the path for generating text and the field for the length of a reply.
_WRITING = (*(("chat", length) for length in LENGTHS), ("completions", LENGTHS[0]))
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 600.0
"""Seconds until a lost server is tried again, at first and at most."""
_FEW = 1
"""Number of retries while another server can take over."""
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

    def require_like(self, can: Capabilities) -> None:
        """Raise `ModelError` if the server's model or supported requests differ from those of the first server."""
        own = self.capabilities
        if (own.form, own.top, own.base, own.chat) != (can.form, can.top, can.base, can.chat):
            raise self.client.fault(
                "differs from the first server in its model or in the requests that it supports; expected the same model "
                "and requests on all servers of base_urls",
                code="differing-servers",
            )

    @cached_property
    def session(self) -> Session:
        """Session of probes, which found out how the replies of the server differ."""
        session = Session(self.client, self._ask, chat=self.capabilities.chat is not None)
        for probe in PROBES["to learn how to ask"]:
            probe.run(session)
        return session

    def probe(self, probes: Sequence[Probe], longest: str) -> None:
        """Ask probes that have as many words as the prompt `longest`. Raise `ProbeError` if the server fails a probe. A
        server that spells prompts needs no probe."""
        if self.capabilities.form is None:
            self.session.longest = longest
            for probe in probes:
                probe.run(self.session)

    def _ask(self, question: Question, n: int, seed: int | None) -> Heard:
        can = self.capabilities
        if (way := can.chat) is None:
            likely = self.questions.following(question.context, can.top) or {}
            letters = {token: logprob for token, logprob in likely.items() if letter_of(token)}
            return Heard((letter_of(max(letters, key=letters.__getitem__)),) if letters else (None,))
        text = by_chat(question.context, LETTERS)
        reply = way.send(self.client, text, LETTERS, n, seed=seed, system=question.system)
        replies = read_replies(reply, "chat", self.client.model.name)
        return Heard(tuple(read_letter(text, LETTERS) for text in replies), count_in(reply, "prompt_tokens"))

    @cached_property
    def _way(self) -> ByChat | None:
        way = self.capabilities.chat
        if way is None or not self.session.single:
            return way
        return replace(way, several=False, seeded=self.session.seeded)

    @cached_property
    def score(self) -> Callable[[Job], Scored]:
        """Function that scores a job and checks that the server reads the whole prompt."""
        can, client = self.capabilities, self.client
        if (way := self._way) is not None:
            check = Reach(client, None, lambda text: way.ask(client, text)).check
            return partial(sampled, client, way, client.model.samples or DEFAULT_SAMPLES, check)
        spelled = None if can.form is None else partial(self.questions.spelled, form=can.form)
        reach = Reach(client, spelled, lambda text: client.completions({"prompt": text, "max_tokens": 1}))
        return partial(score, Questions(client, reach.check), can.form, can.top)

    @cached_property
    def writing(self) -> tuple[str, str]:
        """First API path and length parameter that the server accepts for text generation."""
        for path, length in _WRITING:
            try:
                read_replies(self._send("Say hello.", 8, path, length), path, self.client.model.name)
            except Refusal:
                continue
            return path, length
        raise self.client.fault(
            "supports neither chat nor completions; expected an OpenAI-compatible server with this model",
            code="no-text-generation",
        )

    def write(self, prompt: str, max_tokens: int) -> Reply | None:
        """Return the reply to a prompt, an empty reply if a filter blocks the prompt, or None if the prompt is too long."""
        path, length = self.writing
        try:
            reply = self._send(prompt, max_tokens, path, length)
            self._write_check.check(prompt, reply)
            return read_replies(reply, path, self.client.model.name)[0]
        except Refusal as refusal:
            if refusal.too_long:
                return None
            if refusal.filtered:
                return Reply("", "content_filter")
            raise

    @cached_property
    def _write_check(self) -> Reach:
        return Reach(self.client, None, lambda prompt: self._send(prompt, 8, *self.writing))

    def _send(self, prompt: str, max_tokens: int, path: str, length: str) -> Json:
        body: Json = {length: max_tokens, "n": 1, "stream": False}
        # A reasoning model samples its replies and accepts only its default temperature.
        if length == "max_tokens":
            body["temperature"] = 0
        if path == "chat":
            return self.client.chat({**body, "messages": [{"role": "user", "content": prompt}]})
        return self.client.completions({**body, "prompt": prompt})


class Servers(Closing):
    """Thread-safe pool of the servers of a model. `living` are the servers that are not lost.

    A server is lost if it sends no usable reply. While others live, a request is repeated only once. A lost one is tried
    again in the background, and joins if it has the same model. The last one gets all retries, and its error is raised.
    """

    def __init__(self, model: OpenAIModel) -> None:
        self.model = model
        self._all = tuple(map(Server, model.servers))
        self._busy: Counter[Server] = Counter()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._set_living(self._all)

    def close(self) -> None:
        """Close the connections."""
        self._closed.set()
        for server in self._all:
            server.client.close()

    def usage(self) -> Json:
        """Return an entry for run.log: the numbers of calls and tokens, and their cost (None if prices are unknown). A call
        may answer several requests."""
        counts = sum((server.client.counts for server in self._all), Counter[str]())
        shown_counts = {name: counts[name] for name in ("calls", "tried_again", "tokens_in", "tokens_out")}
        cost = self.model.cost(counts["tokens_in"], counts["tokens_out"])
        return {"model": self.model.name, **shown_counts, "cost": cost}

    @cached_property
    def capabilities(self) -> Capabilities:
        """Requests that all servers support. Raise `ModelError` if the servers' models or supported requests differ."""
        (_, can), *others = self.each(lambda server: (server, server.capabilities))
        for server, _ in others:
            server.require_like(can)
        if others:
            self.verify(can)
        return can

    def verify(self, can: Capabilities | None = None) -> None:
        """Check that each probed server still has the model of the first probe. Raise `ModelError` if one has not."""
        if (first := can or vars(self).get("capabilities")) is not None:
            self.each(lambda server: require_same(server.questions, first))

    def each(self, ask: Callable[[Server], R]) -> list[R]:
        """Call `ask` with each server in turn, and return the results of all servers that are not lost."""
        results: list[R] = []
        for server in self.living:
            while not (result := self._try_server(server, ask)) and server in self.living:
                pass  # It is the last one, which is now asked with all its retries.
            results += result
        return results

    def least_busy(self, ask: Callable[[Server], R]) -> tuple[Server, R]:
        """Call `ask` with the least busy server that is not lost. Return the server and the result."""
        while True:
            with self._lock:
                server = min(self.living, key=self._busy.__getitem__)
                self._busy[server] += 1
            try:
                for result in self._try_server(server, ask):
                    return server, result
            finally:
                with self._lock:
                    self._busy[server] -= 1

    def run(
        self, work: Callable[[Server, J], R], jobs: Sequence[J], verify: Callable[[], object]
    ) -> Iterator[tuple[J, R]]:
        """Run the jobs on all servers, call `verify`, and yield each job and its result. Jobs of lost servers are
        repeated."""
        while jobs:
            width = self.model.concurrency * len(self.living)
            results = list(
                in_threads(lambda job: (job, self.least_busy(lambda s: work(s, job))), jobs, width)
            )
            verify()
            living = set(self.living)
            yield from ((job, result) for job, (server, result) in results if server in living)
            jobs = [job for job, (server, _) in results if server not in living]

    def _try_server(self, server: Server, ask: Callable[[Server], R]) -> list[R]:
        """Return the result of `ask` in a list, which is empty if the server is lost. Raise the error of an only server."""
        is_last = self.living == (server,)
        try:
            return [ask(server)]
        except Unreachable as error:
            if is_last:
                raise
            with self._lock:
                if server in self.living and len(self.living) > 1:
                    self._set_living(tuple(other for other in self.living if other is not server))
                    counts = (len(self.living), len(self._all))
                    _LOG.warning("%s. The run goes on with %d of %d servers.", error, *counts)
                    threading.Thread(target=self._rejoin, args=(server,), daemon=True).start()
            return []

    def _set_living(self, servers: tuple[Server, ...]) -> None:
        self.living = servers
        for server in servers:
            server.client.retries = min(self.model.retries, _FEW) if len(servers) > 1 else self.model.retries

    def _rejoin(self, server: Server) -> None:
        """Try a lost server at intervals until it replies, turns out to have another model, or the pool is closed."""
        pause = FIRST_PAUSE
        while not self._closed.wait(pause):
            pause = min(2 * pause, LONGEST_PAUSE)
            try:
                # A run that only writes has no probe.
                if (can := vars(self).get("capabilities")) is None:
                    server.client.models()
                else:
                    server.require_like(can)
                    require_same(server.questions, can)
            except Unreachable:
                continue
            except ModelError as error:
                _LOG.warning("%s. It is not asked again.", error)
                return
            with self._lock:
                self._set_living((*self.living, server))
            _LOG.warning("%s replies again.", server.client.model.name)
            return
