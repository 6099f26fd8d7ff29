"""Judge calls with retries and votes, and grading of one answer from the replies.

The judge sees the question, the reference and the answer, but not the other options, because options would turn grading
back into choosing. A retry continues the conversation with one line about the error, at the same temperature. Labels
that are certain are kept. Every attempt is recorded. An unreadable reply, a failed call and a tie leave the answer
unscored, never wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from robustify.base.errors import UsageError
from robustify.freeform.llm_judge.judges import Call, Completion, Judge, JudgeCallError
from robustify.freeform.llm_judge.verdicts import (
    SCALES,
    SUPPORT,
    VERDICTS,
    Reading,
    Vote,
    majority_vote,
    parse_labels_multi_format,
    parse_score,
    parse_verdict,
)
from robustify.freeform.prompt_templates import Message, PromptTemplate, prompt_sha256, rendered
from robustify.freeform.schema import Attempt, ErrorType, GradeResult, JudgeTrace
from robustify.freeform.settings import FreeSettings

VOTING_TEMPERATURE = 0.7
"""Temperature if there are several votes. At temperature 0, every vote would repeat the first."""
LONGEST_QUOTED = 4000
"""Characters of an unreadable reply that a retry repeats to the judge."""
_FAULTS: Mapping[ErrorType, str] = {
    "empty": "Your reply was empty.",
    "unterminated_reasoning": "Your reasoning was not closed, so no verdict could be read.",
    "truncation": "Your reply was cut off.",
    "ambiguous": "Your reply gave more than one answer, and they differ.",
    "off_scale": "Your score is not on the scale.",
    "unknown_label": "Your reply used a word that is none of those allowed.",
    "duplicate_index": "Your reply gave one nugget two labels.",
}
_LISTS = {
    "markdown": "the Markdown list", "csv": "the line", "yaml": "the YAML list", "xml": "the `labels` element",
}  # fmt: skip


def line_of(error: ErrorType | None) -> str:
    """Return what to tell a model about a reply with this error."""
    return _FAULTS.get(error or "ambiguous", "Your reply could not be read.")


def call_of(
    settings: FreeSettings, vote: int, name: str = "", value: Mapping[str, Any] | None = None
) -> Call:
    """Return the call settings of one vote. Each vote has a different seed, and several votes use a higher temperature.

    With `json_schema`, the server is asked for an object with reasoning and the member `name` of the schema `value`.
    """
    judge, schema = settings.asking, None
    if judge.json_schema and value is not None:
        members = {"reasoning": {"type": "string"}, name: value}
        schema = {
            "type": "object", "properties": members, "required": [*members], "additionalProperties": False,
        }  # fmt: skip
    temperature = VOTING_TEMPERATURE if judge.votes > 1 else 0.0
    return Call(temperature, judge.max_tokens, judge.seed + vote, vote, schema=schema)


def messages_of(
    settings: FreeSettings, template: PromptTemplate, variables: Mapping[str, object], item_id: str
) -> list[Message]:
    """Render a template with the given variables and the settings' language, after the examples of the settings."""
    # The nonce determines the codes that fence quoted text.
    options = {"nonce": f"{settings.asking.seed}:{item_id}", "language": settings.language}
    *before, case = rendered(template, template.taken({**variables, **options}))
    shared = {name: value for name, value in variables.items() if name in ("scale", "format_type")}
    return [*before, *settings.solved(template, {**shared, "language": settings.language}), case]


def _asked(
    judge: Judge, messages: Sequence[Message], call: Call, retries: int,
    read: Callable[[Completion], tuple[ErrorType | None, str]],
) -> list[Attempt]:  # fmt: skip
    """Call the judge, and repeat the call while `read` returns a retry line and retries remain. Return all attempts."""
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
    """Labels from one request, the error of each missing label, and all attempts."""

    labels: tuple[str | None, ...]
    error_types: tuple[ErrorType | None, ...]
    attempts: tuple[Attempt, ...]


