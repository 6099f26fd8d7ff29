"""The graders of numbers, choices and explanations: one answer in, one grade out; and a whole file of answers graded.

The rules decide what they can; a judge is asked for the rest, and never sees an answer that was cut off. Each grade is on
the disk before the next. It is identified by its item, answer, rules, template and judge; if one changes, the answer is
graded anew.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Literal, get_args

from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.freeform.answer_text import Finding, shown_answer
from robustify.freeform.grade.claims import find_choice, find_explanation
from robustify.freeform.grade.nuggets import NUGGETS, blank_nuggets, grade_nuggets
from robustify.freeform.grade.numeric import NumericRule, Percent, find_numeric, rivals_of, written
from robustify.freeform.jsonl import appending, read_jsonl, write_rows
from robustify.freeform.judge.asking import Judging, judged_reply, tolerance_percent
from robustify.freeform.judge.judges import Judge
from robustify.freeform.judge.prompting import sealed_digest
from robustify.freeform.judge.store import PromptTemplate
from robustify.freeform.judge.verdicts import scale_of
from robustify.freeform.schema import AnswerRow, FreeItem, GradedKind, GradeResult, Kind, grade_from

Mode = Literal["deterministic", "auto", "judge", "both"]
GRADERS: Mapping[GradedKind, str] = {
    "numeric": "numeric/2", "short_text": "choice/2", "explanation": "explanation/2", "nuggets": NUGGETS,
}  # fmt: skip
"""Graders with their versions, as written in a grade."""
RUBRICS: Mapping[str, Kind] = {"mcq": "short_text", "numeric": "numeric", "explanation": "explanation"}
"""The graders of the templates `grader/NAME`, by the kind of answer that each judges."""
_CLOSED = ("truncated", "reference_error", "grader_error")


@dataclass(frozen=True, slots=True)
class Grading:
    """The rules of grading.

    `scale` and `format_type` None: those of the template.
    `rel_tol` 5 % is the first draft's default; 1 % is advised for new sets.
    """

    mode: Mode = "auto"
    rel_tol: float = 0.05
    abs_tol: float = 0.0
    percent: Percent = "auto"
    scale: str | None = None
    mcq_template: str = "grader/mcq@2.0"
    numeric_template: str = "grader/numeric@2.0"
    explanation_template: str = "grader/explanation@2.0"
    nugget_template: str = "nugget/optimized@2.0"
    format_type: str | None = None
    batch_size: int = 10
    nugget_score: str = "vital"
    judging: Judging = field(default_factory=Judging)
    seal: bytes | None = field(default=None, repr=False)
    """The subkey for the digests of a restricted set's text."""

    def template(self, kind: GradedKind) -> PromptTemplate:
        """The template by which a judge grades this kind."""
        names = {
            "short_text": self.mcq_template, "numeric": self.numeric_template,
            "explanation": self.explanation_template, "nuggets": self.nugget_template,
        }  # fmt: skip
        return self.judging.store.get(names[kind])

    def check(self, judge: Judge | None) -> None:
        """Refuse a mode that there is not, or that needs a judge where there is none (`UsageError`)."""
        if self.mode not in get_args(Mode):
            raise UsageError(f"mode {self.mode!r}: expected one of {', '.join(get_args(Mode))}")
        if judge is None and self.mode in ("judge", "both"):
            raise UsageError(f"mode {self.mode}: no judge is given; expected one (--judge)")


