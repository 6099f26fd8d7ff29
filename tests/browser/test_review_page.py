"""The review page in a browser: keys give verdicts, and the saved file is read back by the command."""

from pathlib import Path
from typing import Any

import pytest

from robustify.composing.candidate_checks import apply_votes, read_votes, review_sheet
from robustify.composing.pool import Candidate, Pool, make_pools
from robustify.items.item import Item
from robustify.report.explorer import page as printed
from tests.browser.conftest import AXE, PHONE, Open


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
