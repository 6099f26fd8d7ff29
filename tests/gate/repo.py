"""Keys, registered sets, and a repository in a temporary folder for the gate's tests; what a scan finds in them."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from robustify.base.key_file import FILE_VARIABLE, Key
from robustify.gate.check import FORMAT, GateFinding, examine
from robustify.gate.command import INDEX_VARIABLE
from robustify.gate.command import run_gate as main
from robustify.gate.fingerprints import Fingerprints, Index, build_index, write_index
from tests.gate.corpus import Made, made
from tests.gate.layouts import LAYOUTS

ROOT = Path(__file__).parents[2]
BASE = ("__init__", "errors", "files", "folded_words", "git", "key_file", "texts")
"""The modules of the base that the gate stands on."""


# Keys and registered sets: fixed, so that a failure repeats.


def key(name: str) -> Key:
    return Key.of(hashlib.sha256(f"a test key, {name}".encode()).digest())


KEY = key("one")


def key_file(folder: Path, key: Key = KEY) -> Path:
    place = folder / f"{key.id}.key"
    place.write_text(key.as_text())
    place.chmod(0o600)
    return place


def opened(sets: Mapping[str, Sequence[Sequence[str]]], key: Key = KEY) -> Fingerprints:
    return Fingerprints(build_index(sets, key, library=False), key)


@cache
def mock_items(n: int = 200) -> list[Made]:
    """The mock restricted set: made up, harmless."""
    return made(n, 2026)


@cache
def mock_index(n: int = 200) -> Index:
    return build_index({"mock": [item.texts for item in mock_items(n)]}, KEY, library=False)


@cache
def mock_prints(n: int = 200) -> Fingerprints:
    return Fingerprints(mock_index(n), KEY)


def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the index of the mock set and its key into the environment."""
    write_index(tmp_path / "mock.idx", mock_index(), KEY)
    monkeypatch.setenv(FILE_VARIABLE, str(key_file(tmp_path)))
    monkeypatch.setenv(INDEX_VARIABLE, str(tmp_path / "mock.idx"))


def scan(data: bytes, prints: Fingerprints | None = None, keys: Sequence[Key] = ()) -> list[GateFinding]:
    """What is found in a content without any policy."""
    return examine(data, prints, keys).not_allowed()


def rules_of(content: str | bytes, prints: Fingerprints | None = None) -> set[str]:
    """The rules that a content breaks."""
    data = content.encode() if isinstance(content, str) else content
    return {finding.rule.id for finding in scan(data, prints)}


def codes_in(text: str) -> list[str]:
    """Return the codes at the ends of lines that the gate printed."""
    return re.findall(r" \[([a-z0-9-]+)\]$", text, re.MULTILINE)


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
        for name in [name for name in os.environ if name.startswith(("GIT_", "ROBUSTIFY_", "PRE_COMMIT_"))]:
            monkeypatch.delenv(name)
        monkeypatch.chdir(place)
        registered(tmp_path, monkeypatch)
        super().__init__(place)
        self._capsys = capsys
        self.commit("Start", README="A pond with two boats.\n")

    def rules(self, *args: str) -> tuple[int, set[tuple[str, str]]]:
        """The exit code of the gate, and paths with rules."""
        code = main(list(args))
        lines = re.findall(r"(.*):\d+: (RBG\d+) ", self._capsys.readouterr().out)
        return code, set(lines)


def policy(*allow: dict[str, Any]) -> str:
    return json.dumps({"format": FORMAT, "allow": allow})


def entry(path: str, content: str, **other: Any) -> dict[str, Any]:
    """Return a row of a policy that allows what is found in a content."""
    found = scan(content.encode())
    row = {"path": path, "findings": sorted({digest for one in found for digest in one.digests})}
    expires = (date.today() + timedelta(days=30)).isoformat()
    return row | {"expires": expires, "reason": "made up", "by": "a test"} | other


def hook_repo(place: Path) -> Repo:
    """A repository of the gate alone, with its hooks and its CI step, as another repository would name it."""
    place.mkdir()
    held = Repo(place)
    for name in (
        ".pre-commit-hooks.yaml",
        ".ci/gate",
        "robustify/__init__.py",
        "robustify/base/lexicon.json",
        *(f"robustify/base/{name}.py" for name in BASE),
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place / name)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "robustify" / "gate", place / "robustify" / "gate", ignore=ignored)
    held.commit("The gate")
    return held
