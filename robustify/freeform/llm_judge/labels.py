"""A judge's reply as labels: JSON, Markdown lists or lines; the last structure is the answer unless another contradicts it.

Labels are structural: no word is taken from prose, and nothing inside reasoning is read. A structure is a candidate if
one of its entries is a known label; JSON also if it has exactly as many short strings as there are nuggets. If it is not
certain which nugget a label belongs to, there is no label.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from robustify.errors import UsageError
from robustify.freeform.answer_text import last_match
from robustify.freeform.llm_judge.spans import Pairs, Scan, inline, prose, readable, spans, values_in
from robustify.freeform.llm_judge.store import PromptTemplate
from robustify.freeform.llm_judge.verdicts import LONGEST, SUPPORT3, Reading, parse_score, parse_verdict
from robustify.freeform.schema import FORMAT_TYPES, ErrorType

Format = Literal["json", "markdown", "csv"]
FORMATS: tuple[Format, ...] = ("json", "markdown", "csv")
"""In the order in which a tie between two structures at one position is broken."""
Entry = tuple[int | None, Any]
"""One entry of a list: the number that it carries, and what may be its label."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Characters `start` to `end` read as labels, None if an entry is not a known label.

    `indices` are the numbers that the entries carry, from 1; the whole is None if the structure numbers nothing.
    `truncated`: cut off before its end, the incomplete last entry dropped.
    """

    start: int
    end: int
    format: Format
    labels: tuple[str | None, ...]
    indices: tuple[int | None, ...] | None = None
    truncated: bool = False


class LabelParse(NamedTuple):
    """The labels of a reply in the order of the nuggets; the whole is None if nothing can be aligned.

    `count` is how many valid labels (or, if nothing is aligned, entries) were found.
    """

    labels: list[str | None] | None
    count: int  # type: ignore[assignment]  # the documented name, which hides tuple.count
    format_used: str | None
    error_type: ErrorType | None


def parse_labels_multi_format(
    response: str, expected_count: int, *, format_type: str = "adaptive", finish_reason: str | None = None,
    numbers: Sequence[int] | None = None,
) -> LabelParse:  # fmt: skip
    """Read the labels of a reply; never raise for its text, and take time linear in it.

    `numbers`: those of the nuggets that were asked about, if they are not all of them. A judge may number its labels by
    these or from 1; if both can be meant, there is no label.

    Raises:
        UsageError: `expected_count` below 1, or an unknown `format_type`.
    """
    if expected_count < 1:
        raise UsageError(f"expected_count {expected_count}: expected at least 1 nugget")
    if format_type not in FORMAT_TYPES:
        raise UsageError(f"format_type {format_type!r}: expected one of {', '.join(FORMAT_TYPES)}")
    text, fault = readable(response)
    if fault is not None:
        return LabelParse(None, 0, None, fault)
    found = [c for c in _candidates(text, expected_count) if format_type in ("adaptive", c.format)]
    cut = finish_reason == "length"
    if not found:
        return LabelParse(None, 0, None, "truncation" if cut else "format_error")
    last = found[-1]
    if _contradicted(text, found, expected_count):
        return LabelParse(None, 0, last.format, "ambiguous")
    if numbers is not None and last.indices is not None:
        own = _as_asked(last.indices, numbers)
        if own is None:
            return LabelParse(None, len(last.labels), last.format, "ambiguous")
        last = replace(last, indices=own)
    return _aligned(last, expected_count, cut)


def read_as(template: PromptTemplate, reply: str, expected: int, format_type: str) -> dict[str, Any]:
    """Return how a reply to this template is read: its labels, score or verdict, or the type of the error."""
    if template.reads == "labels":
        return parse_labels_multi_format(reply, expected, format_type=format_type)._asdict()
    name = "verdict" if template.reads == "verdict" else "score"
    read: Reading[Any] = (
        parse_verdict(reply) if name == "verdict" else parse_score(reply, scale=template.scale or "binary")
    )
    return {name: read.value, "error_type": read.error_type}


def _contradicted(text: str, found: Sequence[Candidate], expected: int) -> bool:
    """Return whether an earlier structure of the right length contradicts the last one, which is not alone at the end."""
    last = found[-1]
    said = [c for c in found if len(c.labels) == expected]
    others = [c for c in said if (c.labels, c.indices) != (last.labels, last.indices)]
    if (
        others
        and inline(text, last.start, last.end)
        and not all(inline(text, c.start, c.end) for c in others)
    ):
        return True
    differ = any((c.labels, c.indices) != (said[0].labels, said[0].indices) for c in said)
    return bool(others) and differ and prose(text[last.end :])


def _as_asked(indices: Sequence[int | None], numbers: Sequence[int]) -> tuple[int | None, ...] | None:
    """Return the numbers of labels as positions among the nuggets asked about; None if they can be read in two ways."""
    own = {number: position for position, number in enumerate(numbers, start=1)}
    given = {i for i in indices if i is not None}
    if not given <= own.keys():
        return tuple(indices)
    if given <= set(own.values()) and any(own[i] != i for i in given):
        return None
    return tuple(None if i is None else own[i] for i in indices)


def _aligned(found: Candidate, expected: int, cut: bool) -> LabelParse:
    """Return the labels of a structure, each at the position of its nugget."""
    labels, indices = list(found.labels), found.indices
    if cut and not found.truncated and labels[-1] is None:
        labels, indices = labels[:-1], indices[:-1] if indices else None
    known = [i for i in indices or () if i is not None]
    short = indices is None and len(labels) < expected and not (found.truncated or cut)
    long = indices is None and len(labels) > expected
    error: ErrorType | None = None
    if len(set(known)) < len(known):
        error = "duplicate_index"
    elif short or long or any(not 1 <= i <= expected for i in known):
        error = "count_mismatch"
    if error is not None:
        return LabelParse(None, len(labels), found.format, error)
    placed: list[str | None] = [None] * expected
    for at, label in zip(indices or range(1, len(labels) + 1), labels, strict=True):
        if at is not None:
            placed[at - 1] = label
    if found.truncated or (cut and len(labels) < expected):
        error = "truncation"
    elif indices is not None and len(known) < expected:
        error = "missing_index"
    elif not all(placed):
        error = "unknown_label"
    return LabelParse(placed, sum(label is not None for label in placed), found.format, error)


def _candidates(text: str, expected: int) -> list[Candidate]:
    """Return every structure that may be the labels, the last one at the end."""
    scan = spans(text)
    found = list(_json(text, scan, expected))
    # A list that lies within or across one of them is part of it.
    parts, at = [], 0
    for one in sorted(found, key=lambda c: c.start):
        parts += [text[at : one.start], "\0" * (one.end - max(at, one.start))]
        at = max(at, one.end)
    masked = "".join([*parts, text[at:]])
    found += (c for c in _lists(masked) if "\0" not in masked[c.start : c.end])
    return sorted(found, key=lambda c: (c.end, -FORMATS.index(c.format), -c.start))


def _numbered(indices: Sequence[int | None]) -> tuple[int | None, ...] | None:
    return tuple(indices) if any(i is not None for i in indices) else None


# JSON

_LISTS = ("labels", "label", "assignments", "answer", "result")
_LABEL_KEYS = ("label", "assignment", "decision", "verdict")
_INDEX_KEYS = ("id", "k", "index", "nugget", "nugget_id")
_NUMBER = re.compile(r"(?:nugget\s*)?#?(\d{1,4})", re.IGNORECASE)
_QUOTED = r"(?:\"[^\"\\\n]{0,99}\"|'[^'\\\n]{0,99}')"
_WHOLE = re.compile(rf"(?:\s{{0,99}}{_QUOTED}\s{{0,99}}(?:,|\Z))+")
_CUT_ENTRY = re.compile(r"\s{0,99}[\"']?[\w -]{0,40}\s{0,99}")


def _json(text: str, scan: Scan, expected: int) -> Iterator[Candidate]:
    """Yield every span that may be the labels, and an array that the end of the reply cut off."""
    for span, value in values_in(text, scan):
        entries = _entries(value)
        read = tuple(SUPPORT3.read(said) if isinstance(said, str) else None for _, said in entries)
        short = all(isinstance(said, str) and len(said) <= LONGEST for _, said in entries)
        if any(read) or (len(entries) == expected and short):
            yield Candidate(span.start, span.end, "json", read, _numbered([index for index, _ in entries]))
    for start in [at for at in scan.left_open if text[at] == "["][-20:][::-1]:
        whole = _WHOLE.match(text, start + 1)
        if whole is None or not _CUT_ENTRY.fullmatch(text, whole.end()):
            continue
        read = tuple(map(SUPPORT3.read, re.findall(_QUOTED, whole[0])))
        if all(read):
            yield Candidate(start, len(text), "json", read, truncated=True)
        return


def _entries(value: Any) -> list[Entry]:
    if isinstance(value, list):
        return [_entry(element) for element in value]
    if not isinstance(value, Pairs):
        return []
    lists = [v for name in _LISTS for v in value.all(name) if isinstance(v, list | Pairs)]
    if lists:
        return _entries(lists[0]) if len(lists) == 1 else []
    by_number = [(index_of(name), said) for name, said in value]
    if value and all(index is not None for index, _ in by_number):
        return by_number
    entry = _entry(value)
    return [entry] if entry[1] is not None else []


def _entry(element: Any) -> Entry:
    """Return one entry of a list: a label, or an object with a label and perhaps a number."""
    if not isinstance(element, Pairs):
        return None, element if isinstance(element, str) else None
    given = [value for name in _LABEL_KEYS for value in element.all(name)]
    numbers = [index_of(value) for name in _INDEX_KEYS for value in element.all(name)]
    index = next((number for number in numbers if number is not None), None)
    # Two labels that differ are none: which one was meant is not known.
    return index, given[0] if given and all(g == given[0] for g in given) else None


def index_of(value: Any) -> int | None:
    """Return the number that `3`, `"3"`, `"#3"` or `"nugget 3"` gives, or None."""
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
    """Yield runs of list items that have a label (one blank line inside is allowed), and lines of labels.

    Labels on several lines of their own are a list that no template asks for; one alone is a line of one label.
    """
    kind, start, end, blanks, at = "", 0, 0, 0, 0
    rows: list[tuple[str | None, int | None]] = []
    for line in [*text.split("\n"), "#"]:
        if line and not line.isspace():
            found, label, index = _item(line)
            if rows and (found != kind or blanks > 1):
                labels, indices = zip(*rows, strict=True)
                if any(labels) and (kind != "=" or len(rows) == 1):
                    yield Candidate(
                        start, end, "csv" if kind == "=" else "markdown", labels, _numbered(indices)
                    )
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
    """Return the kind of a list item, its label and its number; the kind is empty for a line that is not an item."""
    if len(line) > LONGEST_LINE:
        return "", None, None
    # What cannot hold a label is not read: a reply may have many lines.
    hinted = SUPPORT3.hint.search(line) is not None
    found = _ITEM.match(line)
    if found is not None and (found["mark"] or found["number"]):
        label = item_label(found["item"]) if hinted else None
        return "*" if found["mark"] else "1", label, int(found["number"]) if found["number"] else None
    whole = SUPPORT3.read(line) if hinted else None
    return ("=", whole, None) if whole else ("", None, None)


def item_label(item: str) -> str | None:
    """Return the label of a list item: alone, before a remark, or after one; None if two differ or a remark denies it."""
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
    """Yield a line of labels separated by commas."""
    if len(line) > LONGEST_LINE or "," not in line or not SUPPORT3.hint.search(line):
        return
    intro = _INTRO.match(line)
    begin = intro.end() if intro else 0
    entries = [entry.strip() for entry in line[begin:].strip().removesuffix(",").split(",")]
    read = tuple(map(SUPPORT3.read, entries))
    if any(read) and len(read) > 1 and all(len(e) <= 24 and len(e.split()) <= 3 for e in entries):
        yield Candidate(start + begin, start + len(line.rstrip()), "csv", read)
