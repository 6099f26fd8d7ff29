"""What passes between the readers of logs and the matching: one reply a row, in the log's own terms.

Positions here are positions as the log shows the choices, not yet those of an item; matching turns them. Reprs show
no text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from robustify.loaders.layouts import groups, raw_items
from robustify.loaders.loaded import FieldMap
from robustify.loaders.rows import Fault, RawItem, SourceRow, SourceTable, rows_or_faults
from robustify.logs.checked_names import NOTHING, Name, as_label, said_name, topics_in
from robustify.redaction import KeptHere
from robustify.views import Hidden, View

_ABSOLUTE = re.compile(r"(?:[/~.\\]|[A-Za-z]:[\\/]|__)")
_LISTED = 3


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What a user says about a log. What is left out is read from the log, and what was assumed becomes a note.

    `view`: how the items were asked. `model`: whose replies these are. `filter`: which of lm-eval's filters or
    of Inspect's scorers. `columns`: for each part of a row the column (or columns) that holds it, with `=`
    before a value that is the same in every row. `keyed`: keys come from the benchmark's own file.
    `skip_bad`: set unreadable rows aside. `hidden`: what the choices-only views did not show.
    """

    view: View | None = None
    model: str | None = None
    filter: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    keyed: bool = False
    skip_bad: bool = False
    hidden: Hidden = "question"

    @property
    def name(self) -> Name | None:
        """`model` as a name. Raises `UsageError` where it is none."""
        return None if self.model is None else said_name(self.model)

    @property
    def fields(self) -> FieldMap | None:
        """The same columns as the loaders take them, where any of them is part of an item."""
        return FieldMap.of(self.columns)


@dataclass(frozen=True, slots=True, repr=False)
class LoggedItem(KeptHere):
    """An item as a log shows it: its text, where the log has any, and its key, where the log says so.

    `k` choices, 0 where the item of its id says how many; `choices` are empty where there is no text. `name` is what
    the log calls the item, `id` the item's own id, "" for none. `topic` and `group` as in `Item`.
    """

    k: int
    stem: str = ""
    choices: tuple[str, ...] = ()
    key: int | None = None
    name: Name = NOTHING
    id: Name = NOTHING
    topic: Name = NOTHING
    group: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class LogReply(KeptHere):
    """One answer of one model. `pick` and `scores` are by position as shown; `scores` are log-probabilities.

    `by_text`: what was scored is the text of each choice, of `n_chars` characters, and length counts; else the
    scores are compared as they are. `unconditioned`: log-probabilities of the same texts without any context.
    `reason` says why there is no pick.
    """

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
class Log(KeptHere):
    """One file: its replies, the rows that could not be read, and what it says of its own making.

    `facts` (a task's name, versions, dtype) describe every model of the log. `templates`: sha256 by
    "view/name" of the templates of ours that all its prompts are. `notes` say what was assumed, without
    the file's name.
    """

    file: str
    kind: str
    sha256: str
    task: Name
    replies: tuple[LogReply, ...]
    faults: tuple[Fault, ...] = ()
    facts: Mapping[str, Name] = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


Shown = tuple[dict[int, LoggedItem], list[Fault], list[str]]
"""By line the item that a row shows; the faults of the other rows; notes."""


class ShownBefore:
    """The items of the log that was read last, because the logs of several models often show the same ones."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._task: Name | None = None
        self._shown: Shown = {}, [], []

    def items(
        self, file: str, table: SourceTable, options: LogOptions, task: Name, names: Mapping[int, Name]
    ) -> Shown:
        """Return what `logged_items` returns."""
        key = [(row.line, row.cells) for row in table.rows], names, options.fields, table.faults
        # The task names the groups of items that share a passage.
        renamed = task != self._task and any(item.group for item in self._shown[0].values())
        if key != self._key or renamed:
            self._key, self._task, self._shown = key, task, logged_items(file, table, options, task, names)
        items, faults, notes = self._shown
        return items, [*faults], [*notes]


def logged_items(
    file: str, table: SourceTable, options: LogOptions, task: Name, names: Mapping[int, Name]
) -> Shown:
    """Return by line the item that each row of an item table shows, read as a benchmark's file.

    `names`: by line what the log calls the item.

    Raises:
        DataError: no layout is recognised, or the choices are letters only.
        UsageError: a mapped field that no row has.
    """
    if not table.rows:
        return {}, list(table.faults), []
    raw = raw_items(file, table, options.fields)
    topics = topics_in(it.topic for it in raw.raws)

    def item(row: SourceRow, read: tuple[RawItem, int, str]) -> LoggedItem:
        it, key, group = read
        name = names[row.line]
        group = it.group or group
        topic = topics.get(it.topic.strip(), NOTHING)
        return LoggedItem(len(it.choices), it.stem, it.choices, key, name, as_label(it.id), topic, group)

    read = zip(raw.raws, raw.keys, groups(raw.raws, task), strict=True)
    made, faults = rows_or_faults(zip(raw.rows, read, strict=True), item)
    notes = topic_notes((it.topic for it in raw.raws), topics)
    return {row.line: item for row, item in made}, [*table.faults, *raw.faults, *faults], notes


def topic_notes(said: Iterable[str], topics: Mapping[str, Name]) -> list[str]:
    """A note where topics are no names, and were left out."""
    strange = {text.strip() for text in said} - {"", *topics}
    return [f"topics that are no names, or hardly two items each, left out: {len(strange)}"] * bool(strange)


def plain_model(name: str) -> str:
    """`owner/name` as it is; of a path, or of a path as lm-eval makes it a folder's name, the last part.

    A model's folder on somebody's machine is not handed on.
    """
    if _ABSOLUTE.match(name) or "//" in name:
        return re.split(r"[\\/]|__", name.rstrip("/\\"))[-1]
    return name.replace("__", "/")


def fingerprint(logs: Sequence[Log], model: str) -> dict[str, str]:
    """The facts of a model's logs; where they differ, the first few of each. `model`: its name in the logs.

    A log's digest says which answers these are, not which model gave them, so it is not written as a digest of its
    own: models are distinguished by the name that the log gives and by their revision.
    """
    facts: dict[str, list[str]] = {}
    for log in logs:
        own: dict[str, str] = {"engine": f"replay of {log.kind}", "model": model, **log.facts}
        for key, value in {**own, "log": f"{log.file} {log.sha256}"}.items():
            facts.setdefault(key, []).append(value)
    return {key: together(list(dict.fromkeys(values))) for key, values in facts.items()}


def together(values: Sequence[str]) -> str:
    """The first values, and how many there are besides."""
    more = f" and {len(values) - _LISTED} more" if len(values) > _LISTED else ""
    return ", ".join(values[:_LISTED]) + more