def grade_answer(item: FreeItem, row: AnswerRow, rules: Grading, judge: Judge | None = None) -> GradeResult:
    """Grade one answer by the grader of its item's kind.

    Raises:
        UsageError: a tolerance, scale, `percent` or mode that is none; a mode that needs a judge where there is none.
    """
    rules.check(judge)
    if row.error is not None or row.finish_reason == "length":
        # To count an answer that was cut off only where it is already right would raise every rate.
        reason = row.error or "cut_off"
        return GradeResult(item.id, row.model, item.kind, GRADERS[item.kind], "truncated", None, None, reason)
    if item.nuggets:
        if judge is None or rules.mode == "deterministic":
            return replace(
                blank_nuggets(item, row.model), status="needs_judge", reason="nuggets_need_a_judge"
            )
        return grade_nuggets(
            item, row.text, judge, template=rules.nugget_template, format_type=rules.format_type,
            batch_size=rules.batch_size, score=rules.nugget_score, how=rules.judging, model=row.model,
        )  # fmt: skip
    finding, words = _by_rules(item, row.text, rules)
    found = finding.graded(item.kind, GRADERS[item.kind], item.reference, item.id, row.model)
    if item.kind == "numeric":
        found = replace(found, tolerance={"rel": str(rules.rel_tol), "abs": str(rules.abs_tol)})
    if judge is None or rules.mode == "deterministic" or found.status in _CLOSED or found.reason == "empty":
        return found
    undecided = found.status == "needs_judge"
    if rules.mode == "auto" and not undecided:
        return found
    variables = {"question": item.asked, "answer": shown_answer(row.text), **words}
    blank = replace(found, status="needs_judge", score=None, verdict=None, det_verdict=found.verdict)
    scale = rules.scale if item.kind == "explanation" else None
    word = judged_reply(blank, judge, rules.template(item.kind), variables, rules.judging, scale)
    if rules.mode == "both" and not undecided:
        differs = word.score is not None and word.score != found.score
        flags = (*word.flags, "judge_disagrees") if differs else word.flags
        return replace(found, det_verdict=found.verdict, judge=word.judge, flags=flags)
    return word


def _by_rules(item: FreeItem, text: str, rules: Grading) -> tuple[Finding, dict[str, str]]:
    """What the rules find, and what a judge is shown of the reference."""
    match item.kind:
        case "numeric":
            # The other options are wrong values that are known: an answer that is nearer to one is wrong.
            others = [option for i, option in enumerate(item.options) if i != item.correct]
            rel, rivals = written(rules.rel_tol), rivals_of(item.reference, others)
            rule = NumericRule(rel, written(rules.abs_tol), item.unit, rules.percent, rivals)
            with_unit = f"{item.reference} {item.unit}" if item.unit else item.reference
            words = {"reference": with_unit, "tolerance_percent": tolerance_percent(rel)}
            return find_numeric(text, item.reference, rule, item.question), words
        case "short_text":
            options, right = ((item.reference,), 0) if item.correct is None else (item.options, item.correct)
            letter = f"({ascii_uppercase[right]}) " if item.options_shown else ""
            words = {"reference": letter + " / ".join([options[right], *item.aliases])}
            shown = item.options_shown
            return find_choice(text, options, right, item.aliases, item.question, shown), words
        case "explanation":
            scale_of(rules.scale or "binary")
            return find_explanation(text, item.reference), {"reference": item.reference}


def graded_as(item: FreeItem) -> GradedKind:
    """The kind under which answers to an item are graded."""
    return "nuggets" if item.nuggets else item.kind


PASSING = ("timeout", "api_error", "rate_limited")
"""Temporary faults of a call: such a grade is made again by the next run."""


