"""Rendering of prompt templates into chat messages.

Data is never compiled as a template. The sandbox reads no files outside the template pack. A missing or unknown
variable is an error. Quoted text is enclosed in markers with a code that the text cannot know, so that it cannot end
its own quotation.
"""

import hashlib
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
from robustify.freeform.template_store import PromptTemplate, pack_text
from robustify.redaction import HoldsText

LANGUAGES = {
    "ar": "Arabic", "de": "German", "en": "English", "es": "Spanish", "fr": "French", "hi": "Hindi", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ru": "Russian",
    "tr": "Turkish", "uk": "Ukrainian", "zh": "Chinese",
}  # fmt: skip
_NONCE = 12
"""Hexadecimal digits of a marker's code."""


@dataclass(frozen=True, slots=True, repr=False)
class Message(HoldsText):
    """One message of a conversation. `role` is system, user or assistant."""

    role: str
    content: str

    def json(self) -> dict[str, str]:
        """Return the message as a chat API object."""
        return {"role": self.role, "content": self.content}


def prompt_sha256(messages: Sequence[Message]) -> str:
    """Return the SHA-256 digest of a conversation."""
    written = json.dumps([m.json() for m in messages], ensure_ascii=False)
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def rendered(template: PromptTemplate, variables: Mapping[str, object]) -> list[Message]:
    """Render a template into messages: an optional system message, and a user message.

    The variable `language` selects the wording. The variable `nonce` is any text, such as seed and item ID, from which
    the codes of quotation markers are derived.

    Raises:
        UsageError: a variable is missing or unknown, or the `language` is unknown.
    """
    _check(template, variables)
    language = str(variables.get("language") or "en")
    values = dict.fromkeys(template.optional) | dict(variables)
    values |= {
        "language_note": _note(template, language),
        "domain_text": "",
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
    # An absent option results in empty lines.
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") if role == "system" else text.strip("\n")


def _check(template: PromptTemplate, variables: Mapping[str, object]) -> None:
    missing = [f"{name} missing" for name in template.variables if variables.get(name) is None]
    unknown = [f"{n} unknown" for n in sorted(set(variables) - {*template.variables, *template.optional})]
    if missing or unknown:
        expected = ", ".join((*template.variables, *(f"optionally {name}" for name in template.optional)))
        raise UsageError(f"template {template.id}: {', '.join(missing + unknown)}. Expected {expected}.")


def _note(template: PromptTemplate, language: str) -> str:
    if language not in LANGUAGES:
        raise UsageError(f"The language {language!r} is unknown. Expected one of {', '.join(LANGUAGES)}.")
    if language == "en" or template.file(language) != template.files[0]:
        return ""
    if template.reads == "text":
        return f"Answer in {LANGUAGES[language]}."
    return f"Answers may be in {LANGUAGES[language]}; labels, verdicts and scores stay in English."


def _fencing(nonce: str) -> Callable[[str, object], str]:
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


_CASE: Mapping[str, object] = {
    "question": "How many legs does a spider have?", "answer": "Spiders have 8 legs.", "reference": "eight",
    "query": "Why does bread rise?", "passage": "Yeast gives off gas.", "num_nuggets": 2, "scale": "binary",
    "nuggets": ("Yeast gives off gas.", "Salt slows the yeast."), "tolerance_percent": "5", "nonce": "0:example",
}  # fmt: skip


def example_of(template: PromptTemplate, format_type: str | None = None) -> list[Message]:
    """Render a template with a harmless made-up example."""
    known = {**_CASE, "format_type": format_type or template.own_format}
    names = (*template.variables, *template.optional)
    return rendered(template, {name: value for name, value in known.items() if name in names})
