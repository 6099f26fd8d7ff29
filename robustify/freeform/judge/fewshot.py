"""Worked cases before the question: turns that show a judge what its reply looks like.

They are picked with a seed and balanced over labels. A case that is one of the questions under evaluation, or shares
thirteen words in a row with one or its reference, is refused: it would give the answer away.
"""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from robustify.freeform.errors import FewShotLeakError, FreeDataError
from robustify.freeform.grade.text import normalize_tokens
from robustify.freeform.judge.prompting import Message, rendered
from robustify.freeform.judge.store import Template
from robustify.freeform.schema import FreeItem
from robustify.redaction.text import KeptHere

SHARED = 13
"""Words in a row that are no accident."""


@dataclass(frozen=True, slots=True, repr=False)
class Shot(KeptHere):
    """One worked case: a question, an answer, and what a good judge replies."""

    question: str
    answer: str
    reference: str = ""
    verdict: str = ""
    score: float | None = None
    reasoning: str = ""
    nuggets: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Shot({self.verdict or len(self.labels)})"


def read_shots(family: str, name: str) -> list[Shot]:
    """The cases of a set: one that ships with the package, or a YAML file by its path.

    Raises:
        FreeDataError: no such set, or one that does not fit.
    """
    built_in = files("robustify.freeform") / "fewshot" / family / f"{name}.yaml"
    try:
        rows = yaml.safe_load((built_in if built_in.is_file() else Path(name)).read_text(encoding="utf-8"))
        return [_shot(row) for row in rows]
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        raise FreeDataError(
            f"few-shot set {name!r} of {family}: no such set or file; expected YAML"
        ) from None
    except (TypeError, KeyError, ValueError):
        raise FreeDataError(
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
        FreeDataError: fewer than `k` cases.
    """
    if k > len(shots):
        raise FreeDataError(f"{k} few-shot cases wanted; the set has {len(shots)}")
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


def check_leak(shots: Iterable[Shot], items: Iterable[FreeItem]) -> None:
    """Refuse cases that are among the questions under evaluation or share thirteen words in a row with one.

    Raises:
        FewShotLeakError: the items, by id.
    """
    questions: set[tuple[str, ...]] = set()
    runs: set[tuple[str, ...]] = set()
    for shot in shots:
        questions.add(normalize_tokens(shot.question))
        for text in (shot.question, shot.answer, shot.reference, *shot.nuggets):
            runs |= _runs(text)
    leaked = [
        item.id
        for item in items
        if normalize_tokens(item.question) in questions
        or not runs.isdisjoint(_runs(item.question) | _runs(item.reference))
    ]
    if leaked:
        raise FewShotLeakError(
            f"{len(leaked)} items under evaluation are among the few-shot cases (first {leaked[0]}); use another set"
        )


def _runs(text: str) -> set[tuple[str, ...]]:
    tokens = normalize_tokens(text)
    return {tokens[i : i + SHARED] for i in range(len(tokens) - SHARED + 1)}


def fits(shot: Shot, template: Template) -> bool:
    """Whether a case shows what a reply to this template looks like."""
    if template.reads == "labels":
        return template.label_set == "support3" and bool(shot.labels)
    return template.reads in ("score", "verdict") and bool(shot.verdict)


def turns(template: Template, shots: Sequence[Shot], format_type: str, nonce: str) -> list[Message]:
    """The cases as turns of user and assistant, in the words of the template and the format that is wanted."""
    out: list[Message] = []
    for i, shot in enumerate(shots):
        known: dict[str, object] = {
            "question": shot.question, "query": shot.question, "answer": shot.answer, "passage": shot.answer,
            "reference": shot.reference, "nuggets": shot.nuggets, "num_nuggets": len(shot.nuggets), "scale": "binary",
            "format_type": format_type, "nonce": f"{nonce}/shot {i}", "tolerance_percent": "5",
        }  # fmt: skip
        variables = {name: known[name] for name in template.variables}
        user = next(m for m in rendered(template, variables) if m.role == "user")
        out += [user, Message("assistant", _reply(template, shot, format_type))]
    return out


def _reply(template: Template, shot: Shot, format_type: str) -> str:
    if template.reads != "labels":
        key, value = ("verdict", shot.verdict) if template.reads == "verdict" else ("score", shot.score)
        return json.dumps({"reasoning": shot.reasoning, key: value}, ensure_ascii=False)
    match format_type:
        case "markdown":
            return "\n".join(f"* {label}" for label in shot.labels)
        case "yaml":
            return "\n".join(f"- {label}" for label in shot.labels)
        case "csv":
            return ", ".join(shot.labels)
        case "xml":
            inner = "".join(
                f'<label id="{i}">{label}</label>' for i, label in enumerate(shot.labels, start=1)
            )
            return f"<labels>{inner}</labels>"
        case _:
            return json.dumps(list(shot.labels))
