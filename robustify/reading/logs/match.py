"""Matching of logged replies to items, and conversion of replies to rows of an answer table.

Items are matched by content, never by row number or letter. A row without text is matched by item ID, and its key must
agree. If several items have the same content, the rows of a model are assigned to them in turn.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeVar

from robustify.base.errors import ItemError
from robustify.base.texts import folded, unspaced
from robustify.items.answers import Answer, Answers, Asked, answer, unanswered
from robustify.items.item import Item
from robustify.items.orders import Order, own
from robustify.items.scoring import per_character
from robustify.reading.logs.log import LoggedItem, LogReply

Reading = Literal["content", "folded stem", "choices alone"]
_READ_STEM: dict[Reading, Callable[[str], str]] = {
    "content": unspaced,
    "folded stem": folded,
    "choices alone": lambda _: "",
}
READINGS = tuple(_READ_STEM)
"""Ways to identify an item, from the most to the least reliable."""
Asking = tuple[str, str, str, str]
"""File, model, view, and template. Within these, no item is shown twice in the same order."""


@dataclass(frozen=True, slots=True)
class MatchedItem:
    """Match of a row to an item: the item's position in the catalog, the displayed order, and the matching method."""

    index: int
    order: Order
    by: str = "content"


class OtherItemError(ItemError):
    """Error for a row that contradicts the item with its ID."""


class Catalogue:
    """Index of items by content. If `grows` is true, unknown items are added, and otherwise refused."""

    def __init__(self, items: Sequence[Item], *, grows: bool) -> None:
        self.items: list[Item] = []
        self.grows = grows
        self._texts: list[tuple[str, ...]] = []
        self._by: dict[Reading, defaultdict[bytes, list[int]]] = {"content": defaultdict(list)}
        self._ids: dict[str, int] = {}
        self._named: dict[tuple[Asking, str], int] = {}
        self._called: dict[tuple[Asking, int], str] = {}
        self._shown: set[tuple[Asking, int, Order]] = set()
        # The rows of several models may show the same item.
        self._read = lru_cache(None)(_texts_and_digest)
        for item in items:
            self._add(item, *_texts_and_digest(item.stem, item.choices))

    def find(self, logged: LoggedItem, asking: Asking, task: str, *, blind: bool) -> MatchedItem:
        """Return the item that a row shows, even if the row is a repeat. A `blind` row may lack its question. Raise
        `OtherItemError` if the item with its ID differs. Raise `ItemError` if there is no such item, or several match."""
        match = self._by_text(logged, asking, task, blind) if logged.choices else self._by_id(logged)
        self._shown.add((asking, match.index, match.order))
        if logged.name:
            self._named[asking, logged.name] = match.index
            self._called[asking, match.index] = logged.name
        return match

    def _by_text(self, logged: LoggedItem, asking: Asking, task: str, blind: bool) -> MatchedItem:
        texts, digest = self._read(logged.stem, logged.choices)
        earlier = self._named.get((asking, logged.name)) if logged.name else None
        for kind in READINGS if blind else READINGS[:-1]:
            positions = self._positions(
                kind, digest if kind == "content" else _digest(kind, logged.stem, texts)
            )
            if kind != "content" and len(positions) > 1:
                raise ItemError(
                    f"the row has the same {kind} as {len(positions)} items", code="ambiguous-match"
                )
            if earlier in positions:
                positions = [earlier]
            elif self.grows:
                # A log that defines the items uses one label for each of them.
                positions = [
                    index
                    for index in positions
                    if self._called.get((asking, index), logged.name) == logged.name
                ]
            matches = [MatchedItem(index, _order(texts, self._texts[index]), kind) for index in positions]
            free = [m for m in matches if (asking, m.index, m.order) not in self._shown]
            if free:
                # Prefer an item shown in its original order to one that would have been shuffled.
                return next((m for m in free if m.order == own(logged.k)), free[0])
            if matches and (earlier in positions or not self.grows):
                return matches[0]
            if self.grows:
                return MatchedItem(self._add(self._new_item(logged, task), texts, digest), own(logged.k))
        if logged.id in self._ids:
            raise ItemError(
                "no item in the data has this content, although one has this ID", code="other-content"
            )
        raise ItemError("no item in the data has this content", code="unknown-content")

    def _by_id(self, logged: LoggedItem) -> MatchedItem:
        index = self._ids.get(logged.id)
        if index is None:
            raise ItemError(
                "no item in the data has this ID, and the row has no text for matching", code="unknown-id"
            )
        item = self.items[index]
        other_number = logged.k not in (0, item.k)
        if other_number or logged.key not in (None, item.key):
            raise OtherItemError(
                f"the {'number of choices' if other_number else 'key'} differs from that of the item with this ID, and the "
                "row has no text for matching",
                code="other-item",
            )
        return MatchedItem(index, own(item.k), "id")

    def _positions(self, kind: Reading, digest: bytes) -> list[int]:
        """Return the positions of the items with this digest. Weaker ways to identify items are indexed when needed."""
        if kind not in self._by:
            self._by[kind] = defaultdict(list)
            for index, (item, texts) in enumerate(zip(self.items, self._texts, strict=True)):
                self._by[kind][_digest(kind, item.stem, texts)].append(index)
        return self._by[kind].get(digest, [])

    def _add(self, item: Item, texts: tuple[str, ...], digest: bytes) -> int:
        index = self._ids[item.id] = len(self.items)
        self._by["content"][digest].append(index)
        self.items.append(item)
        self._texts.append(texts)
        return index

    def _new_item(self, logged: LoggedItem, task: str) -> Item:
        """Return a new item. Its ID is the logged ID if free, or else made from the names of the task and item."""
        if logged.key is None:
            raise ItemError(
                "the log has no key. Pass the items with their keys (--data ITEMS).", code="no-key"
            )
        name = logged.name.removeprefix("#")
        generated = f"{task}-{name:0>4}" if name.isdecimal() else f"{task}-{name or len(self.items) + 1}"
        wanted = logged.id or generated
        while wanted in self._ids:
            wanted = f"{generated}-{len(self.items) + 1}"
        return Item(wanted, logged.stem, logged.choices, logged.key, logged.topic, group=logged.group)


