"""Merging of the logs of several models into items and one answer table.

Unmatched rows are listed by line and counted, and assumptions become notes. Two logs of the same run are refused, as is a
log in which no row matches an item. Rows without any item text are joined by ID.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from robustify.answers import Answers
from robustify.errors import DataError, ItemError
from robustify.item import Item
from robustify.loaders import Defect, Loaded, Quarantined
from robustify.loaders.survey import find_defects, odd_options
from robustify.logs.log import Log, LoggedItem, LogReply
from robustify.logs.match import (
    UNCONDITIONED,
    Catalogue,
    MatchedItem,
    OtherItemError,
    answer_rows,
    bare_row,
    of_item,
    refuse_repeats,
    table_in_order,
)
from robustify.logs.prompts import BLIND
from robustify.orders import own
from robustify.texts import unspaced

MatchedRow = tuple[Log, LogReply, MatchedItem]
_NAMELESS = "the row has neither an item ID nor text; expected one of them (--map id=NAME or --map stem=NAME)"
_KEYLESS = (
    "the row has no key. Map a column (--map key=NAME), or pass the items with their keys (--data ITEMS)."
)


@dataclass(slots=True)
class MatchCounts:
    """Counts of matched rows by matching method, of rows per log whose key differs, and of matched rows per log, with the
    unmatched rows and those that contradict the item with their ID."""

    by: Counter[str] = field(default_factory=Counter)
    other_key: Counter[str] = field(default_factory=Counter)
    matched: Counter[str] = field(default_factory=Counter)
    set_aside: list[Quarantined] = field(default_factory=list)
    contradicting: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, repr=False)
class Gathered:
    """Items shown in at least one log (None if no text is known), their topics and groups by ID, and all answers.
    `set_aside` lists rows that are unreadable or match no item. `left_out` counts items of the data that are in no log."""

    items: tuple[Item, ...] | None
    topics: Mapping[str, str]
    groups: Mapping[str, str]
    answers: Answers
    defects: tuple[Defect, ...] = ()
    set_aside: tuple[Quarantined, ...] = ()
    left_out: int = 0
    notes: tuple[str, ...] = ()


def gather(logs: Sequence[Log], bench: Loaded | None, *, skip_bad: bool = False) -> Gathered:
    """Combine logs into items and answers. `bench` defines the items. If it is None, the text in the logs defines them.

    Raise `DataError` if a log matches no item, two logs are from the same run, rows without text do not align, or rows
    contradict the item with their ID. With `skip_bad`, the latter are set aside.
    """
    if bench is None and not any(reply.item.choices for log in logs for reply in log.replies):
        return _gather_textless(logs)
    catalogue = Catalogue(bench.items if bench else (), grows=bench is None)
    counts = MatchCounts()
    rows = [row for log in logs for row in _matched(log, catalogue, counts)]
    if counts.contradicting and not skip_bad:
        raise DataError.gather(counts.contradicting)
    _require_matches(logs, counts, bench)
    refuse_repeats((log, reply, catalogue.items[match.at].id, match.order) for log, reply, match in rows)
    items = tuple(catalogue.items[at] for at in sorted({match.at for _, _, match in rows}))
    answers = table_in_order(
        (match.at, match.order, row)
        for _, reply, match in rows
        for row in answer_rows(reply, catalogue.items[match.at], match.order)
    )
    return Gathered(
        items=items,
        topics={item.id: item.topic for item in items},
        groups={item.id: item.group for item in items if item.group},
        answers=answers,
        defects=_defects(items, bench, rows, catalogue),
        set_aside=(*_unread(logs), *counts.set_aside),
        left_out=len(catalogue.items) - len(items),
        notes=(*_notes(rows, counts, catalogue, answers), *odd_options(items)),
    )


def _matched(log: Log, catalogue: Catalogue, counts: MatchCounts) -> Iterator[MatchedRow]:
    for reply in log.replies:
        asking = (log.file, reply.model, reply.view, reply.template)
        try:
            match = catalogue.find(reply.item, asking, log.task, blind=reply.view in BLIND)
            whole = of_item(reply, catalogue.items[match.at])
        except ItemError as error:
            counts.set_aside.append(Quarantined(reply.line, str(error), log.file))
            if isinstance(error, OtherItemError):
                counts.contradicting.append(f"{log.file}:{reply.line}: {error}")
            continue
        counts.by[match.by] += 1
        counts.matched[log.file] += 1
        logged, item = reply.item, catalogue.items[match.at]
        if logged.key is not None and logged.choices:
            said, right = logged.choices[logged.key], item.choices[item.key]
            counts.other_key[log.file] += said != right and unspaced(said) != unspaced(right)
        yield log, whole, match


def _require_matches(logs: Sequence[Log], counts: MatchCounts, bench: Loaded | None) -> None:
    """Refuse logs without a matching row, because they belong to another data set or contain no items."""
    faults = []
    for log in logs:
        if not counts.matched[log.file]:
            why = next((q.reason for q in counts.set_aside if q.file == log.file), "no row could be read")
            whose = f" of {bench.name}" if bench else ""
            faults.append(f"{log.file}: none of the {len(log.replies)} rows matches an item{whose} ({why})")
    if faults:
        raise DataError.gather(faults)


def _defects(
    items: Sequence[Item], bench: Loaded | None, rows: Sequence[MatchedRow], catalogue: Catalogue
) -> tuple[Defect, ...]:
    if bench is not None:
        here = {item.id for item in items}
        return tuple(defect for defect in bench.defects if defect.item in here)
    first: dict[str, tuple[int, str]] = {}
    for log, reply, match in rows:
        first.setdefault(catalogue.items[match.at].id, (reply.line, log.file))
    return find_defects(items, *zip(*(first[item.id] for item in items), strict=True))


def _notes(
    rows: Sequence[MatchedRow], counts: MatchCounts, catalogue: Catalogue, answers: Answers
) -> Iterator[str]:
    left_out = len(catalogue.items) - len({match.at for _, _, match in rows})
    earlier, data = "an earlier log (the first key was used)", "the data (the key of the data was used)"
    whose = earlier if catalogue.grows else data
    for kind, n in counts.by.items():
        if kind != "content":
            yield f"rows matched by {kind}, because their content alone does not identify the item: {n}"
    for file, n in counts.other_key.items():
        if n:
            yield f"{file}: rows whose key differs from {whose}: {n}"
    if left_out:
        yield f"items of the data that are in no log and were left out of this run: {left_out}"
    if counts.set_aside:
        yield f"rows that match no item of this run, listed by line in quarantine.jsonl: {len(counts.set_aside)}"
    for file in sorted({log.file for log, reply, _ in rows if reply.unconditioned and reply.view == "cloze"}):
        yield f"{file}: scores without context were used as choices_only_text ({UNCONDITIONED})"
    yield from _equal_score_notes((log, reply) for log, reply, _ in rows)
    yield from _coverage(rows)
    yield from _unanswered_notes(answers)


def _coverage(rows: Sequence[MatchedRow]) -> Iterator[str]:
    """Yield notes about models that were asked fewer items than others under a view, or with several templates."""
    asked: dict[tuple[str, str], set[int]] = {}
    templates: dict[tuple[str, str], dict[str, None]] = {}
    every: dict[str, set[int]] = {}
    for _, reply, match in rows:
        asked.setdefault((reply.view, reply.model), set()).add(match.at)
        templates.setdefault((reply.view, reply.model), {})[reply.template] = None
        every.setdefault(reply.view, set()).add(match.at)
    for (view, model), items in asked.items():
        if missing := len(every[view]) - len(items):
            yield f"{model}, view {view}: items without a row: {missing} of {len(every[view])}"
    for (view, model), names in templates.items():
        if len(names) > 1:
            yield f"{model}, view {view}: asked with the templates {', '.join(names)}; rates are for the first one"


def _gather_textless(logs: Sequence[Log]) -> Gathered:
    """Combine logs whose items are known only by ID and key."""
    rows = [(log, reply) for log in logs for reply in log.replies]
    first: dict[str, tuple[str, LoggedItem]] = {}
    faults = [] if rows else [f"{log.file}: no row is readable" for log in logs]
    for log, reply in rows:
        item, here = reply.item, f"{log.file}:{reply.line}"
        there, other = first.setdefault(item.name, (here, item))
        if not item.name:
            faults.append(f"{here}: {_NAMELESS}")
        elif item.key is None:
            faults.append(f"{here}: {_KEYLESS}")
        elif (item.k, item.key, item.topic) != (other.k, other.key, other.topic):
            differs = "the key, topic, or number of choices differs from"
            faults.append(f"{here}: {differs} {there}, which is the same item")
    if faults:
        raise DataError.gather(faults)
    refuse_repeats((log, reply, reply.item.name, own(reply.item.k)) for log, reply in rows)
    position = {name: at for at, name in enumerate(first)}
    asked = ((reply, reply.item, own(reply.item.k)) for _, reply in rows)
    answers = table_in_order(
        (position[it.name], order, bare_row(reply, it.name, it.key or 0, order)) for reply, it, order in asked
    )
    absent = f"the texts of the {len(first)} items are unknown, so heuristics, probe, cloze, and split files are absent"
    return Gathered(
        items=None,
        topics={name: item.topic for name, (_, item) in first.items()},
        groups={},
        answers=answers,
        set_aside=tuple(_unread(logs)),
        notes=(absent, *_equal_score_notes(rows), *_unanswered_notes(answers)),
    )


def _unread(logs: Sequence[Log]) -> list[Quarantined]:
    """Return the unreadable rows of all logs, which the user has asked to set aside."""
    return [Quarantined(fault.line, fault.reason, log.file) for log in logs for fault in log.faults]


def _unanswered_notes(answers: Answers) -> Iterator[str]:
    """Yield a note for each model with unreadable replies."""
    if not answers.table["pick"].null_count:
        return
    columns = (answers.table[name].to_pylist() for name in ("model", "view", "pick"))
    missing = Counter((model, view) for model, view, pick in zip(*columns, strict=True) if pick is None)
    for (model, view), n in missing.items():
        yield f"{model}, view {view}: rows without a readable answer: {n}"


def _equal_score_notes(rows: Iterable[tuple[Log, LogReply]]) -> Iterator[str]:
    """Yield a note for each log with rows in which all choices have the same score."""
    equal: dict[str, list[bool]] = {}
    for log, reply in rows:
        equal.setdefault(log.file, []).append(len(reply.scores) > 1 and len(set(reply.scores)) == 1)
    for file, tied in equal.items():
        if any(tied):
            yield f"{file}: rows in which all choices have the same score, so that they tie: {sum(tied)} of {len(tied)}"
