"""Names that may be published from a restricted run: names without any word of an item, and names in the manifest."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from robustify.base.folded_words import decoded
from robustify.items.item import Item
from robustify.restricted.item_marks import joined_words, telling_words

LONGEST, MOST_WORDS = 60, 8
"""Maximum number of characters and words in a name. A longer name may be text and is replaced."""
LONG = 8
"""Minimum size of a word or name that is searched for inside others."""
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAME = re.compile(r"[!-~]{1,80}")
_SIZE = re.compile(r"\b\d+[bkm]?\b", re.IGNORECASE)
"""Size or version in the name of a model."""


@dataclass(frozen=True, slots=True, repr=False)
class ItemWords:
    """Folded words of all stems and choices, their texts without spaces, and the names that the manifest lists."""

    words: frozenset[bytes] = frozenset()
    listed: Collection[str] = ()
    texts: bytes = b""

    @classmethod
    def of(cls, items: Iterable[Item], listed: Collection[str]) -> "ItemWords":
        """Return the words of these items."""
        written = {text for item in items for text in (item.stem, *item.choices)}
        texts = sorted(written.union(map(decoded, written)))
        return cls(frozenset().union(*map(_words, texts)), listed, b" ".join(map(joined_words, texts)))

    def shown(self, name: str, instead: str) -> str:
        """Return a name if it may be published, and otherwise `instead`."""
        is_name = len(name) <= LONGEST and len(name.split()) <= MOST_WORDS and name.isprintable()
        return name if is_name and (name in self.listed or self._lack(name)) else instead

    def model(self, name: str, number: int) -> str:
        """Return the name of a model if it may be published, and otherwise `model` and its number."""
        # A name that is not a single printable word might be text.
        fit = _NAME.fullmatch(name) and (name in self.listed or self._lack(_SIZE.sub(" ", name)))
        return name if fit else f"model {number}"

    def models(self, names: Iterable[str]) -> Mapping[str, str]:
        """Map each model name to a name that may be published."""
        return {name: self.model(name, i) for i, name in enumerate(names, 1)}

    def _lack(self, name: str) -> bool:
        """Return whether items lack the name, as it is written and as it is decoded."""
        return all(map(self._lack_form, {name, decoded(name)}))

    def _lack_form(self, name: str) -> bool:
        """Return whether items lack the name: the whole name without spaces, each word, and each long word inside it."""
        bare_name, words = joined_words(name), _words(name) | _words(_INNER_CAPITAL.sub(" ", name))
        inside = len(bare_name) >= LONG and bare_name in self.texts
        return not (
            inside
            or words & self.words
            or any(len(word) >= LONG and word in bare_name for word in self.words)
        )


def _words(text: str) -> set[bytes]:
    # A plural is the same word. Small letters of other scripts look like others than the capitals do.
    forms = (text,) if text.isascii() else (text, text.casefold())
    return {word.removesuffix(b"s") for form in forms for word in telling_words(form)}
