"""Files and logs of real people, rebuilt from public bug reports with made-up texts: each is read right, or refused."""

from pathlib import Path

import pytest

from tests.support.field_case import Outcome, misses, unmet

CASES = sorted(file.parent for file in (Path(__file__).parents[1] / "data" / "field").glob("*/case.json"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_from_the_field_holds(case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert misses(case, tmp_path) == []


def test_a_check_that_nothing_meets_is_unmet(tmp_path: Path) -> None:
    nothing = Outcome([1], "", tmp_path)
    wants = {
        "says": ["x"],
        "items": 1,
        "flagged": 1,
        "keys": {"a": "b"},
        "choices": {"": 4},
        "rule_above": 0.9,
    }
    assert len(list(unmet({**wants, "answered": {"m": 1}}, nothing))) == 8
