"""Prompts: views, their templates, the settings for asking, and the requests that ask about an item.

A view determines what a model sees, and a template, a versioned and hashed file, determines the wording. Only this module
gives options their letters.
"""

import hashlib
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal, get_args

import yaml
from pydantic import Field, field_validator, model_validator

from robustify.base.errors import UsageError
from robustify.base.redaction import HoldsText
from robustify.base.settings_files import Settings
from robustify.items.item import Item
from robustify.items.orders import Order
from robustify.items.scoring import FULL_OF, Mode

if TYPE_CHECKING:
    import jinja2

View = Literal["choices_only", "choices_only_text", "full", "full_text", "cloze"]
VIEWS: tuple[View, ...] = get_args(View)
Hidden = Literal["question", "passage", "context", "image"]
"""Part of an item that the screen hides. A passage or context comes before the question."""
BEFORE_A_QUESTION = ("passage", "context")
NO_PASSAGE = "no-passage-v1"
"""Screen template, for letters and for text, that shows a question without its passage."""
DEFAULT_TEMPLATE: dict[View, str] = {
    "choices_only": "d4-like-v1",
    "choices_only_text": "answer-v1",
    "full": "mmlu-v1",
    "full_text": "qa-v1",
    "cloze": "qa-v1",
}

BY_CHAT = (
    "Reply with one letter alone and no reason: {letters}. If you cannot know, reply with the likeliest."
)
"""Instruction after a context for a chat server, because a chat does not continue the context."""


@dataclass(frozen=True, slots=True, repr=False)
class Request(HoldsText):
    """Query for the likelihood of a `continuation` after a `context`. The continuation includes its leading space. Engines
    move trailing blanks of the context to the continuation, as lm-eval does (`_encode_pair`)."""

    context: str
    continuation: str

    def __repr__(self) -> str:
        return f"Request({len(self.context)} + {len(self.continuation)} characters)"


@dataclass(frozen=True, slots=True)
class Template:
    """Wording of one view. With `by_letter`, the continuation is a letter instead of the text of a choice. With
    `hides_passage`, the question is shown without its passage, so an item must have a passage."""

    view: View
    name: str
    digest: str
    description: str
    context: "jinja2.Template" = field(repr=False)
    continuation: "jinja2.Template" = field(repr=False)
    by_letter: bool
    hides_passage: bool
    source: str = field(repr=False)

    def requests(self, item: Item, order: Order, shots: Sequence[Item] = ()) -> tuple[Request, ...]:
        """Return one request per choice, in the displayed order. Few-shot items come first, each in its original order with
        the correct answer. Items are separated by an empty line."""
        shown = item.permuted(order)
        answered = (
            self._context(shot) + self._continuations(shot)[shot.key] for shot in shots if self.can_ask(shot)
        )
        header = self.description + "".join(text + "\n\n" for text in answered)
        context = header + self._context(shown)
        return tuple(Request(context, c) for c in self._continuations(shown))

    def can_ask(self, item: Item) -> bool:
        """Return whether the template fits the item. If the template hides the passage, the item must have one."""
        return not self.hides_passage or item.question is not None

    def _context(self, item: Item) -> str:
        return self.context.render(
            stem=item.stem, question=item.question, choices=item.choices, letters=string.ascii_uppercase
        )

    def _continuations(self, item: Item) -> list[str]:
        pairs = zip(string.ascii_uppercase, item.choices, strict=False)
        return [self.continuation.render(letter=letter, choice=choice) for letter, choice in pairs]


def inferring_prompt(item: Item) -> str:
    """Return a prompt that shows only the choices of an item and asks the model to infer its question."""
    path = files("robustify.items") / "templates/infer_question/choices-v1.yaml"
    parts = yaml.safe_load(path.read_bytes())
    return _compiled(parts["context"]).render(choices=item.choices)


def _compiled(source: str) -> "jinja2.Template":
    """Build a template. Jinja is imported here, because commands that only name views must start fast."""
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(source)


