"""MLflow and Weights and Biases get the numbers of a public run, in the calls that their clients know."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from robustify.errors import AuthorisationError, RobustifyError, UsageError
from robustify.export.every_eval import KEPT, log_to_mlflow, log_to_wandb, numbers
from robustify.run import Run


class Started:
    """What `start_run` and `init` give: a context with an id, a summary and artifacts."""

    def __init__(self) -> None:
        self.info, self.id = SimpleNamespace(run_id="r1"), "w1"
        self.summary: dict[str, float] = {}
        self.logged: list[Any] = []

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def log_artifact(self, artifact: Any) -> None:
        self.logged.append(artifact)


class Artifact:
    def __init__(self, name: str, type: str) -> None:
        self.name, self.type = name, type
        self.files: list[str] = []

    def add_file(self, path: str) -> None:
        self.files.append(Path(path).name)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stubs of both packages; what was called with what."""
    seen: dict[str, Any] = {"files": [], "started": Started()}

    def started(**given: Any) -> Started:
        seen["given"] = given
        return seen["started"]

    def kept(name: str) -> Any:
        return lambda value: seen.update({name: value})

    mlflow: Any = ModuleType("mlflow")
    mlflow.start_run, mlflow.set_experiment = started, kept("experiment")
    mlflow.log_params, mlflow.log_metrics = kept("params"), kept("metrics")
    mlflow.log_artifact = lambda path: seen["files"].append(Path(path).name)
    wandb: Any = ModuleType("wandb")
    wandb.init, wandb.Artifact = started, Artifact
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    return seen


def test_the_numbers_are_those_of_the_summary(run: Run) -> None:
    found = numbers(run)
    flagged = run.summary.tree()["screen"]["flagged"]
    assert (found["screen.flagged"], found["screen.flagged.n"]) == (flagged["value"], flagged["n"])
    assert not any(
        set(name) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./ -")
        for name in found
    )


def test_mlflow_gets_numbers_and_files(run: Run, calls: dict[str, Any]) -> None:
    assert log_to_mlflow(run, "audits") == "r1"
    assert (calls["experiment"], calls["given"]) == ("audits", {"run_name": "made-up"})
    assert calls["metrics"] == numbers(run)
    assert calls["files"] == list(KEPT)
    assert calls["params"]["signature"] == run.manifest["signature"]


def test_wandb_gets_numbers_and_an_artifact(run: Run, calls: dict[str, Any]) -> None:
    assert log_to_wandb(run, "audits") == "w1"
    assert (calls["given"]["project"], calls["given"]["name"]) == ("audits", "made-up")
    assert calls["started"].summary == numbers(run)
    (artifact,) = calls["started"].logged
    assert artifact.files == list(KEPT)


@pytest.mark.parametrize("log", [log_to_mlflow, log_to_wandb])
def test_a_restricted_run_is_logged_nowhere(run: Run, calls: dict[str, Any], log: Any) -> None:
    config = {**run.manifest["config"], "sensitivity": "restricted"}
    with pytest.raises(AuthorisationError):
        log(Run(run.folder, {**run.manifest, "config": config}))
    assert "given" not in calls


@pytest.mark.parametrize(("log", "name"), [(log_to_mlflow, "mlflow"), (log_to_wandb, "wandb")])
def test_a_missing_package_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, log: Any, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=f"pip install {name}") as refused:
        log(run)
    assert isinstance(refused.value, RobustifyError)
