"""Programs for this house: files of results, prose, and the short form of `make torture`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.results import ROOT, left_out, measure, measured, publish, read
from bench.torture import trial
from bench.torture.__main__ import SHORT
from bench.torture.seeds import Seed, seeds
from bench.torture.trial import CODES, SURROUNDINGS, surrounded
from robustify.base.errors import DataError
from tests.support.cases import cases
from tools import prose


def test_a_part_is_written_at_once_and_the_others_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "found.json"
    publish(path, {"kept": 1 / 3, "again": [0.0], "machine": "old"})
    assert read(path)["kept"] == 0.333333
    assert read(tmp_path / "absent.json") == {}
    parts = {"again": lambda: {"n": 2}, "fails": lambda: {}["absent"]}
    with pytest.raises(KeyError):
        measure(path, parts, [], lambda: {"machine": "new"})
    assert read(path) == {"kept": 0.333333, "again": {"n": 2}, "machine": "new"}
    assert measure(path, parts, ["again", "other"]) == 2
    assert "unknown: other; expected some of again, fails" in capsys.readouterr().err
    assert measure(None, parts, ["again"]) == 0
    assert json.loads(capsys.readouterr().out) == {"again": {"n": 2}}


def test_a_measured_command_has_its_exit_code_and_is_looked_at() -> None:
    seen: list[int] = []
    took = measured([sys.executable, "-c", "import time; time.sleep(0.3); raise SystemExit(7)"], seen.append)
    assert took["exit_code"] == 7
    assert took["seconds"] >= 0.3
    assert took["peak_mib"] > 0
    assert len(set(seen)) == 1


def test_a_part_without_its_files_is_left_out_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with left_out("real"):
        raise DataError("no set.jsonl")
    assert capsys.readouterr().err == "real: left out: no set.jsonl\n"


@pytest.mark.parametrize(("text", "fault"), cases("prose", "docstrings"))
def test_docstrings_are_checked(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "a.py"
    file.write_text(text)
    found = [message for _, message in prose.docstring_faults(file)]
    assert len(found) == bool(fault)
    assert all(message.startswith(fault) for message in found)


@pytest.mark.parametrize(("text", "lines"), cases("prose", "pages"))
def test_pages_are_checked(tmp_path: Path, text: str, lines: list[int]) -> None:
    page = tmp_path / "a.md"
    page.write_text(text)
    assert [line for line, _ in prose.page_faults(page)] == lines


def alone(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Seed, ...]]:
    place = tmp_path_factory.mktemp("torture") / "seeds"
    return place, seeds(place, models=False)


@pytest.mark.slow
def test_every_change_ends_in_a_documented_way(home: tuple[Path, tuple[Seed, ...]]) -> None:
    # In a process of its own: what other tests loaded into this one does not survive a fork.
    done = alone("-m", "bench.torture", "--short")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == SHORT
    assert len(home[1]) > max(SHORT.values())


@pytest.mark.slow
def test_odd_surroundings_end_in_a_documented_way(
    home: tuple[Path, tuple[Seed, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "COMMANDS", ["validate items.jsonl"])
    n, faults = surrounded(home[0], tmp_path)
    assert (n, faults) == (len(SURROUNDINGS), [])
    assert 1 not in CODES
