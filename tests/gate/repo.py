"""A repository in a temporary folder, for the gate's tests, and what a scan of it finds."""

import hashlib
import json
import os
import shutil
import subprocess
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from robustify.gate.command import INDEX_VARIABLE, main
from robustify.gate.fingerprints import write_index
from robustify.gate.key_file import FILE_VARIABLE
from robustify.gate.policy import FORMAT
from tests.gate.corpus import Made
from tests.gate.layouts import LAYOUTS
from tests.gate.sets import KEY, key_file, mock_items, mock_tables

ROOT = Path(__file__).parents[2]
LEAK = mock_items()[0].stem
HARMLESS = LAYOUTS["jsonl"](
    [
        Made("Which soup is served cold?", ("borscht in June", "stew", "hot chocolate"), 0),
        Made("What does a conductor hold?", ("a spoon", "a baton", "an umbrella"), 1),
        Made("Which of these is a knot?", ("a bowline", "a saucepan", "a trombone"), 0),
    ],
    "letter",
)
"""Items that are in no registered set."""


class Repo:
    """A repository in a temporary folder."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Nobody")
        self.git("config", "user.email", "nobody@example.invalid")

    def git(self, *args: str, given: str | None = None) -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", *args], cwd=self.place, capture_output=True, text=True, input=given, env=env, check=True
        )
        return done.stdout.strip()

    def write(self, name: str, content: str | bytes) -> Path:
        place = self.place / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place

    def stage(self, name: str, content: str | bytes) -> None:
        """Write a file and stage all that has changed."""
        self.write(name, content)
        self.git("add", "-A")

    def commit(self, message: str = "Change", **files: str | bytes) -> str:
        for name, content in files.items():
            self.write(name.replace("__", "/"), content)
        self.git("add", "-A")
        self.git("commit", "-q", "--no-verify", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


class Scanned(Repo):
    """A repository with one commit, in which the gate is run; an index of the mock set and its key are in the
    environment, and no variable of ours or git's beside them."""

    def __init__(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        place = tmp_path / "repo"
        place.mkdir()
        for name in [name for name in os.environ if name.startswith(("GIT_", "ROBUSTIFY_"))]:
            monkeypatch.delenv(name)
        monkeypatch.chdir(place)
        registered(tmp_path, monkeypatch)
        super().__init__(place)
        self._capsys = capsys
        self.commit("Start", README="A pond with two boats.\n")

    def found(self, *args: str) -> tuple[int, list[dict[str, Any]]]:
        """The exit code of the gate and its findings."""
        code = main([*args, "--json"])
        out = self._capsys.readouterr().out
        return code, json.loads(out)["findings"] if out else []

    def rules(self, *args: str) -> tuple[int, set[tuple[str, str]]]:
        """The exit code of the gate, and paths with rules."""
        code, findings = self.found(*args)
        return code, {(str(f["path"]), str(f["rule"])) for f in findings}


def policy(*allow: dict[str, str]) -> str:
    return json.dumps({"format": FORMAT, "allow": allow})


def entry(path: str, content: str, **other: str) -> dict[str, str]:
    expires = (date.today() + timedelta(days=30)).isoformat()
    row = {"path": path, "sha256": hashlib.sha256(content.encode()).hexdigest(), "expires": expires}
    return row | {"reason": "made up", "by": "a test"} | other


def hook_repo(place: Path) -> Repo:
    """A repository of the gate alone, with its hooks and its CI step, as another repository would name it."""
    place.mkdir()
    held = Repo(place)
    package = [f"robustify/{name}.py" for name in ("__init__", "errors", "files")]
    for name in (".pre-commit-hooks.yaml", ".ci/gate", *package):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place / name)
    shutil.copytree(
        ROOT / "robustify" / "gate",
        place / "robustify" / "gate",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    held.commit("The gate")
    return held


def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of the mock set and its key in the environment."""
    write_index(tmp_path / "mock.idx", mock_tables(), KEY)
    monkeypatch.setenv(FILE_VARIABLE, str(key_file(tmp_path)))
    monkeypatch.setenv(INDEX_VARIABLE, str(tmp_path / "mock.idx"))
