"""What asking will take: what is counted is counted rightly, and what is not known is not said."""

import json
import struct
from pathlib import Path

import pytest

from robustify.ask import Asking, plan
from robustify.ask import forecast as forecasts
from robustify.ask.forecast import CHARS_A_BRANCH, SAMPLE, forecast
from robustify.engines.settings import HFModel, OpenAIModel
from robustify.item import Item
from robustify.report.opening import forecast_lines

ITEMS = [
    Item(f"i{n}", f"Which cup number {n} is meant?", (f"red {n}", "green", "blue tin", "grey"), n % 4, "cups")
    for n in range(60)
]
SERVER = OpenAIModel(
    name="far",
    engine="openai",
    base_url="https://example.org/v1",
    price_in=3.0,
    price_out=10.0,
    concurrency=4,
)
LOCAL = HFModel(name="smollm2-135m")


def need(
    *models: object, items: list[Item] = ITEMS, cache: Path = Path("nowhere"), **more: object
) -> forecasts.Need:
    found = forecast("cups", items, Asking(), models, (), cache, **more)
    return found.needs[0]


def test_requests_are_those_of_the_plan_and_beginnings_count_once() -> None:
    texts = [r.context + r.continuation for p in plan(ITEMS, Asking()) for r in p.requests]
    distinct = len({text[:end] for text in texts for end in range(1, len(text) + 1)})
    found = need(LOCAL)
    assert (found.requests, found.tokens) == (len(texts), round(distinct / CHARS_A_BRANCH))


def test_a_large_set_is_sampled() -> None:
    many = [
        Item(
            f"j{n}",
            f"Which cup number {n} is meant?",
            (f"red {n}", "green", "blue tin", "grey"),
            n % 4,
            "cups",
        )
        for n in range(SAMPLE * 5)
    ]
    asked = len([r for p in plan(many, Asking()) for r in p.requests])
    assert need(LOCAL, items=many).requests == pytest.approx(asked, rel=0.02)


def test_a_server_is_sent_letters_of_one_prompt_together_and_is_paid() -> None:
    planned = plan(ITEMS, Asking())
    sends = sum(1 if p.template.by_letter else len(p.requests) for p in planned)
    found = need(SERVER)
    assert found.seconds == sends / 4 * forecasts.A_REPLY
    assert found.cost == pytest.approx((found.tokens * 3.0 + sends * 10.0) / 1e6)
    assert need(SERVER.model_copy(update={"price_in": None})).cost is None


def test_a_restricted_set_says_no_tokens_and_an_unknown_device_no_time() -> None:
    assert need(LOCAL, restricted=True).tokens is None
    assert need(HFModel(name="smollm2-135m", device="cuda:0")).seconds is None
    assert need(LOCAL).seconds is not None
    none = forecast("cups", ITEMS, Asking(), (), (), Path("nowhere"))
    assert (none.seconds, none.needs) == (0.0, ())


def test_a_folder_s_numbers_are_counted_by_its_header(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"shape": [10, 20]},
        "b": {"shape": [7]},
        "c": {"shape": []},
    }
    raw = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw)
    assert forecasts.parameters(str(tmp_path)) == 208


@pytest.mark.parametrize(
    "header",
    [
        b"{",
        b"\xff\xfe",
        b"[1]",
        b'{"a": 1}',
        b'{"a": {}}',
        b'{"a": {"shape": null}}',
        b'{"a": {"shape": [[]]}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_header_of_weights_is_a_size_that_is_not_known(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    assert forecasts.parameters(str(tmp_path)) is None


def test_the_words_fit_a_terminal() -> None:
    found = forecast("cups", ITEMS, Asking(), (LOCAL, SERVER), ("smollm2-135m",), Path("nowhere"))
    lines = forecast_lines(found)
    assert all(len(line) < 80 for line in lines), lines
    assert "cost " in lines[2]
