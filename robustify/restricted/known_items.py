"""Keyed fingerprints of the items of accepted sets, by which a copy is recognised in any file and under any name.

A fingerprint is 64 bits of a keyed hash of folded words, so that case, spaces, punctuation, labels, and the order of rows
and choices do not matter. An item is known by its stem, by its choices, or by both together. Texts of few words, and those
that a set repeats, are in many sets, so they count only together.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from robustify.gate.folded_words import kept_words
from robustify.items.item import Item

LEAST = 5
"""Number of known items that make a set a copy. In a smaller set, more than half of the items do."""
_SIZE = 8
_STEM, _CHOICES = 20, 24
"""Minimum size of the folded words of a stem (about five), and of all choices of an item, by which the item is known."""


def fingerprints_of(items: Sequence[Item], key: bytes) -> bytes:
    """Return the fingerprints of a set, joined."""
    counts = Counter(mark for item in items for mark in _fingerprints(item, key))
    return b"".join(mark for mark, n in counts.items() if n == 1)


def joined(several: Iterable[bytes]) -> bytes:
    """Return the fingerprints of several sets, sorted and joined."""
    return b"".join(sorted(set().union(*map(_cut, several))))


def copied(items: Sequence[Item], key: bytes, sets: Mapping[str, bytes]) -> dict[str, int]:
    """Return the sets, given with their joined fingerprints, of which the items are a copy: the known items of each."""
    known, counts = {name: _cut(marks) for name, marks in sets.items()}, Counter[str]()
    for item in items if known else ():
        marks = list(_fingerprints(item, key))
        counts.update(name for name, its in known.items() if not its.isdisjoint(marks))
    return {name: n for name, n in counts.items() if n >= LEAST or 2 * n > len(items)}


def _cut(fingerprints: bytes) -> set[bytes]:
    return {fingerprints[at : at + _SIZE] for at in range(0, len(fingerprints), _SIZE)}


def _fingerprints(item: Item, key: bytes) -> Iterator[bytes]:
    asked = b"".join(kept_words(item.stem))
    options = b"\n".join(sorted(b"".join(kept_words(choice)) for choice in item.choices))
    for enough, text in (
        (len(asked) >= _STEM, b"stem\n" + asked),
        (len(options) >= _CHOICES, b"choices\n" + options),
        (len(asked) + len(options) >= _STEM, b"item\n" + asked + b"\n" + options),
    ):
        if enough:
            yield hashlib.blake2b(text, key=key, digest_size=_SIZE).digest()
