"""Takes out of a summary the places whose fields are declared as shown, each number as coarse as its kind demands.

Nothing else is copied: a field of the summary is released only where its declaration (`robustify/summary`) says so.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from robustify.disclosure import coarse
from robustify.summary.quantity import Base, Place

Tree = dict[str, object]
At = tuple[str | int, ...]
WORD = re.compile(r"[A-Za-z0-9 ,;:./@_+%()-]{1,120}")
"""Words of ours: of models, rules and templates. Anything else in their place stays inside."""
NAME = re.compile(r"[!-~]{1,80}( vs [!-~]{1,80})?")
"""A name that a `*` may stand for: one word, or a pair of models."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What roundings need to know: the smallest cell, the sizes of the parts, each group's step."""

    k: int
    sizes: Mapping[Base, int]
    steps: Mapping[str, float | None]


def places_in(node: object, steps: Sequence[str], at: At = ()) -> Iterator[tuple[At, object]]:
    """Every place of the tree that this path names, with what stands there; nothing (null, an empty mapping or list)
    ends it on the way.
    """
    if not steps or node is None or node in ({}, []):
        yield at, node
        return
    step, rest = steps[0], steps[1:]
    if step == "[]" and isinstance(node, list | tuple):
        for i, inner in enumerate(node):
            yield from places_in(inner, rest, (*at, i))
    elif isinstance(node, Mapping) and step != "[]":
        names = [n for n in node if isinstance(n, str) and NAME.fullmatch(n)]
        for name in names if step == "*" else [step] * (step in node):
            yield from places_in(node[name], rest, (*at, name))


def ends(place: Place) -> int:
    """How many numbers stand beside a value that it does not give: the ends of an interval, or the size of its part."""
    match place.kind, place.base:
        case "rate", "robust" | "shortcut":
            return 0
        case "rate", "own":
            return 1
        case "rate" | "difference", _:
            return 2
        case _:
            return 0


def selected(summary: Mapping[str, object], shown: Sequence[Place], measure: Measure) -> Tree:
    """A new tree of the shown places alone."""
    out: dict[str | int, object] = {}
    for entry in shown:
        for at, found in places_in(summary, entry.path.split(".")):
            nothing = found is None or found in ({}, [])
            _put(out, at, found if nothing else made(found, entry, measure))
    listed = _listed(out)
    assert isinstance(listed, dict)
    return listed


def made(found: object, entry: Place, measure: Measure) -> object:
    """One value as it may be shown; None where it is of no kind that this place holds."""
    step = measure.steps[entry.group] if entry.group else coarse.FINEST
    if step is None:
        return coarse.withheld("bit budget") if isinstance(found, Mapping) else None
    match entry.kind:
        case "rate" if isinstance(found, Mapping):
            return _rate(found, entry, measure, step)
        case "difference" if isinstance(found, Mapping):
            return _difference(found, entry, measure, step)
        case "word":
            return found if isinstance(found, str) and WORD.fullmatch(found) else None
        case "truth":
            return found if isinstance(found, bool) else None
        case _ if isinstance(found, int | float) and not isinstance(found, bool):
            return _number(found, entry, measure, step)
    return None


def _rate(found: Mapping[str, object], entry: Place, measure: Measure, step: float) -> dict[str, object]:
    match entry.base:
        case "robust" | "shortcut":
            return coarse.flagged_rate(found, measure.sizes.get(entry.base, 0), measure.k, step)
        case "own":
            return coarse.flagged_rate(found, None, measure.k, step)
        case "answered":
            return coarse.few_withheld(coarse.plain_rate(found, measure.k, step), found, measure.k)
        case _:
            return coarse.plain_rate(found, measure.k, step)


def _difference(
    found: Mapping[str, object], entry: Place, measure: Measure, step: float
) -> dict[str, object]:
    shown = coarse.plain_rate(found, measure.k, step)
    if entry.base:
        shown["n"] = measure.sizes.get(entry.base)
    elif entry.group:
        shown["n"] = None
    return shown


def _number(x: float, entry: Place, measure: Measure, step: float) -> object:
    match entry.kind:
        case "share":
            return coarse.rounded(x, step)
        case "number":
            return coarse.three_digits(x)
        case "p":
            return coarse.one_digit_up(x)
        case "cell":
            return int(x) if x == 0 or x >= measure.k else coarse.withheld(f"< {measure.k}")
        case "count":
            return round(x)
        case "setting":
            return x
    return None


def _put(out: dict[str | int, object], at: At, value: object) -> None:
    node = out
    for step in at[:-1]:
        inner = node.get(step)
        if not isinstance(inner, dict):
            inner = node[step] = {}
        node = inner
    before = node.get(at[-1])
    # What an earlier entry put here (a rate whose p comes after it) is kept; a null never takes its place.
    if isinstance(before, dict) and isinstance(value, dict):
        before |= value
    elif before is None:
        node[at[-1]] = value


def _listed(node: object) -> object:
    if not isinstance(node, dict):
        return node
    if node and all(isinstance(key, int) for key in node):
        rows = [_listed(node[key]) for key in sorted(node)]
        # An interval that is withheld is null, not two nulls.
        return None if all(row is None for row in rows) else rows
    return {key: _listed(value) for key, value in node.items()}
