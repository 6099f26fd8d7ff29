"""Loading of items from benchmark files. One error reports all faults of the files.

If a row cannot become an item, the file is refused. With `skip_bad`, the row is set aside instead. Rows are never
repaired.
"""

import os
import re
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import itemgetter
from pathlib import Path

from robustify.base.compressed import plain_path
from robustify.base.errors import DataError, Notice, UsageError
from robustify.base.files import cache_folder
from robustify.base.settings_files import name_of, named_set, with_split
from robustify.base.texts import is_blank
from robustify.items.item import BLANK_STEM, Item
from robustify.items.packed import Packed, packed_items, repeats
from robustify.reading.columns import PartDecision
from robustify.reading.counting import rarely_shows_no_0
from robustify.reading.guard import Guard, asking
from robustify.reading.loaders.answer_keys import FORMS
from robustify.reading.loaders.converters import table_of_items, with_options_apart
from robustify.reading.loaders.file_evidence import UncertainBaseError
from robustify.reading.loaders.layouts import RawItems, groups, raw_items
from robustify.reading.loaders.loaded import (
    SPLIT_SUFFIX,
    SPLITS,
    FieldMap,
    Loaded,
    Quarantined,
    Recognised,
    Source,
    TaskDocument,
)
from robustify.reading.loaders.open_file import NamedSet, joined_digest, open_rows
from robustify.reading.loaders.published import OWN
from robustify.reading.loaders.rows import Fault, RawItem, fault_lines
from robustify.reading.survey import find_defects

_MANY = 1 << 15
"""Number of items from which they stay packed, because as objects they take several times as much memory."""
_OF_ITEM = itemgetter(
    *map(RawItem.__slots__.index, ("stem", "choices", "id", "topic", "group", "question_at"))
)
_NO_QUESTION = frozenset({"", "nan", "none", "null", "n/a"})
"""Texts that programs write into an empty cell, in lower case."""
_LONGEST_EMPTY = max(map(len, _NO_QUESTION))


@dataclass(frozen=True, slots=True)
class _Part:
    """One file of a benchmark."""

    path: Path
    items: Packed[Item]
    lines: "array[int]"
    faults: tuple[Fault, ...]
    sha256: str
    recognised: Recognised
    documents: tuple[TaskDocument, ...] = ()


def load(source: Source, guard: Guard) -> Loaded:
    """Load a benchmark from one file or folder. Raises the same errors as `load_many`."""
    return load_many([source], guard)


def load_many(
    sources: Sequence[Source], guard: Guard, *, adapter: str | None = None, names: Iterable[str] = ()
) -> Loaded:
    """Load one or several files as one benchmark, in the given order. MMLU, for example, has one file per subject.

    The benchmark takes the first name given in `sources`, or the name of the file or folder. A generated ID begins with
    the file name, and with the folder name too if two files share a name. The `guard` sees the names of sets before they
    are fetched, and then the items, with the `adapter` and other `names` of the set. Raise `UsageError` if a path does not
    exist, a folder has no data, no row has a mapped field, or there are no sources, `AuthorisationError` if the guard
    refuses the set, and `DataError` if the layout is unknown, the digest differs, rows cannot become items, or two files
    share an ID. All faults of all files are in one error.
    """
    if not sources:
        raise UsageError("no benchmark file was given. Name at least one.", code="no-file-given")
    given, sources = sources, [file for source in sources for file in _files(source)]
    parts = _read_parts(sources, guard)
    parts[0] = _with_notes(parts[0], [note for source in given for note in _unread_files(source, sources)])
    single = len(parts) == 1
    packed, lines = packed_items(), array("q")
    files = tuple(part.path.name for part in parts for _ in part.lines)
    for part in parts:
        packed.extend(part.items)
        lines.extend(part.lines)
    if not single:
        _require_unique_ids(packed, files, lines)
    items = tuple(packed) if len(packed) < _MANY else packed
    path = parts[0].path
    folder = _folder(sources[0]) or _name(sources[0])
    bench = Loaded(
        name=next((s.name for s in sources if s.name), _name(sources[0]) if single else folder),
        layout="+".join(dict.fromkeys(part.recognised.layout for part in parts)),
        items=items,
        lines=tuple(lines) if len(packed) < _MANY else lines,
        defects=find_defects(items, lines, files),
        quarantined=tuple(
            Quarantined(f.line, f.reason, part.path.name) for part in parts for f in part.faults
        ),
        sha256=joined_digest([part.sha256 for part in parts]),
        path=str(path if single else path.parent),
        files=files,
        recognised=tuple(part.recognised for part in parts),
        documents=tuple(pair for part in parts if part.documents for pair in _with_items(part)),
    )
    guard.require_ordinary(bench, [*given, *(s for s in sources if s not in given)], adapter, names)
    return bench


