"""Description of a benchmark: counts, defects with line numbers, and notes on its format."""

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from html.entities import html5
from math import fsum
from typing import Any

from robustify.base.errors import Notice, counted, notice_code
from robustify.base.odd_characters import hidden_characters
from robustify.base.texts import CONTROLS, EDGES, edges, folded, is_blank, unspaced
from robustify.items.item import Item
from robustify.items.packed import repeats
from robustify.reading.loaders.answer_keys import NUMBERED
from robustify.reading.loaders.listed_options import BY_LABEL
from robustify.reading.loaders.loaded import Defect, Loaded
from robustify.reading.loaders.published import OWN
from robustify.reading.loaders.rows import line_spans
from robustify.reading.marks.labelling import split_at_equals, split_labels

_FEWEST_FOR_NOTE = 20
_FEWEST_OF_OURS = 4
"""Least number of items in robustify's layout for a note that no key is 0."""
_CONFLICT, _OUTER = "conflicting_key", "outer_space"
_PLACEHOLDERS = frozenset(
    ["n/a", "na", "nan", "none", "null", "nil", "-", "--", "---", "–", "—", "...", "…", "?", "tbd"]
)
"""Options that stand for no option, in lower case."""
_ENTITY = re.compile(r"&(#[0-9]{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});", re.IGNORECASE)
_MARK = re.compile(r"\s*[*✓✔]|.*(?:[✓✔]|[(\[](?:correct|right)[)\]])\s*$", re.IGNORECASE | re.DOTALL)
"""Option with a mark that tools for quizzes write before or behind the right option."""
_ODD = {
    "unlabelled": Notice(
        "an option without a label beside options with labels (perhaps a line that is not an option)",
        code="option-without-label",
    ),
    "placeholders": Notice(
        "placeholders such as N/A, None, or - as options, which lower chance although no one picks them",
        code="placeholder-options",
    ),
    "entities": Notice("HTML entities such as &amp;, which models see unchanged", code="html-entities"),
    "marks": Notice(
        "a right option with a mark such as * or (correct), which gives the key away", code="marked-options"
    ),
    "labels": Notice(
        'options that begin with labels such as "a) " (models that answer by letter see a second label)',
        code="labelled-options",
    ),
}


def find_defects(items: Sequence[Item], lines: Sequence[int], files: Sequence[str]) -> tuple[Defect, ...]:
    """Return all defects, in the order of the items. `lines` and `files` locate each item.

    Choices are the same if only their white space differs. Their case counts, because in genetics and logic it
    distinguishes choices. Stems are the same even if their case differs."""
    faults: list[tuple[int, str, int]] = []
    # Keep hashes, because the texts of a million items take a gigabyte.
    stems, wholes, key_texts = array("q"), array("q"), array("q")
    for i, item in enumerate(items):
        choices = item.choices
        ascii_ = all(map(str.isascii, choices))
        texts = [" ".join(choice.split()) for choice in choices] if ascii_ else [*map(unspaced, choices)]
        # Nearly always, the texts are printable ASCII without outer space, where only an empty choice is blank.
        plain = ascii_ and _is_plain(item.stem, choices, texts)
        if not plain or len(set(texts)) < len(texts) or "" in texts or is_blank(item.stem):
            faults += [(i, kind, -1) for kind in _kinds(item, texts, plain)]
        stems.append(hash(folded(item.stem)))
        wholes.append(hash((stems[-1], *sorted(texts))))
        key_texts.append(hash(texts[item.key]))
    faults += [(i, "repeated_stem", before) for i, before in repeats(stems)]
    conflicts: set[int] = set()
    for i, before in repeats(wholes):
        if before in conflicts or key_texts[before] != key_texts[i]:
            faults += [(index, _CONFLICT, before + i - index) for index in sorted({before, i} - conflicts)]
            conflicts |= {before, i}
    faults.sort(key=lambda fault: fault[0])
    firsts = [lines[other] if other >= 0 else 0 for *_, other in faults]
    return tuple(
        Defect(kind, lines[i], items[i].id, files[i], first)
        for (i, kind, _), first in zip(faults, firsts, strict=True)
    )


