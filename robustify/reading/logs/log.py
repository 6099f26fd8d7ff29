"""Data structures for logs, which readers create, and the check that a name in a log is not item text.

If a column is mapped incorrectly or a log is unusual, item text can appear instead of the name of a model, task, or topic.
Messages, notes, and runs therefore print only a `Name`, which only this module creates. Names differ from texts in form
(one ASCII word, or a few words without final punctuation), and in repetition (a name appears in many rows of a column).
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NewType, Protocol

from robustify.base.errors import Notice, UsageError
from robustify.base.redaction import HoldsText
from robustify.base.texts import folded
from robustify.items.views import Hidden, View
from robustify.reading.loaders.layouts import groups, raw_items
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.loaders.rows import Fault, SourceRow, SourceTable, name_like
from robustify.reading.logs.exchanges import Exchange

Name = NewType("Name", str)
"""Checked name, or "" if there is none."""
NOTHING = Name("")
READABLE = "a log that `robustify import --help` lists, or a table of picks with model, key, and pick"
"""Logs that can be read, for messages."""
_WORD = re.compile(r"[\w#][\w.+:@/=,~|#()-]{0,95}", re.ASCII)
_NO_NAME = re.compile(r"[^\w.@+/:-]+")
_MOST_WORDS, _MOST_CHARS = 8, 80
_FEW, _FEW_TOPICS = 3, 12
_LISTED = 10


def as_name(value: object) -> Name | None:
    """Return a number, a Boolean, or a one-word text as a name. Return None for any other value."""
    text = str(value) if isinstance(value, str | int | float) else ""
    return Name(text) if _WORD.fullmatch(text) else None


def as_label(value: object) -> Name:
    """Return an item's label if it has few words. Otherwise, return "", so that the item is identified by its content."""
    text = str(value).strip() if isinstance(value, str | int) else ""
    return Name(text) if _few_words(text) else NOTHING


def names_in(cells: Iterable[object], texts: Iterable[object] = ()) -> dict[str, Name]:
    """Map the cell texts in a column, such as models or tasks, to names. `texts` are those of items. There are no
    names if each name appears, on average, in fewer rows than there are names, unless there are up to three single
    words. A name is dropped if it equals a text, or has several words and is part of a text."""
    values, full_texts = list(cells), {folded(str(text)) for text in texts}
    repeated = _repeated(values, lambda n_names, n_rows: n_names <= _FEW or n_names * n_names <= n_rows)
    rare = len(repeated) ** 2 > len(values)

    def may_be_text(name: str) -> bool:
        bare = folded(name)
        return bare in full_texts if as_name(name) else rare or any(bare in text for text in full_texts)

    return {name: checked for name, checked in repeated.items() if not may_be_text(name)}


def topics_in(cells: Iterable[object], each: int = 1) -> dict[str, Name]:
    """Map the cell texts in a column to topic names. Return no names if over twelve topics have fewer than two items
    on average. `each` is the number of cells per item: one per model."""
    return _repeated(cells, lambda n_names, n_cells: n_names <= _FEW_TOPICS or 2 * n_names * each <= n_cells)


def checked_facts(values: Mapping[str, object]) -> dict[str, Name]:
    """Return the metadata of a log whose values are valid names."""
    return {fact: name for fact, value in values.items() if (name := as_name(value)) is not None}


def path_name(text: str) -> Name:
    """Return a name for a file or folder chosen by the user, replacing unsuitable characters with hyphens."""
    return Name(_NO_NAME.sub("-", text).strip("-")[:96] or "unnamed")


def checked_model_name(text: str) -> Name:
    """Check and return a model name from a config or a command line. Raise `UsageError` if it is too long for a name."""
    if not _few_words(text):
        raise UsageError(
            f"the model name ({len(text)} characters, words: {len(text.split())}) is not valid; expected 1 to "
            f"{_MOST_CHARS} printable characters, at most {_MOST_WORDS} words, and no punctuation mark at the end",
            code="invalid-model-name",
        )
    return Name(text)


def headings(columns: Sequence[str]) -> dict[str, Name]:
    """Return the column names of a table as checked names. Return none if a name is longer than three short words,
    because a table without a header has its first record there."""
    names = {text: Name(text) for text in columns if as_name(text) or (name_like(text) and _few_words(text))}
    return names if all(column in names for column in columns) else {}


def columns_by_model(pairs: Iterable[tuple[str, str]], columns: Sequence[str]) -> dict[Name, str] | None:
    """Return the column of each model from (model, column) pairs, or None if a model name may be item text."""
    checked = headings(columns)
    out: dict[Name, str] = {}
    for model, column in pairs:
        name = as_name(model) if checked or model != column else None
        if name is None and not (column in checked and _few_words(model)):
            return None
        out[name or Name(model)] = column
    return out


