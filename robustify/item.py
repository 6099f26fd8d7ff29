"""One multiple-choice question, checked when it is made. Its text stays in the process: repr shows the id alone.

The text is sealed (`redaction`): `asdict`, `vars`, pickling and JSON of an item, or of anything that holds items, give
an error or `<text redacted>`. The properties `stem` and `choices` are the one place that opens it.
"""

import gc
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import TypeVar

from robustify.errors import ItemError
from robustify.redaction import ItemText, KeptHere

T = TypeVar("T")
FEWEST, MOST = 2, 26


@dataclass(frozen=True, slots=True, repr=False, init=False)
class Item(KeptHere):
    """One question.

    `choices` are the options in the benchmark's own order, `key` the index of the right one from 0,
    `topic` the benchmark's own category ("" where it has none), `group` names what several items share
    (a passage): intervals are clustered by it ("" where the item stands alone). `sealed` is how
    `dataclasses.replace` hands on the text that it does not change; no other caller gives it.

    Raises:
        ItemError: fewer than 2 or more than 26 choices, or a key out of range.
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
        sealed: ItemText | None = None,
    ) -> None:
        if sealed is None or stem is not None or choices is not None:
            old_stem, old_choices = sealed.open_text() if sealed is not None else ("", ())
            new_stem = old_stem if stem is None else stem
            at = sealed.question_at if sealed is not None and stem is None else 0
            sealed = ItemText(new_stem, old_choices if choices is None else choices, at)
        _check(id, sealed, key)
        keep = object.__setattr__
        keep(self, "id", id)
        keep(self, "key", key)
        keep(self, "topic", topic)
        keep(self, "group", group)
        keep(self, "sealed", sealed)

    @property
    def stem(self) -> str:
        """The question without its choices: open text."""
        return self.sealed.open_text()[0]

    @property
    def question(self) -> str | None:
        """The stem without the passage before it: open text. None if there is no passage."""
        at = self.sealed.question_at
        return self.stem[at:] if at else None

    @property
    def choices(self) -> tuple[str, ...]:
        """The options: open text."""
        return self.sealed.open_text()[1]

    def __repr__(self) -> str:
        return f"Item(id={self.id!r}, {len(self.choices)} choices)"

    @property
    def k(self) -> int:
        """The number of choices."""
        return len(self.choices)

    def permuted(self, order: Sequence[int]) -> "Item":
        """The same item with choice `order[j]` at place j; the key follows its choice."""
        if sorted(order) != list(range(self.k)):
            raise ItemError(f"order {tuple(order)} is no permutation of {self.k} choices")
        choices = self.choices
        moved = tuple(choices[i] for i in order)
        key = list(order).index(self.key)
        return Item(self.id, None, moved, key, self.topic, self.group, self.sealed)

    def key_text_repeated(self) -> bool:
        """Whether another choice has the key's text, so that no text scoring can distinguish them."""
        texts = [unspaced(c) for c in self.choices]
        return texts.count(texts[self.key]) > 1


def _check(id: str, text: ItemText, key: int) -> None:
    stem, choices = text.open_text()
    n = len(choices)
    if not id:
        raise ItemError("id is empty; expected a name that no other item has")
    if not stem.strip():
        raise ItemError("stem is empty; expected the text of the question")
    if not FEWEST <= n <= MOST:
        raise ItemError(f"{n} choice{'s' if n != 1 else ''}; expected {FEWEST} to {MOST}")
    if isinstance(key, bool) or not isinstance(key, int):
        raise ItemError(f"key is a {type(key).__name__}; expected a whole number from 0 to {n - 1}")
    if not 0 <= key < n:
        raise ItemError(f"key {key}, but only {n} choices (0 to {n - 1})")


def unspaced(text: str) -> str:
    """Text as a model may distinguish it: NFC, white space collapsed, case kept ("Rr" is not "RR")."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def folded(text: str) -> str:
    """Text as near-duplicates are compared: NFKC, case folded, white space collapsed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def kept_for_last(work: "Callable[[Sequence[Item]], T]") -> "Callable[[Sequence[Item]], T]":
    """`work`, with its answer for the last items kept: probe, ranking and audit ask for that of the same ones.

    Everybody gets the same answer, so an array must be read-only. It stays until other items are asked about.
    """
    kept = lru_cache(maxsize=1)(work)
    return wraps(work)(lambda items: kept(tuple(items)))


@contextmanager
def no_collector() -> Iterator[None]:
    """Without Python's garbage collector: where millions of rows all stay alive it takes a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
