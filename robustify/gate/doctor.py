"""`robustify gate doctor`, which tests every installed hook with a canary and lists the parts that are off.

Git runs each hook in a temporary copy of the repository, first on a harmless text and then on a made-up item (the
canary). The repository itself does not change. The exit code is 0 if every part is on, and 4 otherwise.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from robustify.errors import AuthorisationError
from robustify.gate.git import Repository, command, environment, work_tree

_CANARY = "\n".join(
    ("Which of these is a knot?", *map("{}) {}".format, "ABC", ("bowline", "tub", "oar")), "Answer: A")
)
"""A made-up item, assembled in pieces so that the gate passes this source file."""
_COMMIT = ("commit", "-q", "--allow-empty", "-m")
HOOKS: dict[str, tuple[tuple[str, ...], ...]] = {
    "pre-commit": ((*_COMMIT, "Try"),),
    "pre-merge-commit": ((*_COMMIT, "Try"), ("checkout", "-q", "HEAD^"), ("merge", "-q", "--no-ff", "-m", "Try", "try")),
    "commit-msg": (("reset", "-q"), (*_COMMIT, "TEXT")),
    "pre-push": (("reset", "-q"), ("tag", "-f", "-a", "canary", "-m", "TEXT"), ("push", "-q", "-f", "far", "canary")),
}  # fmt: skip
"""Git commands to run for each hook. The last command makes Git run the hook."""


def doctor(why_not: str) -> int:
    """Print the state of each part of the gate, and return the exit code. `why_not`: why fingerprints are off."""
    root = work_tree(Path.cwd())
    off = {"fingerprints": f"did not run: {why_not}" if why_not else ""}
    off |= dict(_hooks(root)) if root else {"repository": "not in a Git repository, so no hook runs"}
    for name, says in off.items():
        print(f"OFF  {name}: {says}" if says else f"on   {name}")
    n = sum(map(bool, off.values()))
    said = f"robustify gate: {n} of {len(off)} parts are off. docs/security.md lists what passes."
    print(said, file=sys.stderr)
    return AuthorisationError.exit_code if n else 0


def _hooks(root: Path) -> Iterator[tuple[str, str]]:
    hooks = (root / _git(root, "rev-parse", "--git-path", "hooks", hooked=True).stdout.strip()).resolve()
    with tempfile.TemporaryDirectory(prefix="robustify-doctor-") as folder:
        place, copy = Path(folder), Path(folder, "copy")
        _git(place, "init", "-q", "copy")
        for name in (entry.path for entry in Repository(root).indexed(changed=False)):
            if (root / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / name, copy / name, follow_symlinks=False)
        for step in (("add", "--all", "--force"), (*_COMMIT, "As it stands"), ("branch", "base")):
            _git(copy, *step)
        for path in root.iterdir():  # untracked files, such as an environment that a hook needs
            if path.name != ".git" and not (copy / path.name).exists():
                (copy / path.name).symlink_to(path)
        (copy / ".git" / "info" / "exclude").write_text("*\n")
        _git(place, "clone", "-q", "--bare", "copy", "far")
        _git(copy, "remote", "add", "far", "../far")
        _git(copy, "config", "core.hooksPath", str(hooks))
        for stage in HOOKS:
            yield f"{stage} hook", _fault(hooks / stage, stage, copy)


def _fault(hook: Path, stage: str, copy: Path) -> str:
    """Return why a hook fails the canary test, or an empty string. It must refuse the canary and nothing else."""
    if not hook.is_file():
        return "not installed; see docs/security.md"
    if not os.access(hook, os.X_OK):
        return "not executable, so Git skips it"
    harmless, canary = (_tried(stage, copy, text) for text in ("A note.", _CANARY))
    if harmless.returncode:
        return "refused a harmless change too, so the test proves nothing"
    if not canary.returncode:
        return "let the canary pass"
    return "" if "RBG101" in canary.stdout + canary.stderr else "refused the canary without a gate finding"


def _tried(stage: str, copy: Path, text: str) -> "subprocess.CompletedProcess[str]":
    _git(copy, "checkout", "-q", "-f", "-B", "try", "base")
    (copy / "robustify-canary.md").write_text(text, encoding="utf-8")
    _git(copy, "add", "--force", "robustify-canary.md")
    *before, last = ([text if part == "TEXT" else part for part in step] for step in HOOKS[stage])
    for step in before:
        _git(copy, *step)
    return _git(copy, *last, hooked=True)


def _git(folder: Path, *args: str, hooked: bool = False) -> "subprocess.CompletedProcess[str]":
    line = ["git", *args] if hooked else command(["-c", "protocol.file.allow=always", *args])
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT_"))}
    env = env if hooked else environment() | {"GIT_ALLOW_PROTOCOL": "file"}
    env |= {
        f"GIT_{who}_{what}": "gate@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)
