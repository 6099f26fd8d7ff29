"""One multiple-choice question, checked at birth. Its text stays inside the process: repr shows the id alone."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from robustify.errors import ItemError

FEWEST, MOST = 2, 26


@dataclass(frozen=True, slots=True, repr=False)
class Item:
    """One question.

    `choices` are the options in the benchmark's own order, `key` the index of the right one from 0,
    `topic` the benchmark's own category ("" where it has none), `group` names what several items share
    (a passage): intervals are clustered by it ("" where the item stands alone).

    Raises:
        ItemError: fewer than 2 or more than 26 choices, or a key out of range.
    """

    id: str
    stem: str
    choices: tuple[str, ...]
    key: int
    topic: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        n = len(self.choices)
        if not self.id:
            raise ItemError("id is empty; expected a name that no other item has")
        if not self.stem.strip():
            raise ItemError("stem is empty; expected the text of the question")
        if not FEWEST <= n <= MOST:
            raise ItemError(f"{n} choice{'s' if n != 1 else ''}; expected {FEWEST} to {MOST}")
        if isinstance(self.key, bool) or not isinstance(self.key, int):
            raise ItemError(f"key is a {type(self.key).__name__}; expected a whole number from 0 to {n - 1}")
        if not 0 <= self.key < n:
            raise ItemError(f"key {self.key}, but only {n} choices (0 to {n - 1})")

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
        choices = tuple(self.choices[i] for i in order)
        return replace(self, choices=choices, key=list(order).index(self.key))

    def key_text_repeated(self) -> bool:
        """Whether another choice has the key's text, so that no text scoring can tell them apart."""
        texts = [unspaced(c) for c in self.choices]
        return texts.count(texts[self.key]) > 1


def unspaced(text: str) -> str:
    """Text as a model may tell it apart: NFC, white space collapsed, case kept ("Rr" is not "RR")."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def folded(text: str) -> str:
    """Text as near-duplicates are compared: NFKC, case folded, white space collapsed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
