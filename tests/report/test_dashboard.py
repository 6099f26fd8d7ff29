"""Many runs on one page: what their summaries show, in order of date, and nothing of a restricted run beyond that."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from robustify.cli import cli
from robustify.errors import ResourceError, UsageError
from robustify.files import write_json
from robustify.pipeline import rejudge
from robustify.report.dashboard import dashboard_html
from robustify.run import Run
from tests.report.test_free_page import free_summary
from tests.support import restricted_run, restricted_set
from tests.support.exported_run import made_run
from tests.support.page_text import text_of_page


def lab(folder: Path, run: Run) -> Path:
    """Four runs of one benchmark, two of them by one rule, and a grading of free answers."""
    for date in ("2026-01-02", "2026-03-04"):
        shutil.copytree(run.folder, folder / f"{date}-run")
    rejudge(run, {"screen.criterion": "majority"}, folder / "2026-02-03" / "<b>majority</b>")
    rejudge(run, {"screen.criterion": "1-of-2"}, folder / "undated")
    os.utime(folder / "undated" / "run.json", (0, 1_800_000_000))
    (folder / "free 2026-04-05").mkdir()
    write_json(folder / "free 2026-04-05" / "summary.json", free_summary(7))
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
    page = dashboard_html(folder, folder / "dashboard.html")
    assert [row[1] for row in rows(page, "All runs")][::2] == [
        "2027-01-15",
        "2026-03-04",
        "2026-02-03",
        "2026-01-02",
    ]
    links = set(re.findall(r'<th role="rowheader"[^>]*><span[^>]*><a href="([^"]+)"', page))
    assert len(links) == 4
    assert all((folder / link.replace("%3C", "<").replace("%3E", ">")).is_file() for link in links)
    elsewhere = dashboard_html(folder, folder.parent / "page" / "d.html")
    assert 'href="../lab/2026-01-02-run/report.html"' in elsewhere


def test_points_of_one_rule_are_joined_and_others_are_not(folder: Path) -> None:
    page = dashboard_html(folder, folder / "dashboard.html")
    (drawing,) = re.findall(r'<svg[^>]*class="plot trend".*?</svg>', page, re.S)
    assert (drawing.count("<circle"), drawing.count('<line class="span"')) == (4, 0)
    shutil.copytree(folder / "2026-01-02-run", folder.parent / "two" / "2026-01-02")
    shutil.copytree(folder / "2026-01-02-run", folder.parent / "two" / "2026-01-03")
    page = dashboard_html(folder.parent / "two", folder / "dashboard.html")
    (drawing,) = re.findall(r'<svg[^>]*class="plot trend".*?</svg>', page, re.S)
    assert (drawing.count("<circle"), drawing.count('<line class="span"')) == (2, 1)


def test_the_page_is_silent_and_escaped_and_every_filter_names_rows(folder: Path) -> None:
    page = dashboard_html(folder, folder / "dashboard.html")
    assert "default-src 'none'" in page
    assert not re.search(r"<script|https?://(?!www.w3.org)|<b>", page)
    for tag in set(re.findall(r'<option value="([^"]+)"', page)) - {"light", "dark"}:
        assert re.search(rf'class="[^"]*\b{tag}\b', page)
    assert page == dashboard_html(folder, folder / "dashboard.html")


def test_free_answers_stand_with_bounds_and_below_eighty_percent_without_accuracy(folder: Path) -> None:
    found = rows(dashboard_html(folder, folder / "dashboard.html"), "Answers in words")
    assert [(row[2], row[3], row[7]) for row in found][1::2] == [
        (model, "explanation", "withheld: coverage below 80 %") for model in "ab"
    ]


def test_what_cannot_be_read_is_counted_and_named(folder: Path) -> None:
    odd = folder.parent / "odd"
    shutil.copytree(folder / "2026-01-02-run", odd / "whole")
    shutil.copytree(folder / "2026-01-02-run", odd / "changed")
    with (odd / "changed" / "summary.json").open("a") as file:
        file.write(" ")
    for name, tree in (("not-ours", {"models": 3}), ("damaged", {**free_summary(), "models": {"a": {}}})):
        (odd / name).mkdir()
        (odd / name / "summary.json").write_text(json.dumps(tree))
    page = dashboard_html(odd, odd / "dashboard.html")
    assert sorted(row[0] for row in rows(page, "Left out")) == ["changed", "damaged"]
    assert {row[0] for row in rows(page, "All runs")} == {"whole"}


def test_of_a_restricted_run_only_its_released_numbers_are_shown(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = restricted_run.once(tmp_path_factory)
    for name, value in restricted_run.environment(base).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ROBUSTIFY_KEY", raising=False)
    page = dashboard_html(base / "out", tmp_path / "dashboard.html")
    report = (base / "out" / "run" / "report.html").read_text()
    assert not [word for word in restricted_set.canaries(restricted_set.items()) if word in page]
    assert not re.search(r"\d\.\d+ %", text_of_page(page))
    for row in rows(page, "All runs"):
        for number in re.findall(r"\d+ %|\d+ to \d+", " ".join(row[4:])):
            assert number in report
    monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(tmp_path / "none"))
    for name in restricted_run.environment(base):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UsageError, match="its seal cannot be checked"):
        dashboard_html(base / "out", tmp_path / "dashboard.html")


def test_the_command_writes_the_page_and_refuses_what_holds_no_run(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["dashboard", str(folder), "-o", str(tmp_path / "d.html")])
    assert done.stdout.strip() == str(tmp_path / "d.html")
    assert (tmp_path / "d.html").read_text().startswith("<!doctype html>")
    for wrong in (tmp_path, tmp_path / "none"):
        assert isinstance(CliRunner().invoke(cli, ["dashboard", str(wrong)]).exception, UsageError)
    nowhere = ["dashboard", str(folder), "-o", str(tmp_path / "no" / "d.html")]
    assert isinstance(CliRunner().invoke(cli, nowhere).exception, ResourceError)
