"""What a judge says of one answer: a verdict or a score by a template, with its trace.

The judge sees question, reference and answer, and not the other options, which would lead it back to choosing. A reply
that cannot be read, a call that fails and a tie are `grader_error`: unscored, told, and never a wrong answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from robustify.freeform.errors import ErrorType, FreeformError
from robustify.freeform.judge.asking import Reading, ask_votes
from robustify.freeform.judge.fewshot import Shot, fits, turns
from robustify.freeform.judge.prompting import Message, rendered
from robustify.freeform.judge.protocol import Call, Completion, Judge
from robustify.freeform.judge.store import Template, TemplateStore, get_store
from robustify.freeform.judge.verdicts import parse_score, parse_verdict
from robustify.freeform.labels.sets import LABEL_SETS
from robustify.freeform.schema import GradeResult, JudgeTrace, Method, Status

VERDICT_SCORES: Mapping[str, float] = {"correct": 1.0, "incorrect": 0.0, "not_attempted": 0.0}


@dataclass(frozen=True, slots=True)
class Judging:
    """How a judge is asked: votes, retries, seed, worked cases, language and field.

    `under_test` is the model whose answer is judged: a judge of that name is flagged `self_judging`.
    """

    votes: int = 1
    max_parse_retries: int = 2
    max_tokens: int = 1024
    seed: int = 0
    language: str | None = None
    domain: str | None = None
    shots: tuple[Shot, ...] = ()
    store: TemplateStore = field(default_factory=get_store, compare=False)

    @property
    def call(self) -> Call:
        """The first vote's call."""
        return Call(max_tokens=self.max_tokens, seed=self.seed)

    def nonce(self, item_id: str) -> str:
        """What the codes of quotations are made from."""
        return f"{self.seed}:{item_id}"

    def messages(
        self, template: Template, variables: Mapping[str, object], item_id: str, format_type: str = "json"
    ) -> list[Message]:
        """The conversation: the template's turns, with the worked cases before the question."""
        values = {
            name: value
            for name, value in variables.items()
            if name in (*template.variables, *template.optional)
        }
        options = {"nonce": self.nonce(item_id), "language": self.language, "domain": self.domain}
        values |= {
            n: v
            for n, v in options.items()
            if v is not None and n in (*template.variables, *template.optional)
        }
        made = rendered(template, values, self.store)
        fitting = [shot for shot in self.shots if fits(shot, template)]
        shown = turns(template, fitting, format_type, self.nonce(item_id))
        return [*made[:-1], *shown, made[-1]]


def judged(
    result: GradeResult,
    judge: Judge,
    template_id: str,
    variables: Mapping[str, object],
    how: Judging,
    scale: str | None = None,
) -> GradeResult:
    """A grade with the judge's word in it: its score, or the error that left it unscored.

    Raises:
        FreeformError: a template that reads neither a score nor a verdict.
        JudgeConfigError: the judge can never be asked.
    """
    template = how.store.get(template_id)
    if template.reads not in ("score", "verdict"):
        raise FreeformError(
            f"template {template.id}: reads {template.reads}; expected one that reads a score or a verdict"
        )
    on = scale or template.scale or "binary"
    messages = how.messages(template, {**variables, "scale": on}, result.item_id)

    def read(reply: Completion) -> Reading[str]:
        if template.reads == "verdict":
            labels = LABEL_SETS[template.label_set or "verdict3"]
            found = parse_verdict(reply.text, label_set=labels, finish_reason=reply.finish_reason)
            return Reading(found.verdict, found.reasoning, found.error_type)
        score = parse_score(reply.text, scale=on, finish_reason=reply.finish_reason)
        return Reading(None if score.score is None else f"{score.score:g}", score.reasoning, score.error_type)

    vote, votes, attempts = ask_votes(
        judge, messages, read, _wanted(template, on), how.call, how.votes, how.max_parse_retries
    )
    trace = JudgeTrace(
        judge.name, template.id, template.sha256, attempts, votes, vote.agreement, judge.name == result.model
    )
    return _graded(result, trace, template, vote.verdict, vote.error_type)


def _graded(
    result: GradeResult, trace: JudgeTrace, template: Template, verdict: str | None, error: ErrorType | None
) -> GradeResult:
    flags = (*result.flags, "self_judging") if trace.self_judging else result.flags
    method: Method = "votes" if len(trace.votes) > 1 else "judge"
    graded = replace(result, judge=trace, flags=flags, method=method)
    if verdict is None:
        return replace(
            graded, status="grader_error", score=None, verdict=None, reason="judge_unread", error_type=error
        )
    if template.reads == "verdict":
        status: Status = "no_answer" if verdict == "not_attempted" else "scored"
        return replace(
            graded,
            status=status,
            score=VERDICT_SCORES[verdict],
            verdict=verdict,
            reason="judge",
            error_type=None,
        )
    score = float(verdict)
    name = "correct" if score == 1 else "incorrect" if score == 0 else "partial"
    return replace(graded, status="scored", score=score, verdict=name, reason="judge", error_type=None)


def _wanted(template: Template, scale: str) -> str:
    if template.reads == "verdict":
        return 'Reply with only the JSON object: {"verdict": "correct"}, or "incorrect", or "not_attempted".'
    scores = "0 or 1" if scale == "binary" else "0, 0.25, 0.5, 0.75 or 1"
    return f'Reply with only the JSON object: {{"score": <{scores}>}}.'


def tolerance_percent(rel: Decimal) -> str:
    """A relative tolerance as a template prints it: 0.07 is 7, not 7.000000000000001."""
    return f"{(rel * 100).normalize():f}"
