"""A template and its values become messages; worked cases before the question. Data is never compiled.

The sandbox has no file access beyond the pack; a variable that is missing or unknown is an error. Quoted text is put
between marks with a code that it cannot know, so that it cannot end its own quotation.
"""

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import count, zip_longest
from pathlib import Path
from typing import Any

import jinja2
import yaml
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import ConfigDict, TypeAdapter, ValidationError

from robustify.errors import DataError, UsageError
from robustify.freeform.answer_text import normalize_tokens
from robustify.freeform.llm_judge.store import PromptTemplate, TemplateStore, get_store, pack_text
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
        """Return the turn as chat interfaces take it."""
        return {"role": self.role, "content": self.content}


def prompt_sha256(messages: Sequence[Message]) -> str:
    """Return the digest of a conversation."""
    written = json.dumps([m.json() for m in messages], ensure_ascii=False)
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def rendered(
    template: PromptTemplate, variables: Mapping[str, object], store: TemplateStore | None = None
) -> list[Message]:
    """Return the messages of a template: a system turn if it has one, and the user's.

    Among the variables `language` and `domain` choose words, and `nonce` (any text, such as seed and item id) the codes of
    quotations.

    Raises:
        UsageError: a variable is missing or is not one of the template's, or an unknown `domain` or `language`.
    """
    _check(template, variables)
    language = str(variables.get("language") or "en")
    values = dict.fromkeys(template.optional) | dict(variables)
    values |= {
        "language_note": _note(template, language),
        "domain_text": _domain(variables.get("domain"), store),
        "fenced": _fencing(str(variables.get("nonce") or "")),
        "numbered": lambda texts: "\n".join(
            f"{i}. {' '.join(text.split())}" for i, text in enumerate(texts, start=1)
        ),
    }
    compiled = _environment(template).get_template(template.file(language))
    try:
        roles = [role for role in ("system", "user") if role in compiled.blocks]
        return [Message(role, _block(compiled, role, values)) for role in roles]
    except jinja2.TemplateError as error:
        raise UsageError(f"template {template.id}: {type(error).__name__}") from None


def _block(compiled: jinja2.Template, role: str, values: Mapping[str, Any]) -> str:
    text = "".join(compiled.blocks[role](compiled.new_context(dict(values))))
    # What an absent option leaves are empty lines.
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") if role == "system" else text.strip("\n")


def _check(template: PromptTemplate, variables: Mapping[str, object]) -> None:
    missing = [f"{name} missing" for name in template.variables if variables.get(name) is None]
    unknown = [f"{n} unknown" for n in sorted(set(variables) - {*template.variables, *template.optional})]
    if missing or unknown:
        expected = ", ".join((*template.variables, *(f"perhaps {name}" for name in template.optional)))
        raise UsageError(f"template {template.id}: {', '.join(missing + unknown)}; expected {expected}")


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
    """Return a function that puts text between marks with a code of its own."""

    def fenced(name: str, text: object) -> str:
        written = str(text)
        keys = (f"{nonce}\0{name}\0{i}".encode("utf-8", "replace") for i in count())
        codes = (hashlib.sha256(key).hexdigest()[:_NONCE] for key in keys)
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

    def __post_init__(self) -> None:
        if len(self.nuggets) != len(self.labels) or not (self.verdict or self.labels):
            raise ValueError("a worked case without a verdict, or without a label for each nugget")


def read_shots(family: str, name: str) -> list[Shot]:
    """Return the cases of a set that ships with the package, or of a YAML file; raise `DataError` if they do not fit."""
    built_in = files("robustify.freeform") / "fewshot" / family / f"{name}.yaml"
    try:
        rows = yaml.safe_load((built_in if built_in.is_file() else Path(name)).read_text(encoding="utf-8"))
        return TypeAdapter(list[Shot], config=ConfigDict(extra="forbid")).validate_python(rows)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        raise DataError(f"few-shot set {name!r} of {family}: no such set or file; expected YAML") from None
    except (ValidationError, RecursionError):
        raise DataError(
            f"few-shot set {name!r} of {family}: a case that does not fit; expected question, answer, and verdict or labels"
        ) from None


def pick_shots(shots: Sequence[Shot], k: int, seed: int = 0) -> list[Shot]:
    """Return `k` cases in a seeded order, with each verdict equally often as far as they go.

    Raises:
        DataError: fewer than `k` cases.
    """
    if k > len(shots):
        raise DataError(f"{k} few-shot cases wanted; the set has {len(shots)}")
    by_kind: dict[str, list[Shot]] = {}
    for shot in random.Random(f"few-shot/{seed}").sample(list(shots), len(shots)):
        by_kind.setdefault(shot.verdict or ",".join(sorted(set(shot.labels))), []).append(shot)
    rounds = zip_longest(*(reversed(by_kind[kind]) for kind in sorted(by_kind)))
    return [shot for one in rounds for shot in one if shot is not None][:k]


def check_leak(shots: Sequence[Shot], items: Iterable[FreeItem]) -> None:
    """Raise `DataError` if a case is among the questions under evaluation or shares 13 words in a row with one."""
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
    """Return the cases that fit a template as turns of user and assistant, in its words and the wanted format."""
    out: list[Message] = []
    for i, shot in enumerate(shot for shot in shots if shows_reply(template, shot)):
        known = variables_of(shot, format_type) | {"nonce": f"{nonce}/shot {i}"}
        variables = {name: known[name] for name in template.variables}
        user = next(m for m in rendered(template, variables) if m.role == "user")
        out += [user, Message("assistant", _reply(template, shot, format_type))]
    return out


def shows_reply(template: PromptTemplate, shot: Shot) -> bool:
    """Return whether a case shows the reply that a template wants."""
    if template.reads == "labels":
        return bool(shot.labels)
    return template.reads in ("score", "verdict") and bool(shot.verdict)


def variables_of(shot: Shot, format_type: str) -> dict[str, object]:
    """Return the values that a case gives to a template."""
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
