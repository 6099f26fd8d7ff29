"""One file's content through every layer: what was found, at which line, under which rule.

Pure: bytes in, findings out. It opens no file, knows no git and keeps no state between files but the index.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from robustify.gate.findings import Finding
from robustify.gate.fingerprints import Fingerprints, Match
from robustify.gate.lexicon import LEAST, lexicon
from robustify.gate.readings import Reader, Reading, Unread
from robustify.gate.rules import BY_ID
from robustify.gate.structure import Shapes
from robustify.gate.unpack import Columns
from robustify.gate.words import streams

_CANARY = re.compile(
    r"canary\s+(?:guid|string|token)\W{1,6}[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I
)
_CORPORA = re.compile(r"benchmark\s+data\s+should\s+never\s+appear\s+in\s+training\s+corpora", re.I)
_CANARY_WORDS = ("canary", "Canary", "CANARY", "enchmark data", "BENCHMARK DATA", "enchmark Data")
_NEAR = 6
"""Lines around an unwrapped one that are looked at again."""
_KEY = re.compile(r"rbk1:[0-9a-f]{16}:[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Found:
    """One finding before it has a path."""

    rule: str
    line: int
    says: str

    def at(self, path: str) -> Finding:
        """The finding of a path."""
        return Finding(path, self.line, BY_ID[self.rule], self.says)


def scan(data: bytes, fingerprints: Fingerprints | None = None) -> list[Found]:
    """Everything that the layers find in one file's content, one line a rule, the strongest."""
    shapes = Shapes()
    terms = 0
    matches: dict[str, Match] = {}
    out: dict[tuple[str, str], Found] = {}
    before = ""
    for part in Reader().read(data):
        if isinstance(part, Unread):
            out.setdefault((part.rule, part.says), Found(part.rule, part.line, part.says))
            continue
        if isinstance(part, Columns):
            shapes.count(part)
            continue
        shapes.look(part)
        text = part.text if part.raw else changed(before, part.text)
        before = part.text if part.raw else before
        folds = streams(text)
        if part.raw:
            terms = max(terms, lexicon().named(folds[0].parts))
        for state in _states(part):
            out.setdefault((state.rule, ""), state)
        if fingerprints is not None:
            for match in fingerprints.matches(text, folds, disguised=part.raw):
                _keep(match, part, matches)
    found = [*_fingerprints(matches), *_structure(shapes, terms), *out.values()]
    return sorted(found, key=lambda f: (f.line, f.rule))


def changed(raw: str, unwrapped: str) -> str:
    """The lines of an unwrapped text that differ from the raw ones, with their neighbours; the others left blank.

    What did not change was looked at in the raw text already.
    """
    old, new = raw.split("\n"), unwrapped.split("\n")
    if len(old) != len(new):
        return unwrapped
    near: set[int] = set()
    for i, (before, after) in enumerate(zip(old, new, strict=True)):
        if before != after:
            near.update(range(i - _NEAR, i + _NEAR + 1))
    return "\n".join(line if i in near else "" for i, line in enumerate(new))


def _keep(match: Match, part: Reading, matches: dict[str, Match]) -> None:
    held = matches.get(match.set_name)
    if held is None or match.weight > held.weight:
        matches[match.set_name] = Match(match.set_name, part.line_at(match.line), match.cover, match.whole)


def _fingerprints(matches: dict[str, Match]) -> Iterator[Found]:
    for match in matches.values():
        strength = "a whole text" if match.whole else f"cover {match.cover} words"
        rule = "RBG301" if match.refuses else "RBG302"
        yield Found(rule, match.line, f'(set "{match.set_name}", {strength})')


def _structure(shapes: Shapes, terms: int) -> Iterator[Found]:
    verdict = shapes.verdict()
    if verdict is None:
        return
    rule, line, says = verdict
    yield Found(rule, line, says)
    if rule == "RBG104" and terms >= LEAST:
        yield Found("RBG201", line, f"(a shape of an item, {terms} terms of the lexicon)")


def _states(part: Reading) -> Iterator[Found]:
    """Our own state that must not be committed, and canaries."""
    text = part.text
    if "rbk1:" in text:
        yield from (Found("RBG402", _line(part, match), "") for match in _KEY.finditer(text))
    if any(word in text for word in _CANARY_WORDS):
        for pattern in (_CANARY, _CORPORA):
            yield from (Found("RBG401", _line(part, match), "") for match in pattern.finditer(text))
    if part.raw and '"sensitivity"' in text and '"restricted"' in text and _is_restricted_run(text):
        yield Found("RBG403", part.line, "")


def _is_restricted_run(text: str) -> bool:
    """Whether a text is the manifest of a run (design, section 4) whose set is restricted."""
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(held, dict) or not isinstance(held.get("files"), dict):
        return False
    config = held.get("config")
    levels = (held.get("sensitivity"), config.get("sensitivity") if isinstance(config, dict) else None)
    return "restricted" in levels


def _line(part: Reading, match: re.Match[str]) -> int:
    return part.line_at(part.text.count("\n", 0, match.start()) + 1)
