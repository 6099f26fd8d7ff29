"""Parsing of nugget labels from a judge's reply, written as a structure, a list or a line.

Labels come only from structures, never from prose or reasoning. A structure is a candidate if one of its entries is a
known label, or if it has exactly as many short strings as there are nuggets. The last candidate counts unless another
one contradicts it. A label counts only if it certainly belongs to its nugget.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from robustify.errors import UsageError
from robustify.freeform.llm_judge.structures import INDEX_KEYS, Pairs, contradicted, readable, structures
from robustify.freeform.llm_judge.verdicts import LONGEST, SUPPORT3
from robustify.freeform.schema import FORMAT_TYPES, ErrorType
from robustify.marks.final_part import last_match

Entry = tuple[int | None, Any]
"""One entry of a list: its number, and its possible label."""


class Candidate(NamedTuple):
    """A part of a reply that may be the labels. A label is None if an entry is not a known label.

    `indices` are the numbers of the entries, from 1, or None if the structure has no numbers.
    """

    start: int
    end: int
    format: str
    labels: tuple[str | None, ...]
    indices: tuple[int | None, ...] | None


class LabelParse(NamedTuple):
    """The labels of a reply in the order of the nuggets, or None if they cannot be aligned.

    `count` is the number of valid labels. If nothing can be aligned, it is the number of entries.
    """

    labels: list[str | None] | None
    count: int  # type: ignore[assignment]  # the documented name hides tuple.count
    format_used: str | None
    error_type: ErrorType | None


def parse_labels_multi_format(
    response: str, expected_count: int, *, format_type: str = "adaptive", finish_reason: str | None = None
) -> LabelParse:
    """Parse the labels of a reply in linear time. Never raises because of its text.

    Labels in the format `format_type` are preferred.

    Raises:
        UsageError: `expected_count` is below 1, or `format_type` is unknown.
    """
    if expected_count < 1:
        raise UsageError(f"expected_count is {expected_count}. Expected at least 1.")
    if format_type not in FORMAT_TYPES:
        raise UsageError(
            f"format_type {format_type!r} is unknown. Expected one of {', '.join(FORMAT_TYPES)}."
        )
    text, fault = readable(response)
    if fault is not None:
        return LabelParse(None, 0, None, fault)
    found, cut = _candidates(text, expected_count)
    cut = cut or finish_reason == "length"
    if not found:
        return LabelParse(None, 0, None, "truncation" if cut else "format_error")
    *before, last = [
        c for c in found if c.format == format_type or (c.format, format_type) == ("markdown", "yaml")
    ] or found
    said = (last.labels, last.indices)
    others = [c[:2] for c in before if len(c.labels) == expected_count and (c.labels, c.indices) != said]
    if contradicted(text, last[:2], others):
        return LabelParse(None, 0, last.format, "ambiguous")
    return _aligned(last, expected_count, cut)


def _aligned(found: Candidate, expected: int, cut: bool) -> LabelParse:
    labels, indices = found.labels, found.indices
    known = [i for i in indices or () if i is not None]
    error: ErrorType | None = None
    if len(set(known)) < len(known):
        error = "duplicate_index"
    elif (indices is None and len(labels) != expected) or any(not 1 <= i <= expected for i in known):
        error = "truncation" if cut and len(labels) < expected else "count_mismatch"
    if error is not None:
        return LabelParse(None, len(labels), found.format, error)
    placed: list[str | None] = [None] * expected
    for at, label in zip(indices or range(1, len(labels) + 1), labels, strict=True):
        if at is not None:
            placed[at - 1] = label
    if indices is not None and len(known) < expected:
        error = "missing_index"
    elif not all(placed):
        error = "unknown_label"
    return LabelParse(placed, sum(label is not None for label in placed), found.format, error)


def _candidates(text: str, expected: int) -> tuple[list[Candidate], bool]:
    """Find every structure that may be the labels, in order, and whether a list was truncated."""
    scan = structures(text)
    found, parts, at = [], [], 0
    for one in scan.found:
        entries = _entries(one.value)
        read = [SUPPORT3.read(said) if isinstance(said, str) else None for _, said in entries]
        quoted = '"' in text[one.start : one.end]
        short = quoted and all(isinstance(said, str) and len(said) <= LONGEST for _, said in entries)
        if any(read) or (len(entries) == expected and short):
            found.append(_candidate(one.start, one.end, one.format, read, [index for index, _ in entries]))
            # A list that overlaps this structure is part of it.
            parts += [text[at : one.start], "\0" * (one.end - one.start)]
            at = one.end
    masked = "".join([*parts, text[at:]])
    found += (c for c in _lists(masked) if "\0" not in masked[c.start : c.end])
    return sorted(found, key=lambda c: (c.end, -c.start)), any(text[at] == "[" for at in scan.left_open)


def _candidate(
    start: int, end: int, written: str, labels: Sequence[str | None], indices: Sequence[int | None]
) -> Candidate:
    numbered = tuple(indices) if any(i is not None for i in indices) else None
    return Candidate(start, end, written, tuple(labels), numbered)


# Structures

_LISTS = ("labels", "label", "assignments", "answer", "result", "results", "nuggets", "facts")
_LABEL_KEYS = ("label", "assignment", "decision", "verdict")
_NUMBER = re.compile(r"(?:(?:nugget|fact|label|item)[\s_]*)?#?(\d{1,4})", re.IGNORECASE)


def _entries(value: Any) -> list[Entry]:
    if isinstance(value, list):
        return [_entry(element) for element in value]
    if not isinstance(value, Pairs):
        return []
    lists = [v for v in value.all(*_LISTS) if isinstance(v, list | Pairs)]
    if lists:
        return _entries(lists[0]) if len(lists) == 1 else []
    by_number = [(index_of(name), _entry(said)[1]) for name, said in value]
    if value and all(index is not None for index, _ in by_number):
        return by_number
    # An object of facts and labels is in the order of the facts.
    by_fact: list[Entry] = [(None, said) for _, said in value]
    if len(value) > 1 and all(isinstance(said, str) and SUPPORT3.read(said) for _, said in by_fact):
        return by_fact if len({name for name, _ in value}) == len(value) else []
    entry = _entry(value)
    return [entry] if entry[1] is not None else []


def _entry(element: Any) -> Entry:
    if not isinstance(element, Pairs):
        return None, element if isinstance(element, str) else None
    spelled = [value for _, value in element if isinstance(value, str) and SUPPORT3.read(value)]
    given = element.all(*_LABEL_KEYS) or spelled
    numbers = [index_of(value) for value in element.all(*INDEX_KEYS)]
    numbers += [index_of(name) for name, value in element if value in spelled]
    index = next((number for number in numbers if number is not None), None)
    # Two different labels are no label, because the intended one is unknown.
    return index, given[0] if given and all(g == given[0] for g in given) else None


def index_of(value: Any) -> int | None:
    """Parse a nugget's number from `3`, `"3"`, `"#3"` or `"nugget 3"`, or return None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 10_000 else None
    found = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) and len(value) < 20 else None
    return int(found[1]) if found else None


