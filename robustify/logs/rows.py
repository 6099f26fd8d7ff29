"""The items that the rows of a log show, read by the loaders that read benchmarks.

A log holds its items in its harness's own wrapping and the benchmark's own layout; nothing here knows either.
"""

from collections.abc import Mapping

from robustify.errors import ItemError
from robustify.loaders.keys import key_index
from robustify.loaders.layouts import HOUSE, Read, choose
from robustify.loaders.rows import Fault, Raw, Row, Table
from robustify.loaders.whole import bare_stems, check_whole, groups
from robustify.logs.log import Shown, Wanted


def shown_items(
    file: str, table: Table, wanted: Wanted, task: str, called: Mapping[int, str]
) -> tuple[dict[int, Shown], list[Fault]]:
    """By line the item that each row of an unwrapped table shows, and the rows that show none.

    `called`: by line what the log calls the item.

    Raises:
        DataError: no layout is recognised, or the choices are letters only.
        UsageError: a mapped field that no row has.
    """
    if not table.rows:
        return {}, list(table.faults)
    layout, read = choose(file, table, None, wanted.fields)
    read_rows = [(row, _raw_or_fault(row, read)) for row in table.rows]
    found = [(row, raw) for row, raw in read_rows if isinstance(raw, Raw)]
    raws = [raw for _, raw in found]
    check_whole(file, raws)
    raws = raws if layout == HOUSE.name else bare_stems(raws)
    named = zip(found, raws, groups(raws, task), strict=True)
    items = [(row.line, _shown_or_fault(row, raw, group, called[row.line])) for (row, _), raw, group in named]
    unread = [raw for _, raw in read_rows if isinstance(raw, Fault)]
    faults = [*table.faults, *unread, *(item for _, item in items if isinstance(item, Fault))]
    return {line: item for line, item in items if isinstance(item, Shown)}, faults


def _raw_or_fault(row: Row, read: Read) -> Raw | Fault:
    try:
        return read(row.cells)
    except ItemError as error:
        return Fault(row.line, str(error))


def _shown_or_fault(row: Row, raw: Raw, group: str, called: str) -> Shown | Fault:
    try:
        return _shown(raw, group, called)
    except ItemError as error:
        return Fault(row.line, str(error))


def _shown(raw: Raw, group: str, called: str) -> Shown:
    key = key_index(raw)
    return Shown(
        k=len(raw.choices),
        stem=raw.stem,
        choices=raw.choices,
        key=key,
        name=called,
        id=raw.id,
        topic=raw.topic.strip(),
        group=raw.group or group,
    )
