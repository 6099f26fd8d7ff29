"""The policy file of a repository: what was looked at and let pass, and where SAFE_DEMO counts.

An entry is bound to a path, a rule and the sha256 of the content, and ends within 180 days: any edit, and time,
opens it again. There is no pragma inside a file that lifts a finding: the author of a leak would approve himself.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import PurePosixPath
from typing import Any

from robustify.errors import DataError, UsageError
from robustify.gate.findings import Finding
from robustify.gate.rules import BY_ID

NAME = ".robustify-gate.json"
FORMAT = "robustify.gate-policy/1"
MOST_DAYS = 180
VARIABLE = "SAFE_DEMO"
_ENTRY = {"path", "rule", "sha256", "reason", "by", "expires"}
_DEMO = {"path", "licence", "reason"}


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

    def allows(self, finding: Finding, digest: str, today: date) -> bool:
        """Whether an entry in force is bound to this path, rule and content."""
        return finding.rule.allowable and any(
            entry.path == finding.path
            and entry.rule == finding.rule.id
            and entry.sha256 == digest
            and entry.expires >= today
            for entry in self.entries
        )

    def demonstrates(self, finding: Finding) -> bool:
        """Whether the finding is of a layer that SAFE_DEMO lifts, on a listed path."""
        return finding.rule.lifted_by_demo and any(demo.covers(finding.path) for demo in self.demo)

    def as_json(self) -> str:
        """The file's text: sorted, one entry a line, so that a reviewer's diff shows one line an entry."""
        entries = sorted(self.entries, key=lambda e: (e.path, e.rule, e.sha256))
        return (
            "{\n"
            f'"format": {json.dumps(FORMAT)},\n'
            f'"safe_demo_paths": {_rows(_demo_row(demo) for demo in self.demo)},\n'
            f'"allow": {_rows(_row(entry) for entry in entries)}\n'
            "}\n"
        )


def _rows(rows: Iterable[dict[str, str]]) -> str:
    lines = [json.dumps(row) for row in rows]
    return "[\n  " + ",\n  ".join(lines) + "\n]" if lines else "[]"


def _row(entry: Entry) -> dict[str, str]:
    return {
        "path": entry.path,
        "rule": entry.rule,
        "sha256": entry.sha256,
        "reason": entry.reason,
        "by": entry.by,
        "expires": entry.expires.isoformat(),
    }


def _demo_row(demo: DemoPath) -> dict[str, str]:
    return {"path": demo.path, "licence": demo.licence, "reason": demo.reason}


def digest_of(data: bytes) -> str:
    """The sha256 that binds an entry to a content."""
    return hashlib.sha256(data).hexdigest()


def safe_demo() -> bool:
    """Whether SAFE_DEMO is on: exactly `true`. Raises `UsageError` (exit 2) for any other word."""
    found = os.environ.get(VARIABLE, "")
    if found not in ("", "true"):
        raise UsageError(f"{VARIABLE} is {found[:20]!a}; expected exactly true, or unset")
    return found == "true"


def parsed(text: str, where: str, today: date) -> Policy:
    """A policy from its text. Raises `DataError` (exit 3) with every fault."""
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: is not JSON; restore it or make it again: robustify gate allow") from None
    if (
        not isinstance(held, dict)
        or held.get("format") != FORMAT
        or not set(held) <= {"format", "allow", "safe_demo_paths"}
    ):
        raise DataError(
            f'{where}: expected an object with "format": "{FORMAT}", "allow" and "safe_demo_paths" only'
        )
    faults: list[str] = []
    entries = [
        _entry(row, f"{where}: allow[{i}]", today, faults) for i, row in enumerate(_list(held, "allow"))
    ]
    demo = [
        _demo(row, f"{where}: safe_demo_paths[{i}]", faults)
        for i, row in enumerate(_list(held, "safe_demo_paths"))
    ]
    if faults:
        raise DataError.gather(faults)
    return Policy(tuple(e for e in entries if e is not None), tuple(d for d in demo if d is not None))


def _list(held: dict[str, Any], name: str) -> list[Any]:
    found = held.get(name, [])
    return found if isinstance(found, list) else [found]


def _texts(row: Any, names: set[str]) -> bool:
    return (
        isinstance(row, dict)
        and set(row) == names
        and all(isinstance(v, str) and v.strip() for v in row.values())
    )


def _entry(row: Any, where: str, today: date, faults: list[str]) -> Entry | None:
    if not _texts(row, _ENTRY):
        faults.append(f"{where}: expected the texts {', '.join(sorted(_ENTRY))}")
        return None
    rule = BY_ID.get(row["rule"])
    try:
        expires = date.fromisoformat(row["expires"])
    except ValueError:
        faults.append(f"{where}: expires is no date; expected YYYY-MM-DD")
        return None
    if rule is None or not rule.allowable:
        faults.append(f"{where}: rule is not one that an entry can lift")
    if expires > today + timedelta(days=MOST_DAYS):
        faults.append(f"{where}: expires more than {MOST_DAYS} days from today; look at it again sooner")
    if len(row["sha256"]) != 64 or set(row["sha256"]) - set("0123456789abcdef"):
        faults.append(f"{where}: sha256 is no digest; expected 64 hexadecimal digits")
    return Entry(row["path"], row["rule"], row["sha256"], row["reason"], row["by"], expires)


def _demo(row: Any, where: str, faults: list[str]) -> DemoPath | None:
    if not _texts(row, _DEMO):
        faults.append(f"{where}: expected the texts {', '.join(sorted(_DEMO))}")
        return None
    path = PurePosixPath(row["path"])
    if path.is_absolute() or ".." in path.parts or path == PurePosixPath():
        faults.append(f"{where}: path must lie below the repository's root and be less than all of it")
    return DemoPath(row["path"], row["licence"], row["reason"])
