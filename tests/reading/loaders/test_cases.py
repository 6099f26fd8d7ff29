"""Every case of the corpus is read as it says, or refused with its code. A map that the refusal advises works."""

from pathlib import Path

import pytest

from tests.support.reader_case import FOLDER, Case, cases, misses

FILES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "commands")
CASES = [pytest.param(case, id=f"{name}: {case['name']}") for name in FILES for case in cases(name)]


@pytest.mark.parametrize("case", CASES)
def test_a_file_is_read_or_refused_as_its_case_says(case: Case, tmp_path: Path) -> None:
    assert misses(case, tmp_path) == []
