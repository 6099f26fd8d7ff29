"""A reply and the item it belongs to -> rows of the answer table, in the item's own order.

A reply with scores is picked anew, ties sharing the credit; one with a pick alone keeps its pick. What names no
choice is a row all the same, unanswered.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from robustify.answers import Answer, answer, unanswered
from robustify.item import Item
from robustify.logs.log import Reply
from robustify.orders import Order, own

UNCONDITIONED = "unconditioned"
T = TypeVar("T")


def answer_rows(reply: Reply, item: Item, order: Order) -> Iterator[Answer]:
    """The row of a reply; and where the same texts were also scored without context, a row of that."""
    chars = _back(reply.n_chars, order) or tuple(map(len, item.choices))
    if not reply.scores:
        yield bare_row(reply, item.id, item.key, order)
    elif reply.by_text and not all(chars):
        yield bare_row(replace(reply, pick=None, why="empty_choice"), item.id, item.key, order)
    else:
        yield from (_row(reply, item, order, chars, *scored) for scored in _scored(reply))


def _row(
    reply: Reply,
    item: Item,
    order: Order,
    chars: Sequence[int],
    view: str,
    template: str,
    scores: Sequence[float],
) -> Answer:
    own_scores = _back(scores, order)
    per_char = [s / n for s, n in zip(own_scores, chars, strict=True)] if reply.by_text else None
    sizes = [len(c.encode("utf-8", "surrogatepass")) for c in item.choices]
    return answer(
        item.id, view, reply.model, order, template, item.key, own_scores,
        ranked_by=per_char, n_chars=chars, n_bytes=sizes,
    )  # fmt: skip


def bare_row(reply: Reply, item: str, key: int, order: Order) -> Answer:
    """The row of a reply without scores, for an item of which no more may be known than its id and key."""
    if reply.pick is None:
        return unanswered(item, reply.view, reply.model, order, reply.template, key, reply.why)
    pick = order[reply.pick]
    credit = 1.0 if pick == key else 0.0
    return Answer(item, reply.view, reply.model, order, reply.template, key, pick, credit, ())


def _scored(reply: Reply) -> Iterator[tuple[str, str, Sequence[float]]]:
    yield reply.view, reply.template, reply.scores
    if reply.alone and reply.view == "cloze":
        yield "choices_only_text", f"{reply.template}-{UNCONDITIONED}", reply.alone


def _back(values: Sequence[T], order: Order) -> tuple[T, ...]:
    """Values by place as shown, put into the item's own order."""
    if not values or order == own(len(order)):
        return tuple(values)
    place = sorted(range(len(order)), key=order.__getitem__)
    return tuple(values[j] for j in place)
