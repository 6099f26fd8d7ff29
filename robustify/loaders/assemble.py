"""Loads a benchmark: rows -> layout -> items, with every fault of a file told at once.

A row that cannot be an item refuses the file, or is set aside under `skip_bad`; none is mended in silence.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from robustify.errors import DataError, ItemError, UsageError
from robustify.item import Item
from robustify.loaders.files import Opened, open_parts, open_rows
from robustify.loaders.keys import key_form, key_index
from robustify.loaders.layouts import BY_FIELDS, HOUSE, Read, choose, field_map
from robustify.loaders.loaded import Loaded, Quarantined, Recognised, find_defects
from robustify.loaders.logs import unwrapped
from robustify.loaders.rows import Fault, Raw, Row, Table
from robustify.loaders.source import FieldMap, Source
from robustify.loaders.whole import bare_stems, check_whole, groups

_SPLIT_SUFFIX = re.compile(r"_(test|dev|val|validation|train)$")


def load(source: Source) -> Loaded:
    """The benchmark in one file or Arrow folder.

    Raises:
        UsageError: no such path, a folder without data, an unknown layout or mapped field.
        DataError: no known layout, a wrong digest, or rows that cannot be items (all of them in one error).
    """
    return _load(source, _base(source))


def load_many(sources: Sequence[Source]) -> Loaded:
    """Several files as one benchmark, in their order (MMLU: one a subject).

    Its name is the first one given, else that of the files' folder. Made ids begin with the file's name, and
    with its folder's too where two files have one name.

    Raises:
        UsageError, DataError: as `load`, the faults of all files together; or an id that two files share.
    """
    if not sources:
        raise UsageError("no files; expected at least one")
    if len(sources) == 1:
        return load(sources[0])
    bases = Counter(_base(source) for source in sources)
    parts: list[Loaded] = []
    faults: list[str] = []
    for source in sources:
        base = _base(source)
        try:
            parts.append(_load(source, base if bases[base] == 1 else f"{_apart(source)}-{base}"))
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
    repeated = _repeated([item.id for item in items])
    if repeated:
        faults = [f"{files[b]}:{lines[b]}: the same id as {files[a]}:{lines[a]}" for a, b in repeated]
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
    path, opened = _opened(source)
    table = unwrapped(path.name, opened.table)
    if not table.rows:
        raise _refused(path.name, table.faults)
    layout, read = choose(path.name, table, source.layout, source.fields)
    rows, raws, unread = _read(table, read)
    check_whole(path.name, raws)
    told = _recognised(path.name, table, layout, source, raws)
    # What we wrote ourselves comes back exactly as it was.
    raws = raws if layout == HOUSE.name else bare_stems(raws)
    items, lines, wrong = _items(rows, raws, layout=layout, source=source, base=base)
    faults = sorted([*table.faults, *unread, *wrong], key=lambda fault: fault.line)
    if faults and (not source.skip_bad or not items):
        raise _refused(path.name, faults)
    files = (path.name,) * len(items)
    return Loaded(
        name=source.name or (path.stem if source.hub is None else base),
        layout=f"{table.outer}/{layout}" if table.outer else layout,
        items=tuple(items),
        lines=tuple(lines),
        defects=find_defects(items, lines, files),
        quarantined=tuple(Quarantined(fault.line, fault.reason, path.name) for fault in faults),
        sha256=opened.sha256,
        path=str(path),
        files=files,
        recognised=(told,),
    )


def _opened(source: Source) -> tuple[Path, Opened]:
    """The file that errors name, and what is in it."""
    if source.hub is None:
        return Path(source.path), open_rows(source.path, source.sha256)
    # The hub's package is imported only where a source names the hub.
    from robustify.loaders.hub import fetch

    files = fetch(source)
    return files[0], open_parts(files[0].name, files, source.sha256)


def _recognised(name: str, table: Table, layout: str, source: Source, raws: Sequence[Raw]) -> Recognised:
    fields = field_map(name, table, source.fields or FieldMap()) if layout in BY_FIELDS else FieldMap()
    return Recognised(
        name,
        f"{table.outer}/{layout}" if table.outer else layout,
        {
            part: where
            for part, where in fields.model_dump(exclude_defaults=True).items()
            if where is not None
        },
        dict(Counter(key_form(raw) for raw in raws)),
    )


def _refused(name: str, faults: Sequence[Fault]) -> DataError:
    if not faults:
        return DataError(f"{name}: no rows; expected items")
    return DataError.gather([f"{name}:{fault.line}: {fault.reason}" for fault in faults])


def _read(table: Table, read: Read) -> tuple[list[Row], list[Raw], list[Fault]]:
    """The rows that the layout could read, as it read them, and the faults of the others."""
    found = [(row, _raw_or_fault(row, read)) for row in table.rows]
    kept = [(row, raw) for row, raw in found if isinstance(raw, Raw)]
    faults = [raw for _, raw in found if isinstance(raw, Fault)]
    return [row for row, _ in kept], [raw for _, raw in kept], faults


def _raw_or_fault(row: Row, read: Read) -> Raw | Fault:
    try:
        return read(row.cells)
    except ItemError as error:
        return Fault(row.line, str(error))


def _items(
    rows: Sequence[Row], raws: Sequence[Raw], *, layout: str, source: Source, base: str
) -> tuple[list[Item], list[int], list[Fault]]:
    own = (source.config or _base(source)) if layout == "mmlu_csv" else ""
    names = groups(raws, base)
    found: list[tuple[Item, int]] = []
    faults: list[Fault] = []
    for row, raw, group in zip(rows, raws, names, strict=True):
        topic = source.topic if source.topic is not None else raw.topic.strip() or own
        one = _item_or_fault(row, raw, f"{base}-{row.place:04d}", topic=topic, group=group)
        if isinstance(one, Item):
            found.append((one, row.line))
        else:
            faults.append(one)
    again = _repeated([item.id for item, _ in found])
    faults += [
        Fault(found[b][1], f"the same id as line {found[a][1]}; expected one of its own") for a, b in again
    ]
    dropped = {b for _, b in again}
    left = [pair for at, pair in enumerate(found) if at not in dropped]
    return [item for item, _ in left], [line for _, line in left], faults


def _item_or_fault(row: Row, raw: Raw, made_id: str, *, topic: str, group: str) -> Item | Fault:
    try:
        return Item(raw.id or made_id, raw.stem, raw.choices, key_index(raw), topic, raw.group or group)
    except ItemError as error:
        return Fault(row.line, str(error))


def _repeated(ids: Sequence[str]) -> list[tuple[int, int]]:
    """(first, later) places of the same id."""
    first: dict[str, int] = {}
    return [(first[name], at) for at, name in enumerate(ids) if first.setdefault(name, at) != at]


def _base(source: Source) -> str:
    """What made ids begin with: the file's name without its split, or the Hub dataset's and its config's."""
    if source.hub is not None:
        return _slug("-".join(part for part in (source.hub.split("/")[1], source.config) if part))
    return _SPLIT_SUFFIX.sub("", _slug(Path(source.path).stem)) or "item"


def _apart(source: Source) -> str:
    """What tells two sources of one name apart: the folder of a file, the split of a Hub dataset."""
    return _folder(source) if source.hub is None else _slug(source.split or source.files or "all")


def _folder(source: Source) -> str:
    return _slug(Path(source.path).parent.name if source.hub is None else source.hub.split("/")[1])


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-")
