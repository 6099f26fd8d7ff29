"""Judges: a model that runs here, a model behind a server, a record of earlier replies; and how they are called.

A call that fails raises `JudgeCallError` with the name of its fault, which is written into the grade and is never a
verdict. Refused credentials, and a prompt that a replay has no reply for, end the run.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from robustify.engines.openai.client import Client, Refusal, Unreachable, count_of
from robustify.engines.protocols import Reply, Writer, finish_reason_of
from robustify.engines.settings import OpenAIModel, host_of
from robustify.errors import AuthorisationError, DataError, ModelError
from robustify.freeform.jsonl import Append, appending, read_jsonl
from robustify.freeform.judge.prompting import Message, prompt_sha256
from robustify.freeform.schema import ErrorType
from robustify.redaction import KeptHere, muted

RETRIES = 2
"""How often a server is asked again."""
_STATUSES: Mapping[int | None, ErrorType] = {408: "timeout", 504: "timeout", 429: "rate_limited"}
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_SPEAKERS = {"user": "User", "assistant": "Assistant"}


@dataclass(frozen=True, slots=True, repr=False)
class Completion(KeptHere):
    """A judge's reply. `reasoning` is what a server gives apart from the text; it is recorded and never parsed."""

    text: str
    reasoning: str = ""
    finish_reason: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    model: str = ""

    @property
    def sha256(self) -> str:
        """The digest of its text."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


class JudgeCallError(Exception):
    """A call that gave no reply; `error_type` says why. The message never contains the prompt."""

    def __init__(self, error_type: ErrorType) -> None:
        super().__init__(error_type)
        self.error_type: ErrorType = error_type


@dataclass(frozen=True, slots=True)
class Call:
    """How a judge is called. `vote` and `attempt` distinguish repeated calls in the record."""

    temperature: float = 0.0
    max_tokens: int = 1024
    seed: int = 0
    vote: int = 0
    attempt: int = 0


@runtime_checkable
class Judge(Protocol):
    """Anything that completes a conversation."""

    name: str

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """The reply to a conversation.

        Raises:
            JudgeCallError: there is none, for a reason that concerns this call alone.
            ModelError: there will never be one.
        """
        ...


def call_key(model: str, messages: Sequence[Message], call: Call) -> str:
    """The digest that identifies a call: judge, conversation and parameters."""
    parts = [model, prompt_sha256(messages), *asdict(call).values()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class RecordedJudge:
    """A judge whose replies are recorded: each call is made once, and its prompt and reply can be read again.

    Without a judge it is a replay, which has the recorded replies alone.
    """

    def __init__(
        self, judge: Judge | None, record: Path | None, append: Append | None, name: str = ""
    ) -> None:
        self._judge, self._append = judge, append
        self._record = record.name if record is not None else "no record"
        rows = read_jsonl(record, _recorded) if record is not None and record.is_file() else []
        self._known = {row["key"]: row["completion"] for row in rows}
        models = sorted({row["model"] for row in rows})
        if judge is None and not name and len(models) != 1:
            raise ModelError(f"{self._record}: records {len(models)} judges; name one (--judge-model)")
        self.name = judge.name if judge is not None else name or models[0]
        self.fresh = 0

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """The recorded reply, or a new one, which is recorded before it is returned.

        Raises:
            JudgeCallError: the judge gave none; that is not recorded, so that the next run asks again.
            ModelError: a replay without this prompt.
        """
        key = call_key(self.name, messages, call)
        if key in self._known:
            return Completion(**self._known[key])
        if self._judge is None:
            raise ModelError(
                f"{self._record}: no recorded reply of {self.name} to prompt {prompt_sha256(messages)[:12]};"
                " expected the record of the same items, answers and templates"
            )
        reply = self._judge.complete(messages, call)
        self.fresh += 1
        completion = {**asdict(reply), "usage": dict(reply.usage)}
        self._known[key] = completion
        if self._append is not None:
            row = {"key": key, "model": self.name, "prompt_sha256": prompt_sha256(messages)}
            turns = [m.json() for m in messages]
            self._append({**row, "messages": turns, "call": asdict(call), "completion": completion})
        return reply


@contextmanager
def recording(judge: Judge, record: Path | None) -> Iterator[RecordedJudge]:
    """A judge with its record, to which rows are only added; without a file the replies are kept in memory.

    Raises:
        ResourceError: the record cannot be written.
    """
    with nullcontext() if record is None else appending(record) as append:
        yield RecordedJudge(judge, record, append)


def replaying(record: Path, name: str = "") -> RecordedJudge:
    """A judge that has a record alone.

    Raises:
        ModelError: there is no such record, or it has replies of several judges and none is named.
    """
    if not record.is_file():
        raise ModelError(f"{record}: no such record; expected the judge.jsonl of an earlier grading")
    return RecordedJudge(None, record, None, name)


def reply_in(path: Path, key: str | None = None) -> str:
    """A judge's reply: the text of a file, or that of a record whose key begins so.

    Raises:
        DataError: no such file, or no reply or several in it.
    """
    if path.suffix != ".jsonl":
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise DataError(f"{path}: cannot be read; expected a reply as UTF-8 text") from None
    found = [
        row["completion"]["text"] for row in read_jsonl(path, _recorded) if row["key"].startswith(key or "")
    ]
    if len(found) != 1:
        raise DataError(f"{path.name}: {len(found)} replies fit; expected one (--key, the start of its key)")
    return str(found[0])


def _recorded(row: Mapping[str, Any]) -> Mapping[str, Any]:
    if not all(name in row for name in ("key", "model", "completion")):
        raise DataError("no recorded reply of a judge; expected key, model and completion")
    return row


class WriterJudge:
    """A model that runs here as a judge. It writes without sampling, so it refuses a temperature: votes would be equal."""

    def __init__(self, writer: Writer) -> None:
        self.name = writer.name
        self._writer = writer

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """The model's reply; a conversation becomes one prompt, because a `Writer` takes one turn.

        Raises:
            ModelError: a temperature above 0.
            JudgeCallError: the conversation does not fit into the model's context.
        """
        if call.temperature > 0:
            raise ModelError(f"judge {self.name}: writes without sampling, votes are equal; use --votes 1")
        try:
            with muted():
                (text,) = self._writer.write([flattened(messages)], max_tokens=call.max_tokens)
        except DataError:
            raise JudgeCallError("unsafe_input") from None
        finish = text.finish_reason if isinstance(text, Reply) else None
        return Completion(str(text), finish_reason=finish, model=self.name)


def flattened(messages: Sequence[Message]) -> str:
    """A conversation as one text; where it has several turns, each is preceded by its speaker."""
    system = [m.content for m in messages if m.role == "system"]
    turns = [m for m in messages if m.role != "system"]
    if len(turns) == 1:
        return "\n\n".join([*system, turns[0].content])
    return "\n\n".join([*system, *(f"{_SPEAKERS[m.role]}: {m.content}" for m in turns), "Assistant:"])


class HttpJudge:
    """A model behind an OpenAI-compatible server at `url` (`http://127.0.0.1:8000/v1`).

    `key_env` names the environment variable with its key. For a restricted set the address must be this machine; no
    proxy is used for such an address, and no redirect is followed.

    Raises:
        ModelError: no http address, the named variable is not set, or the openai package is not installed.
        AuthorisationError: `restricted`, and the address is not this machine.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key_env: str | None = None,
        restricted: bool = False,
        retries: int = RETRIES,
    ) -> None:
        settings = served_model(url, model, key_env, restricted=restricted, retries=retries)
        if key_env is not None and not os.environ.get(key_env):
            raise ModelError(f"judge key: environment variable {key_env} is not set; expected the key")
        self.name = model
        self._client = Client(settings, check_name=False)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """One reply; a server that is busy or fails is asked again.

        Raises:
            JudgeCallError: timeout, rate_limited, api_error or content_filter.
            ModelError: the server refuses the credentials, sends elsewhere, or does not know the model.
        """
        body = {"messages": [m.json() for m in messages], "temperature": call.temperature}
        try:
            reply = self._client.chat({**body, "max_tokens": call.max_tokens, "seed": call.seed})
        except Unreachable as error:
            raise JudgeCallError(_STATUSES.get(error.status, "api_error")) from None
        except Refusal as error:
            if error.status == 404:
                raise ModelError(f"judge {self.name}: no such model or address (404)") from None
            raise JudgeCallError("api_error") from None
        return _completion(reply, self.name)


