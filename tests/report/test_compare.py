"""Runs beside one another: items are compared where they are the same items, and nowhere else."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from robustify.cli import cli
from robustify.errors import AuthorisationError, DataError, ResourceError, UsageError
from robustify.files import sha256
from robustify.item import Item
from robustify.logs import LogPath
from robustify.pipeline import rejudge
from robustify.policy.from_logs import import_logs
from robustify.report.compare_page import comparison_html, comparison_lines
from robustify.report.comparing import compared
from robustify.run import Run, write_items
from robustify.stats.tests import independent_difference, paired_difference
from tests.support import restricted_run
from tests.support.exported_run import made_run, made_up, voted
from tests.support.fake_logs import jsonl
from tests.support.page_text import text_of_page


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made_run(tmp_path_factory.mktemp("compare"))


def test_a_run_is_as_itself(run: Run) -> None:
    tree = compared([run.folder, run.folder]).tree()
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
    (pair,) = compared([run.folder, other.folder]).tree()["pairs"]
    n = run.summary.tree()["splits"]["shortcut"]
    assert pair["moved"] == {"robust -> shortcut": 3}
    assert pair["removed"] == [n, n + 3]
    assert pair["jaccard"]["value"] == pytest.approx(n / (n + 3))


def test_items_of_one_name_and_another_text_are_not_compared(run: Run, tmp_path: Path) -> None:
    items = [Item(item.id, f"{at} {item.stem}", item.choices[::-1], 0) for at, item in enumerate(made_up())]
    (pair,) = compared([run.folder, made_run(tmp_path, items).folder]).tree()["pairs"]
    assert pair["why_not"] == "no item is in both"


def test_a_changed_table_is_refused(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.folder, tmp_path / "copy")
    with (tmp_path / "copy" / "verdicts.csv").open("a") as file:
        file.write("i99,,robust,0,2,,\n")
    with pytest.raises(DataError, match=r"verdicts\.csv: is not as the run left it"):
        compared([run.folder, tmp_path / "copy"])


def test_every_rate_is_printed_with_its_n(run: Run) -> None:
    lines = comparison_lines(compared([run.folder, run.folder]))
    numbers = [line for line in lines if "choices only, all:" in line]
    assert len(numbers) == 2
    assert all(line.count("(n = ") >= 2 for line in numbers)


def test_the_same_answers_are_no_test(run: Run) -> None:
    found = compared([run.folder, run.folder])
    same = [c for c in found.changes if c.paired]
    assert same
    assert all(c.same and c.p_holm is None and c.changed is None for c in same)


def answered(folder: Path, model: str, right: Callable[[int], bool], n: int = 60, first: int = 0) -> Run:
    """The run of one model that answers the items from `first` on, of which those that are `right` by their place."""
    folder.mkdir()
    items = [item for item in made_up(first + n) if int(item.id[1:]) >= first]
    write_items(folder / "items.jsonl", items)
    rows = []
    for at, item in enumerate(items, start=first):
        picks = {"choices_only": voted(at, item), "full": item.key if right(at) else (item.key + 1) % item.k}
        about = {"model": model, "item": item.id, "question": item.stem, "choices": list(item.choices)}
        rows += [
            {**about, "view": view, "key": "ABCDE"[item.key], "pick": None if pick is None else "ABCDE"[pick]}
            for view, pick in picks.items()
        ]
    jsonl(folder / "picks.jsonl", rows)
    log = [LogPath(folder / "picks.jsonl")]
    return import_logs(log, folder / "run", data=[folder / "items.jsonl"], name=model)


def test_a_base_and_its_tuned_form_are_paired_by_item(tmp_path: Path) -> None:
    base = answered(tmp_path / "base", "base", lambda at: at % 3 == 0)
    tuned = answered(tmp_path / "tuned", "tuned", lambda at: at % 3 == 0 or at % 2 == 0)
    found = compared([base.folder, tuned.folder])
    (change,) = (c for c in found.changes if (c.number, c.part) == ("full", "all"))
    one, two = (np.array([at % 3 == 0 or at % m == 0 for at in range(60)]) * 1.0 for m in (99, 2))
    expected = paired_difference(two, one)
    assert change.models == ("base", "tuned")
    assert (change.paired, change.changed) == (True, True)
    assert change.difference["value"] == pytest.approx(20 / 60)
    assert change.difference["ci"] == pytest.approx(expected.ci)
    assert change.p == pytest.approx(2 * 0.5**20)
    assert change.p_holm >= change.p
    for side, run in ((change.first, base), (change.second, tuned)):
        (model,) = run.summary.accuracy or {}
        assert side["value"] == run.summary.tree()["accuracy"][model]["full"]["all"]["value"]


def test_other_items_are_compared_by_their_summaries_alone(tmp_path: Path) -> None:
    one = answered(tmp_path / "a", "m", lambda at: at % 3 == 0)
    two = answered(tmp_path / "b", "m", lambda at: at % 3 != 0, first=60)
    found = compared([one.folder, two.folder])
    assert found.pairs[0].why_not == "no item is in both"
    (change,) = (c for c in found.changes if (c.number, c.part) == ("full", "all"))
    newcombe = independent_difference(40, 60, 20, 60)
    assert not change.paired
    assert change.difference["value"] == pytest.approx(1 / 3)
    assert change.difference["ci"] == pytest.approx(newcombe.ci, abs=1e-3)
    assert change.changed


def test_the_page_is_silent_escaped_and_names_what_moved(tmp_path: Path) -> None:
    base = answered(tmp_path / "base", "<b>x</b>", lambda at: at % 3 == 0)
    tuned = answered(tmp_path / "tuned", "<b>x</b>", lambda at: at % 2 == 0)
    page = comparison_html(compared([base.folder, tuned.folder, base.folder]))
    assert "default-src 'none'" in page
    assert not re.search(r"<script|https?://(?!www.w3.org)|<b>", page)
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    words = text_of_page(page)
    for anchor in re.findall(r'href="#([^"]+)"', page):
        assert f'id="{anchor}"' in page
    assert "[1]" in words
    assert max(len(line.split()) for line in re.findall(r'<p class="verdict[^>]*>(.*?)</p>', page)) <= 20
    assert page == comparison_html(compared([base.folder, tuned.folder, base.folder]))


def test_a_moved_item_is_named_with_both_verdicts(run: Run, tmp_path: Path) -> None:
    changed = made_run(tmp_path, None)
    path = changed.folder / "verdicts.csv"
    path.write_text(path.read_text().replace(",robust,", ",shortcut,", 1))
    manifest = json.loads((changed.folder / "run.json").read_text())
    manifest["files"]["verdicts.csv"] = sha256(path)
    (changed.folder / "run.json").write_text(json.dumps(manifest))
    found = compared([run.folder, changed.folder])
    ((item, verdicts),) = found.pairs[0].moved
    assert verdicts == ("robust", "shortcut")
    assert f"| {item.one} | same text | robust | shortcut |" in text_of_page(comparison_html(found))


@pytest.fixture
def restricted(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    base = restricted_run.once(tmp_path_factory)
    for name, value in restricted_run.environment(base).items():
        monkeypatch.setenv(name, value)
    return base / "out" / "run"


def test_a_restricted_run_is_not_compared(restricted: Path, run: Run) -> None:
    with pytest.raises(AuthorisationError, match="shows its released page alone"):
        compared([run.folder, restricted])


def test_the_page_is_written_beside_the_lines(run: Run, tmp_path: Path) -> None:
    CliRunner().invoke(cli, ["compare", str(run.folder), str(run.folder), "--html", str(tmp_path / "c.html")])
    assert (tmp_path / "c.html").read_text().startswith("<!doctype html>")
    missing = str(tmp_path / "none" / "c.html")
    refused = CliRunner().invoke(cli, ["compare", str(run.folder), str(run.folder), "--html", missing])
    assert isinstance(refused.exception, ResourceError)


def test_one_run_is_no_comparison(run: Run) -> None:
    found = CliRunner().invoke(cli, ["compare", str(run.folder)])
    assert isinstance(found.exception, UsageError)
    both = CliRunner().invoke(cli, ["compare", "--json", str(run.folder), str(run.folder)])
    assert json.loads(both.stdout)["pairs"][0]["n_common"] == 60
