"""Find built-in and custom prompt templates, render them into chat messages, and list all prompts.

A released template is rejected if its bytes do not match the SHA-256 in its manifest. IDs of a user's templates begin with
the folder's name, so that they cannot replace a built-in one. Data is never compiled.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

import jinja2
import yaml
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import Field, ValidationError

from robustify.base.errors import DataError, UsageError
from robustify.base.redaction import HoldsText, ItemText
from robustify.base.settings_files import Settings
from robustify.items.item import Item
from robustify.items.orders import own
from robustify.items.views import VIEWS, by_chat, inferring_prompt, names, template

_ID = r"^(?:[a-z][a-z0-9_-]*:)?[a-z][a-z0-9_]*/[a-z][a-z0-9_]*@\d{1,3}\.\d{1,3}$"
LANGUAGES = {
    "ar": "Arabic", "de": "German", "en": "English", "es": "Spanish", "fr": "French", "hi": "Hindi", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ru": "Russian",
    "tr": "Turkish", "uk": "Ukrainian", "zh": "Chinese",
}  # fmt: skip


class PromptTemplate(Settings):
    """One version of a prompt template. `reads` is "text" (an answer), "score", "verdict", or "labels".
    `sha256` covers all files."""

    id: str = Field(pattern=_ID)
    root: Path
    files: tuple[str, ...] = Field(min_length=1)
    sha256: str
    variables: tuple[str, ...]
    optional: tuple[str, ...] = ()
    reads: str
    scale: str | None = None
    formats: tuple[str, ...] = ()
    changelog: str
    source: str = ""

    @property
    def name(self) -> str:
        """ID without the version."""
        return self.id.partition("@")[0]

    def label_format(self, wanted: str | None) -> str:
        """Return the format in which to ask for labels: `wanted`, or by default the template's own format."""
        if self.reads == "labels" and not self.formats:
            mend = "Add `formats: [json]`, or others, to its manifest."
            fault = f"Template {self.id} does not name a format for labels."
            raise UsageError(f"{fault} {mend}", code="template-without-format")
        if wanted not in (None, "adaptive", *self.formats):
            expected = f"Expected one of {', '.join((*self.formats, 'adaptive'))}, or no format_type for the default."
            fault = f"Template {self.id} does not support format_type {wanted}."
            raise UsageError(f"{fault} {expected}", code="unsupported-format")
        return wanted or ("json" if "json" in self.formats else next(iter(self.formats), "json"))

    def file(self, language: str) -> str:
        """Return the file name of the template in a language. The default is English."""
        own = f"{self.files[0].removesuffix('.j2')}.{language}.j2"
        return own if own in self.files else self.files[0]


def pack_text(root: Path, name: str) -> str:
    """Return the text of a file in a template pack. Raise `DataError` if the file is missing or outside the pack."""
    if name.startswith("/") or ".." in name.split("/"):
        fault = f"{name} is outside its template pack. Move the file into the pack."
        raise DataError(fault, code="file-outside-pack")
    try:
        return (root / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        fault = f"{name} is missing or not UTF-8 text. Restore the template file."
        raise DataError(fault, code="unreadable-template") from None


@cache
def every_template(extra_dirs: tuple[Path, ...] = ()) -> tuple[PromptTemplate, ...]:
    """Return the templates of the package and of the given folders, sorted. Raise `DataError` if a folder is unreadable."""
    every = read_pack(Path(__file__).with_name("templates"), "")
    every += [template for folder in extra_dirs for template in read_pack(folder, f"{folder.name}:")]
    version = re.compile(r"\d+")
    return tuple(sorted(every, key=lambda t: (t.name, [*map(int, version.findall(t.id, len(t.name)))])))


def template_named(template_id: str, extra_dirs: tuple[Path, ...] = ()) -> PromptTemplate:
    """Return the template with this ID, or the newest template with this name. Raise `UsageError` if it is unknown, and
    `DataError` if its files differ from the released files."""
    every = every_template(extra_dirs)
    matching = [t for t in every if template_id in (t.id, t.name)]
    if not matching:
        expected = f"Expected one of {', '.join(sorted({t.name for t in every}))}, optionally with @VERSION."
        raise UsageError(f"Unknown template {template_id!r}. {expected}", code="unknown-template")
    newest = matching[-1]
    texts = "\0".join(pack_text(newest.root, name) for name in newest.files)
    if hashlib.sha256(texts.encode()).hexdigest() != newest.sha256:
        fault = f"Template {newest.id} was changed. Restore it, or release a new version."
        raise DataError(fault, code="changed-template")
    return newest


def read_pack(root: Path, prefix: str) -> list[PromptTemplate]:
    """Return the templates of a folder with a valid `manifest.yaml`. Their IDs begin with the prefix."""
    try:
        rows = yaml.safe_load((root / "manifest.yaml").read_text(encoding="utf-8"))["templates"]
        fields = [{**row, "id": f"{prefix}{row['id']}", "root": root} for row in rows]
        return [PromptTemplate.model_validate(row) for row in fields]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, ValidationError):
        expected = "Expected a list of templates, each with an ID such as family/name@1.0."
        fault = f"{prefix or 'built-in '}manifest.yaml is missing or invalid."
        raise DataError(f"{fault} {expected}", code="invalid-manifest") from None


