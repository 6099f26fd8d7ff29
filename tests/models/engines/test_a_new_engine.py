"""The contract of engines: a new engine is one class of settings and one entry."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from robustify.base.errors import UsageError
from robustify.items.views import Asking, Request
from robustify.models.costs import forecast
from robustify.models.engines import ENGINES, Engine, check_model, open_scorer
from robustify.models.engines.protocols import Logprob, Progress, no_progress
from robustify.models.model_settings import ModelSettings
from robustify.pipeline.config import parse, with_models
from tests.support.fake_logs import boxes


class Abacus:
    """A scorer that prefers short continuations."""

    def __init__(self, name: str) -> None:
        self.name = name

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        return [Logprob(-float(len(request.continuation)), 1) for request in requests]

    def fingerprint(self) -> dict[str, str]:
        return {"engine": "abacus"}


class AbacusModel(ModelSettings):
    """Model on an abacus, which has a price per bead and sends its prompts to another room."""

    engine: Literal["abacus"]
    beads: int = 10
    sends_prompts = True

    @property
    def hosts(self) -> tuple[str, ...]:
        return ("https://next.room",)

    def cost(self, tokens: int, written: int, letters: int = 0) -> float | None:
        return float(self.beads)


def check(model: AbacusModel, cache: Path, templates: Sequence[Any]) -> dict[str, str]:
    return {"beads": str(model.beads)}


@contextmanager
def opened(model: AbacusModel, cache: Path, scores: object) -> Iterator[Abacus]:
    yield Abacus(model.name)


def config(**model: object) -> dict[str, object]:
    return {
        "name": "x",
        "sensitivity": "public",
        "data": ["x.jsonl"],
        "models": [{"engine": "abacus", **model}],
    }


def test_a_made_up_engine_is_one_class_and_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"models\[0\]\.engine: .*hf, ray, openai"):
        parse(config(name="a"), "c.yaml")
    monkeypatch.setitem(ENGINES, "abacus", Engine(AbacusModel, check, opened))
    read = parse(config(name="a", beads=3), "c.yaml")
    (model,) = read.models
    assert model == AbacusModel(name="a", engine="abacus", beads=3)
    assert read.model_dump(mode="json")["models"][0]["beads"] == 3
    assert with_models(read, ["a"]).models == (model,)
    with pytest.raises(UsageError, match=r"models\[0\]\.beeds: .*beads"):
        parse(config(name="a", beeds=3), "c.yaml")
    assert check_model(model, tmp_path) == {"beads": "3"}
    with open_scorer(model, tmp_path) as scorer:
        assert [s.total for s in scorer.loglikelihoods([Request("", " a"), Request("", " abc")])] == [
            -2.0,
            -4.0,
        ]
    (need,) = forecast("x", boxes(), Asking(), [model], tmp_path).needs
    assert (need.model, need.cost, need.megabytes) == ("a", 3.0, 0)
