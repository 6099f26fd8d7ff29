"""Made-up items that every test may use, and the paths of real data where there are any."""

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from robustify import cli
from robustify.items.item import Item
from tests.support import shared_data

# A machine shared with others is slow at times, which is no failure of a property.
settings.register_profile("shared machine", deadline=None, max_examples=50)
settings.load_profile("shared machine")


def pytest_collection_finish() -> None:
    """What was imported stays: the collections of garbage that the tests bring about need not look through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data() -> Path:
    found = shared_data()
    if found is None:
        pytest.skip("real benchmark files are absent: no ../shared/data and no ROBUSTIFY_DATA")
    return found


@pytest.fixture(scope="session", autouse=True)
def _no_encoder_for_imports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An import asks the encoder that is on this machine, if there is one; tests must not differ by it."""
    empty = tmp_path_factory.mktemp("no-models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("robustify.pipeline.from_logs.cache_folder", lambda _: empty)
        yield


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run of made-up items, which no test changes; its folder lies beside what it was imported from."""
    from tests.support import exported_run  # which takes a second

    return exported_run.made_run(tmp_path_factory.mktemp("made"))


@pytest.fixture
def restricted(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the mock restricted set was audited, with what points to it in the environment."""
    from tests.support import restricted_run  # which takes a second

    base = restricted_run.once(tmp_path_factory)
    for name, value in restricted_run.environment(base).items():
        monkeypatch.setenv(name, value)
    return base


class Ended(NamedTuple):
    """How a command ended: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str


@pytest.fixture
def robustify(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Ended]:
    """Run a command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROBUSTIFY_CACHE", str(tmp_path / "cache"))

    def call(*args: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["robustify", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return Ended(int(ended.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def toys() -> list[Item]:
    """Eight harmless items over two topics; the key of t0..t3 says so in its own text."""
    colours = ["red", "green", "blue", "grey"]
    told = [
        Item(
            f"t{i}",
            f"Which box number {i} is meant?",
            tuple(f"{c} right" if j == i % 4 else c for j, c in enumerate(colours)),
            i % 4,
            "boxes",
        )
        for i in range(4)
    ]
    plain = [
        Item(f"t{i}", f"Which cup number {i} is meant?", tuple(colours), (i + 1) % 4, "cups")
        for i in range(4, 8)
    ]
    return told + plain
