"""A large file of JSON Lines, a part at a time, so that what is counted item by item is never in memory as a whole.

A part is read as a file of its own is, under the layout of the first one. What only the whole file shows (its digest, ids
that stand twice, keys that look counted from 1) is carried from part to part. Any other file is one part.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from robustify.files import open_regular
from robustify.loaders.answer_keys import key_form
from robustify.loaders.assemble import item_base, load, made_items, recognised, refused
from robustify.loaders.json_rows import line_rows, one_a_line
from robustify.loaders.layouts import Whole, chosen_layout, is_lm_eval, read_rows
from robustify.loaders.loaded import Loaded, Quarantined, Source
from robustify.loaders.open_file import HEAD, require_pinned
from robustify.loaders.rows import Fault

PART = 16 << 20
"""Bytes of a part, up to the end of its last line."""


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
    path, base = Path(source.path), item_base(source)
    digest, whole, ids, forms = hashlib.sha256(), Whole(), dict[int, int](), Counter[str]()
    faults: list[Fault] = []
    layout, read, line, place, good = None, None, 1, 1, 0
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
            read = read or recognised(path.name, table, raw, raw.layout, source)
            forms.update(map(key_form, raw.raws))
            items, places, wrong = made_items(raw, source, base, ids)
            new = sorted([*table.faults, *raw.faults, *wrong], key=lambda fault: fault.line)
            faults += new
            good += len(items)
            line, place = line + len(lines), place + len(table.rows) + len(table.faults)
            progress(len(data))
            if source.skip_bad or not faults:
                yield Loaded(
                    name=source.name or path.stem,
                    layout=raw.layout,
                    items=tuple(items),
                    lines=tuple(places),
                    defects=(),
                    quarantined=tuple(Quarantined(fault.line, fault.reason, path.name) for fault in new),
                    sha256=digest.hexdigest(),
                    path=str(path),
                    files=(path.name,) * len(items),
                    recognised=(replace(read, key_forms=dict(forms)),),
                )
    whole.require(path.name)
    require_pinned(path.name, digest.hexdigest(), source.sha256)
    if faults and (not source.skip_bad or not good):
        raise refused(path.name, faults)


def _many_lines(source: Source, size: int) -> bool:
    """Whether a source is a file of more than `size` bytes of which each line is an item of its own."""
    path = Path(source.path)
    if source.hub is not None or not path.is_file() or path.stat().st_size <= size:
        return False
    with open_regular(path, follow=True) as file:
        head = [*file.readlines(HEAD), file.readline()]
    text = b"".join(head).decode("utf-8-sig", errors="surrogateescape").strip()
    if not text.startswith("{") or not one_a_line(text) or sum(map(bool, map(bytes.strip, head))) < 2:
        return False
    rows = line_rows(text).rows
    return bool(rows) and not any(is_lm_eval(row.cells) for row in rows)
