"""What logs give together, and what holds for all of them, whether their rows have text or not."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from robustify.answers import Answer, Answers
from robustify.errors import DataError
from robustify.item import Item
from robustify.loaders import Defect, Quarantined
from robustify.logs.log import Log, Reply
from robustify.orders import Order, own


@dataclass(frozen=True, slots=True, repr=False)
class Gathered:
    """The items that at least one log shows, and all answers.

    `items` is None where no text is known; `topics` and `groups` by id all the same. `set_aside` names rows
    that show no item or could not be read. `left_out` counts items of the data that no log shows.
    """

    items: tuple[Item, ...] | None
    topics: Mapping[str, str]
    groups: Mapping[str, str]
    answers: Answers
    defects: tuple[Defect, ...] = ()
    set_aside: tuple[Quarantined, ...] = ()
    left_out: int = 0
    notes: tuple[str, ...] = ()


def unread(logs: Sequence[Log]) -> list[Quarantined]:
    """The rows that could not be read, once the user has said to set them aside."""
    return [Quarantined(fault.line, fault.reason, log.file) for log in logs for fault in log.faults]


def in_order(rows: Iterable[tuple[int, Order, Answer]]) -> Answers:
    """The rows by asking, and within one by item; an item's own order comes first, as the plain asking."""
    ranks: dict[tuple[str, str, str], int] = {}
    ranked: list[tuple[int, int, bool, int, Answer]] = []
    for at, order, row in rows:
        asking = ranks.setdefault((row.view, row.model, row.template), len(ranks))
        ranked.append((asking, at, order != own(len(order)), len(ranked), row))
    # No two have one number, so that rows are never compared.
    return Answers.of(row for *_, row in sorted(ranked))


def silent(answers: Answers) -> Iterator[str]:
    """What is told of models whose replies could not all be read."""
    columns = (answers.table[name].to_pylist() for name in ("model", "view", "pick"))
    missing = Counter((model, view) for model, view, pick in zip(*columns, strict=True) if pick is None)
    for (model, view), n in missing.items():
        yield f"{model}, view {view}: rows without a readable answer {n}"


def refuse_repeats(rows: Iterable[tuple[Log, Reply, str, Order]]) -> None:
    """Refuse two rows of one asking: two logs of one run, or one log twice.

    Raises:
        DataError: one line for each two files, with the number of such rows and the first of them.
    """
    first: dict[tuple[str, str, str, str, Order], tuple[str, int]] = {}
    again: dict[tuple[str, str, str, str], list[tuple[int, int]]] = {}
    for log, reply, item, order in rows:
        asking = (reply.model, reply.view, reply.template, item, order)
        file, line = first.setdefault(asking, (log.file, reply.line))
        if (file, line) != (log.file, reply.line):
            again.setdefault((file, log.file, reply.model, reply.view), []).append((line, reply.line))
    if again:
        raise DataError.gather(
            [
                f"{file}:{lines[0][1]}: the same asking as {earlier}:{lines[0][0]} (model {model}, view {view}; "
                f"{len(lines)} such rows); expected each run once: leave one log out, or name its model "
                "otherwise (NAME=LOG)"
                for (earlier, file, model, view), lines in again.items()
            ]
        )
