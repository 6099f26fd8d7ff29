"""Pictures of order sensitivity and of topics, and the prompts in full, on the page of a public run."""

import re
from html import unescape
from pathlib import Path

import pytest

from robustify.items.views import VIEWS, names, prompt_sources, template
from robustify.judging.summary.result import Summary
from robustify.report import render
from robustify.report.charts import charts
from robustify.restricted.disclosure.released_page import write_released
from tests.report.test_advice import edited
from tests.support.released import released

DIGESTS = {f"{view}/{name}": template(view, name).digest for view in VIEWS for name in names(view)}


@pytest.fixture(scope="module")
def demo() -> Summary:
    return edited({})


def widths(drawn: str, kind: str) -> list[float]:
    """Return the widths of the bars of one class in percent, without the box of the legend."""
    return [
        float(x) for x in re.findall(rf'<rect class="{kind}" y="\d+" height="9" width="([\d.]+)%"', drawn)
    ]


def test_a_picture_shows_the_worst_and_the_best_order_of_each_model(demo: Summary) -> None:
    pages = render(demo, {})
    orders = [one for one in demo.permutation.by_model.values() if one]
    drawn = pages["figures/order.svg"]
    assert len(orders) == 2
    assert widths(drawn, "kept") == pytest.approx([100 * one.min for one in orders], abs=0.01)
    assert widths(drawn, "by-chance") == pytest.approx([100 * one.max for one in orders], abs=0.01)
    assert all(f"{100 * one.flip_rate.value:.1f} % flip" in drawn for one in orders)
    assert pages["report.html"].count('id="order-title"') == 1


def test_a_picture_shows_each_topic_before_and_after(demo: Summary) -> None:
    pages, topics = render(demo, {}), demo.topics.by_topic
    drawn, most = pages["figures/topics.svg"], max(one.before for one in topics.values())
    assert widths(drawn, "kept") == pytest.approx(
        [100 * one.after / most for one in topics.values()], abs=0.01
    )
    assert [name for name in topics if f">{name}</text>" not in drawn] == []
    assert pages["report.html"].count('id="topics-title"') == 1


def test_what_was_not_measured_has_no_picture() -> None:
    models = dict.fromkeys(edited({}).permutation.by_model)
    s = edited({"topics": None, "permutation/by_model": models, "screen/cuts": []})
    assert list(charts(s)) == []
    assert {name for name in render(s, {}) if name.startswith("figures/")} == {"figures/scores.svg"}


def test_the_prompts_of_a_public_run_are_on_its_page_in_full(demo: Summary) -> None:
    page = unescape(render(demo, {"templates": DIGESTS})["report.html"])
    sources = prompt_sources(DIGESTS)
    assert len(sources) == len(DIGESTS) >= 9
    assert all(f"<pre>{source}</pre>" in page for source in sources.values())
    # A prompt of another version has only its hash.
    other = unescape(
        render(demo, {"templates": {"full/mmlu-v1": "0" * 64, "mine/new": "1" * 64}})["report.html"]
    )
    assert "0" * 64 in other
    assert sources["full/mmlu-v1"] not in other


def test_a_restricted_page_has_the_hashes_of_its_prompts_alone(demo: Summary, tmp_path: Path) -> None:
    write_released(tmp_path, released(demo), {"templates": DIGESTS})
    page = unescape((tmp_path / "report.html").read_text())
    assert all(digest[:16] in page for digest in DIGESTS.values())
    assert not [source for source in prompt_sources(DIGESTS).values() if source in page]
