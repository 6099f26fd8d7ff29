"""Judges: models behind servers, and how they are called.

A call that fails raises `JudgeCallError` with the name of its fault, which is written into the grade and is never a
verdict. Refused credentials end the run.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, runtime_checkable

from pydantic import ValidationError

from robustify.engines.openai.client import Client, Refusal, Unreachable, count_of
from robustify.engines.protocols import finish_reason_of
from robustify.engines.settings import OpenAIModel, host_of
from robustify.errors import AuthorisationError, ModelError
from robustify.freeform.llm_judge.prompting import Message, prompt_sha256
from robustify.freeform.replies import Replies, reply_key
from robustify.freeform.schema import AnswerRow, ErrorType
from robustify.freeform.settings import JudgeSettings
from robustify.redaction import KeptHere

RETRIES = 2
"""How often a server is asked again."""
_STATUSES: Mapping[int | None, ErrorType] = {408: "timeout", 504: "timeout", 429: "rate_limited"}
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


@dataclass(frozen=True, slots=True, repr=False)
class Completion(KeptHere):
    """A judge's reply. What a server gives apart from the text, as reasoning, is not kept."""

    text: str
    finish_reason: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)


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
            return Completion(said["text"], said.get("finish_reason"), _counts(said.get("usage")))
        reply = self._judge.complete(messages, call)
        self._kept.put([(key, {**asdict(reply), "usage": dict(reply.usage)})])
        return reply


class HttpJudge:
    """A model behind an OpenAI-compatible server. For a restricted set its address must be this machine.

    Raises:
        ModelError: not an http address, the variable of the key is not set, or the openai package is not installed.
        AuthorisationError: `restricted`, and the address is not this machine.
    """

    def __init__(self, judge: JudgeSettings, *, restricted: bool = False, retries: int = RETRIES) -> None:
        given = judge.model_dump(include={"model", "base_url", "api_key_env"})
        try:
            settings = OpenAIModel(name="judge", engine="openai", retries=retries, **given)
        except ValidationError as error:
            fault = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            raise ModelError(f"address or key of the server: {fault}") from None
        if restricted and host_of(judge.base_url) is not None:
            raise AuthorisationError(
                "judge: the set is restricted and the address is not this machine; serve the model on 127.0.0.1"
            )
        key = judge.api_key_env
        if key is not None and not os.environ.get(key):
            raise ModelError(f"judge key: environment variable {key} is not set; expected the key")
        self.name = judge.model
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
        return _completion(reply)


def _completion(reply: Mapping[str, Any]) -> Completion:
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
    return Completion(text, finish, _counts(reply.get("usage")))


def _counts(usage: Any) -> dict[str, int]:
    counts = {n: count_of(usage.get(n)) for n in _COUNTS} if isinstance(usage, dict) else {}
    return {name: n for name, n in counts.items() if n}


@contextmanager
def open_judge(
    settings: JudgeSettings | None, kept: Replies, *, restricted: bool = False
) -> Iterator[Judge | None]:
    """Open the judge, or yield None if none is named; the raised errors are those of `HttpJudge`."""
    if settings is None:
        yield None
        return
    with closing(HttpJudge(settings, restricted=restricted)) as http:
        yield KeptJudge(http, kept, settings.base_url)


def refuse_self_judging(judge: JudgeSettings | None, answers: Sequence[AnswerRow]) -> None:
    """Refuse a judge that wrote one of the answers, unless its settings allow it (`ModelError`)."""
    own = sum(answer.model == judge.model for answer in answers) if judge and judge.forbid_self else 0
    if judge and own:
        raise ModelError(
            f"judge {judge.model}: wrote {own} of the answers; expected another model, or forbid_self: false"
        )
