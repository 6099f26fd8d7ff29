"""Export of a run's splits as Inspect tasks, each a Python file with its data."""

from collections.abc import Sequence
from pathlib import Path

from robustify.export.free_grading import FreeRows
from robustify.export.heading import ENVIRONMENT, Heading, commented
from robustify.export.lm_eval_tasks import VERSION, task_name
from robustify.export.writing import FORCE, SPLITS, TRIM, copied, exporting, files_of
from robustify.files import write_text
from robustify.run import Run

HELP = r"""Write tasks for Inspect, with a Python file per split.

\b
Example:
    robustify export inspect results/demo -o tasks
    inspect eval tasks/robust.py --model MODEL
"""
OUT = "Write the files into this new or empty folder."
OPTIONS = {"force": FORCE, "trim": TRIM}


def export(run: Run, folder: Path, force: bool = False, trim: bool = False) -> list[Path]:
    """Write a run's splits as Inspect tasks, each a Python file with its data. Return the paths."""
    with exporting(run, folder, force) as (staging, heading):
        splits = [n for n in SPLITS if n != "cloze" and (run.folder / f"{n}.jsonl").stat().st_size]
        write_inspect(staging, heading, splits, copied(run, staging, splits, trim))
    return files_of(folder)


def write_inspect(folder: Path, heading: Heading, splits: Sequence[str], free: FreeRows) -> list[Path]:
    """Write an Inspect task file for each split, and for the questions without options if there are any. Return the paths.

    `folder` contains `SPLIT.jsonl` and `robust_free.jsonl`. A task contains no item text. Choices may be shuffled, because
    logs are matched by the text of the choices and not by letters.
    """
    tasks = [(split, "inspect_split.py.j2", f"the {split} items as an Inspect task.") for split in splits]
    if free.rows:
        tasks.append(("robust_free", "inspect_free.py.j2", f"the robust items without options; {free.says}."))
    written = []
    for split, template, says in tasks:
        head, name = commented(heading.lines(says)), task_name(heading.benchmark, split)
        text = ENVIRONMENT.get_template(template).render(head=head, split=split, name=name, version=VERSION)
        written.append(folder / f"{split}.py")
        write_text(written[-1], text)
    return written
