"""Structures of a reply that may be the labels: JSON and what models write for it, XML elements, lists, lines.

A structure is a candidate if one of its entries is a known label; a JSON span also if it has exactly as many short
strings as there are nuggets. A list keeps its order or its numbers. An item of a list is a label alone, a label before
a separator and a remark, or a label after one; two different labels in one item are none. An array or element list
that was cut off keeps the entries that are whole. No XML parser is run: a reply with a document type, a declaration or
an entity other than the five of XML has no XML candidate.
"""

import html
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from robustify.freeform.judge.label_sets import LONGEST, Candidate, Format, LabelSet, numbered
from robustify.freeform.judge.spans import Bare, Pairs, Reader, Scan, Undecodable, last_match

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


_ELEMENT = re.compile(
    r"<label(?:\s+(?:id|k|index|n)\s{0,9}=\s{0,9}[\"']?([^\"'<>]{0,20})[\"']?)?\s{0,9}>([^<>]{0,200})</label\s{0,9}>",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"\s*")
_OPEN = re.compile(r"<labels(?:\s[^<>]*)?>", re.IGNORECASE)
_CLOSE = re.compile(r"</labels\s{0,9}>", re.IGNORECASE)
_DECLARES = re.compile(r"<!(?:DOCTYPE|ENTITY|\[)", re.IGNORECASE)
_FOREIGN_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)")
_CUT_ELEMENT = re.compile(r"\s{0,99}(?:<[^<>]{0,60}>?[^<>]{0,60}(?:<[^<>]{0,20})?)?\s{0,99}")


def xml_candidates(text: str, labels: LabelSet) -> Iterator[Candidate]:
    """Every run of `<label>` elements: inside `<labels>`, bare, or cut off."""
    if "<" not in text or _DECLARES.search(text):
        return
    for run in _runs(text)[-MOST_SPANS:]:
        first, last = run[0].start(), run[-1].end()
        wrapper = _wrapper(text, first)
        closing = _CLOSE.match(text, _BLANKS.match(text, last).end())  # type: ignore[union-attr]
        entries = [element[2] for element in run]
        if any(_FOREIGN_ENTITY.search(entry) for entry in entries):
            continue
        read = tuple(labels.read(html.unescape(entry)) for entry in entries)
        indices = numbered([index_of(element[1]) for element in run])
        if wrapper is None:
            if any(read):
                yield Candidate(first, last, "xml", read, indices)
        elif closing is not None:
            yield Candidate(wrapper, closing.end(), "xml", read, indices)
        elif _CUT_ELEMENT.fullmatch(text, last) and any(read):
            yield Candidate(wrapper, len(text), "xml", read, indices, truncated=True)


def _runs(text: str) -> "list[list[re.Match[str]]]":
    """Elements with nothing but blanks between them."""
    runs: list[list[re.Match[str]]] = []
    for element in _ELEMENT.finditer(text):
        if runs and not text[runs[-1][-1].end() : element.start()].strip():
            runs[-1].append(element)
        else:
            runs.append([element])
    return runs


def _wrapper(text: str, first: int) -> int | None:
    """Where `<labels>` opens right before the first element, or None."""
    before = text[max(0, first - 200) : first].rstrip()
    last = last_match(_OPEN, before)
    if last is None or last.end() != len(before):
        return None
    return max(0, first - 200) + last.start()


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