def _files(source: Source) -> Sequence[Source]:
    """Return a source for each table of a folder. If the given source is not a folder of tables, return it unchanged."""
    if not _is_folder(source):
        return [source]
    from robustify.reading.loaders.folders import sources_of

    return sources_of(source)


def _is_folder(source: Source) -> bool:
    return named_set(source.path) is None and os.path.isdir(source.path)


def _unread_files(source: Source, read: Sequence[Source]) -> Sequence[Notice]:
    """Return a note on the unread files in a folder of tables, if there are any."""
    if not _is_folder(source):
        return ()
    from robustify.reading.loaders.folders import unread_files

    return unread_files(source, read)


def _with_notes(part: _Part, notes: Sequence[Notice]) -> _Part:
    unread = (*part.recognised.unread, *notes)
    return replace(part, recognised=replace(part.recognised, unread=unread)) if notes else part


def _read_parts(sources: Sequence[Source], guard: Guard) -> list[_Part]:
    """Read all files. Raise a single `DataError` with the faults of all files."""
    bases = Counter(map(_base, sources))
    prefixes = [
        base if bases[base := _base(source)] == 1 else f"{_distinction(source)}-{base}" for source in sources
    ]
    read: list[_Part | UncertainBaseError] = []
    faults: list[Notice] = []
    for source, prefix in zip(sources, prefixes, strict=True):
        try:
            with asking(guard, Path(source.path)):
                read.append(_part(source, prefix, guard))
        except UncertainBaseError as error:  # noqa: PERF203
            read.append(error)
        except DataError as error:
            faults += error.notices
    sure = [part for part in read if isinstance(part, _Part) and _counts_from_0(part)]
    parts: list[_Part] = []
    for part, source, prefix in zip(read, sources, prefixes, strict=False):
        if isinstance(part, _Part):
            parts.append(part)
        elif sure and not faults and (again := _counted_alike(source, prefix, sure, guard, len(read))):
            parts.append(again)
        else:
            faults += part.notices
    if faults:
        raise DataError(*faults)
    return parts


def _with_items(part: _Part) -> Iterator[tuple[TaskDocument, Item | None]]:
    """Yield the documents of a task with their items."""
    items = dict(zip(part.lines, part.items, strict=True))
    return ((document, items.get(document.line)) for document in part.documents)


def _require_unique_ids(items: Sequence[Item], files: Sequence[str], lines: Sequence[int]) -> None:
    """Raise `DataError` if items of several files have the same ID."""
    faults = [
        Notice(
            f"{files[i]}:{lines[i]}: the ID is already used at {files[before]}:{lines[before]}. Make each ID unique, or "
            "set `fields: {id: null}` for each file in a config.",
            code="repeated-id",
        )
        for i, before in repeats(array("q", (hash(item.id) for item in items)))
    ]
    if faults:
        raise DataError.gather(faults)


def _counts_from_0(part: _Part) -> bool:
    return FORMS["index"] in part.recognised.key_forms and any(item.key == 0 for item in part.items)


def _counted_alike(
    source: Source, base: str, others: Sequence[_Part], guard: Guard, n_files: int
) -> _Part | None:
    """Read a file whose keys may start at 0 or 1 as starting at 0, because another file with the same fields has a key of
    0. Return None if a key would be too large, or if the lack of a 0 would be too unlikely by chance."""
    fields = {} if source.fields is None else source.fields.model_dump()
    part = _part(source.model_copy(update={"fields": FieldMap(**fields | {"key_is": "index"})}), base, guard)
    columns = {name: column for name, column in part.recognised.fields.items() if name != "key_is"}
    too_large = any(getattr(fault.reason, "code", "") == "key-out-of-range" for fault in part.faults)
    alike = any(columns.items() <= other.recognised.fields.items() for other in others)
    if too_large or not alike or rarely_shows_no_0((item.k for item in part.items), n_files):
        return None
    text = f"the keys of {part.path.name} are never 0, and were counted from 0 as those of the other files"
    note = Notice(text, code="counted-as-other-files")
    return _with_notes(part, [note])


