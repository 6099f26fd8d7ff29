"""Labels in JSON and in what models write for it: arrays, objects of arrays, numbered keys, lists of objects.

A span is a candidate if one of its entries is a known label, or if it has exactly as many short strings as there are
nuggets. An array that was cut off keeps the entries that are whole.
"""

import re
from collections.abc import Iterator
from typing import Any

from robustify.freeform.labels.candidate import Candidate, numbered
from robustify.freeform.labels.literal import Bare, Pairs, Reader, Undecodable
from robustify.freeform.labels.sets import LONGEST, LabelSet
from robustify.freeform.labels.spans import Scan

MOST_SPANS = 1000
"""Spans of a reply that are decoded, counted from its end: the last structure is the answer."""
_LISTS = ("labels", "label", "assignments", "answer", "result")
_LABEL_KEYS = ("label", "assignment", "decision", "verdict")
_INDEX_KEYS = ("id", "k", "index", "nugget", "nugget_id")
_NUMBER = re.compile(r"(?:nugget\s*)?#?(\d{1,4})", re.IGNORECASE)
# Bounded runs: a reply may hold a thousand open brackets before a million blanks.
_WHOLE_ENTRY = re.compile(
    r"""\s{0,99}(?:"([^"\\\n]{0,99})"|'([^'\\\n]{0,99})'|\u201c([^\u201d\n]{0,99})\u201d)\s{0,99}(?:,|\Z)"""
)
_CUT_ENTRY = re.compile(r"""\s{0,99}["'\u201c]?[\w -]{0,40}\s{0,99}""")

Entries = list[tuple[int | None, Any]]


def json_candidates(text: str, scan: Scan, expected: int, labels: LabelSet) -> Iterator[Candidate]:
    """Every decoded span that may be the labels, and an array that the end of the reply cut off."""
    reader = Reader(text)
    for span in scan.closed[-MOST_SPANS:][::-1]:
        try:
            entries = _entries(reader.read(span))
        except Undecodable:
            continue
        read = [labels.read(value) if isinstance(value, str) else None for _, value in entries]
        if any(label is not None for label in read) or _plausible(entries, expected):
            indices = numbered([index for index, _ in entries])
            yield Candidate(span.start, span.end, "json", tuple(read), indices)
    cut = _cut_off(text, scan, labels)
    if cut is not None:
        yield cut


def _plausible(entries: Entries, expected: int) -> bool:
    return len(entries) == expected and all(
        isinstance(value, str) and not isinstance(value, Bare) and len(value) <= LONGEST
        for _, value in entries
    )


def _entries(value: Any) -> Entries:
    match value:
        case Pairs():
            return _of_object(value)
        case list():
            return [_entry(element) for element in value]
        case _:
            return []


def _of_object(pairs: Pairs) -> Entries:
    lists = [v for name in _LISTS for v in pairs.all(name) if isinstance(v, list | Pairs)]
    if len(lists) == 1:
        return _entries(lists[0])
    if lists:
        return []
    by_number = [(index_of(name), value) for name, value in pairs]
    if pairs and all(index is not None for index, _ in by_number):
        return by_number
    entry = _entry(pairs)
    return [entry] if entry[1] is not None else []


def _entry(element: Any) -> tuple[int | None, Any]:
    """One entry of a list: a label, or an object with a label and maybe a number."""
    if not isinstance(element, Pairs):
        return None, element if isinstance(element, str) else None
    given = [value for name in _LABEL_KEYS for value in element.all(name)]
    numbers = [index_of(value) for name in _INDEX_KEYS for value in element.all(name)]
    index = next((number for number in numbers if number is not None), None)
    # Two labels that differ are no label: which one was meant cannot be told.
    return index, given[0] if given and all(g == given[0] for g in given) else None


def index_of(value: Any) -> int | None:
    """The number that `3`, `"3"`, `"#3"` or `"nugget 3"` gives, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 10_000 else None
    found = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) and len(value) < 20 else None
    return int(found[1]) if found else None


def _cut_off(text: str, scan: Scan, labels: LabelSet) -> Candidate | None:
    """An array open to the end of the reply whose whole entries are all labels."""
    for start in reversed(scan.left_open[-MOST_SPANS:]):
        if text[start] != "[":
            continue
        read: list[str | None] = []
        place = start + 1
        while (entry := _WHOLE_ENTRY.match(text, place)) is not None and entry.end() > place:
            label = labels.read(next(part for part in entry.groups() if part is not None))
            if label is None:
                return None
            read.append(label)
            place = entry.end()
        if read and _CUT_ENTRY.fullmatch(text, place):
            return Candidate(start, len(text), "json", tuple(read), None, truncated=True)
    return None
