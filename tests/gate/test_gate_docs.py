"""The pages about the gate: generated blocks say what was measured and missed; every test that a page names is there."""

import ast
import copy
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from robustify.gate.policy import RULES
from tests.gate.repo import ROOT
from tools.docs import gate as docs_gate
from tools.docs import measured as docs_measured

MEASURED = ROOT / "results" / "bench" / "gate.json"


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    if not MEASURED.is_file():
        pytest.skip("results/bench/gate.json is absent: python -m bench.gate writes it")
    found: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found


def printed(monkeypatch: pytest.MonkeyPatch, held: dict[str, Any] | None) -> str:
    monkeypatch.setattr(docs_measured, "read", lambda _: held)
    return docs_gate.bench_gate()


def test_every_rule_has_a_row() -> None:
    assert docs_gate.gate_rules().count("\n") == len(RULES) + 2


def test_an_absent_measurement_is_said_to_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Not measured" in printed(monkeypatch, None)


def test_a_goal_that_is_missed_is_printed_as_missed(
    monkeypatch: pytest.MonkeyPatch, measured: dict[str, Any]
) -> None:
    worse = copy.deepcopy(measured)
    worse["recall"]["edits"]["substituted_20"]["stem"]["value"] = 0.5
    worse["recall"]["disguises"]["hex"]["item"]["value"] = 0.9
    worse["speed"]["ours"] |= {"median": 1.4, "processor_median": 1.3}
    told = printed(monkeypatch, worse)
    assert "| 20 % of words changed |" in told
    assert told.count("**no**") == 1 + printed(monkeypatch, measured).count("**no**")
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


PAGE = ROOT / "docs" / "threat_model.md"
NAMED = re.compile(r"`((?:leak/)?test_\w+\.py)::(test_\w+)`")
CASE = re.compile(r"^- \*\*(T\d+)\. ", re.MULTILINE)


@cache
def functions(name: str) -> frozenset[str]:
    """The tests of every file of that name; files of one name may stand in several folders."""
    trees = [ast.parse(place.read_text(encoding="utf-8")) for place in (ROOT / "tests").rglob(name)]
    return frozenset(node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("page", "least"), [(PAGE, 60), (PAGE.parent / "reliability.md", 20)])
def test_every_test_that_a_page_names_is_there(page: Path, least: int) -> None:
    text = page.read_text(encoding="utf-8")
    named = NAMED.findall(text)
    assert len(named) > least
    assert [f"{name}::{test}" for name, test in named if test not in functions(name)] == []
    assert not re.search(r"::test_\w+(?!\w|`)", text), "a name that is not read"


def test_every_abuse_case_has_a_test_that_holds_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    cases = [(match[1], match.start()) for match in CASE.finditer(text)]
    assert sorted(name for name, _ in cases) == sorted(f"T{n}" for n in range(1, 25))
    ends = [at for _, at in cases[1:]] + [text.index("## What remains")]
    for (name, at), end in zip(cases, ends, strict=True):
        assert NAMED.search(text, at, end), name
