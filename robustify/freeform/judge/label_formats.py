"""Structures of a reply that may be the labels: JSON and what models write for it, Markdown lists, lines.

A structure is a candidate if one of its entries is a known label; a JSON span also if it has exactly as many short
strings as there are nuggets. A list keeps its order or its numbers. An item of a list is a label alone, a label before
a separator and a remark, or a label after one; two different labels in one item are none. An array that was cut off
keeps the entries that are whole.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from robustify.freeform.answer_text import last_match
from robustify.freeform.judge.spans import MOST_SPANS, Pairs, Reader, Scan, Undecodable
from robustify.freeform.judge.verdicts import LONGEST, SUPPORT3

Format = Literal["json", "markdown", "csv"]
FORMATS: tuple[Format, ...] = ("json", "markdown", "csv")
"""In the order in which a tie between two structures at one place is broken."""
Entry = tuple[int | None, Any]
"""One entry of a list: the number that it carries, and what may be its label."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Characters `start` to `end` read as labels; None where an entry is no known label.

    `indices` are the numbers that the entries carry, from 1, None where an entry carries none; the whole is None
    where the structure numbers nothing. `truncated`: cut off before its end, the incomplete last entry dropped.
    """

    start: int
    end: int
    format: Format
    labels: tuple[str | None, ...]
    indices: tuple[int | None, ...] | None = None
    truncated: bool = False


def numbered(indices: Sequence[int | None]) -> tuple[int | None, ...] | None:
    """The indices of a structure, or None where no entry carries one."""
    return tuple(indices) if any(i is not None for i in indices) else None


_LISTS = ("labels", "label", "assignments", "answer", "result")
_LABEL_KEYS = ("label", "assignment", "decision", "verdict")
_INDEX_KEYS = ("id", "k", "index", "nugget", "nugget_id")
_NUMBER = re.compile(r"(?:nugget\s*)?#?(\d{1,4})", re.IGNORECASE)
# Bounded runs: a reply may hold a thousand open brackets before a million blanks.
_WHOLE_ENTRY = re.compile(
    r"""\s{0,99}(?:"([^"\\\n]{0,99})"|'([^'\\\n]{0,99})'|\u201c([^\u201d\n]{0,99})\u201d)\s{0,99}(?:,|\Z)"""
)
_CUT_ENTRY = re.compile(r"""\s{0,99}["'\u201c]?[\w -]{0,40}\s{0,99}""")


def json_candidates(text: str, scan: Scan, expected: int) -> Iterator[Candidate]:
    """Every decoded span that may be the labels, and an array that the end of the reply cut off."""
    reader = Reader(text)
    for span in scan.closed[-MOST_SPANS:][::-1]:
        try:
            entries = _entries(reader.read(span))
        except Undecodable:
            continue
        read = [SUPPORT3.read(value) if isinstance(value, str) else None for _, value in entries]
        if any(label is not None for label in read) or _plausible(entries, expected):
            indices = numbered([index for index, _ in entries])
            yield Candidate(span.start, span.end, "json", tuple(read), indices)
    cut = _cut_off(text, scan)
    if cut is not None:
        yield cut


def _plausible(entries: list[Entry], expected: int) -> bool:
    return len(entries) == expected and all(isinstance(v, str) and len(v) <= LONGEST for _, v in entries)


def _entries(value: Any) -> list[Entry]:
    match value:
        case Pairs():
            return _of_object(value)
        case list():
            return [_entry(element) for element in value]
        case _:
            return []


def _of_object(pairs: Pairs) -> list[Entry]:
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


def _entry(element: Any) -> Entry:
    """One entry of a list: a label, or an object with a label and maybe a number."""
    if not isinstance(element, Pairs):
        return None, element if isinstance(element, str) else None
    given = [value for name in _LABEL_KEYS for value in element.all(name)]
    numbers = [index_of(value) for name in _INDEX_KEYS for value in element.all(name)]
    index = next((number for number in numbers if number is not None), None)
    # Two labels that differ are no label: which one was meant is not known.
    return index, given[0] if given and all(g == given[0] for g in given) else None


