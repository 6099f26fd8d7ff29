"""How a judge is asked, and its verdict or score on one answer, with its trace; worked cases before the question.

The judge sees question, reference and answer, and not the other options, which would lead it back to choosing. A reply
that cannot be read, a call that fails and a tie are `grader_error`: unscored and counted, never a wrong answer.
"""

import json
import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from robustify.errors import DataError, UsageError
from robustify.freeform.answer_text import normalize_tokens
from robustify.freeform.judge.asking import ask_votes
from robustify.freeform.judge.judges import Call, Completion, Judge
from robustify.freeform.judge.prompting import Message, rendered
from robustify.freeform.judge.store import PromptTemplate, TemplateStore, get_store
from robustify.freeform.judge.verdicts import VERDICT3, Reading, parse_score, parse_verdict
from robustify.freeform.schema import FreeItem, GradeResult, JudgeTrace, Status
from robustify.redaction import KeptHere

SHARED = 13
"""Words in a row that are no accident."""


@dataclass(frozen=True, slots=True, repr=False)
class Shot(KeptHere):
    """One worked case: a question, an answer, and a good judge's reply to it."""

    question: str
    answer: str
    reference: str = ""
    verdict: str = ""
    score: float | None = None
    reasoning: str = ""
    nuggets: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


def read_shots(family: str, name: str) -> list[Shot]:
    """The cases of a set: one that ships with the package, or a YAML file by its path.

    Raises:
        DataError: no such set, or one that does not fit.
    """
    built_in = files("robustify.freeform") / "fewshot" / family / f"{name}.yaml"
    try:
        rows = yaml.safe_load((built_in if built_in.is_file() else Path(name)).read_text(encoding="utf-8"))
        return [_shot(row) for row in rows]
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        raise DataError(f"few-shot set {name!r} of {family}: no such set or file; expected YAML") from None
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
        raise DataError(
            f"few-shot set {name!r} of {family}: a case that does not fit; expected question, answer, and verdict or labels"
        ) from None


def _shot(row: dict[str, Any]) -> Shot:
    lists = {name: tuple(map(str, row.get(name) or ())) for name in ("nuggets", "labels")}
    if len(lists["nuggets"]) != len(lists["labels"]):
        raise ValueError
    shot = Shot(**(row | lists))
    if not (shot.verdict or shot.labels):
        raise ValueError
    return shot


def pick_shots(shots: Sequence[Shot], k: int, seed: int = 0) -> list[Shot]:
    """`k` cases in a seeded order, each verdict as often as the others as far as they go.

    Raises:
        DataError: fewer than `k` cases.
    """
    if k > len(shots):
        raise DataError(f"{k} few-shot cases wanted; the set has {len(shots)}")
    rng = random.Random(f"few-shot/{seed}")
    by_kind: dict[str, list[Shot]] = {}
    for shot in rng.sample(list(shots), len(shots)):
        by_kind.setdefault(shot.verdict or ",".join(sorted(set(shot.labels))), []).append(shot)
    picked: list[Shot] = []
    while len(picked) < k:
        for kind in sorted(by_kind):
            if by_kind[kind] and len(picked) < k:
                picked.append(by_kind[kind].pop())
    return picked


def nearest_shots(shots: Sequence[Shot], k: int, text: str) -> list[Shot]:
    """The `k` cases that share most words with a text, rare words counting more; the nearest last, ties in their order."""
    words = [set(normalize_tokens(f"{shot.question} {shot.answer}")) for shot in shots]
    known = Counter(word for some in words for word in some)
    wanted = set(normalize_tokens(text))

    def alike(place: int) -> float:
        return sum(1 / known[word] for word in words[place] & wanted) / math.sqrt(len(words[place]) or 1)

    places = sorted(range(len(shots)), key=lambda place: (-alike(place), place))[:k]
    return [shots[place] for place in reversed(places)]


def check_leak(shots: Sequence[Shot], items: Iterable[FreeItem]) -> None:
    """Refuse cases that are among the questions under evaluation or share 13 words in a row with one (`DataError`)."""
    questions = {normalize_tokens(shot.question) for shot in shots}
    texts = [t for shot in shots for t in (shot.question, shot.answer, shot.reference, *shot.nuggets)]
    runs = {run for text in texts for run in _runs(text)}
    leaked = [
        item.id
        for item in items
        if normalize_tokens(item.question) in questions
        or not runs.isdisjoint(_runs(item.question) | _runs(item.reference))
    ]
    if leaked:
        raise DataError(f"{len(leaked)} items are few-shot cases (first {leaked[0]}); use another set")


def _runs(text: str) -> set[tuple[str, ...]]:
    tokens = normalize_tokens(text)
    return {tokens[i : i + SHARED] for i in range(len(tokens) - SHARED + 1)}


def turns(template: PromptTemplate, shots: Sequence[Shot], format_type: str, nonce: str) -> list[Message]:
    """The cases that fit a template as turns of user and assistant, in its words and the format that is wanted."""
    out: list[Message] = []
    for i, shot in enumerate(shot for shot in shots if _fits(template, shot)):
        known = _variables(shot, format_type) | {"nonce": f"{nonce}/shot {i}"}
        variables = {name: known[name] for name in template.variables}
        user = next(m for m in rendered(template, variables) if m.role == "user")
        out += [user, Message("assistant", _reply(template, shot, format_type))]
    return out


