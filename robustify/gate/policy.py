"""The rules with their findings, and the policy file of a repository: what a person looked at and let pass.

A finding is a path, a line, a rule and counts: never an excerpt, a digest of the text or the number of an item in its
set, because messages end up in logs. An entry of the policy is bound to a path and the SHA-256 of a content, and ends
within 180 days: any edit, and time, opens it again. No pragma inside a file lifts a finding.
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
    """One rule. An entry of the policy can lift it if it is `allowable`."""

    id: str
    name: str
    says: str
    mend: str
    refuses: bool = True
    allowable: bool = True


_ALLOW = "robustify gate allow PATH --reason WHY --by WHO"
_MOVE = f"Take the items out of what is committed; if they are harmless: {_ALLOW}"
_BINARY = f"Commit a text form; if a person looked at the content: {_ALLOW}"

RULES: tuple[Rule, ...] = (
    Rule("RBG101", "item-shape", "records, rows or blocks shaped like multiple-choice items", _MOVE),
    Rule("RBG104", "item-near", "one or two shapes of an item without a key: a warning",
         "Look whether it is an item of a sensitive set", refuses=False),
    Rule("RBG201", "category-words", "the shape of an item in a file that names control regimes or categories",
         _MOVE),
    Rule("RBG301", "fingerprint", "text of a registered set",
         "Remove it, from the history too (it stays in every earlier commit); no entry lifts this rule", allowable=False),
    Rule("RBG401", "canary", "the canary line of a benchmark that must not be republished",
         f"Remove the benchmark data that it came with; if it is only talked about: {_ALLOW}"),
    Rule("RBG402", "key-material", "a robustify key",
         "Make a new key and treat everything that this one protected as public; no entry lifts this rule",
         allowable=False),
    Rule("RBG403", "restricted-run", "the record of a run on a restricted set",
         "Publish the hashed split or the published release level instead; no entry lifts this rule", allowable=False),
    Rule("RBG404", "own-state", "state of robustify's own: a score cache, a record of registered sets or of accepted terms",
         "Leave it where robustify keeps it, outside the repository; no entry lifts this rule", allowable=False),
    Rule("RBG405", "keyed-ids", "keyed ids of items outside a hashed split, or a split that says more than ids",
         f"Publish the hashed split that robustify restricted split emit writes; if the ids are an example: {_ALLOW}"),
    Rule("RBG501", "not-text", "content that is neither plain UTF-8 text nor an image without text",
         _BINARY),
    Rule("RBG502", "encoded", "text that holds other content: base64, hex, tokens, hidden characters",
         f"Commit the content itself; if a person looked at it: {_ALLOW}"),
    Rule("RBG503", "too-large", "more than the gate reads: bytes or time",
         f"Split it; if a person looked at it: {_ALLOW}"),
    Rule("RBG505", "elsewhere", "a pointer to content that lies outside the repository",
         f"Scan the content itself (robustify gate FILE), then: {_ALLOW}"),
)  # fmt: skip

BY_ID: dict[str, Rule] = {rule.id: rule for rule in RULES}


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that matched in one place. `line` counts from 1; `says` is counts and fixed words."""

    rule: Rule
    line: int
    says: str
    path: str = ""

    def as_line(self) -> str:
        """Return the one line that a person reads."""
        return f"{legible(self.path)}:{self.line}: {self.rule.id} {self.rule.name} {self.says}".rstrip()


def legible(text: str) -> str:
    """Escape everything unprintable in a text, which could steer a terminal or fake a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@dataclass(frozen=True, slots=True)
class AllowEntry:
    """One content that may pass at one path until a day."""

    path: str
    sha256: str
    reason: str
    by: str
    expires: date


@dataclass(frozen=True, slots=True)
class Policy:
    """The entries of a policy file."""

    entries: tuple[AllowEntry, ...] = ()

    def allows(self, finding: Finding, digest: str, today: date) -> bool:
        """Return whether an entry in force is bound to the finding's path and the content's digest."""
        return finding.rule.allowable and any(
            entry.path == finding.path and entry.sha256 == digest and entry.expires >= today
            for entry in self.entries
        )

    def as_json(self) -> str:
        """Return the file's text: sorted, one entry per line, so that a reviewer's diff shows one line per entry."""
        entries = sorted(self.entries, key=lambda e: (e.path, e.sha256))
        rows = ",\n  ".join(json.dumps(asdict(entry), default=str) for entry in entries)
        return f'{{\n"format": "{FORMAT}",\n"allow": [{f"{chr(10)}  {rows}{chr(10)}" if rows else ""}]\n}}\n'


def policy_of(root: Path | None) -> Policy:
    """Return the policy as it lies in a work tree."""
    path = root / NAME if root is not None else None
    if path is None or not path.is_file() or path.is_symlink():
        return Policy()
    return parse_policy(path.read_text(encoding="utf-8", errors="replace"), NAME, date.today())


def parse_policy(text: str, where: str, today: date) -> Policy:
    """Return the policy of a text. Raises `DataError` (exit 3) with every fault."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: is not JSON; restore it, or make it again: robustify gate allow") from None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT or not set(tree) <= {"format", "allow"}:
        mend = "remove an older file and make it again: robustify gate allow PATH --reason WHY --by WHO"
        raise DataError(f'{where}: expected "format": "{FORMAT}" and "allow" only; {mend}')
    rows = tree.get("allow", [])
    entries = [_entry(row, today) for row in (rows if isinstance(rows, list) else [rows])]
    faults = [i for i, entry in enumerate(entries) if entry is None]
    if faults:
        day = f"expires (YYYY-MM-DD, within {MOST_DAYS} days)"
        expected = f"the texts path, sha256 (64 hexadecimal digits), reason, by, and {day}"
        raise DataError.gather([f"{where}: allow[{i}]: expected {expected}" for i in faults])
    return Policy(tuple(dict.fromkeys(entry for entry in entries if entry is not None)))


def _entry(row: Any, today: date) -> AllowEntry | None:
    """Return one entry, or None for one that cannot be trusted."""
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