# Rendering


@dataclass(frozen=True, slots=True, repr=False)
class Message(HoldsText):
    """One message of a conversation. `role` is system, user, or assistant."""

    role: str
    content: str


def prompt_sha256(messages: Sequence[Message]) -> str:
    """Return the SHA-256 digest of a conversation."""
    written = json.dumps([asdict(message) for message in messages], ensure_ascii=False)
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def rendered(template: PromptTemplate, variables: Mapping[str, object]) -> list[Message]:
    """Render a template into a user message and an optional system message. Unused variables are ignored.

    `language` selects the wording. `nonce` is any text, such as seed and item ID, from which the codes of quotation markers
    are derived. Raise `UsageError` if a variable is missing, or the language is unknown.
    """
    values: dict[str, Any] = {name: variables.get(name) for name in (*template.variables, *template.optional)}
    if missing := [name for name in template.variables if values[name] is None]:
        expected = ", ".join(template.variables)
        fault = f"Template {template.id} needs values for {', '.join(missing)}. Expected {expected}."
        raise UsageError(fault, code="missing-variable")
    language, nonce = str(values.get("language") or "en"), str(values.get("nonce") or "")
    values |= {
        "language_note": _note(template, language), "domain_text": "",
        "numbered": lambda texts: "\n".join(f"{i}. {' '.join(text.split())}" for i, text in enumerate(texts, start=1)),
        "fenced": lambda name, text: _fenced(nonce, name, str(text)),
    }  # fmt: skip
    compiled = _environment(template).get_template(template.file(language))
    try:
        context = compiled.new_context(values)
        texts = {r: "".join(compiled.blocks[r](context)) for r in ("system", "user") if r in compiled.blocks}
    except jinja2.TemplateError as error:
        fault = f"template {template.id}: {type(error).__name__}"
        raise UsageError(fault, code="unrenderable-template") from None
    # An absent option of a system message results in empty lines.
    return [
        Message(role, (re.sub(r"\n{3,}", "\n\n", text) if role == "system" else text).strip("\n"))
        for role, text in texts.items()
    ]


def _note(template: PromptTemplate, language: str) -> str:
    if language not in LANGUAGES:
        fault = f"The language {language!r} is unknown. Expected one of {', '.join(LANGUAGES)}."
        raise UsageError(fault, code="unknown-language")
    if language == "en" or template.file(language) != template.files[0]:
        return ""
    if template.reads == "text":
        return f"Answer in {LANGUAGES[language]}."
    return f"Answers may be in {LANGUAGES[language]}; labels, verdicts and scores stay in English."


def _fenced(nonce: str, name: str, text: str) -> str:
    """Return a text between markers that contain a code. The code does not occur in the text."""
    keys = (f"{nonce}\0{name}\0{i}".encode("utf-8", "replace") for i in count())
    codes = (hashlib.sha256(key).hexdigest()[:12] for key in keys)
    code = next(c for c in codes if c not in text)
    return f"<<<{name} {code}>>>\n{text}\n<<<END {name} {code}>>>"


@lru_cache(maxsize=256)
def _environment(template: PromptTemplate) -> jinja2.Environment:
    """Return a Jinja sandbox that renders a template and reads no files outside the template's pack."""
    loader = jinja2.FunctionLoader(lambda n: pack_text(template.root, n) if n in template.files else None)
    blocks = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    return ImmutableSandboxedEnvironment(loader=loader, undefined=jinja2.StrictUndefined, **blocks)


