"""Rows without any text of their items -> answers to items of which only the id, the key and the topic are known.

Rows with an id are joined by it. Rows without can only be aligned by their order within each model: every model
must then have as many rows, with the same keys in the same places.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from robustify.errors import DataError
from robustify.logs.answer_rows import bare_row
from robustify.logs.gathered import Gathered, in_order, refuse_repeats, silent, unread
from robustify.logs.log import Log, Reply, Shown
from robustify.orders import own

Row = tuple[Log, Reply]


def gather_textless(logs: Sequence[Log]) -> Gathered:
    """The answers of these logs to items without text.

    Raises:
        DataError: no key, rows that do not align, or two rows of one asking.
    """
    rows = [(log, reply) for log in logs for reply in log.replies]
    if not rows:
        raise DataError.gather([f"{log.file}: no row could be read" for log in logs])
    _require_keys(rows)
    by_order = [row for row in rows if row[1].shown.name.startswith("#")]
    if by_order and len(by_order) < len(rows):
        log, reply = by_order[0]
        raise DataError(
            f"{log.file}:{reply.line}: no item id, where other logs have one; expected ids in all rows or in none"
        )
    _require_as_many(by_order)
    first = _agreed(rows)
    names = {name: _id(name) for name in first}
    refuse_repeats((log, reply, reply.shown.name, own(reply.shown.k)) for log, reply in rows)
    place = {name: at for at, name in enumerate(first)}
    answers = in_order(
        (place[shown.name], own(shown.k), bare_row(reply, names[shown.name], shown.key, own(shown.k)))
        for _, reply in rows
        if (shown := reply.shown).key is not None
    )
    return Gathered(
        items=None,
        topics={names[name]: shown.topic for name, (_, shown) in first.items()},
        groups={},
        answers=answers,
        set_aside=tuple(unread(logs)),
        notes=(*_notes(by_order, len(first)), *silent(answers)),
    )


def _id(name: str) -> str:
    return f"item-{name[1:]:0>4}" if name.startswith("#") else name


def _require_keys(rows: Sequence[Row]) -> None:
    missing = [f"{log.file}:{reply.line}" for log, reply in rows if reply.shown.key is None]
    if missing:
        raise DataError(
            f"{missing[0]}: no key ({len(missing)} such rows); expected a key in every row (--map key=NAME) or the "
            "items with their keys (--data ITEMS)"
        )


def _require_as_many(rows: Sequence[Row]) -> None:
    counts = Counter((reply.view, reply.model) for _, reply in rows)
    for view in dict.fromkeys(v for v, _ in counts):
        held = {model: n for (v, model), n in counts.items() if v == view}
        if len(set(held.values())) > 1:
            listed = ", ".join(f"{model} {n}" for model, n in held.items())
            raise DataError(
                f"{rows[0][0].file}: models have different numbers of rows in the view {view} ({listed}), so that "
                "rows cannot be aligned by their order; expected an item id in each row (--map id=NAME)"
            )


def _agreed(rows: Sequence[Row]) -> dict[str, tuple[str, Shown]]:
    """By name the place where an item stands first, and what it shows; every other row must agree with it."""
    first: dict[str, tuple[str, Shown]] = {}
    faults = []
    for log, reply in rows:
        shown, here = reply.shown, f"{log.file}:{reply.line}"
        there, other = first.setdefault(shown.name, (here, shown))
        if (shown.k, shown.key, shown.topic) != (other.k, other.key, other.topic):
            faults.append(
                f"{here}: another key, topic or number of choices than {there}, which is the same item"
            )
    if faults:
        raise DataError.gather(
            [*faults, "expected one key an item: rows without text are aligned by id, else by their order"]
        )
    return first


def _notes(by_order: Sequence[Row], n: int) -> Iterator[str]:
    yield f"no text of the {n} items is known: what needs it (heuristics, probe, cloze, split files) is absent"
    if by_order:
        models = len({reply.model for _, reply in by_order})
        yield (
            f"rows have no item id: they were aligned by their order within each of {models} models, whose keys "
            "agree in every place"
        )