def _texts_and_digest(stem: str, choices: tuple[str, ...]) -> tuple[tuple[str, ...], bytes]:
    texts = tuple(map(unspaced, choices))
    return texts, _digest("content", stem, texts)


def _digest(kind: Reading, stem: str, texts: Sequence[str]) -> bytes:
    text = "\0".join([_READ_STEM[kind](stem), *sorted(texts)]).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()


def _order(shown_texts: Sequence[str], own_texts: Sequence[str]) -> Order:
    """Return the displayed order: `order[j]` is the index of the choice at position j. Equal texts keep their order."""
    if shown_texts == own_texts:
        return own(len(shown_texts))
    positions = defaultdict(list)
    for index, choice in enumerate(own_texts):
        positions[choice].append(index)
    return tuple(positions[choice].pop(0) for choice in shown_texts)


UNCONDITIONED = "unconditioned"
T = TypeVar("T")


def answer_rows(reply: LogReply, item: Item, order: Order) -> Iterator[Answer]:
    """Yield the answer row of a reply. Yield another row if the same texts were also scored without context."""
    chars = _in_own_order(reply.n_chars, order) or tuple(map(len, item.choices))
    if reply.scores and reply.by_text and not all(chars):
        reply = replace(reply, scores=(), pick=None, reason="empty_choice")
    if not reply.scores:
        yield bare_row(reply, item.id, item.key, order)
        return
    scored = [(str(reply.view), reply.template, reply.scores)]
    if reply.unconditioned and reply.view == "cloze":
        scored.append(("choices_only_text", f"{reply.template}-{UNCONDITIONED}", reply.unconditioned))
    sizes = tuple(len(choice.encode("utf-8", "surrogatepass")) for choice in item.choices)
    for view, template, shown_scores in scored:
        scores = _in_own_order(shown_scores, order)
        per_char = per_character(scores, chars) if reply.by_text else None
        identity = Asked(item.id, view, reply.model, order, template, item.key)
        yield answer(identity, scores, per_char, n_chars=chars, n_bytes=sizes)


def fit_to_item(reply: LogReply, item: Item) -> LogReply:
    """Check a reply whose log lacks the number of choices, and return the reply. A pick beyond the last choice is
    removed. Raise `OtherItemError` if the number of scores differs from the number of choices."""
    if reply.item.k:
        return reply
    if len(reply.scores) not in (0, item.k):
        n = len(reply.scores)
        raise OtherItemError(
            f"the row has {n} scores, but the item with its ID has {item.k} choices",
            code="other-number-of-scores",
        )
    beyond = reply.pick is not None and reply.pick >= item.k
    return replace(reply, pick=None) if beyond else reply


def bare_row(reply: LogReply, item: str, key: int, order: Order) -> Answer:
    """Convert a reply to an answer row that contains no text lengths. The item may be known only by ID and key. If there is
    no pick, the best score is the pick."""
    identity = Asked(item, str(reply.view), reply.model, order, reply.template, key)
    if reply.pick is None and reply.scores:
        return answer(identity, _in_own_order(reply.scores, order))
    if reply.pick is None:
        return unanswered(identity, reply.reason)
    pick = order[reply.pick]
    return Answer(*identity, pick, 1.0 if pick == key else 0.0, ())


def _in_own_order(values: Sequence[T], order: Order) -> tuple[T, ...]:
    """Return values in the original order of the item's choices instead of the order shown."""
    if not values or order == own(len(order)):
        return tuple(values)
    position = sorted(range(len(order)), key=order.__getitem__)
    return tuple(values[j] for j in position)


def table_in_order(rows: Iterable[tuple[int, Order, Answer]]) -> Answers:
    """Return an answer table of the rows, grouped by view, model, and template, and then by item. Each item's
    original order comes first."""
    ranks: dict[tuple[str, str, str], int] = {}

    def place(entry: tuple[int, Order, Answer]) -> tuple[int, int, bool]:
        index, order, row = entry
        rank = ranks.setdefault((row.view, row.model, row.template), len(ranks))
        return rank, index, order != own(len(order))

    return Answers.of(row for *_, row in sorted(rows, key=place))
