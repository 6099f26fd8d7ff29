"""Scanner that applies every layer and the policy to file contents, and prints findings to stdout and counts to stderr.

`examine` is a pure function from bytes to findings. It reads no files and does not use Git.
"""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from robustify.base.key_file import Key
from robustify.gate.fingerprints import Fingerprints
from robustify.gate.folded_words import LEAST_TERMS, readings, terms_named
from robustify.gate.opaque import MOST_BYTES, is_pointer, text_of, unreadable, why_refused
from robustify.gate.policy import BY_ID, GateFinding, Policy, allowed, digest_of
from robustify.gate.shapes import ENOUGH, MOST_SHAPES, Shape, shapes_of, weight
from robustify.gate.sources import Blob
from robustify.gate.state import keys_in, states


@dataclass(frozen=True, slots=True)
class Examined:
    """Findings in a content, its item shapes with the digests of their rows, and the number of lexicon terms."""

    findings: tuple[GateFinding, ...]
    shapes: tuple[tuple[Shape, str], ...] = ()
    terms: int = 0

    def left(self, lifted: frozenset[str] = frozenset()) -> list[GateFinding]:
        """Return the findings that are not allowed, sorted by line."""
        found = [one for one in self.findings if not (one.digests and lifted.issuperset(one.digests))]
        shapes = [(shape, digest) for shape, digest in self.shapes if digest not in lifted]
        if shapes:
            n, keyed = len(shapes), sum(keyed for (_, keyed), _ in shapes)
            first, last = shapes[0][0][0], shapes[-1][0][0]
            more, where = "+" if n >= MOST_SHAPES else "", f", to line {last}" if last > first else ""
            refused, digests = keyed or n >= ENOUGH, tuple(digest for _, digest in shapes)
            says = f"({n}{more} shaped like an item, {keyed} with a key{where})"
            found.append(GateFinding(BY_ID["RBG101" if refused else "RBG104"], first, says, "", digests))
            if not refused and self.terms >= LEAST_TERMS:
                says = f"(item shape, {self.terms} terms of the lexicon)"
                found.append(GateFinding(BY_ID["RBG201"], first, says, "", digests))
        return sorted(found, key=lambda finding: (finding.line, finding.rule.id))


def examine(
    data: bytes, prints: Fingerprints | None = None, keys: Sequence[Key] = (), size: int = 0
) -> Examined:
    """Return what all layers find in the content of one file, from which a policy can take findings.

    `keys` are the user's own keys, whose secrets are found even without an ID. If `size` is more than `MOST_BYTES`,
    `data` is only the digest of the content.
    """
    size, found = size or len(data), dict[tuple[str, str], GateFinding]()
    text = text_of(data) if size <= MOST_BYTES else None

    def add(rule: str, line: int, says: str = "", row: str | bytes = data if text is None else text) -> None:
        digests = (digest_of(rule, row),) if BY_ID[rule].allowable else ()
        one = found.setdefault((rule, says), GateFinding(BY_ID[rule], line, says, "", digests))
        # A later row of the same kind is a finding that an entry for the first does not allow.
        found[rule, says] = replace(one, digests=tuple(dict.fromkeys((*one.digests, *digests))))

    if size > MOST_BYTES:
        add("RBG503", 1, f"({size:,} bytes; the limit is {MOST_BYTES >> 20} MiB)")
    elif text is None and (refused := why_refused(data)):
        add(refused[0], 1, refused[1])
    if text is None:
        return Examined(tuple(found.values()))
    if is_pointer(data):
        add("RBG505", 1)
    if pieces := unreadable(text):
        says = f"({sum(map(len, pieces)):,} unreadable characters)"
        add("RBG502", _line_of(text, max(text.find(pieces[0]), 0)), says, " ".join(pieces))
    shapes, terms, sets = list[Shape](), 0, dict[str, tuple[int, str]]()
    for form in readings(text):
        for rule, at, says in states(form, keys):
            place = _line_of(form, at)
            lines = text.split("\n")[place - 1 : place] if rule == "RBG401" else []
            add(rule, place, says, lines[0] if lines else text)
        new = shapes_of(form)
        shapes = max(shapes, new, key=weight)
        terms = max(terms, terms_named(form)) if new else terms
        for name, at, strength in prints.matches(form) if prints else ():
            sets.setdefault(name, (at, strength))
    for name, (place, strength) in sets.items():
        add("RBG301", place, f'(set "{name}", {strength})')
    shapes = sorted(shapes)
    rows = _rows(text, [line - 1 for line, _ in shapes])
    digests = (digest_of("RBG101", row) for row in rows)
    return Examined(tuple(found.values()), tuple(zip(shapes, digests, strict=True)), terms)


