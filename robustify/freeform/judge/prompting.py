"""A template and its values become messages. Data is passed as variables and never compiled.

The sandbox has no file access beyond the pack; a variable that is missing or unknown is an error. Quoted text is put
between marks with a code that it cannot know, so that it cannot end its own quotation.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from robustify.errors import UsageError
from robustify.freeform.judge.store import PromptTemplate, TemplateStore, get_store, pack_text
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
