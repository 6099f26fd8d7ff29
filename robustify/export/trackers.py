"""A public run as a run of MLflow or of Weights and Biases: its numbers, report and summary."""

import re

from robustify.export.writing import optional_package, require_public
from robustify.run import Run
from robustify.summary.quantity import tabulated

KEPT = ("summary.json", "report.html", "report.md")
"""The files that a tracker keeps; none has the text of an item."""


def log_to_mlflow(run: Run, experiment: str = "") -> str:
    """Log a run where MLflow is set up to log (`MLFLOW_TRACKING_URI`); the id that MLflow gives it.

    Raises:
        AuthorisationError: a restricted run.
        DataError: the run was changed.
        UsageError: MLflow is not installed.
    """
    require_public(run)
    run.require_unchanged(*KEPT)
    mlflow = optional_package("mlflow")
    if experiment:
        mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=str(run.manifest["config"]["name"])) as started:
        mlflow.log_params({"signature": str(run.manifest["signature"])[:6000]})
        mlflow.log_metrics(numbers(run))
        for name in KEPT:
            mlflow.log_artifact(str(run.folder / name))
    return str(started.info.run_id)


def numbers(run: Run) -> dict[str, float]:
    """The numbers of the summary by their dotted names, in characters that trackers take; `NAME.n` is what one rests on."""
    out: dict[str, float] = {}
    for row in tabulated(run.summary):
        name, value = re.sub(r"[^\w./ -]", "_", row["field"]), row["value"]
        if isinstance(value, int | float) and not isinstance(value, bool):
            out[name] = float(value)
            out |= {f"{name}.n": float(row["n"])} if row["n"] is not None else {}
    return out


def log_to_wandb(run: Run, project: str = "robustify") -> str:
    """Log a run to this project, as `wandb` is set up (`WANDB_MODE=offline` keeps it here); the id that it gives it.

    Raises:
        AuthorisationError: a restricted run.
        DataError: the run was changed.
        UsageError: wandb is not installed.
    """
    require_public(run)
    run.require_unchanged(*KEPT)
    wandb = optional_package("wandb")
    name = str(run.manifest["config"]["name"])
    config = {"signature": str(run.manifest["signature"])}
    with wandb.init(project=project, name=name, config=config) as started:
        started.summary.update(numbers(run))
        artifact = wandb.Artifact(name, type="robustify-run")
        for file in KEPT:
            artifact.add_file(str(run.folder / file))
        started.log_artifact(artifact)
    return str(started.id)
