"""Export of a run's splits as lm-eval tasks, or as sample numbers of a task of lm-eval."""

from collections.abc import Sequence
from pathlib import Path

from robustify.export.free_grading import write_free_task
from robustify.export.lm_eval_tasks import write_tasks
from robustify.export.sample_numbers import export_sample_numbers
from robustify.export.writing import FORCE, SPLITS, TRIM, Option, copied, exporting, files_of
from robustify.run import Run

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
