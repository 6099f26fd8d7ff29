"""Loads a benchmark: rows -> layout -> items, with every fault of a file reported at once.

A row that cannot be an item refuses the file, or is set aside under `skip_bad`; none is mended in silence. A large file
of JSON Lines can be read a part at a time, each as a file of its own is, under the layout of the first one.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from robustify.errors import DataError, UsageError
from robustify.files import open_regular
from robustify.item import Item
from robustify.loaders.answer_keys import key_form, key_index
from robustify.loaders.json_rows import line_rows, one_a_line
from robustify.loaders.layouts import (
    BY_FIELDS,
    RawItems,
    Whole,
    chosen_layout,
    field_map,
    groups,
    is_lm_eval,
    item_table,
    raw_items,
    read_rows,
)
from robustify.loaders.loaded import FieldMap, Loaded, Quarantined, Recognised, Source
from robustify.loaders.open_file import HEAD, Opened, open_parts, open_rows, require_pinned
from robustify.loaders.rows import Fault, RawItem, SourceRow, SourceTable, fault_lines, rows_or_faults
from robustify.loaders.survey import find_defects

PART = 16 << 20
"""Bytes of a part, up to the end of its last line."""
_SPLITS = frozenset({"test", "dev", "val", "valid", "validation", "train", "eval", "data"})
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
    table = item_table(path.name, opened.table)
    if not table.rows:
        raise _refused(path.name, table.faults)
    raw = raw_items(path.name, table, source.layout, source.fields)
    layout = f"{table.outer}/{raw.layout}" if table.outer else raw.layout
    read = _recognised(path.name, table, raw, layout, source)
    part, faults = _part(path, table, raw, source, base, {})
    if faults and (not source.skip_bad or not part.items):
        raise _refused(path.name, faults)
    defects = find_defects(part.items, part.lines, part.files)
    return replace(part, layout=layout, defects=defects, sha256=opened.sha256, recognised=(read,))


def _opened(source: Source) -> tuple[Path, Opened]:
    """The file that errors name, and what is in it."""
    if source.hub is None:
        return Path(source.path), open_rows(source.path, source.sha256)
    # The hub's package is imported only where a source names the hub.
    from robustify.loaders.hub import fetch

    files = fetch(source)
    return files[0], open_parts(files[0].name, files, source.sha256)


def _recognised(name: str, table: SourceTable, raw: RawItems, layout: str, source: Source) -> Recognised:
    """How this table was read."""
    by_fields = raw.layout in BY_FIELDS
    fields = field_map(name, table, source.fields or FieldMap()) if by_fields else FieldMap()
    parts = fields.model_dump(exclude_defaults=True, exclude_none=True)
    return Recognised(name, layout, parts, dict(Counter(map(key_form, raw.raws))), raw.labelled)


def _refused(name: str, faults: Sequence[Fault]) -> DataError:
    """All faults of the file of this name in one error."""
    if not faults:
        return DataError(f"{name}: no rows; expected items")
    return DataError.gather(fault_lines(name, faults))


def _part(
    path: Path, table: SourceTable, raw: RawItems, source: Source, base: str, ids: dict[int, int]
) -> tuple[Loaded, list[Fault]]:
    """What these rows hold, without their defects and a digest, and all faults; `base` and `ids` as of `_items`."""
    items, lines, wrong = _items(raw, source, base, ids)
    faults = sorted([*table.faults, *raw.faults, *wrong], key=lambda fault: fault.line)
    part = Loaded(
        name=source.name or (_called(path) if source.hub is None else base),
        layout=raw.layout,
        items=tuple(items),
        lines=tuple(lines),
        defects=(),
        quarantined=tuple(Quarantined(fault.line, fault.reason, path.name) for fault in faults),
        sha256="",
        path=str(path),
        files=(path.name,) * len(items),
    )
    return part, faults


def _items(
    raw: RawItems, source: Source, base: str, ids: dict[int, int]
) -> tuple[list[Item], list[int], list[Fault]]:
    """The items, their lines, and why the other rows are none.

    `base` begins the ids that are made; `ids` are the lines of earlier items by the hash of their id, and of these too.
    """
    own = (source.config or _base(source)) if raw.layout == "mmlu_csv" else ""

    def item(row: SourceRow, read: tuple[RawItem, str]) -> Item:
        it, group = read
        topic = source.topic if source.topic is not None else it.topic.strip() or own
        name = it.id or f"{base}-{row.place:04d}"
        return Item(name, it.stem, it.choices, key_index(it), topic, it.group or group)

    with_groups = zip(raw.raws, groups(raw.raws, base), strict=True)
    made, faults = rows_or_faults(zip(raw.rows, with_groups, strict=True), item)
    items, lines = [], []
    for row, one in made:
        name = hash(one.id)
        if name in ids:
            faults.append(Fault(row.line, f"the same id as line {ids[name]}; expected one of its own"))
            continue
        ids[name] = row.line
        items.append(one)
        lines.append(row.line)
    return items, lines, faults


def _base(source: Source) -> str:
    """What made ids begin with: the file's name without its split, or the Hub dataset's and its config's."""
    if source.hub is not None:
        return _slug("-".join(part for part in (source.hub.split("/")[1], source.config) if part))
    return _SPLIT_SUFFIX.sub("", _slug(Path(source.path).stem)) or "item"


