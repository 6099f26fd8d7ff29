"""evidence.jsonl and `robustify explain`: of public runs alone, one row an item, with the run's other files."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from robustify.base.errors import DataError, UsageError
from robustify.cli import cli
from robustify.judging.summary.screen_parts import CUES
from robustify.report.explaining import explained, flagged
from robustify.runs.run import EVIDENCE, Run
from tests.support import exported_run

COLUMNS = ("pick", "p_pick", "chance", "posterior", "p_shortcut", "picked_by", "cue", "p_key")


def rows(run: Run) -> list[dict[str, Any]]:
    return exported_run.lines(run.folder / EVIDENCE)


def verdicts(run: Run) -> list[dict[str, str]]:
    with (run.folder / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_item_has_a_row_and_the_file_is_in_the_run_s_digests(run: Run) -> None:
    found = rows(run)
    assert [row["item"] for row in found] == [v["item"] for v in verdicts(run)]
    assert EVIDENCE in run.manifest["files"]
    for row in found:
        assert explained(run, row["item"])[1]
        if row["pick"] is not None:
            # Where places alone always give the key, nothing is said of shortcuts.
            ranked = row["chance"] < 1
            assert (row["p_shortcut"] is not None) == (ranked and row["pick"] == row["key"])
            assert (row["posterior"] is not None) == ranked
            assert not ranked or 0 <= row["chance"] <= row["posterior"] <= 1
            assert set(row["adds"]) <= set(CUES)
            assert all(cue["says"] and cue["adds"] > 0 for cue in row["cues"])
            assert all(abs(adds) >= 0.05 for adds in row.get("features", {}).values())


def test_new_columns_stand_after_those_that_were_there_and_say_the_same(run: Run) -> None:
    found = verdicts(run)
    assert list(found[0]) == ["item", "topic", "verdict", "votes", "of", "reason", "cloze_excluded", *COLUMNS]
    for cells, row in zip(found, rows(run), strict=True):
        if row["pick"] is None:
            assert not any(cells[name] for name in ("pick", "p_pick", "posterior", "p_shortcut", "picked_by"))
        else:
            assert int(cells["pick"]) == row["pick"]
            assert float(cells["p_pick"]) == row["p_pick"]
            assert cells["p_shortcut"] == ("" if row["p_shortcut"] is None else f"{row['p_shortcut']:.4f}")
            assert cells["cue"] == (row["cues"][0]["cue"] if row["cues"] else "none")
            assert cells["picked_by"] == "; ".join(row["voters"])


def test_without_text_or_a_screen_there_is_no_evidence(tmp_path: Path) -> None:
    bare = exported_run.made_run(tmp_path / "bare", text=False)
    unscreened = exported_run.made_run(tmp_path / "full", exported_run.made_up(12), view="full")
    for run in (bare, unscreened):
        assert EVIDENCE not in run.manifest["files"]
        with pytest.raises(DataError) as refused:
            flagged(run)
        assert refused.value.code == "no-evidence"
    assert {cells["cue"] for cells in verdicts(bare) if cells["pick"]} <= {"letter_votes", "none"}


def test_one_item_is_explained_by_its_id_or_the_beginning_of_it(run: Run, tmp_path: Path) -> None:
    tree, lines = explained(run, "i5")
    assert (tree["item"], tree["verdict"], tree["pick"]) == ("i5", "flagged", tree["key"])
    assert tree["voters"] == ["one", "two"]
    assert tree["votes"] == {"one": tree["key"], "two": tree["key"]}
    assert (tree["cloze_excluded"], bool(tree["mends"])) == (None, True)
    assert tree["stem"] in "\n".join(lines)
    for name in ("i", "no such item", ""):
        with pytest.raises(UsageError):
            explained(run, name)
    done = CliRunner().invoke(cli, ["explain", str(run.folder), "i5", "--json"])
    assert json.loads(done.output)["item"] == "i5"
    assert "i5" in CliRunner().invoke(cli, ["explain", str(run.folder), "i5"]).output
    assert isinstance(CliRunner().invoke(cli, ["explain", str(tmp_path), "i5"]).exception, UsageError)


def test_without_an_item_every_flagged_item_has_its_line_its_cue_and_a_mend(run: Run) -> None:
    done = CliRunner().invoke(cli, ["explain", str(run.folder), "--csv"])
    found = list(csv.DictReader(done.output.splitlines()))
    assert [row["item"] for row in found] == [f"i{at}" for at in range(0, 60, 5)]
    assert [int(row["line"]) for row in found] == [at + 1 for at in range(0, 60, 5)]
    assert all(row["cue"] and row["mend"] for row in found)
    tree = json.loads(CliRunner().invoke(cli, ["explain", str(run.folder), "--json"]).stdout)
    assert [{name: str(value) for name, value in row.items()} for row in tree] == found
    lines = CliRunner().invoke(cli, ["explain", str(run.folder)]).output.splitlines()
    assert lines[1].startswith("items.jsonl:6: i5: ")
    assert (
        lines[-1]
        == "robustify: 12 items flagged. Edit the file, audit it again, then run `robustify compare`."
    )
    refused = CliRunner().invoke(cli, ["explain", str(run.folder), "i5", "--csv"])
    assert isinstance(refused.exception, UsageError)


def test_a_changed_file_is_refused(run: Run) -> None:
    files = {**run.manifest["files"], EVIDENCE: "0" * 64}
    with pytest.raises(DataError, match=EVIDENCE):
        explained(Run(run.folder, {**run.manifest, "files": files}, run.guard), "i5")
