"""Pages of a run and of a review in a browser: silent, without a request, accessible, in both themes, on a phone and in
print; keys give verdicts, and the saved file is read back by the command."""

from pathlib import Path
from typing import Any

import pytest

from robustify.composing.candidate_checks import apply_votes, read_votes, review_sheet
from robustify.composing.pool import Candidate, Pool, make_pools
from robustify.items.item import Item
from robustify.report.compare import compared, comparison_html
from robustify.report.dashboard import dashboard_html
from robustify.report.explorer import page as printed
from robustify.runs.run import EXPLORER, Run
from robustify.wings import GUARD
from tests.browser.conftest import AXE, PHONE, Open
from tests.report.test_compare import lab

PAGES = ("report.html", EXPLORER, f"{EXPLORER}#verdict=flagged&item=i5")
SETTINGS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"}, "dark": {"color_scheme": "dark"}, "phone": PHONE,
}  # fmt: skip


def opened(run: Run, open_page: Open, name: str, **settings: Any) -> Any:
    file, _, hash_ = name.partition("#")
    return open_page(run.folder / file, hash_ and f"#{hash_}", **settings)


def violations(page: Any) -> list[Any]:
    """What axe-core has against a page; nothing where it is not installed."""
    if not AXE.is_file():
        return []
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [(one["id"], [node["target"] for node in one["nodes"]]) for one in found]


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_violation(run: Run, open_page: Open, name: str, settings: str) -> None:
    if not AXE.is_file():
        pytest.skip("needs axe-core: npm install --prefix .axe axe-core")
    # The pages' policy lets no foreign script in, so that the test's own has to pass it by.
    page = opened(run, open_page, name, bypass_csp=True, **SETTINGS[settings])
    assert violations(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_both_themes_change_ground_and_ink(run: Run, open_page: Open, name: str) -> None:
    seen = set()
    for theme in ("light", "dark"):
        page = opened(run, open_page, name, color_scheme=theme)
        style = "getComputedStyle(document.documentElement)"
        seen.add((page.evaluate(f"{style}.backgroundColor"), page.evaluate(f"{style}.color")))
    assert len(seen) == 2


def test_a_link_of_the_to_do_list_opens_the_fold_that_it_points_to(run: Run, open_page: Open) -> None:
    page = open_page(run.folder / "report.html")
    links = page.locator(".todo a[href^='#']")
    assert links.count()
    for link in links.all():
        link.click()
        assert page.evaluate("document.querySelector(':target p, :target table').checkVisibility()")


@pytest.mark.parametrize("settings", SETTINGS)
def test_runs_beside_one_another_fit_and_are_silent(
    run: Run, open_page: Open, tmp_path: Path, settings: str
) -> None:
    (tmp_path / "c.html").write_text(comparison_html(compared([run.folder] * 3, GUARD)), encoding="utf-8")
    page = open_page(tmp_path / "c.html", **SETTINGS[settings])
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    page.click("summary:has(+ #numbers-0-1)")
    assert page.is_visible("#numbers-0-1 table")


@pytest.mark.parametrize("settings", SETTINGS)
def test_many_runs_fit_on_a_page(run: Run, open_page: Open, tmp_path: Path, settings: str) -> None:
    folder = lab(tmp_path / "lab", run)
    (folder / "d.html").write_text(dashboard_html(folder, folder / "d.html", GUARD), encoding="utf-8")
    page = open_page(folder / "d.html", bypass_csp=True, **SETTINGS[settings])
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    assert page.locator("#runs tbody tr").count() == 8
    assert violations(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wider_than_a_phone(run: Run, open_page: Open, name: str) -> None:
    page = opened(run, open_page, name, **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"]


def pools() -> tuple[Pool, ...]:
    items = [Item(f"i{at}", f"What is <b>{at}</b>?", (f"right {at}", f"own {at}"), 0) for at in range(2)]
    return make_pools(
        items, [[Candidate(f"=new {at}", "w"), Candidate("última \u00e9", "w")] for at in range(2)]
    )


@pytest.fixture
def sheet(open_page: Open, tmp_path: Path) -> Any:
    path = tmp_path / "review.html"
    first, second = (pool.candidates for pool in pools())
    path.write_text(printed(review_sheet(pools(), [first[1:], second[1:2]], "demo"), "review"), "utf-8")
    return open_page(path)


def test_keys_give_verdicts_that_are_saved_and_read_back(sheet: Any, tmp_path: Path) -> None:
    assert "1 of 3, i0" in sheet.inner_text("#item")
    assert "What is <b>0</b>?" in sheet.inner_text("#item")
    sheet.keyboard.press("2")
    assert "última" in sheet.inner_text(".candidate")
    sheet.keyboard.press("1")
    sheet.keyboard.press("ArrowLeft")
    assert sheet.get_attribute("[aria-pressed=true]", "aria-pressed") == "true"
    sheet.keyboard.press("3")
    assert sheet.inner_text("#done") == "2 of 3 done"
    sheet.fill("#rater", "Anna 1, B")
    with sheet.expect_download() as saved:
        sheet.click("#save")
    assert saved.value.suggested_filename == "review-Anna-1-B.csv"
    saved.value.save_as(tmp_path / "saved.csv")
    made, review = apply_votes(pools(), read_votes([tmp_path / "saved.csv"]))
    said = [[one.verdict for one in pool.candidates] for pool in made]
    assert said == [["", "right too", "unclear"], ["", "", ""]]
    assert review.raters == ("Anna 1, B",)


def test_a_digit_in_the_name_of_the_rater_is_no_verdict(sheet: Any) -> None:
    sheet.focus("#rater")
    sheet.keyboard.press("1")
    assert sheet.inner_text("#done") == "0 of 3 done"


def test_verdicts_stay_in_the_browser(sheet: Any) -> None:
    sheet.click("text=1 wrong")
    assert list(sheet.evaluate("JSON.parse(localStorage.getItem(kept))").values()) == ["wrong"]


@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core")
def test_the_page_is_accessible(open_page: Open, sheet: Any, tmp_path: Path) -> None:
    page = open_page(tmp_path / "review.html", bypass_csp=True, **PHONE)
    page.add_script_tag(path=str(AXE))
    assert page.evaluate("axe.run().then((found) => found.violations.map((one) => one.id))") == []
