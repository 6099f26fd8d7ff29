"""The rules with their findings, and the policy file of a repository: what was looked at and let pass.

The table is the only place with a rule's number, name and words. A finding is a path, a line, a rule and counts: never
an excerpt, a key name, a digest of the text or the number of an item in its set, because messages end up in logs.
An entry of the policy is bound to a path, a rule and the sha256 of the content, and ends within 180 days: any edit, and
time, opens it again. There is no pragma inside a file that lifts a finding: the author of a leak would approve himself.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from datetime import date, timedelta
from pathlib import PurePosixPath
from typing import Any

from robustify.errors import DataError, UsageError

NAME = ".robustify-gate.json"
FORMAT = "robustify.gate-policy/1"
MOST_DAYS = 180
VARIABLE = "SAFE_DEMO"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `lifted_by_demo`: SAFE_DEMO lifts it on listed paths; `allowable`: a bound entry can."""

    id: str
    name: str
    layer: str
    says: str
    mend: str
    refuses: bool = True
    allowable: bool = True

    @property
    def lifted_by_demo(self) -> bool:
        """Only what a shape or a word says can be lifted for a demo; what matches a registered set cannot."""
        return self.layer in ("structure", "lexicon")


_MOVE = "Take the items out of what is committed"
_OR_ALLOW = (
    "if they are harmless, bind them to an allow-list entry: robustify gate allow PATH --reason WHY --by WHO"
)

RULES: tuple[Rule, ...] = (
    Rule("RBG101", "mcq-record", "structure", "records shaped like multiple-choice items (a stem, choices, mostly a key)",
         f"{_MOVE}; {_OR_ALLOW}"),
    Rule("RBG102", "mcq-table", "structure", "table rows shaped like multiple-choice items",
         f"{_MOVE}; {_OR_ALLOW}"),
    Rule("RBG103", "mcq-block", "structure", "text blocks shaped like multiple-choice items (a stem, then options)",
         f"{_MOVE}; {_OR_ALLOW}"),
    Rule("RBG104", "mcq-near", "structure", "one or two shapes of an item without a key: a warning",
         "Look whether it is an item of a sensitive set", refuses=False),
    Rule("RBG201", "category-words", "lexicon", "the shape of an item in a file that names control regimes or categories",
         f"{_MOVE}; {_OR_ALLOW}"),
    Rule("RBG301", "fingerprint", "fingerprints", "text of a registered set",
         "Remove it, from the history too (it stays in every earlier commit); no allow-list entry lifts this rule",
         allowable=False),
    Rule("RBG302", "fingerprint-weak", "fingerprints", "a few words in the order of a registered set: a warning",
         "Look whether it is an item of the set, edited", refuses=False),
    Rule("RBG401", "canary", "state", "the canary line of a benchmark that must not be republished",
         "Remove the benchmark data that it came with; if it is only talked about: robustify gate allow PATH ..."),
    Rule("RBG402", "key-material", "state", "a robustify key",
         "Make a new key and treat everything that this one protected as public; no entry lifts this rule",
         allowable=False),
    Rule("RBG403", "restricted-run", "state", "the record of a run on a restricted set",
         "Publish the hashed split or the published release level instead; no entry lifts this rule",
         allowable=False),
    Rule("RBG404", "own-state", "state",
         "state of robustify's own: a score cache, a record of registered sets or of accepted terms",
         "Leave it where robustify keeps it, outside the repository; no entry lifts this rule",
         allowable=False),
    Rule("RBG405", "keyed-ids", "state", "keyed ids of items outside a hashed split, or a split that says more than ids",
         "Publish the hashed split as robustify writes it (robustify split emit); if the ids are an example: "
         "robustify gate allow PATH --reason WHY --by WHO"),
    Rule("RBG501", "binary", "inspection", "binary content that the gate cannot read",
         "Commit a text form, or bind it to an allow-list entry: robustify gate allow PATH --reason WHY --by WHO"),
    Rule("RBG502", "encrypted", "inspection", "encrypted content that the gate cannot read",
         "Commit it in the clear, or bind it to an allow-list entry: robustify gate allow PATH --reason WHY --by WHO"),
    Rule("RBG503", "too-large", "inspection", "more than the gate reads: size, time, depth or ratio of packing",
         "Split or unpack it; a packed file may be allowed: robustify gate allow PATH --reason WHY --by WHO"),
    Rule("RBG504", "damaged", "inspection", "an archive or encoding that does not open",
         "Make it again, or bind it to an allow-list entry: robustify gate allow PATH --reason WHY --by WHO"),
    Rule("RBG505", "elsewhere", "inspection", "a pointer to content that lies outside the repository",
         "Scan the content itself (robustify gate FILE), then bind the pointer to an allow-list entry"),
    Rule("RBG506", "token-ids", "inspection", "a long array of numbers that may be the token ids of a text",
         f"Take the ids out, they are the text; {_OR_ALLOW}"),
)  # fmt: skip

