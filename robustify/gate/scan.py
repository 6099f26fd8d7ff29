"""One file's content through every layer: what was found, at which line, under which rule.

Pure: bytes in, findings out. It opens no file, knows no git and keeps no state between files but the index.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import compress, count
from operator import ne

from robustify.gate.decode.readings import Reader, Reading, Unread
from robustify.gate.decode.unpack import Columns
from robustify.gate.detect.lexicon import LEAST, lexicon
from robustify.gate.detect.state import states
from robustify.gate.detect.structure import Shapes
from robustify.gate.findings import Finding
from robustify.gate.fingerprints.matching import Fingerprints, Match
from robustify.gate.fingerprints.words import streams
from robustify.gate.rules import BY_ID

_NEAR = 6
"""Lines around an unwrapped one in which words are looked for again."""
_AROUND = 60
"""The same for shapes and states: an item's first line may stand far above."""


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
        near = part if part.raw else replace(part, text=changed(before, part.text, _AROUND))
        shapes.look(near)
        for rule, offset, says in states(near.text, whole=near.raw):
            line = near.line_at(near.text.count("\n", 0, offset) + 1)
            out.setdefault((rule, ""), Found(rule, line, says))
        if fingerprints is not None:
            text = part.text if part.raw else changed(before, part.text)
            for match in fingerprints.matches(text, disguised=part.raw):
                _keep(match, part, matches)
        before = part.text if part.raw else before
    found = [*_fingerprints(matches), *_structure(shapes, data), *out.values()]
    return sorted(found, key=lambda f: (f.line, f.rule))


def changed(raw: str, unwrapped: str, near: int = _NEAR) -> str:
    """The lines of an unwrapped text that differ from the raw ones, with their neighbours; the others left blank.

    What did not change was looked at in the raw text already.
    """
    old, new = raw.split("\n"), unwrapped.split("\n")
    if len(old) != len(new):
        return unwrapped
    out = [""] * len(new)
    done = 0
    for i in compress(count(), map(ne, old, new)):
        begin, end = max(done, i - near), i + near + 1
        out[begin:end] = new[begin:end]
        done = min(end, len(new))
    return "\n".join(out)


def _keep(match: Match, part: Reading, matches: dict[str, Match]) -> None:
    held = matches.get(match.set_name)
    if held is None or match.weight > held.weight:
        matches[match.set_name] = Match(match.set_name, part.line_at(match.line), match.cover, match.whole)


def _fingerprints(matches: dict[str, Match]) -> Iterator[Found]:
    for match in matches.values():
        strength = "a whole text" if match.whole else f"cover {match.cover} words"
        rule = "RBG301" if match.refuses else "RBG302"
        yield Found(rule, match.line, f'(set "{match.set_name}", {strength})')


def _structure(shapes: Shapes, data: bytes) -> Iterator[Found]:
    verdict = shapes.verdict()
    if verdict is None:
        return
    rule, line, says = verdict
    yield Found(rule, line, says)
    terms = _terms(data) if rule == "RBG104" else 0
    if terms >= LEAST:
        yield Found("RBG201", line, f"(a shape of an item, {terms} terms of the lexicon)")


def _terms(data: bytes) -> int:
    """How many terms of the lexicon the text of a file names: asked only where it decides."""
    texts = (part.text for part in Reader().read(data) if isinstance(part, Reading) and part.raw)
    return max((lexicon().named(streams(text)[0]) for text in texts), default=0)
