"""The command that mends a run's file: the same on every page, with the options of the run, and it works as printed."""

import csv
import json
import shlex
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from robustify.report.opening import mend_command
from tests.support.cases import cases
from tests.support.fake_logs import boxes, jsonl, lm_eval_row, scores_for, sheet

HEAD = ("Stem", "One", "Two", "Three", "Right", "note")
FIELDS = {"stem": "Stem", "choices": ["One", "Two", "Three"], "key": "Right", "key_is": "number"}
GIVEN = [
    *("--map", "stem=Stem", "--map", "choices=One,Two,Three", "--map", "key=Right", "--map", "key_is=number"),
]


def words_of_command(ended: Any) -> list[str]:
    """The words of the command on the terminal of a run that ended well."""
    assert ended.code in (0, 7), ended.err
    (command,) = (line for line in ended.out.splitlines() if line.startswith("  robustify mend "))
    return shlex.split(command)[1:]


def odd_file(path: Path, *, longest: bool) -> None:
    """Write items of unusual columns, whose keys are the longest option, or all at one position."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(HEAD)
        for i in range(90):
            key = i % 3 if longest else 0
            choices = [f"for {i + (10, 30, 60)[(place + i) % 3]} minutes" for place in range(3)]
            choices[key] += ", and more where the pan is cold" * longest
            rows.writerow([f"How long does pan {i} simmer?", *choices, key + 1, "of pans"])


@pytest.mark.parametrize("longest", [True, False])
def test_the_command_is_on_every_page_and_mends_the_file_as_the_run_read_it(
    robustify, tmp_path: Path, longest: bool
) -> None:
    odd_file(tmp_path / "my pans.csv", longest=longest)
    ended = robustify("my pans.csv", "--public", "-o", "out", *GIVEN, "--skip-bad")
    assert ended.code in (0, 7), ended.err
    command = json.loads(robustify("report", "out", "--json").out)["mend"]
    words = shlex.split(command)[1:]
    assert words[:11] == ["mend", "my pans.csv", *GIVEN, "--skip-bad"]
    assert ("--pool CANDIDATES" in command) == longest
    assert f"  {command}" in ended.out.splitlines()
    for page in ("report.html", "report.md", "explorer.html"):
        assert command in unescape((tmp_path / "out" / page).read_text("utf-8")), page
    if longest:
        stems = [f"How long does pan {i} simmer?" for i in range(90)]
        jsonl(
            tmp_path / "more.jsonl", [{"question": q, "candidates": [f"for {q[18:20]} hours"]} for q in stems]
        )
        words[words.index("CANDIDATES")] = "more.jsonl"
    mended = robustify(*words)
    assert mended.code in (0, 7), mended.err
    assert Path(words[-1]).exists()


@pytest.mark.parametrize(
    ("name", "mended"), [("pans.csv.gz", "pans-mended.csv"), ("pans.jsonl.xz", "pans-mended.jsonl")]
)
def test_the_command_for_a_compressed_file_writes_one_that_is_not(name: str, mended: str) -> None:
    assert mend_command({"config": {"data": [{"path": name}]}}).split() == [
        "robustify",
        "mend",
        name,
        "-o",
        mended,
    ]


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("config", [True, False])
def test_the_command_on_the_terminal_works_where_the_audit_was_started(
    robustify, tmp_path: Path, absolute: bool, config: bool
) -> None:
    folder = tmp_path / "-my sets"
    folder.mkdir()
    odd_file(folder / "pans.csv", longest=False)
    settings = {"name": "pans", "sensitivity": "public", "data": {"path": "pans.csv", "fields": FIELDS}}
    (folder / "pans.yaml").write_text(json.dumps(settings), "utf-8")
    name, more = ("pans.yaml", []) if config else ("pans.csv", ["--public", *GIVEN])
    words = words_of_command(
        robustify(folder / name if absolute else f"./-my sets/{name}", *more, "-o", "out")
    )
    assert Path(words[1]) == Path("-my sets/pans.csv")
    assert robustify(*words).code == 0
    assert (tmp_path / "pans-mended.csv").exists()
    # The files of the run name no folder.
    assert "my sets" not in "".join(
        (tmp_path / "out" / name).read_text("utf-8") for name in ("run.json", "report.md", "report.html")
    )


def test_the_command_of_an_import_reads_the_file_as_the_import_did(robustify, tmp_path: Path) -> None:
    items, log = [replace(item, key=0) for item in boxes(60, 2)], "samples_boxes_2026-11-01T10-00-00.jsonl"
    cells = [
        dict(zip(("question", "A", "B", "answer"), (i.stem, *i.choices, "A"), strict=True)) for i in items
    ]
    (tmp_path / "sets").mkdir()
    sheet(tmp_path / "sets" / "pans.csv", [*cells, {**cells[0], "question": "Which pan?", "answer": "E"}])
    picked = enumerate(zip(items, scores_for([0] * 60, 2), strict=True))
    jsonl(tmp_path / log, [lm_eval_row(item, at, scores, texts=True) for at, (item, scores) in picked])
    words = words_of_command(robustify("import", log, "--data", "sets/pans.csv", "-o", "out", "--skip-bad"))
    assert Path(words[1]) == Path("sets/pans.csv")
    assert "--skip-bad" in words
    # The pages name the same options, and no folder.
    named = shlex.split(json.loads(robustify("report", "out", "--json").out)["mend"])[1:]
    assert named == ["mend", "pans.csv", *words[2:]]


SOURCE = {"path": "a.jsonl", "split": None, "fields": None, "skip_bad": False}


@pytest.mark.parametrize(("sources", "items", "command"), cases("report", "mend_commands"))
def test_a_command_names_one_file_with_its_options_or_is_empty(
    sources: list[dict[str, object]], items: str | None, command: str
) -> None:
    config = {"config": {"data": [SOURCE | one for one in sources]}} if sources else {}
    assert mend_command({**config, **({"import": {"items": {"from": items}}} if items else {})}) == command
