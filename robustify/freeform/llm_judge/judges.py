"""Clients for judge models behind OpenAI-compatible servers.

A failed call raises `JudgeCallError` with the name of the error. The name is recorded in the grade and is never a
verdict. Rejected credentials end the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, runtime_checkable

from robustify.base.errors import AuthorisationError, ModelError
from robustify.base.redaction import HoldsText
from robustify.freeform.prompt_templates import Message, prompt_sha256
from robustify.freeform.schema import AnswerRow, ErrorType
from robustify.freeform.settings import JudgeSettings
from robustify.models.engines.openai.client import Client, Unreachable, count_of
from robustify.models.engines.openai.letters import read_replies
from robustify.models.engines.openai.refusals import Refusal
from robustify.models.engines.settings import OpenAIModel, host_of
from robustify.models.replies import Replies, reply_key

RETRIES = 2
"""Number of times that a call to a busy or failing server is repeated."""
_STATUSES: Mapping[int | None, ErrorType] = {408: "timeout", 504: "timeout", 429: "rate_limited"}
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


@dataclass(frozen=True, slots=True, repr=False)
class Completion(HoldsText):
    """A judge's reply. Reasoning that a server returns separately is discarded."""

    text: str
    finish_reason: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)


class JudgeCallError(Exception):
    """A judge call without a reply, with the reason in `error_type`. The message never contains the prompt."""

    def __init__(self, error_type: ErrorType) -> None:
        super().__init__(error_type)
        self.error_type: ErrorType = error_type


@dataclass(frozen=True, slots=True)
class Call:
    """Parameters of one judge call. `vote` and `attempt` distinguish repeated calls. `schema` is the JSON schema that the
    server should make the reply follow."""

    temperature: float = 0.0
    max_tokens: int = 1024
    seed: int = 0
    vote: int = 0
    attempt: int = 0
    schema: Mapping[str, Any] | None = None


@runtime_checkable
class Judge(Protocol):
    """Interface of a judge: any object that completes a conversation."""

    name: str

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """Return the reply to a conversation. Raise `JudgeCallError` if this call failed, but others may succeed, and
        `ModelError` if no call can succeed."""
        ...


class CachedJudge:
    """A judge with cached replies, so that each call is made once. `origin` identifies the model beyond its name."""

    def __init__(self, judge: Judge, kept: Replies, origin: object = None) -> None:
        self.name = judge.name
        self._judge, self._kept, self._origin = judge, kept, origin

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """Return the cached reply, or call the judge. Failed calls are not cached, so the next run repeats them."""
        asked = {name: value for name, value in asdict(call).items() if value is not None}
        key = reply_key("judge", self.name, self._origin, prompt_sha256(messages), asked)
        if (said := self._kept.get(key)) is not None:
            return Completion(said["text"], said.get("finish_reason"), _counts(said.get("usage")))
        reply = self._judge.complete(messages, call)
        self._kept.put([(key, {**asdict(reply), "usage": dict(reply.usage)})])
        return reply


class HttpJudge:
    """A judge model behind an OpenAI-compatible server. For a restricted set, the server must be on this machine. Raise
    `ModelError` if the openai package is not installed, `AuthorisationError` if the set is restricted, and the address
    is not this machine, or it must not get the key, and `UsageError` if the key variable is not set."""

    def __init__(self, judge: JudgeSettings, *, restricted: bool = False, retries: int = RETRIES) -> None:
        given = judge.model_dump(include={"model", "base_url", "api_key_env"})
        settings = OpenAIModel(name="judge", engine="openai", retries=retries, **given)
        if restricted and host_of(judge.base_url) is not None:
            raise AuthorisationError(
                "The set is restricted, but the judge is not on this machine. Serve the model on 127.0.0.1."
            )
        self.name = judge.model
        self._client, self._takes_schemas = Client(settings, check_name=False), True

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """Return one reply. Calls to a busy or failing server are repeated. A server that refuses a schema is asked
        without one."""
        body: dict[str, Any] = {
            "messages": [asdict(message) for message in messages], "temperature": call.temperature,
            "max_tokens": call.max_tokens, "seed": call.seed,
        }  # fmt: skip
        if call.schema is not None and self._takes_schemas:
            named = {"name": "reply", "strict": True, "schema": call.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        try:
            return _completion(self._client.chat(body))
        except Unreachable as error:
            raise JudgeCallError(_STATUSES.get(error.status, "api_error")) from None
        except Refusal as error:
            if error.status in (400, 422) and "response_format" in body and not error.too_long:
                self._takes_schemas = False
                return self.complete(messages, call)
            if error.status in (404, 405):
                raise
            raise JudgeCallError("content_filter" if error.filtered else "api_error") from None


def _completion(reply: Mapping[str, Any]) -> Completion:
    try:
        text = read_replies(reply, "chat", "judge")[0]
    except ModelError:
        raise JudgeCallError("api_error") from None
    if text.finish_reason == "content_filter" and not text.strip():
        raise JudgeCallError("content_filter")
    # Nothing else of a server's reply is recorded, because its messages may quote the prompt.
    return Completion(str(text), text.finish_reason, _counts(reply.get("usage")))


def _counts(usage: Any) -> dict[str, int]:
    counts = {n: count_of(usage.get(n)) for n in _COUNTS} if isinstance(usage, dict) else {}
    return {name: n for name, n in counts.items() if n}


@contextmanager
def open_judge(
    settings: JudgeSettings | None, kept: Replies, *, restricted: bool = False
) -> Iterator[Judge | None]:
    """Open the configured judge as a context manager, or yield None if none is configured."""
    if settings is None:
        yield None
        return
    with closing(HttpJudge(settings, restricted=restricted)) as http:
        yield CachedJudge(http, kept, settings.base_url)


def refuse_self_judging(judge: JudgeSettings | None, answers: Sequence[AnswerRow]) -> None:
    """Raise `ModelError` if the judge wrote one of the answers and its settings forbid this."""
    own = sum(answer.model == judge.model for answer in answers) if judge and judge.forbid_self else 0
    if judge and own:
        raise ModelError(
            f"judge {judge.model}: wrote {own} of the answers. Use another judge, or set `forbid_self: false`."
        )
