"""The page of free response: bounds first, no accuracy where few answers have a score, and whether it may be trusted."""

import re
from typing import Any

from robustify.freeform.metrics import summarise
from robustify.freeform.schema import FreeItem, GradeResult
from robustify.pipeline.free_settings import Kind
from robustify.report.free_page import free_html, grade_lines
from tests.support.page_text import text_of_page

KINDS: tuple[Kind, ...] = ("numeric", "explanation")


def grades(unscored: int) -> list[GradeResult]:
    """Sixty answers of each of two models, of two kinds; of the second kind so many have no score."""
    return [
        GradeResult(
            f"i{at}", model, KINDS[at // 30], "g", "truncated" if (gone := at >= 60 - unscored) else "scored",
            None if gone else float((at * (1 + (model == "b"))) % 3 == 0), None, "r",
        )
        for model in "ab" for at in range(60)
    ]  # fmt: skip


def free_summary(unscored: int = 0) -> dict[str, Any]:
    """Their summary."""
    topics = ("heat", "<b>light</b>")
    items = [FreeItem(f"i{at}", "q", "numeric", "1", topic=topics[at % 2]) for at in range(60)]
    return summarise(items, grades(unscored)) | {"left_out": {"no_nuggets": 2}}


def test_below_eighty_percent_bounds_alone_are_shown_and_the_verdict_says_so() -> None:
    for unscored, said in ((6, "All answers were graded by rules"), (7, "Do not compare these scores yet")):
        summary = free_summary(unscored)
        page = free_html(summary)
        assert said in re.findall(r'<p class="verdict[^>]*>.*?</p>', page)[0]
        shown = re.findall(r"^\| [ab] \| explanation.*", text_of_page(page), re.M)
        assert len(shown) == 2
        printed = [line for line in grade_lines(summary) if "explanation" in line]
        for row in (*shown, *printed):
            assert ("coverage below 80 %" in row) == (unscored == 7)
            assert " less " in row or len(re.findall(r"\d+\.\d %", row)) >= 2
        assert sum(" less " in row for row in printed) == 1


def test_kinds_and_topics_are_shown_and_names_are_escaped() -> None:
    page = free_html(free_summary())
    words = text_of_page(page)
    for topic in ("heat", "<b>light</b>"):
        for kind in KINDS:
            assert all(f"| {topic} | {kind} | {model} |" in words for model in "ab")
    assert "no nuggets 2" in words
    assert "<b>light" not in page
    assert "<script" not in page


def test_a_judge_whom_nobody_checked_is_said_first() -> None:
    from tests.freeform.test_metrics import judged
    from tests.freeform.test_metrics import said as labelled

    for labels, said in (
        ((), "Trust the scores with care"),
        (tuple(labelled(40)), "The judge agrees with human labels"),
    ):
        page = free_html(summarise([], judged(40), labels) | {"left_out": {}})
        assert said in re.findall(r'<p class="verdict[^>]*>.*?</p>', page)[0]
