"""Watches every dataclass of the package being made, and notes which of them show a canary in their repr."""

import dataclasses
import functools
import importlib
import pkgutil
import re
from typing import Any

_MARK = re.compile(r"qx[a-z]{10}", re.IGNORECASE)


def watch(canaries: frozenset[str], told: dict[str, int]) -> int:
    """Watch them all; `told` counts by class the values whose repr holds a canary. The number of classes watched."""
    import robustify

    kinds: set[type] = set()
    for module in pkgutil.walk_packages(robustify.__path__, "robustify."):
        if module.name.endswith("__main__"):
            continue
        try:
            held = importlib.import_module(module.name)
        # Engines whose packages are not installed.
        except ImportError:
            continue
        kinds |= {
            value
            for value in vars(held).values()
            if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.name
        }
    for kind in kinds:
        _watched(kind, canaries, told)
    return len(kinds)


def _watched(kind: type, canaries: frozenset[str], told: dict[str, int]) -> None:
    made = kind.__init__  # type: ignore[misc]

    @functools.wraps(made)
    def init(self: Any, *args: Any, **named: Any) -> None:
        made(self, *args, **named)
        if not canaries.isdisjoint(word.lower() for word in _MARK.findall(repr(self))):
            told[kind.__qualname__] = told.get(kind.__qualname__, 0) + 1

    kind.__init__ = init  # type: ignore[misc]
