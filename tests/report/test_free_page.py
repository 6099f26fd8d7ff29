"""The page of free response: bounds first, no accuracy where few answers have a score, and whether it may be trusted."""

import re
from dataclasses import replace
from typing import Any

from robustify.freeform.report import summarise
from robustify.freeform.schema import FreeItem, GradeResult
from robustify.report.free_page import html_page, markdown_page
from tests.support.page_text import text_of_page

KINDS = ("numeric", "explanation")


def grades(unscored: int, restricted: bool = False) -> list[GradeResult]:
    """Sixty answers of each of two models, of two kinds; of the second kind so many have no score."""
    return [
        GradeResult(
            f"i{at}", model, KINDS[at // 30], "g", "truncated" if (gone := at >= 60 - unscored) else "scored",
            None if gone else float((at * (1 + (model == "b"))) % 3 == 0), None, "r",
            restricted=restricted, adapter="made-up" if restricted else "",
        )
        for model in "ab" for at in range(60)
    ]  # fmt: skip


def free_summary(unscored: int = 0, base: str | None = None, restricted: bool = False) -> dict[str, Any]:
    """Their summary."""
    topics = ("heat", "<b>light</b>")
    items = [
        FreeItem(f"i{at}", "q", "numeric", "1", topic=topics[at % 2], restricted=restricted)
        for at in range(60)
    ]
    return summarise(items, grades(unscored, restricted), base=base)


def test_below_eighty_percent_bounds_alone_are_shown_and_the_verdict_says_so() -> None:
    for unscored, said in ((6, "Trust it"), (7, "Do not compare yet")):
        page = html_page(free_summary(unscored))
        assert f'">{said}' in re.search(r'<p class="verdict[^>]*>.*?</p>', page)[0]
        rows = [
            line
            for line in text_of_page(page).splitlines()
            if "| explanation |" in line and "| none |" in line
        ]
        assert len(rows) == 2
        assert all(("withheld: coverage below 80 %" in row) == (unscored == 7) for row in rows)
        assert all(re.search(r"\| 30 \| \d+\.\d % to \d+\.\d % \|", row) for row in rows)


def test_kinds_and_topics_are_shown_and_names_are_escaped() -> None:
    page = html_page(free_summary(base="a"))
    words = text_of_page(page)
    assert {
        f"| {topic} | {kind} | {model} |"
        for topic in ("heat", "<b>light</b>")
        for kind in KINDS
        for model in "ab"
    } <= {"|".join(line.split("|")[:4]) + "|" for line in words.splitlines()}
    assert "<b>light" not in page
    assert "default-src 'none'" in page
    assert "<script" not in page


def test_the_page_and_the_markdown_say_the_same_of_a_restricted_set() -> None:
    summary = free_summary(4, restricted=True)
    for shown in (text_of_page(html_page(summary)), markdown_page(summary)):
        assert "light" not in shown
        assert not re.search(r"\d\.\d+ %", shown)
        assert "i1" not in shown


def test_a_judge_whom_nobody_checked_is_said_first() -> None:
    from tests.freeform.test_metrics import judged
    from tests.freeform.test_metrics import said as labelled

    for labels, said in (((), "Trust it with care"), (tuple(labelled(40)), "Trust it: people agree")):
        page = html_page(summarise([], judged(40), labels))
        assert f'">{said}' in re.search(r'<p class="verdict[^>]*>.*?</p>', page)[0]
    own = [replace(g, flags=("self_judging",)) for g in judged(4)]
    assert "Ask another judge" in html_page(summarise([], own))