@cache
def template(view: View, name: str | None = None) -> Template:
    """Return the template with the given name, or the view's default. Raise `UsageError` if it does not exist."""
    wanted = name or DEFAULT_TEMPLATE[view]
    path = files("robustify.items") / "templates" / view / f"{wanted}.yaml"
    if wanted not in names(view):
        raise UsageError(
            f"template {wanted!r} of view {view} is unknown; expected one of {', '.join(names(view))}",
            code="unknown-template",
        )
    parts = yaml.safe_load(path.read_bytes())
    hashed = "\0".join([view, parts["description"], parts["context"], parts["continuation"]])
    digest = hashlib.sha256(hashed.encode()).hexdigest()
    context, continuation = (_compiled(parts[name]) for name in ("context", "continuation"))
    by_letter, hides_passage = "letter" in parts["continuation"], "{{ question" in parts["context"]
    about = view, wanted, digest, parts["description"]
    source = parts["description"] + parts["context"] + parts["continuation"]
    return Template(*about, context, continuation, by_letter, hides_passage, source)


def prompt_sources(digests: Mapping[str, str]) -> dict[str, str]:
    """Return the wording of each prompt whose recorded SHA-256 matches a template of this version, keyed by `view/name`."""
    every = {f"{view}/{name}": template(view, name) for view in VIEWS for name in names(view)}
    return {
        name: every[name].source
        for name, digest in digests.items()
        if name in every and every[name].digest == digest
    }


def by_chat(context: str, letters: Sequence[str]) -> str:
    """Return a chat message that ends by asking for one of the letters, because chat models do not continue a prompt."""
    named = ", ".join(letters[:-1]) + f" or {letters[-1]}" if len(letters) > 1 else letters[0]
    return f"{context}\n\n{BY_CHAT.format(letters=named)}"


def names(view: View) -> tuple[str, ...]:
    """Return the template names of a view in alphabetical order."""
    folder = files("robustify.items") / "templates" / view
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


DEFAULT_VIEWS: tuple[View, ...] = ("choices_only", "choices_only_text", "full", "cloze")


class Asking(Settings):
    """Settings for asking about items: views, templates, and orders of the choices.

    `mode` decides whether the full question is answered by `letter` (view `full`) or scored by the `text` of each option
    (`full_text`). `rotations` is `all` for all cyclic orders of the screen, or `one` as in Deep Ignorance D.4. `orders`
    counts the orders of the full view, the original one first, and `full_rotations` adds its rotations. With `order_items`,
    only that many items, drawn by a hash of their IDs, get more than one order. `shots` is the number of other items before
    each question.
    """

    mode: Mode = "letter"
    letter_templates: tuple[str, ...] = ("d4-like-v1",)
    text_template: str = "answer-v1"
    full_template: str = "mmlu-v1"
    full_text_template: str = "qa-v1"
    cloze_template: str = "qa-v1"
    views: tuple[View, ...] = DEFAULT_VIEWS
    rotations: Literal["all", "one"] = "all"
    orders: int = Field(default=5, ge=1, le=24, strict=True)
    full_rotations: bool = True
    order_items: int | None = Field(default=None, ge=0, strict=True)
    shots: int = Field(default=0, ge=0, le=32, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _use_full_view_of_mode(cls, fields: object) -> object:
        if isinstance(fields, dict) and fields.get("mode") == "text" and "views" not in fields:
            views = [FULL_OF["text"] if view == FULL_OF["letter"] else view for view in DEFAULT_VIEWS]
            return {**fields, "views": views}
        return fields

    @field_validator("views", "letter_templates")
    @classmethod
    def _require_distinct(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("a name is listed twice; list each name only once")
        return names

    def templates(self) -> tuple[Template, ...]:
        """Return the prompt templates of all views, in the order in which they are used."""
        names: dict[View, tuple[str, ...]] = {
            "choices_only": self.letter_templates,
            "choices_only_text": (self.text_template,),
            "full": (self.full_template,),
            "full_text": (self.full_text_template,),
            "cloze": (self.cloze_template,),
        }
        return tuple(template(view, name) for view in self.views for name in names[view])
