"""A run: one execution and its folder.

Files are written beside their place and moved in, `run.json` last: a folder without it is no run. It holds
the sha256 of every other file, so that a reader can tell what was changed since. No clock, user, host or
absolute path gets in: the same inputs give the same bytes.
"""

import contextlib
import csv
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from robustify import __version__
from robustify.answers import Answers
from robustify.errors import DataError, ResourceError, UsageError
from robustify.files import (
    OTHER_FOLDER,
    locked,
    move_up,
    original,
    sha256,
    staging,
    writable,
    write_json,
    write_text,
    write_texts,
)
from robustify.item import Item
from robustify.judge.free_response import FreeGrades
from robustify.loaders import Quarantined
from robustify.restricted.secret_key import marked, require_seal
from robustify.summary.format_1 import read
from robustify.summary.result import Summary

FORMAT = 1
MANIFEST = "run.json"
_WRITING = ".run.writing"
FREE = "free.json"
"""Grades of answers in free words that were put beside a run."""
EVIDENCE = "evidence.jsonl"
"""Why each item of a public run is flagged, or is not."""
EXPLORER = "explorer.html"
"""Every item of a public run with its evidence, to be looked through in a browser."""
VERDICTS = "verdicts.csv"
OUTSIDE_THE_CLAIM = ("run.log", ".run.lock", _WRITING)
SPLIT_FILES = ("robust.jsonl", "shortcut.jsonl", "undecided.jsonl")


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run on disk. `manifest` is `run.json`; the rest is read when it is asked for."""

    folder: Path
    manifest: Mapping[str, Any]

    @property
    def restricted(self) -> bool:
        """Whether it is the run of a restricted set, which holds no row of a single item."""
        return marked(self.manifest)

    @property
    def summary(self) -> Summary:
        """`summary.json`, of this format or an older one."""
        return read(_read_json(self.folder / "summary.json"))

    @property
    def answers(self) -> Answers:
        """`answers.parquet`."""
        return Answers.read(self.folder / "answers.parquet")

    @property
    def free(self) -> FreeGrades | None:
        """`free.json`; None where no grades were put beside this run."""
        return FreeGrades.of(_read_json(self.folder / FREE)) if FREE in self.manifest["files"] else None

    @property
    def holds_text(self) -> bool:
        """Whether the text of the items is here; it is not where answers were imported without any."""
        return any(name in self.manifest["files"] for name in SPLIT_FILES)

    @property
    def items(self) -> tuple[Item, ...] | None:
        """All items of a public run, in the order in which they were asked; None where it holds no text."""
        if not self.holds_text:
            return None
        items = [item for name in SPLIT_FILES for item in split_items(self.folder / name)]
        place = {item: i for i, item in enumerate(self.answers.items)}
        return tuple(sorted(items, key=lambda item: place.get(item.id, len(place))))

    @property
    def topics(self) -> dict[str, str]:
        """The topic of every item, "" where it has none, as `verdicts.csv` says."""
        return self._column("topic")

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of every item, as `verdicts.csv` says."""
        return self._column("verdict")

    def _column(self, name: str) -> dict[str, str]:
        try:
            return {row["item"]: row[name] for row in self.verdict_rows()}
        except KeyError:
            raise DataError(
                f"{self.folder / VERDICTS}: no column {name}; expected the file as robustify wrote it"
            ) from None

    def verdict_rows(self) -> Iterator[dict[str, str]]:
        """The rows of `verdicts.csv`, cells as they were before they were quoted.

        Raises:
            DataError: it is missing or no such table.
        """
        path = self.folder / VERDICTS
        try:
            with path.open(encoding="utf-8", errors="surrogatepass", newline="") as file:
                for row in csv.DictReader(file):
                    yield {name: original(cell) for name, cell in row.items()}
        except (OSError, ValueError, KeyError, TypeError, csv.Error):
            raise DataError(
                f"{path}: no verdicts of a run; expected the file as robustify wrote it"
            ) from None

    def require_unchanged(self, *names: str) -> None:
        """Refuse to build on files that are not as the run left them.

        Raises:
            DataError: one of these files (all of them where none is named) is missing or was changed.
        """
        changed = [name for name in self.changed() if not names or name in names]
        if changed:
            raise DataError(
                *(
                    f"{self.folder / name}: is not as the run left it; expected the file unchanged"
                    for name in changed
                )
            )

    def changed(self) -> list[str]:
        """The files that are missing or no longer have the sha256 that `run.json` holds."""
        return [
            name
            for name, digest in self.manifest["files"].items()
            if not (self.folder / name).is_file() or sha256(self.folder / name) != digest
        ]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class _Defect(_Part):
    kind: str
    item: str


class _Settings(_Part):
    name: str


class _Data(_Part):
    n_items: int
    layout: str
    sha256: str | None = None
    quarantined: list[dict[str, Any]] = Field(default_factory=list)
    defects: list[_Defect] = Field(default_factory=list)


class _Import(_Part):
    formats: str


class _Release(_Part):
    levels: dict[str, str]
    min_cell: int


class _Manifest(_Part):
    """The parts of `run.json` on which a command builds; a file edited by hand is refused where one is missing."""

    format: int = Field(ge=FORMAT, le=FORMAT)
    files: dict[str, str]
    config: _Settings
    models: dict[str, dict[str, Any]]
    templates: dict[str, str]
    data: _Data
    signature: str
    origin: _Import | None = Field(default=None, alias="import")
    release: _Release | None = None


