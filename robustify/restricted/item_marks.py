"""Marks of items (64 bits of a keyed hash of folded words), by which copies of a restricted set are recognized.

Case, spaces, punctuation, labels, and the order of rows and choices do not matter. Whole marks are of a stem, choices, or
both. Marks of parts recognize edited copies: all choices but one, a long text alone, runs of uncommon words, and the ID.
Because the key lies beside the marks, a mark of few words could be guessed with a word list, so a part has at least `LONG`
characters, and runs of a registered text do not overlap, or they could be joined word by word. Marks that a set repeats
are left out.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from robustify.base.folded_words import decoded, fold, kept_words, narrow
from robustify.items.item import Item

SIZE = 8
LEAST, SHARE = 5, 0.03
"""Number of known items that make a set a copy. Edited ones must also be this share of it or of the restricted set. In a
smaller set, more than half of the items do."""
LONG, WORDS = 24, 3
"""Minimum number of folded characters of a part, and of uncommon words in a run."""
_STEM, _CHOICES = 20, 24
"""Minimum size of the folded words of a stem (about five), and of all choices of an item, by which the item is known."""
COMMON = frozenset(
    fold(
        "about above after all also among an and any are as at be because been before being below best between both "
        "but by can could did do does during each either following for from had has have having her his how if in "
        "into is it its itself large less many may medium might mini model more most much must no none nor not of on "
        "one only or other our out over per same she should small some such than that the their them then there these "
        "they this those through to true two under up use used using very was we were what when where which while who "
        "whom whose why will with within without would you your answer answers base chat choice choices code correct "
        "false general instruct introduction item likely miscellaneous misc option options pro question questions "
        "statement statements"
    ).split()
)
"""Folded words that tell nothing about an item."""
_NAMING = COMMON.union(fold("data eval example index items line sample split test train validation").split())


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks of a set (sorted strings of `SIZE` bytes each), and its number of items. Marks are never dropped."""

    wholes: bytes = b""
    parts: bytes = b""
    n: int = 0

    def union(self, other: "Marks") -> "Marks":
        """Return the union of both sets of marks."""
        wholes, parts = _cut(self.wholes + other.wholes), _cut(self.parts + other.parts)
        return Marks(b"".join(sorted(wholes)), b"".join(sorted(parts)), max(self.n, other.n))


def mark_items(items: Sequence[Item], key: bytes) -> Marks:
    """Return the marks of a restricted set."""
    wholes, parts, passages = Counter[bytes](), Counter[bytes](), set[bytes]()
    for item in items:
        own_wholes, own_parts = set[bytes](), set(_id_marks(item.id, key))
        for words in _Words.forms(item):
            own_wholes.update(_whole_marks(words, key))
            # A passage that several items share is registered once.
            *new_passages, question = words.stem_parts
            new_passages = [passage for passage in new_passages if b" ".join(passage) not in passages]
            passages |= set(map(b" ".join, new_passages))
            runs = (_run_marks(text, key, apart=True) for text in (*new_passages, question, *words.choices))
            own_parts.update(_choice_marks(words, key), _text_marks(words.choices, key), *runs)
        wholes.update(own_wholes)
        parts.update(own_parts)
    whole_marks, part_marks = (
        b"".join(sorted(m for m, n in counts.items() if n == 1)) for counts in (wholes, parts)
    )
    return Marks(whole_marks, part_marks, len(items))


def sets_copied_by(items: Sequence[Item], key: bytes, sets: Mapping[str, Marks]) -> dict[str, int]:
    """Return the sets that the items copy, perhaps with edits, and the number of items from each of these sets."""
    return {
        name: count.n for name, count in count_known(items, key, sets).items() if count.is_copy(len(items))
    }


def count_known(items: Iterable[Item], key: bytes, sets: Mapping[str, Marks]) -> dict[str, "KnownItems"]:
    """Count the items that match each set exactly or share parts with it."""
    counts = {
        name: KnownItems(_cut(marks.wholes), _cut(marks.parts), marks.n) for name, marks in sets.items()
    }
    for item in items if sets else ():
        wholes, parts = set[bytes](), set[bytes]()
        for words in _Words.forms(item):
            # An ID or the name of a group may be a text, too.
            texts = (*words.stem_parts, words.topic, *words.choices, words.id, words.group)
            parts.update(_choice_marks(words, key), _text_marks(texts, key))
            parts.update(*(_run_marks(text, key) for text in texts))
            wholes.update(_whole_marks(words, key))
        for count in counts.values():
            count.add(wholes, parts)
    return counts


def sets_with_ids(ids: Iterable[str], key: bytes, sets: Mapping[str, Marks]) -> dict[str, int]:
    """Return the sets that contain more than half of some IDs, and how many IDs. IDs such as `test-12` tell nothing."""
    marks = [set(_id_marks(name, key)) for name in ids]
    parts_of_set = {name: _cut(own.parts) for name, own in sets.items()}
    counts = {name: sum(not parts.isdisjoint(mark) for mark in marks) for name, parts in parts_of_set.items()}
    return {name: n for name, n in counts.items() if n >= LEAST and 2 * n > len(marks)}


