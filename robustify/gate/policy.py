"""Rules, findings, and the policy file that allows findings after a review.

A finding has no excerpt and no item number, because messages end up in logs. An entry names findings at a path or in a
folder by their digests, and expires within 180 days. The digest is that of the rule and of the found row, so an edit
elsewhere needs no new entry. The digests have no key, because the rows are committed beside them.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from robustify.base.errors import DataError
from robustify.base.texts import escaped

NAME = ".robustify-gate.json"
FORMAT, _FORMER = "robustify.gate-policy/3", "robustify.gate-policy/2"
MOST_DAYS = 180
_DIGEST = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class GateRule:
    """Rule of the gate. If it is `allowable`, a policy entry can lift it."""

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
    GateRule("RBG101", "item-shape", "records, rows or blocks shaped like multiple-choice items", _HARMLESS),
    GateRule("RBG104", "item-near", "one or two item shapes without a key (a warning)",
         "Check whether this is an item of a sensitive set.", refuses=False),
    GateRule("RBG201", "category-words", "an item shape in a file that names control regimes or categories", _HARMLESS),
    GateRule("RBG301", "fingerprint", "text of a registered set",
         "Remove the text from every commit in the history. No entry lifts this rule.", allowable=False),
    GateRule("RBG401", "canary", "the canary line of a benchmark that must not be republished",
         f"Remove the benchmark data. If the text only mentions the canary, run `{_ALLOW}`."),
    GateRule("RBG402", "key-material", "a robustify key",
         "Make a new key, and treat everything that the old key protected as public. No entry lifts this rule.",
         allowable=False),
    GateRule("RBG403", "restricted-run", "the record of a run on a restricted set",
         "Publish the hashed split or a run of the published release level. No entry lifts this rule.", allowable=False),
    GateRule("RBG404", "own-state", "private state: a score cache, or a record of registered sets or accepted terms",
         "Keep the file outside the repository, where robustify wrote it. No entry lifts this rule.", allowable=False),
    GateRule("RBG405", "keyed-ids", "keyed item IDs outside a hashed split, or a hashed split with more than IDs",
         f"Publish the output of `robustify restricted split emit`. If the IDs are an example, run `{_ALLOW}`."),
    GateRule("RBG501", "not-text", "content that is neither plain UTF-8 text nor an image without text",
         f"Commit the content as text. {_REVIEWED}"),
    GateRule("RBG502", "unreadable", "over 160 unreadable characters (encoded, symbols, hidden), or 64 in one piece",
         f"Commit the content as text. {_REVIEWED}"),
    GateRule("RBG503", "too-large", "content that exceeds the limit of size",
         f"Split the file. {_REVIEWED}"),
    GateRule("RBG505", "elsewhere", "a pointer to content outside the repository",
         f"Scan that content with `robustify gate FILE`. If it is clean, run `{_ALLOW}`."),
)  # fmt: skip

BY_ID: dict[str, GateRule] = {rule.id: rule for rule in RULES}


@dataclass(frozen=True, slots=True)
class GateFinding:
    """Match of a rule, with its one-based line number. `says` contains only counts and fixed words.

    `digests` are those of the found rows, by which a policy entry can lift the finding.
    """

    rule: GateRule
    line: int
    says: str
    path: str = ""
    digests: tuple[str, ...] = ()

    def as_line(self) -> str:
        """Return the finding as one line of output."""
        return f"{escaped(self.path)}:{self.line}: {self.rule.id} {self.rule.name} {self.says}".rstrip()


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


Policy = Sequence[AllowEntry]
"""Entries of a policy file."""


def allowed(policy: Policy, path: str) -> frozenset[str]:
    """Return the digests of the findings that are allowed at a path today."""
    current = (one for one in policy if one.expires >= date.today() and one.covers(path))
    return frozenset(digest for entry in current for digest in entry.findings)


def policy_text(policy: Policy) -> str:
    """Return the text of the policy file, sorted and with one entry per line for readable diffs."""
    entries = sorted(policy, key=lambda e: (e.path, e.findings))
    rows = "".join(f"  {json.dumps(asdict(entry), default=str)},\n" for entry in entries)
    listed = "\n" + rows[:-2] + "\n" if rows else ""
    return f'{{\n"format": "{FORMAT}",\n"allow": [{listed}]\n}}\n'


def policy_of(root: Path | None) -> Policy:
    """Return the policy in a work tree, which is empty if there is no policy file."""
    path = root / NAME if root is not None else None
    if path is None or not path.is_file() or path.is_symlink():
        return ()
    return parse_policy(path.read_bytes(), NAME)


def parse_policy(data: bytes, where: str) -> Policy:
    """Parse the content of a policy file. Raises `DataError` (exit 3) if an entry is invalid."""
    try:
        tree = json.loads(data.decode("utf-8", "replace"))
        rows = tree["allow"]
    except (ValueError, RecursionError, TypeError, LookupError):
        tree, rows = {}, None
    remedy = f"Restore the file, or remove it and run `{_ALLOW}` for each path or folder."
    # A merge may keep the number of the former format above rows of this one.
    if not isinstance(rows, list) or len(tree) != 2 or tree.get("format") not in (FORMAT, _FORMER):
        raise DataError(f'{where}: expected JSON with only "format": "{FORMAT}" and "allow". {remedy}')
    entries = [entry for row in rows if (entry := _entry(row)) is not None]
    if n := len(rows) - len(entries):
        wanted = f"path, findings (digests, not whole files), reason, by, expires (within {MOST_DAYS} days)"
        raise DataError(f"{where}: {n} entries are invalid. Expected {wanted}. {remedy}")
    return tuple(dict.fromkeys(entries))


def _entry(row: Any) -> AllowEntry | None:
    try:
        texts = [row[name] for name in ("path", "reason", "by")]
        digests, expires = tuple(row["findings"]), date.fromisoformat(row["expires"])
        whole = all(map(_DIGEST.fullmatch, digests)) and all(text.strip() for text in texts)
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
    if not whole or expires > date.today() + timedelta(days=MOST_DAYS):
        return None
    return AllowEntry(texts[0].rstrip("/"), digests, texts[1], texts[2], expires)
