"""Judge calls with retries and votes, and grading of one answer from the replies.

The judge sees the question, the reference and the answer, but not the other options, because options would turn grading
back into choosing. A retry continues the conversation with one line about the error, at the same temperature. Labels
that are certain are kept. Every attempt is recorded. An unreadable reply, a failed call and a tie leave the answer
unscored, never wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from robustify.errors import UsageError
from robustify.freeform.llm_judge.judges import Call, Completion, Judge, JudgeCallError
from robustify.freeform.llm_judge.prompting import Message, prompt_sha256, rendered
from robustify.freeform.llm_judge.verdicts import (
    VERDICTS,
    Reading,
    Vote,
    majority_vote,
    parse_labels_multi_format,
    parse_score,
    parse_verdict,
)
from robustify.freeform.schema import Attempt, ErrorType, GradeResult, JudgeTrace, Status
from robustify.freeform.settings import FreeSettings
from robustify.freeform.template_store import PromptTemplate

VOTING_TEMPERATURE = 0.7
"""Temperature if there are several votes. At temperature 0, every vote would repeat the first."""
LONGEST_QUOTED = 4000
"""Characters of an unreadable reply that a retry repeats to the judge."""


def call_of(settings: FreeSettings, vote: int) -> Call:
    """Return the call settings of one vote. Each vote has a different seed, and several votes use a higher temperature."""
    judge = settings.asking
    return Call(VOTING_TEMPERATURE if judge.votes > 1 else 0.0, judge.max_tokens, judge.seed + vote, vote)


def messages_of(
    settings: FreeSettings, template: PromptTemplate, variables: Mapping[str, object], item_id: str
) -> list[Message]:
    """Render a template with the given variables and the settings' language."""
    judge = settings.asking
    # The nonce determines the codes that fence quoted text.
    options = {"nonce": f"{judge.seed}:{item_id}", "language": settings.language}
    known = {**variables, **{name: value for name, value in options.items() if value is not None}}
    values = {n: v for n, v in known.items() if n in (*template.variables, *template.optional)}
    return rendered(template, values)


@dataclass(frozen=True, slots=True)
class AskedLabels:
    """Labels from one request, the error of each missing label, and all attempts."""

    labels: tuple[str | None, ...]
    error_types: tuple[ErrorType | None, ...]
    attempts: tuple[Attempt, ...]


def _asked(
    judge: Judge,
    messages: Sequence[Message],
    call: Call,
    retries: int,
    read: Callable[[Completion], tuple[ErrorType | None, str]],
) -> list[Attempt]:
    """Call the judge, and repeat the call while `read` returns a retry line and retries remain. Return all attempts."""
    conversation, attempts = list(messages), list[Attempt]()
    for number in range(retries + 1):
        made = replace(call, attempt=number)
        digest = prompt_sha256(conversation)
        try:
            reply = judge.complete(conversation, made)
        except JudgeCallError as fault:
            return [*attempts, Attempt(call.vote, digest, "", fault.error_type, None, {})]
        error, again = read(reply)
        attempts.append(Attempt(call.vote, digest, reply.text, error, reply.finish_reason, dict(reply.usage)))
        if not again:
            break
        conversation += [Message("assistant", reply.text[:LONGEST_QUOTED]), Message("user", again)]
    return attempts


def ask_votes(
    judge: Judge,
    messages: Sequence[Message],
    read: Callable[[Completion], Reading[str]],
    wanted: str,
    settings: FreeSettings,
) -> tuple[Vote, tuple[str | None, ...], tuple[Attempt, ...]]:
    """Ask for all votes, and return the majority, the votes and all attempts. Retries end with `wanted`."""

    def fault(reply: Completion) -> tuple[ErrorType | None, str]:
        error = read(reply).error_type
        return error, f"{_fault_line(error)} {wanted}" if error else ""

    votes, retries = settings.asking.votes, settings.asking.retries
    cast = [_asked(judge, messages, call_of(settings, vote), retries, fault) for vote in range(votes)]
    last = [attempts[-1] for attempts in cast]
    values = tuple(
        None if one.error_type else read(Completion(one.reply, one.finish_reason)).value for one in last
    )
    most = majority_vote(values)
    if votes == 1 and most.verdict is None:
        most = Vote(None, 0.0, last[0].error_type)
    return most, values, tuple(attempt for attempts in cast for attempt in attempts)


