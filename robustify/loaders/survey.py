"""What is in a benchmark, counted item by item: its make, its defects by line, and notes on how it is written.

Texts are compared by 64-bit hashes, so that a million items are counted without keeping one of them.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html.entities import html5
from math import fsum

from robustify.item import Item, folded, unspaced
from robustify.loaders.answer_keys import own_labels
from robustify.loaders.loaded import Defect, Loaded, Quarantined, Recognised

FEWEST_FOR_NOTE = 20
FEWEST_WITHOUT_FIRST = 4
"""Items of which none has its first choice as key, before that is worth a note."""
CONFLICT = "conflicting_key"
_UNSEEN = re.compile(
    r"[\s\0-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f"
    r"\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]*"
)
"""Blanks of all scripts, and characters that show nothing (Unicode: White_Space, Default_Ignorable, U+2800)."""
_CONTROLS = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of the text (Unicode: Cc without blanks, Bidi_Control)."""
_ENTITY = re.compile(r"&(#[0-9]{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});", re.IGNORECASE)


class Survey:
    """Counts of items that are added in their order; `lines` and `files` say where each starts."""

    def __init__(self) -> None:
        self.n = 0
        self._options: Counter[int] = Counter()
        self._keys: Counter[int] = Counter()
        self._topics: Counter[str] = Counter()
        self._odd: Counter[str] = Counter()
        self._defects: list[tuple[int, Defect]] = []
        self._stems: set[int] = set()
        self._first: dict[int, int] = {}
        """By the hash of stem and choices: the number of the first such item."""
        self._conflicts: set[int] = set()
        self._key_texts = array("q")
        self._lines = array("q")
        self._ids: list[str] = []
        self._files: list[str] = []

    def add(self, items: Iterable[Item], lines: Iterable[int], files: Iterable[str]) -> None:
        """Count these items too."""
        for item, line, file in zip(items, lines, files, strict=True):
            self._options[item.k] += 1
            self._keys[item.key] += 1
            self._topics[item.topic] += 1
            self._odd.update(_written_oddly(item))
            self._lines.append(line)
            self._ids.append(item.id)
            self._files.append(file)
            self._compare(item)
            self.n += 1

    def _compare(self, item: Item) -> None:
        texts = [unspaced(choice) for choice in item.choices]
        for kind in _kinds(item, texts):
            self._found(kind, self.n)
        stem = hash(folded(item.stem))
        if stem in self._stems:
            self._found("repeated_stem", self.n)
        self._stems.add(stem)
        self._key_texts.append(hash(texts[item.key]))
        first = self._first.setdefault(hash((stem, *sorted(texts))), self.n)
        if first in self._conflicts or self._key_texts[first] != self._key_texts[self.n]:
            for one in {first, self.n} - self._conflicts:
                self._conflicts.add(one)
                self._found(CONFLICT, one)

    def _found(self, kind: str, number: int) -> None:
        self._defects.append(
            (number, Defect(kind, self._lines[number], self._ids[number], self._files[number]))
        )

    @property
    def defects(self) -> tuple[Defect, ...]:
        """All defects, in the order of the items.

        Choices are the same when they differ in white space alone (in genetics and logic, case tells choices
        apart); stems also when they differ in case.
        """
        return tuple(defect for _, defect in sorted(self._defects, key=lambda one: one[0]))

    def description(
        self,
        name: str,
        layout: str,
        sha256: str,
        quarantined: Sequence[Quarantined],
        read: Sequence[Recognised],
    ) -> dict[str, object]:
        """The benchmark in counts, as a JSON-able object: numbers, ids and lines, never a text.

        Keys: `name`, `layout`, `sha256`, `n_items`, `n_quarantined`, `option_counts` {number of choices: items},
        `key_positions` {index from 0: items}, `chance_accuracy` (mean of 1/k), `topics` {topic: items}, `defects`
        {kind: {n, at: [{line, item, file}]}}, `quarantined` [{line, reason, file}], `notes` [sentence].
        """
        by_kind: dict[str, list[dict[str, object]]] = {}
        for d in self.defects:
            by_kind.setdefault(d.kind, []).append({"line": d.line, "item": d.item, "file": d.file})
        return {
            "name": name,
            "layout": layout,
            "sha256": sha256,
            "n_items": self.n,
            "n_quarantined": len(quarantined),
            "option_counts": _sorted(self._options),
            "key_positions": _sorted(self._keys),
            "chance_accuracy": fsum(n / k for k, n in self._options.items()) / self.n if self.n else None,
            "topics": dict(sorted(self._topics.items())),
            "defects": {kind: {"n": len(at), "at": at} for kind, at in sorted(by_kind.items())},
            "quarantined": [{"line": q.line, "reason": q.reason, "file": q.file} for q in quarantined],
            "notes": [*self._notes(read)],
        }

    def _notes(self, read: Sequence[Recognised]) -> Iterator[str]:
        if self.n >= FEWEST_FOR_NOTE and len(self._keys) == 1:
            yield (
                f"every key is at position {next(iter(self._keys))}: position heuristics mean nothing on this order of "
                "the choices, and a screen that keeps this order would see the key's place"
            )
        if (
            self.n >= FEWEST_WITHOUT_FIRST
            and 0 not in self._keys
            and any("number from 0" in one.key_forms for one in read)
        ):
            yield (
                "no key is 0: if the file counts its choices from 1, every key is read one choice too late; say "
                "`fields: {key_is: number}`, or `fields: {key_is: index}` if it counts from 0"
            )
        for kind, n in sorted(self._odd.items()):
            yield f"{n:,} of {self.n:,} items {_ODD[kind]}"
        if labelled := sum(one.labelled for one in read):
            yield (
                f'{labelled:,} rows have labels inside their options such as "(A) ", which were taken off: ours are '
                "written before the options in the order in which they are shown"
            )


