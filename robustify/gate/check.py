"""Contents through every layer and the policy: what is a finding, what was let pass, and the printed report.

`scan` is pure: bytes in, findings out. It opens no file, knows no git and keeps no state between files but the index.
Findings are printed to stdout, one line each; counts and layers that did not run to stderr.
"""

import hashlib
import json
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import islice

from robustify.gate.blocks import prose_items
from robustify.gate.fingerprints import Fingerprints, Match
from robustify.gate.key_file import Key
from robustify.gate.opaque import MOST_BYTES, is_pointer, refusal, text_of
from robustify.gate.policy import BY_ID, Finding, Policy
from robustify.gate.readings import readings, rejoined
from robustify.gate.runs import hidden
from robustify.gate.shapes import Shaped, named_items
from robustify.gate.sources import Blob
from robustify.gate.state import holds_split, states
from robustify.gate.tables import table_items
from robustify.gate.words import LEAST_TERMS, lexicon, streams

MOST_SECONDS = 40.0
"""Seconds of the processor for one file; the largest harmless ones take a quarter of it."""
ENOUGH = 3
"""Shapes without a key that refuse a file."""
_DEPTH = 3
"""How many times text within text is read."""
_MOST_SHAPES = 5000
_PLAIN = str.maketrans("？？：）（．，、　ＡＢＣＤＥＦＧＨＩＪ", "??:)(.,, ABCDEFGHIJ")
"""Marks and letters of other scripts, as options are marked with."""


class OutOfTimeError(Exception):
    """A file took more than its seconds."""


