"""Data files of a folder: the splits of a download, and tables that are read as several files, such as MMLU's CSV files."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from robustify.base.compressed import DAMAGED, SUFFIXES, plain_path, unpacked
from robustify.base.errors import DataError, Notice, UsageError, counted
from robustify.base.files import sha256
from robustify.reading.loaders.loaded import SPLITS, Source
from robustify.reading.loaders.open_file import joined_digest, require_digest

_PARTS = [f"{folders}*.{kind}" for folders in ("", "*/", "*/*/") for kind in ("arrow", "parquet")]
_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
"""Types of files that are read one by one. JSON files are, too, if the first one is a list."""
_NUMBERED_PART = re.compile(r"[-_.]?\d*(-of-\d+)?$")
_SPLIT_WORDS = {name: name for name in (*SPLITS - {"data", "eval"}, "fewshot", "holdout")} | {
    "training": "train",
    "testing": "test",
}
"""Words at the start or the end of a file's name that say its split."""
_BETWEEN_WORDS = re.compile(r"[\W_]+")
_OF_A_SET = (*_TABLES, ".json", ".parquet", ".arrow", ".xlsx", ".zip", *SUFFIXES)
"""Types of files that may hold items, for a note on those that are not read."""
_ABOUT = {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json", "metadata.json"}
_LISTED = 3


def split_files(path: Path, split: str | None) -> list[Path]:
    """Return the parts of a folder's split in order. Raise `UsageError` if the split is missing or unknown, or the folder
    has no data."""
    splits: dict[str, list[Path]] = {}
    for file in sorted(file for glob in _PARTS for file in path.glob(glob)):
        within = [*file.relative_to(path).parent.parts, _NUMBERED_PART.sub("", file.stem)]
        splits.setdefault("/".join(part for part in within if part not in ("", "data")), []).append(file)
    # RACE has a file of JSON for each passage.
    splits = splits or {"": sorted(file for file in path.glob("*") if _type(file) in (".txt", ".json"))}
    files = _of_split(path, splits, split)
    inner = {file.parent.name for file in path.glob("*/*") if _type(file) in (*_TABLES, ".json", ".txt")}
    if not files and inner:
        raise UsageError(
            f"{path} has its files in subfolders ({', '.join(sorted(inner))}). Name one of them.",
            code="files-in-other-folders",
        )
    if not files:
        raise UsageError(
            f"{path} is a folder without .arrow, .parquet, CSV, or JSON files. Give a file of items.",
            code="folder-without-data",
        )
    return files


def sources_of(source: Source) -> Sequence[Source]:
    """Return a source for each table of a folder, or the given source if it is another kind of folder. Raise
    `UsageError` if the split is missing or unknown, and `DataError` if the digest differs."""
    path = Path(source.path)
    if not (tables := _tables(path)):
        return [source]
    splits: dict[str, list[Path]] = {}
    for file in tables:
        splits.setdefault(_split_of(file), []).append(file)
    files = _of_split(path, splits, source.split)
    _require_different(path, files)
    require_digest(path.name, joined_digest([*map(sha256, files)]), source.sha256)
    name = source.name or path.name
    changes = {"split": None, "sha256": None, "name": name}
    return [source.model_copy(update={**changes, "path": str(file)}) for file in files]


def unread_files(source: Source, read: Sequence[Source]) -> list[Notice]:
    """Return a note on unread files in a folder of tables that may contain items and do not belong to another split."""
    path = Path(source.path)
    if not (tables := _tables(path)):
        return []
    in_splits = {*tables, *(Path(part.path) for part in read)}
    inside = [file for glob in ("*", "*/*", "*/*/*") for file in path.glob(glob)]
    names = sorted(
        str(file.relative_to(path))
        for file in inside
        if file not in in_splits
        and file.name not in _ABOUT
        and not _is_hidden(file)
        and file.suffix.lower() in _OF_A_SET
        and not file.is_dir()
    )
    few = ", ".join(names[:_LISTED]) + f" and {len(names) - _LISTED} more" * (len(names) > _LISTED)
    text = f"{counted(len(names), 'file')} of the folder {path.name} not read ({few}). To read one, name it"
    return [Notice(text, code="unread-files")] * bool(names)


def _split_of(file: Path) -> str:
    """Return the split at the beginning or end of a file's name, such as `train-00000-of-00001`, or "" if there is none."""
    words = _BETWEEN_WORDS.split(
        _NUMBERED_PART.sub("", plain_path(file).stem).casefold().replace("few-shot", "fewshot")
    )
    words = words[:-1] if len(words) > 1 and words[-1] in ("set", "split", "data") else words
    if len(words) == 1 and words[0] in SPLITS:
        return words[0]
    return next((_SPLIT_WORDS[word] for word in (words[-1], words[0]) if word in _SPLIT_WORDS), "")


def _require_different(path: Path, files: Sequence[Path]) -> None:
    """Raise `DataError` if two files of a folder have the same content, or only one of them is compressed."""
    first: dict[str, Path] = {}
    for file, sign in ((each, sign) for each in files for sign in (sha256(each), plain_path(each).name)):
        if (other := first.setdefault(sign, file)) is not file:
            raise DataError(
                f"{path}: {file.name} is a copy of {other.name}. Remove one, so that no item counts twice.",
                code="repeated-file",
            )


def _type(file: Path) -> str:
    """Return the extension of a file, or of the file compressed in it."""
    return plain_path(file).suffix.lower()


def _is_hidden(file: Path) -> bool:
    return file.name.startswith((".", "~$"))


def _tables(path: Path) -> list[Path]:
    """Return the tables directly in a folder, by name, unless it has Parquet or Arrow files."""
    files = [] if any(any(path.glob(glob)) for glob in _PARTS) else sorted(path.iterdir())
    files = [file for file in files if file.is_file() and not _is_hidden(file)]
    tables = [file for file in files if _type(file) in _TABLES]
    lists = [file for file in files if _type(file) == ".json"]
    return tables or (lists if lists and _is_list(lists[0]) else [])


def _is_list(file: Path) -> bool:
    # Only the reader of items says what is wrong with a damaged file.
    with open(file, "rb") as opened, suppress(*DAMAGED):
        return unpacked(opened).read(256).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["
    return False


def _of_split(path: Path, splits: dict[str, list[Path]], split: str | None) -> list[Path]:
    """Return the files of a split. If there is only one split, its name may be omitted."""
    if split is None and len(splits) == 1:
        (split,) = splits
    if split not in splits:
        raise UsageError(
            f"{path} has the splits {', '.join(filter(None, splits))}. Choose one with `--split NAME`, or "
            "`split: NAME` in the config.",
            code="split-not-chosen",
        )
    return splits[split]
