"""Labels, verdicts and scores of a judge: the allowed values, their parsers, and majority votes.

A label must be a complete entry, never a word in prose: "does not support" is a spelling of a label, and "supportive of
the claim" is not. A score or verdict comes from a structure with its key, a last line such as `Score: 1`, or a reply
that is only a score. Values outside the set or scale are errors and are not rounded. Two different values count as
none.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from robustify.errors import UsageError
from robustify.freeform.llm_judge.structures import Pairs, Structure, contradicted, readable, structures
from robustify.freeform.schema import ErrorType
from robustify.texts import in_words

T = TypeVar("T")
LONGEST = 40
"""Longest label, in characters. A longer entry is prose."""
_EDGES = " \t\r\n\"'`*_.\u201c\u201d\u2018\u2019\u00ab\u00bb\u201a\u201e"
_JOINTS = re.compile(r"[\s_-]+")

_SUPPORT = {
    "support": ("supported", "supports", "fully_supported", "full_support", "fully_support"),
    "partial_support": (
        "partial", "partially_supported", "partially_support", "partially_supports", "partial_supported",
        "partly_support", "partly_supported",
    ),
    "not_support": ("not_supported", "no_support", "unsupported", "does_not_support", "not_supports"),
}  # fmt: skip


@lru_cache(maxsize=4096)
def folded_label(text: str) -> str:
    """Normalise a label: NFKC, case-folded, no quotes, emphasis or invisible characters, words joined by `_`."""
    return _JOINTS.sub("_", in_words(text).strip(_EDGES)).strip("_")


class LabelSet:
    """Labels ordered by score, lowest first, and their accepted spellings.

    `hint` matches the beginning of every known spelling, so that an entry without a match is not a label.
    """

    def __init__(self, **scores: float) -> None:
        self.scores: Mapping[str, float] = MappingProxyType(scores)
        self.labels = tuple(scores)
        known = {label: label for label in scores}
        known |= {word: label for label, words in _SUPPORT.items() for word in words if label in scores}
        stems = sorted({re.escape(word[:4].rstrip("_")) for word in known})
        self.hint = re.compile("|".join(stems), re.IGNORECASE)
        self._spellings = known

    def read(self, entry: str) -> str | None:
        """Return the label that matches the complete entry, or None."""
        if len(entry) > 4 * LONGEST or (entry.isascii() and not self.hint.search(entry)):
            return None
        return self._spellings.get(folded_label(entry))


SUPPORT3 = LabelSet(not_support=0.0, partial_support=0.5, support=1.0)
VERDICT3 = LabelSet(not_attempted=0.0, incorrect=0.0, correct=1.0)
SCALES: Mapping[str, tuple[float, ...]] = {"binary": (0.0, 1.0), "five": (0.0, 0.25, 0.5, 0.75, 1.0)}

_NUMERIC = re.compile(r"[+-]?\d{1,4}(?:\.\d{1,6})?")
_LINE = (
    r"[*_`#\s]{{0,9}}(?:final\s+)?{key}[*_`]{{0,3}}\s{{0,3}}[:=][*_`\s]{{0,5}}"
    r"(?P<value>[\w.+-]{{1,40}}?)[*_`.\s]{{0,9}}"
)


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """The parsed value of a reply, or None with the error type."""

    value: T | None
    error_type: ErrorType | None


class Vote(NamedTuple):
    """The majority verdict. `agreement` is its share of the requested votes."""

    verdict: str | None
    agreement: float
    error_type: ErrorType | None


def parse_score(response: str, *, scale: str = "binary", finish_reason: str | None = None) -> Reading[float]:
    """Parse the score of a reply in linear time. Never raises because of its text.

    Raises:
        UsageError: the scale is unknown.
    """
    if scale not in SCALES:
        raise UsageError(f"The scale {scale!r} is unknown. Expected one of {', '.join(SCALES)}.")

    def score(value: Any) -> float | None:
        if isinstance(value, bool):
            return float(value) if scale == "binary" else None
        if isinstance(value, str):
            value = float(value) if _NUMERIC.fullmatch(value := value.strip()) else None
        # NaN is in no scale.
        return float(value) if isinstance(value, int | float) and value in SCALES[scale] else None

    return _parsed(response, "score", finish_reason, score, "off_scale")


def parse_verdict(response: str, *, finish_reason: str | None = None) -> Reading[str]:
    """Parse the verdict of a reply in linear time. Never raises because of its text."""

    def label(value: Any) -> str | None:
        return VERDICT3.read(value) if isinstance(value, str) else None

    return _parsed(response, "verdict", finish_reason, label, "unknown_label")


def _parsed(
    response: str, key: str, finish_reason: str | None, read: Callable[[Any], T | None], unread: ErrorType
) -> Reading[T]:
    """Find the value of a JSON key: in the last structure with this key, in the last line, or in the complete reply."""
    text, fault = readable(response)
    if fault is not None:
        return Reading(None, fault)
    scan = structures(text)
    given = [(one, values) for one in scan.found if (values := _values(one, key))]
    # An object that names the key may still be open at the end.
    cut = any(text[at] == "{" and f'"{key}"' in text[at : at + 20_000] for at in scan.left_open)
    last_line, whole = text.rstrip().rpartition("\n")[2], text.strip().strip("*`_ ")
    said: Any = None
    line = re.fullmatch(_LINE.format(key=key), last_line[:200], re.IGNORECASE)
    if given:
        *before, (last, values) = given
        said = values[0]
        # Values are equal if their spellings are equal (NaN equals NaN, and true is not 1).
        others = [one[:2] for one, some in before if {*map(repr, some)} != {repr(said)}]
        # Two values on one line repeat the instruction and are not a verdict with a correction.
        together = bool(others) and "\n" not in text[others[-1][1] : last.start]
        contradicts = line is not None and read(line["value"]) != read(said)
        if (
            cut
            or (finish_reason == "length" and last.format == "yaml")
            or together
            or contradicts
            or len({*map(repr, values)}) > 1
            or contradicted(text, last[:2], others)
        ):
            fault = "ambiguous"
    elif cut or finish_reason == "length":
        # Without an object, the end of a value is unknown: `Score: 0` may be the beginning of 0.75.
        fault = "truncation"
    elif line is not None:
        said = line["value"]
    elif len(whole) < 40 and read(whole) is not None:
        said = whole
    else:
        fault = "format_error"
    value = None if fault else read(said)
    return Reading(value, fault or (unread if value is None else None))


def majority_vote(verdicts: Sequence[str | None]) -> Vote:
    """Return the verdict of more than half of the requested votes. A failed vote counts against it."""
    counts = Counter(v for v in verdicts if v is not None).most_common(2)
    if not counts:
        return Vote(None, 0.0, "no_majority")
    verdict, most = counts[0]
    share = most / len(verdicts)
    if share > 0.5:
        return Vote(verdict, share, None)
    return Vote(None, share, "tie" if [n for _, n in counts] == [most, most] else "no_majority")


def _values(one: Structure, key: str) -> list[Any]:
    """Return the values of a key in a structure: at the top level or in a list's objects, otherwise one level down."""
    tops = [e for e in (one.value if type(one.value) is list else [one.value]) if isinstance(e, Pairs)]
    inner = [value for top in tops for _, value in top if isinstance(value, Pairs)]
    return [v for top in tops for v in top.all(key)] or [v for pairs in inner for v in pairs.all(key)]
