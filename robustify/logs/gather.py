"""Logs of several models -> the items they were asked and one answer table.

What does not match is listed by line and counted; what was assumed becomes a note. Two logs of one run are refused,
and so is a log of which no row shows an item. Rows without any text of their items are joined by id; rows without an
id can only be aligned by their order within each model, and then all models must have the same keys in the same positions.
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

Row = tuple[Log, LogReply]
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
    """The answers of these logs to items without text."""
    rows = [(log, reply) for log in logs for reply in log.replies]
    if not rows:
        raise DataError.gather([f"{log.file}: no row could be read" for log in logs])
    _require_keys(rows)
    by_order = [row for row in rows if row[1].item.name.startswith("#")]
    if by_order and len(by_order) < len(rows):
        log, reply = by_order[0]
        raise DataError(
            f"{log.file}:{reply.line}: no item id, where other logs have one; expected ids in all rows or in none"
        )
    _require_as_many(by_order)
    first = _agreed(rows)
    names = {name: f"item-{name[1:]:0>4}" if name.startswith("#") else name for name in first}
    refuse_repeats((log, reply, reply.item.name, own(reply.item.k)) for log, reply in rows)
    position = {name: at for at, name in enumerate(first)}
    answers = table_in_order(
        (position[item.name], own(item.k), bare_row(reply, names[item.name], item.key, own(item.k)))
        for _, reply in rows
        if (item := reply.item).key is not None
    )
    return Gathered(
        items=None,
        topics={names[name]: item.topic for name, (_, item) in first.items()},
        groups={},
        answers=answers,
        set_aside=tuple(unread(logs)),
        notes=(*_textless_notes(by_order, len(first)), *unanswered_notes(answers)),
    )


def _require_keys(rows: Sequence[Row]) -> None:
    missing = [f"{log.file}:{reply.line}" for log, reply in rows if reply.item.key is None]
    if missing:
        raise DataError(
            f"{missing[0]}: no key ({len(missing)} such rows); expected a key in every row (--map key=NAME) or the "
            "items with their keys (--data ITEMS)"
        )


def _require_as_many(rows: Sequence[Row]) -> None:
    counts = Counter((reply.view, reply.model) for _, reply in rows)
    for view in dict.fromkeys(v for v, _ in counts):
        by_model = {model: n for (v, model), n in counts.items() if v == view}
        if len(set(by_model.values())) > 1:
            listed = ", ".join(f"{model} {n}" for model, n in by_model.items())
            raise DataError(
                f"{rows[0][0].file}: models have different numbers of rows in the view {view} ({listed}), so that "
                "rows cannot be aligned by their order; expected an item id in each row (--map id=NAME)"
            )


def _agreed(rows: Sequence[Row]) -> dict[str, tuple[str, LoggedItem]]:
    """By name the file and line of an item's first row, and the item; every other row must agree with it."""
    first: dict[str, tuple[str, LoggedItem]] = {}
    faults = []
    for log, reply in rows:
        item, here = reply.item, f"{log.file}:{reply.line}"
        there, other = first.setdefault(item.name, (here, item))
        if (item.k, item.key, item.topic) != (other.k, other.key, other.topic):
            faults.append(
                f"{here}: another key, topic or number of choices than {there}, which is the same item"
            )
    if faults:
        raise DataError.gather(
            [*faults, "expected one key an item: rows without text are aligned by id, else by their order"]
        )
    return first


def _textless_notes(by_order: Sequence[Row], n: int) -> Iterator[str]:
    yield f"no text of the {n} items is known: what needs it (heuristics, probe, cloze, split files) is absent"
    if by_order:
        models = len({reply.model for _, reply in by_order})
        yield (
            f"rows have no item id: they were aligned by their order within each of {models} models, whose keys "
            "agree in every position"
        )
