"""Common checks of all exports, atomic output folders, and the lm-eval and Inspect exports.

An export stops if a guardrail fails, unless it is forced, and then it contains a warning. It also stops if the run was
changed, contains no text, or is restricted. A folder is written completely or not at all.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from robustify.errors import AuthorisationError, DataError, GuardrailError, UsageError
from robustify.export.free_grading import FREE_DATA, FreeRows, free_rows, write_free_task
from robustify.export.heading import ENVIRONMENT, Heading, commented
from robustify.export.lm_eval_tasks import VERSION, task_name, write_tasks
from robustify.files import OTHER_FOLDER, writable, write_text
from robustify.item import Item
from robustify.report.format import counted
from robustify.report.messages import sentence
from robustify.run import SPLIT_FILES, Run, split_items, write_items, write_lines

SPLITS = (*(name.removesuffix(".jsonl") for name in SPLIT_FILES), "cloze")
"""Splits of a run. Cloze overlaps with the others."""
_WRITING = ".writing-"


def require_public(run: Run) -> None:
    """Raise `AuthorisationError` if the run is of a restricted set, whose text must not be exported."""
    if run.manifest["config"].get("sensitivity") != "public":
        raise AuthorisationError(
            f"{run.folder}: is a restricted run, and this export contains item text. Expected a public run."
        )


def export_lm_eval(run: Run, folder: Path, force: bool = False, trim: bool = False) -> list[Path]:
    """Write a run's splits as lm-eval tasks with their data, including a task without options. Return the paths."""
    with exporting(run, folder, force) as (staging, heading):
        free, tasks = _copied(run, staging, SPLITS, trim), staging / "lm_eval_tasks"
        write_tasks(tasks, heading.benchmark, signature=heading.signature, warning=heading.warning)
        write_free_task(tasks, heading, free)
    return files_of(folder)


def export_inspect(run: Run, folder: Path, force: bool = False, trim: bool = False) -> list[Path]:
    """Write a run's splits as Inspect tasks, each a Python file with its data. Return the paths."""
    with exporting(run, folder, force) as (staging, heading):
        splits = [n for n in SPLITS if n != "cloze" and (run.folder / f"{n}.jsonl").stat().st_size]
        write_inspect(staging, heading, splits, _copied(run, staging, splits, trim))
    return files_of(folder)


def write_inspect(folder: Path, heading: Heading, splits: Sequence[str], free: FreeRows) -> list[Path]:
    """Write an Inspect task file for each split, and for the questions without options if there are any. Return the
    paths.

    `folder` contains `SPLIT.jsonl` and `robust_free.jsonl`. A task is a short readable Python file without item text,
    and files differ only by the name of their split. Choices may be shuffled, because logs are matched by the text of
    the choices and not by letters.
    """
    written = []
    for split in splits:
        head = commented(heading.lines(f"the {split} items as an Inspect task."))
        written.append(_inspect_task(folder / f"{split}.py", "inspect_split.py.j2", heading, head, split))
    if free.rows:
        head = commented(heading.lines(f"the robust items without options; {free.says}."))
        written.append(
            _inspect_task(folder / "robust_free.py", "inspect_free.py.j2", heading, head, "robust_free")
        )
    return written


def _inspect_task(path: Path, template: str, heading: Heading, head: str, split: str) -> Path:
    name = task_name(heading.benchmark, split)
    text = ENVIRONMENT.get_template(template).render(head=head, split=split, name=name, version=VERSION)
    write_text(path, text)
    return path


def heading_of(run: Run, force: bool) -> Heading:
    """Build the heading of an export, with a warning if it is forced. Raise `GuardrailError` if a guardrail stops it."""
    halted = run.summary.halting
    if halted and not force:
        raise GuardrailError(
            *(
                f"{g.name}: {sentence(g.reason)}. The export stopped. To export anyway, use --force."
                for g in halted
            )
        )
    warning = "; ".join(f"FORCED although {g.name}: {sentence(g.reason)}" for g in halted)
    return Heading(str(run.manifest["config"]["name"]), str(run.manifest["signature"]), warning)


@contextlib.contextmanager
def exporting(run: Run, folder: Path, force: bool) -> Iterator[tuple[Path, Heading]]:
    """Check that the run can be exported, then yield a temporary folder. Its files move to `folder` when all are
    written.

    Raises:
        AuthorisationError: the run is restricted.
        DataError: the run was changed, or does not contain the text of its items.
        GuardrailError: a guardrail stops the export, and `force` is not set.
        UsageError: the folder is not empty.
        ResourceError: the folder cannot be written.
    """
    require_public(run)
    if not run.holds_text:
        raise DataError(
            f"{run.folder}: does not contain the text of its items. Import the logs with --data ITEMS."
        )
    heading = heading_of(run, force)
    run.require_unchanged("summary.json", *(f"{name}.jsonl" for name in SPLITS))
    with staged(folder) as staging:
        yield staging, heading


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Yield a temporary subfolder whose files move up when all of them are on disk. Refuse a folder that is not empty."""
    new = not folder.exists()
    staging = folder / f"{_WRITING}{os.getpid()}"
    with writable(folder, OTHER_FOLDER):
        if not new:
            _refuse_full(folder)
        staging.mkdir(parents=True)
        try:
            yield staging
            for path in sorted(staging.iterdir()):
                os.replace(path, folder / path.name)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            if new:
                # This removes the new folder only if it is empty, after a failed export.
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _refuse_full(folder: Path) -> None:
    names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else [folder.name]
    for name in [name for name in names if name.startswith(_WRITING)]:
        # A killed export left this folder behind.
        shutil.rmtree(folder / name, ignore_errors=True)
        names.remove(name)
    if names:
        raise UsageError(
            f"{folder}: already contains {counted(len(names), 'file')}. Choose an empty or new folder with -o DIR."
        )


def items_of(run: Run, split: str) -> list[Item]:
    """Read the items of a split."""
    return list(split_items(run.folder / f"{split}.jsonl"))


def copy_split(run: Run, split: str, staging: Path, trim: bool) -> None:
    """Copy the file of a split as it is, or if `trim`, without white space at the ends of options."""
    if trim:
        write_items(staging / f"{split}.jsonl", [item.trimmed() for item in items_of(run, split)])
    else:
        shutil.copyfile(run.folder / f"{split}.jsonl", staging / f"{split}.jsonl")


def _copied(run: Run, staging: Path, splits: Iterable[str], trim: bool) -> FreeRows:
    """Copy the files of these splits, and write the robust items without options. Return those rows."""
    for name in splits:
        copy_split(run, name, staging, trim)
    free = free_rows([item.trimmed() if trim else item for item in items_of(run, "robust")])
    if free.rows:
        write_lines(staging / FREE_DATA, free.rows)
    return free


def files_of(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file())