def index_of(value: Any) -> int | None:
    """The number that `3`, `"3"`, `"#3"` or `"nugget 3"` gives, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 10_000 else None
    found = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) and len(value) < 20 else None
    return int(found[1]) if found else None


def _cut_off(text: str, scan: Scan) -> Candidate | None:
    """An array open to the end of the reply whose whole entries are all labels."""
    for start in reversed(scan.left_open[-MOST_SPANS:]):
        if text[start] != "[":
            continue
        read: list[str | None] = []
        place = start + 1
        while (entry := _WHOLE_ENTRY.match(text, place)) is not None and entry.end() > place:
            label = SUPPORT3.read(next(part for part in entry.groups() if part is not None))
            if label is None:
                return None
            read.append(label)
            place = entry.end()
        if read and _CUT_ENTRY.fullmatch(text, place):
            return Candidate(start, len(text), "json", tuple(read), truncated=True)
    return None


LONGEST_LINE = 1000
_ITEM = re.compile(
    r"\s*(?P<mark>[-*+\u2022]\s+)?(?:[*_`]*(?:(?:nugget|item|n)\s*#?\s*)?(?P<number>\d{1,4})[*_`]*\s{0,3}"
    r"(?:[.):]|\s[-\u2013\u2014])[*_`]*\s+)?(?P<item>\S.*)",
    re.IGNORECASE,
)
_FIRST_SEPARATOR = re.compile(r":\s|:$|\s[-\u2013\u2014]+\s|\s*(?:->|=>|\u2192|\u21d2)\s*|\s*\(")
_LAST_SEPARATOR = re.compile(r":|\s[-\u2013\u2014]+\s|->|=>|\u2192|\u21d2|\(")
_INTRO = re.compile(
    r"[\s*_`#]*(?:the\s+)?(?:final\s+)?(?:labels?|answers?|results?|output)[*_`]*\s*:[*_`]*\s*", re.I
)
_NOT_A_REMARK = {"none", "no", "false", "0", "n/a", "na", "not"}
_NO_ITEM = "#"


def line_candidates(text: str) -> Iterator[Candidate]:
    """Every block of list items, line of labels separated by commas, and line that is one label."""
    lines, start = [], 0
    for line in text.split("\n"):
        lines.append((start, line))
        start += len(line) + 1
    yield from _blocks(lines)
    for start, line in lines:
        if SUPPORT3.hint.search(line):
            yield from _separated(start, line)


def _blocks(lines: Sequence[tuple[int, str]]) -> Iterator[Candidate]:
    """Maximal runs of items of one kind that have a label; one blank line inside is allowed."""
    kind, start, end, blanks = "", 0, 0, 0
    read: list[str | None] = []
    indices: list[int | None] = []
    for place, line in [*lines, (0, _NO_ITEM)]:
        if not line or line.isspace():
            blanks += 1
            continue
        found, label, index = _item(line)
        if read and (found != kind or blanks > 1):
            # Labels on lines of their own are a list that no template asks for; one alone is a line of one label.
            if any(read) and (kind != "=" or len(read) == 1):
                yield Candidate(
                    start, end, "csv" if kind == "=" else "markdown", tuple(read), numbered(indices)
                )
            read, indices = [], []
        blanks = 0
        if not found:
            continue
        if not read:
            kind, start = found, place
        end = place + len(line.rstrip())
        read.append(label)
        indices.append(index)


def _item(line: str) -> tuple[str, str | None, int | None]:
    """The kind of a list item, its label and its number; an empty kind for a line that is no item."""
    if len(line) > LONGEST_LINE:
        return "", None, None
    # What cannot hold a label is not read: a reply may have a hundred thousand lines.
    hinted = SUPPORT3.hint.search(line) is not None
    found = _ITEM.match(line)
    if found is not None and (found["mark"] or found["number"]):
        label = item_label(found["item"]) if hinted else None
        return "*" if found["mark"] else "1", label, int(found["number"]) if found["number"] else None
    whole = SUPPORT3.read(line) if hinted else None
    return ("=", whole, None) if whole else ("", None, None)


def item_label(item: str) -> str | None:
    """The label of a list item: alone, before a remark, or after one; None where two differ or a remark denies it."""
    first = _FIRST_SEPARATOR.search(item)
    if (whole := SUPPORT3.read(item)) is not None or first is None:
        return whole
    last = last_match(_LAST_SEPARATOR, item) or first
    before, after = SUPPORT3.read(item[: first.start()]), SUPPORT3.read(item[last.end() :].rstrip(") "))
    if before is not None and after is not None:
        return before if before == after else None
    remark = item[first.end() :] if before is not None else item[: last.start()]
    if remark.strip(" *_`.()\"'").casefold() in _NOT_A_REMARK:
        return None
    return before or after


def _separated(start: int, line: str) -> Iterator[Candidate]:
    if len(line) > LONGEST_LINE or "," not in line:
        return
    intro = _INTRO.match(line)
    begin = intro.end() if intro else 0
    entries = [entry.strip() for entry in line[begin:].strip().removesuffix(",").split(",")]
    read = tuple(SUPPORT3.read(entry) for entry in entries)
    if any(read) and len(read) > 1 and all(len(e) <= 24 and len(e.split()) <= 3 for e in entries):
        yield Candidate(start + begin, start + len(line.rstrip()), "csv", read)