# Lists and lines

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


def _lists(text: str) -> Iterator[Candidate]:
    """Yield lists of labelled items, with at most one empty line between items, and single lines of labels."""
    kind, start, end, blanks, at = "", 0, 0, 0, 0
    rows: list[tuple[str | None, int | None]] = []
    for line in [*text.split("\n"), "#"]:
        if line and not line.isspace():
            found, label, index = _item(line)
            if rows and (found != kind or blanks > 1):
                labels, indices = zip(*rows, strict=True)
                if any(labels) and (kind != "=" or len(rows) == 1):
                    yield _candidate(start, end, "csv" if kind == "=" else "markdown", labels, indices)
                rows = []
            blanks = 0
            if found:
                kind, start = (kind, start) if rows else (found, at)
                end = at + len(line.rstrip())
                rows.append((label, index))
            yield from _separated(at, line)
        else:
            blanks += 1
        at += len(line) + 1


def _item(line: str) -> tuple[str, str | None, int | None]:
    """Parse a line as a list item: its marker, label and number. The marker is "" for any other line."""
    if len(line) > LONGEST_LINE:
        return "", None, None
    # Lines that cannot contain a label are skipped, because a reply may have many lines.
    hinted = SUPPORT3.hint.search(line) is not None
    found = _ITEM.match(line)
    if found is not None and (found["mark"] or found["number"]):
        label = item_label(found["item"]) if hinted else None
        return "*" if found["mark"] else "1", label, int(found["number"]) if found["number"] else None
    whole = SUPPORT3.read(line) if hinted else None
    return ("=", whole, None) if whole else ("", None, None)


def item_label(item: str) -> str | None:
    """Return the label of a list item beside an optional remark, or None if it is contradictory or negated."""
    first = _FIRST_SEPARATOR.search(item)
    if (whole := SUPPORT3.read(item)) is not None or first is None:
        return whole
    last = last_match(_LAST_SEPARATOR, item) or first
    before, after = SUPPORT3.read(item[: first.start()]), SUPPORT3.read(item[last.end() :].rstrip(") "))
    if before is not None and after is not None:
        return before if before == after else None
    remark = item[first.end() :] if before is not None else item[: last.start()]
    return None if remark.strip(" *_`.()\"'").casefold() in _NOT_A_REMARK else before or after


def _separated(start: int, line: str) -> Iterator[Candidate]:
    """Yield a line of comma-separated labels without brackets, such as a truncated list."""
    if len(line) > LONGEST_LINE or "," not in line or "[" in line or not SUPPORT3.hint.search(line):
        return
    intro = _INTRO.match(line)
    begin = intro.end() if intro else 0
    entries = [entry.strip() for entry in line[begin:].strip().removesuffix(",").split(",")]
    read = tuple(map(SUPPORT3.read, entries))
    if any(read) and len(read) > 1 and all(len(e) <= 24 and len(e.split()) <= 3 for e in entries):
        yield _candidate(start + begin, start + len(line.rstrip()), "csv", read, ())
