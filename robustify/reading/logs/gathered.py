"""Merging of the logs of several models into items and one answer table. Rows without any item text are joined by ID."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from robustify.base.errors import DataError, ItemError, Notice
from robustify.base.texts import unspaced
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.items.orders import Order, own
from robustify.reading.loaders import Defect, Loaded, Quarantined
from robustify.reading.logs.log import Log, LoggedItem, LogReply
from robustify.reading.logs.match import (
    UNCONDITIONED,
    Catalogue,
    MatchedItem,
    OtherItemError,
    answer_rows,
    bare_row,
    fit_to_item,
    table_in_order,
)
from robustify.reading.logs.prompts import BLIND
from robustify.reading.survey import find_defects, odd_options

MatchedRow = tuple[Log, LogReply, MatchedItem]
_NAMELESS = Notice(
    "the row has neither an item ID nor text; expected one of them (--map id=NAME or --map stem=NAME)",
    code="no-item-id",
)
_KEYLESS = Notice(
    "the row has no key. Map a column (--map key=NAME), or pass the items with their keys (--data ITEMS).",
    code="no-key",
)


@dataclass(frozen=True, slots=True, repr=False)
class Gathered:
    """Items shown in at least one log (None if no text is known), topics and groups by item ID, and all answers.
    `set_aside` lists rows that are unreadable or match no item. `left_out` counts items of the data that are in no log."""

    items: tuple[Item, ...] | None
    topics: Mapping[str, str]
    groups: Mapping[str, str]
    answers: Answers
    defects: tuple[Defect, ...] = ()
    set_aside: tuple[Quarantined, ...] = ()
    left_out: int = 0
    notes: tuple[Notice, ...] = ()


def gather(logs: Sequence[Log], bench: Loaded | None, *, skip_bad: bool = False) -> Gathered:
    """Combine logs into items and answers. The items are those of `bench`, or if it is None, those in the logs. Raise
    `DataError` if a log matches no item, two logs are from the same run, rows without text do not align, or rows
    contradict the item with their ID, which `skip_bad` sets aside."""
    unread = [Quarantined(fault.line, fault.reason, log.file) for log in logs for fault in log.faults]
    if bench is None and not any(reply.item.choices for log in logs for reply in log.replies):
        return _gather_textless(logs, unread)
    catalogue = Catalogue(bench.items if bench else (), grows=bench is None)
    rows: list[MatchedRow] = []
    set_aside: list[Quarantined] = []
    contradicting: list[Notice] = []
    for log, reply in _replies(logs):
        asking = (log.file, reply.model, reply.view, reply.template)
        try:
            match = catalogue.find(reply.item, asking, log.task, blind=reply.view in BLIND)
            rows.append((log, fit_to_item(reply, catalogue.items[match.index]), match))
        except ItemError as error:
            set_aside.append(Quarantined(reply.line, error.reason, log.file))
            if isinstance(error, OtherItemError):
                contradicting.append(Notice(f"{log.file}:{reply.line}: {error}", code=error.code))
    if contradicting and not skip_bad:
        raise DataError.gather(contradicting)
    _require_matches(logs, rows, set_aside, bench)
    _refuse_repeats(rows)
    items = tuple(catalogue.items[index] for index in sorted({match.index for _, _, match in rows}))
    answers = table_in_order(
        (match.index, match.order, row)
        for _, reply, match in rows
        for row in answer_rows(reply, catalogue.items[match.index], match.order)
    )
    repeats = _rotation_notes(*_repeated(items))
    notes = [*repeats, *_match_notes(rows, catalogue, set_aside), *_reply_notes(rows, answers)]
    return Gathered(
        items=items,
        topics={item.id: item.topic for item in items},
        groups={item.id: item.group for item in items if item.group},
        answers=answers,
        defects=_defects(items, bench, rows, catalogue),
        set_aside=(*unread, *set_aside),
        left_out=len(catalogue.items) - len(items),
        notes=(*notes, *odd_options(items)),
    )


def _replies(logs: Sequence[Log]) -> Iterator[tuple[Log, LogReply]]:
    return ((log, reply) for log in logs for reply in log.replies)


def _require_matches(
    logs: Sequence[Log], rows: Sequence[MatchedRow], set_aside: Sequence[Quarantined], bench: Loaded | None
) -> None:
    """Refuse logs without a matching row. They belong to another data set or contain no items."""
    matched = {log.file for log, _, _ in rows}
    reasons = {quarantined.file: quarantined.reason for quarantined in reversed(set_aside)}
    whose = f" of {bench.name}" if bench else ""
    faults = [
        Notice(
            f"{log.file}: none of the {len(log.replies)} rows matches an item{whose} "
            f"({reasons.get(log.file, 'no row could be read')})",
            code="other-data-set",
        )
        for log in logs
        if log.file not in matched
    ]
    if faults:
        raise DataError.gather(faults)


def _refuse_repeats(rows: Sequence[MatchedRow]) -> None:
    """Raise `DataError`, with one line per pair of files, if two rows put the same question to the same model."""
    first: dict[tuple[str, str, str, int, Order], tuple[str, int]] = {}
    again: dict[tuple[str, str, str, str], list[tuple[int, int]]] = {}
    for log, reply, match in rows:
        asking = (reply.model, reply.view, reply.template, match.index, match.order)
        here = (log.file, reply.line)
        earlier = first.setdefault(asking, here)
        if earlier != here:
            pair = (earlier[0], log.file, reply.model, reply.view)
            again.setdefault(pair, []).append((earlier[1], reply.line))
    if again:
        mend = "expected each run once. Remove one log, or give its model another name (NAME=LOG)."
        faults = [
            Notice(
                f"{file}:{lines[0][1]}: the row repeats {other}:{lines[0][0]} (model {model}, view {view}; "
                f"{len(lines)} such rows); {mend}",
                code="repeated-rows",
            )
            for (other, file, model, view), lines in again.items()
        ]
        raise DataError.gather(faults)


def _defects(
    items: Sequence[Item], bench: Loaded | None, rows: Sequence[MatchedRow], catalogue: Catalogue
) -> tuple[Defect, ...]:
    if bench is not None:
        here = {item.id for item in items}
        return tuple(defect for defect in bench.defects if defect.item in here)
    first = {catalogue.items[match.index].id: (reply.line, log.file) for log, reply, match in reversed(rows)}
    return find_defects(items, *zip(*(first[item.id] for item in items), strict=True))


def _match_notes(
    rows: Sequence[MatchedRow], catalogue: Catalogue, set_aside: Sequence[Quarantined]
) -> Iterator[Notice]:
    for kind, n in Counter(match.by for _, _, match in rows).items():
        if kind != "content":
            note = f"rows matched by {kind}, because their content alone does not identify the item: {n}"
            yield Notice(note, code="matched-otherwise")
    earlier, data = "an earlier log (the first key was used)", "the data (the key of the data was used)"
    whose = earlier if catalogue.grows else data
    other_key = (
        log.file for log, reply, match in rows if _other_key(reply.item, catalogue.items[match.index])
    )
    for file, n in Counter(other_key).items():
        yield Notice(f"{file}: rows whose key differs from {whose}: {n}", code="other-keys")
    if left_out := len(catalogue.items) - len({match.index for _, _, match in rows}):
        note = f"items of the data that are in no log and were left out of this run: {left_out}"
        yield Notice(note, code="items-left-out")
    if set_aside:
        note = f"rows that match no item of this run, listed by line in quarantine.jsonl: {len(set_aside)}"
        yield Notice(note, code="unmatched-rows")


def _other_key(logged: LoggedItem, item: Item) -> bool:
    if logged.key is None or not logged.choices:
        return False
    logged_key, right = logged.choices[logged.key], item.choices[item.key]
    return logged_key != right and unspaced(logged_key) != unspaced(right)


def _reply_notes(rows: Sequence[MatchedRow], answers: Answers) -> Iterator[Notice]:
    """Yield notes on scores, and on models with fewer items, several templates, or unreadable answers."""
    for file in sorted({log.file for log, reply, _ in rows if reply.unconditioned and reply.view == "cloze"}):
        note = f"{file}: scores without context were used as choices_only_text ({UNCONDITIONED})"
        yield Notice(note, code="unconditioned-scores")
    n_rows = Counter(log.file for log, _, _ in rows)
    equal = (log.file for log, reply, _ in rows if len(reply.scores) > 1 and len(set(reply.scores)) == 1)
    for file, n in Counter(equal).items():
        note = (
            f"{file}: rows in which all choices have the same score, so that they tie: {n} of {n_rows[file]}"
        )
        yield Notice(note, code="equal-scores")
    asked_items: dict[tuple[str, str], set[int]] = {}
    templates: dict[tuple[str, str], dict[str, None]] = {}
    every: dict[str, set[int]] = {}
    for _, reply, match in rows:
        asked_items.setdefault((reply.view, reply.model), set()).add(match.index)
        templates.setdefault((reply.view, reply.model), {})[reply.template] = None
        every.setdefault(reply.view, set()).add(match.index)
    for (view, model), items in asked_items.items():
        if missing := len(every[view]) - len(items):
            note = f"{model}, view {view}: items without a row: {missing} of {len(every[view])}"
            yield Notice(note, code="items-without-rows")
    for (view, model), names in templates.items():
        if len(names) > 1:
            note = f"{model}, view {view}: asked with the templates {', '.join(names)}; rates are for the first one"
            yield Notice(note, code="several-templates")
    unanswered = answers.table.filter(pc.is_null(answers.table["pick"])).select(["model", "view"])
    for (model, view), n in Counter(tuple(row.values()) for row in unanswered.to_pylist()).items():
        yield Notice(f"{model}, view {view}: rows without a readable answer: {n}", code="unreadable-answers")


_ROTATION = re.compile(
    r"(?P<base>.+?)[-_.:#]?(?:rot(?:ation|ated)?|perm(?:utation|uted)?|circular|cycle|shift|order)[-_.:#]?\d+",
    re.I,
)
_CIRCULAR = 1_000_000
"""VLMEvalKit adds a multiple of this to the index of each rotated copy."""


def rotation_groups(names: Sequence[str]) -> dict[str, str]:
    """Map the IDs of rotated copies of a question, such as `q1_rot0` and `q1_rot1`, or `7` and `1000007`, to one name."""
    numbers = {name: int(name) for name in names if name.isdecimal()}
    bases = {name: str(n % _CIRCULAR) for name, n in numbers.items()}
    if not (
        len(numbers) == len(names)
        and any(n >= _CIRCULAR for n in numbers.values())
        and {*bases.values()} <= {*names}
    ):
        bases = {name: match["base"] for name in names if (match := _ROTATION.fullmatch(name))}
    sizes = Counter(bases.values())
    return {name: base for name, base in bases.items() if sizes[base] > 1}


def _rotation_notes(n: int, n_questions: int) -> list[Notice]:
    """Return a note that items depend on each other, because they repeat questions, as in rotated copies."""
    note = f"{n} items repeat {n_questions} questions with the same options, in any order, so they are not independent"
    return [Notice(note, code="repeated-questions")] * bool(n)


def _repeated(items: Sequence[Item]) -> tuple[int, int]:
    """Return the number of items that share their question and options with others, and the number of such questions."""
    sizes = Counter((unspaced(i.stem), tuple(sorted(map(unspaced, i.choices)))) for i in items)
    again = [size for size in sizes.values() if size > 1]
    return sum(again), len(again)


def _gather_textless(logs: Sequence[Log], unread: Sequence[Quarantined]) -> Gathered:
    """Combine logs whose items are known only by ID and key."""
    first: dict[str, tuple[str, LoggedItem]] = {}
    faults = (
        []
        if any(log.replies for log in logs)
        else [Notice(f"{log.file}: no row is readable", code="no-readable-row") for log in logs]
    )
    for log, reply in _replies(logs):
        item, here = reply.item, f"{log.file}:{reply.line}"
        earlier, other = first.setdefault(item.name, (here, item))
        if not item.name:
            faults.append(Notice(f"{here}: {_NAMELESS}", code=_NAMELESS.code))
        elif item.key is None:
            faults.append(Notice(f"{here}: {_KEYLESS}", code=_KEYLESS.code))
        elif (item.k, item.key, item.topic) != (other.k, other.key, other.topic):
            differs = "the key, topic, or number of choices differs from"
            faults.append(
                Notice(f"{here}: {differs} {earlier}, which is the same item", code="contradicted-item")
            )
    if faults:
        raise DataError.gather(faults)
    groups = rotation_groups([*first])
    position = {name: index for index, name in enumerate(first)}
    rows = [
        (log, reply, MatchedItem(position[reply.item.name], own(reply.item.k)))
        for log, reply in _replies(logs)
    ]
    _refuse_repeats(rows)
    answers = table_in_order(
        (match.index, match.order, bare_row(reply, reply.item.name, reply.item.key or 0, match.order))
        for _, reply, match in rows
    )
    absent = Notice(
        f"the texts of the {len(first)} items are unknown, so heuristics, probe, cloze, and split files are absent",
        code="no-item-texts",
    )
    return Gathered(
        items=None,
        topics={name: item.topic for name, (_, item) in first.items()},
        groups=groups,
        answers=answers,
        set_aside=tuple(unread),
        notes=(
            absent,
            *_rotation_notes(len(groups), len(set(groups.values()))),
            *_reply_notes(rows, answers),
        ),
    )
