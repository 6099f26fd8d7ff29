"""Rules, findings, and the policy file that allows content after a review.

A finding has a path, a line, a rule and counts. It has no excerpt, no digest of the text, and no item number, because
messages end up in logs. A policy entry applies to one path and the SHA-256 of its content, and expires within 180 days.
Any edit therefore needs a new entry. No comment inside a file lifts a finding.
"""

import json
import re
from dataclasses import asdict, dataclass, fields
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from robustify.errors import DataError

NAME = ".robustify-gate.json"
FORMAT = "robustify.gate-policy/2"
MOST_DAYS = 180
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule of the gate. If it is `allowable`, a policy entry can lift it."""

    id: str
    name: str
    says: str
    remedy: str
    refuses: bool = True
    allowable: bool = True


_ALLOW = "robustify gate allow PATH --reason WHY --by WHO"
_REVIEWED = f"If a person has reviewed the content, run `{_ALLOW}`."
_HARMLESS = f"Remove the items. If they are harmless, run `{_ALLOW}`."

RULES: tuple[Rule, ...] = (
    Rule("RBG101", "item-shape", "records, rows or blocks shaped like multiple-choice items", _HARMLESS),
    Rule("RBG104", "item-near", "one or two item shapes without a key (a warning)",
         "Check whether this is an item of a sensitive set.", refuses=False),
    Rule("RBG201", "category-words", "an item shape in a file that names control regimes or categories", _HARMLESS),
    Rule("RBG301", "fingerprint", "text of a registered set",
         "Remove the text from every commit in the history. No entry lifts this rule.", allowable=False),
    Rule("RBG401", "canary", "the canary line of a benchmark that must not be republished",
         f"Remove the benchmark data. If the text only mentions the canary, run `{_ALLOW}`."),
    Rule("RBG402", "key-material", "a robustify key",
         "Make a new key, and treat everything that the old key protected as public. No entry lifts this rule.",
         allowable=False),
    Rule("RBG403", "restricted-run", "the record of a run on a restricted set",
         "Publish the hashed split or a run of the published release level. No entry lifts this rule.", allowable=False),
    Rule("RBG404", "own-state", "private state: a score cache, or a record of registered sets or accepted terms",
         "Keep the file outside the repository, where robustify wrote it. No entry lifts this rule.", allowable=False),
    Rule("RBG405", "keyed-ids", "keyed item IDs outside a hashed split, or a hashed split with more than IDs",
         f"Publish the output of `robustify restricted split emit`. If the IDs are an example, run `{_ALLOW}`."),
    Rule("RBG501", "not-text", "content that is neither plain UTF-8 text nor an image without text",
         f"Commit the content as text. {_REVIEWED}"),
    Rule("RBG502", "encoded", "text with encoded content: base64, hex, tokens, or hidden characters",
         f"Commit the content as text. {_REVIEWED}"),
    Rule("RBG503", "too-large", "content that exceeds the limit of size or scan time",
         f"Split the file. {_REVIEWED}"),
    Rule("RBG505", "elsewhere", "a pointer to content outside the repository",
         f"Scan that content with `robustify gate FILE`. If it is clean, run `{_ALLOW}`."),
)  # fmt: skip

BY_ID: dict[str, Rule] = {rule.id: rule for rule in RULES}


@dataclass(frozen=True, slots=True)
class Finding:
    """Match of a rule, with its one-based line number. `says` contains only counts and fixed words."""

    rule: Rule
    line: int
    says: str
    path: str = ""

    def as_line(self) -> str:
        """Return the finding as one line of output."""
        return f"{legible(self.path)}:{self.line}: {self.rule.id} {self.rule.name} {self.says}".rstrip()


def legible(text: str) -> str:
    """Escape unprintable characters, which could steer a terminal or fake a line of output."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@dataclass(frozen=True, slots=True)
class AllowEntry:
    """Permission to commit specific content at one path until a given date."""

    path: str
    sha256: str
    reason: str
    by: str
    expires: date


@dataclass(frozen=True, slots=True)
class Policy:
    """Entries of a policy file."""

    entries: tuple[AllowEntry, ...] = ()

    def allows(self, finding: Finding, digest: str, today: date) -> bool:
        """Return whether a valid entry matches the path of the finding and the digest of the content."""
        return finding.rule.allowable and any(
            entry.path == finding.path and entry.sha256 == digest and entry.expires >= today
            for entry in self.entries
        )

    def as_json(self) -> str:
        """Return the text of the policy file, sorted and with one entry per line for readable diffs."""
        entries = sorted(self.entries, key=lambda e: (e.path, e.sha256))
        rows = ",\n  ".join(json.dumps(asdict(entry), default=str) for entry in entries)
        return f'{{\n"format": "{FORMAT}",\n"allow": [{f"{chr(10)}  {rows}{chr(10)}" if rows else ""}]\n}}\n'


def policy_of(root: Path | None) -> Policy:
    """Return the policy in a work tree, which is empty if there is no policy file."""
    path = root / NAME if root is not None else None
    if path is None or not path.is_file() or path.is_symlink():
        return Policy()
    return parse_policy(path.read_text(encoding="utf-8", errors="replace"), NAME, date.today())


def parse_policy(text: str, where: str, today: date) -> Policy:
    """Parse the text of a policy file. Raises `DataError` (exit 3) with every fault."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{where} is not valid JSON. Restore it, or run `{_ALLOW}`.") from None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT or not set(tree) <= {"format", "allow"}:
        remedy = f"Remove a file of an older version, and run `{_ALLOW}`."
        raise DataError(f'{where}: expected only "format": "{FORMAT}" and "allow". {remedy}')
    rows = tree.get("allow", [])
    entries = [_valid_entry(row, today) for row in (rows if isinstance(rows, list) else [rows])]
    faults = [i for i, entry in enumerate(entries) if entry is None]
    if faults:
        expected = "Expected the strings path, sha256 (64 hexadecimal digits), reason, by, and expires"
        day = f"(YYYY-MM-DD, within {MOST_DAYS} days)"
        raise DataError.gather([f"{where}: allow[{i}] is invalid. {expected} {day}." for i in faults])
    return Policy(tuple(dict.fromkeys(entry for entry in entries if entry is not None)))


def _valid_entry(row: Any, today: date) -> AllowEntry | None:
    texts = (
        row.values()
        if isinstance(row, dict) and set(row) == {one.name for one in fields(AllowEntry)}
        else [None]
    )
    if not all(isinstance(text, str) and text.strip() for text in texts) or not _DIGEST.fullmatch(
        row["sha256"]
    ):
        return None
    try:
        expires = date.fromisoformat(row["expires"])
    except ValueError:
        return None
    return AllowEntry(**{**row, "expires": expires}) if expires <= today + timedelta(days=MOST_DAYS) else None
