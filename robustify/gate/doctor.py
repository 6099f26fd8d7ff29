"""`robustify gate doctor`: what of the gate is on in this repository, what is off, and what would pass today.

It looks and changes nothing. It ends with 0 where everything is on and with 4 where something is off.
"""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path

from robustify.errors import AuthorisationError, RobustifyError
from robustify.gate.detect import lexicon
from robustify.gate.fingerprints import Fingerprints
from robustify.gate.git import Repository, work_tree
from robustify.gate.policy import VARIABLE, safe_demo
from robustify.gate.sources import policy_of

HOOKS = {
    "pre-commit": "what is committed",
    "pre-merge-commit": "what a merge brings that does not stop for an editor",
    "commit-msg": "text of a set in a commit message",
    "pre-push": "what was committed with --no-verify, and messages and tags, when it is pushed",
}
"""The stages at which a hook of the gate belongs, and what passes where it is missing."""
_CONFIG = ".pre-commit-config.yaml"
_MARKS = ("robustify-gate", "robustify/gate/hook.py", "robustify gate")
_SOON = timedelta(days=30)
_OLD = timedelta(days=730)
_ALWAYS = (
    "a paraphrase, a translation, a picture or a recording that an allow-list entry lets through",
    "an open question without choices that nobody registered",
    "whatever a person commits and pushes with --no-verify, unless CI runs the gate (.ci/gate, docs/security.md)",
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the gate. `passes`: what gets through while it is off, and `mend`: how it is turned on."""

    name: str
    on: bool
    says: str
    passes: str = ""
    mend: str = ""


def doctor(asked: Namespace, prints: Fingerprints | None, why_not: str) -> int:
    """Print every part of the gate; returns the exit code."""
    root = work_tree(Path.cwd())
    parts = [*_layers(asked, prints, why_not), *_repository(root)]
    off = [part for part in parts if not part.on]
    passing = [part.passes for part in off if part.passes]
    if asked.json:
        rows = [asdict(part) for part in parts]
        print(json.dumps({"format": 1, "off": len(off), "parts": rows, "passes": [*passing, *_ALWAYS]}))
        return AuthorisationError.exit_code if off else 0
    for part in parts:
        mend = f"; mend: {part.mend}" if part.mend and not part.on else ""
        print(f"{'on ' if part.on else 'OFF'}  {part.name}: {part.says}{mend}")
    print("would pass today:")
    for line in (*passing, *_ALWAYS):
        print(f"  - {line}")
    says = f"{len(off)} of {len(parts)} parts are off" if off else f"all {len(parts)} parts are on"
    print(f"robustify gate: {says}", file=sys.stderr)
    return AuthorisationError.exit_code if off else 0


def _layers(asked: Namespace, prints: Fingerprints | None, why_not: str) -> Iterator[Part]:
    yield Part("structure", True, "records shaped like multiple-choice items are refused")
    reviewed = lexicon().reviewed
    yield Part("lexicon", date.today() - reviewed < _OLD, f"last reviewed {reviewed.isoformat()}",
               mend="install a newer version")  # fmt: skip
    text = "text of a registered set that lacks the shape of an item"
    mend = "robustify gate index ITEMS --key FILE -o INDEX, then set $ROBUSTIFY_GATE_INDEX and $ROBUSTIFY_GATE_KEY_FILE"
    if prints is None:
        yield Part("fingerprints", False, f"did not run: {why_not}", text, mend)
    else:
        names = ", ".join(prints.names)
        yield Part("fingerprints", True, f"{len(prints.names)} registered sets ({names})")
    arrow = find_spec("pyarrow") is not None
    says = "Parquet files are read" if arrow else "without pyarrow a Parquet file is refused and not read"
    yield Part("Parquet", True, says)
    try:
        demo = safe_demo()
    except RobustifyError:
        demo = True
    yield Part(VARIABLE, not demo, "set" if demo else "not set",
               "items on the policy's safe_demo_paths" if demo else "", f"unset {VARIABLE}")  # fmt: skip


def _repository(root: Path | None) -> Iterator[Part]:
    if root is None:
        yield Part("repository", False, "this folder is in no git repository", "everything: no hook runs here",
                   "run it inside the repository")  # fmt: skip
        return
    folder = Repository(root).hooks()
    config = root / _CONFIG
    text = config.read_text(encoding="utf-8", errors="replace") if config.is_file() else ""
    listed = any(mark in text for mark in _MARKS)
    for stage, passes in HOOKS.items():
        on, says = _hook(folder / stage, listed)
        mend = f"name the gate's hooks in {_CONFIG}, then: pre-commit install --hook-type {stage} (docs/security.md)"
        yield Part(f"{stage} hook", on, says, passes, mend)
    required = "--require-fingerprints" in text
    if listed:
        yield Part("--require-fingerprints", required,
                   "the hooks refuse where the fingerprint layer cannot run" if required else "not asked for by the hooks",
                   "" if required else "every commit on a machine without the index or its key, with a warning alone",
                   f"args: [--require-fingerprints] at each hook in {_CONFIG}")  # fmt: skip
    try:
        entries = policy_of(root).entries
    except RobustifyError as error:
        yield Part("policy", False, error.lines[0], mend="restore it: git checkout .robustify-gate.json")
        return
    today = date.today()
    ended, soon = (sum(entry.expires < day for entry in entries) for day in (today, today + _SOON))
    yield Part("policy", True, f"{len(entries) - ended} allow-list entries in force, {ended} ended,"
                               f" {soon - ended} end within {_SOON.days} days")  # fmt: skip


def _hook(place: Path, listed: bool) -> tuple[bool, str]:
    """Whether a hook runs the gate, and what is to be said of it."""
    if not place.is_file():
        return False, "not installed"
    if not os.access(place, os.X_OK):
        return False, "is not executable: git leaves it out"
    text = place.read_text(encoding="utf-8", errors="replace")
    if any(mark in text for mark in _MARKS):
        return True, "runs the gate"
    if "pre-commit" in text and "hook-impl" in text:
        return (
            listed,
            "runs the gate through pre-commit"
            if listed
            else f"pre-commit, but {_CONFIG} does not name the gate",
        )
    return False, "is another program's"