def ask_labels(
    judge: Judge, messages: Sequence[Message], expected_count: int, *, max_parse_retries: int = 2,
    format_type: str = "adaptive", call: Call | None = None,
) -> AskedLabels:  # fmt: skip
    """Ask for the labels of `expected_count` nuggets. A retry asks for all of them again, but certain labels are kept.

    Raises:
        UsageError: `expected_count` is below 1, or `format_type` is unknown.
    """
    n = expected_count
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
        what = _fault_line(parsed.error_type or "ambiguous")
        if parsed.error_type == "count_mismatch":
            what = f"Labels in your reply: {parsed.count}; needed: {n}."
        only = f"Reply with only {_LIST.get(format_type, 'the JSON array')} of {n} labels, in the order of the nuggets."
        return parsed.error_type, "" if all(labels) else f"{what} {only}"

    attempts = _asked(judge, messages, call or Call(), max_parse_retries, read)
    errors = [
        None if label else error or attempts[-1].error_type
        for label, error in zip(labels, errors, strict=True)
    ]
    return AskedLabels(tuple(labels), tuple(errors), tuple(attempts))


_LIST = {
    "markdown": "the Markdown list",
    "csv": "the line",
    "yaml": "the YAML list",
    "xml": "the `labels` element",
}


def _fault_line(error: ErrorType) -> str:
    return {
        "empty": "Your reply was empty.",
        "unterminated_reasoning": "Your reasoning was not closed, so no verdict could be read.",
        "truncation": "Your reply was cut off.",
        "ambiguous": "Your reply gave more than one answer, and they differ.",
        "off_scale": "Your score is not on the scale.",
        "unknown_label": "Your reply used a word that is none of those allowed.",
        "duplicate_index": "Your reply gave one nugget two labels.",
    }.get(error, "Your reply could not be read.")


def judged_reply(
    result: GradeResult, judge: Judge, template: PromptTemplate, variables: Mapping[str, object],
    settings: FreeSettings,
) -> GradeResult:  # fmt: skip
    """Grade an answer with the judge. The result has a score, or the error that left it unscored.

    Raises:
        UsageError: the template reads neither a score nor a verdict.
        ModelError: the judge can never be called.
    """
    if template.reads not in ("score", "verdict"):
        raise UsageError(
            f"Template {template.id} asks for {template.reads}. Choose a grader/ template instead."
        )
    scale = settings.scale if result.kind == "explanation" else None
    on = scale or template.scale or "binary"
    messages = messages_of(settings, template, {**variables, "scale": on}, result.item_id)

    def read(reply: Completion) -> Reading[str]:
        if template.reads == "verdict":
            return parse_verdict(reply.text, finish_reason=reply.finish_reason)
        score = parse_score(reply.text, scale=on, finish_reason=reply.finish_reason)
        return Reading(None if score.value is None else f"{score.value:g}", score.error_type)

    vote, votes, attempts = ask_votes(judge, messages, read, _wanted(template, on), settings)
    own = judge.name == result.model
    trace = JudgeTrace(judge.name, template.id, template.sha256, attempts, votes, vote.agreement, own)
    graded = replace(
        result, judge=trace, method="votes" if len(votes) > 1 else "judge",
        flags=(*result.flags, "self_judging") if own else result.flags,
    )  # fmt: skip
    verdict = vote.verdict
    if verdict is None:
        unread = vote.error_type
        return replace(
            graded, status="grader_error", score=None, verdict=None, reason="judge_unread", error_type=unread
        )
    score = VERDICTS[verdict] if template.reads == "verdict" else float(verdict)
    word = verdict if template.reads == "verdict" else verdict_of(score)
    status: Status = "no_answer" if verdict == "not_attempted" else "scored"
    return replace(graded, status=status, score=score, verdict=word, reason="judge", error_type=None)


def verdict_of(score: float | None) -> str | None:
    """Convert a score to a verdict: incorrect, partial or correct."""
    return None if score is None else {0.0: "incorrect", 1.0: "correct"}.get(score, "partial")


def _wanted(template: PromptTemplate, scale: str) -> str:
    if template.reads == "verdict":
        return 'Reply with only the JSON object: {"verdict": "correct"}, or "incorrect", or "not_attempted".'
    scores = "0 or 1" if scale == "binary" else "0, 0.25, 0.5, 0.75 or 1"
    return f'Reply with only the JSON object: {{"score": <{scores}>}}.'


def tolerance_percent(rel: Decimal) -> str:
    """Format a relative tolerance as a percentage for a template, without rounding errors."""
    return f"{(rel * 100).normalize():f}"