def describe(loaded: Loaded) -> dict[str, object]:
    """Return the counts, defects, and notes of a benchmark as a JSON-serializable object without item text.

    Keys: `name`, `layout`, `sha256`, `n_items`, `n_quarantined`, `option_counts` {number of choices: items},
    `key_positions` {index from 0: items}, `chance_accuracy` (mean of 1/k), `topics` {topic: items}, `defects` {kind: {n,
    at: [{line, item, file, first}]}}, `quarantined` [{line, reason, file, code}], `notes` [sentence], `note_codes`."""
    by_kind: dict[str, list[dict[str, object]]] = {}
    for d in loaded.defects:
        by_kind.setdefault(d.kind, []).append(
            {"line": d.line, "item": d.item, "file": d.file} | ({"first": d.first} if d.first else {})
        )
    n, kinds = len(loaded.items), Counter((item.k, item.key, item.topic) for item in loaded.items)
    options, keys, topics = (_summed(kinds, part) for part in range(3))
    return {
        "name": loaded.name,
        "layout": loaded.layout,
        "sha256": loaded.sha256,
        "n_items": n,
        "n_quarantined": len(loaded.quarantined),
        "option_counts": _sorted(options),
        "key_positions": _sorted(keys),
        "chance_accuracy": fsum(of / k for k, of in options.items()) / n if n else None,
        "topics": dict(sorted(topics.items())),
        "defects": {kind: {"n": len(places), "at": places} for kind, places in sorted(by_kind.items())},
        "quarantined": [asdict(row) | {"code": notice_code(row.reason)} for row in loaded.quarantined],
        "notes": (lines := notes(loaded)),
        "note_codes": [line.code for line in lines],
    }


def notes(loaded: Loaded) -> list[Notice]:
    """Return notes on unusual properties of a benchmark's format, such as keys that are never 0."""
    n, files = len(loaded.items), loaded.recognised
    lines: list[Notice] = []
    first = loaded.items[0].key if n else 0
    if n >= _FEWEST_FOR_NOTE and all(item.key == first for item in loaded.items):
        text = (
            f"every key is at position {first}: position heuristics mean nothing in this order of "
            "the choices, and a screen that keeps this order would see the position of the key"
        )
        lines.append(Notice(text, code="constant-key-position"))
    from_0 = [file.layout for file in files if "number from 0" in file.key_forms]
    few = n < _FEWEST_OF_OURS and from_0 == [OWN]
    if from_0 and not few and all(item.key for item in loaded.items):
        text = (
            "no key is 0: if keys count from 1, every key is read one choice too late. Set `fields: {key_is: number}` "
            "if they do, or `fields: {key_is: index}` if they count from 0."
        )
        lines.append(Notice(text, code="no-key-is-zero"))
    numbered = any(NUMBERED in file.key_forms for file in files)
    if numbered and all(item.key < item.k - 1 for item in loaded.items):
        text = (
            "no key is the number of the last option: if keys count from 0, every key is read one choice too early. Set "
            "`fields: {key_is: index}` if they do, or `fields: {key_is: label}` if they do not."
        )
        lines.append(Notice(text, code="last-option-never-key"))
    outer = {defect.item for defect in loaded.defects if defect.kind == _OUTER}
    if spaced := [item for item in loaded.items if item.id in outer] if outer else []:
        ends = [[edges(choice) for choice in item.choices] for item in spaced]
        alone = sum(texts.count(texts[item.key]) == 1 for texts, item in zip(ends, spaced, strict=True))
        some = f"in {alone:,} of them, no other option has the key's white space, so it alone can give the key away"
        text = (
            f"{counted(len(spaced), 'item')} with white space at the ends of some options"
            f"{f'; {some}' if alone else ''}. `robustify mend` takes it off."
        )
        lines.append(Notice(text, code="outer-space"))
    lines += odd_options(loaded.items, loaded.lines)
    if cuts := {file.cut for file in files} - {"", "\n", BY_LABEL}:
        text = (
            f"options come in one cell and were split at {' and '.join(sorted(cuts))}: if an option contains this "
            "separator, give each option a column"
        )
        lines.append(Notice(text, code="options-split"))
    for file in files:
        prefix = f"{file.file}: " if len(files) > 1 else ""
        lines += [Notice(prefix + note, code=notice_code(note)) for note in file.unread]
    if labelled := sum(file.labelled for file in files):
        text = (
            f'{counted(labelled, "row")} had labels such as "(A) " inside the options. These were removed, because '
            "robustify labels the options in the order in which it shows them."
        )
        lines.append(Notice(text, code="labels-removed"))
    return lines


