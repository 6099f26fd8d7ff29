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

from robustify.gate.fingerprints import Fingerprints, Match
from robustify.gate.folded_words import LEAST_TERMS, readings, rejoined, streams, terms_named, under_names
from robustify.gate.key_file import Key, keys_in
from robustify.gate.opaque import MOST_BYTES, is_pointer, refusal, text_of
from robustify.gate.policy import BY_ID, Finding, Policy, digest_of
from robustify.gate.shapes import ENOUGH, MOST_SHAPES, Shaped, shapes_of, weight
from robustify.gate.sources import Blob
from robustify.gate.state import holds_split, states
from robustify.gate.unreadable import decoded, unreadable

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
    return read(data, prints, keys, seconds).left(frozenset())


def read(
    data: bytes, prints: Fingerprints | None = None, keys: Sequence[Key] = (), seconds: float = MOST_SECONDS
) -> "Read":
    """Return what all layers find in the content of one file, from which a policy can take findings."""
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
        pieces = unreadable(text) if not holds_split(text) else []
        if pieces:
            n, line = sum(len(piece) for _, piece in pieces), 1 + text.count("\n", 0, pieces[0][0])
            found.add(
                "RBG502", line, f"({n:,} unreadable characters)", " ".join(piece for _, piece in pieces)
            )
    return found.read(data, text)


class _Found:
    def __init__(self, prints: Fingerprints | None, keys: Sequence[Key], until: float) -> None:
        self._prints, self._keys, self._until = prints, keys, until
        self._seen, self._terms = set[str](), 0
        self._findings, self._matches = dict[tuple[str, str], Finding](), dict[str, Match]()
        self._shapes: list[Shaped] = []

    def add(self, rule: str, line: int, says: str, row: str = "") -> None:
        """Add a finding unless the same rule has already reported the same details."""
        digests = (digest_of(rule, row),) if row else ()
        self._findings.setdefault((rule, says), Finding(BY_ID[rule], line, says, "", digests))

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
        for offset, inner in decoded(text) if depth < _DEPTH and not holds_split(text) else ():
            self.look(inner, at(offset), depth + 1)

    def _plain(self, text: str, line: int | None) -> None:
        shapes = [replace(shaped, line=line or shaped.line) for shaped in shapes_of(text)]
        self._shapes = max(self._shapes, shapes, key=weight)
        if shapes:
            self._terms = max(self._terms, terms_named(streams(text)[0]))
        self._words(text, line)

    def _words(self, text: str, line: int | None) -> None:
        for match in self._prints.matches(text) if self._prints is not None else ():
            self._matches.setdefault(match.set_name, replace(match, line=line or match.line))

    def read(self, data: bytes, text: str | None) -> "Read":
        """Return all findings, each with the digest of its row."""
        for match in self._matches.values():
            self.add("RBG301", match.line, f'(set "{match.set_name}", {match.strength})')
        findings = [
            replace(one, digests=one.digests or (digest_of(one.rule.id, _row(one, data, text)),))
            for one in self._findings.values()
        ]
        shapes = sorted(self._shapes, key=lambda shaped: shaped.line)
        rows = zip(shapes, _rows(text or "", [shaped.line - 1 for shaped in shapes]), strict=True)
        return Read(
            tuple(findings), tuple((shaped, digest_of("RBG101", row)) for shaped, row in rows), self._terms
        )


def _row(finding: Finding, data: bytes, text: str | None) -> str | bytes:
    """Return the row of a finding: its line for a canary, and the whole content for the other rules."""
    lines = (text or "").split("\n") if finding.rule.id == "RBG401" else []
    return lines[finding.line - 1] if finding.line <= len(lines) else data if text is None else text


def _rows(text: str, places: Sequence[int]) -> Iterator[str]:
    """Yield the rows of the shapes on the lines with these indices: the paragraph of each as far as the next shape, with
    the paragraph before it, or else the one after it, if it is no whole item."""
    lines, known = text.split("\n"), dict[tuple[int, int], str]()
    places = [min(at, len(lines) - 1) for at in places]  # a reading may have more lines
    for last, at, following in zip((-1, *places), places, (*places[1:], len(lines)), strict=False):
        first, end = _paragraph(lines, at, last + 1, following)
        before = _paragraph(lines, first - 2, last + 1, following)[0] if first - 2 > last else first
        after = _paragraph(lines, end + 1, last + 1, following)[1] if end + 1 < following else end
        if (first, end) not in known:
            ways = ("\n".join(lines[i:j]) for i, j in ((first, end), (before, end), (first, after)))
            known[first, end] = next(filter(shapes_of, ways), "\n".join(lines[before:after]))
        yield known[first, end]


def _paragraph(lines: Sequence[str], at: int, begin: int, end: int) -> tuple[int, int]:
    first, last = at, at + 1
    while first > begin and lines[first - 1].strip():
        first -= 1
    while last < end and lines[last].strip():
        last += 1
    return first, last


@dataclass(frozen=True, slots=True)
class Read:
    """Findings in a content, its item shapes with their digests, and the number of lexicon terms."""

    findings: tuple[Finding, ...]
    shapes: tuple[tuple[Shaped, str], ...]
    terms: int

    def left(self, allowed: frozenset[str]) -> list[Finding]:
        """Return the findings that are not allowed, sorted by line."""
        found = [
            one
            for one in self.findings
            if not (one.rule.allowable and one.digests and allowed.issuperset(one.digests))
        ]
        shapes = [(shaped, digest) for shaped, digest in self.shapes if digest not in allowed]
        if shapes:
            n, keyed = len(shapes), sum(shaped.keyed for shaped, _ in shapes)
            first, last = shapes[0][0].line, shapes[-1][0].line
            more, where = "+" if n >= MOST_SHAPES else "", f", to line {last}" if last > first else ""
            lists = sum(shaped.listed for shaped, _ in shapes)
            refused, digests = keyed or n - lists >= ENOUGH, tuple(digest for _, digest in shapes)
            says = f"({n}{more} shaped like an item, {keyed} with a key{where})"
            found.append(Finding(BY_ID["RBG101" if refused else "RBG104"], first, says, "", digests))
            if not refused and self.terms >= LEAST_TERMS:
                says = f"(item shape, {self.terms} terms of the lexicon)"
                found.append(Finding(BY_ID["RBG201"], first, says, "", digests))
        return sorted(found, key=lambda finding: (finding.line, finding.rule.id))


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
    outcome, known, today = Outcome(), dict[bytes, Read](), date.today()
    for content in contents:
        outcome.files += 1
        outcome.size += content.size
        digest = b"" if content.data is None else hashlib.sha256(content.data).digest()
        if content.data is None:
            known[digest] = Read((Finding(BY_ID["RBG503"], 1, too_large(content.size)),), (), 0)
        elif digest not in known:
            known[digest] = read(content.data, prints, keys)
        path, in_path = _in_path(content.path, prints, keys)
        left = known[digest].left(policy.allowed(content.path, today))
        outcome.allowed += len(known[digest].left(frozenset())) - len(left)
        outcome.findings += [replace(finding, path=path) for finding in (*in_path, *left)]
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