def sets_quoted_by(text: str, key: bytes, sets: Mapping[str, Marks]) -> list[str]:
    """Return the sets that contain a text as a stem, or that share a long part or a run of uncommon words with it."""
    marks = set[bytes]()
    for words in map(kept_words, {text, decoded(text)}):
        marks.add(_mark(b"stem", b"".join(words), key))
        marks.update(_text_marks([words], key), _run_marks(words, key))
    return [name for name, own in sets.items() if not marks.isdisjoint(_cut(own.wholes) | _cut(own.parts))]


@dataclass(slots=True, repr=False)
class KnownItems:
    """Numbers of known items of one set: `exact` copies, and `edited` copies, which share the `seen` parts."""

    wholes: set[bytes]
    parts: set[bytes]
    registered: int
    exact: int = 0
    edited: int = 0
    seen: set[bytes] = field(default_factory=set)

    def add(self, wholes: set[bytes], parts: set[bytes]) -> None:
        """Count an item with these marks."""
        if not self.wholes.isdisjoint(wholes):
            self.exact += 1
        elif shared_parts := self.parts & parts:
            self.edited += 1
            self.seen |= shared_parts

    @property
    def n(self) -> int:
        """Number of known items. A phrase that many items share counts once."""
        return self.exact + min(self.edited, len(self.seen))

    def is_copy(self, n_items: int) -> bool:
        """Return whether a set of `n_items` items is a copy if it has this many known items."""
        many = self.exact >= LEAST or self.n >= max(LEAST, SHARE * min(n_items, self.registered or n_items))
        return many or 2 * self.exact > n_items or 2 * self.n > max(2, n_items)


@dataclass(frozen=True, slots=True, repr=False)
class _Words:
    """Folded words of an item's passage (if any) and question, of each choice, and of its topic, ID, and group."""

    stem_parts: list[list[bytes]]
    choices: list[list[bytes]]
    topic: list[bytes]
    id: list[bytes]
    group: list[bytes]

    @classmethod
    def forms(cls, item: Item) -> Iterator["_Words"]:
        """Yield the words of an item as it is written and, if this differs, as it is decoded."""
        start = item.sealed.question_at
        stems = [item.stem[:start], item.stem[start:]] if start else [item.stem]
        texts = [item.topic, item.id, item.group, *stems, *item.choices]
        shown = list(map(decoded, texts))
        for form in [texts] if shown == texts else [texts, shown]:
            (topic, name, group), words = map(kept_words, form[:3]), list(map(kept_words, form[3:]))
            yield cls(words[: len(stems)], words[len(stems) :], topic, name, group)


def joined_words(text: str) -> bytes:
    """Return the folded words of a text, joined into one."""
    return b"".join(fold(narrow(text)).split())


def telling_words(text: str) -> list[bytes]:
    """Return the folded words of a text that are not `COMMON`."""
    return [word for word in kept_words(text) if word not in COMMON]


def _cut(marks: bytes) -> set[bytes]:
    return {marks[start : start + SIZE] for start in range(0, len(marks), SIZE)}


def _mark(kind: bytes, text: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(kind + b"\n" + text, key=key, digest_size=SIZE).digest()


def _whole_marks(item: _Words, key: bytes) -> Iterator[bytes]:
    stem = b"".join(b"".join(words) for words in item.stem_parts)
    options = b"\n".join(sorted(map(b"".join, item.choices)))
    for text in {stem, *map(b"".join, (*item.stem_parts, item.topic))}:
        if len(text) >= _STEM:
            yield _mark(b"stem", text, key)
    if len(options) >= _CHOICES:
        yield _mark(b"choices", options, key)
    if len(stem) + len(options) >= _STEM:
        yield _mark(b"item", stem + b"\n" + options, key)


def _choice_marks(item: _Words, key: bytes) -> Iterator[bytes]:
    """Yield the marks of all choices, and of all choices but one, which also recognize items with an additional choice."""
    texts = sorted(map(b"".join, item.choices))
    for choices in (texts, *(texts[:i] + texts[i + 1 :] for i in range(len(texts)))):
        if sum(map(len, choices)) >= LONG:
            yield _mark(b"choices", b"\n".join(choices), key)


def _text_marks(texts: Iterable[list[bytes]], key: bytes) -> Iterator[bytes]:
    yield from (_mark(b"alone", text, key) for text in map(b"".join, texts) if len(text) >= LONG)


def _id_marks(name: str, key: bytes) -> Iterator[bytes]:
    """Yield the mark of an ID. Skip short IDs that contain only numbers, short words, and common words such as `test`."""
    words = re.findall(r"[^\W\d_]{4,}", name)
    if len(name) >= 2 * SIZE or not _NAMING.issuperset(fold(word).strip() for word in words):
        yield _mark(b"id", re.sub(r"[\W_]", "", name.casefold()).encode("utf-8", "replace"), key)


def _run_marks(words: Iterable[bytes], key: bytes, *, apart: bool = False) -> Iterator[bytes]:
    """Yield the marks of runs of uncommon words (words not in `COMMON`). Each run is as short as `LONG` and `WORDS` allow.
    Runs start at every uncommon word, or do not overlap if `apart`."""
    telling = [word for word in words if word not in COMMON]
    start = end = size = 0
    while end < len(telling):
        size += len(telling[end])
        end += 1
        while size >= LONG and end - start >= WORDS:
            yield _mark(b"run", b" ".join(telling[start:end]), key)
            size = 0 if apart else size - len(telling[start])
            start = end if apart else start + 1
