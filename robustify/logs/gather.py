"""Logs of several models -> the items they were asked and one answer table.

What does not match is listed by line and counted; what was assumed becomes a note. Two logs of one run are refused,
and so is a log of which no row shows an item. Rows without any text of their items are joined by id.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from robustify.answers import Answers
from robustify.errors import DataError, ItemError
from robustify.item import Item, unspaced
from robustify.loaders import Defect, Loaded, Quarantined
from robustify.loaders.survey import find_defects
from robustify.logs.log import Log, LoggedItem, LogReply
from robustify.logs.match import (
    UNCONDITIONED,
    Catalogue,
    Gathered,
    MatchedItem,
    OtherItemError,
    answer_rows,
    bare_row,
    of_item,
    refuse_repeats,
    table_in_order,
    unanswered_notes,
    unread,
)
from robustify.logs.prompts import BLIND
from robustify.orders import own

MatchedRow = tuple[Log, LogReply, MatchedItem]


@dataclass(slots=True)
class MatchCounts:
    """Counts of the matching: by what rows were matched, how many items of a log have another key in the data,
    how many rows of a file were matched, and those that were not; by line those that contradict the item of their id.
    """

    by: Counter[str] = field(default_factory=Counter)
    other_key: Counter[str] = field(default_factory=Counter)
    matched: Counter[str] = field(default_factory=Counter)
    set_aside: list[Quarantined] = field(default_factory=list)
    contradicting: list[str] = field(default_factory=list)


def gather(logs: Sequence[Log], bench: Loaded | None, *, skip_bad: bool = False) -> Gathered:
    """The items and answers of these logs; `bench` says what the items are, else the logs' own text does.

    `skip_bad`: rows that contradict the item of their id are set aside, as rows of no item are.
    Raises `DataError`: a log that shows no item, rows that contradict the item of their id, two logs of
    one run, or rows without text that do not align."""
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
        set_aside=(*unread(logs), *counts.set_aside),
        left_out=len(catalogue.items) - len(items),
        notes=tuple(_notes(rows, counts, len(catalogue.items) - len(items), answers)),
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
    """Refuse a log of which no row shows an item: it is of another data set, or no log of items at all."""
    faults = []
    for log in logs:
        if not counts.matched[log.file]:
            why = next((q.reason for q in counts.set_aside if q.file == log.file), "no row could be read")
            whose = f" of {bench.name}" if bench else ""
            faults.append(f"{log.file}: none of its {len(log.replies)} rows shows an item{whose} ({why})")
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


def _notes(rows: Sequence[MatchedRow], counts: MatchCounts, left_out: int, answers: Answers) -> Iterator[str]:
    for kind, n in counts.by.items():
        if kind != "content":
            yield f"rows matched by their item's {kind}, as their content alone does not tell it: {n}"
    for file, n in counts.other_key.items():
        if n:
            yield f"{file}: rows with another key than the data's, which was taken: {n}"
    if left_out:
        yield f"items of the data that no log shows, left out of this run: {left_out}"
    if counts.set_aside:
        yield f"rows that show no item of this run, named by line in quarantine.jsonl: {len(counts.set_aside)}"
    for file in sorted({log.file for log, reply, _ in rows if reply.unconditioned and reply.view == "cloze"}):
        yield f"{file}: its scores without context were taken as choices_only_text ({UNCONDITIONED})"
    yield from _coverage(rows)
    yield from unanswered_notes(answers)


def _coverage(rows: Sequence[MatchedRow]) -> Iterator[str]:
    """Models that were not asked everything that others were asked under the same view, or in several wordings."""
    asked: dict[tuple[str, str], set[int]] = {}
    templates: dict[tuple[str, str], dict[str, None]] = {}
    every: dict[str, set[int]] = {}
    for _, reply, match in rows:
        asked.setdefault((reply.view, reply.model), set()).add(match.at)
        templates.setdefault((reply.view, reply.model), {})[reply.template] = None
        every.setdefault(reply.view, set()).add(match.at)
    for (view, model), items in asked.items():
        if missing := len(every[view]) - len(items):
            yield f"{model}, view {view}: items without a row {missing} of {len(every[view])}"
    for (view, model), names in templates.items():
        if len(names) > 1:
            yield f"{model}, view {view}: asked under {', '.join(names)}; its rates are those of the first"


def _gather_textless(logs: Sequence[Log]) -> Gathered:
    """Return the answers of these logs to items of which only an id and a key are known."""
    rows = [(log, reply) for log in logs for reply in log.replies]
    first: dict[str, tuple[str, LoggedItem]] = {}
    faults = [] if rows else [f"{log.file}: no row could be read" for log in logs]
    for log, reply in rows:
        item, here = reply.item, f"{log.file}:{reply.line}"
        there, other = first.setdefault(item.name, (here, item))
        if not item.name:
            faults.append(
                f"{here}: no item id and no text; expected one of both (--map id=NAME, --map stem=NAME)"
            )
        elif item.key is None:
            faults.append(
                f"{here}: no key; expected one (--map key=NAME), or the items with their keys (--data ITEMS)"
            )
        elif (item.k, item.key, item.topic) != (other.k, other.key, other.topic):
            faults.append(
                f"{here}: another key, topic or number of choices than {there}, which is the same item"
            )
    if faults:
        raise DataError.gather(faults)
    refuse_repeats((log, reply, reply.item.name, own(reply.item.k)) for log, reply in rows)
    position = {name: at for at, name in enumerate(first)}
    answers = table_in_order(
        (position[it.name], own(it.k), bare_row(reply, it.name, it.key or 0, own(it.k)))
        for _, reply in rows
        for it in [reply.item]
    )
    absent = f"no text of the {len(first)} items is known: what needs it (heuristics, probe, cloze, split files) is absent"
    return Gathered(
        items=None,
        topics={name: item.topic for name, (_, item) in first.items()},
        groups={},
        answers=answers,
        set_aside=tuple(unread(logs)),
        notes=(absent, *unanswered_notes(answers)),
    )
