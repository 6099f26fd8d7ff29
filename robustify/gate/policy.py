"""The policy file of a repository: what was looked at and let pass, and where SAFE_DEMO counts.

An entry is bound to a path, a rule and the sha256 of the content, and ends within 180 days: any edit, and time,
opens it again. There is no pragma inside a file that lifts a finding: the author of a leak would approve himself.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from datetime import date, timedelta
from pathlib import PurePosixPath
from typing import Any

from robustify.errors import DataError, UsageError
from robustify.gate.rule_table import BY_ID, GateFinding

NAME = ".robustify-gate.json"
FORMAT = "robustify.gate-policy/1"
MOST_DAYS = 180
VARIABLE = "SAFE_DEMO"


@dataclass(frozen=True, slots=True)
class Entry:
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

    entries: tuple[Entry, ...] = ()
    demo: tuple[DemoPath, ...] = ()

    def allows(self, finding: GateFinding, digest: str, today: date) -> bool:
        """Whether an entry in force is bound to this path, rule and content."""
        return finding.rule.allowable and any(
            entry.path == finding.path
            and entry.rule == finding.rule.id
            and entry.sha256 == digest
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


def _rows(rows: Iterable[Entry | DemoPath]) -> str:
    lines = [json.dumps(asdict(row), default=str) for row in rows]
    return "[\n  " + ",\n  ".join(lines) + "\n]" if lines else "[]"


def digest_of(data: bytes) -> str:
    """The sha256 that binds an entry to a content."""
    return hashlib.sha256(data).hexdigest()


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
        raise DataError(
            f'{where}: expected an object with "format": "{FORMAT}", "allow" and "safe_demo_paths" only'
        )
    faults: list[str] = []
    entries = [_entry(row, at, today, faults) for at, row in _rows_of(tree, "allow", Entry, where, faults)]
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


def _entry(row: dict[str, str], where: str, today: date, faults: list[str]) -> Entry:
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
    return Entry(row["path"], row["rule"], row["sha256"], row["reason"], row["by"], expires)


def _demo(row: dict[str, str], where: str, faults: list[str]) -> DemoPath:
    path = PurePosixPath(row["path"])
    if path.is_absolute() or ".." in path.parts or path == PurePosixPath():
        faults.append(f"{where}: path must lie below the repository's root and be less than all of it")
    return DemoPath(**row)