def ask_labels(
    judge: Judge, messages: Sequence[Message], n: int, settings: FreeSettings, vote: int = 0,
    format_type: str = "adaptive",
) -> AskedLabels:  # fmt: skip
    """Ask for the labels of `n` nuggets. A retry asks for all of them again, but certain labels are kept. Raise
    `UsageError` if `n` is below 1, or `format_type` is unknown."""
    labels: list[str | None] = [None] * n
    errors: list[ErrorType | None] = [None] * n

    def read(reply: Completion) -> tuple[ErrorType | None, str]:
        parsed = parse_labels_multi_format(
            reply.text, n, format_type=format_type, finish_reason=reply.finish_reason
        )
        for i, label in enumerate(parsed.labels or [None] * n):
            if labels[i] is None:
                labels[i], errors[i] = label, None if label else parsed.error_type
            elif label not in (None, labels[i]):
                # Two different labels for one nugget cancel out, and the nugget is asked again.
                labels[i], errors[i] = None, "ambiguous"
        what = line_of(parsed.error_type)
        if parsed.error_type == "count_mismatch":
            what = f"Labels in your reply: {parsed.count}; needed: {n}."
        only = f"Reply with only {_LISTS.get(format_type, 'the JSON array')} of {n} labels, in the order of the nuggets."
        return parsed.error_type, "" if all(labels) else f"{what} {only}"

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
    """Grade an answer with the judge. The result has a score, or the error that left it unscored. Raise `UsageError` if
    the template reads neither a score nor a verdict, and `ModelError` if the judge can never be called."""
    if template.reads not in ("score", "verdict"):
        raise UsageError(
            f"Template {template.id} asks for {template.reads}. Choose a grader/ template instead."
        )
    by_verdict = template.reads == "verdict"
    scale = (settings.scale if result.kind == "explanation" else None) or template.scale or "binary"
    scores = "0 or 1" if scale == "binary" else "0, 0.25, 0.5, 0.75 or 1"
    named = '"verdict": "correct"}, or "incorrect", or "not_attempted"'
    wanted = "{" + (named if by_verdict else f'"score": <{scores}>}}')
    messages = messages_of(settings, template, {**variables, "scale": scale}, result.item_id)

    def value(reply: str, finish: str | None) -> Reading[str]:
        if by_verdict:
            return parse_verdict(reply, finish_reason=finish)
        score = parse_score(reply, scale=scale, finish_reason=finish)
        return Reading(None if score.value is None else f"{score.value:g}", score.error_type)

    def fault(reply: Completion) -> tuple[ErrorType | None, str]:
        if (error := value(reply.text, reply.finish_reason).error_type) is None:
            return None, ""
        return error, f"{line_of(error)} Reply with only the JSON object: {wanted}."

    kind, allowed = ("string", [*VERDICTS]) if by_verdict else ("number", [*SCALES[scale]])
    among = {"type": kind, "enum": allowed}
    calls = [call_of(settings, vote, template.reads, among) for vote in range(settings.asking.votes)]
    cast = [_asked(judge, messages, call, settings.asking.retries, fault) for call in calls]
    last = [attempts[-1] for attempts in cast]
    votes = tuple(None if one.error_type else value(one.reply, one.finish_reason).value for one in last)
    vote = majority_vote(votes)
    if len(votes) == 1 and vote.verdict is None:
        vote = Vote(None, 0.0, last[0].error_type)
    own, attempts = judge.name == result.model, tuple(attempt for some in cast for attempt in some)
    trace = JudgeTrace(judge.name, template.id, template.sha256, attempts, votes, vote.agreement, own)
    flags = (*result.flags, "self_judging") if own else result.flags
    graded = replace(result, judge=trace, method="votes" if len(votes) > 1 else "judge", flags=flags)
    if vote.verdict is None:
        return replace(
            graded, status="grader_error", score=None, verdict=None, reason="judge_unread", error_type=vote.error_type
        )  # fmt: skip
    score = VERDICTS[vote.verdict] if by_verdict else float(vote.verdict)
    return replace(
        graded, status="no_answer" if vote.verdict == "not_attempted" else "scored", score=score,
        verdict=vote.verdict if by_verdict else verdict_of(score), reason="judge", error_type=None,
    )  # fmt: skip


def verdict_of(score: float | None) -> str | None:
    """Convert a score to a verdict: incorrect, partial or correct."""
    return None if score is None else {0.0: "incorrect", 1.0: "correct"}.get(score, "partial")
