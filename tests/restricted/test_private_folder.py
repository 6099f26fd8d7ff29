"""Which folders are no private place for what belongs to a restricted set: the whole list, each by name."""

import os
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from robustify.restricted.confinement import require_private
from tests.support.cases import contents, refuses

PUBLIC = "folder-not-ignored"
TABLES = contents("private_folders")
CASES = {
    **TABLES["folders"],
    **{name: {"inside": name, "code": code} for code, names in TABLES["inside"].items() for name in names},
}


def made(case: dict[str, Any], folder: Path) -> Path:
    """Return the folder of a case."""
    match case:
        case {"ignored": patterns, **more}:
            repo = folder / "repo"
            subprocess.run(["git", "init", "-q", str(repo)], check=True)
            (repo / ".gitignore").write_text("".join(f"{pattern}\n" for pattern in patterns))
            (folder / "link").symlink_to(repo)
            if "followed" in more:
                (repo / "run").mkdir(mode=0o700)
                (repo / "run" / "notes").write_text("of another day\n")
                subprocess.run(["git", "-C", str(repo), "add", "-f", "run/notes"], check=True)
            return folder / more.get("at", "repo/run")
        case {"below": mode, **more}:
            for name in ("mine", "above"):
                (folder / name).mkdir()
            (folder / "above").chmod(int(mode, 8))
            (folder / "above" / "link").symlink_to(folder / "mine")
            return folder / "above" / ("link" if "linked" in more else "lab") / "run"
        case {"inside": name}:
            return folder / name / "lab" / "run"
        case {"bare": _}:
            subprocess.run(["git", "init", "-q", "--bare", str(folder / "store")], check=True)
            return folder / "store" / "lab" / "run"
    (folder / "run").write_text("of another day\n")
    return folder / "run"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_which_folders_are_private(tmp_path: Path, case: dict[str, Any]) -> None:
    place = made(case, tmp_path)
    with refuses(case["code"]) if case["code"] else nullcontext():
        require_private(place, ("run.json", "kept.jsonl"))


def test_the_file_that_will_be_written_is_asked_about(tmp_path: Path) -> None:
    place = made({"ignored": ["run/*", "!*.items"]}, tmp_path)
    with refuses(PUBLIC):
        require_private(place, ["copy.items"])
    require_private(place, ["copy.txt"])


def test_git_is_asked_without_the_programs_that_a_repository_names_and_not_at_all_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, mark = made({"ignored": []}, tmp_path), tmp_path / "ran"
    for name in ("core.fsmonitor", "core.hooksPath", "core.pager", "core.sshCommand"):
        subprocess.run(["git", "-C", str(place.parent), "config", name, f"touch {mark};"], check=True)
    with refuses(PUBLIC):
        require_private(place)
    assert not mark.exists()
    (place.parent / ".gitignore").write_text("run/\n")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with refuses(PUBLIC):
        require_private(place)


def test_somebody_else_s_folder_is_not_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    tmp_path.chmod(0o700)
    with refuses("folder-of-another-user"):
        require_private(tmp_path)
