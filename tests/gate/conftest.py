from pathlib import Path

import pytest

from robustify.base.key_file import FILE_VARIABLE, VARIABLE
from robustify.gate.command import INDEX_VARIABLE
from tests.gate.repo import Scanned


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Scanned:
    return Scanned(tmp_path, monkeypatch, capsys)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and no variable of the gate."""
    for name in (INDEX_VARIABLE, FILE_VARIABLE, VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
