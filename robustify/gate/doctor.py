"""`robustify gate doctor`: let git run each installed hook on a canary, and say what is off.

This happens in a copy of the repository in a temporary folder: first with a harmless text, then with one made-up item.
Nothing in the repository changes. The command ends with 0 if everything is on and with 4 if something is off.
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
"""A made-up item, put together so that the gate passes its own source."""
_COMMIT = ("commit", "-q", "--allow-empty", "-m")
HOOKS: dict[str, tuple[tuple[str, ...], ...]] = {
    "pre-commit": ((*_COMMIT, "Try"),),
    "pre-merge-commit": ((*_COMMIT, "Try"), ("checkout", "-q", "HEAD^"), ("merge", "-q", "--no-ff", "-m", "Try", "try")),
    "commit-msg": (("reset", "-q"), (*_COMMIT, "TEXT")),
    "pre-push": (("reset", "-q"), ("tag", "-f", "-a", "canary", "-m", "TEXT"), ("push", "-q", "-f", "far", "canary")),
}  # fmt: skip
"""Of each stage at which a hook of the gate belongs, what git is given; the last makes it run the hook."""


def doctor(why_not: str) -> int:
    """Print every part of the gate; return the exit code. `why_not`: why the fingerprint layer does not run."""
    root = work_tree(Path.cwd())
    off = {"fingerprints": f"did not run: {why_not}" if why_not else ""}
    off |= (
        dict(_hooks(root))
        if root
        else {"repository": "this folder is in no git repository: no hook runs here"}
    )
    for name, says in off.items():
        print(f"OFF  {name}: {says}" if says else f"on   {name}")
    n = sum(map(bool, off.values()))
    print(
        f"robustify gate: {n} of {len(off)} parts are off; docs/security.md says what passes anyway",
        file=sys.stderr,
    )
    return AuthorisationError.exit_code if n else 0


def _hooks(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each stage with what is wrong there."""
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
        for path in root.iterdir():  # what git does not track, such as an environment that a hook needs
            if path.name != ".git" and not (copy / path.name).exists():
                (copy / path.name).symlink_to(path)
        (copy / ".git" / "info" / "exclude").write_text("*\n")
        _git(place, "clone", "-q", "--bare", "copy", "far")
        _git(copy, "remote", "add", "far", "../far")
        _git(copy, "config", "core.hooksPath", str(hooks))
        for stage in HOOKS:
            yield f"{stage} hook", _fault(hooks / stage, stage, copy)


def _fault(hook: Path, stage: str, copy: Path) -> str:
    """Return why a hook does not refuse the canary alone; empty if it does."""
    if not hook.is_file():
        return "not installed; see docs/security.md"
    if not os.access(hook, os.X_OK):
        return "is not executable: git leaves it out"
    harmless, canary = (_tried(stage, copy, text) for text in ("A note.", _CANARY))
    if harmless.returncode:
        return "refused a harmless change too: nothing shows whether it looks"
    if not canary.returncode:
        return "let the canary pass"
    return "" if "RBG101" in canary.stdout + canary.stderr else "refused, but not by a finding of the gate"


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
