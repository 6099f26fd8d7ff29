"""Data files of a folder: the splits of a download, and tables that are read as several files, such as MMLU's CSV files."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from robustify.base.errors import UsageError
from robustify.base.files import sha256
from robustify.reading.loaders.loaded import SPLIT_SUFFIX, SPLITS, Source
from robustify.reading.loaders.open_file import require_digest

_PARTS = [f"{folders}*.{kind}" for folders in ("", "*/", "*/*/") for kind in ("arrow", "parquet")]
_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
"""Types of files that are read one by one. JSON files are, too, if the first one is a list."""
_NUMBERED_PART = re.compile(r"[-_.]?\d*(-of-\d+)?$")


def split_files(path: Path, split: str | None) -> list[Path]:
    """Return the parts of a folder's split in order. Raise `UsageError` if the split is missing or unknown, or the folder
    has no data."""
    splits: dict[str, list[Path]] = {}
    for file in sorted(file for glob in _PARTS for file in path.glob(glob)):
        within = [*file.relative_to(path).parent.parts, _NUMBERED_PART.sub("", file.stem)]
        splits.setdefault("/".join(part for part in within if part not in ("", "data")), []).append(file)
    # RACE has a file of JSON for each passage.
    splits = splits or {"": sorted([*path.glob("*.txt"), *path.glob("*.json")])}
    files = _of_split(path, splits, split)
    inner = {
        file.parent.name for file in path.glob("*/*") if file.suffix.lower() in (*_TABLES, ".json", ".txt")
    }
    if not files and inner:
        raise UsageError(
            f"{path} has its files in other folders ({', '.join(sorted(inner))}). Name one of these.",
            code="files-in-other-folders",
        )
    if not files:
        raise UsageError(
            f"{path} is a folder without .arrow, .parquet, CSV, or JSON files. Give a file of items.",
            code="folder-without-data",
        )
    return files


def sources_of(source: Source) -> Sequence[Source]:
    """Return a source for each table of a folder, or the given source if it is another folder. Raise `UsageError` if the
    split is missing or unknown, and `DataError` if the digest differs."""
    path = Path(source.path)
    if not (tables := _tables(path)):
        return [source]
    splits: dict[str, list[Path]] = {}
    for file in tables:
        suffix = SPLIT_SUFFIX.search(file.stem)
        name = file.stem if file.stem in SPLITS else suffix[1] if suffix else ""
        splits.setdefault(name, []).append(file)
    files = _of_split(path, splits, source.split)
    digest = (
        sha256(files[0])
        if len(files) == 1
        else hashlib.sha256("".join(map(sha256, files)).encode()).hexdigest()
    )
    require_digest(path.name, digest, source.sha256)
    name = source.name or path.name
    changes = {"split": None, "sha256": None, "name": name}
    return [source.model_copy(update={**changes, "path": str(file)}) for file in files]


def _tables(path: Path) -> list[Path]:
    """Return the tables directly in a folder without Parquet or Arrow files, by name."""
    files = [] if any(any(path.glob(glob)) for glob in _PARTS) else sorted(path.iterdir())
    tables = [file for file in files if file.suffix.lower() in _TABLES and file.is_file()]
    lists = [file for file in files if file.suffix.lower() == ".json" and file.is_file()]
    return tables or (lists if lists and _is_list(lists[0]) else [])


def _is_list(file: Path) -> bool:
    with open(file, "rb") as opened:
        return opened.read(256).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def _of_split(path: Path, splits: dict[str, list[Path]], split: str | None) -> list[Path]:
    """Return the files of a split, by default of the only one."""
    if split is None and len(splits) == 1:
        (split,) = splits
    if split not in splits:
        raise UsageError(
            f"{path} has the splits {', '.join(filter(None, splits))}. Choose one with `--split NAME`, or "
            "`split: NAME` in the config.",
            code="split-not-chosen",
        )
    return splits[split]
