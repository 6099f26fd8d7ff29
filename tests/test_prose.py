from pathlib import Path

import pytest

from tests.support.cases import cases
from tools import prose


@pytest.mark.parametrize(("text", "fault"), cases("prose", "docstrings"))
def test_docstrings_are_checked(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "a.py"
    file.write_text(text)
    found = [message for _, message in prose.docstring_faults(file)]
    assert len(found) == bool(fault)
    assert all(message.startswith(fault) for message in found)


@pytest.mark.parametrize(("text", "lines"), cases("prose", "pages"))
def test_pages_are_checked(tmp_path: Path, text: str, lines: list[int]) -> None:
    page = tmp_path / "a.md"
    page.write_text(text)
    assert [line for line, _ in prose.page_faults(page)] == lines
