"""`robustify gate doctor`: which installed hook refuses a canary, what else is on, what would pass."""

import json
import os
import sys

import pytest

from robustify.gate.command import INDEX_VARIABLE, main
from robustify.gate.doctor import HOOKS
from robustify.gate.key_file import FILE_VARIABLE
from tests.gate.repo import ROOT, Scanned

GATE = f"exec {sys.executable} {ROOT}/robustify/gate/hook.py"
RUNS = {
    "pre-commit": f"{GATE} --staged",
    "pre-merge-commit": f"{GATE} --staged",
    "commit-msg": f'{GATE} --commit-msg "$1"',
    "pre-push": f"{GATE} --pushed --policy-from head",
}


def parts(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return what is said of each part that is off; the exit code says whether any is."""
    capsys.readouterr()
    code = main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    off = {part["name"]: part["says"] for part in found["parts"] if not part["on"]}
    assert (code, found["off"]) == (4 if off else 0, len(off))
    return off


def install(repo: Scanned, stage: str, script: str, folder: str = ".git/hooks") -> None:
    repo.write(f"{folder}/{stage}", f"#!/bin/sh\n{script}\n").chmod(0o755)


def test_each_hook_is_run_on_a_canary(repo: Scanned, capsys: pytest.CaptureFixture[str]) -> None:
    before = repo.git("rev-parse", "HEAD")
    assert set(parts(capsys)) == {f"{stage} hook" for stage in HOOKS}
    for stage, script in RUNS.items():
        install(repo, stage, script)
    assert parts(capsys) == {}
    (repo.place / ".git/hooks/pre-push").chmod(0o644)
    assert parts(capsys) == {"pre-push hook": "is not executable: git leaves it out"}
    assert (repo.git("rev-parse", "HEAD"), repo.git("status", "--short")) == (before, "")


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("# runs robustify gate --staged\ntrue", "ran and let the canary pass"),
        ("exit 3", "ended with 3 on a harmless change too"),
        (
            "grep -q bowline robustify-canary.md && exit 5 || exit 0",
            "ended with 5, not by a finding of the gate",
        ),
        (f"{GATE[5:]} --staged || true", "ran and let the canary pass"),
    ],
)
def test_a_hook_that_only_looks_like_the_gate_s_is_off(
    repo: Scanned, script: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.git("config", "core.hooksPath", "mine")
    install(repo, "pre-commit", script, "mine")
    assert parts(capsys)["pre-commit hook"].startswith(says)


def test_a_layer_that_cannot_run_is_off(
    repo: Scanned, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.chmod(os.environ[FILE_VARIABLE], 0o644)
    assert "fingerprints" in parts(capsys)
    os.chmod(os.environ[FILE_VARIABLE], 0o600)
    repo.write(".robustify-gate.json", "{}")
    assert "policy" in parts(capsys)
    monkeypatch.delenv(INDEX_VARIABLE)
    assert main(["doctor"]) == 4
    assert "OFF  fingerprints: did not run: no index" in capsys.readouterr().out
    monkeypatch.chdir(repo.place.parent)
    assert set(parts(capsys)) == {"fingerprints", "repository"}