def listed(texts: Iterable[str], checked: Mapping[str, Name], most: int = _LISTED) -> str:
    """Return a list of names for a message. Texts that are not names are counted instead."""
    every = list(dict.fromkeys(texts))
    names = [checked[text] for text in every if text in checked][:most]
    n_more = len(every) - len(names)
    more = [f"{n_more} more" if names else f"{n_more} (not shown)"] if n_more else []
    return ", ".join([*names, *more]) or "none"


def _repeated(cells: Iterable[object], enough: Callable[[int, int], bool]) -> dict[str, Name]:
    values = [text for cell in cells if isinstance(cell, str | int) and (text := str(cell).strip())]
    names = dict.fromkeys(values)
    if not enough(len(names), len(values)):
        return {}
    return {text: Name(text) for text in names if _few_words(text)}


def _few_words(text: str) -> bool:
    short = 0 < len(text) <= _MOST_CHARS and len(text.split()) <= _MOST_WORDS
    return short and text.isprintable() and not text.endswith(("?", "!", ".", "？", "。", "！"))


_ABSOLUTE = re.compile(r"(?:[/~.\\]|[A-Za-z]:[\\/]|__)")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options that a user sets for a log. Other values are read from the log. `filter` selects a filter of lm-eval or a
    scorer of Inspect. `columns` maps each part of a row to its columns, or to a constant after `=`. `keyed` means that keys
    come from the file of the benchmark. `hidden` is the part of the item that the choices-only views did not show. If
    `linting`, prompts and raw replies are kept, and a row that contradicts itself is no fault. `task_items` knows the
    documents of the task that the user named."""

    view: View | None = None
    model: str | None = None
    filter: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    keyed: bool = False
    skip_bad: bool = False
    hidden: Hidden = "question"
    linting: bool = False
    task_items: "ItemsInRows | None" = None

    @property
    def name(self) -> Name | None:
        """Checked name of the model, or None. Raise `UsageError` if `model` is too long for a name."""
        return None if self.model is None else checked_model_name(self.model)

    @property
    def parts_of_picks(self) -> list[str]:
        """Mapped parts that only tables of picks have."""
        return sorted({*self.columns} - {*FieldMap.model_fields})

    @property
    def fields(self) -> FieldMap | None:
        """Field map of the item columns for the loaders, or None if no item column is mapped."""
        return FieldMap.from_options(self.columns)


@dataclass(frozen=True, slots=True, repr=False)
class LoggedItem(HoldsText):
    """Item as shown in a log, with its text and key if the log contains them. `k` is the number of choices, or 0 if
    only the item with its ID determines it. `choices` is empty if there is no text. `name` is the label of the item
    in the log, and `id` is the ID of the item itself. Either is "" if it is unknown. `topic`, `group`, and
    `question_at` are those of `Item`."""

    k: int
    stem: str = ""
    choices: tuple[str, ...] = ()
    key: int | None = None
    name: Name = NOTHING
    id: Name = NOTHING
    topic: Name = NOTHING
    group: str = ""
    question_at: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class LogReply(HoldsText):
    """Reply of one model to one item. `pick` and `scores` (log-probabilities) refer to positions as shown. If
    `by_text` is true, the text of each choice was scored, and its length `n_chars` divides its score. `unconditioned`
    are scores of the same texts without context. `reason` explains why there is no pick."""

    line: int
    model: Name
    view: View
    template: str
    item: LoggedItem
    pick: int | None = None
    scores: tuple[float, ...] = ()
    by_text: bool = False
    n_chars: tuple[int, ...] = ()
    unconditioned: tuple[float, ...] = ()
    reason: str = "no readable answer"


@dataclass(frozen=True, slots=True, repr=False)
class Log(HoldsText):
    """Replies, unreadable rows, and metadata of a log file. `facts` (versions, dtype) apply to every model. `templates`
    maps "view/name" to the sha256 of each robustify template that all prompts match. `notes` state assumptions.
    `accuracies` has, by metric of the log, the number of rows that it calls right and of all its rows. `exchanges`
    are those of each line and model, if they are kept."""

    file: str
    kind: str
    sha256: str
    task: Name
    replies: tuple[LogReply, ...]
    faults: tuple[Fault, ...] = ()
    facts: Mapping[str, Name] = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Notice, ...] = ()
    accuracies: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    exchanges: Mapping[tuple[int, Name], Exchange] = field(default_factory=dict)


ItemsOfLog = tuple[dict[int, LoggedItem], list[Fault], list[Notice]]
"""Items by line, faults of the other rows, and notes."""


class ItemsInRows(Protocol):
    """Function that returns the items of rows from their documents, or None if no item is known."""

    def __call__(self, rows: Sequence[SourceRow], names: Mapping[int, Name], /) -> ItemsOfLog | None:
        """Return the items by line, faults, and notes."""


class ShownBefore:
    """Cache of the previous log's items, because logs of several models often contain the same items."""

    def __init__(self) -> None:
        self._key: object = None
        self._task = NOTHING
        self._shown: ItemsOfLog = {}, [], []

    def items(
        self, file: str, table: SourceTable, options: LogOptions, task: Name, names: Mapping[int, Name]
    ) -> ItemsOfLog:
        """Return the items, faults, and notes of an item table. If the previous log's table is equal, reuse its items."""
        key = [(row.line, row.cells) for row in table.rows], names, options.fields, table.faults
        # The task stands only in the names of groups.
        grouped = task != self._task and any(item.group for item in self._shown[0].values())
        if key != self._key or grouped:
            self._key, self._task = key, task
            self._shown = logged_items(file, table, options, task, names)
        items, faults, notes = self._shown
        return items, [*faults], [*notes]


