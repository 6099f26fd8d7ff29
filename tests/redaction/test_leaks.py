"""The full leak test on fewer items: also that it fails when a control is taken away. `make leak-test` takes 200."""

from pathlib import Path

import pytest

from tools.leak.proof import passed, proof

pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")


@pytest.mark.proof
def test_nothing_leaks_and_the_test_would_know(tmp_path: Path) -> None:
    result = proof(tmp_path / "world", 40)
    assert result["hits"] == []
    assert result["planted_leaks_missed"] == []
    assert result["controls_not_missed"] == []
    assert passed(result), result
