"""Several servers of one model: they share its requests, one may die, and no number depends on which one answered."""

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the openai extra is not installed")

from robustify.base.errors import ModelError, UsageError
from robustify.items.views import Request
from robustify.models.engines.cache import Cache
from robustify.models.engines.openai import servers
from robustify.models.engines.openai.engine import OpenAIServer
from robustify.models.model_settings import OpenAIModel
from robustify.pipeline.config import parse
from tests.support.cases import refuses
from tests.support.openai_stub import Stub, Toy, model, scored, stub
from tests.support.server_cases import Cut

KINDS: dict[str, dict[str, Any]] = {
    "echo": {},
    "next tokens": {"echo": "none"},
    "chat": {"completions": False, "letters": "structured"},
}
MANY = [
    Request(f"A. blue\nB. red {n}\nC. green\nAnswer:", f" {letter}") for n in range(40) for letter in "ABC"
]
PROMPTS = [f"Say {n}." for n in range(30)]
TIRED: list[Any] = [(503, {})] * 500


@pytest.fixture
def two() -> Iterator[list[Stub]]:
    with ExitStack() as open_:
        yield [open_.enter_context(stub(service=0.002)) for _ in range(2)]


def die_after(server: Stub, n_completions: int) -> None:
    """Let a server be tired after so many completions, for good."""
    server.manner.faults = [None] * n_completions + TIRED


def served(servers: list[Stub], **changes: Any) -> OpenAIModel:
    urls = [server.url for server in servers]
    return model(servers[0], base_urls=urls, **{"retries": 0, "concurrency": 2, **changes})


def test_both_answer_and_the_numbers_and_the_fingerprint_are_those_of_one(
    two: list[Stub], tmp_path: Path
) -> None:
    with stub() as alone, OpenAIServer(model(alone)) as engine:
        expected, printed = engine.loglikelihoods(MANY), engine.fingerprint()
    with Cache(tmp_path) as cache, OpenAIServer(served(two), cache) as engine:
        assert (engine.loglikelihoods(MANY), engine.fingerprint()) == (expected, printed)
        counts = [server.completions for server in two]
        assert min(counts) > sum(counts) / 4
        assert engine.usage()["calls"] == sum(counts) + len(two)  # each lists its models once
        assert engine.usage()["model"] == "toy"
    # The scores are those of the model, so either server reads them from the cache.
    assert scored(two[1], tmp_path, MANY) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dies", [0, 1])
