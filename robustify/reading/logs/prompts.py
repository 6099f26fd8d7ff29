"""Parts of items shown in the prompts of a log: the question, the passage, the options, and the number of options.
This alone decides the view in which the items of a log were asked. What cannot be seen is said."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from robustify.base.errors import DataError, Notice, UsageError
from robustify.base.redaction import HoldsText
from robustify.base.texts import folded
from robustify.items.item import Item
from robustify.items.orders import own
from robustify.items.views import View, names, template
from robustify.reading.logs.log import LoggedItem, LogOptions
from robustify.reading.marks.labelling import (
    LETTERS,
    cut_at_labels,
    in_other_order,
    only_labels,
    series_named,
)

_LOOKED_AT = 50
_LONG, _ENOUGH_WORDS, _FEW = 12, 0.8, 0.1
"""Number of different words from which a text is long, share of them that a prompt shows if it shows the text, and share of
prompts that may show a text by chance."""
_WORD = re.compile(r"[^\W_]+")
OURS: tuple[View, ...] = ("choices_only", "choices_only_text", "full", "cloze")
BLIND: tuple[View, ...] = ("choices_only", "choices_only_text")


@dataclass(frozen=True, repr=False)
class Prompt(HoldsText):
    """Prompts of one item: a context and a continuation per choice. If the model wrote a reply, there is one context,
    and the continuation is ""."""

    item: LoggedItem
    contexts: tuple[str, ...]
    continuations: tuple[str, ...]

    @cached_property
    def by_letter(self) -> bool:
        """Whether letters or numbers were scored instead of texts. Choices that are themselves letters count as texts."""
        if not only_labels(self.continuations):
            return False
        return [text.strip() for text in self.continuations] != [c.strip() for c in self.item.choices]

    @property
    def written(self) -> bool:
        """Whether the model wrote a reply, so that no continuation was scored."""
        return not any(self.continuations)


@dataclass(frozen=True, slots=True)
class ShownParts:
    """Parts of an item that its prompt shows. `passage` is None if the item has none. `n_options` counts the options whose
    texts are in the prompt, and `labels` are those of the options that it lists, which may be in a different order."""

    question: bool
    passage: bool | None
    n_options: int
    labels: tuple[str, ...]
    in_other_order: bool = False


def parts_shown(prompt: Prompt) -> ShownParts:
    """Return the parts of an item that its prompt shows. A text may differ in white space, case, or a few words, and a part
    of the question may be in the continuation."""
    item, context = prompt.item, plain_context(prompt.contexts[0])
    seen = f"{context} {prompt.continuations[0]}"
    passage, question = item.stem[: item.question_at].strip(), item.stem[item.question_at :]
    before = folded(context)
    listed = cut_at_labels(context)
    # A task may put a short line in other words, such as "because" for "What is the cause?".
    longest = max(question.split("\n"), key=len)
    below = cut_at_labels(context[max(0, context.rfind(longest)) :])
    return ShownParts(
        _contains(seen, question) or _contains(seen, longest),
        _contains(seen, passage) if passage else None,
        sum(folded(choice) in before for choice in item.choices),
        listed.labels if listed else (),
        below is not None and in_other_order(below.texts, item.choices, folded),
    )


def plain_context(context: str) -> str:
    """Return the texts of a chat that is logged as JSON, or any other context unchanged."""
    try:
        turns = json.loads(context) if context.lstrip().startswith("[{") else None
    except (ValueError, RecursionError):
        return context
    if not isinstance(turns, list):
        return context
    texts = (text for turn in turns if isinstance(turn, dict) for text in content_texts(turn.get("content")))
    return "\n\n".join(texts) or context


def content_texts(content: object) -> list[str]:
    """Return the texts of a chat message, whose content is one text or a list of parts."""
    parts = [part if isinstance(part, dict) else {"text": part} for part in _list(content)]
    return [text for part in parts if isinstance(text := part.get("text"), str)]


def _list(content: object) -> list[object]:
    return content if isinstance(content, list) else [content]


def _contains(seen: str, text: str) -> bool:
    """Return whether a prompt shows a text. The prompt may fill blanks, and change a few words of a long text."""
    pieces = [_plain(piece) for piece in re.split(r"_+|\[mask\]", text, flags=re.IGNORECASE)]
    pieces = [piece for piece in pieces if piece]
    if not pieces:
        return bool(text.strip()) and folded(text) in folded(seen)
    plain = f" {_plain(seen)} "
    if all(f" {piece} " in plain for piece in pieces):
        return True
    words = {word for piece in pieces for word in piece.split()}
    return len(words) >= _LONG and sum(f" {word} " in plain for word in words) >= _ENOUGH_WORDS * len(words)


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(folded(text)))


@dataclass(frozen=True, slots=True)
class Presentation:
    """View and template of a log. `digest` is set if the template is one of robustify, `labels` are those of the
    options if the prompts label them in a different way than by Latin letters, and `notes` state assumptions."""

    view: View
    template: str
    digest: str = ""
    notes: tuple[Notice, ...] = ()
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PromptEvidence:
    """Parts that the inspected prompts of a log show. `n` prompts were inspected, and `n_asking` of them show the
    part that the choices-only views hide. `n_showing` show any part of their item. `by_text` is true if texts of
    options were scored, not letters."""

    options: LogOptions
    n: int = 0
    n_asking: int = 0
    n_showing: int = 0
    by_text: bool = False

    @property
    def is_blind(self) -> bool:
        """Whether no prompt shows the hidden part, except by chance."""
        return self.n_asking <= _FEW * self.n

    @property
    def lacking(self) -> str:
        """Sentence that says how many prompts lack the hidden part."""
        hidden = self.options.hidden if self.options.hidden != "image" else "question"
        return f"{self.n - self.n_asking} of {self.n} inspected prompts do not show the {hidden}"


class ViewRule(NamedTuple):
    """One way to decide the view of a log. `view` returns a view, or None if the rule does not apply."""

    name: str
    reason: str
    view: Callable[[PromptEvidence], View | None]
    notes: Callable[[PromptEvidence, View], list[Notice]]


def _notes_on_named(seen: PromptEvidence, view: View) -> list[Notice]:
    lacking = Notice(seen.lacking, code="question-not-shown")
    return [lacking] * bool(seen.n and seen.is_blind and view not in BLIND)


def _notes_on_blind(seen: PromptEvidence, view: View) -> list[Notice]:
    note = f"{seen.lacking}, so the view is {view} (to change this, use --view)"
    return [Notice(note, code="view-without-question")]


def _notes_on_asking(seen: PromptEvidence, view: View) -> list[Notice]:
    lacking = f"; {seen.lacking}" if seen.n_asking < (1 - _FEW) * seen.n else ""
    return [Notice(assumed_view(view) + lacking, code="assumed-view")]


VIEW_RULES = (
    ViewRule("named", "the user named the view", lambda seen: seen.options.view, _notes_on_named),
    ViewRule(
        "no prompts",
        "the log has no prompts, so the usual view is assumed",
        lambda seen: None if seen.n else "full",
        lambda _, view: [Notice(f"{assumed_view(view)}: the log has no prompts", code="assumed-view")],
    ),
    ViewRule(
        "placeholders",
        "prompts lack both the question and the options, so models saw different items than those in the log",
        lambda seen: "full" if not (seen.n_asking or seen.n_showing or seen.by_text) else None,
        _notes_on_asking,
    ),
    ViewRule(
        "blind texts",
        "prompts lack the question, and texts were scored",
        lambda seen: "choices_only_text" if seen.is_blind and seen.by_text else None,
        _notes_on_blind,
    ),
    ViewRule(
        "blind",
        "prompts lack the question",
        lambda seen: "choices_only" if seen.is_blind else None,
        _notes_on_blind,
    ),
    ViewRule(
        "texts",
        "prompts have the question, and texts were scored",
        lambda seen: "cloze" if seen.by_text else None,
        _notes_on_asking,
    ),
    ViewRule("question", "prompts have the question", lambda _: "full", _notes_on_asking),
)
"""In order. Before them, prompts that all match a template of robustify have its view. The first that applies decides."""


def _decide(seen: PromptEvidence) -> tuple[View, list[Notice]]:
    """Return the view of a log, and notes on the view."""
    decided = ((rule, view) for rule in VIEW_RULES if (view := rule.view(seen)) is not None)
    rule, view = next(decided)
    return view, rule.notes(seen, view)


def decide_presentation(
    file: str, kind: str, prompts: Sequence[Prompt], options: LogOptions, *, from_prompts: bool = False,
    maps_letters: bool = False,
) -> Presentation:  # fmt: skip
    """Return the view and template in which the items of a log were asked. The template is `kind` unless all prompts match
    one of robustify. If questions were read `from_prompts` and all are equal, they are an instruction. If the harness
    `maps_letters` of shuffled options to those of the log, prompts may list them in a different order. Raise `UsageError`
    or `DataError` if prompts contradict `options.view`, and `DataError` if most list the options in a different order."""
    ours = _ours(prompts)
    if ours is not None:
        if options.view not in (None, ours.view):
            raise UsageError(
                f"{file}: the prompts match the template {ours.template} of the view {ours.view}, not "
                f"{options.view}. Omit that view, or choose the right log.",
                code="contradicted-view",
            )
        return ours
    sample = prompts[:: max(1, len(prompts) // _LOOKED_AT)][:_LOOKED_AT]
    parts = [parts_shown(prompt) for prompt in sample]
    same = len({prompt.item.stem for prompt in prompts}) == 1 < len(prompts)
    n_asking = 0 if same and from_prompts else sum(_has_hidden_part(part, options) for part in parts)
    if sample and options.view in BLIND and n_asking * 2 > len(sample):
        raise DataError(
            f"{file}: {n_asking} of {len(sample)} inspected prompts show the {options.hidden}, which the view "
            f"{options.view} hides. Check the view of this log.",
            code="question-shown",
        )
    scored = [prompt for prompt in sample if not prompt.written]
    order_notes = [] if maps_letters else _order_notes(file, sample, parts)
    by_text = bool(scored) and 2 * sum(prompt.by_letter for prompt in scored) < len(scored)
    n_showing = sum(bool(part.question or part.n_options or part.labels) for part in parts)
    view, notes = _decide(PromptEvidence(options, len(sample), n_asking, n_showing, by_text))
    if sample and not from_prompts and view not in BLIND:
        notes += same_question_notes(prompt.item for prompt in prompts)
    if not by_text:
        notes += _options_notes(sample, parts)
    return Presentation(view, kind, notes=(*notes, *order_notes), labels=_usual_labels(parts))


def _order_notes(file: str, sample: Sequence[Prompt], parts: Sequence[ShownParts]) -> list[Notice]:
    """Return a note if prompts that ask for a letter list the options in a different order than the log. Raise `DataError`
    if most do."""
    pairs = zip(sample, parts, strict=True)
    n_other = sum(part.in_other_order and (prompt.written or prompt.by_letter) for prompt, part in pairs)
    turned = (
        f"{n_other} of {len(sample)} inspected prompts list the options in a different order from the log"
    )
    if 2 * n_other > len(sample):
        raise DataError(
            f"{file}: {turned}, so it is unclear which option a letter stands for. Log the options in the order "
            "of the prompts.",
            code="options-in-two-orders",
        )
    note = f"{turned}, so the option that a letter in their replies means is uncertain"
    return [Notice(note, code="some-options-in-two-orders")] * bool(n_other)


def _usual_labels(parts: Sequence[ShownParts]) -> tuple[str, ...] | None:
    """Return the series of labels that most prompts show, or None if most show Latin letters or no labels."""
    every = (series_named(part.labels) for part in parts)
    series = Counter(labels for labels in every if labels not in (None, LETTERS))
    labels, n = series.most_common(1)[0] if series else (None, 0)
    return labels if 2 * n > len(parts) else None


def _has_hidden_part(parts: ShownParts, options: LogOptions) -> bool:
    """Return whether a prompt shows the part that the choices-only views hide."""
    if options.hidden in ("passage", "context") and parts.passage is not None:
        return parts.passage
    return parts.question


def _options_notes(seen: Sequence[Prompt], parts: Sequence[ShownParts]) -> list[Notice]:
    """Return notes on prompts that ask for a letter but lack options."""
    pairs = list(zip(seen, parts, strict=True))
    without = [part for prompt, part in pairs if not part.n_options and len(part.labels) < prompt.item.k]
    some = [(part, prompt.item.k) for prompt, part in pairs if 0 < part.n_options < prompt.item.k]
    notes = list[Notice]()
    if without:
        note = (
            f"{len(without)} of {len(seen)} inspected prompts do not show the options, so a letter in a reply names "
            "nothing that the model saw"
        )
        notes.append(Notice(note, code="options-not-shown"))
    if 2 * len(some) > len(seen):
        part, k = some[0]
        note = (
            f"{len(some)} of {len(seen)} inspected prompts do not show all options: only {part.n_options} of {k}, for "
            "example, so the others could not be picked"
        )
        notes.append(Notice(note, code="some-options-not-shown"))
    return notes


def same_question_notes(items: Iterable[LoggedItem]) -> list[Notice]:
    """Return a note if several items have the same question, because the models may have seen more than the question."""
    stems = [item.stem for item in items]
    note = "all items have the same question; if it was not shown, use --view choices_only"
    return [Notice(note, code="same-question")] * (len(set(stems)) == 1 < len(stems))


def assumed_view(view: View) -> str:
    """Return a note about a log whose view is not specified."""
    return f"the view was assumed to be {view} (to change this, use --view)"


def _ours(prompts: Sequence[Prompt]) -> Presentation | None:
    for view, name in ((own_view, name) for own_view in OURS for name in names(own_view)):
        if prompts and all(_is_template(prompt, view, name) for prompt in prompts):
            return Presentation(view, name, template(view, name).digest)
    return None


def _is_template(prompt: Prompt, view: View, name: str) -> bool:
    logged = prompt.item
    if not logged.choices or not logged.stem.strip():
        return False
    item = Item("logged", logged.stem, logged.choices, logged.key or 0)
    requests = list(zip(prompt.contexts, prompt.continuations, strict=True))
    return requests == [(r.context, r.continuation) for r in template(view, name).requests(item, own(item.k))]
