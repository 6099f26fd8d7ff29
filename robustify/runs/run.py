"""Run folders: their files, manifest, lock, and atomic replacement.

`run.json` is written last, and contains the SHA-256 of every other file. No clock, user, host, or absolute path is
recorded, so that the same inputs give the same bytes.
"""
# pandas has no type hints.
# mypy: disable-error-code="import-untyped"

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from robustify.base import files
from robustify.base.errors import AuthorisationError, DataError, Notice, ResourceError, UsageError
from robustify.base.files import move_up, sha256, staging, writable, write_json
from robustify.items.answers import Answers
from robustify.items.item import Item, item_row
from robustify.judging.summary.result import State, Summary, read
from robustify.reading.guard import Guard
from robustify.runs import stored
from robustify.runs.stored import is_restricted, json_file, split_items

if TYPE_CHECKING:
    import pandas as pd

    from robustify.judging.free_response import FreeGrades


MANIFEST = "run.json"
_WRITING = ".run.writing"
FREE = "free.jsonl"
"""Graded free-text answers of a public run."""
EVIDENCE = "evidence.jsonl"
"""Evidence for the verdict of each item of a public run."""
EXPLORER = "explorer.html"
"""Browser page with every item of a public run and its evidence."""
LABELS = "cloze_labels.jsonl"
"""Decisions of the config's `cloze.labels`, by which the run is judged again."""
VERDICTS = "verdicts.csv"
ITEM_ANALYSIS = "item_analysis.csv"
LOOKS = "looks.csv"
"""Looks of each model by item, in columns named by `looks_column`, which are compared between runs."""
OUTSIDE_THE_CLAIM = ("run.log", ".run.lock", _WRITING)
SPLIT_FILES = ("kept.jsonl", "flagged.jsonl", "undecided.jsonl")
_FORMER_FILES = ("robust.jsonl", "shortcut.jsonl", "undecided.jsonl")
ROBUST = "robust.jsonl"
"""The kept items again, in a run that passed."""


def looks_column(model: str) -> str:
    """Return the name of a model's column in `looks.csv`, which no other column can have."""
    return f"looks of {model}"