@dataclass(frozen=True, slots=True, repr=False)
class LogFile(HoldsText):
    """File that may be a log, with its rows and the digest of its bytes. A zipped file has no rows yet. The `path` of
    a compressed file is that of the file inside it."""

    path: Path
    sha256: str
    table: SourceTable
    opened: Path
    zipped: bool = False


@dataclass(frozen=True, slots=True)
class LogReader:
    """Reader of one log format. It `recognizes` a file by its content. `read` raises `UsageError` if an option contradicts
    the log, and `DataError` if the log is damaged."""

    kind: str
    recognizes: Callable[[LogFile], bool]
    read: Callable[[LogFile, LogOptions, ShownBefore], Log]


def logged_items(
    file: str, table: SourceTable, options: LogOptions, task: Name, names: Mapping[int, Name]
) -> ItemsOfLog:
    """Map each line of an item table to the item that its row shows. Return faults and notes, too. `names` maps lines
    to the labels of the items. Raise `DataError` if the layout is unknown, or the choices are only letters, and
    `UsageError` if no row has a mapped field."""
    if not table.rows:
        return {}, list(table.faults), []
    table_items = raw_items(file, table, options.fields)
    topics = topics_in(raw.topic for raw in table_items.raws)
    read = zip(table_items.lines, table_items.raws, table_items.keys, groups(table_items, task), strict=True)
    items = {
        line: LoggedItem(
            len(raw.choices), raw.stem, raw.choices, key, names[line], as_label(raw.id),
            topics.get(raw.topic.strip(), NOTHING), raw.group or group, raw.question_at,
        )
        for line, raw, key, group in read
    }  # fmt: skip
    notes = topic_notes((raw.topic for raw in table_items.raws), topics)
    return items, [*table.faults, *table_items.faults], notes


def topic_notes(cells: Iterable[str], topics: Mapping[str, Name]) -> list[Notice]:
    """Return a note about topics that were dropped because they do not look like names."""
    strange = {text.strip() for text in cells} - {"", *topics}
    note = (
        f"topics dropped, because they are not names or have fewer than two items on average: {len(strange)}"
    )
    return [Notice(note, code="dropped-topics")] * bool(strange)


def model_name(*candidates: str) -> Name:
    """Return the first text that can be a model name. If there is none, return a name made from the last text."""
    names = map(as_name, map(plain_model, candidates[:-1]))
    return next(filter(None, names), None) or path_name(plain_model(candidates[-1]))


def plain_model(name: str) -> str:
    """Return `owner/name` unchanged, or the last part of any other path, so that results contain no local path. The
    path may be one that lm-eval encoded as a folder name."""
    if _ABSOLUTE.match(name) or "//" in name:
        return re.split(r"[\\/]|__", name.rstrip("/\\"))[-1]
    return name.replace("__", "/")


def fingerprint(logs: Sequence[Log], model: str) -> dict[str, str]:
    """Return the properties of a model according to its logs. If logs differ, join the first few values."""
    facts: dict[str, dict[str, None]] = {}
    for log in logs:
        own = {"engine": f"replay of {log.kind}", "model": model, **log.facts}
        for fact, value in {**own, "log": f"{log.file} {log.sha256}"}.items():
            facts.setdefault(fact, {})[value] = None
    return {fact: join_few([*values]) for fact, values in facts.items()}


def join_few(values: Sequence[str]) -> str:
    """Join the first few values, and add the number of the other values."""
    more = f" and {len(values) - 3} more" if len(values) > 3 else ""
    return ", ".join(values[:3]) + more


def number_or_nan(value: object) -> float:
    """Return a number, even if it is written as text, or NaN if it cannot be read."""
    try:
        return float(value) if isinstance(value, str | int | float) and value is not True else math.nan
    except (ValueError, OverflowError):
        return math.nan


def is_number(text: str) -> bool:
    """Return whether a text is a number, including infinity and NaN."""
    try:
        float(text)
    except ValueError:
        return False
    return True