_ODD = {
    "entities": "hold HTML entities such as &amp;, which a model is shown as they are",
    "labels": 'have options that begin with labels of their own such as "a) ", which stand beside ours in views by letter',
}


def find_defects(items: Sequence[Item], lines: Sequence[int], files: Sequence[str]) -> tuple[Defect, ...]:
    """All defects of these items, as `Survey.defects`."""
    (survey := Survey()).add(items, lines, files)
    return survey.defects


def describe(loaded: Loaded) -> dict[str, object]:
    """A loaded benchmark in counts, as `Survey.description`."""
    (survey := Survey()).add(loaded.items, loaded.lines, loaded.files)
    return survey.description(
        loaded.name, loaded.layout, loaded.sha256, loaded.quarantined, loaded.recognised
    )


def unseen(text: str) -> bool:
    """Whether nothing of a text shows: blanks of any script, and characters without a form of their own."""
    return not (text[:1].isascii() and text[:1].isalnum()) and _UNSEEN.fullmatch(text) is not None


def _kinds(item: Item, texts: Sequence[str]) -> Iterator[str]:
    if len(set(texts)) < len(texts):
        yield "repeated_choice"
        if texts.count(texts[item.key]) > 1:
            yield "repeated_key_text"
    if any(map(unseen, texts)):
        yield "empty_choice"
    if unseen(item.stem):
        yield "blank_stem"
    if _CONTROLS.search("\n".join((item.stem, *item.choices))):
        yield "control_character"


def _written_oddly(item: Item) -> Iterator[str]:
    choices = item.choices
    if own_labels(choices):
        yield "labels"
    whole = "\n".join((item.stem, *choices))
    names = _ENTITY.findall(whole) if "&" in whole else ()
    if any(name.startswith("#") or f"{name};" in html5 for name in names):
        yield "entities"


def _sorted(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(number): n for number, n in sorted(counts.items())}
