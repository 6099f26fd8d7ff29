"""The mock restricted set, prepared in a folder of its own with the environment that points to it."""

import json
from pathlib import Path
from typing import Any

import pytest

from robustify.pipeline.config import Config
from robustify.restricted import access
from tests.restricted.world import World
from tests.support.restricted_set import ADAPTER, prepared


@pytest.fixture
def mock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A folder in which everything for a restricted run of the module's `N` items is there."""
    for name in ("ROBUSTIFY_GATE_KEY_FILE", "ROBUSTIFY_GATE_KEY", "ROBUSTIFY_GATE_INDEX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in prepared(tmp_path, request.module.N).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def manifest_of(mock: Path) -> Path:
    return mock / "adapters" / ADAPTER / "manifest.yaml"


def items_of(mock: Path) -> Path:
    return mock / "data" / "mock" / "items.jsonl"


def told(mock: Path) -> dict[str, Any]:
    """What the manifest says."""
    return json.loads(manifest_of(mock).read_text())


def edit(mock: Path, **changes: object) -> None:
    """Change members of the manifest; None takes one out. Nobody has accepted the new one."""
    tree = {name: value for name, value in {**told(mock), **changes}.items() if value is not None}
    manifest_of(mock).write_text(json.dumps(tree))


def authorised(config: Config, folder: Path | None) -> access.Access | None:
    """As the pipeline asks for it."""
    public = config.sensitivity == "public"
    return access.authorised(config.name, config.adapter, folder, public=public)


@pytest.fixture
def world(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> World:
    """A restricted set, and a work tree in which commands are called."""
    return World(tmp_path, capfd, monkeypatch)
