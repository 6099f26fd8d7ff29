"""Standard input as a file, a diff in place of a file, and a config that is written whole or not at all."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from robustify.base.errors import RobustifyError
from robustify.cli import cli
from robustify.export.mending import mended, write_set
from robustify.items.item import Item
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from tests.support.command import invoked

ROWS = [
    {"question": f"Which box is it, {at}?", "choices": ["red", "tin", "old", "wet "], "answer": at % 4} for at in range(6)
]  # fmt: skip


def piped(text: str, *args: str) -> Result:
    return CliRunner().invoke(cli, args, input=text, standalone_mode=False)


@pytest.mark.parametrize("command", ["validate", "lint"])
@pytest.mark.parametrize("form", ["lines", "list", "csv", "bom"])
def test_standard_input_is_read_like_a_file(tmp_path: Path, command: str, form: str) -> None:
    csv = "question,A,B,answer\nWhich?,a,b,A\nWhich?,c,d,B\n"
    text = {
        "lines": "\n".join(map(json.dumps, ROWS)),
        "list": json.dumps(ROWS),
        "csv": csv,
        "bom": "\ufeff" + csv,
    }[form]
    file = tmp_path / "stdin"
    file.write_text(text, encoding="utf-8")
    streamed, read = (json.loads(piped(text, command, name, "--json").stdout) for name in ("-", str(file)))
    read.pop("data", None)
    assert json.loads(json.dumps(read).replace(str(file), "stdin")) == streamed


@pytest.mark.parametrize("command", ["validate", "lint"])
def test_empty_standard_input_is_an_error_of_the_data(command: str) -> None:
    done = piped("", command, "-")
    assert isinstance(done.exception, RobustifyError)
    assert done.exception.exit_code == 3


def test_a_repeated_question_names_the_line_of_the_first(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    rows = [ROWS[0], ROWS[1], {**ROWS[0], "choices": ["a", "b", "c"]}, {**ROWS[1], "answer": 3}, ROWS[0]]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    defects = json.loads(invoked("validate", file, "--json").stdout)["defects"]
    firsts = {
        kind: {at["line"]: at["first"] for at in defects[kind]["at"]}
        for kind in ("repeated_stem", "conflicting_key")
    }
    assert firsts == {"repeated_stem": {3: 1, 4: 2, 5: 1}, "conflicting_key": {2: 4, 4: 2}}
    found = json.loads(invoked("lint", file, "--json").stdout)["findings"]
    assert ["(line 1)" in one["message"] for one in found if one["code"] == "R066"] == [True, False, True]
    assert not any("(line" in one["message"] for one in found if one["code"] == "R001")


def test_the_diff_has_the_rows_that_mend_would_write_and_leaves_the_file_alone(tmp_path: Path) -> None:
    file, out = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    items = [
        Item(f"i{at}", row["question"], tuple(row["choices"]), row["answer"]) for at, row in enumerate(ROWS)
    ]
    items.append(Item("both", "Which of them?", ("red", "tin", "both A and B"), 2))
    write_set(items, file)
    before = file.read_bytes()
    done = invoked("lint", file, "--fix", "--diff")
    assert not done.return_value
    assert file.read_bytes() == before
    write_set(mended(load(Source(path=str(file)), UNGUARDED).items, 0).items, out)
    added = [line[1:] for line in done.stdout.splitlines() if line.startswith("+{")]
    changed = [line for line in out.read_text().splitlines() if line not in before.decode().splitlines()]
    assert added == changed
    assert not any("both A and B" in line for line in added)
    assert invoked("lint", out, "--fix", "--diff").stdout == ""


def test_a_wrong_model_leaves_neither_a_config_nor_a_draft_and_spares_an_older_one(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    config = tmp_path / "a.yaml"
    for older in (None, "name: mine\n"):
        if older:
            config.write_text(older)
        done = invoked("init", tmp_path / "a.jsonl", "-m", "no-such-model", "-o", config, "--force")
        assert isinstance(done.exception, RobustifyError)
        assert (config.read_text() if config.exists() else None) == older
        assert {path.name for path in tmp_path.iterdir()} <= {"a.jsonl", "a.yaml"}
