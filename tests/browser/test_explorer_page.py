"""The explorer in a browser: it filters, sorts, searches, opens by keyboard, prints, and says what a terminal says."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from robustify.report.explaining import explained
from robustify.report.explorer import page as printed
from robustify.runs.run import EXPLORER, Run
from tests.browser.conftest import PHONE, Open
from tests.report.explorer_islands import TRIES, hostile_island, large_island


@pytest.fixture
def explorer(run: Run, open_page: Open) -> Any:
    return open_page(run.folder / EXPLORER)


@pytest.fixture
def large(open_page: Open, tmp_path: Path) -> Any:
    (tmp_path / EXPLORER).write_text(printed(large_island(1000)), "utf-8")
    return open_page(tmp_path / EXPLORER)


def count(page: Any) -> int:
    return int(page.inner_text("#count").split()[0].replace(",", ""))


def shown(page: Any, what: str = ".id") -> list[str]:
    return [text.strip() for text in page.locator(f"#list {what}").all_inner_texts()]


def address(page: Any) -> dict[str, str]:
    return dict(page.evaluate("[...new URLSearchParams(location.hash.slice(1))]"))


def test_filters_agree_with_the_run_and_stand_in_the_address(run: Run, explorer: Any) -> None:
    verdicts = run.verdicts
    assert count(explorer) == len(verdicts)
    words = explorer.locator("[name=verdict] option[value=flagged]").inner_text()
    explorer.select_option("[name=verdict]", "flagged")
    assert count(explorer) == int(words.rpartition("(")[2].rstrip(")"))
    flagged = [item for item, verdict in verdicts.items() if verdict == "flagged"]
    assert (count(explorer), address(explorer)) == (len(flagged), {"verdict": "flagged"})
    explorer.select_option("[name=topic]", index=1)
    topic = address(explorer)["topic"]
    assert count(explorer) == sum(run.topics[item] == topic for item in flagged) > 0
    explorer.click("text=Clear all")
    assert (count(explorer), address(explorer)) == (len(verdicts), {})


def test_an_address_opens_the_page_as_it_was(run: Run, open_page: Open) -> None:
    page = open_page(run.folder / EXPLORER, "#verdict=flagged&cue=letter_votes&sort=order&item=i5&unknown=1")
    assert page.inner_text("#item h2") == "i5"
    assert page.input_value("[name=verdict]") == "flagged"
    assert page.input_value("[name=sort]") == "order"
    page.evaluate("location.hash = '#q=box%2050'")
    page.locator("#count", has_text=re.compile("^1 ")).wait_for()
    assert page.input_value("#query") == "box 50"
    assert page.is_hidden("#item")


def test_search_looks_into_questions_options_and_ids(explorer: Any) -> None:
    for words, expected in (("BOX 50", ["i50"]), ("the pink one of 15", ["i15"]), ("no such words", [])):
        explorer.fill("#query", words)
        assert shown(explorer) == expected, words
    explorer.fill("#query", "i23")
    assert shown(explorer) == ["i23"]


def test_every_sort_is_in_order(large: Any) -> None:
    percents = [float(text.removeprefix("≈").split()[0]) for text in shown(large, ".p") if text]
    assert percents == sorted(percents, reverse=True)
    tied = [item for item in large.evaluate("found") if (item["shortcut"] or 0) >= 0.9995]
    assert [item["p_pick"] for item in tied] == sorted((item["p_pick"] for item in tied), reverse=True)
    for sort in ("order", "verdict", "right"):
        large.select_option("[name=sort]", sort)
        assert large.evaluate(
            "by => found.every((item, i) => !i || SORTS[by][1](found[i - 1]) <= SORTS[by][1](item))", sort
        ), sort


def test_a_row_shows_its_mend_and_the_items_left_are_copied_as_csv(run: Run, open_page: Open) -> None:
    page = open_page(
        run.folder / EXPLORER, "#verdict=flagged", permissions=["clipboard-read", "clipboard-write"]
    )
    mends = shown(page, ".mends")
    assert len(mends) == count(page)
    assert all(mend.endswith(".") for mend in mends)
    page.click("#copy")
    page.locator("#copy", has_text=re.compile("copied$")).wait_for()
    rows = list(csv.DictReader(page.evaluate("navigator.clipboard.readText()").splitlines()))
    assert [row["item"] for row in rows] == shown(page)
    assert [row["mend"] for row in rows] == mends


def test_an_address_names_items_and_values_to_leave_out(run: Run, open_page: Open) -> None:
    page = open_page(run.folder / EXPLORER, "#only=i5,i%2537,none")
    assert shown(page) == ["i5", "i7"]
    page.click("text=Clear all")
    assert count(page) == len(run.verdicts)
    page.select_option("[name=verdict]", "flagged")
    every = count(page)
    page.select_option("[name=cue]", index=1)
    (one,) = {page.input_value("[name=cue]")}
    some = count(page)
    page.evaluate("cue => { location.hash = `verdict=flagged&cue=-${cue}` }", one)
    page.locator("[name=cue] option:checked", has_text=re.compile("^others")).wait_for(state="attached")
    assert count(page) == every - some
    assert page.locator("[name=cue] option:checked").inner_text() == f"others ({every - some})"


def test_columns_have_heads_and_without_a_script_no_control_is_dead(run: Run, open_page: Open) -> None:
    page = open_page(run.folder / EXPLORER)
    heads, row = page.locator(".heads > span"), page.locator("#list .row").first.locator("> span:not(.mends)")
    assert heads.count() == row.count()
    assert all(heads.all_inner_texts())
    for head, cell in zip(heads.all(), row.all(), strict=True):
        assert head.bounding_box()["x"] == pytest.approx(cell.bounding_box()["x"], abs=12)
    bare = open_page(run.folder / EXPLORER, java_script_enabled=False)
    assert not bare.locator("#filters, #items, #item").locator("visible=true").count()
    assert bare.locator("noscript p").is_visible()


def test_an_item_opens_moves_and_closes_by_keyboard_alone_and_at_once(explorer: Any) -> None:
    explorer.keyboard.press("ArrowDown")
    explorer.keyboard.press("ArrowDown")
    third = explorer.locator("#list .active .id").inner_text()
    explorer.keyboard.press("Enter")
    assert explorer.inner_text("#item h2") == third == address(explorer)["item"]
    assert explorer.evaluate("document.activeElement.id") == "item"
    explorer.keyboard.press("Escape")
    assert explorer.is_hidden("#item")
    assert explorer.evaluate("document.activeElement.id") == "list"
    explorer.keyboard.press("/")
    explorer.keyboard.type("box 50")
    explorer.keyboard.press("Escape")
    explorer.keyboard.press("Enter")
    assert explorer.inner_text("#item h2") == "i50"
    explorer.go_back()
    assert explorer.is_hidden("#item")


@pytest.mark.parametrize("item", ["i5", "i7", "i11", "i12"])
def test_the_page_says_of_an_item_what_explain_says(run: Run, open_page: Open, item: str) -> None:
    page = open_page(run.folder / EXPLORER, f"#item={item}")
    said = " ".join(page.inner_text("#item").split())
    tree, lines = explained(run, item)
    assert tree["stem"] in said
    for choice in tree["choices"]:
        assert choice in said
    after = lines[2 + bool(tree["topic"]) + len(tree["choices"]) :]
    assert after
    for line in after:
        for part in line.rstrip(":").split("  "):
            assert " ".join(part.split()) in said, line


def test_rows_are_drawn_as_they_are_reached(large: Any) -> None:
    assert large.locator("#list .row").count() < 500
    large.locator("#list").press("End")
    assert large.locator("#list .active").get_attribute("aria-posinset") == "1000"
    assert large.locator("#list .active").get_attribute("aria-setsize") == "1000"
    large.locator("#list").press("Home")
    assert large.locator("#list .active").get_attribute("aria-posinset") == "1"


def test_what_an_item_says_stays_text(open_page: Open, tmp_path: Path) -> None:
    (tmp_path / EXPLORER).write_text(printed(hostile_island()), "utf-8")
    page = open_page(tmp_path / EXPLORER)
    for at, text in enumerate(TRIES):
        page.evaluate("([at]) => change({item: items[at].id})", [at])
        assert page.locator("#item > .stem").evaluate("e => !e.children.length && !!e.textContent")
        assert page.locator("#item img, #item script, #list img").count() == 0, text
    assert page.title() == "made-up: items"
    assert page.evaluate("() => { try { document.body.innerHTML = 'x' } catch { return true } }")


def test_on_a_phone_the_item_takes_the_screen_and_nothing_is_wider_than_it(run: Run, open_page: Open) -> None:
    page = open_page(run.folder / EXPLORER, **PHONE)
    page.locator("#list .row").first.click()
    assert page.is_hidden("#list")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click("[aria-label=Close]")
    assert page.is_visible("#list")