def _called(path: Path) -> str:
    """The name of a benchmark in one file: the file's, with its folder's before one that names a split alone."""
    folder = path.absolute().parent.name if path.stem.casefold() in _SPLITS else ""
    return f"{folder}-{path.stem}" if folder else path.stem


def _distinction(source: Source) -> str:
    """What distinguishes two sources of one name: the folder of a file, the split of a Hub dataset."""
    return _folder(source) if source.hub is None else _slug(source.split or source.files or "all")


def _folder(source: Source) -> str:
    return _slug(Path(source.path).parent.name if source.hub is None else source.hub.split("/")[1])


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-")


def parts(
    source: Source, progress: Callable[[int], None] = lambda _: None, size: int | None = None
) -> Iterator[Loaded]:
    """The benchmark in parts of about `size` bytes (`PART`); `progress` hears how many bytes each is.

    The defects of parts are not looked for (`Survey` does). `sha256` and `recognised` are of all that was read so far,
    so that those of the last part are the file's.

    Raises:
        UsageError, DataError: as `load`; where rows cannot be items, once the whole file is read.
    """
    size = size or PART
    if not _many_lines(source, size):
        yield load(source)
        return
    path, base = Path(source.path), _base(source)
    digest, whole, ids, forms = hashlib.sha256(), Whole(), dict[int, int](), Counter[str]()
    faults: list[Fault] = []
    layout, read, line, place, good, labelled = None, None, 1, 1, 0, 0
    with open_regular(path, follow=True) as file:
        while lines := file.readlines(size):
            data = b"".join(lines)
            digest.update(data)
            # Bytes that are not UTF-8 survive as lone surrogates, so that every bad line can be named.
            text = data.decode("utf-8-sig" if line == 1 else "utf-8", errors="surrogateescape")
            table = line_rows(text, line, place)
            layout = layout or chosen_layout(path.name, table, source.layout, source.fields)
            raw = read_rows(table, *layout)
            whole.add(raw.raws)
            read = read or _recognised(path.name, table, raw, raw.layout, source)
            forms.update(map(key_form, raw.raws))
            labelled += raw.labelled
            part, new = _part(path, table, raw, source, base, ids)
            faults += new
            good += len(part.items)
            line, place = line + len(lines), place + len(table.rows) + len(table.faults)
            progress(len(data))
            if source.skip_bad or not faults:
                so_far = replace(read, key_forms=dict(forms), labelled=labelled)
                yield replace(part, sha256=digest.hexdigest(), recognised=(so_far,))
    whole.require(path.name)
    require_pinned(path.name, digest.hexdigest(), source.sha256)
    if faults and (not source.skip_bad or not good):
        raise _refused(path.name, faults)


def _many_lines(source: Source, size: int) -> bool:
    """Whether a source is a file of more than `size` bytes of which each line is an item of its own."""
    path = Path(source.path)
    try:
        if source.hub is not None or not path.is_file() or path.stat().st_size <= size:
            return False
        with open_regular(path, follow=True) as file:
            head = [*file.readlines(HEAD), file.readline()]
    except OSError:
        # `load` says why it cannot be opened.
        return False
    text = b"".join(head).decode("utf-8-sig", errors="surrogateescape").strip()
    if not text.startswith("{") or not one_a_line(text) or sum(map(bool, map(bytes.strip, head))) < 2:
        return False
    rows = line_rows(text).rows
    return bool(rows) and not any(is_lm_eval(row.cells) for row in rows)