@dataclass(frozen=True)
class Run:
    """Finished run on disk. `manifest` is the parsed `run.json`. Other files are read on demand, each only once.
    The `guard` sees all items."""

    folder: Path
    manifest: Mapping[str, Any]
    guard: Guard = field(repr=False, compare=False)

    @property
    def restricted(self) -> bool:
        """Whether the run is of a restricted set, and therefore keeps no data on single items."""
        return is_restricted(self.manifest)

    @cached_property
    def summary(self) -> Summary:
        """Summary from `summary.json`. Raises `AuthorisationError` for a restricted run, which has only a released page."""
        if self.restricted:
            shown = "Only its released page (report.html, summary.json) can be shown; expected a public run"
            raise AuthorisationError(f"{self.folder} is a restricted run. {shown}", code="restricted-run")
        return read(json_file(self.folder / "summary.json"))

    @property
    def state(self) -> State:
        """State of the run, from its summary or its released page."""
        return stored.released_state(self.folder / "summary.json") if self.restricted else self.summary.state

    @cached_property
    def answers(self) -> Answers:
        """Answer table from `answers.parquet`."""
        return Answers.read(self.folder / "answers.parquet")

    @property
    def evidence(self) -> list[dict[str, Any]]:
        """Rows of `evidence.jsonl`."""
        return list(stored.rows(self.folder / EVIDENCE, stored.EVIDENCE))

    @property
    def free(self) -> "FreeGrades | None":
        """Graded answers from `free.jsonl`, or None if the run asked for no free-text answers."""
        if FREE not in self.manifest["files"]:
            return None
        from robustify.judging.free_response import FreeGrades

        self.require_unchanged(FREE)
        about = {name: self.manifest["free"][name] for name in ("calibration", "left_out")}
        return FreeGrades(tuple(stored.rows(self.folder / FREE, stored.OBJECT)), **about)

    @property
    def holds_text(self) -> bool:
        """Whether the folder contains item texts. Imported answers may come without them."""
        return any(name in self.manifest["files"] for name in self.split_files)

    @property
    def split_files(self) -> tuple[str, ...]:
        """Names of the split files. An earlier version used other names."""
        return _FORMER_FILES if _FORMER_FILES[1] in self.manifest["files"] else SPLIT_FILES

    def require_ordinary(self) -> None:
        """Raise `AuthorisationError` if the items belong to a set whose terms were accepted after the run."""
        for name in self.split_files:
            next(split_items(self.folder / name, self.guard), None)

    @property
    def items(self) -> tuple[Item, ...] | None:
        """Items of a public run in the order in which they were asked, or None if the folder has no item texts."""
        if not self.holds_text:
            return None
        items = [item for name in self.split_files for item in split_items(self.folder / name, self.guard)]
        if len({item.id for item in items}) != len(items):
            raise DataError(
                f"{self.folder}: an item is in two split files. Restore them or run the audit again.",
                code="item-in-two-splits",
            )
        position = {item: i for i, item in enumerate(self.answers.items)}
        return tuple(sorted(items, key=lambda item: position.get(item.id, len(position))))

    @cached_property
    def group_of(self) -> dict[str, int] | None:
        """Independent group of each item, or None if no group has several items, or the folder has no item texts."""
        from robustify.judging.baselines.near_duplicates import numbered_groups  # loaded only when needed

        items = self.items or ()
        groups = numbered_groups(items)
        return (
            None if groups is None else dict(zip((item.id for item in items), groups.tolist(), strict=True))
        )

    @property
    def topics(self) -> dict[str, str]:
        """Topic of each item, from `verdicts.csv`, or "" for an item without a topic."""
        return dict(zip(self.verdict_table["item"], self.verdict_table["topic"], strict=True))

    @property
    def verdicts(self) -> dict[str, str]:
        """Verdict of each item, from `verdicts.csv`."""
        return dict(zip(self.verdict_table["item"], self.verdict_table["verdict"], strict=True))

    def verdict_rows(self) -> list[dict[str, str]]:
        """Return the rows of `verdicts.csv` as dictionaries."""
        return cast("list[dict[str, str]]", self.verdict_table.to_dict("records"))

    @cached_property
    def verdict_table(self) -> "pd.DataFrame":
        """Cells of `verdicts.csv` as strings. Raises `DataError` if the file is missing or is not such a table."""
        return stored.csv_table(self.folder / VERDICTS, "topic", "verdict")

    @cached_property
    def looks(self) -> "pd.DataFrame | None":
        """Cells of `looks.csv` as strings, or None without the file. Raises `DataError` if it is not such a table."""
        if LOOKS not in self.manifest["files"]:
            return None
        self.require_unchanged(LOOKS)
        return stored.csv_table(self.folder / LOOKS)

    def require_unchanged(self, *names: str) -> None:
        """Raise `DataError` if one of the named files (by default, any file) is missing or was changed after the run."""
        digests = {
            self.folder / name: d for name, d in self.manifest["files"].items() if name in (names or (name,))
        }
        changed = [path for path, digest in digests.items() if not path.is_file() or sha256(path) != digest]
        if changed:
            raise DataError(*map(self._changed, changed))

    def _changed(self, path: Path) -> Notice:
        says = f"{path} is missing or was changed after the run. Restore it or"
        if self.restricted or path.name in self.judged_files:
            return Notice(f"{says} repeat the command that made the run.", code="judged-file-changed")
        return Notice(f"{says} run `robustify judge {self.folder}`.", code="result-changed")

    @property
    def judged_files(self) -> frozenset[str]:
        """Names of the files that judging only reads. Judging the run again does not restore them."""
        # In a run without text, only verdicts.csv has the topics. In any other run, judging rewrites that file.
        topics = () if self.holds_text else (VERDICTS,)
        return frozenset(("answers.parquet", "quarantine.jsonl", FREE, LABELS, *topics, *self.split_files))


_INTERRUPTED = "If a run was interrupted, repeat its command: the cache keeps the models' answers."


def open_run(folder: Path, guard: Guard) -> Run:
    """Open the run in a folder. Raise `UsageError` if there is no finished run, `DataError` if `run.json` has another
    format, and `AuthorisationError` if the seal of a restricted run is invalid, or the key for the seal is missing."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder; expected a finished run. {_INTERRUPTED}", code="not-a-run"
        )
    if not (folder / MANIFEST).is_file():
        if stored.is_published(folder / "summary.json"):
            raise UsageError(
                f"{folder} is the published page of a restricted run; expected a finished run. Read its report.html. "
                "Only the owner of the run can check the run.",
                code="published-page",
            )
        hint = f"To make a run, use `robustify CONFIG -o {folder}`."
        raise UsageError(
            f"{folder} has no {MANIFEST}; expected a finished run. {hint} {_INTERRUPTED}", code="not-a-run"
        )
    manifest = json_file(folder / MANIFEST)
    try:
        stored.RESTRICTED.model_validate(manifest)
        if not is_restricted(manifest):
            stored.PUBLIC.model_validate(manifest)
            if FREE in manifest["files"] and not manifest.get("free"):
                raise ValueError("free.jsonl exists, but run.json has no `free` entry")
    except ValueError:
        expected = f"expected a run of format {stored.FORMAT}, written by this version"
        raise DataError(
            f"{folder / MANIFEST} is invalid; {expected}. Run the audit again.", code="other-run-format"
        ) from None
    if is_restricted(manifest):
        from robustify.runs.seal import require_seal

        require_seal(folder, manifest)
    return Run(folder, manifest, guard)


@contextlib.contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Lock a folder for one run until the block or the process ends. Remove a folder created here if it stays
    empty. Raise `ResourceError` if another run holds the lock, or the folder cannot be written."""
    existed = folder.is_dir()
    lock = folder / ".run.lock"
    with contextlib.ExitStack() as stack:
        with writable(folder, files.OTHER_FOLDER):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(files.locked(lock, wait=False))
            except BlockingIOError:
                raise ResourceError(
                    f"{folder} is in use by another run. Wait for it to finish, or choose another folder with -o DIR.",
                    code="run-in-use",
                ) from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                lock.unlink()
                if not existed:
                    folder.rmdir()


