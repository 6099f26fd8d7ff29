"""How an item is asked. The only prompt text of the project, and the only module where letters exist.

A view says what a model gets to see; a template says in which words. Templates are files, versioned by name
and hashed, because a removed set is only as reproducible as the prompt that removed it.
"""

import hashlib
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

import jinja2
import yaml
from jinja2.sandbox import ImmutableSandboxedEnvironment

from robustify.errors import UsageError
from robustify.item import Item
from robustify.orders import Order
from robustify.redaction import KeptHere

View = Literal[
    "choices_only",
    "choices_only_text",
    "full",
    "full_text",
    "cloze",
]
VIEWS: tuple[View, ...] = get_args(View)
Hidden = Literal["question", "passage", "context", "image"]
"""The part of an item that the screen does not show. What comes before a question is a passage or a context."""
BEFORE_A_QUESTION = ("passage", "context")
NO_PASSAGE = "no-passage-v1"
"""The template of the screen, by letter and by text, that shows a question without what comes before it."""
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
"""What a server that only chats is asked after a context, because a chat does not go on with it."""

_JINJA = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)


@dataclass(frozen=True, slots=True, repr=False)
class Request(KeptHere):
    """How likely is `continuation` after `context`?

    The continuation carries its own leading space. Trailing blanks of the context belong to the
    continuation; an engine moves them there as lm-eval does (`_encode_pair`).
    """

    context: str
    continuation: str

    def __repr__(self) -> str:
        return f"Request({len(self.context)} + {len(self.continuation)} characters)"


@dataclass(frozen=True, slots=True)
class Template:
    """The words of one view. `by_letter`: the continuation is a letter, not the text of a choice.

    `hides_passage`: the question is shown without what comes before it, so an item must have a passage.
    """

    view: View
    name: str
    digest: str
    description: str
    context: jinja2.Template = field(repr=False)
    continuation: jinja2.Template = field(repr=False)
    by_letter: bool
    hides_passage: bool

    def requests(self, item: Item, order: Order, shots: Sequence[Item] = ()) -> tuple[Request, ...]:
        """Return one request for each choice, in the order in which the choices are shown.

        Few-shot items are shown in their own order with their key as the answer, separated by an empty line.
        """
        shown = item.permuted(order)
        answered = (
            self._context(shot) + self._continuations(shot)[shot.key] for shot in shots if self.can_ask(shot)
        )
        header = self.description + "".join(text + "\n\n" for text in answered)
        context = header + self._context(shown)
        return tuple(Request(context, c) for c in self._continuations(shown))

    def can_ask(self, item: Item) -> bool:
        """Return whether the item has what this template leaves out, so that something is hidden."""
        return not self.hides_passage or item.question is not None

    def _context(self, item: Item) -> str:
        return self.context.render(
            stem=item.stem, question=item.question, choices=item.choices, letters=string.ascii_uppercase
        )

    def _continuations(self, item: Item) -> list[str]:
        pairs = zip(string.ascii_uppercase, item.choices, strict=False)
        return [self.continuation.render(letter=letter, choice=choice) for letter, choice in pairs]


def inferring_prompt(item: Item) -> str:
    """Return the prompt that asks for the question of an item of which the choices alone are shown."""
    parts = yaml.safe_load(
        (files("robustify") / "templates/infer_question/choices-v1.yaml").read_text("utf-8")
    )
    return _JINJA.from_string(parts["context"]).render(choices=item.choices)


@cache
def template(view: View, name: str | None = None) -> Template:
    """Return the template of this name; without a name the view's default.

    Raises:
        UsageError: no such template; the ones there are are listed.
    """
    wanted = name or DEFAULT_TEMPLATE[view]
    path = files("robustify") / "templates" / view / f"{wanted}.yaml"
    if wanted not in names(view):
        raise UsageError(
            f"template {wanted!r} of view {view}: unknown; expected one of {', '.join(names(view))}"
        )
    raw = path.read_bytes()
    parts = yaml.safe_load(raw)
    digest = hashlib.sha256(
        "\0".join([view, parts["description"], parts["context"], parts["continuation"]]).encode()
    ).hexdigest()
    return Template(
        view,
        wanted,
        digest,
        parts["description"],
        _JINJA.from_string(parts["context"]),
        _JINJA.from_string(parts["continuation"]),
        by_letter="letter" in parts["continuation"],
        hides_passage="{{ question" in parts["context"],
    )


def by_chat(context: str, letters: Sequence[str]) -> str:
    """Return the turn of a chat that asks for one of these letters, because a chat does not continue a context."""
    named = ", ".join(letters[:-1]) + f" or {letters[-1]}" if len(letters) > 1 else letters[0]
    return f"{context}\n\n{BY_CHAT.format(letters=named)}"


def names(view: View) -> tuple[str, ...]:
    """Return the templates that a view has, in alphabetical order."""
    folder = files("robustify") / "templates" / view
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))
