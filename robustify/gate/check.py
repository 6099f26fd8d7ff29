"""Scanner that applies every layer and the policy to file contents, and prints the report.

`scan` is a pure function from bytes to findings. It reads no files and does not use Git. Findings are printed to stdout,
one per line. Counts and skipped layers are printed to stderr.
"""

import hashlib
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from robustify.gate.encoded import hidden
from robustify.gate.fingerprints import Fingerprints, Match
from robustify.gate.folded_words import LEAST_TERMS, readings, rejoined, streams, terms_named, under_names
from robustify.gate.key_file import Key, keys_in
from robustify.gate.opaque import MOST_BYTES, is_pointer, refusal, text_of
from robustify.gate.policy import BY_ID, Finding, Policy
from robustify.gate.shapes import ENOUGH, MOST_SHAPES, Shaped, shapes_of, weight
from robustify.gate.sources import Blob
from robustify.gate.state import holds_split, states

MOST_SECONDS = 40.0
"""Processor seconds after which no further reading of a file is scanned. The largest harmless files need a quarter."""
_DEPTH = 3
"""Maximum depth to which embedded text is decoded."""


def scan(
    data: bytes, prints: Fingerprints | None = None, keys: Sequence[Key] = (), seconds: float = MOST_SECONDS
) -> list[Finding]:
    """Return the findings of all layers in the content of one file.

    `keys` are the user's own keys, whose secrets are found even without an ID. If the scan takes more than `seconds` of
    processor time, the file is refused and the findings up to then are returned.
    """
    found = _Found(prints, keys, time.process_time() + seconds)
    text = text_of(data) if len(data) <= MOST_BYTES else None
    if len(data) > MOST_BYTES:
        found.add("RBG503", 1, too_large(len(data)))
    elif text is None:
        for rule, says in refusal(data):
            found.add(rule, 1, says)
    else:
        if is_pointer(data):
            found.add("RBG505", 1, "")
        found.look(text, None)
    return found.findings()


class _Found:
    def __init__(self, prints: Fingerprints | None, keys: Sequence[Key], until: float) -> None:
        self._prints, self._keys, self._until = prints, keys, until
        self._seen, self._terms = set[str](), 0
        self._findings, self._matches = dict[tuple[str, str], Finding](), dict[str, Match]()
        self._shapes: list[Shaped] = []

    def add(self, rule: str, line: int, says: str) -> None:
        """Add a finding unless the same rule has already reported the same details."""
        self._findings.setdefault((rule, says), Finding(BY_ID[rule], line, says))

    def look(self, text: str, line: int | None, depth: int = 0) -> None:
        """Scan each reading of a text. `line` is the line in the file for embedded text, and None for the file's text."""
        if text in self._seen:
            return
        forms = [text] if holds_split(text) else [text, *readings(text)]
        for form in forms:
            if form not in self._seen:
                self._seen.add(form)
                self._reading(form if form is text else changed(text.split("\n"), form), line, depth)
        for pieces in rejoined(forms[-1]) if self._prints is not None else ():
            self._words(pieces, line)
        for pieces in under_names(forms[-1]):
            self._plain(pieces, line or 1)

    def _reading(self, text: str, line: int | None, depth: int) -> None:
        if time.process_time() >= self._until:
            self.add("RBG503", 1, "(the scan took too long)")
            return

        def at(offset: int) -> int:
            return line or 1 + text.count("\n", 0, offset)

        for rule, offset, says in states(text, self._keys):
            self.add(rule, at(offset), says)
        self._plain(text, line)
        for offset, says, inner in hidden(text) if not holds_split(text) else ():
            if inner is None:
                self.add("RBG502", at(offset), f"({says})")
            elif depth < _DEPTH:
                self.look(inner, at(offset), depth + 1)

    def _plain(self, text: str, line: int | None) -> None:
        shapes = [Shaped(line or shaped.line, shaped.keyed) for shaped in shapes_of(text)]
        self._shapes = max(self._shapes, shapes, key=weight)
        if shapes:
            self._terms = max(self._terms, terms_named(streams(text)[0]))
        self._words(text, line)

    def _words(self, text: str, line: int | None) -> None:
        for match in self._prints.matches(text) if self._prints is not None else ():
            self._matches.setdefault(match.set_name, replace(match, line=line or match.line))

    def findings(self) -> list[Finding]:
        """Return all findings, sorted by line."""
        for match in self._matches.values():
            self.add("RBG301", match.line, f'(set "{match.set_name}", {match.strength})')
        if self._shapes:
            n, keyed = len(self._shapes), sum(shaped.keyed for shaped in self._shapes)
            first, last = min(s.line for s in self._shapes), max(s.line for s in self._shapes)
            more, where = "+" if n >= MOST_SHAPES else "", f", to line {last}" if last > first else ""
            refused = keyed or n >= ENOUGH
            says = f"({n}{more} shaped like an item, {keyed} with a key{where})"
            self.add("RBG101" if refused else "RBG104", first, says)
            if not refused and self._terms >= LEAST_TERMS:
                self.add("RBG201", first, f"(item shape, {self._terms} terms of the lexicon)")
        return sorted(self._findings.values(), key=lambda finding: (finding.line, finding.rule.id))


