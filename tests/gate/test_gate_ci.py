"""The gate where nobody can skip it: the CI step over the commits, the hooks as pre-commit installs them, the doctor."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from robustify.base.key_file import FILE_VARIABLE
from robustify.gate.check import NAME
from robustify.gate.command import HOOKS
from robustify.gate.command import run_gate as main
from tests.gate.repo import LEAK, ROOT, Repo, Scanned, codes_in, hook_repo


@pytest.fixture
def origin(repo: Scanned, tmp_path: Path) -> Repo:
    """A repository that holds the gate and its CI step; the index and the key are in the environment."""
    return hook_repo(tmp_path / "origin")


def cloned(origin: Repo, place: Path, *args: str) -> Repo:
    subprocess.run(
        ["git", "clone", "-q", *args, origin.place.as_uri(), str(place)], check=True, capture_output=True
    )
    return Repo(place)


def step(repo: Scanned, **env: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "PYTHON": sys.executable, **env}
    line = [str(repo.place / ".ci" / "gate")]
    return subprocess.run(line, env=env, capture_output=True, text=True, check=False, cwd=repo.place.parent)


def test_the_step_finds_what_a_branch_added_and_removed_again(origin: Repo, tmp_path: Path) -> None:
    branch = cloned(origin, tmp_path / "clone")
    branch.commit(notes=LEAK)
    branch.git("rm", "-q", "notes")
    branch.commit("Remove it")
    branch.commit("Go on", other="harmless")
    done = step(branch)
    assert done.returncode == 4
    assert "notes:1: RBG301" in done.stdout


def test_the_step_takes_the_base_that_ci_names_or_the_reviewed_commit_or_the_last_commit(
    origin: Repo,
) -> None:
    first = origin.git("rev-parse", "HEAD")
    origin.commit(f"Mend\n\n{LEAK}")
    last = origin.commit(other="harmless")
    for base, reviewed, code in (("0" * 40, first, 4), (first, "", 4), (last, "", 0), ("1" * 40, "", 2)):
        assert step(origin, GATE_BASE=base, GATE_REVIEWED=reviewed).returncode == code, base


@pytest.mark.parametrize("depth", [1, 2])
def test_the_step_works_in_a_shallow_clone_and_says_what_it_could_not_scan(
    origin: Repo, tmp_path: Path, depth: int
) -> None:
    origin.commit(one="harmless")
    origin.commit(two="harmless")
    shallow = cloned(origin, tmp_path / "shallow", "--depth", str(depth))
    done = step(shallow)
    assert done.returncode == 0, done.stderr
    assert ("only the tree" if depth == 1 else "only the last") in done.stderr
    shallow.commit(f"Mend\n\n{LEAK}")
    assert step(shallow).returncode == 4


def test_the_step_scans_the_tree_of_an_archive_without_git(origin: Repo) -> None:
    shutil.rmtree(origin.place / ".git")
    done = step(origin)
    assert done.returncode == 0, done.stderr
    assert "a copy" in done.stderr
    (origin.place / "notes").write_text(LEAK)
    done = step(origin)
    assert done.returncode == 4
    assert "notes:1: RBG301" in done.stdout


def test_ci_runs_the_step_first() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert lines.index(".ci/gate") < lines.index("make check")


# The doctor.

GATE = f"exec {sys.executable} {ROOT}/robustify/gate/hook.py"
# The message hook puts unstaged changes aside, as pre-commit does.
RUNS = {"pre-commit": f"{GATE} --staged", "pre-merge-commit": f"{GATE} --staged",
        "commit-msg": f'git checkout -q -- .; {GATE} --commit-msg "$1"',
        "pre-push": f'{GATE} --pushed "$1"'}  # fmt: skip


def off(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the code of each part that is off; the exit code says whether any is."""
    capsys.readouterr()
    code = main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    parts = (line.removeprefix("OFF  ").split(": ", 1) for line in lines if line.startswith("OFF"))
    found = {name: codes_in(told)[0] for name, told in parts}
    assert code == (4 if found else 0)
    return found


def install(repo: Scanned, stage: str, script: str, folder: str = ".git/hooks") -> None:
    repo.write(f"{folder}/{stage}", f"#!/bin/sh\n{script}\n").chmod(0o755)


def test_each_hook_is_run_on_a_canary(repo: Scanned, capsys: pytest.CaptureFixture[str]) -> None:
    before = repo.git("rev-parse", "HEAD")
    assert set(off(capsys)) == {f"{stage} hook" for stage in HOOKS}
    for stage, script in RUNS.items():
        install(repo, stage, script)
    assert off(capsys) == {}
    (repo.place / "empty").mkdir()
    (repo.place / ".git/hooks/pre-push").chmod(0o644)
    os.chmod(os.environ[FILE_VARIABLE], 0o644)
    repo.write(NAME, "{}")
    found = off(capsys)
    assert found.pop("pre-push hook") == "hook-not-executable"
    assert set(found) > {"fingerprints", "pre-commit hook"}
    assert (repo.git("rev-parse", "HEAD"), repo.git("status", "--short")) == (before, f"?? {NAME}")
    os.chdir(repo.place.parent)
    assert set(off(capsys)) == {"fingerprints", "repository"}
    assert main(["doctor", "--json"]) == 4
    tree = json.loads(capsys.readouterr().out)
    assert (tree["on"], [(part["part"], part["on"]) for part in tree["parts"]]) == (
        False, [("fingerprints", False), ("repository", False)]
    )  # fmt: skip
    assert [part["code"] for part in tree["parts"]] == ["no-fingerprints", "no-work-tree"]
    os.chdir(Repo(repo.place / "empty").place)
    assert set(off(capsys)) == {"fingerprints", *(f"{stage} hook" for stage in HOOKS)}


@pytest.mark.parametrize(
    ("script", "code"),
    [("# runs robustify gate --staged\ntrue", "hook-passes-canary"), ("exit 3", "hook-refuses-all"),
     (f"unset ROBUSTIFY_GATE_INDEX\n{GATE} --staged", "hook-misses-registered-text"),
     ("grep -q bowline robustify-canary.md && exit 5 || exit 0", "hook-without-gate"),
     (f"{GATE[5:]} --staged || true", "hook-passes-canary")],
)  # fmt: skip
def test_a_hook_that_only_looks_like_the_gate_s_is_off(
    repo: Scanned, script: str, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.git("config", "core.hooksPath", "mine")
    install(repo, "pre-commit", script, "mine")
    assert off(capsys)["pre-commit hook"] == code