def odd_options(items: Sequence[Item], lines: Sequence[int] = ()) -> Iterator[Notice]:
    """Yield notes on options that may not be real options, or that contain HTML entities or labels. With the `lines` of the
    items, a note names the few items without labels."""
    kinds = Counter(kind for item in items for kind in _written_oddly(item))
    for kind, odd in sorted(kinds.items()):
        unlabelled = []
        if 2 * odd > len(items) and kind == "labels":
            pairs = zip(lines, items, strict=False)
            unlabelled = [line for line, item in pairs if kind not in _written_oddly(item)]
        others = f" (not on line {line_spans(unlabelled)})" if unlabelled else ""
        have = "has" if odd == 1 else "have"
        text = f"{odd:,} of {counted(len(items), 'item')} {have} {_ODD[kind]}{others}"
        yield Notice(text, code=_ODD[kind].code)


def _is_plain(stem: str, choices: Sequence[str], texts: Sequence[str]) -> bool:
    text = "".join((stem, *choices))
    return text.isascii() and text.isprintable() and (*texts,) == choices


def _kinds(item: Item, texts: Sequence[str], plain: bool) -> Iterator[str]:
    if len(set(texts)) < len(texts):
        yield "repeated_choice"
        if texts.count(texts[item.key]) > 1:
            yield "repeated_key_text"
    if "" in texts if plain else any(map(is_blank, texts)):
        yield "empty_choice"
    if (
        not plain
        and any(choice.strip(EDGES) != choice for choice in item.choices)
        and len({edges(choice) for choice in item.choices if not is_blank(choice)}) > 1
    ):
        yield _OUTER
    if not plain and hidden_characters(item.choices):
        yield "odd_character"
    if is_blank(item.stem):
        yield "blank_stem"
    if not plain and CONTROLS.search("".join((item.stem, *item.choices))):
        yield "control_character"


def _written_oddly(item: Item) -> Iterator[str]:
    choices = item.choices
    if split_labels(choices) or split_at_equals(choices):
        yield "labels"
    elif len(choices) > 3 and split_labels(choices[:-1]):
        yield "unlabelled"
    texts = [choice.strip().casefold() for choice in choices]
    none = [text for text in texts if text.startswith("none of these")]
    if not _PLACEHOLDERS.isdisjoint(texts) or len(set(none)) < len(none):
        yield "placeholders"
    if _MARK.match(choices[item.key]) and sum(_MARK.match(choice) is not None for choice in choices) == 1:
        yield "marks"
    text = "\n".join((item.stem, *choices))
    names = _ENTITY.findall(text) if "&" in text else ()
    if any(name.startswith("#") or f"{name};" in html5 for name in names):
        yield "entities"


def _summed(kinds: Mapping[tuple[Any, ...], int], part: int) -> Counter[Any]:
    """Sum the counts of item kinds, which are tuples, for each value at index `part`."""
    out = Counter[Any]()
    for kind, n in kinds.items():
        out[kind[part]] += n
    return out


def _sorted(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(number): n for number, n in sorted(counts.items())}
