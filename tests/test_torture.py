"""The short form of `make torture`: every kind of input, changed at random; exit codes, tracebacks, time and memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.torture.runs import REPOSITORY
from bench.torture.seeds import Seed, seeds
from bench.torture.surroundings import SURROUNDINGS, surrounded
from bench.torture.trial import CODES, changed

pytestmark = pytest.mark.slow


BROKEN = """\
import sys
from pathlib import Path
from bench.torture import trial
from bench.torture.seeds import Seed
from robustify import cli
trial.MEMORY = 200 << 20
home, code = sys.argv[-2:]
cli.main = lambda: exec(code)
print(trial.tried(Path(home), Seed("a", "items.jsonl", "jsonl", ("validate", "items.jsonl")), "bytes", 0))
"""


def alone(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *words], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Seed, ...]]:
    place = tmp_path_factory.mktemp("torture") / "seeds"
    return place, seeds(place, models=False)


def test_every_change_ends_in_a_documented_way(home: tuple[Path, tuple[Seed, ...]]) -> None:
    # In a process of its own: what other tests loaded into this one does not survive a fork.
    done = alone("-m", "bench.torture", "--short", "--workers", "1")
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["bytes"] >= len(home[1])
    assert counts["structured"] >= 2 * len(home[1])


def test_a_draw_is_the_same_again_and_another_draw_is_not(home: tuple[Path, tuple[Seed, ...]]) -> None:
    place, found = home
    for kind in ("bytes", "structured"):
        first = [changed(place, found[0], kind, draw) for draw in range(8)]
        assert first == [changed(place, found[0], kind, draw) for draw in range(8)]
        assert len(set(first)) > 4


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        ("raise SystemExit(1)", True),
        ("raise SystemExit(8)", True),
        ("1 / 0", True),
        ("raise SystemExit(3)", True),
        ("import os; os.write(2, b'why'); raise SystemExit(3)", False),
        ("x = ' ' * (300 << 20)", True),
        ("import os; os.kill(os.getpid(), 9)", True),
        ("", False),
    ],
)
def test_a_command_that_breaks_a_promise_is_seen(
    home: tuple[Path, tuple[Seed, ...]], code: str, broken: bool
) -> None:
    done = alone("-c", BROKEN, str(home[0]), code)
    assert done.returncode == 0, done.stderr
    assert (done.stdout.strip() != "None") == broken


def test_odd_surroundings_end_in_a_documented_way(
    home: tuple[Path, tuple[Seed, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.torture import surroundings

    monkeypatch.setattr(surroundings, "COMMANDS", {"validate": ("validate", "items.jsonl")})
    n, faults = surrounded(home[0], tmp_path)
    assert (n, faults) == (len(SURROUNDINGS), [])
    assert 1 not in CODES
