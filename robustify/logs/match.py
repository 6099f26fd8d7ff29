"""From replies to rows of an answer table: which item a reply shows, in which order, and what it answers.

Items are matched by their content, never by row or by letter. A row without text is matched by its item's id, and its
key must then agree. Where several items have the same content, the rows of a model take them one after the other.

A reply with scores is picked anew, ties sharing the credit; one with a pick alone keeps its pick. What names no choice
is a row all the same, unanswered.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeVar

from robustify.answers import Answer, Answers, Asked, answer, unanswered
from robustify.errors import DataError, ItemError
from robustify.item import Item, folded, unspaced
from robustify.loaders import Defect, Quarantined
from robustify.logs.log import Log, LoggedItem, LogReply
from robustify.orders import Order, own
from robustify.scoring import per_character

Reading = Literal["content", "folded stem", "choices alone"]
READINGS: tuple[Reading, ...] = ("content", "folded stem", "choices alone")
"""What an item is known by, from the surest to the weakest."""
Asking = tuple[str, str, str, str]
"""File, model, view and template: within one, no item is shown twice in one order."""


@dataclass(frozen=True, slots=True)
class MatchedItem:
    """The item's position in the catalogue, the order in which it was shown, and what identified it."""

    at: int
    order: Order
    by: str = "content"


class OtherItemError(ItemError):
    """A row says something of the item it names that is not so."""


class Catalogue:
    """Items by their content. `grows`: an item that is not here yet is added, not refused."""

    def __init__(self, items: Sequence[Item], *, grows: bool) -> None:
        self.items: list[Item] = []
        self.grows = grows
        self._texts: list[tuple[str, ...]] = []
        self._by: dict[Reading, defaultdict[bytes, list[int]]] = {"content": defaultdict(list)}
        self._ids: dict[str, int] = {}
        self._named: dict[tuple[Asking, str], int] = {}
        self._called: dict[tuple[Asking, int], str] = {}
        self._shown: set[tuple[Asking, int, Order]] = set()
        self._texts_read: dict[tuple[str, tuple[str, ...]], tuple[tuple[str, ...], bytes]] = {}
        for item in items:
            texts = tuple(map(unspaced, item.choices))
            self._add(item, texts, _digest("content", item.stem, texts))

    def find(self, logged: LoggedItem, asking: Asking, task: str, *, blind: bool) -> MatchedItem:
        """The item that a row shows. `blind`: asked without its question, which the log may then lack.

        A second row of one asking finds its item too; `refuse_repeats` refuses it.

        Raises:
            OtherItemError: the item of this id has another key or number of choices.
            ItemError: no such item, or one that cannot be distinguished from another.
        """
        match = self._by_text(logged, asking, task, blind) if logged.choices else self._by_id(logged)
        self._shown.add((asking, match.at, match.order))
        if logged.name:
            self._named[asking, logged.name] = match.at
            self._called[asking, match.at] = logged.name
        return match

    def _by_text(self, logged: LoggedItem, asking: Asking, task: str, blind: bool) -> MatchedItem:
        texts, digest = self._read(logged)
        known = self._named.get((asking, logged.name)) if logged.name else None
        for kind in READINGS if blind else READINGS[:-1]:
            wanted = digest if kind == "content" else _digest(kind, logged.stem, texts)
            positions = self._index(kind).get(wanted, [])
            if kind != "content" and len(positions) > 1:
                raise ItemError(f"has the same {kind} as {len(positions)} items")
            at_hand = (
                [known]
                if known in positions
                else [at for at in positions if self._may_be(logged, at, asking)]
            )
            matches = [
                MatchedItem(at, _order(texts, self._texts[at]), kind) for at in at_hand if at is not None
            ]
            free = [m for m in matches if (asking, m.at, m.order) not in self._shown]
            if free:
                # An item shown in its own order comes before one that would have been shuffled.
                return next((m for m in free if m.order == own(logged.k)), free[0])
            if matches and (known in positions or not self.grows):
                return matches[0]
            if self.grows:
                break
        if not self.grows:
            other = ", though one has this id" if logged.id in self._ids else ""
            raise ItemError(f"no item of the data has this content{other}")
        return MatchedItem(self._add(_item(logged, self._free(logged, task)), texts, digest), own(logged.k))

    def _may_be(self, logged: LoggedItem, at: int, asking: Asking) -> bool:
        """Whether a row may show this item: not where a log is all that is known and calls it otherwise."""
        return not self.grows or self._called.get((asking, at), logged.name) == logged.name

    def _by_id(self, logged: LoggedItem) -> MatchedItem:
        at = self._ids.get(logged.id)
        if at is None:
            raise ItemError("no item of the data has this id, and the row has no text to be matched by")
        item = self.items[at]
        what = "number of choices" if logged.k not in (0, item.k) else "key"
        if what != "key" or logged.key not in (None, item.key):
            raise OtherItemError(
                f"has another {what} than the item of its id; expected the same, as the row has no text to be matched by"
            )
        return MatchedItem(at, own(item.k), "id")

    def _read(self, logged: LoggedItem) -> tuple[tuple[str, ...], bytes]:
        # The rows of many models may show one and the same item.
        shown = logged.stem, logged.choices
        if shown not in self._texts_read:
            texts = tuple(map(unspaced, logged.choices))
            self._texts_read[shown] = texts, _digest("content", logged.stem, texts)
        return self._texts_read[shown]

    def _index(self, kind: Reading) -> defaultdict[bytes, list[int]]:
        """By the digest of a reading the items that have it; weaker readings only once they are needed."""
        if kind not in self._by:
            self._by[kind] = defaultdict(list)
            for at, (item, texts) in enumerate(zip(self.items, self._texts, strict=True)):
                self._by[kind][_digest(kind, item.stem, texts)].append(at)
        return self._by[kind]

    def _add(self, item: Item, texts: tuple[str, ...], digest: bytes) -> int:
        at = len(self.items)
        self._by["content"][digest].append(at)
        self.items.append(item)
        self._texts.append(texts)
        self._ids[item.id] = at
        return at

    def _free(self, logged: LoggedItem, task: str) -> str:
        """An id for an item of a log: its own, else the task's name and what the log calls it."""
        name = logged.name.removeprefix("#")
        made = f"{task}-{name:0>4}" if name.isdecimal() else f"{task}-{name or len(self.items) + 1}"
        wanted = logged.id or made
        while wanted in self._ids:
            wanted = f"{made}-{len(self.items) + 1}"
        return wanted


