"""What asking will take: what is counted is counted rightly, and what is not known is not said."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from robustify.items.item import Item
from robustify.items.views import Asking
from robustify.models import forecast as forecasts
from robustify.models.asking import plan
from robustify.models.costs import SAMPLE, SPEEDS, Stopwatch, forecast, remaining_requests, store_pace
from robustify.models.forecast import CHARS_A_BRANCH
from robustify.models.model_settings import HFModel, OpenAIModel
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
    assert found.probes == 12
    assert found.cost == pytest.approx((found.tokens * 3.0 + (sends + 12) * 10.0) / 1e6)
    several = SERVER.model_copy(update={"base_urls": ("https://a.org/v1", "https://b.org/v1")})
    assert (need(several).probes, need(LOCAL).probes) == (24, 0)
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
    assert "min_items" in lines[-1]
    assert forecast_lines(found, 60) == lines[:-1]


class Paced:
    """A scorer that has some requests in its cache, and scores and keeps the others one by one."""

    def __init__(self, cached: int) -> None:
        self.cached, self.scored = cached, 0

    def loglikelihoods(self, requests: Sequence[Any], progress: Callable[[int], None]) -> list[Any]:
        progress(min(self.cached, len(requests)))
        for _ in requests[self.cached :]:
            self.scored += 1
            self.cached += 1
            progress(1)
        return []


@pytest.mark.parametrize("model", [LOCAL, SERVER])
def test_what_an_interrupted_run_left_is_counted_and_only_a_model_on_this_machine_is_asked(
    model: Any, tmp_path: Path
) -> None:
    planned, scorer = plan(ITEMS, Asking()), Paced(100)
    found = remaining_requests(scorer, planned, model, tmp_path)  # type: ignore[arg-type]
    assert (found.requests, found.n_unanswered) == (
        sum(len(p.requests) for p in planned),
        found.requests - 100 - scorer.scored,
    )
    assert (scorer.scored > 0, found.seconds is not None) == (model is LOCAL, model is LOCAL)
    assert remaining_requests(Paced(10**6), planned, model, tmp_path).seconds == 0.0  # type: ignore[arg-type]


def test_a_server_s_pace_is_remembered_without_its_address(tmp_path: Path) -> None:
    watch = Stopwatch()
    for n in (7, *[1] * 30):
        watch(n)
    store_pace(watch, SERVER, tmp_path)
    found = remaining_requests(Paced(0), plan(ITEMS, Asking()), SERVER, tmp_path)  # type: ignore[arg-type]
    assert found.seconds == pytest.approx(found.n_unanswered * (watch.pace or 0), rel=0.06)
    assert "example" not in (tmp_path / SPEEDS).read_text()
    (tmp_path / SPEEDS).write_text("[1]")
    assert remaining_requests(Paced(0), plan(ITEMS, Asking()), SERVER, tmp_path).seconds is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("seconds", "said"), [(0.2, "1 s"), (89, "89 s"), (240, "4 min"), (9000, "2.5 h")])
def test_a_time_is_said_in_one_unit(seconds: float, said: str) -> None:
    known = forecast("cups", ITEMS, Asking(), [LOCAL], Path("nowhere"))
    left = forecasts.with_remaining(known, {LOCAL.name: forecasts.Remaining(500, 400, seconds)})
    assert re.search(rf"400 left .*\(about {re.escape(said)}\)", forecast_lines(left)[1])
