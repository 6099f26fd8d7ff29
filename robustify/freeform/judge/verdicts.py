"""A judge's reply as a score or a verdict, and the majority of several.

Only a whole object with the key at its top level, a last line `Score: 1` or a bare score is read; no digit is taken
from prose. A value off the scale is an error and never the nearest score; two values that differ are none.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from robustify.errors import UsageError
from robustify.freeform.judge.label_formats import MOST_SPANS
from robustify.freeform.judge.label_parse import inline, prose, readable
from robustify.freeform.judge.label_sets import VERDICT3, LabelSet
from robustify.freeform.judge.spans import Pairs, Reader, Scan, Span, Undecodable, spans
from robustify.freeform.schema import ErrorType

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scale:
    """The scores that a judge may give, and whether `true` and `false` are among them."""

    name: str
    scores: tuple[float, ...]
    boolean: bool = False

    def read(self, value: Any) -> float | None:
        """The score that a decoded value is, exactly on the scale, or None."""
        if isinstance(value, bool):
            return float(value) if self.boolean else None
        if isinstance(value, str):
            value = _number(value)
        if not isinstance(value, int | float) or math.isnan(value) or value not in self.scores:
            return None
        return float(value)


BINARY = Scale("binary", (0.0, 1.0), boolean=True)
FIVE = Scale("five", (0.0, 0.25, 0.5, 0.75, 1.0))
SCALES: Mapping[str, Scale] = {scale.name: scale for scale in (BINARY, FIVE)}

_NUMERIC = re.compile(r"[+-]?\d{1,4}(?:\.\d{1,6})?")
_LINE = (
    r"[*_`#\s]{{0,9}}(?:final\s+)?{key}[*_`]{{0,3}}\s{{0,3}}[:=][*_`\s]{{0,5}}"
    r"(?P<value>[\w.+-]{{1,40}}?)[*_`.\s]{{0,9}}"
)


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """The value of a reply, or None and why it has none."""

    value: T | None
    error_type: ErrorType | None


class Vote(NamedTuple):
    """The verdict of most of the requested votes. `agreement`: their share of the requested votes."""

    verdict: str | None
    agreement: float
    error_type: ErrorType | None


def scale_of(name: str) -> Scale:
    """The scale of this name.

    Raises:
        UsageError: there is none.
    """
    if name not in SCALES:
        raise UsageError(f"scale {name!r}: expected one of {', '.join(SCALES)}")
    return SCALES[name]


def parse_score(response: str, *, scale: str = "binary", finish_reason: str | None = None) -> Reading[float]:
    """The score of a reply; never raises for its text, and takes time linear in it.

    Raises:
        UsageError: an unknown scale.
    """
    return _parsed(response, "score", finish_reason, scale_of(scale).read, "off_scale")


def parse_verdict(
    response: str, *, label_set: LabelSet = VERDICT3, finish_reason: str | None = None
) -> Reading[str]:
    """The verdict of a reply, a label of the set; the rules are those of `parse_score`."""

    def label(value: Any) -> str | None:
        return label_set.read(value) if isinstance(value, str) else None

    return _parsed(response, "verdict", finish_reason, label, "unknown_label")


def _parsed(
    response: str, key: str, finish_reason: str | None, read: Callable[[Any], T | None], fault: ErrorType
) -> Reading[T]:
    field = _field(response, key, finish_reason, lambda word: read(word) is not None)
    if field.error_type is not None:
        return Reading(None, field.error_type)
    value = read(field.value)
    return Reading(value, fault if value is None else None)


def majority_vote(verdicts: Sequence[str | None], requested: int | None = None) -> Vote:
    """The verdict of more than half of the votes that were requested; votes that failed count against it.

    Raises:
        UsageError: fewer votes requested than given, or none.
    """
    asked = len(verdicts) if requested is None else requested
    if asked < max(1, len(verdicts)):
        raise UsageError(f"{asked} votes requested, but {len(verdicts)} given")
    counts = Counter(v for v in verdicts if v is not None).most_common(2)
    if not counts:
        return Vote(None, 0.0, "no_majority")
    verdict, most = counts[0]
    if 2 * most > asked:
        return Vote(verdict, most / asked, None)
    tied = len(counts) == 2 and counts[1][1] == most
    return Vote(None, most / asked, "tie" if tied else "no_majority")


def _field(response: str, key: str, finish_reason: str | None, known: Callable[[str], bool]) -> Reading[Any]:
    """The value of a key: of the last object that has it, of the last line, or of the whole reply."""
    text, fault = readable(response)
    if fault is not None:
        return Reading(None, fault)
    scan = spans(text)
    objects = list(_objects(text, scan, key))
    cut = _cut_object(text, scan, key)
    if objects:
        return _last(text, objects, key, cut)
    if cut or finish_reason == "length":
        # Outside an object nothing shows its end: `Score: 0` may be the beginning of 0.75.
        return Reading(None, "truncation")
    last_line = text.rstrip().rpartition("\n")[2]
    if len(last_line) < 200:
        found = re.fullmatch(_LINE.format(key=re.escape(key)), last_line, re.IGNORECASE)
        if found is not None:
            return Reading(found["value"], None)
    whole = text.strip().strip("*`_ ")
    if len(whole) < 40 and known(whole):
        return Reading(whole, None)
    return Reading(None, "format_error")


def _last(text: str, objects: list[tuple[Span, Pairs]], key: str, cut: bool) -> Reading[Any]:
    span, last = objects[-1]
    values = last.all(key)
    if any(not _same(value, values[0]) for value in values) or cut:
        return Reading(None, "ambiguous")
    others = [s for s, pairs in objects[:-1] if any(not _same(value, values[0]) for value in pairs.all(key))]
    # "Either this or that" on one line is an echoed instruction, not a verdict and its correction.
    together = bool(others) and "\n" not in text[others[-1].end : span.start]
    quoted = inline(text, span) and any(not inline(text, other) for other in others)
    if others and (together or quoted or prose(text[span.end :])):
        return Reading(None, "ambiguous")
    return Reading(values[0], None)


def _same(a: Any, b: Any) -> bool:
    """Whether two values of a key are equal; NaN equals NaN."""
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return isinstance(a, bool) is isinstance(b, bool) and bool(a == b)


def _objects(text: str, scan: Scan, key: str) -> Iterator[tuple[Span, Pairs]]:
    """The objects with the key at their top level, alone or in one list; also those broken by unescaped quotes."""
    reader = Reader(text)
    for span in scan.closed[-MOST_SPANS:]:
        if key not in text[span.start : span.end]:
            continue
        try:
            value = reader.read(span, bare=False)
        except Undecodable:
            value = _broken(text[span.start : span.end], key)
        for element in value if type(value) is list else [value]:
            if isinstance(element, Pairs) and element.all(key):
                yield span, element


def _broken(written: str, key: str) -> Pairs | None:
    """The key of an object that unescaped quotes broke: named once, as its first or its last pair."""
    if written[0] != "{" or written.count(f'"{key}"') != 1:
        return None
    name = rf'"{re.escape(key)}"\s{{0,9}}:\s{{0,9}}("[^"]{{0,40}}"|[\w.+-]{{1,40}})'
    found = re.match(rf"\{{\s{{0,99}}{name}\s{{0,99}},", written) or re.search(
        rf",\s{{0,99}}{name}\s{{0,99}}\}}\Z", written[-400:]
    )
    return Pairs([(key, _scalar(found[1]))]) if found else None


def _scalar(written: str) -> Any:
    if written.startswith('"'):
        return written.strip('"')
    match written:
        case "true" | "false":
            return written == "true"
        case _:
            return written


def _cut_object(text: str, scan: Scan, key: str) -> bool:
    """Whether an object that names the key is still open at the end."""
    return any(text[at] == "{" and f'"{key}"' in text[at : at + 20_000] for at in scan.left_open[-20:])


def _number(written: str) -> float | None:
    stripped = written.strip()
    return float(stripped) if _NUMERIC.fullmatch(stripped) else None