def _digest(kind: Reading, stem: str, texts: Sequence[str]) -> bytes:
    match kind:
        case "content":
            stem = unspaced(stem)
        case "folded stem":
            stem = folded(stem)
        case "choices alone":
            stem = ""
    text = "\0".join([stem, *sorted(texts)]).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()


def _order(shown: Sequence[str], own_texts: Sequence[str]) -> Order:
    """`order[j]`: which of the item's choices stands at position j; equal texts keep their order."""
    if shown == own_texts:
        return own(len(shown))
    left = defaultdict(list)
    for at, choice in enumerate(own_texts):
        left[choice].append(at)
    return tuple(left[choice].pop(0) for choice in shown)


def _item(logged: LoggedItem, name: str) -> Item:
    if logged.key is None:
        raise ItemError("no key is logged; expected the items with their keys (--data ITEMS)")
    return Item(name, logged.stem, logged.choices, logged.key, logged.topic, logged.group)


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
    sizes = _sizes(item.choices)
    for view, template, shown_scores in scored:
        scores = _in_own_order(shown_scores, order)
        per_char = per_character(scores, chars) if reply.by_text else None
        yield answer(
            Asked(item.id, view, reply.model, order, template, item.key),
            scores,
            per_char,
            n_chars=chars,
            n_bytes=sizes,
        )


@lru_cache(1 << 16)
def _sizes(choices: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(len(choice.encode("utf-8", "surrogatepass")) for choice in choices)


def of_item(reply: LogReply, item: Item) -> LogReply:
    """A reply to this item where its log did not know of how many choices: what it names is one of these, or nothing.
    Raises `OtherItemError`: it has another number of scores."""
    if reply.item.k:
        return reply
    if len(reply.scores) not in (0, item.k):
        raise OtherItemError(f"has {len(reply.scores)} scores, but the item of its id {item.k} choices")
    beyond = reply.pick is not None and reply.pick >= item.k
    return replace(reply, pick=None) if beyond else reply


def bare_row(reply: LogReply, item: str, key: int, order: Order) -> Answer:
    """The row of a reply without scores, for an item of which no more may be known than its id and key."""
    asked = Asked(item, str(reply.view), reply.model, order, reply.template, key)
    if reply.pick is None:
        return unanswered(asked, reply.reason)
    pick = order[reply.pick]
    return Answer(*asked, pick, 1.0 if pick == key else 0.0, ())


def _in_own_order(values: Sequence[T], order: Order) -> tuple[T, ...]:
    """Values by position as shown, put into the item's own order."""
    if not values or order == own(len(order)):
        return tuple(values)
    position = sorted(range(len(order)), key=order.__getitem__)
    return tuple(values[j] for j in position)


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
    if not answers.table["pick"].null_count:
        return
    columns = (answers.table[name].to_pylist() for name in ("model", "view", "pick"))
    missing = Counter((model, view) for model, view, pick in zip(*columns, strict=True) if pick is None)
    for (model, view), n in missing.items():
        yield f"{model}, view {view}: rows without a readable answer {n}"


def refuse_repeats(rows: Iterable[tuple[Log, LogReply, str, Order]]) -> None:
    """Refuse two rows of one asking: two logs of one run, or one log twice.
    Raises `DataError`: one line for each two files, with the number of such rows and the first of them."""
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
