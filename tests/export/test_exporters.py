"""The contract of exporters: a new one is one value and one entry, and its command follows."""

import json
from pathlib import Path

import pytest

from robustify import export
from robustify.base.files import write_text
from robustify.cli import cli
from robustify.export.writing import KEPT, exporter, exporting, files_of
from robustify.runs.run import Run
from tests.support.command import invoked

CASE = ("--case lower|upper", "Write it in this case.", {"default": "lower"})


@exporter("name", KEPT, ("--note TEXT", "Ignore this text.", {}), CASE)
def write_name(
    run: Run, out: Path, kept: bool = False, case: str = "lower", note: str | None = None
) -> list[Path]:
    """Write the name of the benchmark."""
    with exporting(run, out, kept) as (staging, heading):
        write_text(staging / "name.txt", heading.benchmark.upper() if case == "upper" else heading.benchmark)
    return files_of(out)


def test_a_made_up_exporter_is_one_value_and_one_entry(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "exporters", lambda: {"name": write_name})
    group = cli.commands["export"]
    monkeypatch.delitem(group.__dict__, "commands", raising=False)
    try:
        shown = invoked("export", "name", "--help").output
        assert "Write the name of the benchmark." in shown
        assert "--case [lower|upper]" in shown
        done = invoked(
            "export", "name", run.folder, "-o", tmp_path / "out", "--case", "upper", "--kept", "--json"
        )
        assert json.loads(done.stdout) == {"printed": [str(tmp_path / "out" / "name.txt")]}
        assert (tmp_path / "out" / "name.txt").read_text().isupper()
    finally:
        group.__dict__.pop("commands", None)
