"""What every export refuses, and that a folder is written whole or not at all."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import DataError, GuardrailError, ResourceError
from robustify.base.files import write_text
from robustify.base.settings_files import DATA_MODULE
from robustify.cli import cli
from robustify.export import exporters, tasks
from robustify.export.dataset import export_dataset, export_instruct
from robustify.export.tasks import export_inspect, export_lm_eval
from robustify.export.writing import KEPT, exporter, exporting, files_of
from robustify.pipeline.from_logs import run_of_logs
from robustify.pipeline.steps import rejudge
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from robustify.reading.logs import LogPath
from robustify.runs.run import Run, open_run
from robustify.wings import GUARD, free_rows
from tests.support import files
from tests.support.cases import refuses
from tests.support.command import invoked
from tests.support.exported_run import made_run, made_up
from tests.support.fake_logs import jsonl

Export = Callable[..., list[Path]]


def plugged(exporter: Any) -> Export:
    """The exporter as the command calls it."""
    takes = {"as_free": free_rows} if exporter.asks_free else {}
    return lambda run, folder, kept=False: exporter(run, folder, kept=kept, **takes)


EXPORTS = (plugged(export_lm_eval), plugged(export_inspect), export_dataset, plugged(export_instruct))
every = pytest.mark.parametrize("export", EXPORTS)


@pytest.fixture(scope="module")
def halted(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return rejudge(run, {"limits.min_kept": 1000}, tmp_path_factory.mktemp("halted") / "run")


def test_white_space_leaves_options_by_decision_only_and_is_mentioned(tmp_path: Path) -> None:
    items = [replace(one, choices=(f" {one.choices[0]}", *one.choices[1:])) for one in made_up()]
    run = made_run(tmp_path, items)
    for command, (more, word) in product(
        ("lm-eval", "inspect", "dataset"), (([], "kept"), (["--trim"], "taken"))
    ):
        out = tmp_path / f"{command}{len(more)}"
        done = invoked("export", command, run.folder, "-o", out, *more)
        assert done.exception is None
        assert re.search(f"60 items .* white space .* {word}", done.output)
        paths = [path for path in out.rglob("*kept*") if path.suffix in (".jsonl", ".parquet")]
        held = [i for p in paths if "free" not in p.name for i in load(Source(path=str(p)), UNGUARDED).items]
        assert held
        assert all((item.trimmed().choices == item.choices) == bool(more) for item in held)


def test_an_export_says_how_many_options_nobody_reviewed(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.folder, folder := tmp_path / "run")
    manifest = json.loads((folder / "run.json").read_text())
    manifest["data"]["notes"] = ["7 items with options that nobody reviewed (`unreviewed`)", "another note"]
    (folder / "run.json").write_text(json.dumps(manifest))
    done = invoked("export", "dataset", folder, "-o", tmp_path / "out")
    assert "robustify: 7 items with options that nobody reviewed (`unreviewed`).\n" in done.stderr
    assert "another note" not in done.output


@every
def test_two_exports_are_the_same_bytes_and_name_no_place_of_this_machine(
    run: Run, tmp_path: Path, export: Export
) -> None:
    first, second = export(run, tmp_path / "a"), export(run, tmp_path / "b")
    assert set(first) == {p for p in (tmp_path / "a").rglob("*") if p.is_file()}
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    assert [p.relative_to(tmp_path / "a") for p in first] == [p.relative_to(tmp_path / "b") for p in second]
    assert not any(str(tmp_path).encode() in p.read_bytes() for p in first)


def picked(folder: Path) -> Run:
    """An imported run without the text of its items, whose models did not see the question."""
    picks = [(m, at) for m in ("one", "two") for at in range(40)]
    rows = [
        {"model": m, "view": "choices_only", "item": f"i{at}", "key": "ABCD"[at % 4], "pick": "A"}
        for m, at in picks
    ]
    return run_of_logs([LogPath(jsonl(folder / "picks.jsonl", rows))], folder / "picked", GUARD)


def labelled(run: Run, label: str | None) -> Run:
    """The run as if it had this sensitivity."""
    config = {**run.manifest["config"], "sensitivity": label}
    return Run(run.folder, {**run.manifest, "config": config}, run.guard)


@every
def test_a_run_without_text_and_one_that_does_not_say_that_it_is_public_are_refused_whatever_is_asked(
    run: Run, tmp_path: Path, export: Export
) -> None:
    for of, code in (
        (labelled(run, "restricted"), "restricted-run"),
        (labelled(run, None), "restricted-run"),
        (picked(tmp_path), "run-without-item-text"),
    ):
        for kept in (False, True):
            with refuses(code):
                export(of, tmp_path / "out", kept)
    assert not (tmp_path / "out").exists()


@every
def test_a_halted_run_is_refused_and_as_kept_it_says_so_in_its_files(
    halted: Run, tmp_path: Path, export: Export
) -> None:
    with pytest.raises(GuardrailError, match=r"47 .*--kept"):
        export(halted, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    paths = export(halted, tmp_path / "out", True)
    assert any(p.suffix in (".py", ".md", ".yaml") for p in paths)
    for path in paths:
        # The module that finds the data of tasks knows no run.
        if path.name != DATA_MODULE and (path.suffix in (".py", ".md") or path.name == "made_up_kept.yaml"):
            assert re.search("State .*: failed: ", path.read_text().replace("\\", "")), path.name


@pytest.mark.parametrize(
    ("export", "name"),
    zip(EXPORTS, ("summary.json", "kept.jsonl", "cloze.jsonl", "undecided.jsonl"), strict=True),
)
def test_a_run_that_was_changed_since_is_refused(tmp_path: Path, run: Run, export: Export, name: str) -> None:
    copy = shutil.copytree(run.folder, tmp_path / "run")
    with (copy / name).open("a") as file:
        file.write("\n")
    with pytest.raises(DataError, match=name):
        export(open_run(copy, GUARD), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@every
def test_a_folder_that_holds_something_is_refused_and_left_alone(
    run: Run, tmp_path: Path, export: Export
) -> None:
    mine = tmp_path / "out" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    for out in (mine.parent, mine):
        with refuses("folder-not-empty"):
            export(run, out, True)
    assert files(mine.parent) == {"mine.txt": b"mine"}


def test_a_dataset_is_written_again_with_a_licence_but_not_over_an_edited_card(
    run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export_dataset(run, out, True)
    card = out / "README.md"
    for licence in ("mit", "mit", "cc-by-4.0"):
        export_dataset(run, out, True, licence)
        assert f'license: "{licence}"' in card.read_text()
    for path, more in ((card, "A line.\n"), (out / "kept.parquet", " "), (out / "mine.txt", "")):
        before = path.read_bytes() if path.exists() else None
        path.write_bytes((before or b"") + more.encode())
        with refuses("folder-not-empty"):
            export_dataset(run, out, True, "mit")
        assert path.read_bytes() == (before or b"") + more.encode()
        path.unlink() if before is None else path.write_bytes(before)


def test_an_export_that_fails_leaves_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tasks, "write_inspect", full)
    (tmp_path / "out").mkdir()
    for out in (tmp_path / "a" / "out", tmp_path / "out"):
        with pytest.raises(ResourceError):
            export_inspect(run, out, free_rows)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == {"out", "a"}


def test_an_empty_folder_and_what_a_killed_export_left_are_taken(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out" / ".writing-1").mkdir(parents=True)
    (tmp_path / "out" / ".writing-1" / "half.jsonl").touch()
    paths = export_instruct(run, tmp_path / "out", free_rows)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(p.name for p in paths)


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
    monkeypatch.setattr(exporters, "EXPORTERS", {"name": write_name})
    group = cli.commands["export"]
    monkeypatch.delitem(group.__dict__, "commands", raising=False)
    try:
        shown = invoked("export", "name", "--help").output
        assert str(write_name.write.__doc__) in shown
        assert "--case [lower|upper]" in shown
        done = invoked(
            "export", "name", run.folder, "-o", tmp_path / "out", "--case", "upper", "--kept", "--json"
        )
        assert json.loads(done.stdout) == {"printed": [str(tmp_path / "out" / "name.txt")]}
        assert (tmp_path / "out" / "name.txt").read_text().isupper()
    finally:
        group.__dict__.pop("commands", None)
