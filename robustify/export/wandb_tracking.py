"""A public run as a run of Weights and Biases: the numbers of its summary, the report and the summary as an artifact."""

from robustify.export.mlflow_tracking import KEPT, numbers
from robustify.export.writing import optional_package, require_public
from robustify.run import Run


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
