"""Sequences that keep texts as bytes, because ten million items as Python objects take some 20 GB."""

import marshal
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, Generic, TypeVar, overload

from robustify.base.redaction import HoldsText, ItemText
from robustify.items.item import Item

T = TypeVar("T")


class Packed(HoldsText, Sequence[T], Generic[T]):
    """Sequence of values, each of which is made anew when it is read. `taken` returns the plain parts of a value, and
    `made` makes it of them. A slice is a list of values."""

    __slots__ = ("_made", "_parts", "_taken")

    def __init__(self, taken: Callable[[T], tuple[Any, ...]], made: Callable[..., T]) -> None:
        self._taken, self._made = taken, made
        self._parts: list[bytes | tuple[Any, ...]] = []

    def append(self, value: T) -> None:
        """Add a value."""
        self._parts.append(self._packed(value))

    def _packed(self, value: T) -> bytes | tuple[Any, ...]:
        parts = self._taken(value)
        try:
            return marshal.dumps(parts)
        except ValueError:
            # A key of a Parquet file may be a date.
            return parts

    def _value(self, part: bytes | tuple[Any, ...]) -> T:
        return self._made(*(marshal.loads(part) if isinstance(part, bytes) else part))

    def extend(self, values: Iterable[T]) -> None:
        """Add values. Those of a packed sequence keep their bytes."""
        self._parts += values._parts if isinstance(values, Packed) else map(self._packed, values)

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[T]:
        return map(self._value, self._parts)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        if isinstance(at, slice):
            return [*map(self._value, self._parts[at])]
        return self._value(self._parts[at])

    def drained(self) -> Iterator[T]:
        """Yield the values and forget them, so that others can take their place."""
        self._parts.reverse()
        while self._parts:
            yield self._value(self._parts.pop())

    def emptied(self) -> "Packed[T]":
        """Return an empty sequence of the same kind."""
        return Packed(self._taken, self._made)

    def where(self, keep: Iterable[bool]) -> "Packed[T]":
        """Return the values that are kept."""
        out = self.emptied()
        out._parts = [*compress(self._parts, keep)]
        return out


def made_of(kind: type[T], slots: Iterable[str]) -> Callable[..., T]:
    """Return a function that makes a value of the values of its slots. They were checked when they were first taken."""
    places = [getattr(kind, name).__set__ for name in slots]

    def made(*parts: object) -> T:
        out = object.__new__(kind)
        for place, part in zip(places, parts, strict=True):
            place(out, part)
        return out

    return made


_MADE_ITEM = made_of(Item, Item.__slots__)


def packed_items() -> Packed[Item]:
    """Return an empty sequence of items."""
    return Packed(_texts_of, _item_of)


def changed(values: Sequence[T], change: Callable[[T], T]) -> Sequence[T]:
    """Return the changed values. A packed sequence is emptied."""
    if not isinstance(values, Packed):
        return [*map(change, values)]
    out = values.emptied()
    for value in values.drained():
        out.append(change(value))
    return out


def where(values: Sequence[T], keep: Iterable[bool]) -> Sequence[T]:
    """Return the values that are kept."""
    return values.where(keep) if isinstance(values, Packed) else [*compress(values, keep)]


def repeats(names: Iterable[str]) -> bool:
    """Return whether a name comes again, or two names have the same hash, which is very rare."""
    hashes = array("q", map(hash, names))
    return len({*hashes}) < len(hashes)


def _texts_of(item: Item) -> tuple[Any, ...]:
    return item.id, item.key, item.topic, item.group, item.stem, item.choices, item.sealed.question_at


def _item_of(id: str, key: int, topic: str, group: str, *text: Any) -> Item:
    return _MADE_ITEM(id, key, topic, group, ItemText(*text))
