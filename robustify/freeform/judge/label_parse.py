"""A judge's reply as labels: which structure is the answer, and whether every label belongs to its own nugget.

Labels are structural: no word is mined from prose, nothing inside reasoning is read, and the last structure wins only
where nothing contradicts it. Where it is not certain which nugget a label belongs to, there is no label.
`reading_steps` says how a reply was read, in places, labels and scores, with no other word of it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from robustify.errors import UsageError
from robustify.freeform.answer_text import split_reasoning
from robustify.freeform.judge.label_formats import (
    FORMATS,
    Candidate,
    json_candidates,
    line_candidates,
)
from robustify.freeform.judge.spans import inline, prose, readable, spans
from robustify.freeform.judge.store import PromptTemplate
from robustify.freeform.judge.verdicts import Reading, objects_with, parse_score, parse_verdict
from robustify.freeform.schema import ErrorType

FORMAT_TYPES = (*FORMATS, "adaptive")


class LabelParse(NamedTuple):
    """The labels of a reply for `expected_count` nuggets.

    `labels` are in the order of the nuggets, None where a nugget has none; the whole is None where nothing can be
    aligned. `count` is how many valid labels (or, where nothing is aligned, entries) were found.
    """

    labels: list[str | None] | None
    count: int  # type: ignore[assignment]  # the documented name, which hides tuple.count
    format_used: str | None
    error_type: ErrorType | None


def parse_labels_multi_format(
    response: str, expected_count: int, *, format_type: str = "adaptive", finish_reason: str | None = None,
    numbers: Sequence[int] | None = None,
) -> LabelParse:  # fmt: skip
    """Read the labels of a reply; never raises for its text, and takes time linear in it.

    `numbers`: those of the nuggets that were asked about, where they are not all of them: a judge may number its
    labels by these or from 1, and where both can be meant there is no label.

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
    found = structures(text, expected_count, format_type)
    cut = finish_reason == "length"
    if not found:
        return LabelParse(None, 0, None, "truncation" if cut else "format_error")
    last = found[-1]
    if contradicted(text, found, expected_count):
        return LabelParse(None, 0, last.format, "ambiguous")
    if numbers is not None and last.indices is not None:
        places = _places(last.indices, numbers)
        if places is None:
            return LabelParse(None, len(last.labels), last.format, "ambiguous")
        last = replace(last, indices=places)
    return _aligned(last, expected_count, cut)


def structures(text: str, expected: int, format_type: str) -> list[Candidate]:
    """Every structure of a readable text that may be the labels, in the wanted format; the last one is the answer."""
    return sorted(
        (c for c in _candidates(text, expected) if format_type in ("adaptive", c.format)),
        key=lambda c: (c.end, -FORMATS.index(c.format), -c.start),
    )


def _candidates(text: str, expected: int) -> list[Candidate]:
    """All structures; one that lies within or across a larger one is part of that."""
    found = list(json_candidates(text, spans(text), expected))
    taken = sorted((c.start, c.end) for c in found)
    out, i = list(found), 0
    for candidate in sorted(line_candidates(text), key=lambda c: c.start):
        while i < len(taken) and taken[i][1] <= candidate.start:
            i += 1
        if i == len(taken) or taken[i][0] >= candidate.end:
            out.append(candidate)
    return out


def contradicted(text: str, found: Sequence[Candidate], expected: int) -> bool:
    """Whether an earlier structure of the right length contradicts the last one, which is not on its own at the end."""
    last = found[-1]
    right = [c for c in found if len(c.labels) == expected]
    said = [(c.labels, c.indices) for c in right]
    others = [c for c in right if (c.labels, c.indices) != (last.labels, last.indices)]
    if (
        others
        and inline(text, last.start, last.end)
        and not all(inline(text, c.start, c.end) for c in others)
    ):
        return True
    return bool(others) and prose(text[last.end :]) and any(one != said[0] for one in said)


def _places(indices: Sequence[int | None], numbers: Sequence[int]) -> tuple[int | None, ...] | None:
    """The numbers of labels as places among the nuggets asked about; None where they can be read in two ways."""
    own = {number: place for place, number in enumerate(numbers, start=1)}
    given = {i for i in indices if i is not None}
    if not given <= own.keys():
        return tuple(indices)
    if given <= set(own.values()) and any(own[i] != i for i in given):
        return None
    return tuple(None if i is None else own[i] for i in indices)


def _aligned(found: Candidate, expected: int, cut: bool) -> LabelParse:
    """The labels of a structure, each at the place of its nugget."""
    labels, indices = list(found.labels), found.indices
    if cut and not found.truncated and labels[-1] is None:
        labels, indices = labels[:-1], indices[:-1] if indices else None
    known = [i for i in indices or () if i is not None]
    placed: list[str | None] = [None] * expected
    error: ErrorType | None = None
    if len(set(known)) < len(known):
        error = "duplicate_index"
    elif any(not 1 <= i <= expected for i in known) or (indices is None and len(labels) > expected):
        error = "count_mismatch"
    if error is not None:
        return LabelParse(None, len(labels), found.format, error)
    for place, label in zip(indices or range(1, len(labels) + 1), labels, strict=True):
        if place is not None:
            placed[place - 1] = label
    if found.truncated or (cut and len(labels) < expected):
        error = "truncation"
    elif indices is None and len(labels) < expected:
        return LabelParse(None, len(labels), found.format, "count_mismatch")
    elif indices is not None and len(known) < expected:
        error = "missing_index"
    elif not all(placed):
        error = "unknown_label"
    return LabelParse(placed, sum(label is not None for label in placed), found.format, error)


Step = dict[str, Any]


def reading_steps(
    reply: str, template: PromptTemplate, expected: int | None = None, format_type: str | None = None
) -> list[Step]:
    """The steps, each `{"step", ...}`: reply, reasoning, text, structures, and the result as graders get it.

    `expected` is the number of nuggets; None takes that of the last structure. `format_type` None: the template's.

    Raises:
        UsageError: an unknown format.
    """
    split = split_reasoning(reply)
    text, fault = readable(reply)
    steps: list[Step] = [
        {"step": "reply", "characters": len(reply)},
        {"step": "reasoning", "cut": len(split.reasoning), "left": len(split.text), "unterminated": split.unterminated},
        {"step": "text", "characters": len(text), "error_type": fault},
    ]  # fmt: skip
    if template.reads != "labels":
        key = "verdict" if template.reads == "verdict" else "score"
        for span, pairs in objects_with(text, spans(text), key):
            found = {"from": span.start, "to": span.end, key + "s": len(pairs.all(key))}
            steps.append({"step": "object", **found})
        read: Reading[Any] = (
            parse_verdict(reply) if key == "verdict" else parse_score(reply, scale=template.scale or "binary")
        )
        return [*steps, {"step": "result", key: read.value, "error_type": read.error_type}]
    written = format_type or template.own_format
    places = structures(text, expected or 1, written)
    n = expected or (len(places[-1].labels) if places else 1)
    steps += [
        {
            "step": "structure", "format": place.format, "from": place.start, "to": place.end,
            "labels": list(place.labels), "numbers": place.indices and list(place.indices), "cut_off": place.truncated,
        }
        for place in places
    ]  # fmt: skip
    if places:
        steps.append({"step": "last", "contradicted": contradicted(text, places, n)})
    parsed = parse_labels_multi_format(reply, n, format_type=written)
    result = {"step": "result", "nuggets": n, "labels": parsed.labels, "format_used": parsed.format_used}
    return [*steps, result | {"error_type": parsed.error_type}]
