"""Call judge models on OpenAI-compatible servers, with retries and votes, and grade answers by the replies.

The judge does not see the other options, because they would turn grading back into choosing. A retry continues the
conversation at the same temperature. An unreadable reply, a failed call and a tie leave the answer unscored, never wrong.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from robustify.base.errors import AuthorisationError, ModelError, UsageError
from robustify.base.redaction import HoldsText
from robustify.freeform.llm_judge.verdicts import (
    SCALES,
    SUPPORT,
    VERDICTS,
    parse_labels_multi_format,
    parse_score,
    parse_verdict,
)
from robustify.freeform.schema import AnswerRow, Attempt, GradeResult, JudgeTrace, Status
from robustify.items.prompt_templates import Message, PromptTemplate, prompt_sha256, rendered
from robustify.judging.stats.intervals import majority_vote
from robustify.models.engines.openai.client import Client, Refusal, Unreachable, count_of
from robustify.models.engines.openai.letters import read_replies
from robustify.models.model_settings import OpenAIModel, host_of
from robustify.models.replies import Replies, reply_key
from robustify.pipeline.free_settings import FreeSettings, JudgeSettings
from robustify.reading.reply_structures import ErrorType, Reading, line_of

_STATUSES: Mapping[int | None, ErrorType] = {408: "timeout", 504: "timeout", 429: "rate_limited"}
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


@dataclass(frozen=True, slots=True, repr=False)
class Completion(HoldsText):
    """A judge's reply, without any reasoning that the server returns separately."""

    text: str
    finish_reason: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)


class JudgeCallError(Exception):
    """Raised if a call to the judge fails. `error_type` is the reason. The message never contains the prompt."""

    def __init__(self, error_type: ErrorType) -> None:
        super().__init__(error_type)
        self.error_type: ErrorType = error_type


@dataclass(frozen=True, slots=True)
class Call:
    """Parameters of one call to a judge. `schema` is a JSON schema, which the server should enforce on the reply."""

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
        """Return the reply to a conversation. Raise `JudgeCallError` if this call failed but others may succeed, and
        `ModelError` if no call can succeed."""
        ...


class CachedJudge:
    """A judge with cached replies. `origin` distinguishes models with the same name."""

    def __init__(self, judge: Judge, kept: Replies, origin: object = None) -> None:
        self.name = judge.name
        self._judge, self._kept, self._origin = judge, kept, origin

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """Return the cached reply, or call the judge. Failed calls are not cached, so the next run repeats them."""
        parameters = {name: value for name, value in asdict(call).items() if value is not None}
        key = reply_key("judge", self.name, self._origin, prompt_sha256(messages), parameters)
        if (cached := self._kept.get(key)) is not None:
            return Completion(cached["text"], cached.get("finish_reason"), _counts(cached.get("usage")))
        reply = self._judge.complete(messages, call)
        self._kept.put([(key, {**asdict(reply), "usage": dict(reply.usage)})])
        return reply


