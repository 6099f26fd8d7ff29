"""Export of a run's splits as lm-eval tasks, or as row numbers for lm-eval's `--samples` option and its built-in tasks.

The row numbers contain neither text nor IDs, so they can be published with any benchmark. lm-eval counts samples by row, so
the run must contain every row of the audited file.
"""

from collections.abc import Sequence
from pathlib import Path

from robustify.errors import DataError
from robustify.export.free_grading import write_free_task
from robustify.export.lm_eval_tasks import write_tasks
from robustify.export.writing import (
    FORCE,
    SPLITS,
    TRIM,
    Option,
    copied,
    exporting,
    files_of,
    heading_of,
    require_public,
    staged,
)
from robustify.files import write_json
from robustify.run import VERDICTS, Run

HELP = r"""Write tasks for lm-eval.

The tasks run offline. They contain the robust, shortcut, and cloze items, the robust items without their
question, groups by topic, and the robust questions without options for free-text answers. With --upstream,
the export contains two files of sample numbers and no item text.

\b
Examples:
    robustify export lm-eval results/demo -o tasks
    cd tasks && lm_eval run --include_path lm_eval_tasks --tasks demo_benign_robust
    robustify export lm-eval results/arc -o samples --upstream arc_challenge
    lm_eval run --tasks arc_challenge --samples samples/arc_challenge_robust.json
"""
OUT = "Write the files into this new or empty folder."
OPTIONS = {
    "force": FORCE,
    "trim": TRIM,
    "upstream": Option(
        "Write only the sample numbers of the robust and shortcut items of this lm-eval task.", "TASK"
    ),
}


def export(
    run: Run, folder: Path, force: bool = False, trim: bool = False, upstream: str | None = None
) -> Sequence[Path]:
    """Write the tasks of a run, or the sample numbers of an upstream task. Return the paths."""
    if upstream is not None:
        return export_sample_numbers(run, folder, upstream, force)
    return export_lm_eval(run, folder, force, trim)


def export_lm_eval(run: Run, folder: Path, force: bool = False, trim: bool = False) -> list[Path]:
    """Write a run's splits as lm-eval tasks with their data, including a task without options. Return the paths."""
    with exporting(run, folder, force) as (staging, heading):
        free, tasks = copied(run, staging, SPLITS, trim), staging / "lm_eval_tasks"
        write_tasks(tasks, heading.benchmark, signature=heading.signature, warning=heading.warning)
        write_free_task(tasks, heading, free)
    return files_of(folder)


def export_sample_numbers(run: Run, folder: Path, task: str, force: bool = False) -> list[Path]:
    """Write `TASK_SPLIT.json` for each of two splits, as `{TASK: [row, ...]}` with zero-based rows. Return the paths. Raise
    `RobustifyError` if the run cannot be exported, has no robust items, or does not contain every row of one file."""
    require_public(run)
    heading_of(run, force)
    run.require_unchanged("summary.json", VERDICTS)
    if missing := _missing(run):
        raise DataError(f"{run.folder}: the run {missing}, so its row numbers differ from lm-eval's. Expected a run of one "
                        "file in which every row is an item.")  # fmt: skip
    rows = list(run.verdicts.values())
    numbers = {
        split: [at for at, verdict in enumerate(rows) if verdict == split] for split in ("robust", "shortcut")
    }
    if not numbers["robust"]:
        raise DataError(
            f"{run.folder}: no item is robust, so there is nothing to export. Choose another run."
        )
    with staged(folder) as staging:
        for split, samples in numbers.items():
            if samples:
                write_json(staging / f"{task}_{split}.json", {task: samples})
    return files_of(folder)


def _missing(run: Run) -> str:
    """Return the reason why the run's row numbers may differ from the file's, or ""."""
    data, origin = run.manifest["data"], run.manifest.get("import")
    if len(run.manifest["config"]["data"]) > 1:
        return "audited several files"
    if data["quarantined"]:
        return f"set {len(data['quarantined'])} rows aside"
    if origin and (origin["items"]["from"] != "data" or origin["items"]["left_out"]):
        return "was imported from logs that may lack items"
    return ""
