"""The mock restricted set, prepared in a folder of its own with the environment that points to it."""

from pathlib import Path

import pytest

from robustify.pipeline.config import Config
from robustify.restricted import access
from tests.restricted.world import World
from tests.support.restricted_set import prepared


@pytest.fixture
def mock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A folder in which everything for a restricted run of the module's `N` items is there."""
    for name in ("ROBUSTIFY_GATE_KEY_FILE", "ROBUSTIFY_GATE_KEY", "ROBUSTIFY_GATE_INDEX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in prepared(tmp_path, request.module.N).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def authorised(config: Config, folder: Path | None) -> access.Access | None:
    """As the pipeline asks for it."""
    public = config.sensitivity == "public"
    return access.authorised(config.name, config.adapter, folder, public=public)


@pytest.fixture
def world(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> World:
    """A restricted set, and a work tree in which commands are called."""
    return World(tmp_path, capfd, monkeypatch)
