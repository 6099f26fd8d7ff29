"""The short form of `make torture`: every kind of input, changed at random; exit codes, tracebacks, time and memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.results import ROOT
from bench.torture import trial
from bench.torture.__main__ import SHORT
from bench.torture.seeds import Seed, seeds
from bench.torture.trial import CODES, SURROUNDINGS, surrounded

pytestmark = pytest.mark.slow


def alone(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Seed, ...]]:
    place = tmp_path_factory.mktemp("torture") / "seeds"
    return place, seeds(place, models=False)


def test_every_change_ends_in_a_documented_way(home: tuple[Path, tuple[Seed, ...]]) -> None:
    # In a process of its own: what other tests loaded into this one does not survive a fork.
    done = alone("-m", "bench.torture", "--short")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == SHORT
    assert len(home[1]) > max(SHORT.values())


def test_odd_surroundings_end_in_a_documented_way(
    home: tuple[Path, tuple[Seed, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "COMMANDS", ["validate items.jsonl"])
    n, faults = surrounded(home[0], tmp_path)
    assert (n, faults) == (len(SURROUNDINGS), [])
    assert 1 not in CODES
