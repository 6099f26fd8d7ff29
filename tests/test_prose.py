from pathlib import Path

import pytest

from tools import prose


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('def f():\n    """The rows of a file."""\n', "begins with 'The'"),
        ('def f():\n    """Return a row, or None where there is none."""\n', "has 'None where'"),
        ('class A:\n    """As `B`, but faster."""\n', "refers to another docstring"),
        ('def f():\n    """Return the places where a word occurs."""\n', ""),
        ('class A:\n    @property\n    def n(self):\n        """Number of items."""\n', ""),
    ],
)
def test_docstrings_are_checked(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "a.py"
    file.write_text(text)
    found = [message for _, message in prose.docstring_faults(file)]
    assert len(found) == bool(fault)
    assert all(message.startswith(fault) for message in found)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one " * 41 + ".", [1]),
        ("one " * 39 + "end. " + "two " * 39 + "end.", []),
        ("# Title\n\none " + "\n".join(["one two three four"] * 12) + "\n", [3]),
        ("```text\n" + "one " * 60 + "\n```\n", []),
        ("| " + "one " * 60 + "|\n", []),
        ("`" + "one " * 60 + "` is code.", []),
    ],
)
def test_pages_are_checked(tmp_path: Path, text: str, lines: list[int]) -> None:
    page = tmp_path / "a.md"
    page.write_text(text)
    assert [line for line, _ in prose.page_faults(page)] == lines
