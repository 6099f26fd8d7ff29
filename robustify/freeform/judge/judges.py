"""What may judge: anything that completes a conversation. And the record that makes every judgement repeatable.

A call that fails is a `JudgeCallError` with the name of its fault; it is told in the row and never a verdict. Refused
credentials and a prompt that a replay has no reply for stop the run at once.
"""

import hashlib
import http.client
import ipaddress
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from robustify.engines.protocols import Reply, Writer
from robustify.errors import AuthorisationError, DataError, ModelError
from robustify.freeform.jsonl import Append, appending, read_rows
from robustify.freeform.judge.prompting import Message, prompt_sha256
from robustify.freeform.schema import ErrorType
from robustify.redaction.silence import quieted
from robustify.redaction.text import KeptHere


@dataclass(frozen=True, slots=True, repr=False)
class Completion(KeptHere):
    """A judge's reply. `reasoning` is what a server gives apart from the text; it is kept and never parsed."""

    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    model: str = ""

    def __repr__(self) -> str:
        return f"Completion({len(self.text)} characters, {self.finish_reason})"

    @property
    def sha256(self) -> str:
        """The digest of its text."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


class JudgeCallError(Exception):
    """A call that gave no reply; `error_type` says why. The message never holds the prompt."""

    def __init__(self, error_type: ErrorType) -> None:
        super().__init__(error_type)
        self.error_type: ErrorType = error_type


@dataclass(frozen=True, slots=True)
class Call:
    """How a judge is called. `vote` and `attempt` tell repeated calls apart in the record."""

    temperature: float = 0.0
    max_tokens: int = 1024
    seed: int = 0
    vote: int = 0
    attempt: int = 0


@runtime_checkable
class Judge(Protocol):
    """Anything that can be asked for a judgement."""

    name: str

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """The reply to a conversation.

        Raises:
            JudgeCallError: there is none, for a reason that concerns this call alone.
            ModelError: there will never be one.
        """
        ...


def call_key(model: str, messages: Sequence[Message], call: Call) -> str:
    """By what a call is found again: the judge, the conversation and the parameters."""
    written = json.dumps(
        [
            model,
            prompt_sha256(messages),
            call.temperature,
            call.max_tokens,
            call.seed,
            call.vote,
            call.attempt,
        ]
    )
    return hashlib.sha256(written.encode()).hexdigest()


class ScriptedJudge:
    """A judge whose replies are given: a function of the conversation, or a list that is used up in order."""

    def __init__(
        self, replies: "Callable[[Sequence[Message]], str | Completion] | Iterable[str | Completion | JudgeCallError]",
        name: str = "scripted",
    ) -> None:  # fmt: skip
        self.name = name
        self.asked: list[tuple[Message, ...]] = []
        self._reply = replies if callable(replies) else None
        self._left = iter(() if callable(replies) else replies)

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """The next reply.

        Raises:
            JudgeCallError: the list says so.
            ModelError: the list is used up.
        """
        self.asked.append(tuple(messages))
        reply = self._reply(messages) if self._reply else next(self._left, None)
        if reply is None:
            raise ModelError(f"judge {self.name}: no reply is left; expected one for each call")
        if isinstance(reply, JudgeCallError):
            raise reply
        return (
            reply
            if isinstance(reply, Completion)
            else Completion(reply, finish_reason="stop", model=self.name)
        )


class RecordedJudge:
    """A judge whose replies are kept: each call is made once, ever, and its prompt and reply can be read again.

    Without a judge behind it this is a replay: it knows what was recorded and nothing else.
    """

    def __init__(
        self, judge: Judge | None, record: Path | None, append: Append | None, name: str = ""
    ) -> None:
        self._judge, self._append = judge, append
        self._record = record.name if record is not None else "no record"
        there = record is not None and record.is_file()
        self._known = {row["key"]: row for row in read_rows(record, _recorded)} if record and there else {}
        models = sorted({row["model"] for row in self._known.values()})
        if judge is None and not name and len(models) != 1:
            raise ModelError(
                f"{self._record}: records {len(models)} judges; name one of them (--judge-model)"
            )
        self.name = judge.name if judge is not None else name or models[0]
        self.fresh = 0

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """The recorded reply, or a new one, which is recorded before it is returned.

        Raises:
            JudgeCallError: the judge gave none; that is not recorded, so that the next run asks again.
            ModelError: a replay without this prompt.
        """
        key = call_key(self.name, messages, call)
        known = self._known.get(key)
        if known is not None:
            return Completion(**known["completion"])
        if self._judge is None:
            raise ModelError(
                f"{self._record}: no recorded reply of {self.name} to prompt {prompt_sha256(messages)[:12]};"
                " expected the record of the same items, answers and templates"
            )
        reply = self._judge.complete(messages, call)
        self.fresh += 1
        row = _row(key, self.name, messages, call, reply)
        self._known[key] = row
        if self._append is not None:
            self._append(row)
        return reply


@contextmanager
def recording(judge: Judge, record: Path | None) -> Iterator[RecordedJudge]:
    """A judge with its record, a file that only grows; without a file the replies live as long as the judge.

    Raises:
        ResourceError: the record cannot be written.
    """
    if record is None:
        yield RecordedJudge(judge, None, None)
        return
    with appending(record) as append:
        yield RecordedJudge(judge, record, append)


def replaying(record: Path, name: str = "") -> RecordedJudge:
    """A judge that only knows a record.

    Raises:
        ModelError: there is no such record, or it holds several judges and none is named.
    """
    if not record.is_file():
        raise ModelError(f"{record}: no such record; expected the judge.jsonl of an earlier grading")
    return RecordedJudge(None, record, None, name)


def _row(key: str, model: str, messages: Sequence[Message], call: Call, reply: Completion) -> dict[str, Any]:
    return {
        "key": key,
        "model": model,
        "prompt_sha256": prompt_sha256(messages),
        "messages": [m.json() for m in messages],
        "call": {
            "temperature": call.temperature,
            "max_tokens": call.max_tokens,
            "seed": call.seed,
            "vote": call.vote,
            "attempt": call.attempt,
        },
        "completion": {
            "text": reply.text,
            "reasoning": reply.reasoning,
            "finish_reason": reply.finish_reason,
            "usage": dict(reply.usage),
            "model": reply.model,
        },
    }


def _recorded(row: Mapping[str, Any]) -> Mapping[str, Any]:
    if not all(name in row for name in ("key", "model", "completion")):
        raise DataError("no recorded reply of a judge; expected key, model and completion")
    return row


Opened = AbstractContextManager[Judge]
"""A judge that is closed when its work is done."""


_SPEAKER = {"user": "User", "assistant": "Assistant"}


class WriterJudge:
    """A local model as a judge."""

    def __init__(self, writer: Writer) -> None:
        self.name = writer.name
        self._writer = writer

    def __repr__(self) -> str:
        return f"WriterJudge({self.name!r})"

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """The model's reply.

        Raises:
            ModelError: a temperature above 0.
            JudgeCallError: the conversation does not fit into the model's context.
        """
        if call.temperature > 0:
            raise ModelError(
                f"judge {self.name}: writes without sampling, so votes would be equal; use --votes 1"
            )
        try:
            with quieted():
                (text,) = self._writer.write([flattened(messages)], max_tokens=call.max_tokens)
        except DataError:
            raise JudgeCallError("unsafe_input") from None
        finish = text.finish_reason if isinstance(text, Reply) else None
        return Completion(str(text), finish_reason=finish, model=self.name)


def flattened(messages: Sequence[Message]) -> str:
    """A conversation as one text: alone where it is one turn, else with its speakers."""
    system = [m.content for m in messages if m.role == "system"]
    turns = [m for m in messages if m.role != "system"]
    if len(turns) == 1:
        return "\n\n".join([*system, turns[0].content])
    return "\n\n".join([*system, *(f"{_SPEAKER[m.role]}: {m.content}" for m in turns), "Assistant:"])


TRIES = 3
_LARGEST_REPLY = 8_000_000
_LOCAL_NAMES = ("localhost", "ip6-localhost")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A server that sends elsewhere is not the one that was named."""

    def redirect_request(self, *_: Any) -> None:
        return None


