"""How a log's items were asked, by its prompts, never by its file name.

A prompt of ours is recognised word for word. Of others' prompts only so much is read as the words prove:
whether letters or texts were scored, and whether the question was shown at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from robustify.errors import DataError, UsageError
from robustify.item import Item, unspaced
from robustify.logs.log import LoggedItem, LogOptions
from robustify.logs.naming import are_letters
from robustify.orders import own
from robustify.redaction.text import KeptHere
from robustify.views import View, names, template

LOOKED_AT = 50
OURS: tuple[View, ...] = ("choices_only", "choices_only_text", "full", "cloze")
BLIND: tuple[View, ...] = ("choices_only", "choices_only_text")


@dataclass(frozen=True, slots=True, repr=False)
class Prompt(KeptHere):
    """What was put before a model: one context and one continuation a choice, and the item they show."""

    item: LoggedItem
    contexts: tuple[str, ...]
    continuations: tuple[str, ...]

    @property
    def by_letter(self) -> bool:
        """Whether letters (or numbers) were scored, not texts; choices that are letters themselves are texts."""
        bare = [text.strip() for text in self.continuations]
        return are_letters(bare) and bare != [c.strip() for c in self.item.choices]


@dataclass(frozen=True, slots=True)
class AskedAs:
    """The view and template of a log; `digest` where the template is ours, and what was assumed."""

    view: View
    template: str
    digest: str = ""
    note: str = ""


def asked_as(file: str, kind: str, prompts: Sequence[Prompt], options: LogOptions) -> AskedAs:
    """How the items of a log were asked; its template is named `kind` unless every prompt is one of ours.

    Raises:
        UsageError: `options.view` is not what our own prompts show.
        DataError: asked without the question, says `options.view`, and the prompts show it.
    """
    seen = prompts[:: max(1, len(prompts) // LOOKED_AT)][:LOOKED_AT]
    ours = _ours(seen)
    if ours is not None and all(_is_template(prompt, ours.view, ours.template) for prompt in prompts):
        if options.view not in (None, ours.view):
            raise UsageError(
                f"{file}: is asked as {ours.view} (its prompts are template {ours.template}), not as "
                f"{options.view}; leave the view out"
            )
        return ours
    with_stem = sum(_shows_stem(prompt) for prompt in seen)
    if options.view in BLIND and with_stem * 2 > len(seen):
        raise DataError(
            f"{file}: {with_stem} of {len(seen)} prompts looked at show the question; expected none of a log "
            f"of {options.view}"
        )
    if options.view is not None:
        return AskedAs(options.view, kind)
    by_letter = sum(prompt.by_letter for prompt in seen) * 2 >= len(seen)
    view: View = "full" if by_letter or not seen else "cloze"
    said = assumed(view)
    doubt = (
        "; its prompts do not show the question: if so, say choices_only" if seen and not with_stem else ""
    )
    return AskedAs(view, kind, note=said + doubt)


def assumed(view: View) -> str:
    """The note where nobody said how the items were asked."""
    return f"taken as asked in the view {view} (--view says otherwise)"


def _ours(prompts: Sequence[Prompt]) -> AskedAs | None:
    for view in OURS:
        for name in names(view):
            if prompts and all(_is_template(prompt, view, name) for prompt in prompts):
                return AskedAs(view, name, template(view, name).digest)
    return None


def _is_template(prompt: Prompt, view: View, name: str) -> bool:
    logged = prompt.item
    if not logged.choices or not logged.stem.strip():
        return False
    item = Item("logged", logged.stem, logged.choices, logged.key or 0)
    asked = list(zip(prompt.contexts, prompt.continuations, strict=True))
    return asked == [(r.context, r.continuation) for r in template(view, name).requests(item, own(item.k))]


def _shows_stem(prompt: Prompt) -> bool:
    stem = unspaced(prompt.item.stem)
    return bool(stem) and any(stem in unspaced(context) for context in prompt.contexts[:1])
