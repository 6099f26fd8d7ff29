"""Logs as data structures, which readers create and matching converts to items and answers.

Positions refer to the choices as shown in the log, not to those of an item. Matching converts them. The repr of these
classes shows no text.

A log may score its own rows, in many forms: 1.0 and 0.0, true and false, "C" and "I", or words. If these scores contradict
picks and keys, a key was misread, or scores were assigned to the wrong choices.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from robustify.base.arrays import tied_best
from robustify.base.redaction import HoldsText
from robustify.items.views import Hidden, View
from robustify.reading.loaders.layouts import groups, raw_items
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.loaders.rows import Fault, SourceTable
from robustify.reading.logs.checked_names import NOTHING, Name, as_label, said_name, topics_in

_ABSOLUTE = re.compile(r"(?:[/~.\\]|[A-Za-z]:[\\/]|__)")
_LISTED = 3
_RIGHT = frozenset({"1", "1.0", "true", "c", "correct", "right", "yes", "pass"})
_WRONG = frozenset({"0", "0.0", "false", "i", "incorrect", "wrong", "no", "fail"})
_OF_RIGHTNESS = re.compile(
    r"(?:.*_)?(?:acc(?:uracy)?|em|match|correct|right|score|f1|pass)(?:[_@,:].*)?", re.I
)
_NORMED_OTHERWISE = re.compile(r"token|pmi|greedy|prob", re.I)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options that a user sets for a log. Values that are not set are read from the log, and assumptions become notes.

    `filter` selects a filter of lm-eval or a scorer of Inspect. `columns` maps each part of a row to its columns, or to a
    constant after `=`. `keyed` means that keys come from the file of the benchmark. `skip_bad` sets unreadable rows aside.
    `hidden` is the part of the item that the choices-only views did not show.
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
        """Checked name of the model, or None. Raise `UsageError` if `model` is too long for a name."""
        return None if self.model is None else said_name(self.model)

    @property
    def fields(self) -> FieldMap | None:
        """Field map of the item columns for the loaders, or None if no item column is mapped."""
        return FieldMap.of(self.columns)


@dataclass(frozen=True, slots=True, repr=False)
class LoggedItem(HoldsText):
    """Item as shown in a log, with its text and key if the log contains them. `k` is the number of choices, or 0 if only
    the item with its ID determines it. `choices` is empty if there is no text. `name` is the label of the item in the log,
    and `id` is the ID of the item itself. Either is "" if it is unknown. `topic` and `group` are those of `Item`."""

    k: int
    stem: str = ""
    choices: tuple[str, ...] = ()
    key: int | None = None
    name: Name = NOTHING
    id: Name = NOTHING
    topic: Name = NOTHING
    group: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class LogReply(HoldsText):
    """Reply of one model to one item.
    `pick` and `scores` refer to positions as shown, and `scores` are log-probabilities.

    If `by_text` is true, the text of each choice was scored, and scores are normalized by its length `n_chars`. Otherwise,
    scores are compared without normalization. `unconditioned` contains log-probabilities of the same texts without context.
    `reason` explains why there is no pick.
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
class Log(HoldsText):
    """Contents of a log file: replies, unreadable rows, and metadata.
    `facts` (name of the task, versions, dtype) apply to every model in the log. `templates` maps "view/name" to the sha256
    of each robustify template that all prompts match. `notes` state assumptions, without the name of the file."""

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
"""Items by line, faults of the other rows, and notes."""


class ShownBefore:
    """Cache of the items of the last log, because logs of several models often contain the same items."""

    def __init__(self) -> None:
        self._key: object = None
        self._task = NOTHING
        self._shown: Shown = {}, [], []

    def items(
        self, file: str, table: SourceTable, options: LogOptions, task: Name, names: Mapping[int, Name]
    ) -> Shown:
        """Return the items, faults, and notes of an item table, reusing those of the last log if the tables are equal."""
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
    """File that may be a log, with its rows and the digest of its bytes. A zipped file has no rows yet."""

    path: Path
    sha256: str
    table: SourceTable
    zipped: bool = False


class LogReader(Protocol):
    """Reader of one log format: a module, or an object, with its name and these two functions."""

    @property
    def KIND(self) -> str:
        """Name of the format."""

    def recognizes(self, file: LogFile, /) -> bool:
        """Return whether the file has this format, judging by its content."""

    def read(self, file: LogFile, options: LogOptions, before: ShownBefore, /) -> Log:
        """Read the replies. Raise `UsageError` if an option contradicts the log, and `DataError` if it is damaged."""


