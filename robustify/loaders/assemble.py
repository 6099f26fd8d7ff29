"""Items from benchmark files. One error reports all faults of a file.

If a row cannot become an item, the file is refused. With `skip_bad`, the row is set aside instead. Rows are never
repaired.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from robustify.errors import DataError, UsageError
from robustify.item import Item
from robustify.loaders.layouts import RawItems, groups, raw_items
from robustify.loaders.loaded import Loaded, Quarantined, Recognised, Source
from robustify.loaders.open_file import open_hub, open_rows
from robustify.loaders.rows import Fault, RawItem, SourceRow, fault_lines, rows_or_faults
from robustify.loaders.survey import find_defects
from robustify.loaders.wrapped import item_table
from robustify.redaction import ItemText

_SPLITS = frozenset({"test", "dev", "val", "valid", "validation", "train", "eval", "data"})
_SPLIT_SUFFIX = re.compile(r"_(test|dev|val|validation|train)$")


def load(source: Source) -> Loaded:
    """Load a benchmark from one file, Arrow folder, or Hub dataset.

    Raises:
        UsageError: the path does not exist, the folder has no data, or no row has a mapped field.
        DataError: the layout is unknown, the digest differs, or rows cannot become items (all rows in one error).
    """
    return _load(source, _base(source))


def load_many(sources: Sequence[Source]) -> Loaded:
    """Load several files as one benchmark, in the given order. MMLU, for example, has one file per subject.

    The benchmark takes the first name given in `sources`, or the name of the folder. A generated ID begins with the file
    name, and with the folder name too if two files share a name. Raise `UsageError` or `DataError` with the faults of all
    files, or if two files share an ID."""
    if not sources:
        raise UsageError("no benchmark file was given. Name at least one.")
    if len(sources) == 1:
        return load(sources[0])
    bases = Counter(map(_base, sources))
    parts: list[Loaded] = []
    faults: list[str] = []
    for source in sources:
        base = _base(source)
        try:
            parts.append(_load(source, base if bases[base] == 1 else f"{_distinction(source)}-{base}"))
        except DataError as error:
            faults += error.lines
    if faults:
        raise DataError(*faults)
    name = next((source.name for source in sources if source.name), _folder(sources[0]) or parts[0].name)
    return _joined(name, parts)


def _joined(name: str, parts: Sequence[Loaded]) -> Loaded:
    items = tuple(item for part in parts for item in part.items)
    lines = tuple(line for part in parts for line in part.lines)
    files = tuple(file for part in parts for file in part.files)
    first: dict[str, int] = {}
    repeated = [(first[item.id], at) for at, item in enumerate(items) if first.setdefault(item.id, at) != at]
    if repeated:
        faults = [
            f"{files[b]}:{lines[b]}: the ID is already used at {files[a]}:{lines[a]}. Make each ID unique."
            for a, b in repeated
        ]
        raise DataError.gather(faults)
    return Loaded(
        name=name,
        layout="+".join(dict.fromkeys(part.layout for part in parts)),
        items=items,
        lines=lines,
        defects=find_defects(items, lines, files),
        quarantined=tuple(row for part in parts for row in part.quarantined),
        sha256=hashlib.sha256("".join(part.sha256 for part in parts).encode()).hexdigest(),
        path=str(Path(parts[0].path).parent),
        files=files,
        recognised=tuple(one for part in parts for one in part.recognised),
    )


def _load(source: Source, base: str) -> Loaded:
    path = Path(source.path if source.hub is None else f"{source.hub}@{str(source.revision)[:8]}")
    opened = open_rows(source.path, source.sha256) if source.hub is None else open_hub(source)
    table = item_table(path.name, opened.table)
    if not table.rows:
        raise DataError.gather(
            fault_lines(path.name, table.faults) or [f"{path.name} has no rows; expected items"]
        )
    raw = raw_items(path.name, table, source.fields)
    repeats = _repeats_ids(raw) and (source.fields is None or source.fields.id is None)
    items, lines, wrong = _items(raw, source, base, not repeats)
    faults = sorted([*table.faults, *raw.faults, *wrong], key=lambda fault: fault.line)
    if faults and (not source.skip_bad or not items):
        raise DataError.gather(fault_lines(path.name, faults))
    layout = f"{table.outer}/{raw.layout}" if table.outer else raw.layout
    files = (path.name,) * len(items)
    parts = raw.fields.model_copy(update={"id": None} if repeats else {})
    renamed = (f"`{raw.fields.id}` repeats in most rows, so the items are named by their lines",) * repeats
    return Loaded(
        name=source.name or (_called(path) if source.hub is None else base),
        layout=layout,
        items=tuple(items),
        lines=tuple(lines),
        defects=find_defects(items, lines, files),
        quarantined=tuple(Quarantined(fault.line, fault.reason, path.name) for fault in faults),
        sha256=opened.sha256,
        path=str(path),
        files=files,
        recognised=(
            Recognised(
                file=path.name,
                layout=layout,
                fields=parts.model_dump(exclude_defaults=True, exclude_none=not repeats),
                key_forms=raw.forms,
                labelled=raw.labelled,
                cut=raw.raws[0].cut if raw.raws else "",
                unread=(*raw.unread, *renamed),
            ),
        ),
    )


def _repeats_ids(raw: RawItems) -> bool:
    """Return whether most rows share their ID with another row, as if it were a page number or an address."""
    seen = Counter(one.id for one in raw.raws if one.id)
    return raw.fields.id is not None and 2 * sum(n for n in seen.values() if n > 1) > len(raw.raws)


def _items(
    raw: RawItems, source: Source, base: str, named: bool
) -> tuple[list[Item], list[int], list[Fault]]:
    """Return the items, their line numbers, and the faults of the other rows. Generated IDs begin with `base`. If `named`
    is false, all IDs are generated."""
    own = (source.config or _base(source)) if raw.layout == "mmlu_csv" else ""

    def item(row: SourceRow, read: tuple[RawItem, int, str]) -> Item:
        it, key, group = read
        topic = source.topic if source.topic is not None else it.topic.strip() or own
        name = (it.id if named else "") or f"{base}-{row.number:04d}"
        text = ItemText(it.stem, it.choices, it.question_at)
        return Item(name, key=key, topic=topic, group=it.group or group, sealed=text)

    read = zip(raw.raws, raw.keys, groups(raw.raws, base), strict=True)
    made, faults = rows_or_faults(zip(raw.rows, read, strict=True), item)
    first: dict[str, int] = {}
    kept = [(row.line, one) for row, one in made if first.setdefault(one.id, row.line) == row.line]
    for row, one in made:
        if (line := first[one.id]) != row.line:
            mend = ", or name the items by their lines with `fields: {id: null}`" if raw.fields.id else ""
            faults.append(
                Fault(row.line, f"the ID is already used on line {line}. Make each ID unique{mend}.")
            )
    return [one for _, one in kept], [line for line, _ in kept], faults


def _base(source: Source) -> str:
    """Return the prefix of generated IDs: the file name without its split, or the Hub dataset and config."""
    if source.hub is not None:
        return _slug("-".join(part for part in (source.hub.split("/")[1], source.config) if part))
    return _SPLIT_SUFFIX.sub("", _slug(Path(source.path).stem)) or "item"


def _called(path: Path) -> str:
    """Return the name of a single-file benchmark. If the file name is only a split, put the folder name first."""
    folder = path.absolute().parent.name if path.stem.casefold() in _SPLITS else ""
    return f"{folder}-{path.stem}" if folder else path.stem


def _distinction(source: Source) -> str:
    """Return the folder of a file or the split of a Hub dataset, to distinguish sources that share a name."""
    return _folder(source) if source.hub is None else _slug(source.split or source.files or "all")


def _folder(source: Source) -> str:
    return _slug(Path(source.path).parent.name if source.hub is None else source.hub.split("/")[1])


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-")
