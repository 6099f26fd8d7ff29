"""Export of a run's splits as tasks of lm-eval and of Inspect."""

from collections.abc import Sequence
from pathlib import Path

from robustify.base.files import write_text
from robustify.export import writing
from robustify.export.free_grading import FreeRows, free_rows, write_free_task
from robustify.export.lm_eval_tasks import VERSION, task_name, write_tasks
from robustify.runs.run import Run, write_items, write_lines


def export_lm_eval(run: Run, folder: Path, kept: bool = False, trim: bool = False) -> list[Path]:
    """Write a run's splits as lm-eval tasks with their data, including a task without options. Return the paths."""
    with writing.exporting(run, folder, kept) as (staging, heading):
        tasks = staging / "lm_eval_tasks"
        splits = {name: writing.exported_items(run, name, trim) for name in writing.SPLITS}
        write_tasks(tasks, heading, splits, run.manifest["config"].get("hidden", "question"))
        write_free_task(tasks, heading, free_rows(splits["kept"]))
    return writing.files_of(folder)


def export_inspect(run: Run, folder: Path, kept: bool = False, trim: bool = False) -> list[Path]:
    """Write a run's splits as Inspect tasks, each a Python file with its data. Return the paths."""
    with writing.exporting(run, folder, kept) as (staging, heading):
        splits = {name: writing.exported_items(run, name, trim) for name in writing.SPLITS if name != "cloze"}
        for name, items in splits.items():
            if items:
                write_items(staging / f"{name}.jsonl", items)
        free = free_rows(splits["kept"])
        if free.rows:
            write_lines(staging / "kept_free.jsonl", free.rows)
        write_inspect(staging, heading, [name for name, items in splits.items() if items], free)
    return writing.files_of(folder)


def write_inspect(folder: Path, heading: writing.Heading, splits: Sequence[str], free: FreeRows) -> None:
    """Write an Inspect task file for each split, and for the questions without options if there are any.

    `folder` contains `SPLIT.jsonl` and `kept_free.jsonl`. A task contains no item text. Choices may be shuffled, because
    logs are matched by the text of the choices and not by letters.
    """
    tasks = [(split, "inspect_split.py.j2", f"the {split} items as an Inspect task.") for split in splits]
    if free.rows:
        tasks.append(("kept_free", "inspect_free.py.j2", f"the kept items without options; {free.says}."))
    for split, template, says in tasks:
        head, name = writing.commented(heading.lines(says)), task_name(heading.benchmark, split)
        text = writing.ENVIRONMENT.get_template(template).render(
            head=head, split=split, name=name, version=VERSION
        )
        write_text(folder / f"{split}.py", text)


LM_EVAL = writing.Exporter(
    "lm-eval",
    r"""Write tasks for lm-eval.

    The tasks run offline. They contain the kept, flagged, and cloze items, the kept items without their
    question, and the kept questions without options for free-text answers.

    \b
    Examples:
        robustify export lm-eval results/demo -o tasks
        cd tasks && lm_eval run --include_path lm_eval_tasks --tasks demo_benign_kept
    """,
    export_lm_eval,
    {"kept": writing.KEPT, "trim": writing.TRIM},
)
INSPECT = writing.Exporter(
    "inspect",
    r"""Write tasks for Inspect, with a Python file per split.

    \b
    Example:
        robustify export inspect results/demo -o tasks
        inspect eval tasks/kept.py --model MODEL
    """,
    export_inspect,
    {"kept": writing.KEPT, "trim": writing.TRIM},
)
