"""A template and its values become messages; worked cases before the question. Data is never compiled.

The sandbox has no file access beyond the pack; a variable that is missing or unknown is an error. Quoted text is put
between marks with a code that it cannot know, so that it cannot end its own quotation.
"""

import hashlib
import hmac
import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

import jinja2
import yaml
from jinja2.sandbox import ImmutableSandboxedEnvironment

from robustify.errors import DataError, UsageError
from robustify.freeform.answer_text import normalize_tokens
from robustify.freeform.judge.store import PromptTemplate, TemplateStore, get_store, pack_text
from robustify.freeform.schema import FreeItem
from robustify.redaction import KeptHere

LANGUAGES = {
    "ar": "Arabic", "de": "German", "en": "English", "es": "Spanish", "fr": "French", "hi": "Hindi", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ru": "Russian",
    "tr": "Turkish", "uk": "Ukrainian", "zh": "Chinese",
}  # fmt: skip
_NONCE = 12
"""Hexadecimal digits of a quotation's code."""


@dataclass(frozen=True, slots=True, repr=False)
class Message(KeptHere):
    """One turn of a conversation; `role` is system, user or assistant."""

    role: str
    content: str

    def json(self) -> dict[str, str]:
        """As chat interfaces take it."""
        return {"role": self.role, "content": self.content}


def prompt_sha256(messages: Sequence[Message]) -> str:
    """The digest of a conversation."""
    written = json.dumps([m.json() for m in messages], ensure_ascii=False)
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def sealed_digest(seal: bytes, what: str, digest: str) -> str:
    """A digest under a subkey, so that the text cannot be found without the key."""
    return hmac.digest(seal, f"{what}\0{digest}".encode(), "sha256").hex()


def rendered(
    template: PromptTemplate, variables: Mapping[str, object], store: TemplateStore | None = None
) -> list[Message]:
    """The messages of a template: a system turn where it has one, and the user's.

    Among the variables `language` and `domain` choose words, and `nonce` (any text, such as seed and item id) the
    codes of quotations.

    Raises:
        UsageError: a variable is missing or is none of the template's, or an unknown `domain`.
    """
    _check(template, variables)
    language = str(variables.get("language") or "en")
    name = template.file(language)
    values = dict.fromkeys(template.optional) | dict(variables)
    values |= {
        "language_note": _note(template, language),
        "domain_text": _domain(variables.get("domain"), store),
        "fenced": _fencing(str(variables.get("nonce") or "")),
        "numbered": lambda texts: "\n".join(
            f"{i}. {' '.join(t.split())}" for i, t in enumerate(texts, start=1)
        ),
    }
    compiled = _environment(template).get_template(name)
    try:
        return [
            Message(role, text)
            for role in ("system", "user")
            if role in compiled.blocks
            for text in [_block(compiled, role, values)]
        ]
    except jinja2.TemplateError as error:
        raise UsageError(f"template {template.id}: {type(error).__name__}") from None


def _block(compiled: jinja2.Template, role: str, values: Mapping[str, Any]) -> str:
    context = compiled.new_context(dict(values))
    text = "".join(compiled.blocks[role](context))
    # What an absent option leaves are empty lines.
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") if role == "system" else text.strip("\n")


def _check(template: PromptTemplate, variables: Mapping[str, object]) -> None:
    missing = [name for name in template.variables if variables.get(name) is None]
    unknown = sorted(set(variables) - set(template.variables) - set(template.optional))
    if missing or unknown:
        faults = [f"{', '.join(missing)} missing"] if missing else []
        faults += [f"{', '.join(unknown)} unknown"] if unknown else []
        raise UsageError(
            f"template {template.id}: {'; '.join(faults)}; expected {', '.join(template.variables)}"
            + (f", and perhaps {', '.join(template.optional)}" if template.optional else "")
        )


def _note(template: PromptTemplate, language: str) -> str:
    if language not in LANGUAGES:
        raise UsageError(f"language {language!r}: expected one of {', '.join(LANGUAGES)}")
    if language == "en" or language in template.languages():
        return ""
    if template.reads == "text":
        return f"Answer in {LANGUAGES[language]}."
    return f"Answers may be in {LANGUAGES[language]}; labels, verdicts and scores stay in English."


def _domain(domain: object, store: TemplateStore | None) -> str:
    if domain is None:
        return ""
    name = str(domain)
    template = (store or get_store()).get(name if "/" in name else f"domain/{name}")
    return pack_text(template.root, template.files[0]).strip()


def _fencing(nonce: str) -> Callable[[str, object], str]:
    """A function that puts text between marks with a code of its own."""

    def fenced(name: str, text: object) -> str:
        written = str(text)
        codes = (
            hashlib.sha256(f"{nonce}\0{name}\0{i}".encode("utf-8", "replace")).hexdigest()[:_NONCE]
            for i in count()
        )
        code = next(c for c in codes if c not in written)
        return f"<<<{name} {code}>>>\n{written}\n<<<END {name} {code}>>>"

    return fenced


@lru_cache(maxsize=256)
def _environment(template: PromptTemplate) -> jinja2.Environment:
    def load(name: str) -> str | None:
        return pack_text(template.root, name) if name in template.files else None

    return ImmutableSandboxedEnvironment(
        loader=jinja2.FunctionLoader(load), undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip


# Worked cases

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
    for i, shot in enumerate(shot for shot in shots if shows_reply(template, shot)):
        known = variables_of(shot, format_type) | {"nonce": f"{nonce}/shot {i}"}
        variables = {name: known[name] for name in template.variables}
        user = next(m for m in rendered(template, variables) if m.role == "user")
        out += [user, Message("assistant", _reply(template, shot, format_type))]
    return out


def shows_reply(template: PromptTemplate, shot: Shot) -> bool:
    """Whether a case shows the reply that a template wants."""
    if template.reads == "labels":
        return bool(shot.labels)
    return template.reads in ("score", "verdict") and bool(shot.verdict)


def variables_of(shot: Shot, format_type: str) -> dict[str, object]:
    """The values that a case gives to a template."""
    return {
        "question": shot.question, "query": shot.question, "answer": shot.answer, "passage": shot.answer,
        "reference": shot.reference, "nuggets": shot.nuggets, "num_nuggets": len(shot.nuggets), "scale": "binary",
        "format_type": format_type, "tolerance_percent": "5",
    }  # fmt: skip


def _reply(template: PromptTemplate, shot: Shot, format_type: str) -> str:
    if template.reads != "labels":
        key, value = ("verdict", shot.verdict) if template.reads == "verdict" else ("score", shot.score)
        return json.dumps({"reasoning": shot.reasoning, key: value}, ensure_ascii=False)
    if format_type == "markdown":
        return "\n".join(f"* {label}" for label in shot.labels)
    return ", ".join(shot.labels) if format_type == "csv" else json.dumps(list(shot.labels))