def is_loopback(url: str) -> bool:
    """Whether an address is this machine."""
    host = (urlsplit(url).hostname or "").casefold()
    if host in _LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HttpJudge:
    """A model behind `url` (`http://127.0.0.1:8000/v1`). `key_env` names the environment variable with its key.

    Raises:
        ModelError: no http address, or the named variable is not set.
        AuthorisationError: `restricted`, and the address is not this machine.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key_env: str | None = None,
        restricted: bool = False,
        timeout: float = 120.0,
        pause: float = 1.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ModelError(f"judge address {url!r}: expected http://HOST:PORT/v1")
        if restricted and not is_loopback(url):
            raise AuthorisationError(
                "judge: the set is restricted and the address is not this machine; serve the judge on 127.0.0.1"
            )
        if key_env is not None and not os.environ.get(key_env):
            raise ModelError(
                f"judge key: the environment variable {key_env} is not set; expected the key in it"
            )
        self.name = model
        self._url = url.rstrip("/") + "/chat/completions"
        self._key_env, self._timeout, self._pause = key_env, timeout, pause
        proxies = [urllib.request.ProxyHandler({})] if is_loopback(url) else []
        self._opener = urllib.request.build_opener(_NoRedirect, *proxies)

    def __repr__(self) -> str:
        return f"HttpJudge({self.name!r})"

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """One reply; a busy or failing server is asked up to three times.

        Raises:
            JudgeCallError: timeout, rate_limited, api_error or content_filter.
            ModelError: the server refuses the credentials or does not know the model.
        """
        body = {
            "model": self.name,
            "messages": [m.json() for m in messages],
            "temperature": call.temperature,
            "max_tokens": call.max_tokens,
            "seed": call.seed,
        }
        for number in range(TRIES):
            reply = self._tried(body)
            if isinstance(reply, Completion):
                return reply
            if reply.error_type == "content_filter" or number == TRIES - 1:
                raise reply
            time.sleep(self._pause * 2**number)
        raise JudgeCallError("api_error")

    def _tried(self, body: Mapping[str, Any]) -> Completion | JudgeCallError:
        try:
            return _completion(self._post(body), self.name)
        except JudgeCallError as fault:
            return fault

    def _post(self, body: Mapping[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._key_env is not None:
            headers["Authorization"] = f"Bearer {os.environ.get(self._key_env, '')}"
        request = urllib.request.Request(self._url, json.dumps(body).encode("utf-8", "replace"), headers)
        try:
            with self._opener.open(request, timeout=self._timeout) as reply:
                raw = reply.read(_LARGEST_REPLY)
            return json.loads(raw)
        except urllib.error.HTTPError as error:
            raise self._refused(error.code) from None
        except TimeoutError:
            raise JudgeCallError("timeout") from None
        except urllib.error.URLError as error:
            raise JudgeCallError(
                "timeout" if isinstance(error.reason, TimeoutError) else "api_error"
            ) from None
        except (OSError, http.client.HTTPException, ValueError, RecursionError):
            raise JudgeCallError("api_error") from None

    def _refused(self, code: int) -> Exception:
        match code:
            case 401 | 403:
                return ModelError(f"judge {self.name}: the server refused the credentials ({code})")
            case 404:
                return ModelError(f"judge {self.name}: the server knows no such model or address (404)")
            case 408 | 504:
                return JudgeCallError("timeout")
            case 429:
                return JudgeCallError("rate_limited")
            case _:
                return JudgeCallError("api_error")


def _completion(reply: Any, name: str) -> Completion:
    try:
        choice = reply["choices"][0]
        message = choice["message"]
        text, finish = message.get("content") or "", choice.get("finish_reason")
    except (TypeError, KeyError, IndexError, AttributeError):
        raise JudgeCallError("api_error") from None
    if not isinstance(text, str):
        raise JudgeCallError("api_error")
    if finish == "content_filter" and not text.strip():
        raise JudgeCallError("content_filter")
    usage = reply.get("usage") or {}
    counts = {k: v for k, v in usage.items() if isinstance(v, int)} if isinstance(usage, dict) else {}
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return Completion(
        text,
        reasoning if isinstance(reasoning, str) else "",
        finish if isinstance(finish, str) else None,
        counts,
        name,
    )
