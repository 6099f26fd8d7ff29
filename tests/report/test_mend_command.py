"""The command that mends a run's file: the same on every page, with the options of the run, and it works as printed."""

import csv
import json
import shlex
from html import unescape
from pathlib import Path

import pytest

from robustify.report.mend_command import mend_command
from tests.support.fake_logs import jsonl

HEAD = ("Stem", "One", "Two", "Three", "Right", "note")
GIVEN = (
    "--map",
    "stem=Stem",
    "--map",
    "choices=One,Two,Three",
    "--map",
    "key=Right",
    "--map",
    "key_is=number",
)


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
        more = [
            {"question": f"How long does pan {i} simmer?", "candidates": [f"for {i} hours"]}
            for i in range(90)
        ]
        jsonl(tmp_path / "more.jsonl", more)
        words[words.index("CANDIDATES")] = "more.jsonl"
    mended = robustify(*words)
    assert mended.code in (0, 7), mended.err
    assert Path(words[-1]).exists()


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("config", [True, False])
def test_the_command_on_the_terminal_works_where_the_audit_was_started(
    robustify, tmp_path: Path, absolute: bool, config: bool
) -> None:
    folder = tmp_path / "-my sets"
    folder.mkdir()
    odd_file(folder / "pans.csv", longest=False)
    given: tuple[str, ...] = (
        str(folder / "pans.csv") if absolute else "./-my sets/pans.csv",
        "--public",
        *GIVEN,
    )
    if config:
        fields = {"stem": "Stem", "choices": ["One", "Two", "Three"], "key": "Right", "key_is": "number"}
        settings = {"name": "pans", "sensitivity": "public", "data": {"path": "pans.csv", "fields": fields}}
        (folder / "pans.yaml").write_text(json.dumps(settings), "utf-8")
        given = (str(folder / "pans.yaml") if absolute else "./-my sets/pans.yaml",)
    ended = robustify(*given, "-o", "out")
    assert ended.code in (0, 7), ended.err
    (command,) = (line for line in ended.out.splitlines() if line.startswith("  robustify mend "))
    words = shlex.split(command)[1:]
    assert Path(words[1]) == Path("-my sets/pans.csv")
    assert robustify(*words).code == 0
    assert (tmp_path / "pans-mended.csv").exists()
    # The files of the run name no folder.
    assert "my sets" not in "".join(
        (tmp_path / "out" / name).read_text("utf-8") for name in ("run.json", "report.md", "report.html")
    )


def test_the_command_of_an_import_reads_the_file_as_the_import_did(robustify, tmp_path: Path) -> None:
    folder = tmp_path / "sets"
    folder.mkdir()
    n = 60
    rows = [[f"How long does pan {i} simmer?", f"for {i} minutes", f"for {i} hours", "A"] for i in range(n)]
    with (folder / "pans.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [("question", "A", "B", "answer"), *rows, ("Which pan?", "iron", "clay", "E")]
        )
    docs = [{"question": q, "choices": [a, b], "answer": 0} for q, a, b, _ in rows]
    logged = [
        {"doc_id": i, "doc": doc, "target": "0", "filtered_resps": [[-1.0, False], [-2.0, False]], "acc": 1.0,
         "arguments": [[doc["question"], f" {text}"] for text in doc["choices"]]}
        for i, doc in enumerate(docs)
    ]  # fmt: skip
    jsonl(tmp_path / "samples_pans_2026-11-01T10-00-00.jsonl", logged)
    ended = robustify(
        "import",
        "samples_pans_2026-11-01T10-00-00.jsonl",
        "--data",
        "sets/pans.csv",
        "-o",
        "out",
        "--skip-bad",
    )
    assert ended.code in (0, 7), ended.err
    (command,) = (line for line in ended.out.splitlines() if line.startswith("  robustify mend "))
    words = shlex.split(command)[1:]
    assert Path(words[1]) == Path("sets/pans.csv")
    assert "--skip-bad" in words
    # The pages name the same options, and no folder.
    named = shlex.split(json.loads(robustify("report", "out", "--json").out)["mend"])[1:]
    assert named == ["mend", "pans.csv", *words[2:]]


def source(**changes: object) -> dict[str, object]:
    return {"path": "a.jsonl", "split": None, "fields": None, "skip_bad": False, **changes}


@pytest.mark.parametrize(
    ("manifest", "command"),
    [
        ({}, ""),
        ({"config": {"data": [source()]}}, "robustify mend a.jsonl -o a-mended.jsonl"),
        ({"config": {"data": [source(), source()]}}, ""),
        ({"config": {"data": [source()]}, "import": {"items": {"from": "logs"}}}, ""),
        (
            {"config": {"data": [source()]}, "import": {"items": {"from": "data"}}},
            "robustify mend a.jsonl -o a-mended.jsonl",
        ),
        (
            {"config": {"data": [source(path="$(x) b.XLSX", split="two", fields={"choices": "=yes,no", "id": None})]}},
            "robustify mend '$(x) b.XLSX' --map choices==yes,no --split two -o '$(x) b-mended.jsonl'",
        ),
        (
            {"config": {"data": [source(path="hf:some/set", split="test", trust_task_code=True)]}},
            "robustify mend hf:some/set --split test --trust-task-code -o hf-some-set-mended.jsonl",
        ),
        (
            {"config": {"data": [source(path="-m.csv", skip_bad=True, fields={"choices": ["A", "B"]})]}},
            "robustify mend ./-m.csv --map choices=A,B --skip-bad -o ./-m-mended.csv",
        ),
    ],
)  # fmt: skip
def test_a_command_names_one_file_with_its_options_or_is_empty(
    manifest: dict[str, object], command: str
) -> None:
    assert mend_command(manifest) == command