def open_run(folder: Path) -> Run:
    """The run in this folder.

    Raises:
        UsageError: no such folder, or one without `run.json` (unfinished or none of ours).
        DataError: a `run.json` of another format.
        AuthorisationError: a restricted run whose seal does not hold, or no key to tell.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; expected a run's folder")
    if not (folder / MANIFEST).is_file():
        raise UsageError(
            f"{folder}: holds no {MANIFEST}; expected a finished run (run `robustify CONFIG -o {folder}`)"
        )
    manifest = _read_json(folder / MANIFEST)
    try:
        _Manifest.model_validate(manifest)
    except ValidationError:
        raise DataError(
            f"{folder / MANIFEST}: no run of format {FORMAT}; expected one as this version wrote it"
        ) from None
    if marked(manifest):
        require_seal(folder, manifest)
    return Run(folder, manifest)


@contextlib.contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold the folder for one run; the lock ends with the process. A folder made for it and left empty is removed.

    Raises:
        ResourceError: another run holds it, or it cannot be written.
    """
    there = folder.is_dir()
    lock = folder / ".run.lock"
    with contextlib.ExitStack() as stack:
        with writable(folder, OTHER_FOLDER):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(lock, wait=False))
            except BlockingIOError:
                mend = "wait for it or choose another -o DIR"
                raise ResourceError(f"{folder}: in use by another run; {mend}") from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                lock.unlink()
                if not there:
                    folder.rmdir()


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds something else than a run, so that nobody's files are overwritten.

    Raises:
        ResourceError: files, but no `run.json`.
    """
    if not folder.is_dir() or any((folder / name).is_file() for name in (MANIFEST, _WRITING)):
        return
    others = [
        p.name
        for p in folder.iterdir()
        if p.name != "run.lock" and not p.name.startswith((".run", ".staging-"))
    ]
    if others:
        raise ResourceError(
            f"{folder}: holds {len(others)} files and no {MANIFEST}; expected an empty folder or an earlier run (-o DIR)"
        )


@contextlib.contextmanager
def replacing(
    folder: Path,
    manifest: Mapping[str, Any],
    beside: Mapping[str, str] | None = None,
    finish: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Iterator[Path]:
    """A staging folder whose files take the place of the run's own, with `run.json` (and its digests) last.

    `beside`: digests of files that stay as they are (a report printed again); without it what the run no
    longer has is removed. `finish` seals run.json once all digests are known.

    Raises:
        ResourceError: the disk is full or the folder cannot be written; the old run is then gone or whole,
            never a mixture that still calls itself a run.
    """
    with writable(folder, "free space or choose another -o DIR"), staging(folder) as place:
        yield place
        # The files that an earlier run in this folder says are its own, also one that was killed while it wrote.
        before = {*_listed(folder / MANIFEST), *_listed(folder / _WRITING)}
        names = sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.is_file())
        digests = {name: sha256(place / name) for name in names}
        # Between the old run.json and the new one this file lists which of the others are a run's own.
        write_json(place / _WRITING, {"files": sorted(before | set(names))})
        move_up(place, folder, _WRITING)
        (folder / MANIFEST).unlink(missing_ok=True)
        for name in names:
            move_up(place, folder, name)
        if beside is None:
            _remove_stale(folder, before - set(names))
        digests = dict(sorted({**(beside or {}), **digests}.items()))
        write_json(place / MANIFEST, finish({**manifest, "files": digests}))
        move_up(place, folder, MANIFEST)
        (folder / _WRITING).unlink()


def write_items(path: Path, items: Sequence[Item]) -> None:
    """One JSON object a line: id, stem, choices, key (from 0), topic, and group where there is one."""
    rows = (
        {"id": i.id, "stem": i.stem, "choices": list(i.choices), "key": i.key, "topic": i.topic}
        | ({"group": i.group} if i.group else {})
        for i in items
    )
    write_lines(path, rows)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    write_texts(path, (encode(row) + "\n" for row in rows))


def json_values(path: Path) -> Iterator[Any]:
    """The values of a file with one JSON value a line, as `write_lines` writes it."""
    with path.open(encoding="utf-8", errors="surrogatepass", newline="\n") as lines:
        yield from map(json.loads, filter(str.strip, lines))


def split_items(path: Path) -> Iterator[Item]:
    """The items of a split file of a run; a file that is not there holds none."""
    if not path.is_file():
        return
    for n, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line:
            continue
        try:
            row = json.loads(line)
            yield Item(
                row["id"],
                row["stem"],
                tuple(row["choices"]),
                row["key"],
                row.get("topic", ""),
                row.get("group", ""),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DataError(
                f"{path.name}:{n}: no item of a run; expected the file as robustify wrote it"
            ) from None


def write_quarantine(path: Path, rows: Sequence[Quarantined]) -> None:
    """Where each set-aside row stood and why; not its content."""
    write_text(
        path, "".join(json.dumps({"file": q.file, "line": q.line, "reason": q.reason}) + "\n" for q in rows)
    )


def versions() -> dict[str, str]:
    """The versions that numbers may depend on; a package that is not installed is left out."""
    found = {"robustify": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "pyarrow", "torch", "transformers", "tokenizers"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _no_number(name: str) -> NoReturn:
    # Python reads NaN and Infinity, which are no JSON and which robustify never writes.
    raise ValueError(f"{name} is no JSON")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError):
        raise DataError(
            f"{path}: missing or no readable JSON; expected the file as robustify wrote it"
        ) from None


def _listed(path: Path) -> list[str]:
    """The names of files in `run.json`, or in the list of a run that is being written."""
    try:
        return [str(name) for name in json.loads(path.read_text(encoding="utf-8"))["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _remove_stale(folder: Path, names: set[str]) -> None:
    # What an earlier run wrote and this one does not (tasks of a halted export) must not look current.
    for name in sorted(names):
        place = folder / name
        if place.resolve().is_relative_to(folder.resolve()):
            place.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                place.parent.rmdir()
