"""Common parts of all exports: checks, headings, options, and folders that are written completely or not at all.

Names come from files of other authors, so a heading consists of single printable lines: no line break or control character
gets into a comment, a docstring or a page.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

from robustify.base.errors import AuthorisationError, DataError, GuardrailError, UsageError
from robustify.base.files import OTHER_FOLDER, move_up, staging, writable
from robustify.base.redaction import HoldsText
from robustify.items.item import Item
from robustify.report.format import counted, plain, rated
from robustify.report.printing import guardrail_line, jinja, standing
from robustify.runs.run import SPLIT_FILES, Run
from robustify.runs.stored import split_items

SPLITS = (*(name.removesuffix(".jsonl") for name in SPLIT_FILES), "cloze")
"""Splits of a run. Cloze overlaps with the others."""
ENVIRONMENT = jinja("robustify.export", "templates", autoescape=False)
ENVIRONMENT.filters |= {"plain": plain, "rated": rated}
_WRITING, _LONGEST = ".writing-", 2000


Option = tuple[str, str, dict[str, Any]]
"""Option of an exporter: its usage, such as `--license ID`, what it does, and further settings, such as a default."""
KEPT: Option = ("--kept", "Export the kept items although the run failed, and state this in the files.", {})
BLIND: Option = (
    "--blind", "Write only tasks that ask the items of RUN, or of DATA, without their question.", {}
)  # fmt: skip
TRIM: Option = ("--trim", "Remove white space from the ends of options.", {})


P = ParamSpec("P")
T = TypeVar("T", bound=Sequence[Path] | Sequence[str])


@dataclass(frozen=True, slots=True, repr=False)
class FreeRows(HoldsText):
    """Rows of open-ended questions, and a summary that counts exported and omitted items."""

    rows: tuple[dict[str, Any], ...]
    says: str


AsFreeRows = Callable[[Sequence[Item]], FreeRows]
"""Function that converts items to rows of open-ended questions, which the wing of free response gives."""


@dataclass(frozen=True)
class Exporter(Generic[P, T]):
    """Export of a run to another tool, available as the command `name`. `write` takes a run, the output path, and the
    options by name, and returns the files or lines to print. Its docstring is the help of the command. With `asks_free`,
    `write` also takes an `AsFreeRows` as `as_free`."""

    write: Callable[P, T]
    name: str
    options: tuple[Option, ...] = ()
    out: str = "Write the files into this new or empty folder."
    asks_free: bool = False

    def __call__(self, *run: P.args, **options: P.kwargs) -> T:
        """Export a run."""
        return self.write(*run, **options)


def exporter(name: str, *options: Option, **about: Any) -> Callable[[Callable[P, T]], Exporter[P, T]]:
    """Return a decorator that turns a function into an `Exporter`. `about` may contain `out` and `asks_free`."""
    return lambda write: Exporter(write, name, options, **about)


@dataclass(frozen=True, slots=True)
class Heading:
    """Heading of an export: the benchmark name, the run signature, and the state of the run in words."""

    benchmark: str
    signature: str
    state: str

    @classmethod
    def of(cls, run: Run, kept: bool) -> "Heading":
        """Build the heading of an export. Raise `GuardrailError` if the run failed, unless `kept`."""
        if run.summary.halting and not kept:
            anyway = "The export stopped. To export the items that were kept nevertheless, use --kept."
            raise GuardrailError(
                *(f"{guardrail_line(guardrail)}. {anyway}" for guardrail in run.summary.halting)
            )
        named = str(run.manifest["config"]["name"])
        return cls(named, str(run.manifest["signature"]), standing(run.summary))

    def lines(self, says: str, *more: str) -> list[str]:
        """Return the lines of the heading: the description, the state of the run, `more`, and the signature."""
        state = f"State of the run: {self.state}"
        lines = [f"{self.benchmark}: {says}", state, *more, f"Signature: {self.signature}"]
        return [one_line(line) for line in lines]


def one_line(text: str) -> str:
    """Remove line breaks and control characters, so that a text cannot end a comment."""
    return plain(text, _LONGEST)


def commented(lines: Sequence[str]) -> str:
    """Format lines as YAML or Python comments."""
    return "".join(f"# {one_line(line)}\n" for line in lines)


def refuse_restricted(run: Run) -> None:
    """Raise `AuthorisationError` for a run of a restricted set, because its text must not be exported."""
    if run.manifest["config"].get("sensitivity") != "public":
        raise AuthorisationError(
            f"{run.folder} is a restricted run, but this export contains item text. Use a public run.",
            code="restricted-run",
        )


@contextlib.contextmanager
def exporting(run: Run, folder: Path, kept: bool) -> Iterator[tuple[Path, Heading]]:
    """Check that the run can be exported. Yield a temporary folder, whose files move to `folder` when all are written.
    Raise `AuthorisationError` for a restricted run, `DataError` for a run that was changed or has no text, `GuardrailError`
    if the run failed without `kept`, and `UsageError` or `ResourceError` if `folder` is not empty or not writable."""
    refuse_restricted(run)
    if not run.holds_text:
        raise DataError(
            f"{run.folder} does not contain the text of its items. Import the logs with --data ITEMS.",
            code="run-without-item-text",
        )
    heading = Heading.of(run, kept)
    run.require_unchanged("summary.json", *(f"{name}.jsonl" for name in SPLITS))
    with staged(folder) as place:
        yield place, heading


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Yield a temporary subfolder, whose files move up when all are written. Refuse a folder that contains files other than
    these, except a card that differs only in the license."""
    new = not folder.exists()
    with writable(folder, OTHER_FOLDER):
        older = list(folder.iterdir()) if folder.is_dir() else [] if new else [folder]
        # A killed export may have left its temporary folder behind.
        older = [path for path in older if not path.name.startswith(_WRITING)]
        full = f"{folder} already contains {counted(len(older), 'file')}. Choose an empty or new folder with -o DIR."
        if older and (folder.is_file() or not (folder / "README.md").is_file()):
            raise UsageError(full, code="folder-not-empty")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with staging(folder, _WRITING) as place:
                yield place
                if not all(_writes_again(path, place / path.name) for path in older):
                    raise UsageError(full, code="folder-not-empty")
                for path in sorted(place.iterdir()):
                    move_up(place, folder, path.name)
        finally:
            if new:
                # This removes the new folder only if it is empty, after a failed export.
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _writes_again(older: Path, newer: Path) -> bool:
    """Return whether a file is the same as in an earlier export, or a card that differs only in its license."""
    if not (older.is_file() and newer.is_file()):
        return False
    if older.name != "README.md":
        return older.read_bytes() == newer.read_bytes()
    lines = (path.read_text(encoding="utf-8").splitlines() for path in (older, newer))
    return all("licen" in line for line in set(next(lines)).difference(next(lines)))


def write_parquet(
    folder: Path, name: str, rows: Sequence[Mapping[str, Any]], signature: str | None = None
) -> str:
    """Write rows as NAME.parquet, because readers of JSON Lines turn dates into timestamps. With a signature, the file name
    ends in a digest of the signature and the rows. Return the file name."""
    import pyarrow as pa
    from pyarrow import parquet

    absent = {name: type(value)() for row in rows for name, value in row.items()}
    table = pa.table({name: [row.get(name, none) for row in rows] for name, none in absent.items()})
    if signature is not None:
        digest = hashlib.sha256(signature.encode())
        for batch in table.to_batches():
            digest.update(batch.serialize())
        name = f"{name}_{digest.hexdigest()[:8]}"
    parquet.write_table(table, folder / f"{name}.parquet", compression="zstd")
    return f"{name}.parquet"


def exported_items(run: Run, split: str, trim: bool = False) -> list[Item]:
    """Read the items of a split. If `trim` is true, remove white space at the ends of options."""
    return [
        item.trimmed() if trim else item for item in split_items(run.folder / f"{split}.jsonl", run.guard)
    ]


def files_of(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file())
