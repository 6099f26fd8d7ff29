"""One made-up run for all exports."""

from pathlib import Path

import pytest

from robustify.runs.run import Run
from tests.support import restricted_run
from tests.support.exported_run import made_run


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made_run(tmp_path_factory.mktemp("made"))


@pytest.fixture
def restricted(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a restricted run, with its key and approval in the environment."""
    base = restricted_run.once(tmp_path_factory)
    for name, value in restricted_run.environment(base).items():
        monkeypatch.setenv(name, value)
    return base
