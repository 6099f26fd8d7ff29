"""Grading of free answers, by rules and by judges; the closed lists of the rules are in lists.yaml."""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@cache
def closed_lists() -> dict[str, Any]:
    """Patterns, words and units by the name of their list."""
    found: dict[str, Any] = yaml.safe_load(files(__name__).joinpath("lists.yaml").read_text(encoding="utf-8"))
    return found


def word_set(name: str) -> frozenset[str]:
    """Return the words of a list."""
    return frozenset(str(closed_lists()[name]).split())


def pattern(name: str) -> str:
    """Return the alternatives of a list; breaks of its lines are no part of it."""
    listed = closed_lists()[name]
    return str("|".join(listed.values()) if isinstance(listed, dict) else listed).replace("\n", "")
