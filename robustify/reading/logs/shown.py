"""What the prompts of a log show: the question, the passage, the options, and how many of them. This alone decides the view
in which the items of a log were asked. What cannot be seen is said."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from robustify.base.errors import DataError, UsageError
from robustify.base.redaction import HoldsText
from robustify.base.texts import folded
from robustify.items.item import Item
from robustify.items.orders import own
from robustify.items.views import View, names, template
from robustify.reading.logs.log import LoggedItem, LogOptions
from robustify.reading.marks.labelling import LETTERS, cut_at_labels, only_labels, series_named

_LOOKED_AT = 50
_LONG, _ENOUGH_WORDS, _FEW = 12, 0.8, 0.1
"""Number of different words from which a text is long, share of them that a prompt shows if it shows the text, and share of
prompts that may show a text by chance."""
_WORD = re.compile(r"[^\W_]+")
OURS: tuple[View, ...] = ("choices_only", "choices_only_text", "full", "cloze")
BLIND: tuple[View, ...] = ("choices_only", "choices_only_text")


@dataclass(frozen=True, repr=False)
class Prompt(HoldsText):
    """Prompts of one item: a context and a continuation per choice, or one context and the continuation "" if the model
    wrote a reply."""

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
class Shown:
    """Parts of an item that its prompt shows. `passage` is None if the item has none. `n_options` counts the options whose
    texts are in the prompt, and `labels` are those of the options that it lists."""

    question: bool
    passage: bool | None
    n_options: int
    labels: tuple[str, ...]


def parts_shown(prompt: Prompt) -> Shown:
    """Return the parts of an item that its prompt shows. A text may differ in white space, case, or a few words, and a part
    of the question may be in the continuation."""
    item, context = prompt.item, plain_context(prompt.contexts[0])
    seen = f"{context} {prompt.continuations[0]}"
    passage, question = item.stem[: item.question_at].strip(), item.stem[item.question_at :]
    before = folded(context)
    listed = cut_at_labels(context)
    return Shown(
        _contains(seen, question),
        _contains(seen, passage) if passage else None,
        sum(folded(choice) in before for choice in item.choices),
        listed.labels if listed else (),
    )


def plain_context(context: str) -> str:
    """Return the texts of a chat that is logged as JSON, or any other context unchanged."""
    try:
        turns = json.loads(context) if context.lstrip().startswith("[{") else None
    except (ValueError, RecursionError):
        return context
    if not isinstance(turns, list):
        return context
    texts = [turn.get("content") for turn in turns if isinstance(turn, dict)]
    return "\n\n".join(text for text in texts if isinstance(text, str)) or context


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
class AskedAs:
    """View and template of a log. `digest` is set if the template is one of robustify, `labels` are those of the
    options if the prompts label them in another way than by Latin letters, and `notes` state assumptions."""

    view: View
    template: str
    digest: str = ""
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None


def asked_as(
    file: str, kind: str, prompts: Sequence[Prompt], options: LogOptions, *, from_prompts: bool = False
) -> AskedAs:
    """Return the view and template in which the items of a log were asked. The template is `kind` unless all prompts match
    one of robustify. If questions were read `from_prompts` and all are equal, they are an instruction. Raise `UsageError`
    or `DataError` if prompts contradict `options.view`."""
    ours = _ours(prompts)
    if ours is not None:
        if options.view not in (None, ours.view):
            raise UsageError(
                f"{file}: the prompts match the template {ours.template} of the view {ours.view}, not "
                f"{options.view}. Omit that view, or choose the right log."
            )
        return ours
    seen = prompts[:: max(1, len(prompts) // _LOOKED_AT)][:_LOOKED_AT]
    if not seen:
        view = options.view or "full"
        return AskedAs(
            view, kind, notes=() if options.view else (f"{assumed(view)}: the log has no prompts",)
        )
    parts = [parts_shown(prompt) for prompt in seen]
    same = len({prompt.item.stem for prompt in prompts}) == 1 < len(prompts)
    n_asking = 0 if same and from_prompts else sum(_is_shown(one, options) for one in parts)
    if options.view in BLIND and n_asking * 2 > len(seen):
        raise DataError(
            f"{file}: {n_asking} of {len(seen)} inspected prompts show the {options.hidden}, which the view {options.view} "
            "hides. Check the view of this log."
        )
    scored = [prompt for prompt in seen if not prompt.written]
    by_text = bool(scored) and 2 * sum(prompt.by_letter for prompt in scored) < len(scored)
    view, why = _view(n_asking, len(seen), by_text=by_text, options=options)
    notes = [why] if why else []
    if not from_prompts and view not in BLIND:
        notes += same_question_notes(prompt.item for prompt in prompts)
    if not by_text:
        notes += _options_notes(seen, parts)
    series = Counter(one for part in parts if (one := series_named(part.labels)) not in (None, LETTERS))
    labels, n = series.most_common(1)[0] if series else (None, 0)
    labels = labels if 2 * n > len(seen) else None
    return AskedAs(view, kind, notes=tuple(notes), labels=labels)


def _is_shown(one: Shown, options: LogOptions) -> bool:
    """Return whether a prompt shows the part that the choices-only views hide."""
    if options.hidden in ("passage", "context") and one.passage is not None:
        return one.passage
    return one.question


def _view(n_asking: int, n: int, *, by_text: bool, options: LogOptions) -> tuple[View, str]:
    """Return the view of a log of which `n_asking` of `n` prompts show the hidden part, and a note on it."""
    hidden = options.hidden if options.hidden != "image" else "question"
    lacking = f"{n - n_asking} of {n} inspected prompts do not show the {hidden}"
    blind = n_asking <= _FEW * n
    if options.view is not None:
        return options.view, lacking if blind and options.view not in BLIND else ""
    if blind:
        view: View = "choices_only_text" if by_text else "choices_only"
        return view, f"{lacking}, so the view is {view} (to change this, use --view)"
    view = "cloze" if by_text else "full"
    return view, assumed(view) + (f"; {lacking}" if n_asking < (1 - _FEW) * n else "")


def _options_notes(seen: Sequence[Prompt], parts: Sequence[Shown]) -> list[str]:
    """Return notes on prompts that ask for a letter but lack options."""
    pairs = list(zip(seen, parts, strict=True))
    without = [one for prompt, one in pairs if not one.n_options and len(one.labels) < prompt.item.k]
    some = [(one, prompt.item.k) for prompt, one in pairs if 0 < one.n_options < prompt.item.k]
    notes = []
    if without:
        notes.append(
            f"{len(without)} of {len(seen)} inspected prompts do not show the options, so a letter in a reply names "
            "nothing that the model saw"
        )
    if 2 * len(some) > len(seen):
        one, k = some[0]
        notes.append(
            f"{len(some)} of {len(seen)} inspected prompts do not show all options: only {one.n_options} of {k}, for "
            "example, so the others could not be picked"
        )
    return notes


def same_question_notes(items: Iterable[LoggedItem]) -> list[str]:
    """Return a note if several items have one question, because it may not be what was shown."""
    stems = [item.stem for item in items]
    note = "all items have the same question; if it was not shown, use --view choices_only"
    return [note] * (len(set(stems)) == 1 < len(stems))


def assumed(view: View) -> str:
    """Return a note for a log whose view is not specified."""
    return f"the view was assumed to be {view} (to change this, use --view)"


def _ours(prompts: Sequence[Prompt]) -> AskedAs | None:
    for view, name in [(one, name) for one in OURS for name in names(one)]:
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
