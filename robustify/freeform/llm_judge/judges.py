"""Judges: a model that runs here, or a model behind a server; and how they are called.

A call that fails raises `JudgeCallError` with the name of its fault, which is written into the grade and is never a
verdict. Refused credentials end the run.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, runtime_checkable

from pydantic import ValidationError

from robustify.engines.openai.client import Client, Refusal, Unreachable, count_of
from robustify.engines.protocols import Reply, Writer, finish_reason_of
from robustify.engines.settings import OpenAIModel, host_of
from robustify.errors import AuthorisationError, DataError, ModelError
from robustify.freeform.llm_judge.prompting import Message, prompt_sha256
from robustify.freeform.replies import Replies, reply_key
from robustify.freeform.schema import ErrorType
from robustify.redaction import KeptHere, muted

RETRIES = 2
"""How often a server is asked again."""
_STATUSES: Mapping[int | None, ErrorType] = {408: "timeout", 504: "timeout", 429: "rate_limited"}
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_SPEAKERS = {"user": "User", "assistant": "Assistant"}


@dataclass(frozen=True, slots=True, repr=False)
class Completion(KeptHere):
    """A judge's reply. What a server gives apart from the text, as reasoning, is not kept."""

    text: str
    finish_reason: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    model: str = ""


class JudgeCallError(Exception):
    """A call that gave no reply; `error_type` says why. The message never contains the prompt."""

    def __init__(self, error_type: ErrorType) -> None:
        super().__init__(error_type)
        self.error_type: ErrorType = error_type


@dataclass(frozen=True, slots=True)
class Call:
    """How a judge is called. `vote` and `attempt` distinguish repeated calls."""

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
        """Return the reply to a conversation.

        Raises:
            JudgeCallError: there is none, for a reason that concerns this call alone.
            ModelError: there will never be one.
        """
        ...


class KeptJudge:
    """A judge whose replies are kept: each call is made once. `origin` says which model it is beyond its name."""

    def __init__(self, judge: Judge, kept: Replies, origin: object = None) -> None:
        self.name = judge.name
        self._judge, self._kept, self._origin = judge, kept, origin

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """Return the reply that is kept, or a new one. A call that fails is not kept, so the next run makes it again."""
        key = reply_key("judge", self.name, self._origin, prompt_sha256(messages), asdict(call))
        if (said := self._kept.get(key)) is not None:
            return Completion(**said)
        reply = self._judge.complete(messages, call)
        self._kept.put([(key, {**asdict(reply), "usage": dict(reply.usage)})])
        return reply


class WriterJudge:
    """A model that runs here as a judge. It writes without sampling, so it refuses a temperature: votes would be equal."""

    def __init__(self, writer: Writer) -> None:
        self.name = writer.name
        self._writer = writer

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """Return the model's reply; a conversation becomes one prompt, because a `Writer` takes one turn."""
        if call.temperature > 0:
            raise ModelError(f"judge {self.name}: writes without sampling, votes are equal; use votes: 1")
        try:
            with muted():
                (text,) = self._writer.write([flattened(messages)], max_tokens=call.max_tokens)
        except DataError:
            raise JudgeCallError("unsafe_input") from None
        finish = text.finish_reason if isinstance(text, Reply) else None
        return Completion(str(text), finish_reason=finish, model=self.name)


def flattened(messages: Sequence[Message]) -> str:
    """Return a conversation as one text; if it has several turns, each is preceded by its speaker."""
    system = [m.content for m in messages if m.role == "system"]
    turns = [m for m in messages if m.role != "system"]
    if len(turns) == 1:
        return "\n\n".join([*system, turns[0].content])
    return "\n\n".join([*system, *(f"{_SPEAKERS[m.role]}: {m.content}" for m in turns), "Assistant:"])


class HttpJudge:
    """A model behind an OpenAI-compatible server at `url` (`http://127.0.0.1:8000/v1`).

    `key_env` names the environment variable with its key. For a restricted set the address must be this machine.

    Raises:
        ModelError: not an http address, the named variable is not set, or the openai package is not installed.
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
        try:
            settings = OpenAIModel(
                name=engine_name(model),
                engine="openai",
                base_url=url,
                model=model,
                api_key_env=key_env,
                retries=retries,
            )
        except ValidationError as error:
            fault = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            raise ModelError(f"address or key of the server: {fault}") from None
        if restricted and host_of(url) is not None:
            raise AuthorisationError(
                "judge: the set is restricted and the address is not this machine; serve the model on 127.0.0.1"
            )
        if key_env is not None and not os.environ.get(key_env):
            raise ModelError(f"judge key: environment variable {key_env} is not set; expected the key")
        self.name = model
        self._client = Client(settings, check_name=False)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """Return one reply; a server that is busy or fails is asked again."""
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


def engine_name(model: str) -> str:
    """Return a model's id as the name of an engine."""
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
    return Completion(text, finish, counts, name)
