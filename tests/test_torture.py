"""The short form of `make torture`: every kind of input, changed at random; exit codes, tracebacks, time and memory."""

from pathlib import Path

import pytest

from bench.torture.__main__ import SHORT, fuzzed
from bench.torture.seeds import Seed, seeds
from bench.torture.surroundings import SURROUNDINGS, surrounded
from bench.torture.trial import CODES, changed, tried

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Seed, ...]]:
    place = tmp_path_factory.mktemp("torture") / "seeds"
    return place, seeds(place, models=False)


def test_every_change_ends_in_a_documented_way(home: tuple[Path, tuple[Seed, ...]]) -> None:
    place, found = home
    counts, faults = fuzzed(place, found, SHORT, workers=1)
    assert faults == []
    assert counts["bytes"] >= len(found)
    assert counts["structured"] >= 2 * len(found)


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
    home: tuple[Path, tuple[Seed, ...]], monkeypatch: pytest.MonkeyPatch, code: str, broken: bool
) -> None:
    from bench.torture import trial
    from robustify import cli

    monkeypatch.setattr(trial, "MEMORY", 200 << 20)
    monkeypatch.setattr(cli, "main", lambda: exec(code))
    fault = tried(home[0], home[1][0], "bytes", 0)
    assert (fault is not None) == broken


def test_odd_surroundings_end_in_a_documented_way(
    home: tuple[Path, tuple[Seed, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.torture import surroundings

    monkeypatch.setattr(surroundings, "COMMANDS", {"validate": ("validate", "items.jsonl")})
    n, faults = surrounded(home[0], tmp_path)
    assert (n, faults) == (len(SURROUNDINGS), [])
    assert 1 not in CODES