def logged_items(
    file: str, table: SourceTable, options: LogOptions, task: Name, names: Mapping[int, Name]
) -> Shown:
    """Return the item shown in each row of an item table, by line, with faults and notes. The table is read like the file
    of a benchmark. `names` maps lines to the labels of the items in the log. Raise `DataError` if the layout is not
    recognized, or the choices are only letters. Raise `UsageError` if no row has a mapped field."""
    if not table.rows:
        return {}, list(table.faults), []
    found = raw_items(file, table, options.fields)
    topics = topics_in(raw.topic for raw in found.raws)
    read = zip(found.rows, found.raws, found.keys, groups(found.raws, task), strict=True)
    items = {
        row.line: LoggedItem(
            len(raw.choices), raw.stem, raw.choices, key, names[row.line], as_label(raw.id),
            topics.get(raw.topic.strip(), NOTHING), raw.group or group,
        )
        for row, raw, key, group in read
    }  # fmt: skip
    notes = topic_notes((raw.topic for raw in found.raws), topics)
    return items, [*table.faults, *found.faults], notes


def topic_notes(said: Iterable[str], topics: Mapping[str, Name]) -> list[str]:
    """Return a note about topics that were dropped because they do not look like names."""
    strange = {text.strip() for text in said} - {"", *topics}
    why = "they are not names or have fewer than two items on average"
    return [f"topics dropped, because {why}: {len(strange)}"] * bool(strange)


def plain_model(name: str) -> str:
    """Return `owner/name` unchanged, or the last part of a path, including a path that lm-eval encoded as a folder name.
    This keeps the location of a model on someone's machine out of the results."""
    if _ABSOLUTE.match(name) or "//" in name:
        return re.split(r"[\\/]|__", name.rstrip("/\\"))[-1]
    return name.replace("__", "/")


def fingerprint(logs: Sequence[Log], model: str) -> dict[str, str]:
    """Return the properties of a model according to its logs, joining the first few values if logs differ. The digest of a
    log identifies answers and no model, so it is not stored as a separate digest."""
    facts: dict[str, dict[str, None]] = {}
    for log in logs:
        own = {"engine": f"replay of {log.kind}", "model": model, **log.facts}
        for fact, value in {**own, "log": f"{log.file} {log.sha256}"}.items():
            facts.setdefault(fact, {})[value] = None
    return {fact: together([*values]) for fact, values in facts.items()}


def together(values: Sequence[str]) -> str:
    """Join the first few values, and add the number of remaining values."""
    more = f" and {len(values) - _LISTED} more" if len(values) > _LISTED else ""
    return ", ".join(values[:_LISTED]) + more


def number_or_nan(value: object) -> float:
    """Return a number, also one written as text, or NaN if it is unreadable."""
    try:
        return float(value) if isinstance(value, str | int | float) and value is not True else math.nan
    except (ValueError, OverflowError):
        return math.nan


def scored_right(value: object) -> bool | None:
    """Return whether a score says that an answer is right or wrong, or None if it says neither."""
    match value:
        case [one]:
            return scored_right(one)
        case Mapping():
            return scored_right([*value.values()]) if len(value) == 1 else None
        case str() | bool() | int() | float():
            word = str(value).strip().casefold()
            return True if word in _RIGHT else False if word in _WRONG else None
        case _:
            return None


def scores_of_row(cells: Mapping[str, object]) -> dict[str, bool]:
    """Return the scores in the cells of a row that say whether its answer is right, by name."""
    said = {name: scored_right(value) for name, value in cells.items() if _OF_RIGHTNESS.fullmatch(name)}
    return {n: right for n, right in said.items() if right is not None and not _NORMED_OTHERWISE.search(n)}


def score_contradicts(right: bool | None, key: int | None, rankings: Iterable[tuple[float, ...]]) -> bool:
    """Return whether a score contradicts the key under every one of at least one ranking. Ties contradict nothing."""
    bests = [tied_best(ranked) for ranked in rankings if ranked]
    if right is None or key is None or not bests:
        return False
    return all(len(best) == 1 and (best[0] == key) != right for best in bests)


def pick_contradicts(right: bool | None, item: LoggedItem, pick: int | None, *, plain: bool) -> bool:
    """Return whether a score contradicts a pick and the key. A harness compares texts, so it may not have seen that a
    reply, such as "(C).", is right unless the reply is `plain`."""
    if right is None or pick is None or item.key is None:
        return False
    return (pick == item.key) != right and (right or plain)