def test_one_dies_during_the_run_and_the_rest_go_on(
    kind: str, dies: int, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as open_:
        three = [open_.enter_context(stub(**KINDS[kind])) for _ in range(3)]

        die_after(three[dies], 15)
        with OpenAIServer(served(three, samples=3 if kind == "chat" else None)) as engine:
            with caplog.at_level(logging.WARNING):
                found = engine.loglikelihoods(MANY)
            asked = [server.completions for server in three]
            if kind == "echo":
                with stub() as alone, OpenAIServer(model(alone)) as other:
                    assert found == other.loglikelihoods(MANY)
            assert len(found) == len(MANY)
            assert f"toy (server {dies + 1} of 3)" in caplog.text
            assert "2 of 3 servers" in caplog.text
            # The lost server is not asked again at once.
            engine.loglikelihoods(MANY[:3])
            assert three[dies].completions == asked[dies]


def test_a_dead_server_costs_one_retry_a_request_and_the_last_one_has_all(
    monkeypatch: pytest.MonkeyPatch, two: list[Stub]
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    first, other = two

    die_after(first, 15)
    with OpenAIServer(served(two, retries=6)) as engine:
        found = engine.loglikelihoods(MANY)
        # What is under way is sent twice, the question of each thread and a probe. Nothing is asked after that.
        assert 15 < first.completions <= 15 + 2 * (2 * 2 + 1)
        other.manner.faults = [(503, {})] * 6
        assert engine.loglikelihoods(MANY[:3]) == found[:3]


def test_a_server_that_replies_again_joins_unless_it_has_another_model(
    monkeypatch: pytest.MonkeyPatch, two: list[Stub], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(servers, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(servers, "LONGEST_PAUSE", 0.05)

    def said(words: str) -> None:
        end = time.monotonic() + 60
        while words not in caplog.text:
            assert time.monotonic() < end, caplog.text
            time.sleep(0.01)

    caplog.set_level(logging.WARNING)
    with OpenAIServer(served(two)) as engine:
        expected = engine.loglikelihoods(MANY)
        two[0].manner.faults = [(503, {})] * 6
        assert engine.loglikelihoods(MANY) == expected
        said("toy (server 1 of 2) replies again")
        before = two[0].completions
        assert engine.loglikelihoods(MANY) == expected
        assert two[0].completions > before + len(MANY) // 12
        two[1].brain, two[1].manner.faults = Toy(seed=5), [(503, {})] * 6
        assert engine.loglikelihoods(MANY) == expected
        said("model than at the start of the run")
        assert engine.loglikelihoods(MANY) == expected


def test_what_a_server_answered_before_it_died_is_asked_again() -> None:
    """Its last answers were never followed by a probe, so they may be those of another model."""
    with ExitStack() as open_:
        right, wrong = open_.enter_context(stub()), open_.enter_context(stub())
        usual = wrong.answer

        def turning(path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
            if wrong.completions == 22:
                wrong.brain = Toy(seed=7)
            if wrong.completions > 22 and body.get("prompt", "").startswith("The capital"):
                wrong.manner.faults = list(TIRED)
            return usual(path, body, headers)

        wrong.answer = turning  # type: ignore[method-assign]
        with (
            OpenAIServer(served([right, wrong])) as engine,
            stub() as alone,
            OpenAIServer(model(alone)) as other,
        ):
            assert engine.loglikelihoods(MANY) == other.loglikelihoods(MANY)
        assert wrong.completions > 23


def test_all_dead_is_an_error_and_one_dead_at_the_start_is_not(two: list[Stub], tmp_path: Path) -> None:
    gone = "http://127.0.0.1:9/v1"
    with OpenAIServer(model(gone, base_urls=[gone, two[0].url], retries=0)) as engine:
        assert len(engine.loglikelihoods(MANY[:6])) == 6
    for server in two:
        server.manner.faults = list(TIRED)
    with refuses("failing-server"):
        scored(two[0], tmp_path, MANY, base_urls=[server.url for server in two], retries=0)


LONG = [Request("many words of a passage " * 40 + request.context, request.continuation) for request in MANY]


@pytest.mark.parametrize(
    ("manner", "brain"),
    [
        ({}, Toy(seed=5)),
        ({"echo": "none"}, Toy()),
        ({"root": "other-model"}, Toy()),
        ({"says": "toy-2"}, Toy()),
        ({}, Cut()),
    ],
)
def test_another_model_on_one_server_or_one_that_cuts_prompts_ends_the_run(
    manner: dict[str, Any], brain: Toy
) -> None:
    with (
        stub() as first,
        stub(brain, **manner) as second,
        OpenAIServer(served([first, second])) as engine,
        pytest.raises(ModelError, match="server 2 of 2"),
    ):
        engine.loglikelihoods([*MANY, *LONG] if isinstance(brain, Cut) else MANY)


def test_free_replies_are_shared_and_survive_a_server(two: list[Stub]) -> None:
    die_after(two[1], 8)
    with OpenAIServer(served(two)) as engine:
        assert engine.write(PROMPTS, max_tokens=5) == [f"echo {len(prompt)}" for prompt in PROMPTS]
    assert two[1].completions >= 8


def test_a_config_names_one_server_or_several() -> None:
    def config(**keys: Any) -> OpenAIModel:
        tree = {"name": "s", "sensitivity": "public", "data": [{"path": "i.jsonl"}]}
        found = parse({**tree, "models": [{"name": "m", "engine": "openai", **keys}]}, "c.yaml").models[0]
        assert isinstance(found, OpenAIModel)
        return found

    a, b = "http://10.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"
    several = config(base_urls=[a, b])
    assert several.hosts == (a,)
    assert config(base_urls=[b, a]).hosts == (a,)
    # A stored config has no hosts, and is read again.
    assert "10.0.0.1" not in several.model_dump_json()
    assert OpenAIModel.model_validate(several.model_dump(mode="json")).base_urls
    wrong: tuple[dict[str, Any], ...] = ({}, {"base_urls": []}, {"base_url": b, "base_urls": [a, b]})
    for keys in wrong:
        with pytest.raises(UsageError):
            config(**keys)
