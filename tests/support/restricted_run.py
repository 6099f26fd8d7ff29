"""A restricted run over the mock set, asked of two made-up models, so that no weights are needed."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from robustify.base.key_file import evaluator_key
from robustify.items.views import Request
from robustify.judging import Judgement
from robustify.judging.summary.result import Summary
from robustify.models.engines.protocols import Logprob, Progress, no_progress
from robustify.pipeline import model_steps, steps
from robustify.pipeline.config import Config, parse
from robustify.pipeline.run_input import RunInput
from robustify.restricted.adapters import with_adapter
from robustify.restricted.disclosure import record
from robustify.restricted.restricted_folder import RestrictedPolicy
from robustify.runs.run import Run
from robustify.wings import wings
from tests.support import files as files
from tests.support import restricted_set
from tests.support.fake_scorer import FakeScorer, opens
from tests.support.readers import share

NAMES = ("stub-a", "stub-b")
environment = restricted_set.environment


class Stub(FakeScorer):
    """Likes long texts, knows a little, and is otherwise a fixed whim of each prompt."""

    def __init__(self, name: str) -> None:
        super().__init__(self._score, name)

    def _score(self, request: Request) -> float:
        whim = share(self.name, request.context[-60:], request.continuation)
        per_char = -2.0 + whim + (1.2 if len(request.continuation.split()) >= 8 else 0.0)
        return per_char * max(1, len(request.continuation))


def config(**changes: Any) -> Config:
    """A config of the mock adapter with both stubs."""

    tree: dict[str, Any] = {
        "name": "mock",
        "adapter": restricted_set.ADAPTER,
        "models": list(NAMES),
        "asking": {"rotations": "all", "orders": 3, "order_items": 40},
        "screen": {"criterion": "unanimous", "mode": "text"},
        **changes,
    }
    return parse(with_adapter(tree, "mock.yaml"), "mock.yaml")


def prepare(folder: Path, monkeypatch: pytest.MonkeyPatch, n: int = 200, **changes: Any) -> Path:
    """Sets the environment up; a private folder for runs."""
    for name, value in restricted_set.prepared(folder, n, **changes).items():
        monkeypatch.setenv(name, value)
    record.begin(evaluator_key(), record.record_file())
    opens(monkeypatch, Stub)
    monkeypatch.setattr(model_steps, "check_model", lambda model, *_: {"sha256": model.name})
    return folder / "out"


def while_asked(patch: pytest.MonkeyPatch, act: Callable[[list[Request]], object]) -> None:
    """Do this with what a stub is asked, whenever it is asked."""

    class Odd(Stub):
        def loglikelihoods(self, requests: list[Request], progress: Progress = no_progress) -> list[Logprob]:
            act(requests)
            return super().loglikelihoods(requests, progress)

    opens(patch, Odd)


def run(folder: Path, out: Path, told: Config | None = None) -> Run:
    """The mock set, audited into this folder."""
    return steps.robustify(told or config(), out, folder / "cache", wings())


@dataclass(frozen=True)
class Inside:
    """What a run knew and did not write."""

    asked: RunInput
    judgement: Judgement

    @property
    def summary(self) -> Summary:
        """The exact summary."""
        return self.judgement.summary


def audited(folder: Path, n: int = 200, told: Mapping[str, Any] | None = None, **changes: Any) -> Inside:
    """The mock set prepared and audited in a folder of its own; the run is `out/run`."""
    folder.chmod(0o700)
    seen: list[Inside] = []
    real = RestrictedPolicy.write

    def kept(writer: RestrictedPolicy, place: Path, asked: RunInput, judgement: Judgement) -> Run:
        seen.append(Inside(asked, judgement))
        return real(writer, place, asked, judgement)

    with pytest.MonkeyPatch.context() as patch:
        out = prepare(folder, patch, n, **changes)
        patch.setattr(RestrictedPolicy, "write", kept)
        run(folder, out / "run", config(**(told or {})))
    return seen[0]


_DONE: list[tuple[Path, Inside]] = []


def once(factory: pytest.TempPathFactory) -> Path:
    """The folder in which the mock set was prepared and audited, once for all tests; the run is `out/run`."""
    return _done(factory)[0]


def inside_once(factory: pytest.TempPathFactory) -> Inside:
    """What the run of `once` knew."""
    return _done(factory)[1]


def _done(factory: pytest.TempPathFactory) -> tuple[Path, Inside]:
    if not _DONE:
        base = factory.mktemp("restricted", numbered=True)
        _DONE.append((base, audited(base)))
    return _DONE[0]


def copied(run_folder: Path, to: Path) -> Path:
    """A run that may be spoiled."""
    shutil.copytree(run_folder, to)
    to.chmod(0o700)
    return to
