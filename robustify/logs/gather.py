"""Logs of several models -> the items they were asked and one answer table.

What does not match is listed by line and counted; what was assumed is told. Two logs of one run are refused, and
so is a log of which no row shows an item.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from robustify.answers import Answers
from robustify.errors import DataError, ItemError
from robustify.item import Item, unspaced
from robustify.loaders import Defect, Loaded, Quarantined
from robustify.loaders.loaded import find_defects
from robustify.logs.answer_rows import UNCONDITIONED, answer_rows
from robustify.logs.gathered import Gathered, in_order, refuse_repeats, silent, unread
from robustify.logs.log import Log, Reply
from robustify.logs.match import Catalogue, Found
from robustify.logs.prompts import BLIND
from robustify.logs.textless import gather_textless

Row = tuple[Log, Reply, Found]


@dataclass(slots=True)
class Tally:
    """What is told of the matching, counted while it goes on: by what rows were matched, how many items of a
    log have another key in the data, how many rows of a file were matched, and those that were not.
    """

    by: Counter[str] = field(default_factory=Counter)
    other_key: Counter[str] = field(default_factory=Counter)
    matched: Counter[str] = field(default_factory=Counter)
    set_aside: list[Quarantined] = field(default_factory=list)


def gather(logs: Sequence[Log], bench: Loaded | None) -> Gathered:
    """The items and answers of these logs; `bench` says what the items are, else the logs' own text does.

    Raises:
        DataError: a log that shows no item, two logs of one run, or rows without text that do not align.
    """
    if bench is None and not any(reply.shown.choices for log in logs for reply in log.replies):
        return gather_textless(logs)
    catalogue = Catalogue(bench.items if bench else (), grows=bench is None)
    tally = Tally()
    rows = [row for log in logs for row in _matched(log, catalogue, tally)]
    _refuse_strangers(logs, tally, bench)
    refuse_repeats((log, reply, catalogue.items[found.at].id, found.order) for log, reply, found in rows)
    items = tuple(catalogue.items[at] for at in sorted({found.at for _, _, found in rows}))
    answers = in_order(
        (found.at, found.order, row)
        for _, reply, found in rows
        for row in answer_rows(reply, catalogue.items[found.at], found.order)
    )
    return Gathered(
        items=items,
        topics={item.id: item.topic for item in items},
        groups={item.id: item.group for item in items if item.group},
        answers=answers,
        defects=_defects(items, bench, rows, catalogue),
        set_aside=(*unread(logs), *tally.set_aside),
        left_out=len(catalogue.items) - len(items),
        notes=tuple(_notes(rows, tally, len(catalogue.items) - len(items), answers)),
    )


def _matched(log: Log, catalogue: Catalogue, tally: Tally) -> Iterator[Row]:
    for reply in log.replies:
        asking = (log.file, reply.model, reply.view, reply.template)
        try:
            found = catalogue.find(reply.shown, asking, log.task, blind=reply.view in BLIND)
        except ItemError as error:
            tally.set_aside.append(Quarantined(reply.line, str(error), log.file))
            continue
        tally.by[found.by] += 1
        tally.matched[log.file] += 1
        tally.other_key[log.file] += _has_other_key(reply, catalogue.items[found.at])
        yield log, reply, found


def _has_other_key(reply: Reply, item: Item) -> bool:
    shown = reply.shown
    if shown.key is None or not shown.choices:
        return False
    return unspaced(shown.choices[shown.key]) != unspaced(item.choices[item.key])


def _refuse_strangers(logs: Sequence[Log], tally: Tally, bench: Loaded | None) -> None:
    """Refuse a log of which no row shows an item: it is of another data set, or no log of items at all."""
    faults = []
    for log in logs:
        if not tally.matched[log.file]:
            why = next((q.reason for q in tally.set_aside if q.file == log.file), "no row could be read")
            whose = f" of {bench.name}" if bench else ""
            faults.append(f"{log.file}: none of its {len(log.replies)} rows shows an item{whose} ({why})")
    if faults:
        raise DataError.gather(faults)


def _defects(
    items: Sequence[Item], bench: Loaded | None, rows: Sequence[Row], catalogue: Catalogue
) -> tuple[Defect, ...]:
    if bench is not None:
        here = {item.id for item in items}
        return tuple(defect for defect in bench.defects if defect.item in here)
    first: dict[str, tuple[int, str]] = {}
    for log, reply, found in rows:
        first.setdefault(catalogue.items[found.at].id, (reply.line, log.file))
    return find_defects(items, *zip(*(first[item.id] for item in items), strict=True))


def _notes(rows: Sequence[Row], tally: Tally, left_out: int, answers: Answers) -> Iterator[str]:
    for kind, n in tally.by.items():
        if kind != "content":
            yield f"rows matched by their item's {kind}, as their content alone does not tell it: {n}"
    for file, n in tally.other_key.items():
        if n:
            yield f"{file}: rows with another key than the data's, which was taken: {n}"
    if left_out:
        yield f"items of the data that no log shows, left out of this run: {left_out}"
    if tally.set_aside:
        yield f"rows that show no item of this run, named by line in quarantine.jsonl: {len(tally.set_aside)}"
    for file in sorted({log.file for log, reply, _ in rows if reply.alone and reply.view == "cloze"}):
        yield f"{file}: its scores without context were taken as choices_only_text ({UNCONDITIONED})"
    yield from _coverage(rows)
    yield from silent(answers)


def _coverage(rows: Sequence[Row]) -> Iterator[str]:
    """Who was not asked everything that others were asked under the same view, or in several wordings."""
    asked: dict[tuple[str, str], set[int]] = {}
    words: dict[tuple[str, str], list[str]] = {}
    for _, reply, found in rows:
        asked.setdefault((reply.view, reply.model), set()).add(found.at)
        told = words.setdefault((reply.view, reply.model), [])
        told += [reply.template] * (reply.template not in told)
    for (view, model), held in asked.items():
        every = set().union(*(items for (v, _), items in asked.items() if v == view))
        if len(held) < len(every):
            yield f"{model}, view {view}: items without a row {len(every) - len(held)} of {len(every)}"
    for (view, model), told in words.items():
        if len(told) > 1:
            yield f"{model}, view {view}: asked under {', '.join(told)}; its rates are those of the first"
