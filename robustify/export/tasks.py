"""Export of a run's splits as tasks of lm-eval and of Inspect, or as row numbers for lm-eval's `--samples` option.

The row numbers contain neither text nor IDs, so they can be published with any benchmark. lm-eval counts samples by row, so
the run must contain every row of the audited file.
"""

from collections.abc import Sequence
from pathlib import Path

from robustify.base.errors import DataError
from robustify.base.files import write_json, write_text
from robustify.export.free_grading import FreeRows, free_rows, write_free_task
from robustify.export.lm_eval_tasks import VERSION, task_name, write_tasks
from robustify.export.writing import (
    ENVIRONMENT,
    FORCE,
    SPLITS,
    TRIM,
    Exporter,
    Heading,
    Option,
    commented,
    exported_items,
    exporting,
    files_of,
    refuse_restricted,
    staged,
)
from robustify.runs.run import VERDICTS, Run, write_items, write_lines


def export_lm_eval(
    run: Run, folder: Path, force: bool = False, trim: bool = False, upstream: str | None = None
) -> list[Path]:
    """Write a run's splits as lm-eval tasks with their data, including a task without options. Return the paths.

    With `upstream`, the name of a built-in task, write only the row numbers of its robust and shortcut items.
    """
    if upstream is not None:
        return _export_sample_numbers(run, folder, upstream, force)
    with exporting(run, folder, force) as (staging, heading):
        tasks, splits = staging / "lm_eval_tasks", {name: exported_items(run, name, trim) for name in SPLITS}
        write_tasks(tasks, heading, splits)
        write_free_task(tasks, heading, free_rows(splits["robust"]))
    return files_of(folder)


def export_inspect(run: Run, folder: Path, force: bool = False, trim: bool = False) -> list[Path]:
    """Write a run's splits as Inspect tasks, each a Python file with its data. Return the paths."""
    with exporting(run, folder, force) as (staging, heading):
        splits = {name: exported_items(run, name, trim) for name in SPLITS if name != "cloze"}
        for name, items in splits.items():
            if items:
                write_items(staging / f"{name}.jsonl", items)
        free = free_rows(splits["robust"])
        if free.rows:
            write_lines(staging / "robust_free.jsonl", free.rows)
        write_inspect(staging, heading, [name for name, items in splits.items() if items], free)
    return files_of(folder)


def write_inspect(folder: Path, heading: Heading, splits: Sequence[str], free: FreeRows) -> None:
    """Write an Inspect task file for each split, and for the questions without options if there are any.

    `folder` contains `SPLIT.jsonl` and `robust_free.jsonl`. A task contains no item text. Choices may be shuffled, because
    logs are matched by the text of the choices and not by letters.
    """
    tasks = [(split, "inspect_split.py.j2", f"the {split} items as an Inspect task.") for split in splits]
    if free.rows:
        tasks.append(("robust_free", "inspect_free.py.j2", f"the robust items without options; {free.says}."))
    for split, template, says in tasks:
        head, name = commented(heading.lines(says)), task_name(heading.benchmark, split)
        text = ENVIRONMENT.get_template(template).render(head=head, split=split, name=name, version=VERSION)
        write_text(folder / f"{split}.py", text)


def _export_sample_numbers(run: Run, folder: Path, task: str, force: bool) -> list[Path]:
    """Write `TASK_SPLIT.json` for each of two splits, as `{TASK: [row, ...]}` with zero-based rows. Return the paths. Raise
    `RobustifyError` if the run cannot be exported, has no robust items, or does not contain every row of one file."""
    refuse_restricted(run)
    Heading.of(run, force)
    run.require_unchanged("summary.json", VERDICTS)
    data, origin, missing = run.manifest["data"], run.manifest.get("import"), ""
    if len(run.manifest["config"]["data"]) > 1:
        missing = "audited several files"
    elif data["quarantined"]:
        missing = f"set {len(data['quarantined'])} rows aside"
    elif origin and (origin["items"]["from"] != "data" or origin["items"]["left_out"]):
        missing = "was imported from logs that may lack items"
    if missing:
        raise DataError(f"{run.folder}: the run {missing}, so its row numbers differ from lm-eval's. Expected a run of one "
                        "file in which every row is an item.")  # fmt: skip
    rows = list(run.verdicts.values())
    if "robust" not in rows:
        raise DataError(
            f"{run.folder}: no item is robust, so there is nothing to export. Choose another run."
        )
    with staged(folder) as staging:
        for split in ("robust", "shortcut"):
            if samples := [at for at, verdict in enumerate(rows) if verdict == split]:
                write_json(staging / f"{task}_{split}.json", {task: samples})
    return files_of(folder)


LM_EVAL = Exporter(
    "lm-eval",
    r"""Write tasks for lm-eval.

    The tasks run offline. They contain the robust, shortcut, and cloze items, the robust items without their
    question, and the robust questions without options for free-text answers. With --upstream, the export
    contains two files of sample numbers and no item text.

    \b
    Examples:
        robustify export lm-eval results/demo -o tasks
        cd tasks && lm_eval run --include_path lm_eval_tasks --tasks demo_benign_robust
        robustify export lm-eval results/arc -o samples --upstream arc_challenge
        lm_eval run --tasks arc_challenge --samples samples/arc_challenge_robust.json
    """,
    export_lm_eval,
    {
        "force": FORCE,
        "trim": TRIM,
        "upstream": Option(
            "Write only the sample numbers of the robust and shortcut items of this lm-eval task.", "TASK"
        ),
    },
)
INSPECT = Exporter(
    "inspect",
    r"""Write tasks for Inspect, with a Python file per split.

    \b
    Example:
        robustify export inspect results/demo -o tasks
        inspect eval tasks/robust.py --model MODEL
    """,
    export_inspect,
    {"force": FORCE, "trim": TRIM},
)