BY_ID: dict[str, Rule] = {rule.id: rule for rule in RULES}
BY_NAME: dict[str, Rule] = {rule.name: rule for rule in RULES}


def explanation(rule: Rule) -> list[str]:
    """What a rule means and how its finding is mended, for `--explain`."""
    lifts = ["SAFE_DEMO=true on listed paths"] if rule.lifted_by_demo else []
    lifts += ["an allow-list entry bound to path, rule and content"] if rule.allowable else []
    return [
        f"{rule.id} {rule.name} (layer: {rule.layer})",
        f"finds: {rule.says}",
        f"effect: {'refuses, exit 4' if rule.refuses else 'warns, exit 0'}",
        f"mend: {rule.mend}",
        f"lifted by: {' or '.join(lifts) if lifts else 'nothing'}",
    ]


@dataclass(frozen=True, slots=True)
class GateFinding:
    """One rule that matched in one place. `line` counts from 1; `says` is counts and fixed words; `path` may come later."""

    rule: Rule
    line: int
    says: str
    path: str = ""

    def as_line(self) -> str:
        """The one line that a person reads."""
        return f"{legible(self.path)}:{self.line}: {self.rule.id} {self.rule.name} {self.says}"

    def as_json(self) -> dict[str, object]:
        """The same for a program."""
        return {
            "path": legible(self.path),
            "line": self.line,
            "rule": self.rule.id,
            "name": self.rule.name,
            "layer": self.rule.layer,
            "refuses": self.rule.refuses,
            "says": self.says,
        }


def legible(text: str) -> str:
    """Text without what could steer a terminal or fake a line: everything unprintable is escaped."""
    return "".join(
        c if c.isprintable() and not "\ud800" <= c <= "\udfff" else c.encode("unicode_escape").decode()
        for c in text
    )


@dataclass(frozen=True, slots=True)
class AllowEntry:
    """One content that one rule may pass, at one path, until a day."""

    path: str
    rule: str
    sha256: str
    reason: str
    by: str
    expires: date


@dataclass(frozen=True, slots=True)
class DemoPath:
    """A folder or file of public, licensed items where SAFE_DEMO lifts the structure and lexicon layers."""

    path: str
    licence: str
    reason: str

    def covers(self, path: str) -> bool:
        """Whether a path is this one or lies below it."""
        return PurePosixPath(path).is_relative_to(self.path)


@dataclass(frozen=True, slots=True)
class Policy:
    """What a policy file says."""

    entries: tuple[AllowEntry, ...] = ()
    demo: tuple[DemoPath, ...] = ()

    def allows(self, finding: GateFinding, digests: Collection[str], today: date) -> bool:
        """Whether an entry in force is bound to this path, rule and one digest of the content."""
        return finding.rule.allowable and any(
            entry.path == finding.path
            and entry.rule == finding.rule.id
            and entry.sha256 in digests
            and entry.expires >= today
            for entry in self.entries
        )

    def demonstrates(self, finding: GateFinding) -> bool:
        """Whether the finding is of a layer that SAFE_DEMO lifts, on a listed path."""
        return finding.rule.lifted_by_demo and any(demo.covers(finding.path) for demo in self.demo)

    def as_json(self) -> str:
        """The file's text: sorted, one entry a line, so that a reviewer's diff shows one line an entry."""
        entries = sorted(self.entries, key=lambda e: (e.path, e.rule, e.sha256))
        parts = {"format": json.dumps(FORMAT), "safe_demo_paths": _rows(self.demo), "allow": _rows(entries)}
        return "{\n" + ",\n".join(f'"{name}": {text}' for name, text in parts.items()) + "\n}\n"


def _rows(rows: Iterable[AllowEntry | DemoPath]) -> str:
    lines = [json.dumps(asdict(row), default=str) for row in rows]
    return "[\n  " + ",\n  ".join(lines) + "\n]" if lines else "[]"


