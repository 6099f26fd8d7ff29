"""Detection of robustify's private state (keys, local records, records of restricted runs) and of canary lines.

A hashed split may be committed if it has exactly the fields of its format.
"""

import json
import re
from collections.abc import Iterator, Sequence

from robustify.base.key_file import KEYED_ID, SPLIT, Key, is_split

_PRIVATE = (
    ("robustify.registered", "the record of registered sets, with its secret"),
    ("robustify.licences", "the record of accepted terms"),
    ("robustify.release-claim", "the claim of a run, with digests of items"),
)
_NAMED = r"\bformat[\"'\\]{0,3}\s?:[\s\"'\\]{0,6}"
_MARKS = (('"robustify.',), ('"sensitivity"', '"restricted"'), ('"release"', '"evaluator"'))
"""Marks of robustify's documents. Every document contains all marks of one group."""
_MANY_IDS = 5
"""Number of keyed IDs outside a hashed split that is too many for an example."""
_GUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_PATTERNS = (
    ("RBG403", "evaluator", "", r"release[\s_-]+level[\s:=\"'_*-]+evaluator\b"),
    ("RBG401", "canary", "", rf"canary\s+(?:guid|string|token)\W{{1,6}}{_GUID}"),
    ("RBG401", "corpora", "", r"benchmark\s+data\s+should\s+never\s+appear\s+in\s+training\s+corpora"),
    ("RBG403", "sensitivity", "", r"\bsensitivity\W{1,8}restricted\b[\s\S]{0,400}?\bsignature\W{1,8}set:"),
    ("RBG404", "robustify.releases", "(a record of releases)", rf"{_NAMED}robustify\.releases/\d"),
    *(
        ("RBG404", name, f"({says})", rf"{_NAMED}{name}/\d[\s\S]{{0,80}}?[0-9a-f]{{40}}")
        for name, says in _PRIVATE
    ),
)
"""Rule, a word that each match contains, details, and pattern."""
_PREFIX = re.compile(r"rbk1\W{0,4}:")
_BETWEEN = re.compile(r"[\s\"'`\\+,#>|()]+")
"""Characters between the parts of a key that is split over lines: blanks, quotes, comment marks."""
_SECRET = re.compile(r"[0-9a-f]{16}:[\w-]{43}", re.ASCII)


def states(text: str, keys: Sequence[Key] = ()) -> Iterator[tuple[str, int, str]]:
    """Yield content that must not be committed, as a rule, an offset, and details. The secrets of `keys` are found even
    without their prefix."""
    yield from (("RBG402", offset, "") for offset in keys_in(text, keys))
    low = text.lower()
    for rule, word, says, pattern in _PATTERNS:
        for match in re.finditer(pattern, text, re.I) if word in low else ():
            yield rule, match.start(), says
    tree = _document(text)
    yield from ((rule, 0, says) for rule, says in _records(tree))
    if "rb1_" in text and not is_split(tree):
        found = [match.start() for match in KEYED_ID.finditer(text)]
        if len(found) >= _MANY_IDS:
            yield "RBG405", found[0], f"({len(found):,} ids)"


def keys_in(text: str, known: Sequence[Key] = ()) -> Iterator[int]:
    """Yield the offset of each key in a text, also if it is split over lines. A secret without its prefix is found only if
    its key is `known`, because it looks like any other 43 letters."""
    for match in _PREFIX.finditer(text):
        if _SECRET.match(_BETWEEN.sub("", text[match.end() : match.end() + 240])):
            yield match.start()
    for key in known:
        coded = key.as_text()[-44:-1]
        for secret in (coded, coded.replace("-", "+").replace("_", "/"), key.secret.hex()):
            at = text.find(secret[:8])
            if at >= 0 and secret in re.sub(r"[^\w/+-]+", "", text[at : at + 3 * len(secret)]):
                yield at


def _document(text: str) -> dict[str, object]:
    """Return the JSON object in a text that may be a document of robustify, or an empty one."""
    try:
        tree = json.loads(text) if any(all(mark in text for mark in marks) for marks in _MARKS) else None
    except (ValueError, RecursionError):
        tree = None
    return tree if isinstance(tree, dict) else {}


def _records(tree: dict[str, object]) -> Iterator[tuple[str, str]]:
    named, config, release = tree.get("format"), tree.get("config"), tree.get("release")
    if named == SPLIT and not is_split(tree):
        yield "RBG405", "(a hashed split with more than its format has)"
    levels = (tree.get("sensitivity"), config.get("sensitivity") if isinstance(config, dict) else None)
    manifest = isinstance(tree.get("files"), dict) and "restricted" in levels
    if manifest or (isinstance(release, dict) and release.get("level") == "evaluator"):
        yield "RBG403", ""
