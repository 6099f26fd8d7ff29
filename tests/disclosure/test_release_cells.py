"""Names from files in a public run: no formula in the CSV, no script in the page, and everything read back as it was."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.cells import neutral, original
from robustify.report import render
from robustify.run import Run, write_verdicts
from robustify.screen.consensus import Verdict

FORMULAS = ["=1+1", "+1", "-1", "@x", "\t=1", "\r1", "\n1", "\uff1d1", "'=1", "''=1"]


@given(st.text(alphabet="'=+-@ab\t\r\n\uff1d\uff0b", max_size=8) | st.text())
def test_every_cell_is_read_back_as_it_was(text: str) -> None:
    assert original(neutral(text)) == text


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_is_a_formula(text: str) -> None:
    assert neutral(text).startswith("'")


@pytest.mark.parametrize("text", ["mock-1", "a=b", "it's", "", "'quoted'"])
def test_other_cells_stay_as_they_are(text: str) -> None:
    assert neutral(text) == text


def test_formula_like_ids_and_topics_are_quoted_in_verdicts_csv_and_read_back(tmp_path: Path) -> None:
    # Loaders refuse names with control characters, so none gets here.
    plain = [formula for formula in FORMULAS if formula.isprintable()]
    topics = {f"{formula}#{i}": formula for i, formula in enumerate(plain)}
    path = tmp_path / "verdicts.csv"
    write_verdicts(path, [Verdict(item, "robust", 0, 2, "0 of 2") for item in topics], {}, topics)
    with path.open(encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell[:1] in tuple("=+-@\t\r\n\uff1d")]
    assert Run(tmp_path, {"files": {"robust.jsonl": ""}}).topics == topics


def test_a_hostile_topic_is_words_in_a_public_report() -> None:
    names = ["<script>alert(1)</script>", "\x1b]0;x\x07", "a\u202eb", "=cmd"]
    rows = {
        name: {"before": 50, "after": 30, "retention": {"value": 0.6, "n": 50, "ci": [0.5, 0.7]}}
        for name in names
    }
    files = render({"topics": rows, "splits": {"all": 200, "robust": 120}}, {})
    for name, text in files.items():
        assert not any(c in text for c in "\x1b\x07\u202e"), name
        if name.endswith((".html", ".svg")):
            assert "<script" not in text, name
    assert "\\u202e" in files["report.html"]
