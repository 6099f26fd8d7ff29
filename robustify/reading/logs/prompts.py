"""Detection of the view from the prompts of a log, and of the choice that a reply names.

The file name is never used. A prompt from a robustify template is recognized word for word. For other prompts, only two
facts are read: whether letters or texts were scored, and whether the question was shown.

A choice is named by letter, number, or text (`marks.picks`). The format of most cells applies to all cells of a column.
Whole numbers that could count from 0 or from 1 are refused.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from robustify.base.errors import DataError, UsageError
from robustify.base.redaction import HoldsText
from robustify.base.texts import unspaced
from robustify.items.item import Item
from robustify.items.orders import own
from robustify.items.views import View, names, template
from robustify.reading.loaders.rows import whole
from robustify.reading.logs.log import LoggedItem, LogOptions
from robustify.reading.marks.labelling import COUNTED, bare_mark, only_labels, series_of
from robustify.reading.marks.picks import NoPick, Picked, read_pick


@dataclass(frozen=True, slots=True)
class Naming:
    """Format in which most cells of a column name a choice, first number (None if numbers are texts), and letters."""

    form: Literal["letter", "number", "text"]
    first: int | None = None
    letters: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls, cells: Iterable[object], first: int | None = None, letters: tuple[str, ...] | None = None
    ) -> "Naming":
        """Return the format of most cells that are not empty. Without `letters`, the cells tell their series."""
        filled = [cell for cell in cells if cell is not None and str(cell).strip()]
        texts = [cell for cell in filled if isinstance(cell, str)]
        if first is not None and sum(whole_number(cell) is not None for cell in filled) * 2 > len(filled):
            return cls("number", first, letters)
        marks = sum(bare_mark(text) is not None for text in texts)
        return cls("letter" if marks * 2 > len(texts) else "text", first, letters or series_of(texts))

    def answer(self, said: object, k: int, choices: Sequence[str]) -> dict[str, Any]:
        """Return the `pick` among `k` choices that a cell names, and the `reason` why it names none, one of them empty."""
        found: Picked | NoPick
        first = self.first or 0
        number = None if self.first is None else whole_number(said)
        if number is not None and (self.form == "number" or not isinstance(said, str)):
            found = Picked(number - first) if 0 <= number - first < k else NoPick("beyond the options")
        else:
            labels = COUNTED[first] if self.form == "number" else self.letters
            prefer: Literal["mark", "text"] = "text" if self.form == "text" else "mark"
            found = read_pick(said if isinstance(said, str) else "", choices or ("",) * k, labels, prefer)
        if isinstance(found, Picked):
            return {"pick": found.index, "reason": ""}
        return {"pick": None, "reason": found.reason}


def naming(file: str, keys: Sequence[object], picks: Sequence[object], first: str) -> tuple[Naming, Naming]:
    """Return the formats in which keys and picks name choices. `first` is the user's setting for counting, or "".
    Raise `DataError` if it is unknown whether whole numbers count from 0 or 1, and `UsageError` if `first` is neither."""
    if first not in ("", "=0", "=1"):
        raise UsageError(f"--map first={first} is not valid; expected --map first==0 or --map first==1")
    start, letters = int(first[1:] or 0), series_of(c for c in (*keys, *picks) if isinstance(c, str))
    forms = tuple(Naming.of(cells, start, letters) for cells in (keys, picks))
    of_keys, of_picks = (
        {
            n
            for cell in cells
            if (way.form == "number" or not isinstance(cell, str)) and (n := whole_number(cell)) is not None
        }
        for cells, way in zip((keys, picks), forms, strict=True)
    )
    numbers = of_keys | of_picks
    if not first and numbers and 0 not in numbers:
        raise DataError(
            f"{file}: keys and picks are whole numbers and never 0, so they may count from 0 or from 1. Set the first "
            "number with --map first==0 or --map first==1."
        )
    if not first and 0 in of_keys and 0 not in of_picks and max(of_picks, default=0) > max(of_keys):
        raise DataError(
            f"{file}: keys count from 0, but picks are never 0 and go beyond the keys, so they may count from 1. Write "
            "both in one way, or set --map first==0 if picks count from 0, too."
        )
    return forms[0], forms[1]


def whole_number(said: object) -> int | None:
    """Return a whole number, also one written as text, in brackets, or as 2.0 (as in a column with gaps), or None."""
    if not isinstance(said, str):
        return whole(said)
    mark = bare_mark(re.sub(r"\.0*\s*\Z", "", said))
    return int(mark) if mark is not None and mark.isdecimal() else None


LOOKED_AT = 50
OURS: tuple[View, ...] = ("choices_only", "choices_only_text", "full", "cloze")
BLIND: tuple[View, ...] = ("choices_only", "choices_only_text")


@dataclass(frozen=True, repr=False)
class Prompt(HoldsText):
    """Prompts of one item, with one context and one continuation per choice."""

    item: LoggedItem
    contexts: tuple[str, ...]
    continuations: tuple[str, ...]

    @cached_property
    def by_letter(self) -> bool:
        """Whether letters or numbers were scored instead of texts. Choices that are themselves letters count as texts."""
        if not only_labels(self.continuations):
            return False
        return [text.strip() for text in self.continuations] != [c.strip() for c in self.item.choices]


@dataclass(frozen=True, slots=True)
class AskedAs:
    """View and template of a log. `digest` is set if the template is one of robustify, and `note` states an assumption."""

    view: View
    template: str
    digest: str = ""
    note: str = ""


def asked_as(file: str, kind: str, prompts: Sequence[Prompt], options: LogOptions) -> AskedAs:
    """Return the view and template in which the items of a log were asked. The template is named `kind` unless all prompts
    match one of robustify, which `options.view` must not contradict. A view without the question refuses its prompts."""
    ours = _ours(prompts)
    if ours is not None:
        if options.view not in (None, ours.view):
            raise UsageError(
                f"{file}: the prompts match the template {ours.template} of the view {ours.view}, not "
                f"{options.view}. Omit that view, or choose the right log."
            )
        return ours
    seen = prompts[:: max(1, len(prompts) // LOOKED_AT)][:LOOKED_AT]
    with_stem = sum(_shows_stem(prompt) for prompt in seen)
    if options.view in BLIND and options.hidden == "question" and with_stem * 2 > len(seen):
        raise DataError(
            f"{file}: {with_stem} of {len(seen)} inspected prompts show the question, which the view "
            f"{options.view} hides. Check the view of this log."
        )
    if options.view is not None:
        return AskedAs(options.view, kind)
    by_letter = sum(prompt.by_letter for prompt in seen) * 2 >= len(seen)
    view: View = "full" if by_letter or not seen else "cloze"
    said = assumed(view)
    if seen and not with_stem:
        said += ". Its prompts do not seem to show the question; if so, use choices_only"
    return AskedAs(view, kind, note=said)


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


def _shows_stem(prompt: Prompt) -> bool:
    stem = unspaced(prompt.item.stem)
    return bool(stem) and any(stem in unspaced(context) for context in prompt.contexts[:1])
