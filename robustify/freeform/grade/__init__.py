"""Grading of free answers by rules and judges. The word lists and patterns of the rules are in `lists.yaml`."""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@cache
def closed_lists() -> dict[str, Any]:
    """Load the patterns, words and units of `lists.yaml`, by the name of their list."""
    found: dict[str, Any] = yaml.safe_load(files(__name__).joinpath("lists.yaml").read_text(encoding="utf-8"))
    return found


def word_set(name: str) -> frozenset[str]:
    """Return the words of a list."""
    return frozenset(str(closed_lists()[name]).split())


def pattern(name: str) -> str:
    """Join the entries of a list into a regular expression, without line breaks."""
    listed = closed_lists()[name]
    return str("|".join(listed.values()) if isinstance(listed, dict) else listed).replace("\n", "")
