"""Common checks of all exports, atomic output folders, and the lm-eval and Inspect exports.

An export stops if a guardrail fails, unless it is forced, and then it contains a warning. It also stops if the run was
changed, contains no text, or is restricted. A folder is written completely or not at all.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from robustify.errors import AuthorisationError, DataError, GuardrailError, UsageError
from robustify.export.free_grading import FREE_DATA, FreeRows, free_rows
from robustify.export.heading import Heading
from robustify.files import OTHER_FOLDER, writable
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


@dataclass(frozen=True, slots=True)
class Option:
    """Option of an exporter. Without values and a metavariable, it is a flag. With `required`, it names files."""

    says: str
    metavar: str = ""
    values: tuple[str, ...] = ()
    default: str | None = None
    required: bool = False


FORCE = Option("Export even if a guardrail failed, and state this in the files.")
TRIM = Option("Take white space off the ends of options.")


class Exporter(Protocol):
    """Module that writes a run for another tool: the help of its command and of its output, and its options by name."""

    HELP: str
    OUT: str
    OPTIONS: dict[str, Option]

    @property
    def export(self) -> Callable[..., Sequence[Path | str]]:
        """Function of a run, the output path, and the options by name, which returns the files or lines to print."""


def heading_of(run: Run, force: bool) -> Heading:
    """Build the heading of an export, with a warning if it is forced. Raise `GuardrailError` if a guardrail stops it."""
    halted = run.summary.halting
    if halted and not force:
        anyway = "The export stopped. To export anyway, use --force."
        raise GuardrailError(*(f"{g.name}: {sentence(g.reason)}. {anyway}" for g in halted))
    warning = "; ".join(f"FORCED although {g.name}: {sentence(g.reason)}" for g in halted)
    return Heading(str(run.manifest["config"]["name"]), str(run.manifest["signature"]), warning)


@contextlib.contextmanager
def exporting(run: Run, folder: Path, force: bool) -> Iterator[tuple[Path, Heading]]:
    """Check that the run can be exported, then yield a temporary folder, whose files move to `folder` when all are written.

    Raise `AuthorisationError` for a restricted run, `DataError` for a changed one or one without text, `GuardrailError` if
    a guardrail stops it without `force`, `UsageError` for a full folder, `ResourceError` for one that is not writable.
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


def items_of(run: Run, split: str, trim: bool = False) -> list[Item]:
    """Read the items of a split as they are, or if `trim`, without white space at the ends of options."""
    return [item.trimmed() if trim else item for item in split_items(run.folder / f"{split}.jsonl")]


def copied(run: Run, staging: Path, splits: Iterable[str], trim: bool) -> FreeRows:
    """Write the items of these splits, and write the robust items without options. Return those rows."""
    for name in splits:
        write_items(staging / f"{name}.jsonl", items_of(run, name, trim))
    free = free_rows(items_of(run, "robust", trim))
    if free.rows:
        write_lines(staging / FREE_DATA, free.rows)
    return free


def files_of(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file())