def refuse_foreign(folder: Path) -> None:
    """Raise `UsageError` if a folder contains files but no run, so that no unrelated files are overwritten."""
    if not folder.is_dir() or any((folder / name).is_file() for name in (MANIFEST, _WRITING)):
        return
    others = [p.name for p in folder.iterdir() if not p.name.startswith((".run", ".staging-"))]
    if others:
        expected = "expected an empty folder or an earlier run. Choose another folder with -o DIR."
        raise UsageError(
            f"{folder} contains {len(others)} files but no {MANIFEST}; {expected}", code="foreign-files"
        )


def refuse_other(
    folder: Path,
    name: str,
    digest: str,
    items: Sequence[Item],
    guard: Guard,
    identity: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Raise `UsageError` if a folder contains a run of another benchmark. Its name or its `identity` differs, or its data
    have another digest and none of these items. Items without known text cannot differ. `identity` has the adapter and key
    of a restricted run."""
    try:
        run = Run(folder, json_file(folder / MANIFEST), guard)
        other_name, data = run.manifest["config"]["name"], run.manifest["data"]
        edited = data.get("sha256") != digest and run.holds_text
        texts = {(item.stem, frozenset(item.choices)) for item in items if edited}
        others = (other for part in run.split_files for other in split_items(folder / part, guard))
        shares = not texts or any((other.stem, frozenset(other.choices)) in texts for other in others)
    except (DataError, KeyError, TypeError, AttributeError):
        # A damaged run is replaced.
        return
    if other_name != name:
        differs = f"not of {name}"
    elif changed := [part for part in stored.IDENTITY if run.manifest.get(part) != identity.get(part)]:
        differs = f"but not with the {' and '.join(changed)} of this run"
    else:
        differs = "" if shares else f"but has none of the {len(texts)} items of this run"
    if differs:
        raise UsageError(
            f"{folder} contains a run of {other_name}, {differs}. Choose another folder with -o DIR, or replace it with "
            "--force.",
            code="run-of-another-benchmark",
        )


@contextlib.contextmanager
def beginning(folder: Path) -> Iterator[Path]:
    """Create a staging folder whose files move to `folder` when the block ends. The next run replaces them.
    Raise `ResourceError` if the folder cannot be written."""
    with writable(folder, files.OTHER_FOLDER), staging(folder) as place:
        yield place
        _move(place, folder, _files(place), set(_listed(folder / _WRITING)), replaces=False)


@contextlib.contextmanager
def replacing(
    folder: Path,
    manifest: Mapping[str, Any],
    finish: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Iterator[Path]:
    """Create a staging folder whose files replace a run's files when the block ends. `run.json` comes last, sealed by
    `finish`. Raise `ResourceError` if the folder cannot be written. The old run is then intact or gone, never mixed
    with the new."""
    with writable(folder, files.OTHER_FOLDER), staging(folder) as place:
        yield place
        # Files listed by earlier runs in this folder, including a run that was killed while writing.
        before = {*_listed(folder / MANIFEST), *_listed(folder / _WRITING)}
        names = _files(place)
        digests = {name: sha256(place / name) for name in names}
        _move(place, folder, names, before)
        # Files that only an earlier run wrote, such as tasks of a halted export, must not look current.
        for name in sorted(before - set(names)):
            stale = folder / name
            if stale.resolve().is_relative_to(folder.resolve()):
                stale.unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    stale.parent.rmdir()
        write_json(place / MANIFEST, finish({**manifest, "files": digests}))
        move_up(place, folder, MANIFEST)
        (folder / _WRITING).unlink()


def _files(place: Path) -> list[str]:
    return sorted(p.relative_to(place).as_posix() for p in place.rglob("*") if p.is_file())


def _move(
    place: Path, folder: Path, names: Sequence[str], before: set[str], *, replaces: bool = True
) -> None:
    """Move files from a staging folder to a run's folder, and remove the old run.json. Until the new run.json is
    written, a list has the files of this run and of those `before`."""
    write_json(place / _WRITING, {"files": sorted({*before, *names})})
    move_up(place, folder, _WRITING)
    if replaces:
        (folder / MANIFEST).unlink(missing_ok=True)
    for name in names:
        move_up(place, folder, name)


def write_items(path: Path, items: Iterable[Item]) -> None:
    """Write items as JSON Lines, with the cells of `item_row`."""
    write_lines(path, map(item_row, items))


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON Lines."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    files.write_texts(path, (encode(row) + "\n" for row in rows))


def _listed(path: Path) -> list[str]:
    """Return the file names listed in `run.json` or in the list of an unfinished run."""
    try:
        return [str(name) for name in json.loads(path.read_text(encoding="utf-8"))["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
