"""A finished run in the formats of other tools: what every export refuses, and the folder it leaves.

Nothing is exported that a guardrail halts (unless it is forced, and then the export says so), that was changed since
the run, whose text is not here or not ours to give. A folder is written whole or not at all.
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
from robustify.report.messages import guardrail_sentence
from robustify.run import SPLIT_FILES, Run, split_items, write_lines

SPLITS = (*(name.removesuffix(".jsonl") for name in SPLIT_FILES), "cloze")
"""The parts of a run that hold items; cloze overlaps with the others."""
_WRITING = ".writing-"


def require_public(run: Run) -> None:
    """Refuse what would put the text of a restricted set into a file for others.
    Raises `AuthorisationError`: the run is of a restricted set."""
    if run.manifest["config"].get("sensitivity") != "public":
        raise AuthorisationError(
            f"{run.folder}: is of a restricted set; expected a public one: this export holds the text of items"
        )


def export_lm_eval(run: Run, folder: Path, force: bool = False) -> list[Path]:
    """A run's splits as lm-eval tasks with their data beside them, without options too; the files.

    Raises:
        AuthorisationError: a restricted set.
        DataError: the run was changed, or does not hold the text of its items (it was imported without).
        GuardrailError: a guardrail halts the export and `force` is not given.
        UsageError: the folder holds something already.
        ResourceError: it cannot be written.
    """
    with exporting(run, folder, force) as (staging, heading):
        free, tasks = _copied(run, staging, SPLITS), staging / "lm_eval_tasks"
        write_tasks(tasks, heading.benchmark, signature=heading.signature, warning=heading.warning)
        write_free_task(tasks, heading, free)
    return files_of(folder)


def export_inspect(run: Run, folder: Path, force: bool = False) -> list[Path]:
    """A run's splits as Inspect tasks, a Python file with its data for each; the files.
    Raises as `export_lm_eval`."""
    with exporting(run, folder, force) as (staging, heading):
        splits = [n for n in SPLITS if n != "cloze" and (run.folder / f"{n}.jsonl").stat().st_size]
        write_inspect(staging, heading, splits, _copied(run, staging, splits))
    return files_of(folder)


def write_inspect(folder: Path, heading: Heading, splits: Sequence[str], free: FreeRows) -> list[Path]:
    """A task file for each of these splits, and for the questions without options where there are any; the paths.

    `folder` holds `SPLIT.jsonl` and `robust_free.jsonl`. A task is a small Python file to be read: no text of an item is
    in it, and nothing but the split's name differs from one file to the next. Choices may be shuffled, because a log is
    read back by the text of the choices and never by a letter.
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
    """The head of an export; one that was forced says why it should not be used.
    Raises `GuardrailError`: one halts it, and it is not forced."""
    halted = run.summary.halting
    if halted and not force:
        raise GuardrailError(
            *(
                f"{g.name}: {guardrail_sentence(g)}; export halted (--force exports all the same)"
                for g in halted
            )
        )
    warning = "; ".join(f"FORCED although {g.name}: {guardrail_sentence(g)}" for g in halted)
    return Heading(str(run.manifest["config"]["name"]), str(run.manifest["signature"]), warning)


@contextlib.contextmanager
def exporting(run: Run, folder: Path, force: bool) -> Iterator[tuple[Path, Heading]]:
    """Refuse what every export refuses, then yield a folder whose files move to `folder` when all are written."""
    require_public(run)
    if not run.holds_text:
        raise DataError(
            f"{run.folder}: holds no text of its items (imported without); import the logs with --data ITEMS"
        )
    heading = heading_of(run, force)
    run.require_unchanged("summary.json", *(f"{name}.jsonl" for name in SPLITS))
    with staged(folder) as staging:
        yield staging, heading


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Yield a folder inside the folder whose files move up when all of them are on the disk.

    Raises:
        UsageError: the folder holds something already.
        ResourceError: it cannot be written.
    """
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
                # Only an empty folder goes: nothing was exported into it.
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _refuse_full(folder: Path) -> None:
    names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else [folder.name]
    for name in [name for name in names if name.startswith(_WRITING)]:
        # An export that was killed left it.
        shutil.rmtree(folder / name, ignore_errors=True)
        names.remove(name)
    if names:
        raise UsageError(
            f"{folder}: holds {counted(len(names), 'file')} already; expected an empty or new folder (-o DIR)"
        )


def items_of(run: Run, split: str) -> list[Item]:
    """Return the items of a split."""
    return list(split_items(run.folder / f"{split}.jsonl"))


def _copied(run: Run, staging: Path, splits: Iterable[str]) -> FreeRows:
    """The files of these splits, and of the robust items without options; these rows."""
    for name in splits:
        shutil.copyfile(run.folder / f"{name}.jsonl", staging / f"{name}.jsonl")
    free = free_rows(items_of(run, "robust"))
    if free.rows:
        write_lines(staging / FREE_DATA, free.rows)
    return free


def files_of(folder: Path) -> list[Path]:
    """All files below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())
