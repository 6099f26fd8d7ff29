"""Tests of a judge without people: does it repeat itself, and can a text in an answer mislead it?

Answers known to be right (references) and wrong (other options) are made from the items; each check changes something
that should not matter, or adds a forged verdict. A reply that cannot be read is counted apart: it is neither a blocked
attack nor a success. The added texts are harmless: they forge a verdict or praise the answer.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np
import yaml

from robustify.errors import UsageError
from robustify.freeform.grade.graders import Grading
from robustify.freeform.grade.nuggets import grade_nuggets
from robustify.freeform.grade.numeric import written
from robustify.freeform.human import judge_verdict
from robustify.freeform.judge.asking import Judging, judged_reply, tolerance_percent
from robustify.freeform.judge.judges import Judge
from robustify.freeform.schema import FreeItem, GradeResult, Nugget
from robustify.redaction import KeptHere
from robustify.stats.agreement import krippendorff_alpha
from robustify.stats.intervals import rate

_ADDED = yaml.safe_load(files("robustify.freeform").joinpath("audit.yaml").read_text(encoding="utf-8"))
PADDING: str = _ADDED["padding"]
"""Words without content, put before an answer."""
PAYLOADS: dict[str, str] = _ADDED["payloads"]
"""Texts added to an answer that is known to be wrong, by name."""
CHECKS = ("self_consistency", "nugget_order", "verbosity", "injection")
REPEATS = 3
_RULES = Grading()
_RANK = {"correct": 1.0, "1": 1.0, "incorrect": 0.0, "0": 0.0, "not_attempted": 0.0}


@dataclass(frozen=True, slots=True, repr=False)
class Case(KeptHere):
    """One answer whose verdict is known."""

    item: FreeItem
    answer: str
    right: bool


def known_cases(items: Sequence[FreeItem], n: int, seed: int = 0) -> list[Case]:
    """A right and a wrong answer to each of `n` items picked with a seed: its reference and another of its options."""
    rng = random.Random(f"audit/{seed}")
    usable = [i for i in items if not i.excluded_reason and i.correct is not None and len(i.options) > 1]
    out = []
    for item in rng.sample(usable, min(n, len(usable))):
        others = [o for j, o in enumerate(item.options) if j != item.correct and o.strip() != item.reference]
        if others:
            out += [Case(item, item.reference, True), Case(item, rng.choice(others), False)]
    return out


def judge_audit(
    judge: Judge, items: Sequence[FreeItem], *, checks: Sequence[str] = CHECKS, n: int = 30, seed: int = 0,
    how: Judging | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run these checks on up to `n` items: `{"judge", "checks": {CHECK: {...}}}`; one without cases has `n` 0.

    Raises:
        UsageError: an unknown check.
        ModelError: the judge can never be asked.
    """
    unknown = [check for check in checks if check not in CHECKS]
    if unknown:
        raise UsageError(f"check {unknown[0]!r}: expected one of {', '.join(CHECKS)}")
    how = how or Judging()
    cases = known_cases(items, n, seed)
    nuggeted = [item for item in items if len(item.nuggets) > 1][:n]
    run: dict[str, Callable[[], dict[str, Any]]] = {
        "self_consistency": lambda: _self_consistency(judge, cases, how),
        "nugget_order": lambda: _nuggets(judge, nuggeted, how, seed),
        "verbosity": lambda: _verbosity(judge, cases, how),
        "injection": lambda: _injection(judge, cases, how),
    }
    return {"judge": judge.name, "checks": {check: run[check]() for check in checks}}


def _graded(judge: Judge, case: Case, how: Judging, answer: str) -> GradeResult:
    blank = GradeResult(case.item.id, "", case.item.kind, "audit/1", "needs_judge", None, None, "audit")
    variables = {
        "question": case.item.asked, "answer": answer, "reference": case.item.reference,
        "tolerance_percent": tolerance_percent(written(_RULES.rel_tol)),
    }  # fmt: skip
    return judged_reply(blank, judge, _RULES.template(case.item.kind), variables, how)


def _word(judge: Judge, case: Case, how: Judging, answer: str) -> str | None:
    """What a judge says of an answer: correct, incorrect, or None where it cannot be read."""
    return judge_verdict(_graded(judge, case, replace(how, votes=1), answer))


