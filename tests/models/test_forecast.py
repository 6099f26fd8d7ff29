"""What asking will take: what is counted is counted rightly, and what is not known is not said."""

from pathlib import Path

import pytest

from robustify.items.item import Item
from robustify.models import forecast as forecasts
from robustify.models.asking import Asking, plan
from robustify.models.engines.settings import HFModel, OpenAIModel
from robustify.models.forecast import CHARS_A_BRANCH, SAMPLE, forecast
from robustify.report.opening import forecast_lines


def cups(n: int) -> list[Item]:
    options = ("green", "blue tin", "grey")
    return [
        Item(f"i{i}", f"Which cup number {i} is meant?", (f"red {i}", *options), i % 4, "cups")
        for i in range(n)
    ]


ITEMS = cups(60)
SERVER = OpenAIModel(
    name="far", engine="openai", base_url="https://example.org/v1", price_in=3.0, price_out=10.0
)
LOCAL = HFModel(name="smollm2-135m")


def need(
    *models: object, items: list[Item] = ITEMS, cache: Path = Path("nowhere"), **more: object
) -> forecasts.Need:
    found = forecast("cups", items, Asking(), models, cache, **more)
    return found.needs[0]


def test_requests_are_those_of_the_plan_and_beginnings_count_once() -> None:
    texts = [r.context + r.continuation for p in plan(ITEMS, Asking()) for r in p.requests]
    distinct = len({text[:end] for text in texts for end in range(1, len(text) + 1)})
    found = need(LOCAL)
    assert (found.requests, found.tokens) == (len(texts), round(distinct / CHARS_A_BRANCH))


def test_a_large_set_is_sampled() -> None:
    many = cups(SAMPLE * 5)
    asked = len([r for p in plan(many, Asking()) for r in p.requests])
    assert need(LOCAL, items=many).requests == pytest.approx(asked, rel=0.02)


def test_a_server_is_sent_letters_of_one_prompt_together_and_is_paid() -> None:
    planned = plan(ITEMS, Asking())
    sends = sum(1 if p.template.by_letter else len(p.requests) for p in planned)
    found = need(SERVER)
    assert found.cost == pytest.approx((found.tokens * 3.0 + sends * 10.0) / 1e6)
    assert need(SERVER.model_copy(update={"price_in": None})).cost is None


def test_a_restricted_set_says_no_tokens() -> None:
    assert need(LOCAL, restricted=True).tokens is None
    none = forecast("cups", ITEMS, Asking(), (), Path("nowhere"))
    assert (none.is_long, none.needs) == (False, ())


def test_the_words_fit_a_terminal() -> None:
    found = forecast("cups", ITEMS, Asking(), (LOCAL, SERVER), Path("nowhere"))
    lines = forecast_lines(found, 61)
    assert all(len(line) < 80 for line in lines), lines
    assert "cost " in lines[2]
    assert lines[-1:] == ["trial run: a verdict needs at least 61 items (limits.min_items)"]
    assert forecast_lines(found, 60) == lines[:-1]
