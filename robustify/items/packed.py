"""Sequences that keep texts as bytes, because ten million items as Python objects take about 20 GB."""

import marshal
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, Generic, TypeVar

from robustify.base.redaction import HoldsText, ItemText
from robustify.items.item import Item

T = TypeVar("T")
Parts = tuple[Any, ...]


class Packed(HoldsText, Sequence[T], Generic[T]):
    """Sequence that stores its values as packed bytes. `build` rebuilds a value when it is read. Slices are lists."""

    __slots__ = ("_build", "_packed")

    def __init__(self, build: Callable[..., T]) -> None:
        self._build, self._packed = build, list[bytes | Parts]()

    def add(self, parts: Parts) -> None:
        """Append a value, given its parts."""
        try:
            self._packed.append(marshal.dumps(parts))
        except ValueError:
            # The key of a row of a Parquet file may be a date, which has no bytes of its own.
            self._packed.append(parts)

    def extend(self, values: "Packed[T]") -> None:
        """Append the values of another sequence without copying their bytes."""
        self._packed += values._packed

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[T]:
        return (self._build(*parts) for parts in map(_unpacked, self._packed))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._build(*parts) for parts in map(_unpacked, self._packed[index])]
        return self._build(*_unpacked(self._packed[index]))

    def drained(self) -> Iterator[Parts]:
        """Yield the parts of each value and release the value, so that new values can use its memory."""
        self._packed.reverse()
        while self._packed:
            yield _unpacked(self._packed.pop())

    def changed(self, change: Callable[[T], T], parts_of: Callable[[T], Parts]) -> "Packed[T]":
        """Apply a function to every value, and return the new sequence. The original sequence is cleared."""
        out = Packed(self._build)
        for parts in self.drained():
            out.add(parts_of(change(self._build(*parts))))
        return out

    def where(self, keep: Iterable[bool]) -> "Packed[T]":
        """Return the values for which `keep` is true."""
        out = Packed(self._build)
        out._packed = [*compress(self._packed, keep)]
        return out


def _unpacked(value: bytes | Parts) -> Parts:
    return marshal.loads(value) if isinstance(value, bytes) else value


def builder_of(kind: type[T], slots: Iterable[str]) -> Callable[..., T]:
    """Return a function that rebuilds an object from the values of its slots, without checking them again."""
    places = [getattr(kind, name).__set__ for name in slots]

    def build(*parts: object) -> T:
        out = object.__new__(kind)
        for place, part in zip(places, parts, strict=True):
            place(out, part)
        return out

    return build


_id, _key, _topic, _group, _sealed = (getattr(Item, name).__set__ for name in Item.__slots__)


def _item(id: str, key: int, topic: str, group: str, *text: Any) -> Item:
    # Every pass over many items makes them anew, so this names each slot instead of calling `builder_of`.
    out = object.__new__(Item)
    _id(out, id)
    _key(out, key)
    _topic(out, topic)
    _group(out, group)
    _sealed(out, ItemText(*text))
    return out


def packed_items() -> Packed[Item]:
    """Return an empty packed sequence for items. The parts of an item are ID, key, topic, group, stem, choices, and the
    offset of the question, and must form a valid item."""
    return Packed(_item)


def repeats(hashes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the index of each repeated hash, with the index of the hash's first occurrence."""
    seen, again = set[int](), set[int]()
    for value in hashes:
        (again if value in seen else seen).add(value)
    del seen
    first: dict[int, int] = {}
    for index, value in enumerate(hashes):
        if value in again and (before := first.setdefault(value, index)) != index:
            yield index, before