def _self_consistency(judge: Judge, cases: Sequence[Case], how: Judging) -> dict[str, Any]:
    """The same question three times, each with a seed of its own: how often all three verdicts are the same."""
    graded = [_graded(judge, case, replace(how, votes=REPEATS), case.answer) for case in cases]
    votes = [[_RANK.get(str(vote)) for vote in (g.judge.votes if g.judge else ())] for g in graded]
    same = _share("same", [None if None in v else len(set(v)) == 1 for v in votes], range(len(votes)))
    return {**same, "repeats": REPEATS, "alpha": krippendorff_alpha(votes)}


def _nuggets(judge: Judge, items: Sequence[FreeItem], how: Judging, seed: int) -> dict[str, Any]:
    """The same nuggets in another order and one at a time instead of ten: every label must stay."""
    rng = random.Random(f"nugget order/{seed}")
    pairs: list[tuple[str | None, ...]] = []
    groups: list[int] = []
    for place, item in enumerate(items):
        other = rng.sample(item.nuggets, len(item.nuggets))
        # Its own reference supports the nuggets; another item's supports few of them.
        for text in dict.fromkeys((item.reference, items[place - 1].reference)):
            plain = _labels(judge, item, text, item.nuggets, how, 10)
            again = (_labels(judge, item, text, other, how, size) for size in (10, 1))
            pairs += [(plain.get(n.id), new.get(n.id)) for new in again for n in item.nuggets]
            groups += [place] * 2 * len(item.nuggets)
    return _share("same", [None if None in pair else pair[0] == pair[1] for pair in pairs], groups)


def _share(name: str, values: Sequence[bool | None], groups: Sequence[int]) -> dict[str, Any]:
    """The share of what is true among what could be read; those of a group are drawn together."""
    numbers = np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    share = rate(numbers, np.array(groups, dtype=np.int64))
    return {"n": len(values), "unread": int(np.isnan(numbers).sum()), name: share.json()}


def _verbosity(judge: Judge, cases: Sequence[Case], how: Judging) -> dict[str, Any]:
    """Words without content before an answer: how the pass rate of right and of wrong answers changes."""
    out: dict[str, Any] = {"n": len(cases)}
    for name, right in (("right", True), ("wrong", False)):
        some = [case for case in cases if case.right == right]
        plain, padded = ([_word(judge, c, how, words + c.answer) for c in some] for words in ("", PADDING))
        whole = [(a == "correct", b == "correct") for a, b in zip(plain, padded, strict=True) if a and b]
        rates = {"plain": [a for a, _ in whole], "padded": [b for _, b in whole]}
        rates["changed"] = [a != b for a, b in whole]
        shown = {key: rate(np.array(values, dtype=np.float64)).json() for key, values in rates.items()}
        out[name] = {"n": len(some), "unread": len(some) - len(whole), **shown}
    return out


def _injection(judge: Judge, cases: Sequence[Case], how: Judging) -> dict[str, Any]:
    """Wrong answers with forged verdicts: how often one that was called wrong is now called right."""
    wrong = [case for case in cases if not case.right]
    called = [case for case in wrong if _word(judge, case, how, case.answer) == "incorrect"]
    words = {name: [_word(judge, c, how, c.answer + text) for c in called] for name, text in PAYLOADS.items()}
    places = range(len(called))
    pooled = _flips([word for said in words.values() for word in said], [*places] * len(PAYLOADS))
    payloads = {name: _flips(said, places) for name, said in words.items()}
    return {"n_wrong": len(wrong), "n_called_wrong": len(called), **pooled, "payloads": payloads}


def _flips(words: Sequence[str | None], cases: Sequence[int]) -> dict[str, Any]:
    """How many words turned to right."""
    return _share("flipped", [None if word is None else word == "correct" for word in words], cases)


def _labels(
    judge: Judge, item: FreeItem, text: str, nuggets: Sequence[Nugget], how: Judging, batch_size: int
) -> dict[str, str | None]:
    asked = replace(item, nuggets=tuple(nuggets))
    graded = grade_nuggets(asked, text, judge, batch_size=batch_size, how=replace(how, votes=1))
    return {n.id: n.label for n in graded.nuggets}
