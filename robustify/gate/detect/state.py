"""What of robustify's own must not be committed, and the canary lines of benchmarks.

Keys, the caches and records of a user's machine, and the record of a restricted run are refused; a hashed split may be
committed, and then it has the keys of its format and nothing else.
"""

import json
import re
from collections.abc import Iterator

Sighting = tuple[str, int, str]
"""The id of a rule, an offset, and what to say."""

SPLIT = "robustify.hashed-split/1"
_PRIVATE = {
    "robustify.registered/1": "(the record of registered sets, with its secret)",
    "robustify.licences/1": "(the record of accepted terms)",
}
_MARKS = (('"robustify.',), ('"sensitivity"', '"restricted"'), ('"release"', '"evaluator"'))
"""Each of our documents holds all marks of one of these."""
_SPLIT_KEYS = {"format", "dataset", "dataset_version", "split", "canon", "key_id", "n", "ids"}
_ID = re.compile(r"rb1_[a-z2-7]{26}(?![a-z0-9])")
_MANY_IDS = 5
"""Keyed ids outside a hashed split that are more than an example."""
_WORD = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY = re.compile(r"rbk1:[0-9a-f]{16}:[A-Za-z0-9_-]{43}")
_CANARY = re.compile(
    r"canary\s+(?:guid|string|token)\W{1,6}[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I
)
_CORPORA = re.compile(r"benchmark\s+data\s+should\s+never\s+appear\s+in\s+training\s+corpora", re.I)
_CANARY_WORDS = ("anary", "ANARY", "nchmark data", "BENCHMARK DATA", "nchmark Data")


def states(text: str, *, whole: bool) -> Iterator[Sighting]:
    """What in a text must not be committed. `whole`: the text is all of a content, not unescaped."""
    if "rbk1:" in text:
        yield from (("RBG402", match.start(), "") for match in _KEY.finditer(text))
    if any(word in text for word in _CANARY_WORDS):
        for pattern in (_CANARY, _CORPORA):
            yield from (("RBG401", match.start(), "") for match in pattern.finditer(text))
    tree = _document(text) if whole else None
    if tree is not None:
        yield from _records(tree)
    if "rb1_" in text and not is_split(tree):
        found = [match.start() for match in _ID.finditer(text)]
        if len(found) >= _MANY_IDS:
            yield "RBG405", found[0], f"({len(found):,} ids)"


def _document(text: str) -> dict[str, object] | None:
    """The object that a text is, where it may be one of ours."""
    if not any(all(mark in text for mark in marks) for marks in _MARKS):
        return None
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def _records(tree: dict[str, object]) -> Iterator[Sighting]:
    named = tree.get("format")
    if isinstance(named, str) and named in _PRIVATE:
        yield "RBG404", 0, _PRIVATE[named]
    if named == SPLIT and not is_split(tree):
        yield "RBG405", 0, "(a hashed split with more than its format has)"
    if _is_restricted_run(tree):
        yield "RBG403", 0, ""


def _is_restricted_run(tree: dict[str, object]) -> bool:
    """Whether an object is the manifest of a run on a restricted set, or its summary as the evaluator may see it."""
    config, release = tree.get("config"), tree.get("release")
    levels = (tree.get("sensitivity"), config.get("sensitivity") if isinstance(config, dict) else None)
    if isinstance(tree.get("files"), dict) and "restricted" in levels:
        return True
    return isinstance(release, dict) and release.get("level") == "evaluator"


def holds_split(text: str) -> bool:
    """Whether a text is a hashed split and nothing else: its ids are no encoded text."""
    return f'"{SPLIT}"' in text and is_split(_document(text))


def is_split(tree: object) -> bool:
    """Whether an object is a hashed split with the keys of its format only, and sorted keyed ids (safety.md, 3.5)."""
    if not isinstance(tree, dict) or set(tree) != _SPLIT_KEYS or tree["format"] != SPLIT:
        return False
    ids = tree["ids"]
    names = [tree[name] for name in ("dataset", "dataset_version", "split", "canon", "key_id")]
    return (
        isinstance(ids, list)
        and all(isinstance(one, str) and _ID.fullmatch(one) for one in ids)
        and ids == sorted(set(ids))
        and tree["n"] == len(ids)
        and all(isinstance(name, str) and _WORD.fullmatch(name) for name in names)
    )