def _fits(template: PromptTemplate, shot: Shot) -> bool:
    """Whether a case shows the reply that a template wants."""
    if template.reads == "labels":
        return bool(shot.labels)
    return template.reads in ("score", "verdict") and bool(shot.verdict)


def _variables(shot: Shot, format_type: str) -> dict[str, object]:
    return {
        "question": shot.question, "query": shot.question, "answer": shot.answer, "passage": shot.answer,
        "reference": shot.reference, "nuggets": shot.nuggets, "num_nuggets": len(shot.nuggets), "scale": "binary",
        "format_type": format_type, "tolerance_percent": "5",
    }  # fmt: skip


def example_of(template: PromptTemplate, how: "Judging", format_type: str | None = None) -> list[Message]:
    """The rendered prompt of a template, with a made-up harmless case in it."""
    cases = read_shots("nugget" if template.reads == "labels" else "grader", "general")
    case = next((case for case in cases if case not in how.shots), cases[0])
    written = format_type or template.own_format
    return how.messages(template, _variables(case, written), "example", written)


def _reply(template: PromptTemplate, shot: Shot, format_type: str) -> str:
    if template.reads != "labels":
        key, value = ("verdict", shot.verdict) if template.reads == "verdict" else ("score", shot.score)
        return json.dumps({"reasoning": shot.reasoning, key: value}, ensure_ascii=False)
    if format_type == "markdown":
        return "\n".join(f"* {label}" for label in shot.labels)
    return ", ".join(shot.labels) if format_type == "csv" else json.dumps(list(shot.labels))


@dataclass(frozen=True, slots=True)
class Judging:
    """How a judge is asked: votes, retries, seed, worked cases, language and field.

    `nearest`: of the worked cases, only so many that are most like the question and answer.
    """

    votes: int = 1
    max_parse_retries: int = 2
    max_tokens: int = 1024
    seed: int = 0
    language: str | None = None
    domain: str | None = None
    shots: tuple[Shot, ...] = ()
    nearest: int | None = None
    store: TemplateStore = field(default_factory=get_store, compare=False)

    @property
    def call(self) -> Call:
        """The first vote's call."""
        return Call(max_tokens=self.max_tokens, seed=self.seed)

    def messages(
        self,
        template: PromptTemplate,
        variables: Mapping[str, object],
        item_id: str,
        format_type: str = "json",
    ) -> list[Message]:
        """The conversation: the template's turns, with the worked cases before the question."""
        # The codes of quotations are made from it.
        nonce = f"{self.seed}:{item_id}"
        options = {"nonce": nonce, "language": self.language, "domain": self.domain}
        known = {**variables, **{name: value for name, value in options.items() if value is not None}}
        values = {n: v for n, v in known.items() if n in (*template.variables, *template.optional)}
        made = rendered(template, values, self.store)
        shots: Sequence[Shot] = [shot for shot in self.shots if _fits(template, shot)]
        if self.nearest is not None and shots:
            text = " ".join(str(known.get(name, "")) for name in ("question", "query", "answer", "passage"))
            shots = nearest_shots(shots, self.nearest, text)
        return [*made[:-1], *turns(template, shots, format_type, nonce), made[-1]]


def judged_reply(
    result: GradeResult, judge: Judge, template: PromptTemplate, variables: Mapping[str, object], how: Judging,
    scale: str | None = None,
) -> GradeResult:  # fmt: skip
    """A grade with the judge's verdict: its score, or the error that left it unscored.

    Raises:
        UsageError: a template that reads neither a score nor a verdict.
        ModelError: the judge can never be asked.
    """
    if template.reads not in ("score", "verdict"):
        raise UsageError(f"template {template.id}: reads {template.reads}; expected a score or a verdict")
    on = scale or template.scale or "binary"
    messages = how.messages(template, {**variables, "scale": on}, result.item_id)

    def read(reply: Completion) -> Reading[str]:
        if template.reads == "verdict":
            return parse_verdict(reply.text, finish_reason=reply.finish_reason)
        score = parse_score(reply.text, scale=on, finish_reason=reply.finish_reason)
        return Reading(None if score.value is None else f"{score.value:g}", score.error_type)

    vote, votes, attempts = ask_votes(
        judge, messages, read, _wanted(template, on), how.call, how.votes, how.max_parse_retries
    )
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
    score = VERDICT3.scores[verdict] if template.reads == "verdict" else float(verdict)
    word = verdict if template.reads == "verdict" else verdict_of(score)
    status: Status = "no_answer" if verdict == "not_attempted" else "scored"
    return replace(graded, status=status, score=score, verdict=word, reason="judge", error_type=None)


def verdict_of(score: float | None) -> str | None:
    """The verdict that a score amounts to."""
    return None if score is None else {0.0: "incorrect", 1.0: "correct"}.get(score, "partial")


def _wanted(template: PromptTemplate, scale: str) -> str:
    if template.reads == "verdict":
        return 'Reply with only the JSON object: {"verdict": "correct"}, or "incorrect", or "not_attempted".'
    scores = "0 or 1" if scale == "binary" else "0, 0.25, 0.5, 0.75 or 1"
    return f'Reply with only the JSON object: {{"score": <{scores}>}}.'


def tolerance_percent(rel: Decimal) -> str:
    """A relative tolerance as a template prints it: 0.07 is 7, not 7.000000000000001."""
    return f"{(rel * 100).normalize():f}"
