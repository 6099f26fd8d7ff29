"""A run: one execution and its folder.

Files are written beside their place and moved in, `run.json` last: a folder without it is no run. It holds
the sha256 of every other file, so that a reader can tell what was changed since. No clock, user, host or
absolute path gets in: the same inputs give the same bytes.
"""
# pandas brings no types of its own.
# mypy: disable-error-code="import-untyped"

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ConfigDict, Field, ValidationError, create_model

from robustify.answers import Answers
from robustify.disclosure.released import Released
from robustify.errors import AuthorisationError, DataError, ResourceError, UsageError
from robustify.files import (
    OTHER_FOLDER,
    locked,
    move_up,
    original,
    sha256,
    staging,
    writable,
    write_json,
    write_texts,
)
from robustify.item import Item
from robustify.judging.free_grades import FreeGrades
from robustify.loaders import Quarantined
from robustify.restricted.secret_key import marked, require_seal
from robustify.summary.result import Summary, read

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1
MANIFEST = "run.json"
_WRITING = ".run.writing"
FREE = "free.jsonl"
"""Graded answers in words of a public run."""
EVIDENCE = "evidence.jsonl"
"""Why each item of a public run is flagged, or is not."""
EXPLORER = "explorer.html"
"""Every item of a public run with its evidence, to be looked through in a browser."""
VERDICTS = "verdicts.csv"
WEIGHTS = "weights.csv"
OUTSIDE_THE_CLAIM = ("run.log", ".run.lock", _WRITING)
SPLIT_FILES = ("robust.jsonl", "shortcut.jsonl", "undecided.jsonl")


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run on disk. `manifest` is `run.json`; the rest is read on demand."""

    folder: Path
    manifest: Mapping[str, Any]

    @property
    def restricted(self) -> bool:
        """Whether it is the run of a restricted set, which holds no row of a single item."""
        return marked(self.manifest)

    @property
    def summary(self) -> Summary:
        """`summary.json`, of this format or an older one.
        Raises `AuthorisationError`: a restricted run, of which there is a released page alone."""
        if self.restricted:
            raise AuthorisationError(
                f"{self.folder}: is a restricted run, which shows its released page alone (report.html, summary.json); "
                "expected a public run"
            )
        return read(_read_json(self.folder / "summary.json"))

    @property
    def released(self) -> Released:
        """`summary.json` of a restricted run: what may be shown of it. Raises `DataError`: it is not such a page."""
        path = self.folder / "summary.json"
        try:
            return Released.model_validate(_read_json(path))
        except ValidationError:
            raise DataError(
                f"{path}: is not a released page as this version writes it; run the same command again"
            ) from None

    @property
    def answers(self) -> Answers:
        """`answers.parquet`."""
        return Answers.read(self.folder / "answers.parquet")

    @property
    def free(self) -> FreeGrades | None:
        """The graded answers of `free.jsonl`, or None if nothing was asked in words."""
        if FREE not in self.manifest["files"]:
            return None
        self.require_unchanged(FREE)
        about = {name: self.manifest["free"][name] for name in ("calibration", "left_out")}
        return FreeGrades(tuple(json_values(self.folder / FREE)), **about)

    @property
    def holds_text(self) -> bool:
        """Whether the text of the items is here; it is not where answers were imported without any."""
        return any(name in self.manifest["files"] for name in SPLIT_FILES)

    @property
    def items(self) -> tuple[Item, ...] | None:
        """All items of a public run, in the order in which they were asked; None if it holds no text."""
        if not self.holds_text:
            return None
        items = [item for name in SPLIT_FILES for item in split_items(self.folder / name)]
        position = {item: i for i, item in enumerate(self.answers.items)}
        return tuple(sorted(items, key=lambda item: position.get(item.id, len(position))))

    @property
    def topics(self) -> dict[str, str]:
        """The topic of every item, "" where it has none, as `verdicts.csv` says."""
        return self._column("topic")

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of every item, as `verdicts.csv` says."""
        return self._column("verdict")

    def _column(self, name: str) -> dict[str, str]:
        table = self.verdict_table()
        try:
            return dict(zip(table["item"], table[name], strict=True))
        except KeyError:
            raise DataError(
                f"{self.folder / VERDICTS}: no column {name}; expected the file as robustify wrote it"
            ) from None

    def verdict_rows(self) -> list[dict[str, str]]:
        """Return the rows of `verdict_table`."""
        return cast("list[dict[str, str]]", self.verdict_table().to_dict("records"))

    def verdict_table(self) -> "pd.DataFrame":
        """Read `verdicts.csv`, every cell as text and as it was before it was quoted.

        Raises:
            DataError: it is missing or no such table.
        """
        import pandas as pd

        path = self.folder / VERDICTS
        try:
            table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding_errors="surrogatepass")
        except (OSError, ValueError):
            raise DataError(
                f"{path}: no verdicts of a run; expected the file as robustify wrote it"
            ) from None
        return table.map(original)

    def require_unchanged(self, *names: str) -> None:
        """Refuse to build on files that are not as the run left them.

        Raises:
            DataError: one of these files (all of them where none is named) is missing or was changed.
        """
        changed = [name for name in self.changed() if not names or name in names]
        if changed:
            mend = "is not as the run left it; expected the file unchanged: judge again or restore it"
            raise DataError(*(f"{self.folder / name}: {mend}" for name in changed))

    def changed(self) -> list[str]:
        """Return the files that are missing or no longer have the sha256 in `run.json`."""
        return [
            name
            for name, digest in self.manifest["files"].items()
            if not (self.folder / name).is_file() or sha256(self.folder / name) != digest
        ]


