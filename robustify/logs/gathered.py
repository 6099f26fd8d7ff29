"""What logs give together: replies and the items they belong to -> rows of one answer table.

A reply with scores is picked anew, ties sharing the credit; one with a pick alone keeps its pick. What names no
choice is a row all the same, unanswered.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from robustify.answers import Answer, Answers, answer, unanswered
from robustify.errors import DataError
from robustify.item import Item
from robustify.loaders import Defect, Quarantined
from robustify.logs.log import Log, LogReply
from robustify.orders import Order, own
from robustify.scoring import per_character

UNCONDITIONED = "unconditioned"
T = TypeVar("T")


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


def answer_rows(reply: LogReply, item: Item, order: Order) -> Iterator[Answer]:
    """The row of a reply; and where the same texts were also scored without context, a row of that."""
    chars = _in_own_order(reply.n_chars, order) or tuple(map(len, item.choices))
    if not reply.scores:
        yield bare_row(reply, item.id, item.key, order)
        return
    if reply.by_text and not all(chars):
        yield bare_row(replace(reply, pick=None, reason="empty_choice"), item.id, item.key, order)
        return
    scored = [(str(reply.view), reply.template, reply.scores)]
    if reply.unconditioned and reply.view == "cloze":
        scored.append(("choices_only_text", f"{reply.template}-{UNCONDITIONED}", reply.unconditioned))
    sizes = [len(choice.encode("utf-8", "surrogatepass")) for choice in item.choices]
    for view, template, shown_scores in scored:
        scores = _in_own_order(shown_scores, order)
        per_char = per_character(scores, chars) if reply.by_text else None
        yield answer(
            item.id, view, reply.model, order, template, item.key, scores,
            ranked_by=per_char, n_chars=chars, n_bytes=sizes,
        )  # fmt: skip


def bare_row(reply: LogReply, item: str, key: int, order: Order) -> Answer:
    """The row of a reply without scores, for an item of which no more may be known than its id and key."""
    if reply.pick is None:
        return unanswered(item, reply.view, reply.model, order, reply.template, key, reply.reason)
    pick = order[reply.pick]
    credit = 1.0 if pick == key else 0.0
    return Answer(item, reply.view, reply.model, order, reply.template, key, pick, credit, ())


def _in_own_order(values: Sequence[T], order: Order) -> tuple[T, ...]:
    """Values by place as shown, put into the item's own order."""
    if not values or order == own(len(order)):
        return tuple(values)
    place = sorted(range(len(order)), key=order.__getitem__)
    return tuple(values[j] for j in place)


def unread(logs: Sequence[Log]) -> list[Quarantined]:
    """The rows that could not be read, once the user has said to set them aside."""
    return [Quarantined(fault.line, fault.reason, log.file) for log in logs for fault in log.faults]


def table_in_order(rows: Iterable[tuple[int, Order, Answer]]) -> Answers:
    """The rows by asking, and within one by item; an item's own order comes first, as the plain asking."""
    ranks: dict[tuple[str, str, str], int] = {}
    ranked: list[tuple[int, int, bool, int, Answer]] = []
    for at, order, row in rows:
        asking = ranks.setdefault((row.view, row.model, row.template), len(ranks))
        ranked.append((asking, at, order != own(len(order)), len(ranked), row))
    # No two have one number, so that rows are never compared.
    return Answers.of(row for *_, row in sorted(ranked))


def unanswered_notes(answers: Answers) -> Iterator[str]:
    """A note for each model whose replies could not all be read."""
    columns = (answers.table[name].to_pylist() for name in ("model", "view", "pick"))
    missing = Counter((model, view) for model, view, pick in zip(*columns, strict=True) if pick is None)
    for (model, view), n in missing.items():
        yield f"{model}, view {view}: rows without a readable answer {n}"


def refuse_repeats(rows: Iterable[tuple[Log, LogReply, str, Order]]) -> None:
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
