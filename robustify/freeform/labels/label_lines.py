"""Labels in lines: lists with marks or numbers, a line of separated labels, lines that are each one label.

A list counts if one of its items is a label, and keeps its order or its numbers. An item is a label alone, a label
before a separator and a remark, or a label after one; two different labels in one item are none.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from robustify.freeform.labels.candidate import Candidate, Format, numbered
from robustify.freeform.labels.sets import LabelSet
from robustify.freeform.labels.spans import last_match

LONGEST_LINE = 1000
_MARKED = re.compile(r"\s*(?P<mark>[-*+\u2022])\s+(?P<item>\S.*)")
_NUMBERED = re.compile(
    r"\s*[*_`]*(?:(?:nugget|item|n)\s*#?\s*)?(?P<number>\d{1,4})[*_`]*\s{0,3}(?:[.):]|\s[-\u2013\u2014])[*_`]*\s+"
    r"(?P<item>\S.*)",
    re.IGNORECASE,
)
_INNER_NUMBER = re.compile(
    r"[*_`]*(?:nugget|item)\s*#?\s*(\d{1,4})[*_`]*\s*[.):]\s*[*_`]*\s*(?=\S)|(\d{1,4})[.):]\s+(?=\S)",
    re.IGNORECASE,
)
_FIRST_SEPARATOR = re.compile(r":\s|:$|\s[-\u2013\u2014]+\s|\s*(?:->|=>|\u2192|\u21d2)\s*|\s*\(")
_LAST_SEPARATOR = re.compile(r":|\s[-\u2013\u2014]+\s|->|=>|\u2192|\u21d2|\(")
_INTRO = re.compile(
    r"[\s*_`#]*(?:the\s+)?(?:final\s+)?(?:labels?|answers?|results?|output)[*_`]*\s*:[*_`]*\s*", re.I
)
_NOT_A_REMARK = {"none", "no", "false", "0", "n/a", "na", "not"}
_SEPARATORS = (",", "|", "\t", ";")


class _Line(NamedTuple):
    start: int
    text: str


class _Block(NamedTuple):
    kind: str
    start: int
    end: int
    labels: tuple[str | None, ...]
    indices: tuple[int | None, ...]


def line_candidates(text: str, labels: LabelSet) -> Iterator[Candidate]:
    """Every block of list items, line of separated labels, and run of lines that are labels."""
    lines = list(_lines(text))
    for block in _blocks(lines, labels):
        if any(block.labels):
            kind: Format = "yaml" if block.kind == "-" else "lines" if block.kind == "=" else "markdown"
            if kind == "lines" and len(block.labels) == 1:
                kind = "csv"
            yield Candidate(block.start, block.end, kind, block.labels, numbered(list(block.indices)))
    for line in lines:
        if labels.hint.search(line.text):
            yield from _separated(line, labels)


def _lines(text: str) -> Iterator[_Line]:
    start = 0
    for line in text.split("\n"):
        yield _Line(start, line)
        start += len(line) + 1


def _blocks(lines: list[_Line], labels: LabelSet) -> Iterator[_Block]:
    """Maximal runs of items of one kind; one blank line inside is allowed."""
    kind, start, end, blanks = "", 0, 0, 0
    read: list[str | None] = []
    indices: list[int | None] = []
    for line in lines:
        if not line.text or line.text.isspace():
            blanks += 1
            continue
        found, item, index = _item(line.text, labels)
        if read and (found != kind or blanks > 1):
            yield _Block(kind, start, end, tuple(read), tuple(indices))
            read, indices = [], []
        blanks = 0
        if not found:
            kind = ""
            continue
        if not read:
            kind, start = found, line.start
        end = line.start + len(line.text.rstrip())
        read.append(item)
        indices.append(index)
    if read:
        yield _Block(kind, start, end, tuple(read), tuple(indices))


def _item(line: str, labels: LabelSet) -> tuple[str, str | None, int | None]:
    """The kind of a list item, its label and its number; an empty kind for a line that is no item."""
    if len(line) > LONGEST_LINE:
        return "", None, None
    # What cannot hold a label is not read: a reply may have a hundred thousand lines.
    hinted = labels.hint.search(line) is not None
    if (marked := _MARKED.match(line)) is not None:
        item, index = _inner_number(marked["item"])
        kind = "-" if marked["mark"] == "-" else "*"
        return kind, item_label(item, labels) if hinted else None, index
    if (found := _NUMBERED.match(line)) is not None:
        return "1", item_label(found["item"], labels) if hinted else None, int(found["number"])
    whole = labels.read(line) if hinted else None
    return ("=", whole, None) if whole else ("", None, None)


def _inner_number(item: str) -> tuple[str, int | None]:
    found = _INNER_NUMBER.match(item)
    if found is None:
        return item, None
    return item[found.end() :], int(found[1] or found[2])


def item_label(item: str, labels: LabelSet) -> str | None:
    """The label of a list item: alone, before a remark, or after one; None where two differ or a remark denies it."""
    whole = labels.read(item)
    if whole is not None:
        return whole
    first = _FIRST_SEPARATOR.search(item)
    if first is None:
        return None
    last = last_match(_LAST_SEPARATOR, item) or first
    before, after = labels.read(item[: first.start()]), labels.read(item[last.end() :].rstrip(") "))
    if before is not None and after is not None:
        return before if before == after else None
    remark = item[first.end() :] if before is not None else item[: last.start()]
    if remark.strip(" *_`.()\"'").casefold() in _NOT_A_REMARK:
        return None
    return before or after


def _separated(line: _Line, labels: LabelSet) -> Iterator[Candidate]:
    written = line.text
    if len(written) > LONGEST_LINE or not any(mark in written for mark in _SEPARATORS):
        return
    intro = _INTRO.match(written)
    start = intro.end() if intro else 0
    body = written[start:].strip().strip("|")
    for mark in _SEPARATORS:
        entries = [entry.strip() for entry in body.split(mark)]
        if entries and not entries[-1]:
            entries.pop()
        if len(entries) < 2 or any(len(e) > 24 or len(e.split()) > 3 for e in entries):
            continue
        read = tuple(labels.read(entry) for entry in entries)
        if any(read):
            end = line.start + len(written.rstrip())
            yield Candidate(line.start + start, end, "csv", read)
            return