class HttpJudge:
    """A judge model on an OpenAI-compatible server. Raise `ModelError` if the openai package is not installed, `UsageError`
    if the key variable is not set, and `AuthorisationError` if the server must not receive the key, or is another machine
    and must not receive items of a `restricted` set."""

    def __init__(self, judge: JudgeSettings, *, restricted: bool = False, retries: int = 2) -> None:
        given = judge.model_dump(include={"model", "base_url", "api_key_env"})
        settings = OpenAIModel(name="judge", engine="openai", retries=retries, **given)
        if restricted and host_of(judge.base_url) is not None:
            fault = (
                "The set is restricted, but the judge is not on this machine. Serve the model on 127.0.0.1."
            )
            raise AuthorisationError(fault, code="judge-elsewhere")
        self.name = judge.model
        self._client, self._takes_schemas = Client(settings, check_name=False), True

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def complete(self, messages: Sequence[Message], call: Call) -> Completion:
        """Send a conversation to the judge, and return the reply. If the server refuses the schema, ask without it."""
        body: dict[str, Any] = {
            "messages": [asdict(message) for message in messages], "temperature": call.temperature,
            "max_tokens": call.max_tokens, "seed": call.seed,
        }  # fmt: skip
        if call.schema is not None and self._takes_schemas:
            named = {"name": "reply", "strict": True, "schema": call.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        try:
            reply = self._client.chat(body)
        except Unreachable as error:
            raise JudgeCallError(_STATUSES.get(error.status, "api_error")) from None
        except Refusal as error:
            if error.status in (400, 422) and "response_format" in body and not error.too_long:
                self._takes_schemas = False
                return self.complete(messages, call)
            if error.status in (404, 405):
                raise
            raise JudgeCallError("content_filter" if error.filtered else "api_error") from None
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
    """Open the configured judge, or yield None if none is configured."""
    if settings is None:
        yield None
        return
    with closing(HttpJudge(settings, restricted=restricted)) as http:
        yield CachedJudge(http, kept, settings.base_url)


def refuse_self_judging(judge: JudgeSettings | None, answers: Sequence[AnswerRow]) -> None:
    """Raise `ModelError` if the judge wrote one of the answers and its settings forbid this."""
    own = sum(answer.model == judge.model for answer in answers) if judge and judge.forbid_self else 0
    if judge and own:
        fault = f"The judge {judge.model} wrote {own} of the answers."
        raise ModelError(f"{fault} Use another judge, or set `forbid_self: false`.", code="self-judging")


# Calls with retries and votes

VOTING_TEMPERATURE = 0.7
"""Temperature if there are several votes. At temperature 0, every vote would repeat the first."""
LONGEST_QUOTED = 4000
"""Characters of an unreadable reply that a retry repeats."""


def call_of(settings: FreeSettings, vote: int, name: str = "", value: object = None) -> Call:
    """Return the parameters of the call for one vote. With `json_schema`, the reply must contain reasoning, and a member
    `name` that follows the schema `value`."""
    judge, schema = settings.asking, None
    if judge.json_schema and value is not None:
        members = {"reasoning": {"type": "string"}, name: value}
        closed = {"required": [*members], "additionalProperties": False}
        schema = {"type": "object", "properties": members, **closed}
    temperature = VOTING_TEMPERATURE if judge.votes > 1 else 0.0
    return Call(temperature, judge.max_tokens, judge.seed + vote, vote, schema=schema)


def messages_of(
    settings: FreeSettings, template: PromptTemplate, variables: Mapping[str, object], item_id: str
) -> list[Message]:
    """Return the messages of a judge call: the configured examples, and the rendered template."""
    # The nonce determines the codes that fence quoted text.
    options = {"nonce": f"{settings.asking.seed}:{item_id}", "language": settings.language}
    *before, case = rendered(template, {**variables, **options})
    shared = {name: value for name, value in variables.items() if name in ("scale", "format_type")}
    return [*before, *settings.solved(template, {**shared, "language": settings.language}), case]


def _asked(
    judge: Judge, messages: Sequence[Message], call: Call, retries: int,
    read: Callable[[Completion], tuple[ErrorType | None, str]],
) -> list[Attempt]:  # fmt: skip
    """Call the judge, and retry (while retries remain) if `read` returns a follow-up message. Return all attempts."""
    conversation, attempts = list(messages), list[Attempt]()
    for number in range(retries + 1):
        digest = prompt_sha256(conversation)
        try:
            reply = judge.complete(conversation, replace(call, attempt=number))
        except JudgeCallError as fault:
            return [*attempts, Attempt(call.vote, digest, "", fault.error_type, None, {})]
        error, again = read(reply)
        attempts.append(Attempt(call.vote, digest, reply.text, error, reply.finish_reason, dict(reply.usage)))
        if not again:
            break
        conversation += [Message("assistant", reply.text[:LONGEST_QUOTED]), Message("user", again)]
    return attempts


class AskedLabels(NamedTuple):
    """Labels from one request, the error for each missing label, and all attempts."""

    labels: tuple[str | None, ...]
    error_types: tuple[ErrorType | None, ...]
    attempts: tuple[Attempt, ...]


def ask_labels(
    judge: Judge, messages: Sequence[Message], n: int, settings: FreeSettings, vote: int = 0,
    format_type: str = "adaptive",
) -> AskedLabels:  # fmt: skip
    """Ask the judge for the labels of `n` nuggets. A retry asks for all labels again, but certain labels are kept."""
    labels: list[str | None] = [None] * n
    errors: list[ErrorType | None] = [None] * n

    def read(reply: Completion) -> tuple[ErrorType | None, str]:
        end = reply.finish_reason
        parsed = parse_labels_multi_format(reply.text, n, format_type=format_type, finish_reason=end)
        for i, label in enumerate(parsed.labels or [None] * n):
            if labels[i] is None:
                labels[i], errors[i] = label, None if label else parsed.error_type
            elif label not in (None, labels[i]):
                # Two different labels for one nugget cancel out, and the nugget is asked again.
                labels[i], errors[i] = None, "ambiguous"
        form = "one of the formats" if format_type == "adaptive" else format_type.upper()
        only = f"Reply with only {n} labels in {form}, in the order of the nuggets."
        return parsed.error_type, "" if all(labels) else f"{line_of(parsed.error_type)} {only}"

    listed = {"type": "array", "items": {"type": "string", "enum": [*SUPPORT]}, "minItems": n, "maxItems": n}
    call = call_of(settings, vote, "labels", listed if format_type in ("json", "adaptive") else None)
    attempts = _asked(judge, messages, call, settings.asking.retries, read)
    last = attempts[-1].error_type
    missing = (None if label else error or last for label, error in zip(labels, errors, strict=True))
    return AskedLabels(tuple(labels), tuple(missing), tuple(attempts))


def judged_reply(
    result: GradeResult, judge: Judge, template: PromptTemplate, variables: Mapping[str, object],
    settings: FreeSettings,
) -> GradeResult:  # fmt: skip
    """Grade an answer with the judge. The result has a score, or the error because of which it has no score. Raise
    `UsageError` if the template asks for neither a score nor a verdict."""
    if template.reads not in ("score", "verdict"):
        line = f"Template {template.id} asks for {template.reads}. Choose a template whose ID begins with grader/."
        raise UsageError(line, code="template-of-another-kind")
    by_verdict = template.reads == "verdict"
    scale = (settings.scale if result.kind == "explanation" else None) or template.scale or "binary"
    wanted = [*VERDICTS] if by_verdict else [f"{score:g}" for score in SCALES[scale]]
    only = f'Reply with only the JSON object: {{"{template.reads}": <{" or ".join(wanted)}>}}.'
    messages = messages_of(settings, template, {**variables, "scale": scale}, result.item_id)

    def value(reply: str, finish: str | None) -> Reading[str]:
        if by_verdict:
            return parse_verdict(reply, finish_reason=finish)
        score = parse_score(reply, scale=scale, finish_reason=finish)
        return Reading(None if score.value is None else f"{score.value:g}", score.error_type)

    def fault(reply: Completion) -> tuple[ErrorType | None, str]:
        error = value(reply.text, reply.finish_reason).error_type
        return error, f"{line_of(error)} {only}" if error else ""

    kind, allowed = ("string", [*VERDICTS]) if by_verdict else ("number", [*SCALES[scale]])
    cast, attempts = list[str | None](), list[Attempt]()
    for nth in range(settings.asking.votes):
        call = call_of(settings, nth, template.reads, {"type": kind, "enum": allowed})
        attempts += _asked(judge, messages, call, settings.asking.retries, fault)
        last = attempts[-1]
        cast.append(None if last.error_type else value(last.reply, last.finish_reason).value)
    vote = majority_vote(cast)
    unread = len(cast) == 1 and vote.verdict is None
    error_type = attempts[-1].error_type if unread else vote.error_type
    own, verdict, record = (
        judge.name == result.model,
        vote.verdict,
        (tuple(attempts), tuple(cast), vote.agreement),
    )
    score = None if verdict is None else VERDICTS[verdict] if by_verdict else float(verdict)
    decided: Status = "no_answer" if verdict == "not_attempted" else "scored"
    return replace(
        result, judge=JudgeTrace(judge.name, template.id, template.sha256, *record, own),
        method="votes" if len(cast) > 1 else "judge", flags=(*result.flags, *(["self_judging"] if own else [])),
        status="grader_error" if score is None else decided, score=score,
        verdict=verdict if by_verdict else verdict_of(score), reason="judge_unread" if score is None else "judge",
        error_type=error_type,
    )  # fmt: skip


def verdict_of(score: float | None) -> str | None:
    """Convert a score to a verdict: incorrect, partial, or correct."""
    return None if score is None else {0.0: "incorrect", 1.0: "correct"}.get(score, "partial")