_CASE: Mapping[str, object] = {
    "question": "How many legs does a spider have?", "answer": "Spiders have 8 legs.", "reference": "eight",
    "query": "Why does bread rise?", "passage": "Yeast gives off gas.", "num_nuggets": 2, "scale": "binary",
    "nuggets": ("Yeast gives off gas.", "Salt slows the yeast."), "tolerance_percent": "5", "nonce": "0:example",
    "known": ("six",), "n": 2, "form": ("at most 4 characters", "without a number"),
}  # fmt: skip


# Every prompt: those of the views, and those of free response, judges, and writers

_PASSAGE = "A spider is no insect.\n\n"
_TEXT = ItemText(f"{_PASSAGE}{_CASE['question']}", ("six", "eight", "ten"), len(_PASSAGE))
INVENTED = Item("invented", key=1, sealed=_TEXT)
"""Item for which a prompt is rendered if the user gives none."""
_INFERRING = "infer_question/choices-v1"


def listed_prompts(extra_dirs: tuple[Path, ...] = ()) -> list[dict[str, str]]:
    """Return the ID, kind of reply, and SHA-256 of every prompt."""
    view_templates = [template(view, name) for view in VIEWS for name in names(view)]
    view_rows = [
        (f"{v.view}/{v.name}", "letter" if v.by_letter else "option", v.digest) for v in view_templates
    ]
    view_rows.append((_INFERRING, "text", hashlib.sha256(_file_of(_INFERRING).encode()).hexdigest()))
    templates = [template_named(template.id, extra_dirs) for template in every_template(extra_dirs)]
    rows = [*view_rows, *((template.id, template.reads, template.sha256) for template in templates)]
    return [dict(zip(("id", "reads", "sha256"), row, strict=True)) for row in rows]


def prompt_files(prompt_id: str, extra_dirs: tuple[Path, ...] = ()) -> dict[str, str]:
    """Return the contents of a prompt's files, keyed by file name."""
    if _is_view(prompt_id):
        return {f"{prompt_id}.yaml": _file_of(prompt_id).rstrip()}
    chosen = template_named(prompt_id, extra_dirs)
    return {name: pack_text(chosen.root, name).rstrip() for name in chosen.files}


def prompt_for(
    prompt_id: str, item: Item = INVENTED, format_type: str | None = None, extra_dirs: tuple[Path, ...] = ()
) -> dict[str, str]:
    """Render a prompt for one item, with the options in the item's own order. Return the parts of the prompt, keyed by
    name. The item's key stands for a reply. Raise `UsageError` if the prompt is unknown or does not fit the item."""
    if prompt_id == _INFERRING:
        return {"context": inferring_prompt(item)}
    if not _is_view(prompt_id):
        key = item.choices[item.key]
        its = {"question": item.stem, "query": item.stem, "reference": key, "answer": key, "passage": key}
        chosen = template_named(prompt_id, extra_dirs)
        case = {
            **_CASE,
            **(its if item is not INVENTED else {}),
            "format_type": chosen.label_format(format_type),
        }
        turns = enumerate(rendered(chosen, case), start=1)
        return {f"{number} {turn.role}": turn.content for number, turn in turns}
    view, _, name = prompt_id.partition("/")
    view_template = template(next(view_name for view_name in VIEWS if view_name == view), name)
    if not view_template.can_ask(item):
        fault = f"{prompt_id} hides a passage, but this item has none. Use another item."
        raise UsageError(fault, code="item-without-passage")
    requests = view_template.requests(item, own(item.k))
    parts = {"context": requests[0].context}
    parts |= {f"continuation {n}": request.continuation for n, request in enumerate(requests, start=1)}
    if view_template.by_letter:
        options = [request.continuation.strip() for request in requests]
        parts["to a chat server"] = by_chat(requests[0].context, options)
    return parts


def _file_of(prompt_id: str) -> str:
    return (files("robustify.items") / "templates" / f"{prompt_id}.yaml").read_text(encoding="utf-8")


def _is_view(prompt_id: str) -> bool:
    view, _, name = prompt_id.partition("/")
    return prompt_id == _INFERRING or any(
        view == known_view and name in names(known_view) for known_view in VIEWS
    )
