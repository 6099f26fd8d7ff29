"""Situations rebuilt from public reports of secret scanners and hook frameworks, each a script in an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate.repo import ROOT

FOLDER = Path(__file__).parent / "situations"
SLOW = {"huge_files", "names_line_separators", "binary_kinds", "commit_a"}
"""Scripts that take more than five seconds."""


def run(script: str, place: Path, prepared: Path | None = None) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.executable).with_name("robustify")
    if not program.exists():
        pytest.skip("robustify is not installed")
    env = {**os.environ, "RB": str(program), "PYTHONPATH": str(ROOT), "PREPARED": str(prepared or "")}
    return subprocess.run(["bash", script], cwd=place, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the items, the key and the index, which are the same for all."""
    place = tmp_path_factory.mktemp("prepared")
    done = run(str(FOLDER / "prelude.bash"), place)
    assert done.returncode == 0, done.stdout
    return place / "secret"


SCRIPTS = [
    pytest.param(p.stem, marks=[pytest.mark.slow] * (p.stem in SLOW)) for p in sorted(FOLDER.glob("*.sh"))
]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_situation_holds(name: str, tmp_path: Path, prepared: Path) -> None:
    done = run(str(FOLDER / f"{name}.sh"), tmp_path, prepared)
    last = (done.stdout.splitlines() or [""])[-1]
    assert last == "ok" or last.startswith("ok ("), last + done.stderr