def served_model(
    url: str, model: str, key_env: str | None, *, restricted: bool = False, retries: int | None = None
) -> OpenAIModel:
    """The settings of a model at a server.

    Raises:
        ModelError: no http address, or no name of an environment variable.
        AuthorisationError: `restricted`, and the address is not this machine.
    """
    from pydantic import ValidationError

    more: dict[str, Any] = {} if retries is None else {"retries": retries}
    try:
        settings = OpenAIModel(
            name=engine_name(model), engine="openai", base_url=url, model=model, api_key_env=key_env, **more
        )
    except ValidationError as error:
        fault = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise ModelError(f"address or key of the server: {fault}") from None
    if restricted and host_of(url) is not None:
        raise AuthorisationError(
            "server: the set is restricted and the address is not this machine; serve the model on 127.0.0.1"
        )
    return settings


def engine_name(model: str) -> str:
    """A model's id as the name of an engine."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("_.-")[:64] or "model"


def _completion(reply: Mapping[str, Any], name: str) -> Completion:
    try:
        choice = reply["choices"][0]
        message = choice["message"]
        text, finish = message.get("content") or "", finish_reason_of(choice.get("finish_reason"))
    except (TypeError, KeyError, IndexError, AttributeError):
        raise JudgeCallError("api_error") from None
    if not isinstance(text, str):
        raise JudgeCallError("api_error")
    if finish == "content_filter" and not text.strip():
        raise JudgeCallError("content_filter")
    # Of what a server says only these are recorded: its own words may quote the prompt.
    usage = reply.get("usage")
    counts = {n: count_of(usage.get(n)) for n in _COUNTS} if isinstance(usage, dict) else {}
    counts = {name: n for name, n in counts.items() if n}
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return Completion(text, reasoning if isinstance(reasoning, str) else "", finish, counts, name)
