"""Which files of a dataset repository are the split that is meant: by its card, else by their names.

Pure: names in, names out. It refuses a choice that could be another one, and a series of shards with a gap.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

import yaml

from robustify.errors import DataError

ENDINGS = (".parquet", ".jsonl", ".json", ".csv", ".tsv", ".arrow")
_NOT_ITEMS = frozenset(["dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json"])
# Older uploads put a hash of its own behind each shard's number.
_SHARD = re.compile(r"(?P<series>.*)-(?P<at>\d{5})-of-(?P<n>\d{5})(?:-[0-9a-f]+)?(?P<end>\.\w+)")
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class HubSelection:
    """Which part of a repository is meant; `named` is how errors call it."""

    named: str
    config: str | None = None
    split: str | None = None
    files: str | None = None


def data_files(names: Sequence[str]) -> list[str]:
    """The names that could hold items: Parquet, Arrow, JSON and tables; no scripts, no pickles, no metadata."""
    return sorted(
        name
        for name in names
        if name.lower().endswith(ENDINGS)
        and PurePosixPath(name).name not in _NOT_ITEMS
        and not any(step.startswith(".") for step in PurePosixPath(name).parts)
    )


def choose_files(selection: HubSelection, names: Sequence[str], card: str) -> list[str]:
    """The files of the selection, in the order of their names; `card` is the text of the repository's README.

    Raises:
        DataError: no file, more than one candidate, no such configuration or split, or shards missing.
    """
    able = data_files(names)
    if not able:
        raise DataError(
            f"{selection.named}: holds no Parquet, Arrow, JSON, CSV or TSV file (dataset scripts are never run); "
            "expected one: pin a commit of its branch refs/convert/parquet"
        )
    if selection.files is not None:
        found = [name for name in able if fnmatchcase(name, selection.files)]
        return _whole(selection, found, able, known=True)
    configs = _card_configs(card)
    found = _by_card(selection, able, configs) if configs else _by_name(selection, able)
    return _whole(selection, found, able, known=bool(configs))


def _whole(selection: HubSelection, found: Sequence[str], able: Sequence[str], *, known: bool) -> list[str]:
    """The files in order; `known`: a card or a user says that they belong together, and not only their names."""
    if not found:
        raise DataError(
            f"{selection.named}: no data file fits; found {_list(able)}; expected `config`, `split` or `files`"
        )
    series: dict[tuple[str, str, str], list[int]] = {}
    plain = []
    for name in found:
        if match := _SHARD.fullmatch(name):
            series.setdefault((match["series"], match["n"], match["end"]), []).append(int(match["at"]))
        else:
            plain.append(name)
    for (_, n, _), places in series.items():
        if sorted(places) != list(range(int(n))):
            raise DataError(
                f"{selection.named}: {len(places)} of {int(n)} shards are here; expected each of them once: fetch it again"
            )
    single = all(name.endswith(".parquet") or name.endswith(".arrow") for name in found)
    if len(found) > 1 and not single:
        raise DataError(
            f"{selection.named}: {len(found)} files fit ({_list(found)}); expected one: name it with `files`, "
            "and give each file a source of its own"
        )
    # Numbered parts of one folder are one split; other names are as often several.
    numbered = all(PurePosixPath(name).stem.isdigit() for name in plain)
    folders = {str(PurePosixPath(name).parent) for name in plain}
    if not known and len(series) + (len(folders) if numbered else len(plain)) > 1:
        raise DataError(
            f"{selection.named}: files of several splits fit ({_list(found)}); expected one: say `config`, `split` "
            "or `files`"
        )
    return sorted(found)


def _list(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _card_configs(card: str) -> dict[str, Mapping[str, object]]:
    """The `configs` of a dataset card's front matter, by name; {} where it has none that can be read."""
    parts = re.split(r"^---[ \t]*\r?$", card, maxsplit=2, flags=re.MULTILINE)
    if len(parts) < 3 or parts[0].strip("\ufeff \r\n"):
        return {}
    try:
        front = yaml.safe_load(parts[1])
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    listed = front.get("configs") if isinstance(front, dict) else None
    if not isinstance(listed, list):
        return {}
    return {
        str(one["config_name"]): one
        for one in listed
        if isinstance(one, dict) and "config_name" in one and ("data_files" in one or "data_dir" in one)
    }


def _by_card(
    selection: HubSelection, able: Sequence[str], configs: Mapping[str, Mapping[str, object]]
) -> list[str]:
    marked = [name for name, one in configs.items() if one.get("default") is True]
    default = marked[0] if len(marked) == 1 else None
    name = _one("configuration", "config", selection, selection.config, list(configs), default)
    one = configs[name]
    folder = str(one.get("data_dir", "")).strip("/")
    inside = [n for n in able if n.startswith(f"{folder}/")] if folder else list(able)
    patterns = _patterns(one.get("data_files"), folder)
    if not patterns:
        return _by_name(HubSelection(selection.named, None, selection.split), inside)
    split = _one("split", "split", selection, selection.split, list(patterns), None)
    return [n for n in able if any(fnmatchcase(n, pattern) for pattern in patterns[split])]


def _one(
    what: str, key: str, selection: HubSelection, said: str | None, there: Sequence[str], default: str | None
) -> str:
    if said is not None:
        if said not in there:
            raise DataError(f"{selection.named}: no {what} is called {said}; expected one of {_list(there)}")
        return said
    if default is not None or len(there) == 1:
        return default or there[0]
    raise DataError(f"{selection.named}: has several {what}s; expected `{key}:` one of {_list(there)}")


def _patterns(globs: object, folder: str) -> dict[str, list[str]]:
    """The globs of each split; a list without splits is all `train`, as the Hub reads it."""
    match globs:
        case str():
            found = {"train": [globs]}
        case [dict(), *_]:
            found = {str(e.get("split")): _texts(e.get("path")) for e in globs if isinstance(e, dict)}
        case list():
            found = {"train": _texts(globs)}
        case dict():
            found = {str(split): _texts(one) for split, one in globs.items()}
        case _:
            return {}
    return {split: [f"{folder}/{g}" if folder else g for g in parts] for split, parts in found.items()}


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _by_name(selection: HubSelection, able: Sequence[str]) -> list[str]:
    found = [n for n in able if selection.config is None or _says(n, selection.config)]
    return [n for n in found if selection.split is None or _says(n, selection.split)]


def _says(name: str, word: str) -> bool:
    """Whether a folder is called so, or the file's own name has the word in it, set off by - _ or a dot."""
    path = PurePosixPath(name)
    return word in path.parts[:-1] or bool(re.search(rf"(?:^|[-_.]){re.escape(word)}(?:$|[-_.])", path.name))
