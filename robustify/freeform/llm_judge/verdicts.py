"""Parse the labels, verdicts, and scores in a judge's reply, and check that they are allowed.

They come only from structures, never from prose. The last structure counts unless another one contradicts it. A label
counts only if it certainly belongs to its nugget.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from robustify.base.errors import UsageError
from robustify.base.texts import in_words
from robustify.pipeline.free_settings import FORMAT_TYPES
from robustify.reading.reply_structures import (
    INDEX_KEYS,
    ErrorType,
    Pairs,
    Reading,
    Structure,
    contradicted,
    readable,
    structures,
)

T = TypeVar("T")
SUPPORT: Mapping[str, float] = {"not_support": 0.0, "partial_support": 0.5, "support": 1.0}
VERDICTS: Mapping[str, float] = {"not_attempted": 0.0, "incorrect": 0.0, "correct": 1.0}
SCALES: Mapping[str, tuple[float, ...]] = {"binary": (0.0, 1.0), "five": (0.0, 0.25, 0.5, 0.75, 1.0)}
_SPELLINGS = {
    **{label: label for label in (*SUPPORT, *VERDICTS)},
    **dict.fromkeys(["supported", "supports", "fully_supported", "full_support", "fully_support"], "support"),
    **dict.fromkeys(["not_supported", "no_support", "unsupported", "does_not_support", "not_supports"], "not_support"),
    "partial": "partial_support", "partial_supported": "partial_support",
    **{f"{degree}_{word}": "partial_support" for degree in ("partly", "partially") for word in ("support", "supported")},
    "partially_supports": "partial_support",
}  # fmt: skip
_EDGES = " \t\r\n\"'`*_.\u201c\u201d\u2018\u2019\u00ab\u00bb\u201a\u201e"
_NUMERIC = re.compile(r"[+-]?\d{1,4}(?:\.\d{1,6})?")
_INDEX = re.compile(r"(?:(?:nugget|fact|label|item)[\s_]*)?#?(\d{1,4})", re.IGNORECASE)
_SEPARATOR = re.compile(r":\s|:$|\s[-\u2013\u2014]+\s|\s*(?:->|=>|\u2192|\u21d2)\s*|\s*\(")
_NO_REMARK = {"none", "no", "false", "0", "n/a", "na", "not"}


class LabelParse(NamedTuple):
    """Labels of a reply in the order of the nuggets, or None if they cannot be aligned. `count` is the number of valid
    labels, or of entries if there are no labels."""

    labels: list[str | None] | None
    count: int  # type: ignore[assignment]  # the documented name hides tuple.count
    format_used: str | None
    error_type: ErrorType | None


@lru_cache(maxsize=4096)
def _folded(text: str) -> str:
    return re.sub(r"[\s_-]+", "_", in_words(text).strip(_EDGES)).strip("_")


def _label(entry: object, among: Mapping[str, float] = SUPPORT) -> str | None:
    label = _SPELLINGS.get(_folded(entry)) if isinstance(entry, str) and len(entry) <= 160 else None
    return label if label in among else None


# Scores and verdicts


def parse_score(response: str, *, scale: str = "binary", finish_reason: str | None = None) -> Reading[float]:
    """Parse the score in a reply, in linear time. No reply raises an error."""
    if scale not in SCALES:
        fault = f"The scale {scale!r} is unknown. Expected one of {', '.join(SCALES)}."
        raise UsageError(fault, code="unknown-scale")

    def score(value: Any) -> float | None:
        if isinstance(value, bool):
            return float(value) if scale == "binary" else None
        if isinstance(value, str):
            value = float(value) if _NUMERIC.fullmatch(value := value.strip(" .")) else None
        # NaN is in no scale.
        return float(value) if isinstance(value, int | float) and value in SCALES[scale] else None

    return _parsed(response, "score", finish_reason, score, "off_scale")


def parse_verdict(response: str, *, finish_reason: str | None = None) -> Reading[str]:
    """Parse the verdict in a reply, in linear time. No reply raises an error."""
    return _parsed(response, "verdict", finish_reason, lambda value: _label(value, VERDICTS), "unknown_label")


def _parsed(
    response: str, key: str, finish_reason: str | None, read: Callable[[Any], T | None], unread: ErrorType
) -> Reading[T]:
    text, fault = readable(response)
    if fault is not None:
        return Reading(None, fault)
    parsed, left_open = structures(text)
    with_key = [(structure, values) for structure in parsed if (values := _values(structure.value, key))]
    # An object that names the key may still be open at the end.
    cut = any(text[i] == "{" and f'"{key}"' in text[i : i + 20_000] for i in left_open)
    value = read(text.strip("*`_ \n")) if len(text) < 60 else None
    if with_key:
        last, values = with_key[-1]
        # Values are equal if their spellings are equal (NaN equals NaN, and true is not 1).
        others = [other for other, written in with_key[:-1] if {*map(repr, written)} != {repr(values[0])}]
        if cut or len({*map(repr, values)}) > 1 or contradicted(text, last, others):
            return Reading(None, "ambiguous")
        # The end of a value on a line is unknown: `Score: 0` may be the beginning of 0.75.
        fault = "truncation" if finish_reason == "length" and last.format == "yaml" else None
        value = read(values[0])
        fault = fault or (unread if value is None else None)
    elif cut or finish_reason == "length":
        fault = "truncation"
    elif value is None:
        fault = "format_error"
    return Reading(None if fault else value, fault)


def _values(value: Any, key: str) -> list[Any]:
    """Return the values of a key at the top level or in the objects of a list. If there are none, look one level deeper."""
    tops = [e for e in (value if type(value) is list else [value]) if isinstance(e, Pairs)]
    inner = [value for top in tops for _, value in top if isinstance(value, Pairs)]
    return [v for top in tops for v in top.all(key)] or [v for pairs in inner for v in pairs.all(key)]


# Labels of nuggets

_LISTS = ("labels", "label", "assignments", "answer", "result", "results", "nuggets", "facts")
_LABEL_KEYS = ("label", "assignment", "decision", "verdict")
Entry = tuple[int | None, Any]
"""One entry of a list: its number, and its possible label."""


def parse_labels_multi_format(
    response: str, expected_count: int, *, format_type: str = "adaptive", finish_reason: str | None = None
) -> LabelParse:
    """Parse the labels in a reply, in linear time. Prefer the format `format_type`. No reply raises an error. Raise
    `UsageError` if `expected_count` is below 1, or `format_type` is unknown."""
    if expected_count < 1:
        raise UsageError(f"expected_count is {expected_count}. Expected at least 1.", code="too-few-labels")
    if format_type not in FORMAT_TYPES:
        expected = f"Expected one of {', '.join(FORMAT_TYPES)}."
        raise UsageError(f"format_type {format_type!r} is unknown. {expected}", code="unknown-format")
    text, fault = readable(response)
    if fault is not None:
        return LabelParse(None, 0, None, fault)
    scanned, left_open = structures(text)
    cut = finish_reason == "length" or any(text[i] == "[" for i in left_open)
    if expected_count == 1 and _label(text.strip()):
        scanned = [Structure(0, len(text), [text.strip()], "csv")]
    with_labels = [(part, entries) for part in scanned if (entries := _label_entries(part, expected_count))]
    if not with_labels:
        return LabelParse(None, 0, None, "truncation" if cut else "format_error")
    own = [(part, entries) for part, entries in with_labels if part.format == format_type]
    *before, (last, entries) = own or with_labels
    others = [part for part, labels in before if len(labels) == expected_count and labels != entries]
    if contradicted(text, last, others):
        return LabelParse(None, 0, last.format, "ambiguous")
    return _align(entries, last.format, expected_count, cut)


def _label_entries(structure: Structure, expected: int) -> list[Entry]:
    """Return the number and label (None if invalid) of each entry, or [] if the structure cannot contain the labels."""
    entries = _entries(structure.value)
    read = [(index, _label(value)) for index, value in entries]
    # A JSON list of the right length is an answer, even if none of its texts is a label.
    is_text = [isinstance(value, str) for _, value in entries]
    is_list = structure.format == "json" and is_text == [True] * expected
    return read if is_list or any(label for _, label in read) else []


def _align(entries: Sequence[Entry], written: str, expected: int, cut: bool) -> LabelParse:
    numbers = [index for index, _ in entries if index is not None]
    error: ErrorType | None = None
    if len({*numbers}) < len(numbers):
        error = "duplicate_index"
    elif (not numbers and len(entries) != expected) or not {*numbers} <= {*range(1, expected + 1)}:
        error = "truncation" if cut and len(entries) < expected else "count_mismatch"
    if error is not None:
        return LabelParse(None, len(entries), written, error)
    by_number = dict(entries) if numbers else {n: label for n, (_, label) in enumerate(entries, start=1)}
    placed = [by_number.get(n) for n in range(1, expected + 1)]
    if not all(placed):
        error = "unknown_label" if by_number.keys() >= {*range(1, expected + 1)} else "missing_index"
    return LabelParse(placed, sum(label is not None for label in placed), written, error)


def _entries(value: Any) -> list[Entry]:
    if isinstance(value, list):
        return [_entry(element) for element in value]
    if not isinstance(value, Pairs):
        return []
    lists = [v for v in value.all(*_LISTS) if isinstance(v, list | Pairs)]
    if lists:
        return _entries(lists[0]) if len(lists) == 1 else []
    by_number = [(_index(name), _entry(member)[1]) for name, member in value]
    if value and all(index is not None for index, _ in by_number):
        return by_number
    # An object of facts and labels is in the order of the facts.
    if len({name for name, member in value if _label(member)}) == len(value) > 1:
        return [(None, member) for _, member in value]
    entry = _entry(value)
    return [entry] if entry[1] is not None else []


def _entry(element: Any) -> Entry:
    if not isinstance(element, Pairs):
        return None, element
    items = [_item_label(value) for value in element.all("") if isinstance(value, str)]
    spelled = Pairs((name, value) for name, value in element if _label(value))
    given = element.all(*_LABEL_KEYS) or items or [value for _, value in spelled]
    numbers = [_index(value) for value in (*element.all(*INDEX_KEYS), *(name for name, _ in spelled))]
    # Two different labels are no label, because the intended one is unknown.
    same = given[0] if given and all(label == given[0] for label in given) else None
    return next((number for number in numbers if number is not None), None), same


def _index(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < 10_000 else None
    match = _INDEX.fullmatch(value.strip()) if isinstance(value, str) and len(value) < 20 else None
    return int(match[1]) if match else None


def _item_label(item: str) -> str | None:
    """Return the label in a list item, or None if another label or a remark contradicts it."""
    parts = _SEPARATOR.split(item)
    if (label := _label(item)) is not None or len(parts) == 1:
        return label
    before, after = _label(parts[0]), _label(parts[-1].rstrip(") "))
    if before is not None and after is not None:
        return before if before == after else None
    remark = " ".join(parts[1:] if before is not None else parts[:-1])
    return None if remark.strip(" *_`.()\"'").casefold() in _NO_REMARK else before or after