def grade_answers(
    items: Sequence[FreeItem],
    answers: Iterable[AnswerRow],
    rules: Grading,
    path: Path,
    judge: Judge | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[GradeResult]:
    """Grade every answer that has no grade under these rules yet; all grades in the order of the answers.

    Raises:
        DataError: answers to items that are not there, or two answers of one model to one item and prompt.
        UsageError: a mode that needs a judge where there is none.
        ModelError: the judge can never be asked.
        AuthorisationError: restricted items, and no subkey for their digests.
    """
    rules.check(judge)
    by_id = {item.id: item for item in items}
    rows = list(answers)
    _check(rows, by_id)
    earlier = read_jsonl(path, grade_from) if path.is_file() else []
    known = {g.key: g for g in earlier if g.error_type not in PASSING}
    about = _about(rules, judge)
    private = any(item.restricted for item in items)
    if private and rules.seal is None:
        raise AuthorisationError(
            "items: restricted, and no key is at hand; expected one: a plain digest of text tells which item it is"
        )
    out = []
    with appending(path, private=private) as append:
        for row in rows:
            item = by_id[row.item_id]
            key = _kept(_key(item, row, about), "key", item, rules)
            if key not in known:
                known[key] = _stored(grade_answer(item, row, rules, judge), key, item, row, rules)
                append(known[key].json())
            out.append(known[key])
            progress(1)
    if earlier:
        # Rows of other rules or of a failed call would be counted twice.
        write_rows(path, [grade.json() for grade in out], private=private)
    return out


def _stored(grade: GradeResult, key: str, item: FreeItem, row: AnswerRow, rules: Grading) -> GradeResult:
    """A grade as it is written: with its key, and without text where the item is restricted."""

    def kept(digest: str, what: str) -> str:
        return _kept(digest, what, item, rules)

    judge = grade.judge and replace(
        grade.judge,
        attempts=tuple(
            replace(
                a, key=kept(a.key, "call"), prompt_sha256=kept(a.prompt_sha256, "prompt"),
                reply_sha256=kept(a.reply_sha256, "reply"),
            )
            for a in grade.judge.attempts
        ),
    )  # fmt: skip
    named = replace(
        grade, key=key, answer_sha256=kept(answer_digest(row), "answer"), group=item.group, restricted=item.restricted,
        adapter=item.adapter, judge=judge,
    )  # fmt: skip
    return replace(named, extracted=None, reference=None) if item.restricted else named


def _kept(digest: str, what: str, item: FreeItem, rules: Grading) -> str:
    """A digest as written: of a restricted item under the set's key, because a plain one would identify the item."""
    return sealed_digest(rules.seal, what, digest) if item.restricted and rules.seal and digest else digest


def _check(rows: Sequence[AnswerRow], by_id: Mapping[str, FreeItem]) -> None:
    absent = "no such item; expected the file of items it was made from"
    faults = [f"answer to {row.item_id}: {absent}" for row in rows if row.item_id not in by_id]
    counts = Counter((row.item_id, row.model, row.prompt_sha256) for row in rows)
    faults += [
        f"answer to {item}: given twice by {model}; expected one a prompt"
        for (item, model, _), n in counts.items()
        if n > 1
    ]
    if faults:
        raise DataError.gather(faults)


def _about(rules: Grading, judge: Judge | None) -> str:
    """Everything beside item and answer that a grade depends on."""
    fixed = {f.name: getattr(rules, f.name) for f in fields(rules) if f.name not in ("judging", "seal")}
    templates = {t.id: t.sha256 for t in map(rules.template, GRADERS)}
    how = {f.name: getattr(rules.judging, f.name) for f in fields(rules.judging) if f.name != "store"}
    how["shots"] = [asdict(shot) for shot in rules.judging.shots]
    asked = judge.name if judge is not None and rules.mode != "deterministic" else None
    return json.dumps([fixed, how, templates, asked, dict(GRADERS)], sort_keys=True)


def _key(item: FreeItem, row: AnswerRow, about: str) -> str:
    return _digest(
        json.dumps([asdict(item), row.model, row.prompt_sha256, _digest(row.text), row.error, about])
    )


def answer_digest(row: AnswerRow) -> str:
    """The digest of an answer: item, model, prompt and text."""
    return _digest(json.dumps([row.item_id, row.model, row.prompt_sha256, row.text]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def refuse_twice_graded(grades: Sequence[GradeResult]) -> None:
    """Refuse grades with an answer graded twice, as of a grading that was killed, or of two (`DataError`)."""
    counts = Counter(grade.answer_sha256 for grade in grades)
    twice = {g.answer_sha256: g for g in grades if counts[g.answer_sha256] > 1}.values()
    if twice:
        graded = "is graded twice; expected one grading (grade again)"
        raise DataError.gather([f"{g.item_id}: an answer of {g.model} {graded}" for g in twice])
