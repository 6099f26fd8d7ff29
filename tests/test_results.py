"""Programs for this house: files of results are written part by part, and prose is checked."""

import json
import sys
from pathlib import Path

import pytest

from bench.results import left_out, measure, measured, publish, read
from robustify.base.errors import DataError
from tests.support.cases import cases
from tools import prose


def test_a_part_is_written_at_once_and_the_others_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "found.json"
    publish(path, {"kept": 1 / 3, "again": [0.0], "machine": "old"})
    assert read(path)["kept"] == 0.333333
    assert read(tmp_path / "absent.json") == {}
    parts = {"again": lambda: {"n": 2}, "fails": lambda: {}["absent"]}
    with pytest.raises(KeyError):
        measure(path, parts, [], lambda: {"machine": "new"})
    assert read(path) == {"kept": 0.333333, "again": {"n": 2}, "machine": "new"}
    assert measure(path, parts, ["again", "other"]) == 2
    assert "unknown: other; expected some of again, fails" in capsys.readouterr().err
    assert measure(None, parts, ["again"]) == 0
    assert json.loads(capsys.readouterr().out) == {"again": {"n": 2}}


def test_a_measured_command_has_its_exit_code_and_is_looked_at() -> None:
    seen: list[int] = []
    took = measured([sys.executable, "-c", "import time; time.sleep(0.3); raise SystemExit(7)"], seen.append)
    assert took["exit_code"] == 7
    assert took["seconds"] >= 0.3
    assert took["peak_mib"] > 0
    assert len(set(seen)) == 1


def test_a_part_without_its_files_is_left_out_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with left_out("real"):
        raise DataError("no set.jsonl")
    assert capsys.readouterr().err == "real: left out: no set.jsonl\n"


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
