from pathlib import Path

import pytest

from tests.gate.repo import Scanned


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Scanned:
    return Scanned(tmp_path, monkeypatch, capsys)
