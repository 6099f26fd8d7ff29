"""The generated blocks about the gate: they print what was measured, and say what was missed."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from robustify.gate.policy import RULES
from tools.docs import gate as docs_gate

MEASURED = docs_gate.MEASURED


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    if not MEASURED.is_file():
        pytest.skip("results/bench/gate.json is absent: python -m bench.gate writes it")
    found: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found


def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: dict[str, Any]) -> str:
    (tmp_path / "gate.json").write_text(json.dumps(held))
    monkeypatch.setattr(docs_gate, "MEASURED", tmp_path / "gate.json")
    return docs_gate.bench_gate()


def test_every_rule_has_a_row() -> None:
    assert docs_gate.gate_rules().count("\n") == len(RULES) + 2


def test_an_absent_measurement_is_said_to_be_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_gate, "MEASURED", tmp_path / "gate.json")
    assert "Not measured" in docs_gate.bench_gate()


def test_a_goal_that_is_missed_is_printed_as_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: dict[str, Any]
) -> None:
    worse = copy.deepcopy(measured)
    worse["recall"]["edits"]["substituted_20"]["stem"]["value"] = 0.5
    worse["recall"]["disguises"]["hex"]["item"]["value"] = 0.9
    worse["speed"]["ours"] |= {"median": 1.4, "processor_median": 1.3}
    told = printed(tmp_path, monkeypatch, worse)
    assert "| 20 % of words changed |" in told
    assert told.count("**no**") == 1 + printed(tmp_path, monkeypatch, measured).count("**no**")
    assert "not all are refused: hex" in told
    assert "**not met**" in told


def test_what_was_measured_reaches_what_was_asked_for(measured: dict[str, Any]) -> None:
    for name, case in measured["recall"]["edits"].items():
        if case["goal"]:
            assert case["item"]["value"] >= case["goal"][0], name
            assert case["stem"]["value"] >= case["goal"][1], name
    for name, case in measured["recall"]["disguises"].items():
        assert case["item"]["value"] == case["stem"]["value"] == 1, name
    packages = measured["false_positives"]["installed_packages"]
    assert packages["files"] >= 1500
    assert packages["fingerprints"]["value"] == 0
    assert packages["structure"]["value"] <= 0.002
    assert measured["layouts"]["5_items"]["value"] >= 29 / 30
    assert measured["arranged"]["choices_reordered"]["value"] == 1
    speed = measured["speed"]
    assert speed["ours"]["processor_median"] <= speed["goal_seconds"]
    assert speed["import"]["processor_median"] <= speed["goal_import_seconds"]