def scan(
    data: bytes, prints: Fingerprints | None = None, keys: Sequence[Key] = (), seconds: float = MOST_SECONDS
) -> list[Finding]:
    """Return everything that the layers find in one file's content, without a path, the strongest of each kind.

    `keys` are this user's own, whose secrets are known even alone. A file that takes more than so many seconds of the
    processor is refused with what was found until then.
    """
    found = _Found(data, prints, keys)
    try:
        with _within(seconds):
            found.look()
    except OutOfTimeError:
        found.add("RBG503", 1, f"(more than {seconds:g} s of the processor)")
    return found.findings()


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise `OutOfTimeError` if the body computes for longer. The timer needs the main thread and no other of its kind."""

    def stop(*_: object) -> None:
        raise OutOfTimeError

    free = signal.getitimer(signal.ITIMER_PROF)[0] == 0
    if threading.current_thread() is not threading.main_thread() or not free:
        begin = time.process_time()
        yield
        if time.process_time() - begin >= seconds:
            raise OutOfTimeError
        return
    before = signal.signal(signal.SIGPROF, stop)
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class _Found:
    """What is found in one content, layer by layer."""

    def __init__(self, data: bytes, prints: Fingerprints | None, keys: Sequence[Key]) -> None:
        self._data, self._prints, self._keys = data, prints, keys
        self._seen: set[str] = set()
        self._findings: dict[tuple[str, str], Finding] = {}
        self._matches: dict[str, Match] = {}
        self._shapes: list[Shaped] = []
        self._terms = 0

    def add(self, rule: str, line: int, says: str) -> None:
        """Keep the first finding of a rule that says the same."""
        self._findings.setdefault((rule, says), Finding(BY_ID[rule], line, says))

    def look(self) -> None:
        """Look at the content, its readings and the texts within it."""
        if len(self._data) > MOST_BYTES:
            self.add("RBG503", 1, too_large(len(self._data)))
            return
        text = text_of(self._data)
        if text is None:
            refused = refusal(self._data)
            if refused is not None:
                self.add(refused[0], 1, refused[1])
            return
        if is_pointer(self._data):
            self.add("RBG505", 1, "")
        self._text(text, 1, 0)

    def _text(self, text: str, line: int, depth: int) -> None:
        """Look at a text in each of its readings; `line` is where it begins, for a text within the file's own."""
        if text in self._seen:
            return
        self._seen.add(text)
        before = self._shapes
        self._reading(text, line, depth)
        if holds_split(text):
            return
        form = text
        for form in readings(text):
            if form not in self._seen:
                self._seen.add(form)
                self._reading(changed(text.split("\n"), form), line, depth)
        for pieces in rejoined(form) if self._prints is not None else ():
            self._prints_of(pieces, line, depth)
        self._shapes = before if _weight(before) >= _weight(self._shapes) else self._shapes

    def _reading(self, text: str, line: int, depth: int) -> None:
        def at(offset: int) -> int:
            return line + text.count("\n", 0, offset) if depth == 0 else line

        for rule, offset, says in states(text, self._keys):
            self.add(rule, at(offset), says)
        shapes = [Shaped(line + s.line - 1 if depth == 0 else line, s.keyed) for s in shapes_of(text)]
        self._shapes = max(self._shapes, shapes, key=_weight)
        if shapes:
            self._terms = max(self._terms, lexicon().named(streams(text)[0]))
        for match in self._prints.matches(text) if self._prints is not None else ():
            best = self._matches.get(match.set_name)
            if best is None or match.weight > best.weight:
                self._matches[match.set_name] = replace(
                    match, line=line + match.line - 1 if depth == 0 else line
                )
        for inner in hidden(text) if not holds_split(text) else ():
            if isinstance(inner, str):
                if depth < _DEPTH:
                    self._text(inner, line, depth + 1)
            else:
                self.add("RBG502", at(inner[0]), inner[1])

    def _prints_of(self, text: str, line: int, depth: int) -> None:
        for match in self._prints.matches(text) if self._prints is not None else ():
            best = self._matches.get(match.set_name)
            if best is None or match.weight > best.weight:
                self._matches[match.set_name] = replace(
                    match, line=line + match.line - 1 if depth == 0 else line
                )

    def findings(self) -> list[Finding]:
        """Return all findings in the order of their lines."""
        for match in self._matches.values():
            strength = "a whole text" if match.whole else f"cover {match.cover} words"
            rule = "RBG301" if match.refuses else "RBG302"
            self.add(rule, match.line, f'(set "{match.set_name}", {strength})')
        if self._shapes:
            n, keyed = len(self._shapes), sum(shaped.keyed for shaped in self._shapes)
            first, last = min(s.line for s in self._shapes), max(s.line for s in self._shapes)
            where = f", to line {last}" if last > first else ""
            rule = "RBG101" if keyed or n >= ENOUGH else "RBG104"
            self.add(
                rule,
                first,
                f"({n}{'+' if n >= _MOST_SHAPES else ''} shaped like an item, {keyed} with a key{where})",
            )
            if rule == "RBG104" and self._terms >= LEAST_TERMS:
                self.add("RBG201", first, f"(a shape of an item, {self._terms} terms of the lexicon)")
        return sorted(self._findings.values(), key=lambda finding: (finding.line, finding.rule.id))


def too_large(size: int) -> str:
    """Return what is said of a file that is larger than the gate reads."""
    return f"({size:,} bytes; the gate reads at most {MOST_BYTES >> 20} MiB of a file)"


def shapes_of(text: str) -> list[Shaped]:
    """Return the shapes of items in a text, as the detector that finds most sees them."""
    if not text.isascii():
        text = text.translate(_PLAIN)
    found = [
        list(islice(detector(text), _MOST_SHAPES)) for detector in (named_items, table_items, prose_items)
    ]
    return max(found, key=_weight)


def _weight(shapes: list[Shaped]) -> tuple[int, int]:
    return sum(shaped.keyed for shaped in shapes), len(shapes)


def changed(old: Sequence[str], unescaped: str, near: int = 60) -> str:
    """Return the lines of a reading that differ from the `old` ones, with their neighbours; the others left blank."""
    new = unescaped.split("\n")
    if len(old) != len(new):
        return unescaped
    out, done = [""] * len(new), 0
    for i in (i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b):
        begin, end = max(done, i - near), i + near + 1
        out[begin:end] = new[begin:end]
        done = min(end, len(new))
    return "\n".join(out)