def _line_of(text: str, at: int) -> int:
    return 1 + text.count("\n", 0, at)


def _rows(text: str, places: Sequence[int]) -> Iterator[str]:
    """Yield the row of each shape: its paragraph as far as the next shape, with the paragraph before it, or else the one
    after it, if it is no whole item."""
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


@dataclass(slots=True)
class Outcome:
    """Findings and counts of a check. `allowed` counts the contents of which policy entries lifted findings."""

    findings: list[GateFinding] = field(default_factory=list)
    allowed: int = 0
    files: int = 0
    size: int = 0

    @property
    def refused(self) -> list[GateFinding]:
        """Findings that refuse the content, without the warnings."""
        return [finding for finding in self.findings if finding.rule.refuses]


def check_contents(
    contents: Iterable[Blob], prints: Fingerprints | None, policy: Policy, keys: Sequence[Key] = ()
) -> Outcome:
    """Scan contents and drop the findings that the policy allows. The secrets of `keys` are found even without an ID."""
    outcome, known = Outcome(), dict[bytes, Examined]()
    for content in contents:
        outcome.files += 1
        outcome.size += content.size
        digest = hashlib.sha256(content.data).digest()
        if digest not in known:
            known[digest] = examine(content.data, prints, keys, content.size)
        path, in_path = _in_path(content.path, prints, keys)
        left = known[digest].left(allowed(policy, content.path))
        outcome.allowed += len(left) < len(known[digest].left())
        outcome.findings += [replace(finding, path=path) for finding in (*in_path, *left)]
    return outcome


def _in_path(path: str, prints: Fingerprints | None, keys: Sequence[Key]) -> tuple[str, list[GateFinding]]:
    """Return a printable path and any findings in the path. A path with registered text or a key is not printed."""
    found = [
        ("RBG301", f': set "{name}", {how}') for name, _, how in (prints.matches(path) if prints else ())
    ]
    found += [("RBG402", "") for form in (path, path.replace("/", "\n")) for _ in keys_in(form, keys)]
    for rule, says in found:
        finding = GateFinding(BY_ID[rule], 1, f"(in the path itself{says})")
        return f"<a path of {len(path)} characters>", [finding]
    return path, []


def print_outcome(outcome: Outcome, why_not: str, notes: Sequence[str] = ()) -> None:
    """Print the findings and a summary. `why_not` is the reason why fingerprints were not checked, or empty."""
    for finding in outcome.findings:
        print(finding.as_line())
    refused, lines = outcome.refused, list(notes)
    scanned = f"{outcome.files:,} contents, {outcome.size / 1e6:.1f} MB"
    if why_not:
        passes = "Text of a registered set passes unless it is shaped like an item."
        lines.append(f"The fingerprint layer did not run: {why_not}. {passes}")
    if outcome.allowed:
        lines.append(f"findings in {outcome.allowed} contents are allowed by policy entries")
    if refused:
        lines.append(f"REFUSED: {len(refused)} findings in {len({one.path for one in refused})} of {scanned}")
    else:
        lines.append(f"clean: {scanned}, {len(outcome.findings)} warnings")
    rules = sorted({finding.rule for finding in refused}, key=lambda rule: rule.id)
    for line in (*lines, *(f"{rule.id}: {rule.says}. {rule.remedy}" for rule in rules)):
        print(f"robustify gate: {line}", file=sys.stderr)
