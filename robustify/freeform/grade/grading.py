"""Grading a file of answers: each kind by its grader, each grade on the disk before the next, none graded twice.

A grade is identified by its item, answer, rules, template and judge; if one changes, the answer is graded anew. Grades
of a restricted item have no text.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from importlib.metadata import entry_points
from pathlib import Path

from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.freeform.grade.graders import GRADERS, Grading, Plugin, grade_answer
from robustify.freeform.jsonl import appending, read_rows, write_rows
from robustify.freeform.judge.judges import Judge
from robustify.freeform.judge.prompting import sealed_digest
from robustify.freeform.schema import AnswerRow, FreeItem, GradeResult, grade_from, plain

GRADERS_GROUP = "robustify.graders"
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
        UsageError: a mode that needs a judge where there is none, or an unknown plug-in.
        ModelError: the judge can never be asked.
        AuthorisationError: restricted items, and no subkey for their digests.
    """
    rules.check(judge)
    by_id = {item.id: item for item in items}
    rows = list(answers)
    _check(rows, by_id)
    plugin = _plugin(rules.grader) if rules.grader else None
    earlier = read_rows(path, grade_from) if path.is_file() else []
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
                known[key] = _stored(grade_answer(item, row, rules, judge, plugin), key, item, row, rules)
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

    attempts = [
        replace(
            attempt,
            key=kept(attempt.key, "call"),
            prompt_sha256=kept(attempt.prompt_sha256, "prompt"),
            reply_sha256=kept(attempt.reply_sha256, "reply"),
        )
        for attempt in (grade.judge.attempts if grade.judge else ())
    ]
    named = replace(
        grade,
        key=key,
        answer_sha256=kept(answer_digest(row), "answer"),
        group=item.group,
        restricted=item.restricted,
        adapter=item.adapter,
        judge=grade.judge and replace(grade.judge, attempts=tuple(attempts)),
    )
    return named.without_text() if item.restricted else named


def _kept(digest: str, what: str, item: FreeItem, rules: Grading) -> str:
    """A digest as written: of a restricted item under the set's key, because a plain one would identify the item."""
    return sealed_digest(rules.seal, what, digest) if item.restricted and rules.seal and digest else digest


def _check(rows: Sequence[AnswerRow], by_id: Mapping[str, FreeItem]) -> None:
    faults = [f"answer to {row.item_id}: no such item; expected the file of items it was made from"
              for row in rows if row.item_id not in by_id]  # fmt: skip
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
    how = {f.name: getattr(rules.judging, f.name) for f in fields(rules.judging) if f.name != "store"}
    how["shots"] = [asdict(shot) for shot in rules.judging.shots]
    asked = judge.name if judge is not None and rules.mode != "deterministic" else None
    return json.dumps(plain([fixed, how, rules.templates(), asked, GRADERS]), sort_keys=True)


def _key(item: FreeItem, row: AnswerRow, about: str) -> str:
    return _digest(
        json.dumps([plain(asdict(item)), row.model, row.prompt_sha256, _digest(row.text), row.error, about])
    )


def answer_digest(row: AnswerRow) -> str:
    """The digest of an answer: item, model, prompt and text."""
    return _digest(json.dumps([row.item_id, row.model, row.prompt_sha256, row.text]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plugin(name: str) -> Plugin:
    """A grader of another package, by the name of its entry point.

    Raises:
        UsageError: there is none, or it cannot be loaded.
    """
    found = [entry for entry in entry_points(group=GRADERS_GROUP) if entry.name == name]
    known = sorted(entry.name for entry in entry_points(group=GRADERS_GROUP))
    if not found:
        raise UsageError(f"grader {name!r}: no such plug-in; installed are {', '.join(known) or 'none'}")
    try:
        loaded: Plugin = found[0].load()
    # Other people's code may raise anything; the user asked for it by name, so it is not skipped.
    except Exception as error:
        raise UsageError(f"grader {name!r}: cannot be loaded ({type(error).__name__})") from None
    return loaded


def refuse_twice_graded(grades: Sequence[GradeResult]) -> None:
    """Refuse grades with an answer graded twice, as of a grading that was killed, or of two.

    Raises:
        DataError: the answers, by item.
    """
    counts = Counter(grade.answer_sha256 for grade in grades)
    twice = [
        f"{grade.item_id}: an answer of {grade.model} is graded twice; expected one grading (grade again)"
        for grade in {g.answer_sha256: g for g in grades}.values()
        if counts[grade.answer_sha256] > 1
    ]
    if twice:
        raise DataError.gather(twice)