def too_large(size: int) -> str:
    """Return the details of a finding for a file that is too large to read."""
    return f"({size:,} bytes; the limit is {MOST_BYTES >> 20} MiB)"


def changed(old: Sequence[str], unescaped: str, near: int = 60) -> str:
    """Return a reading with only its changed lines and `near` lines around each; all other lines are blank."""
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
    """Findings and counts of a check. `allowed` counts the findings that policy entries lifted."""

    findings: list[Finding] = field(default_factory=list)
    allowed: int = 0
    files: int = 0
    size: int = 0

    @property
    def refused(self) -> list[Finding]:
        """Findings that refuse the content, without the warnings."""
        return [finding for finding in self.findings if finding.rule.refuses]


def check_contents(
    contents: Iterable[Blob], prints: Fingerprints | None, policy: Policy, keys: Sequence[Key] = ()
) -> Outcome:
    """Scan contents and drop the findings that the policy allows. The secrets of `keys` are found even without an ID."""
    outcome, known = Outcome(), dict[str, list[Finding]]()
    for content in contents:
        outcome.files += 1
        outcome.size += content.size
        digest = "" if content.data is None else hashlib.sha256(content.data).hexdigest()
        if content.data is None:
            known[digest] = [Finding(BY_ID["RBG503"], 1, too_large(content.size))]
        elif digest not in known:
            known[digest] = scan(content.data, prints, keys)
        path, in_path = _in_path(content.path, prints, keys)
        for finding in (*in_path, *known[digest]):
            placed = replace(finding, path=path)
            if policy.allows(placed, digest, date.today()):
                outcome.allowed += 1
            else:
                outcome.findings.append(placed)
    return outcome


def _in_path(path: str, prints: Fingerprints | None, keys: Sequence[Key]) -> tuple[str, list[Finding]]:
    """Return a printable path and any findings in the path. A path with registered text or a key is not printed."""
    found = [
        ("RBG301", f': set "{m.set_name}", {m.strength}') for m in (prints.matches(path) if prints else ())
    ]
    found += [("RBG402", "") for form in (path, path.replace("/", "\n")) for _ in keys_in(form, keys)]
    for rule, says in found:
        return f"<a path of {len(path)} characters>", [Finding(BY_ID[rule], 1, f"(in the path itself{says})")]
    return path, []


def report(outcome: Outcome, why_not: str, notes: Sequence[str] = ()) -> None:
    """Print the findings and a summary. `why_not` is the reason why fingerprints were not checked, or empty."""
    for finding in outcome.findings:
        print(finding.as_line())
    for line in (*notes, *_summary(outcome, why_not)):
        print(f"robustify gate: {line}", file=sys.stderr)


def _summary(outcome: Outcome, why_not: str) -> Iterator[str]:
    scanned = f"{outcome.files:,} contents, {outcome.size / 1e6:.1f} MB"
    if why_not:
        passes = "Text of a registered set passes unless it is shaped like an item."
        yield f"The fingerprint layer did not run: {why_not}. {passes}"
    if outcome.allowed:
        yield f"{outcome.allowed} findings are allowed by policy entries"
    refused = outcome.refused
    if refused:
        yield f"REFUSED: {len(refused)} findings in {len({one.path for one in refused})} of {scanned}"
    else:
        yield f"clean: {scanned}, {len(outcome.findings)} warnings"
    for rule in sorted({finding.rule for finding in refused}, key=lambda rule: rule.id):
        yield f"{rule.id}: {rule.says}. {rule.remedy}"