@dataclass(slots=True)
class Outcome:
    """What a check found. `allowed` is the number of findings that an entry of the policy lifted."""

    findings: list[Finding] = field(default_factory=list)
    allowed: int = 0
    files: int = 0
    size: int = 0

    @property
    def refused(self) -> list[Finding]:
        """The findings that refuse; the others are warnings."""
        return [finding for finding in self.findings if finding.rule.refuses]


def check_contents(
    contents: Iterable[Blob], prints: Fingerprints | None, policy: Policy, keys: Sequence[Key] = ()
) -> Outcome:
    """Scan contents and compare the findings with the policy; `keys` as for `scan`."""
    outcome, known = Outcome(), dict[str, list[Finding]]()
    for content in contents:
        outcome.files += 1
        outcome.size += content.size
        digest = "" if content.data is None else hashlib.sha256(content.data).hexdigest()
        if content.data is None:
            known[digest] = [Finding(BY_ID["RBG503"], 1, too_large(content.size))]
        elif digest not in known:
            known[digest] = scan(content.data, prints, keys)
        path, in_path = _in_path(content, prints)
        for finding in (*in_path, *known[digest]):
            placed = replace(finding, path=path)
            if policy.allows(placed, digest, date.today()):
                outcome.allowed += 1
            else:
                outcome.findings.append(placed)
    return outcome


def _in_path(content: Blob, prints: Fingerprints | None) -> tuple[str, list[Finding]]:
    """Return the path to print and the findings in it: a path that holds registered text is not printed."""
    matches = prints.matches(content.path) if prints is not None and content.named else ()
    match = next((match for match in matches if match.refuses), None)
    if match is None:
        return content.path, []
    says = f'(in the path itself: set "{match.set_name}", cover {match.cover} words)'
    return f"<a path of {len(content.path)} characters>", [Finding(BY_ID["RBG301"], 1, says)]


def print_report(
    outcome: Outcome, why_not: str, notes: Sequence[str] = (), *, as_json: bool, quiet: bool
) -> None:
    """Print an outcome. `why_not`: why the fingerprint layer did not run, empty if it did."""
    if as_json:
        summary = {
            "format": 2,
            "refused": len(outcome.refused),
            "warnings": len(outcome.findings) - len(outcome.refused),
            "scanned": {"contents": outcome.files, "bytes": outcome.size},
            "fingerprints": f"did not run: {why_not}" if why_not else "ran",
            "allowed": outcome.allowed,
            "notes": list(notes),
            "findings": [finding.as_json() for finding in outcome.findings],
        }
        print(json.dumps(summary))
        return
    for finding in outcome.findings:
        print(finding.as_line())
    if outcome.findings or not quiet:
        for line in (*notes, *_lines(outcome, why_not)):
            print(f"robustify gate: {line}", file=sys.stderr)


def _lines(outcome: Outcome, why_not: str) -> Iterator[str]:
    scanned = f"{outcome.files:,} contents, {outcome.size / 1e6:.1f} MB"
    if why_not:
        passes = "text of a registered set passes unless it has the shape of an item"
        yield f"the fingerprint layer did not run: {why_not}; {passes}"
    if outcome.allowed:
        yield f"{outcome.allowed} findings passed by allow-list entries"
    if not outcome.refused:
        warnings = len(outcome.findings)
        yield f"clean: {scanned}" + (f", {warnings} warnings" if warnings else "")
        return
    rules = sorted({finding.rule.id for finding in outcome.refused})
    paths = len({finding.path for finding in outcome.refused})
    explain = rules[0] if len(rules) == 1 else "all"
    yield f"REFUSED: {len(outcome.refused)} findings in {paths} of {scanned}; robustify gate --explain {explain}"