def _part(source: Source, base: str, guard: Guard) -> _Part:
    path, mapped = Path(source.path), source.fields
    if named := _set_by_name(source, guard):
        opened, digest, mapped = named.table, named.sha256, named.fields or mapped
    else:
        opened, digest = open_rows(source.path, source.sha256, source.split, stream=True)
    table = table_of_items(path.name, opened)
    if not table.rows:
        none = Notice(f"{path.name} has no rows; expected items", code="no-rows")
        raise DataError.gather(fault_lines(path.name, table.faults) or [none])
    raw = raw_items(path.name, with_options_apart(table) if mapped is None else table, mapped)
    layout = raw.recognised.layout
    recognised = replace(raw.recognised, layout=f"{table.outer}/{layout}" if table.outer else layout)
    if named:
        recognised = replace(recognised, origin=named.origin)
    if named and named.keyed_by:
        decisions = (PartDecision("key", (), named.keyed_by, "the harness scores by it"),)
        keyed = replace(recognised, fields={}, key_forms={}, keyed_by=named.keyed_by, decisions=decisions)
        recognised = replace(keyed, layout=named.origin["harness"])
    # Such an ID is a page number, or the name of a passage, or two files were joined.
    id_mapped = source.fields is not None and source.fields.id is not None
    again = {i: before for i, before in repeats(raw.ids) if raw.ids[i]}
    if by_line := bool(again) and not id_mapped and layout != OWN:
        n = len({*again, *again.values()})
        text = f"IDs repeat (in {n:,} of {len(raw.raws):,} rows), so the items are named by their lines"
        note = Notice(text, code="ids-repeat")
        fields = {part: name for part, name in recognised.fields.items() if part != "id"}
        recognised = replace(recognised, fields=fields, unread=(*recognised.unread, note))
    items, lines, wrong = _items(raw, source, base, by_line)
    faults = sorted([*table.faults, *raw.faults, *wrong], key=lambda fault: fault.line)
    if faults and (not source.skip_bad or not items):
        raise DataError.gather(fault_lines(path.name, faults))
    return _Part(path, items, lines, tuple(faults), digest, recognised, named.documents if named else ())


def _set_by_name(source: Source, guard: Guard) -> NamedSet | None:
    """Load the set that a source names, or return None if the source is a file path."""
    if named_set(source.path) is None:
        return None
    from robustify.reading.harness import load_named

    return load_named(source, guard, cache_folder())


def _has_question(stem: str, start: int, ours: bool) -> bool:
    """Return whether a stem has a question after this position. Below a passage, the question must be visible. Alone,
    or in our own layout, an invisible question is a defect."""
    question = stem[start:].strip()
    if ours:
        return bool(question)
    if len(question) <= _LONGEST_EMPTY and question.casefold() in _NO_QUESTION:
        return False
    return not (start and is_blank(question))


def _items(
    raw: RawItems, source: Source, base: str, by_line: bool
) -> tuple[Packed[Item], "array[int]", list[Fault]]:
    """Return the items, their line numbers, and the faults of the other rows. Items without an ID, or all items with
    `by_line`, get an ID that begins with `base`."""
    own = _base(source) if raw.recognised.layout == "mmlu_csv" else ""
    items, lines, names, faults = packed_items(), array("q"), array("q"), list[Fault]()
    for line, number, key, group, parts in zip(
        raw.lines, raw.numbers, raw.keys, groups(raw, base), raw.raws.drained(), strict=True
    ):
        stem, choices, id, topic, own_group, question_at = _OF_ITEM(parts)
        name = f"{base}-{number:04d}" if by_line or not id else id
        topic = sys.intern(source.topic if source.topic is not None else topic.strip() or own)
        if _has_question(stem, question_at, raw.recognised.layout == OWN):
            items.add((name, key, topic, own_group or group, stem, choices, question_at))
            lines.append(line)
            names.append(hash(name))
        else:
            faults.append(Fault(line, BLANK_STEM))
    again = dict(repeats(names))
    for i, before in again.items():
        used = f"the ID is already used on line {lines[before]}. Make each ID unique."
        faults.append(Fault(lines[i], Notice(used, code="repeated-id")))
    if again:
        keep = [i not in again for i in range(len(items))]
        items, lines = items.where(keep), array("q", compress(lines, keep))
    return items, lines, faults


def _base(source: Source) -> str:
    """Return the prefix of generated IDs: the file name without its split."""
    stem = name_of(source.path) if named_set(source.path) else plain_path(Path(source.path)).stem
    return SPLIT_SUFFIX.sub("", _slug(stem)) or "item"


def _name(source: Source) -> str:
    """Return the name of a single-file benchmark. If the file name is only a split, the folder name precedes it."""
    if named_set(source.path):
        return name_of(source.path)
    path = plain_path(Path(source.path))
    folder = path.absolute().parent.name if path.stem.casefold() in SPLITS else ""
    return with_split(f"{folder}-{path.stem}" if folder else path.stem, source.split)


def _distinction(source: Source) -> str:
    """Return the folder of a file or the split of a folder, to distinguish sources that share a name."""
    return _slug(source.split) if source.split else _folder(source)


def _folder(source: Source) -> str:
    return _slug(Path(source.path).parent.name)


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-")
