"""Analysis of what the prompts of a log asked, and of which choice a reply names.

A prompt from a robustify template is recognized word for word. For others, only two facts are read: whether letters or
texts were scored, and whether the question was shown. A continuation is a choice after the delimiter of the task, which
does not count for its length. Some tasks, such as bbh and boolq, have their choices only in the requests.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from os.path import commonprefix
from typing import Any, Literal

from robustify.base.errors import DataError, ItemError, UsageError
from robustify.base.redaction import HoldsText
from robustify.base.texts import unspaced
from robustify.items.item import Item
from robustify.items.orders import own
from robustify.items.views import View, names, template
from robustify.reading.loaders.rows import Cells, SourceRow, SourceTable, as_object, rows_or_faults, whole
from robustify.reading.logs.log import LoggedItem, LogOptions
from robustify.reading.marks.labelling import (
    COUNTED,
    bare_mark,
    cut_at_labels,
    only_labels,
    series_of,
    without_tail,
)
from robustify.reading.marks.picks import NoPick, Picked, read_pick

_SAMPLED = 200
_LAST_QUESTION = re.compile(r"(?:^|\n)Question:[ \t]*")
_LEAD_IN = re.compile(r"\n[ \t]*\S+(?:[ \t]+\S+){0,2}[ \t]*[:：][ \t]*$")
_BULLET = re.compile(r"^[ \t]*[-*•–][ \t]+(?=[(\[]?\w{1,2}[)\].:])", re.MULTILINE)
_BEFORE_TEXT = re.compile(r"[\W_]*\s")
NO_TEXTS = (
    "the scored options are only labels, and neither `doc` nor the prompt has lines with their texts (`A. ...`) that end "
    "clearly"
)


@dataclass(frozen=True, slots=True)
class Naming:
    """Format in which a column names choices: its form, first number (None if numbers are texts), and letters."""

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
        """Return the `pick` that a cell names among `k` choices, or the `reason` why it names none."""
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
            f"{file}: keys count from 0, but picks may count from 1, because none is 0 and some exceed every key. "
            "Write both in one way, or set --map first==0 if picks count from 0, too."
        )
    return forms[0], forms[1]


def whole_number(said: object) -> int | None:
    """Read a whole number, which may be text, in brackets, or written as 2.0. Return None for any other value."""
    if not isinstance(said, str):
        return whole(said)
    mark = bare_mark(re.sub(r"\.0*\s*\Z", "", said))
    return int(mark) if mark is not None and mark.isdecimal() else None


_LOOKED_AT = 50
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
    """Return the view and template in which the items of a log were asked. The template is `kind` unless all prompts match
    one of robustify. Raise `UsageError` or `DataError` if prompts contradict `options.view`."""
    ours = _ours(prompts)
    if ours is not None:
        if options.view not in (None, ours.view):
            raise UsageError(
                f"{file}: the prompts match the template {ours.template} of the view {ours.view}, not "
                f"{options.view}. Omit that view, or choose the right log."
            )
        return ours
    seen = prompts[:: max(1, len(prompts) // _LOOKED_AT)][:_LOOKED_AT]
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


def _pairs(cells: Cells) -> list[tuple[str, str]]:
    """Return the context and continuation of each request of a row, or nothing if a request has another form. A
    continuation is "" if the model wrote. The second half of `acc_mutual_info`, which has no context, is left out."""
    arguments = cells.get("arguments")
    members: Sequence[object] = arguments if isinstance(arguments, list) else ()
    if isinstance(arguments, dict):
        # Sort by number, so that gen_args_10 comes after gen_args_2.
        members = [arguments[name] for name in sorted(arguments, key=_number)]
    pairs = [pair for member in members if (pair := _pair(member)) is not None]
    half = len(pairs) // 2
    if len(pairs) < len(members):
        return []
    return pairs[:half] if len(pairs) % 2 == 0 and not any(context for context, _ in pairs[half:]) else pairs


def _pair(member: object) -> tuple[str, str] | None:
    match member:
        case dict():
            context, continuation = member.get("arg_0"), member.get("arg_1")
        case [context, continuation, *_]:
            pass
        case _:
            return None
    if not isinstance(context, str) or not isinstance(continuation, str | dict):
        return None
    return context, continuation if isinstance(continuation, str) else ""


@lru_cache(4096)
def _number(name: str) -> int:
    number = str(name).rpartition("_")[2]
    return int(number) if number.isdecimal() else 0


def prompt_in_row(cells: Cells, item: LoggedItem) -> Prompt | None:
    """Return the prompts of a row, or None unless it has one context and one continuation for every choice."""
    pairs = _pairs(cells)
    if len(pairs) != item.k:
        return None
    contexts, continuations = zip(*pairs, strict=True)
    return Prompt(item, contexts, continuations)


def by_choice(asked: Prompt) -> list[int] | None:
    """Return the index of the request that scored each choice, or None if the scored texts differ from the choices."""
    texts = [unspaced(text) for text in asked.continuations]
    positions: list[int] = []
    for choice in map(unspaced, asked.item.choices):
        free = [at for at, text in enumerate(texts) if text == choice and at not in positions]
        if not free:
            return None
        positions.append(free[0])
    return positions


def delimiter(rows: Sequence[SourceRow], configured: str | None) -> str:
    """Return the text before the choice in each continuation. The choices in the docs show it, because a space may belong
    to either. If the docs have no choices, it is the delimiter of the results file, or else the white space or punctuation
    that all continuations have in common."""
    before: Counter[str] = Counter()
    scored: list[str] = []
    for row in rows[:: max(1, len(rows) // _SAMPLED)]:
        texts = sorted(_texts(row.cells.get("doc")), key=len, reverse=True)
        for _, said in _pairs(row.cells):
            scored.append(said)
            before.update([said.removesuffix(text) for text in texts if said.endswith(text)][:1])
    most, n = before.most_common(1)[0] if before else ("", 0)
    if 2 * n > len(scored):
        return most
    shared = commonprefix(scored)  # noqa: RUF071 (texts, not paths)
    if configured and shared.startswith(configured):
        return configured
    found = _BEFORE_TEXT.match(shared)
    return found[0] if found else ""


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield from [value] * bool(value)
        case list() | dict():
            for member in value.values() if isinstance(value, dict) else value:
                yield from _texts(member)


def with_requested_options(table: SourceTable, before: str, unknown: DataError) -> SourceTable:
    """Add each row's options to its doc and return the table. They come from the requests. If labels were scored or the
    model generated text, they come from labelled lines in the doc or prompt. `before` is the delimiter. Raise `unknown`
    if there are none."""
    made, faults = rows_or_faults(
        ((row, row.cells) for row in table.rows),
        lambda row, cells: replace(row, cells={**cells, "doc": _with_options(cells, before)}),
    )
    if not made and not any(len(_pairs(row.cells)) > 1 for row in table.rows):
        raise unknown
    return replace(table, rows=tuple(row for _, row in made), faults=(*table.faults, *faults))


def _with_options(cells: Cells, before: str) -> dict[str, object]:
    pairs, doc = _pairs(cells), as_object(cells.get("doc"))
    texts = tuple(continuation.removeprefix(before) for _, continuation in pairs if continuation)
    if not pairs or (len(pairs) > 1 and len(set(texts)) < max(2, len(pairs))):
        raise ItemError("neither `doc` nor the requests (`arguments`) contain the options of the item")
    if len(pairs) > 1 and not only_labels(texts):
        return {**doc, "choices": list(texts)}
    # A text of the doc that the model did not see may explain the answer.
    seen = [text for text in _texts(dict(doc)) if len(pairs) > 1 or text in pairs[0][0]]
    for prompt in (*seen, pairs[0][0]):
        if (found := listed_options(prompt, texts)) is not None:
            stem, options = found
            rest = {name: stem if value == prompt else value for name, value in doc.items()}
            return {**rest, "choices": options}
    raise ItemError(NO_TEXTS)


def listed_options(prompt: str, labels: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the question of a prompt and the texts of its last options, or None if they are missing or unclear. With
    `labels`, only options with these labels count."""
    bare = [label.strip().strip("()[].:") for label in labels]
    cut = cut_at_labels(_BULLET.sub("", prompt), bare)
    cut = None if cut is None else without_tail(cut)
    if cut is None:
        return None
    return last_question(cut.before, bare), [*cut.texts]


def last_question(prompt: str, labels: Sequence[str] = ()) -> str:
    """Return the last question of a prompt that lists no options. Examples whose options have `labels` may precede it."""
    starts = list(_LAST_QUESTION.finditer(prompt))
    if starts:
        prompt = prompt[starts[-1].end() :]
    elif cut_at_labels(prompt, labels) is not None:
        # The question follows examples, in any language.
        prompt = prompt.rpartition("\n\n")[2]
    return _LEAD_IN.sub("", prompt).strip()
