"""Multiple-choice items, which are validated on creation, and whose text does not leave the process.

The text is sealed (`redaction`). `asdict`, `vars`, pickle, and JSON of an item or its containers raise an error or give
`<text redacted>`, and repr shows only the ID. Only the properties `stem` and `choices` open the text.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from robustify.base.errors import ItemError, Notice
from robustify.base.odd_characters import hidden_characters, plainly
from robustify.base.redaction import HoldsText, ItemText
from robustify.base.texts import bare, unspaced

T = TypeVar("T")
FEWEST, MOST = 2, 26
BLANK_STEM = Notice("the stem is empty. Add the text of the question.", code="blank-stem")
NO_ID = Notice("the ID is empty. Give each item a unique ID.", code="empty-id")


@dataclass(frozen=True, slots=True, repr=False, init=False)
class Item(HoldsText):
    """Multiple-choice question: its choices in the benchmark's order, and the index `key` (from 0) of the correct choice.

    `topic` is the benchmark's category, and `group` names a passage that several items share, or "". `question_at` is where
    the question begins in a stem that starts with a passage. Only `dataclasses.replace` sets `sealed`. Raise `ItemError` if
    there are fewer than 2 or more than 26 choices, or the key is out of range.
    """

    id: str
    key: int
    topic: str
    group: str
    sealed: ItemText

    def __init__(
        self,
        id: str,
        stem: str | None = None,
        choices: tuple[str, ...] | None = None,
        key: int = -1,
        topic: str = "",
        group: str = "",
        *,
        question_at: int = 0,
        sealed: ItemText | None = None,
    ) -> None:
        before = ItemText("", ()) if sealed is None else sealed
        own_stem, own_choices = before.open_text()
        text = ItemText(
            own_stem if stem is None else stem,
            own_choices if choices is None else choices,
            question_at if sealed is None or stem is not None else sealed.question_at,
        )
        _check(id, text, key)
        for name, value in (("id", id), ("key", key), ("topic", topic), ("group", group), ("sealed", text)):
            object.__setattr__(self, name, value)

    @property
    def stem(self) -> str:
        """Question without its choices, as plain text."""
        return self.sealed.open_text()[0]

    @property
    def question(self) -> str | None:
        """Stem without its passage, as plain text, or None if there is no passage."""
        start = self.sealed.question_at
        return self.stem[start:] if start else None

    @property
    def choices(self) -> tuple[str, ...]:
        """Options, as plain text."""
        return self.sealed.open_text()[1]

    def __repr__(self) -> str:
        return f"Item(id={self.id!r}, {len(self.choices)} choices)"

    @property
    def k(self) -> int:
        """Number of choices."""
        return len(self.choices)

    def permuted(self, order: Sequence[int]) -> "Item":
        """Return the item with choice `order[j]` at position j and the key adjusted to match."""
        if sorted(order) != list(range(self.k)):
            raise ItemError(
                f"order {tuple(order)} is not a permutation of {self.k} choices", code="invalid-order"
            )
        choices = self.choices
        moved = tuple(choices[i] for i in order)
        key = list(order).index(self.key)
        return self.with_choices(moved, key)

    def trimmed(self) -> "Item":
        """Return the item without white space and invisible blanks at the ends of its choices."""
        return self.with_choices(tuple(map(bare, self.choices)), self.key)

    def in_plain_characters(self) -> "Item":
        """Return the item with plain characters in its choices, if the choices differ in hidden characters."""
        return (
            self.with_choices(tuple(map(plainly, self.choices)), self.key)
            if hidden_characters(self.choices)
            else self
        )

    def with_choices(self, choices: tuple[str, ...], key: int) -> "Item":
        """Return a copy of the item with different choices and a different key."""
        return Item(self.id, None, choices, key, self.topic, self.group, sealed=self.sealed)

    def key_text_repeated(self) -> bool:
        """Return whether another choice has the same text as the key, so that scores of text cannot distinguish them."""
        texts = [unspaced(c) for c in self.choices]
        return texts.count(texts[self.key]) > 1


def item_row(item: Item) -> dict[str, Any]:
    """Return an item as a row of an items file: id, stem, choices, key (from 0), topic and, if present, group and
    question_at (the offset of the question after a passage)."""
    row = {name: getattr(item, name) for name in ("id", "stem", "choices", "key", "topic")}
    more = {"group": item.group, "question_at": item.sealed.question_at}
    return row | {"choices": list(item.choices)} | {name: value for name, value in more.items() if value}


def _check(id: str, text: ItemText, key: int) -> None:
    stem, choices = text.open_text()
    n = len(choices)
    if not id:
        raise ItemError(NO_ID, code=NO_ID.code)
    if not stem.strip():
        raise ItemError(BLANK_STEM, code=BLANK_STEM.code)
    if not FEWEST <= n <= MOST:
        raise ItemError(fault := choice_count_fault(n), code=fault.code)
    if isinstance(key, bool) or not isinstance(key, int):
        raise ItemError(
            f"the key is a {type(key).__name__}; expected a whole number from 0 to {n - 1}", code="key-type"
        )
    if not 0 <= key < n:
        raise ItemError(
            f"the key is {key}, but there are only {n} choices (0 to {n - 1})", code="key-out-of-range"
        )


def choice_count_fault(n: int) -> Notice:
    """Return the fault of an item with too few or too many choices."""
    return Notice(f"expected {FEWEST} to {MOST} choices, found {n}", code="choice-count")


def kept_for_last(work: "Callable[[Sequence[Item]], T]") -> "Callable[[Sequence[Item]], T]":
    """Cache the result of `work` for the two latest sets of items. Probe, ranking, and audit use the same items, and the
    encoder reads a sample of these items in between. All callers share the result, so arrays in it must be read-only."""
    kept: list[tuple[tuple[Item, ...], T]] = []

    @wraps(work)
    def latest(items: Sequence[Item]) -> T:
        # The items of a known set are mostly the same objects, which are compared many times faster than they are hashed.
        own = tuple(items)
        cached = [entry for entry in kept if entry[0] == own]
        first = cached[0] if cached else (own, work(own))
        kept[:] = [first, *(entry for entry in kept if entry is not first)][:2]
        return first[1]

    return latest


@contextmanager
def no_collector() -> Iterator[None]:
    """Disable Python's garbage collector inside the block. With millions of live rows, it takes a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
