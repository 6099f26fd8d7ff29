"""`robustify gate doctor`: run each installed hook on a canary, and say what happened and what is off.

The hooks run in a copy of the repository in a temporary folder: first on a harmless change, then on one made-up item.
Nothing in the repository changes. The command ends with 0 if everything is on and with 4 if something is off.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path

from robustify.errors import AuthorisationError, RobustifyError
from robustify.gate.fingerprints import Fingerprints
from robustify.gate.git import Repository, command, environment, work_tree
from robustify.gate.policy import policy_of
from robustify.gate.words import lexicon

HOOKS = {
    "pre-commit": "what is committed",
    "pre-merge-commit": "what a merge brings that does not stop for an editor",
    "commit-msg": "items in a commit message",
    "pre-push": "what was committed with --no-verify, and messages and tags, when it is pushed",
}
"""The stages at which a hook of the gate belongs, and what passes if it is missing."""
_ALWAYS = (
    "a paraphrase, a translation, a picture of text, or what an allow-list entry lets through",
    "an open question without choices that nobody registered",
    "whatever a person commits and pushes with --no-verify, unless CI runs the gate (.ci/gate, docs/security.md)",
)
_CANARY = "\n".join(
    ("Which of these is a knot?", *map("{}) {}".format, "ABC", ("bowline", "tub", "oar")), "Answer: A", "")
)
"""A made-up item, put together so that the gate passes its own source."""
_HARMLESS = "Mend a typo in the notes.\n"
_SOON = timedelta(days=30)
_OLD = timedelta(days=730)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the gate. `passes` is what gets through while it is off."""

    name: str
    on: bool
    says: str
    passes: str = ""


def doctor(prints: Fingerprints | None, why_not: str, *, as_json: bool) -> int:
    """Print every part of the gate; return the exit code."""
    root = work_tree(Path.cwd())
    parts = [*_layers(prints, why_not), *(_repository(root) if root else [_NO_REPOSITORY])]
    off = [part for part in parts if not part.on]
    passing = [*(part.passes for part in off if part.passes), *_ALWAYS]
    if as_json:
        print(
            json.dumps({"format": 2, "off": len(off), "parts": list(map(asdict, parts)), "passes": passing})
        )
    else:
        for part in parts:
            print(f"{'on ' if part.on else 'OFF'}  {part.name}: {part.says}")
        print("\n  - ".join(["would pass today:", *passing]))
        says = f"{len(off)} of {len(parts)} parts are off" if off else f"all {len(parts)} parts are on"
        print(f"robustify gate: {says}", file=sys.stderr)
    return AuthorisationError.exit_code if off else 0


_NO_REPOSITORY = Part(
    "repository", False, "this folder is not in a git repository", "everything: no hook runs here"
)


def _layers(prints: Fingerprints | None, why_not: str) -> Iterator[Part]:
    reviewed = lexicon().reviewed
    yield Part("lexicon", date.today() - reviewed < _OLD, f"last reviewed {reviewed.isoformat()}")
    says = (
        f"registered sets: {', '.join(prints.names)}"
        if prints
        else f"did not run: {why_not}; see robustify gate index"
    )
    yield Part(
        "fingerprints", prints is not None, says, "text of a registered set that lacks the shape of an item"
    )


def _repository(root: Path) -> Iterator[Part]:
    with tempfile.TemporaryDirectory(prefix="robustify-doctor-") as folder:
        copy = Path(folder) / "copy"
        _copied(root, copy)
        hooks = Repository(root).hooks()
        for stage, passes in HOOKS.items():
            on, says = _tried(hooks / stage, stage, copy)
            yield Part(f"{stage} hook", on, says, passes)
    try:
        entries = policy_of(root).entries
    except RobustifyError as error:
        yield Part("policy", False, error.lines[0])
        return
    ended, soon = (
        sum(entry.expires < day for entry in entries) for day in (date.today(), date.today() + _SOON)
    )
    yield Part(
        "policy", True, f"{len(entries) - ended} entries in force, {ended} ended, {soon - ended} end soon"
    )


def _git(folder: Path, *args: str) -> str:
    line = [*command(args)[:1], "-c", "user.name=gate", "-c", "user.email=gate@localhost", *command(args)[1:]]
    done = subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _copied(root: Path, copy: Path) -> None:
    """Make a repository of the work tree's own files, with links to what git does not track, such as environments."""
    copy.mkdir()
    _git(copy, "init", "-q")
    for entry in Repository(root).tracked():
        source, target = root / entry.path, copy / entry.path
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target, follow_symlinks=False)
    _git(copy, "add", "--all", "--force")
    _git(copy, "commit", "-q", "--no-verify", "--allow-empty", "-m", "As it stands")
    for path in root.iterdir():
        if path.name != ".git" and not (copy / path.name).exists():
            (copy / path.name).symlink_to(path)
            with (copy / ".git" / "info" / "exclude").open("a", encoding="utf-8") as file:
                file.write(f"/{path.name}\n")


def _tried(hook: Path, stage: str, copy: Path) -> tuple[bool, str]:
    """Return whether a hook refuses the canary alone, and what it did."""
    if not hook.is_file():
        return False, f"not installed; see docs/security.md: pre-commit install --hook-type {stage}"
    if not os.access(hook, os.X_OK):
        return False, "is not executable: git leaves it out"
    try:
        (harmless, _), (code, printed) = (_run(hook, stage, copy, text) for text in (_HARMLESS, _CANARY))
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, f"could not be run ({type(error).__name__})"
    if code == 0:
        return False, "ran and let the canary pass"
    if harmless:
        return False, f"ended with {harmless} on a harmless change too: nothing shows whether it looks"
    return (
        (True, "refused the canary")
        if "RBG101" in printed
        else (False, f"ended with {code}, not by a finding of the gate")
    )


def _run(hook: Path, stage: str, copy: Path, text: str) -> tuple[int, str]:
    """Return the exit code and the output of a hook at its stage, with a text that is new there."""
    (copy / "robustify-canary.md").write_text(text, encoding="utf-8")
    args, given = list[str](), ""
    if stage == "commit-msg":
        args = [".git/COMMIT_EDITMSG"]
        (copy / args[0]).write_text(text, encoding="utf-8")
    else:
        _git(copy, "add", "robustify-canary.md")
    if stage == "pre-push":
        before = _git(copy, "rev-parse", "HEAD")
        _git(copy, "commit", "-q", "--no-verify", "-m", "Try the hook")
        args, given = (
            ["origin", "nowhere"],
            f"refs/heads/try {_git(copy, 'rev-parse', 'HEAD')} refs/heads/try {before}\n",
        )
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT_"))}
    done = subprocess.run(
        [str(hook), *args], cwd=copy, env=env, input=given, capture_output=True, text=True, timeout=600, check=False
    )  # fmt: skip
    _git(copy, "reset", "-q", "--hard", "HEAD^" if stage == "pre-push" else "HEAD")
    return done.returncode, done.stdout + done.stderr
