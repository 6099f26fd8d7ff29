"""Logs of the corpus in tests/data/cases/logs: the picks, views, faults, and notes that each must give."""

from pathlib import Path

import pytest

from tests.support.log_cases import Case, log_cases, missed

CASES = [case for name in ("logs/pick_tables", "logs/harnesses", "logs/matching") for case in log_cases(name)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_log_of_the_corpus_is_read_as_its_case_says(tmp_path: Path, case: Case) -> None:
    assert missed(case, tmp_path) == {}
