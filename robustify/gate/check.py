"""Scan contents by the rules of the gate, and apply the policy that allows reviewed findings.

A finding has no excerpt and no item number, because messages end up in logs. An entry names findings at a path or in a
folder by their digests, which have no key, because the rows are committed beside them. `examine` is a pure function from
bytes to findings.
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from robustify.base.errors import DataError, Notice, counted, notice_code
from robustify.base.folded_words import LEAST_TERMS, readings, terms_named
from robustify.base.key_file import Key
from robustify.base.texts import escaped
from robustify.gate.fingerprints import Fingerprints
from robustify.gate.pieced_texts import join_pieces
from robustify.gate.refused_content import (
    MOST_BYTES,
    binary_fault,
    find_keys,
    is_pointer,
    private_states,
    unreadable_pieces,
    utf8_text,
)
from robustify.gate.shapes import ENOUGH, MOST_SHAPES, Shape, shapes_of, weight

NAME = ".robustify-gate.json"
FORMAT, _FORMER = "robustify.gate-policy/3", "robustify.gate-policy/2"
MOST_DAYS = 180
_DIGEST = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class GateRule:
    """Rule of the gate. If it is `allowable`, a policy entry can lift its findings."""

    id: str
    name: str
    says: str
    remedy: str
    refuses: bool = True
    allowable: bool = True


_ALLOW = "robustify gate allow PATH --reason WHY --by WHO"
_REVIEWED = f"If a person has reviewed it, run `{_ALLOW}`, for a message with the ID of its commit."
_HARMLESS = f"Remove the items. If they are harmless, run `{_ALLOW}`."

RULES: tuple[GateRule, ...] = (
    GateRule("RBG101", "item-shape", "records, rows, or blocks shaped like multiple-choice items", _HARMLESS),
    GateRule("RBG104", "item-near", "one or two item shapes without a key (a warning)",
         "Check whether this is an item of a sensitive set.", refuses=False),
    GateRule("RBG201", "category-words", "an item shape in a file that names controlled categories", _HARMLESS),
    GateRule("RBG301", "fingerprint", "text of a registered set",
         "Remove the text from every commit in the history. No entry lifts this rule.", allowable=False),
    GateRule("RBG401", "canary", "a canary line, which marks a benchmark that must not be republished",
         f"Remove the benchmark data. If the text only mentions the canary, run `{_ALLOW}`."),
    GateRule("RBG402", "key-material", "a secret key of robustify",
         "Make a new key, and treat everything that the old key protected as public. No entry lifts this rule.",
         allowable=False),
    GateRule("RBG403", "restricted-run", "a record of a restricted run that must not be published",
         "Publish the hashed split, or what `export published` writes. No entry lifts this rule.", allowable=False),
    GateRule("RBG404", "own-state", "a private file of robustify, such as a score cache or a record of accepted terms",
         "Keep the file outside the repository, where robustify wrote it. No entry lifts this rule.", allowable=False),
    GateRule("RBG405", "keyed-ids", "keyed item IDs outside a hashed split, or a hashed split with more than IDs",
         f"Publish the output of `robustify restricted split emit`. If the IDs are an example, run `{_ALLOW}`."),
    GateRule("RBG501", "not-text", "content that is neither plain UTF-8 text nor an image without text",
         f"Commit the content as text. {_REVIEWED}"),
    GateRule("RBG502", "unreadable", "over 160 unreadable characters (encoded, symbols, hidden), or 64 in one piece",
         f"Commit the content as text. {_REVIEWED}"),
    GateRule("RBG503", "too-large", "content above the size limit",
         f"Split the file. {_REVIEWED}"),
    GateRule("RBG505", "elsewhere", "a pointer to content outside the repository, such as one of Git LFS",
         f"Scan that content with `robustify gate FILE`. If it is clean, run `{_ALLOW}`."),
)  # fmt: skip

BY_ID: dict[str, GateRule] = {rule.id: rule for rule in RULES}


@dataclass(frozen=True, slots=True)
class GateFinding:
    """Match of a rule at a line (from 1). `says` contains only counts and fixed words. A policy entry that lists the
    `digests` of the matched rows lifts the finding."""

    rule: GateRule
    line: int
    says: str
    path: str = ""
    digests: tuple[str, ...] = ()

    def as_line(self) -> str:
        """Return the finding as one line of output."""
        return f"{escaped(self.path)}:{self.line}: {self.rule.id} {self.rule.name} {self.says}".rstrip()


def digest_of(rule: str, row: str | bytes) -> str:
    """Return the digest of a rule and a row in which the rule found something. White space in the row is ignored."""
    data = row if isinstance(row, bytes) else " ".join(row.split()).encode("utf-8", "replace")
    return hashlib.sha256(rule.encode() + b"\0" + data).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class AllowEntry:
    """Permission, until an expiry date, to commit certain findings at a path or in a folder."""

    path: str
    findings: tuple[str, ...]
    reason: str
    by: str
    expires: date

    def covers(self, path: str) -> bool:
        """Return whether the entry applies to a path."""
        return path == self.path or path.startswith(f"{self.path}/")


Policy = Sequence[AllowEntry]


def allowed(policy: Policy, path: str) -> frozenset[str]:
    """Return the digests of the findings that are allowed at a path today."""
    current = (entry for entry in policy if entry.expires >= date.today() and entry.covers(path))
    return frozenset(digest for entry in current for digest in entry.findings)


def policy_text(policy: Policy) -> str:
    """Return the text of the policy file, with one entry per line."""
    entries = sorted(policy, key=lambda e: (e.path, e.findings))
    rows = "".join(f"  {json.dumps(asdict(entry), default=str)},\n" for entry in entries)
    listed = "\n" + rows[:-2] + "\n" if rows else ""
    return f'{{\n"format": "{FORMAT}",\n"allow": [{listed}]\n}}\n'


def read_policy(root: Path | None) -> Policy:
    """Return the policy in the work tree `root`, or an empty policy."""
    path = root / NAME if root is not None else None
    if path is None or not path.is_file() or path.is_symlink():
        return ()
    return parse_policy(path.read_bytes(), NAME)


def parse_policy(data: bytes, where: str) -> Policy:
    """Parse the content of a policy file. Raise `DataError` if an entry is invalid."""
    try:
        tree = json.loads(data.decode("utf-8", "replace"))
        rows = tree["allow"]
    except (ValueError, RecursionError, TypeError, LookupError):
        tree, rows = {}, None
    remedy = f"Restore the file, or remove it and run `{_ALLOW}` for each path or folder."
    # A merge may keep the number of the former format above rows of this one.
    if not isinstance(rows, list) or len(tree) != 2 or tree.get("format") not in (FORMAT, _FORMER):
        raise DataError(
            f'{where}: expected JSON with exactly two members, "format": "{FORMAT}" and "allow". {remedy}',
            code="invalid-policy",
        )
    entries = [entry for row in rows if (entry := _entry(row)) is not None]
    if n := len(rows) - len(entries):
        wanted = f"path, findings (digests, not whole files), reason, by, expires (within {MOST_DAYS} days)"
        raise DataError(
            f"{where}: {n} of {len(rows)} entries are invalid. Each entry needs {wanted}. {remedy}",
            code="invalid-policy-entry",
        )
    return tuple(dict.fromkeys(entries))


def _entry(row: Any) -> AllowEntry | None:
    try:
        texts = [row[name] for name in ("path", "reason", "by")]
        digests, expires = tuple(row["findings"]), date.fromisoformat(row["expires"])
        complete = all(map(_DIGEST.fullmatch, digests)) and all(text.strip() for text in texts)
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
    if not complete or expires > date.today() + timedelta(days=MOST_DAYS):
        return None
    return AllowEntry(texts[0].rstrip("/"), digests, texts[1], texts[2], expires)


# Findings in a content.


@dataclass(frozen=True, slots=True)
class Examined:
    """Scan results of one file: findings, item-like blocks with digests of their rows, and the number of lexicon terms."""

    findings: tuple[GateFinding, ...]
    shapes: tuple[tuple[Shape, str], ...] = ()
    terms: int = 0

    def not_allowed(self, lifted: frozenset[str] = frozenset()) -> list[GateFinding]:
        """Return the findings that are not allowed, sorted by line."""
        findings = [f for f in self.findings if not (f.digests and lifted.issuperset(f.digests))]
        shapes = [(shape, digest) for shape, digest in self.shapes if digest not in lifted]
        if shapes:
            n, keyed = len(shapes), sum(keyed for (_, keyed), _ in shapes)
            first, last = shapes[0][0][0], shapes[-1][0][0]
            plus, where = "+" if n >= MOST_SHAPES else "", f", to line {last}" if last > first else ""
            refused, digests = keyed or n >= ENOUGH, tuple(digest for _, digest in shapes)
            says = f"({n}{plus} shaped like an item, {keyed} with a key{where})"
            findings.append(GateFinding(BY_ID["RBG101" if refused else "RBG104"], first, says, "", digests))
            if not refused and self.terms >= LEAST_TERMS:
                says = f"(item shape, {self.terms} terms of the lexicon)"
                findings.append(GateFinding(BY_ID["RBG201"], first, says, "", digests))
        return sorted(findings, key=lambda finding: (finding.line, finding.rule.id))


def examine(
    data: bytes, prints: Fingerprints | None = None, keys: Sequence[Key] = (), size: int = 0
) -> Examined:
    """Scan the content of one file with all layers. If `size` is more than `MOST_BYTES`, `data` is only the digest of the
    content. The secrets of `keys` are found even without an ID."""
    size, by_rule = size or len(data), dict[tuple[str, str], GateFinding]()
    text = utf8_text(data) if size <= MOST_BYTES else None

    def add(rule: str, line: int, says: str = "", row: str | bytes = data if text is None else text) -> None:
        digests = (digest_of(rule, row),) if BY_ID[rule].allowable else ()
        finding = by_rule.setdefault((rule, says), GateFinding(BY_ID[rule], line, says, "", digests))
        # A later row of the same kind is a finding that an entry for the first does not allow.
        by_rule[rule, says] = replace(finding, digests=tuple(dict.fromkeys((*finding.digests, *digests))))

    if size > MOST_BYTES:
        add("RBG503", 1, f"({size:,} bytes; the limit is {MOST_BYTES >> 20} MiB)")
    elif text is None and (refused := binary_fault(data)):
        add(refused[0], 1, refused[1])
    if text is None:
        return Examined(tuple(by_rule.values()))
    if is_pointer(data):
        add("RBG505", 1)
    if pieces := unreadable_pieces(text):
        says = f"({sum(map(len, pieces)):,} unreadable characters)"
        add("RBG502", _line_of(text, max(text.find(pieces[0]), 0)), says, " ".join(pieces))
    shapes, terms, sets = list[Shape](), 0, dict[str, tuple[int, str]]()
    for form in readings(text):
        for rule, offset, says in private_states(form, keys):
            line = _line_of(form, offset)
            lines = text.split("\n")[line - 1 : line] if rule == "RBG401" else []
            add(rule, line, says, lines[0] if lines else text)
        new = shapes_of(form)
        shapes = max(shapes, new, key=weight)
        terms = max(terms, terms_named(form)) if new else terms
        # Escapes in strings are read as they are joined, so other forms matter only for the cells of a page.
        pieced = join_pieces(form) if prints and (form is text or "</t" in text) else ""
        for name, line, strength in (*prints.matches(form), *prints.matches(pieced)) if prints else ():
            sets.setdefault(name, (line, strength))
    for name, (line, strength) in sets.items():
        add("RBG301", line, f'(set "{name}", {strength})')
    shapes = sorted(shapes)
    rows = _shape_rows(text, [line - 1 for line, _ in shapes])
    digests = (digest_of("RBG101", row) for row in rows)
    return Examined(tuple(by_rule.values()), tuple(zip(shapes, digests, strict=True)), terms)


def _line_of(text: str, offset: int) -> int:
    return 1 + text.count("\n", 0, offset)


def _shape_rows(text: str, indices: Sequence[int]) -> Iterator[str]:
    """Yield the source text of each item-like block. This is a paragraph, or two if one is not a complete item."""
    lines, row_of_paragraph = text.split("\n"), dict[tuple[int, int], str]()
    indices = [min(index, len(lines) - 1) for index in indices]  # a reading may have more lines
    for previous, index, following in zip((-1, *indices), indices, (*indices[1:], len(lines)), strict=False):
        first, end = _paragraph(lines, index, previous + 1, following)
        before = _paragraph(lines, first - 2, previous + 1, following)[0] if first - 2 > previous else first
        after = _paragraph(lines, end + 1, previous + 1, following)[1] if end + 1 < following else end
        if (first, end) not in row_of_paragraph:
            candidates = ("\n".join(lines[i:j]) for i, j in ((first, end), (before, end), (first, after)))
            row_of_paragraph[first, end] = next(filter(shapes_of, candidates), "\n".join(lines[before:after]))
        yield row_of_paragraph[first, end]


def _paragraph(lines: Sequence[str], index: int, begin: int, end: int) -> tuple[int, int]:
    first, last = index, index + 1
    while first > begin and lines[first - 1].strip():
        first -= 1
    while last < end and lines[last].strip():
        last += 1
    return first, last


@dataclass(frozen=True, slots=True, repr=False)
class Blob:
    """Content of one file or Git object, with its path. If it is too large to read, `data` is its SHA-256 digest."""

    path: str
    data: bytes
    size: int


@dataclass(slots=True)
class Outcome:
    """Findings and counts of a check. `allowed` is the number of contents with findings that policy entries lifted."""

    findings: list[GateFinding] = field(default_factory=list)
    allowed: int = 0
    files: int = 0
    size: int = 0

    @property
    def refused(self) -> list[GateFinding]:
        """Findings because of which the content is refused. Warnings are omitted."""
        return [finding for finding in self.findings if finding.rule.refuses]


def check_contents(
    contents: Iterable[Blob], prints: Fingerprints | None, policy: Policy, keys: Sequence[Key] = ()
) -> Outcome:
    """Scan contents, and return the findings that the policy does not allow, with counts."""
    outcome, examined = Outcome(), dict[bytes, Examined]()
    for content in contents:
        outcome.files += 1
        outcome.size += content.size
        digest = hashlib.sha256(content.data).digest()
        if digest not in examined:
            examined[digest] = examine(content.data, prints, keys, content.size)
        path, in_path = _path_findings(content.path, prints, keys)
        findings = examined[digest].not_allowed(allowed(policy, content.path))
        outcome.allowed += len(findings) < len(examined[digest].not_allowed())
        outcome.findings += [replace(finding, path=path) for finding in (*in_path, *findings)]
    return outcome


def _path_findings(
    path: str, prints: Fingerprints | None, keys: Sequence[Key]
) -> tuple[str, list[GateFinding]]:
    """Return a printable path, and the findings in the path itself. A path with registered text or a key is not printed."""
    matches = prints.matches(path) if prints else ()
    rules = [("RBG301", f': set "{name}", {strength}') for name, _, strength in matches]
    rules += [("RBG402", "") for form in (path, path.replace("/", "\n")) for _ in find_keys(form, keys)]
    for rule, says in rules:
        finding = GateFinding(BY_ID[rule], 1, f"(in the path itself{says})")
        return f"<a path of {len(path)} characters>", [finding]
    return path, []


def print_outcome(outcome: Outcome, why_not: str, notes: Sequence[str] = ()) -> None:
    """Print the findings to stdout and a summary to stderr. `why_not` is the reason why fingerprints were not checked."""
    for finding in outcome.findings:
        print(finding.as_line())
    refused, lines = outcome.refused, list(notes)
    scanned = f"{counted(outcome.files, 'content')}, {outcome.size / 1e6:.1f} MB"
    if why_not:
        passes = "Text of a registered set passes unless it is shaped like an item."
        lines.append(
            Notice(f"The fingerprint layer did not run: {why_not}. {passes}", code="no-fingerprints")
        )
    if outcome.allowed:
        note = f"findings in {counted(outcome.allowed, 'content')} are allowed by policy entries"
        lines.append(Notice(note, code="allowed-findings"))
    if refused:
        lines.append(
            f"REFUSED: {counted(len(refused), 'finding')} in {len({f.path for f in refused})} of {scanned}"
        )
    else:
        lines.append(f"clean: {scanned}, {counted(len(outcome.findings), 'warning')}")
    rules = sorted({finding.rule for finding in refused}, key=lambda rule: rule.id)
    tell(*lines, *(f"{rule.id}: {rule.says}. {rule.remedy}" for rule in rules))


def tell(*lines: str) -> None:
    """Print lines to stderr. An error or note is followed by its code."""
    for line in lines:
        code = notice_code(line)
        print(f"robustify gate: {line}{code and f' [{code}]'}", file=sys.stderr)