def digests_of(data: bytes) -> tuple[str, ...]:
    """The sha256 of a content, to which an entry may be bound; for a notebook first that of what running it again
    leaves as it was (without counts of executions, times, and addresses of objects in outputs)."""
    exact = hashlib.sha256(data).hexdigest()
    steady = _steady(data) if b'"nbformat"' in data else None
    return (exact,) if steady is None else (hashlib.sha256(steady).hexdigest(), exact)


_RUN_TIME = re.compile(r"[0-9T:.Z+-]{10,40}")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{6,16}>")


def _steady(data: bytes) -> bytes | None:
    """A notebook without what changes when it runs; None where it is none. Left out are only numbers, times and
    addresses of fixed forms, so that nothing that could hold a text goes unbound."""
    try:
        tree = json.loads(data)
        for cell in tree["cells"]:
            times = cell.get("metadata", {}).get("execution", {})
            if all(_RUN_TIME.fullmatch(time) for time in times.values()):
                cell["metadata"].pop("execution", None)
            for part in (cell, *cell.get("outputs", ())):
                if isinstance(part.get("execution_count"), int):
                    part["execution_count"] = None
        return _ADDRESS.sub(" at 0x>", json.dumps(tree, sort_keys=True)).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def safe_demo() -> bool:
    """Whether SAFE_DEMO is on: exactly `true`. Raises `UsageError` (exit 2) for any other word."""
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "true"):
        raise UsageError(f"{VARIABLE} is {value[:20]!a}; expected exactly true, or unset")
    return value == "true"


def parse_policy(text: str, where: str, today: date) -> Policy:
    """A policy from its text. Raises `DataError` (exit 3) with every fault."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: is not JSON; restore it or make it again: robustify gate allow") from None
    names = {"format", "allow", "safe_demo_paths"}
    if not isinstance(tree, dict) or tree.get("format") != FORMAT or not set(tree) <= names:
        raise DataError(f'{where}: expected "format": "{FORMAT}", "allow" and "safe_demo_paths" only')
    faults: list[str] = []
    entries = [
        _entry(row, at, today, faults) for at, row in _rows_of(tree, "allow", AllowEntry, where, faults)
    ]
    demo = [_demo(row, at, faults) for at, row in _rows_of(tree, "safe_demo_paths", DemoPath, where, faults)]
    if faults:
        raise DataError.gather(faults)
    return Policy(tuple(entries), tuple(demo))


def _rows_of(
    tree: dict[str, Any], name: str, kind: type, where: str, faults: list[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a list that have the texts of a kind, each with its place; the others are faults."""
    names = sorted(field.name for field in fields(kind))
    rows = tree.get(name, [])
    for i, row in enumerate(rows if isinstance(rows, list) else [rows]):
        texts = row.values() if isinstance(row, dict) and sorted(row) == names else [None]
        if all(isinstance(text, str) and text.strip() for text in texts):
            yield f"{where}: {name}[{i}]", row
        else:
            faults.append(f"{where}: {name}[{i}]: expected the texts {', '.join(names)}")


def _entry(row: dict[str, str], where: str, today: date, faults: list[str]) -> AllowEntry:
    rule = BY_ID.get(row["rule"])
    try:
        expires = date.fromisoformat(row["expires"])
    except ValueError:
        faults.append(f"{where}: expires is no date; expected YYYY-MM-DD")
        expires = today
    if rule is None or not rule.allowable:
        faults.append(f"{where}: rule is not one that an entry can lift")
    if expires > today + timedelta(days=MOST_DAYS):
        faults.append(f"{where}: expires more than {MOST_DAYS} days from today; look at it again sooner")
    if len(row["sha256"]) != 64 or set(row["sha256"]) - set("0123456789abcdef"):
        faults.append(f"{where}: sha256 is no digest; expected 64 hexadecimal digits")
    return AllowEntry(row["path"], row["rule"], row["sha256"], row["reason"], row["by"], expires)


def _demo(row: dict[str, str], where: str, faults: list[str]) -> DemoPath:
    path = PurePosixPath(row["path"])
    if path.is_absolute() or ".." in path.parts or path == PurePosixPath():
        faults.append(f"{where}: path must lie below the repository's root and be less than all of it")
    return DemoPath(**row)
