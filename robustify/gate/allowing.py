"""`robustify gate allow`: an entry for what was looked at, bound to path, rule and content.

It writes the policy file and nothing else, and it refuses what no entry may lift.
"""

import sys
from argparse import Namespace
from datetime import date, timedelta
from pathlib import Path

from robustify.errors import AuthorisationError, ResourceError, UsageError
from robustify.gate.check import check
from robustify.gate.findings import shown
from robustify.gate.fingerprints.matching import Fingerprints
from robustify.gate.git import work_tree
from robustify.gate.policy import MOST_DAYS, NAME, Entry, Policy, digest_of, parsed
from robustify.gate.sources import of_files


def allow(asked: Namespace, fingerprints: Fingerprints | None, today: date) -> int:
    """Write entries for the refusals of each file. Raises `AuthorisationError` where one cannot be lifted."""
    root = work_tree(Path.cwd())
    if root is None:
        raise UsageError("not inside a git work tree; an entry is bound to a path of a repository")
    if not 1 <= asked.days <= MOST_DAYS:
        raise UsageError(f"--days {asked.days}; expected 1 to {MOST_DAYS}")
    place = root / NAME
    old = parsed(place.read_text(encoding="utf-8"), NAME, today) if place.is_file() else Policy()
    entries = list(old.entries)
    for content in of_files(asked.files, root):
        if content.data is None:
            raise AuthorisationError(f"{shown(content.path)} is larger than the gate reads; split it")
        found = check([content], fingerprints, Policy(), demo=False, today=today).refused
        stuck = sorted({finding.rule.id for finding in found if not finding.rule.allowable})
        if stuck:
            raise AuthorisationError(
                f"{shown(content.path)}: no entry lifts {', '.join(stuck)}; remove the content"
            )
        digest, expires = digest_of(content.data), today + timedelta(days=asked.days)
        rules = sorted({finding.rule.id for finding in found})
        new = {(content.path, rule, digest) for rule in rules}
        # An entry for an earlier content stays in force: that content stays in the history.
        entries = [e for e in entries if e.expires >= today and (e.path, e.rule, e.sha256) not in new]
        entries += [Entry(content.path, rule, digest, asked.reason, asked.by, expires) for rule in rules]
        print(f"{shown(content.path)}: {', '.join(rules) if rules else 'nothing to allow'}")
    try:
        place.write_text(Policy(tuple(entries), old.demo).as_json(), encoding="utf-8")
    except OSError as error:
        raise ResourceError(f"{NAME} cannot be written ({error.strerror})") from None
    print(
        f"robustify gate: {NAME} is written; it counts for commits once it is staged: git add {NAME}",
        file=sys.stderr,
    )
    return 0
