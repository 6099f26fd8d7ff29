"""What servers do wrong, one row each, and what must come out: the code, the exit code, the requests, and what is recorded.

`tests/data/cases/servers.yaml` holds the rows. Each is a report of a real server.
"""

from pathlib import Path

import pytest

pytest.importorskip("openai", reason="the openai extra is not installed")

from robustify.models.engines.openai import engine
from tests.support.server_cases import CASES, outcome, written


@pytest.mark.parametrize("name", CASES["rows"])
def test_what_a_server_does_wrong_has_one_outcome(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr(
        engine, "_SECONDS", 1e9
    )  # Probes come after a number of jobs, however slow the machine is.
    assert outcome(name, tmp_path) == CASES["rows"][name]["gives"]


@pytest.mark.parametrize("name", CASES["writes"])
def test_free_replies_are_checked_like_letters(name: str) -> None:
    gives = {key: value for key, value in CASES["writes"][name]["gives"].items() if key != "shown"}
    assert written(name) == gives
