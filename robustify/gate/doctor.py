"""`robustify gate doctor`, which tests every installed hook with a canary and lists the parts that are off.

Each hook is run in a temporary copy of the repository, first on a harmless text and then on a made-up item (the canary).
The repository itself does not change. The exit code is 0 if every part is on, and 4 otherwise.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from robustify.errors import AuthorisationError
from robustify.gate.git import work_tree

HOOKS = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push")
_NOTE = "robustify-canary.md"
_CANARY = "\n".join(
    ("Which of these is a knot?", *map("{}) {}".format, "ABC", ("bowline", "tub", "oar")), "Answer: A")
)
"""A made-up item, assembled in pieces so that the gate passes this source file."""


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
    hooks = root / _git(root, "rev-parse", "--git-path", "hooks").stdout.strip()
    with tempfile.TemporaryDirectory(prefix="robustify-doctor-") as folder:
        copy = Path(folder, "copy")
        _git(root, "checkout-index", "--all", f"--prefix={copy}/")
        for step in (
            ("init", "-q"),
            ("add", "--all", "--force"),
            ("commit", "-q", "--allow-empty", "-m", "As it stands"),
        ):
            _git(copy, "-c", "core.hooksPath=/dev/null", *step)
        for path in root.iterdir():  # untracked files, such as an environment that a hook needs
            if path.name != ".git" and not (copy / path.name).exists():
                (copy / path.name).symlink_to(path)
        (copy / ".git" / "info" / "exclude").write_text("*\n")
        _git(copy, "init", "-q", "--bare", "../far")
        for stage in HOOKS:
            yield f"{stage} hook", _fault(hooks / stage, stage, copy)


def _fault(hook: Path, stage: str, copy: Path) -> str:
    """Return why a hook fails the canary test, or an empty string. It must refuse the canary and nothing else."""
    if not hook.is_file():
        return "not installed; see docs/security.md"
    if not os.access(hook, os.X_OK):
        return "not executable, so Git skips it"
    harmless, canary = (_tried(hook, stage, copy, text) for text in ("A note.", _CANARY))
    if harmless.returncode:
        return "refused a harmless change too, so the test proves nothing"
    if not canary.returncode:
        return "let the canary pass"
    return "" if "RBG101" in canary.stdout + canary.stderr else "refused the canary without a gate finding"


def _tried(hook: Path, stage: str, copy: Path, text: str) -> "subprocess.CompletedProcess[str]":
    """Run a hook as Git would: on the staged text, on a message with it, or on a push of a tag with it."""
    (copy / _NOTE).write_text(text, encoding="utf-8")
    if stage == "commit-msg":
        return _called(copy, str(hook), _NOTE)
    if stage == "pre-push":
        _git(copy, "tag", "-f", "-a", "canary", "-F", _NOTE)
        tag, zeros = _git(copy, "rev-parse", "canary").stdout.strip(), "0" * 40
        return _called(
            copy, str(hook), "../far", "../far", given=f"refs/tags/canary {tag} refs/tags/canary {zeros}\n"
        )
    _git(copy, "add", "--force", _NOTE)
    return _called(copy, str(hook))


def _git(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    return _called(folder, "git", *args)


def _called(folder: Path, *line: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT_"))}
    people = (f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL"))
    env |= dict.fromkeys(people, "gate@localhost")
    return subprocess.run(
        line, cwd=folder, env=env, input=given, capture_output=True, text=True, timeout=600, check=False
    )