_part: Any = partial(create_model, __config__=ConfigDict(strict=True, extra="allow"))
_DEFECT: Any = _part("Defect", kind=(str, ...), item=(str, ...))
_DATA: dict[str, Any] = {"n_items": (int, ...), "layout": (str, ...)}
_DATA_IN_FULL: dict[str, Any] = {
    **_DATA,
    "sha256": (str, ...),
    "quarantined": (list[dict[str, Any]], ...),
    "defects": (list[_DEFECT], ...),
}
_PARTS: dict[str, Any] = {
    "format": (int, Field(ge=FORMAT, le=FORMAT)),
    "files": (dict[str, str], ...),
    "config": (_part("Settings", name=(str, ...)), ...),
    "models": (dict[str, dict[str, Any]], ...),
    "templates": (dict[str, str], ...),
    "signature": (str, ...),
    "import": (_part("Import", formats=(str, ...)) | None, None),
    "release": (_part("Release", min_cell=(int, ...)) | None, None),
    "free": (_part("Free", calibration=(dict[str, Any], ...), left_out=(dict[str, int], ...)) | None, None),
}
_RESTRICTED, _PUBLIC = (
    _part("Manifest", data=(_part("Data", **data), ...), **_PARTS) for data in (_DATA, _DATA_IN_FULL)
)
"""The parts of `run.json` on which commands build; a file that was edited by hand is refused if one is missing."""


def open_run(folder: Path) -> Run:
    """Open the run in this folder.

    Raises:
        UsageError: no such folder, or one without `run.json` (unfinished or not ours).
        DataError: a `run.json` of another format.
        AuthorisationError: a restricted run whose seal does not hold, or no key to tell.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; expected a run's folder")
    if not (folder / MANIFEST).is_file():
        mend = f"expected a finished run (run `robustify CONFIG -o {folder}`)"
        raise UsageError(f"{folder}: holds no {MANIFEST}; {mend}")
    manifest = _read_json(folder / MANIFEST)
    try:
        _RESTRICTED.model_validate(manifest)
        if not marked(manifest):
            _PUBLIC.model_validate(manifest)
            if FREE in manifest["files"] and not manifest.get("free"):
                raise ValueError("grades of which nothing is known")
    except ValueError:
        expected = f"expected a run of format {FORMAT}, as this version writes it"
        raise DataError(f"{folder / MANIFEST}: {expected}") from None
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
                raise ResourceError(
                    f"{folder}: in use by another run; wait for it or choose another -o DIR"
                ) from None
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
    others = [p.name for p in folder.iterdir() if not p.name.startswith((".run", ".staging-"))]
    if others:
        found = f"{len(others)} files and no {MANIFEST}"
        raise ResourceError(f"{folder}: holds {found}; expected an empty folder or an earlier run (-o DIR)")


@contextlib.contextmanager
def beginning(folder: Path) -> Iterator[Path]:
    """A staging folder whose files stand in `folder` until a run's replace them. Raises `ResourceError` as `replacing`."""
    with writable(folder, "free space or choose another -o DIR"), staging(folder) as place:
        yield place
        names = [str(p.relative_to(place)) for p in place.rglob("*") if p.is_file()]
        write_json(place / _WRITING, {"files": names})
        for name in (_WRITING, *names):
            move_up(place, folder, name)


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
    """Write one JSON object per line: id, stem, choices, key (from 0), topic, and group if there is one."""
    rows = (
        {"id": i.id, "stem": i.stem, "choices": list(i.choices), "key": i.key, "topic": i.topic}
        | ({"group": i.group} if i.group else {})
        for i in items
    )
    write_lines(path, rows)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object per line."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    write_texts(path, (encode(row) + "\n" for row in rows))


def json_values(path: Path) -> Iterator[Any]:
    """Yield the values of a file with one JSON value per line, as `write_lines` writes it."""
    with path.open(encoding="utf-8", errors="surrogatepass", newline="\n") as lines:
        yield from map(json.loads, filter(str.strip, lines))


def split_items(path: Path) -> Iterator[Item]:
    """Yield the items of a split file of a run; none if there is no such file."""
    if not path.is_file():
        return
    for n, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line:
            continue
        try:
            row = json.loads(line)
            yield Item(**{**row, "choices": tuple(row["choices"])})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DataError(
                f"{path.name}:{n}: no item of a run; expected the file as robustify wrote it"
            ) from None


def write_quarantine(path: Path, rows: Sequence[Quarantined]) -> None:
    """Write where each row that was set aside stood and why; not its content."""
    write_lines(path, ({"file": q.file, "line": q.line, "reason": q.reason} for q in rows))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
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
