"""Rules, findings, and the policy file that allows findings after a review.

A finding has a path, a line, a rule and counts. It has no excerpt and no item number, because messages end up in logs. A
policy entry names findings at a path or in a folder by their digests, and expires within 180 days. The digest is that of
the rule and of the found row, so an edit elsewhere in the file needs no new entry, and only new findings are refused. The
digests have no key, because the rows are committed beside them, and forks have no key. No comment inside a file lifts a
finding.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from robustify.errors import DataError

NAME = ".robustify-gate.json"
FORMAT, _FORMER = "robustify.gate-policy/3", "robustify.gate-policy/2"
MOST_DAYS = 180
_DIGEST = re.compile("[0-9a-f]{16}")


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
    Rule("RBG502", "unreadable", "over 160 unreadable characters: encoded pieces, escapes, symbols, hidden characters",
         f"Commit the content as text. {_REVIEWED}"),
    Rule("RBG503", "too-large", "content that exceeds the limit of size or scan time",
         f"Split the file. {_REVIEWED}"),
    Rule("RBG505", "elsewhere", "a pointer to content outside the repository",
         f"Scan that content with `robustify gate FILE`. If it is clean, run `{_ALLOW}`."),
)  # fmt: skip

BY_ID: dict[str, Rule] = {rule.id: rule for rule in RULES}


@dataclass(frozen=True, slots=True)
class Finding:
    """Match of a rule, with its one-based line number. `says` contains only counts and fixed words.

    `digests` are those of the found rows, by which a policy entry can lift the finding.
    """

    rule: Rule
    line: int
    says: str
    path: str = ""
    digests: tuple[str, ...] = ()

    def as_line(self) -> str:
        """Return the finding as one line of output."""
        return f"{legible(self.path)}:{self.line}: {self.rule.id} {self.rule.name} {self.says}".rstrip()


def legible(text: str) -> str:
    """Escape unprintable characters, which could steer a terminal or fake a line of output."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def digest_of(rule: str, row: str | bytes) -> str:
    """Return the digest of a found row. White space does not count, so that line ends make no difference."""
    data = row if isinstance(row, bytes) else " ".join(row.split()).encode("utf-8", "replace")
    return hashlib.sha256(rule.encode() + b"\0" + data).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class AllowEntry:
    """Permission to commit findings, named by their digests, at a path or in a folder until a given date."""

    path: str
    findings: tuple[str, ...]
    reason: str
    by: str
    expires: date

    def covers(self, path: str) -> bool:
        """Return whether the entry applies to a path."""
        return path == self.path or path.startswith(f"{self.path}/")


@dataclass(frozen=True, slots=True)
class Policy:
    """Entries of a policy file."""

    entries: tuple[AllowEntry, ...] = ()

    def allowed(self, path: str, today: date) -> frozenset[str]:
        """Return the digests of the findings that are allowed at a path."""
        current = (entry for entry in self.entries if entry.expires >= today and entry.covers(path))
        return frozenset(digest for entry in current for digest in entry.findings)

    def as_json(self) -> str:
        """Return the text of the policy file, sorted and with one entry per line for readable diffs."""
        entries = sorted(self.entries, key=lambda e: (e.path, e.findings))
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
    if not isinstance(tree, dict) or not set(tree) <= {"format", "allow"}:
        tree = {}
    rows = tree.get("allow", [])
    rows = rows if isinstance(rows, list) else [rows]
    # The rows decide, because a merge may keep the number of the former format above rows of this one.
    if tree.get("format") == _FORMER and not all(isinstance(row, dict) and "findings" in row for row in rows):
        remedy = f"Remove the file, and run `{_ALLOW}` for each path or folder."
        raise DataError(
            f"{where} has the former format {_FORMER}, which allows whole files, not findings. {remedy}"
        )
    if tree.get("format") not in (FORMAT, _FORMER):
        remedy = f"Restore the file, or remove it and run `{_ALLOW}`."
        raise DataError(f'{where}: expected only "format": "{FORMAT}" and "allow". {remedy}')
    entries = [_valid_entry(row, today) for row in rows]
    faults = [i for i, entry in enumerate(entries) if entry is None]
    if faults:
        expected = "Expected path, findings (a list of digests), reason, by, and expires"
        day = f"(YYYY-MM-DD, within {MOST_DAYS} days)"
        raise DataError.gather([f"{where}: allow[{i}] is invalid. {expected} {day}." for i in faults])
    return Policy(tuple(dict.fromkeys(entry for entry in entries if entry is not None)))


def _valid_entry(row: Any, today: date) -> AllowEntry | None:
    wanted = {one.name for one in fields(AllowEntry)}
    if not isinstance(row, dict) or not wanted <= set(row) or not isinstance(row["findings"], list):
        return None
    texts, digests = [row[name] for name in wanted - {"findings"}], row["findings"]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        return None
    try:
        expires = date.fromisoformat(row["expires"])
    except ValueError:
        return None
    whole = all(isinstance(one, str) and _DIGEST.fullmatch(one) for one in digests)
    if not whole or expires > today + timedelta(days=MOST_DAYS):
        return None
    return AllowEntry(row["path"].rstrip("/"), tuple(digests), row["reason"], row["by"], expires)
