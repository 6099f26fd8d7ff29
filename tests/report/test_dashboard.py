"""Many runs on one page: what their summaries show, in order of date, and nothing of a restricted run beyond that."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from robustify.base.errors import ResourceError, UsageError
from robustify.cli import cli
from robustify.pipeline.steps import rejudge
from robustify.report.dashboard import dashboard_html
from robustify.runs.run import Run
from robustify.wings import GUARD
from tests.support.exported_run import made_run
from tests.support.page_text import text_of_page


def lab(folder: Path, run: Run) -> Path:
    """Return the folder with four runs of one benchmark, two of them by one rule."""
    for date in ("2026-01-02", "2026-03-04"):
        shutil.copytree(run.folder, folder / f"{date}-run")
    rejudge(run, {"screen.criterion": "majority"}, folder / "2026-02-03" / "<b>majority</b>")
    rejudge(run, {"screen.criterion": "1-of-2"}, folder / "undated")
    os.utime(folder / "undated" / "run.json", (0, 1_800_000_000))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("dashboard")
    return lab(base / "lab", made_run(base))


def rows(page: str, caption: str) -> list[list[str]]:
    """The rows of a table as a reader sees them."""
    after = text_of_page(page).partition(f"**{caption}")[2].splitlines()
    table = [line.strip("| ").split(" | ") for line in after if line.startswith("| ")]
    return table[
        1 : 1 + re.findall(rf"<caption>{caption}</caption>.*?</table>", page, re.S)[0].count("<tr") - 1
    ]


def test_every_run_is_a_row_the_latest_first_and_leads_to_its_report(folder: Path) -> None:
    page = dashboard_html(folder, folder / "dashboard.html", GUARD)
    dates = ["2027-01-15", "2026-03-04", "2026-02-03", "2026-01-02"]
    assert [row[3] for row in rows(page, "All runs")][::2] == dates
    assert [row[5] for row in rows(page, "All runs")][::2] == ["1-of-2", "unanimous", "majority", "unanimous"]
    links = set(re.findall(r'<th scope="row"[^>]*><span[^>]*><a href="([^"]+)"', page))
    assert len(links) == 4
    assert "left out" not in text_of_page(page)
    assert all((folder / link.replace("%3C", "<").replace("%3E", ">")).is_file() for link in links)
    assert not re.search(r"<script|https?://(?!www.w3.org)|<b>", page)
    assert page == dashboard_html(folder, folder / "dashboard.html", GUARD)
    elsewhere = dashboard_html(folder, folder.parent / "page" / "d.html", GUARD)
    assert 'href="../lab/2026-01-02-run/report.html"' in elsewhere


def test_verdicts_are_whole_and_the_reader_is_drawn_for_each_run(folder: Path) -> None:
    page = dashboard_html(folder, folder / "dashboard.html", GUARD)
    assert not [row[4] for row in rows(page, "All runs") if "\u2026" in row[4] or len(row[4]) < 20]
    trend = page.partition("Reader without questions, by run")[2]
    assert trend.count('<rect class="bar"') == 4
    assert re.findall(r"<text class=\"label\"[^>]*>([-\d]+)<", trend) == sorted(
        re.findall(r"<text class=\"label\"[^>]*>([-\d]+)<", trend)
    )


def test_what_cannot_be_read_is_counted_and_named(folder: Path) -> None:
    odd = folder.parent / "odd"
    shutil.copytree(folder / "2026-01-02-run", odd / "whole")
    shutil.copytree(folder / "2026-01-02-run", odd / "changed")
    with (odd / "changed" / "summary.json").open("a") as file:
        file.write(" ")
    (odd / "not-ours").mkdir()
    (odd / "not-ours" / "summary.json").write_text(json.dumps({"models": 3}))
    page = dashboard_html(odd, odd / "dashboard.html", GUARD)
    assert sorted(row[0] for row in rows(page, "Left out")) == ["changed"]
    assert {row[0] for row in rows(page, "All runs")} == {"whole"}


def test_the_command_writes_the_page_and_refuses_what_holds_no_run(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["dashboard", str(folder), "-o", str(tmp_path / "d.html")])
    assert done.stdout.strip() == str(tmp_path / "d.html")
    assert (tmp_path / "d.html").read_text().startswith("<!doctype html>")
    for wrong in (tmp_path, tmp_path / "none"):
        assert isinstance(CliRunner().invoke(cli, ["dashboard", str(wrong)]).exception, UsageError)
    nowhere = ["dashboard", str(folder), "-o", str(tmp_path / "no" / "d.html")]
    assert isinstance(CliRunner().invoke(cli, nowhere).exception, ResourceError)
