"""Reads a summary in which anything may be absent.

A log somebody else made gives half of the numbers, a run without a held-out model lacks others. Whatever is
missing, null, infinite or of another type reads as absent here, so that no printing has to ask twice.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with what it rests on: how many items, and its 95 % interval. Each part may be absent."""

    value: float | None = None
    n: int | None = None
    lo: float | None = None
    hi: float | None = None

    def over(self, n: float) -> "Quantity":
        """The same quantity as a share of `n`."""
        return self.mapped(lambda x: x / n) if n > 0 else Quantity()

    def mapped(self, change: Callable[[float], float]) -> "Quantity":
        """The quantity after a change that keeps the order of numbers."""
        value, lo, hi = (None if x is None else change(x) for x in (self.value, self.lo, self.hi))
        return Quantity(value, self.n, lo, hi)


def part(node: object, *path: str) -> Mapping[str, object]:
    """The mapping at this path; an empty one where there is none."""
    found = at(node, *path)
    return found if isinstance(found, Mapping) else {}


def at(node: object, *path: str) -> object:
    """What stands at this path; None where there is nothing."""
    for step in path:
        node = node.get(step) if isinstance(node, Mapping) else None
    return node


def deciding(rule: object, name: str) -> object:
    """A number about luck: with the places of the keys known where voters could see places, else without."""
    by_place = part(rule, "by_place")
    return by_place.get(name) if by_place else at(rule, name)


def number(x: object) -> float | None:
    """A finite number, or None; a truth value is no number."""
    if isinstance(x, bool) or not isinstance(x, int | float) or not math.isfinite(x):
        return None
    return float(x)


def whole(x: object) -> int | None:
    """A count, or None."""
    found = number(x)
    return None if found is None else round(found)


def quantity(x: object) -> Quantity:
    """A quantity from `{"value", "n", "ci": [lo, hi]}` or from a bare number."""
    if not isinstance(x, Mapping):
        return Quantity(number(x))
    ci = x.get("ci")
    ends = (number(ci[0]), number(ci[1])) if isinstance(ci, list | tuple) and len(ci) == 2 else (None, None)
    lo, hi = ends if None not in ends else (None, None)
    return Quantity(number(x.get("value")), whole(x.get("n")), lo, hi)


def named(node: object, *path: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The (name, mapping) pairs at this path, in their order; entries that are no mapping are passed over."""
    for name, value in part(node, *path).items():
        if isinstance(value, Mapping):
            yield str(name), value


def records(x: object) -> tuple[Mapping[str, object], ...]:
    """The mappings of a list."""
    return tuple(r for r in x if isinstance(r, Mapping)) if isinstance(x, list | tuple) else ()


def texts(x: object) -> tuple[str, ...]:
    """The strings of a list."""
    return tuple(t for t in x if isinstance(t, str)) if isinstance(x, list | tuple) else ()


def numbers(x: object) -> tuple[float, ...]:
    """A list of numbers; empty unless all of them are."""
    found: Sequence[float | None] = [number(v) for v in x] if isinstance(x, list | tuple) else []
    return tuple(v for v in found if v is not None) if None not in found else ()


def text(x: object, default: str = "") -> str:
    """A string, or the default."""
    return x if isinstance(x, str) and x else default
