"""The threat model and the page on reliability name tests, and each is there; every abuse case has one."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.gate.repo import ROOT

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
