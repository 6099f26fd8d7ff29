"""Runs beside one another: items are compared where they are the same items, and nowhere else."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from robustify.cli import cli
from robustify.errors import DataError, UsageError
from robustify.files import sha256
from robustify.pipeline import rejudge
from robustify.report.comparing import compared
from robustify.run import Run
from tests.support.exported_run import made_run, made_up


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made_run(tmp_path_factory.mktemp("compare"))


def test_a_run_is_as_itself(run: Run) -> None:
    tree, _ = compared([run.folder, run.folder])
    (pair,) = tree["pairs"]
    n = run.summary.tree()["splits"]["shortcut"]
    assert n > 0
    assert (pair["n_common"], pair["removed"], pair["moved"]) == (60, [n, n], {})
    assert (pair["jaccard"]["value"], pair["jaccard"]["n"]) == (1.0, n)


def test_what_moved_is_counted(run: Run, tmp_path: Path) -> None:
    other = rejudge(run, {"screen.voters": ["one"], "screen.criterion": "1-of-1"}, tmp_path / "other")
    text = (other.folder / "verdicts.csv").read_text()
    (other.folder / "verdicts.csv").write_text(text.replace(",robust,", ",shortcut,", 3))
    digest = sha256(other.folder / "verdicts.csv")
    manifest = json.loads((other.folder / "run.json").read_text())
    manifest["files"]["verdicts.csv"] = digest
    (other.folder / "run.json").write_text(json.dumps(manifest))
    (pair,) = compared([run.folder, other.folder])[0]["pairs"]
    n = run.summary.tree()["splits"]["shortcut"]
    assert pair["moved"] == {"robust -> shortcut": 3}
    assert pair["removed"] == [n, n + 3]
    assert pair["jaccard"]["value"] == pytest.approx(n / (n + 3))


def test_items_of_one_name_and_another_text_are_not_compared(run: Run, tmp_path: Path) -> None:
    items = [item if at % 2 else item.permuted(range(item.k)[::-1]) for at, item in enumerate(made_up())]
    (pair,) = compared([run.folder, made_run(tmp_path, items).folder])[0]["pairs"]
    assert (pair["n_common"], pair["n_only"]) == (30, [30, 30])


def test_a_changed_table_is_refused(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.folder, tmp_path / "copy")
    with (tmp_path / "copy" / "verdicts.csv").open("a") as file:
        file.write("i99,,robust,0,2,,\n")
    with pytest.raises(DataError, match=r"verdicts\.csv: is not as the run left it"):
        compared([run.folder, tmp_path / "copy"])


def test_every_rate_is_printed_with_its_n_and_chance(run: Run) -> None:
    _, lines = compared([run.folder, run.folder])
    accuracy = [line for line in lines if "choices only:" in line]
    assert accuracy
    assert all("(n = " in line and "chance " in line for line in accuracy)
    assert lines[-1].startswith("[1] and [2]: of 60 items in both")


def test_one_run_is_no_comparison(run: Run) -> None:
    found = CliRunner().invoke(cli, ["compare", str(run.folder)])
    assert isinstance(found.exception, UsageError)
    both = CliRunner().invoke(cli, ["compare", "--json", str(run.folder), str(run.folder)])
    assert json.loads(both.stdout)["pairs"][0]["n_common"] == 60
