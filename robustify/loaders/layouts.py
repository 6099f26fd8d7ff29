"""Layout recognition by field names and shapes, and conversion of rows to raw items.

A file that can be read in several ways is refused, with the fields found and the mapping to write. Rows that look right
one by one but not together are refused too. From harness logs (lm-eval's `samples_*.jsonl`, Inspect's JSON), only the
original items are read. `robustify import` reads the models' answers.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from robustify.errors import DataError, UsageError, counted
from robustify.loaders.answer_keys import FORMS, key_hint, read_keys, uncertain_base
from robustify.loaders.choices import BY_LABEL, KEPT_BELOW, name_key, usual_names
from robustify.loaders.datasets import LAYOUTS, OWN, BenchmarkLayout
from robustify.loaders.fields import (
    CHOICES,
    KNOWN_NAMES,
    LOGGED_TARGET,
    AmbiguousError,
    Columns,
    NoKeyError,
    bare_choices,
    bare_stems,
    complete,
    read_fields,
    several,
    without_leads,
)
from robustify.loaders.key_columns import (
    counted_as_rivals,
    possible_flags,
    require_one_key,
    rivals,
    sparse_keys,
)
from robustify.loaders.loaded import FieldMap
from robustify.loaders.rows import (
    Fault,
    RawItem,
    SourceRow,
    SourceTable,
    as_object,
    has,
    name_like,
    rows_or_faults,
)
from robustify.marks.labelling import cut_at_labels, only_labels
from robustify.redaction import HoldsText
from robustify.texts import edges, undressed

ROWS_LOOKED_AT = 200
ROWS_OF_LETTERS = 10
"""Least number of rows whose options are only small letters, or letters of another script, for a refusal."""
SHARED_SPACE = "all options began or ended with the same white space, which was taken off"
BY_NAMES = "fields"
"""Name of the layout that is read by field names."""


@dataclass(frozen=True, slots=True, repr=False)
class RawItems(HoldsText):
    """Items read by a layout, with zero-based keys, and the faults of rows that could not be read.

    `fields` maps the fields unless the layout has its own names. `forms` counts rows by the form of their key. `labelled`
    is the number of rows whose choices had inline labels, which were removed. `unread` says what was left out."""

    layout: str
    fields: FieldMap
    rows: tuple[SourceRow, ...]
    raws: tuple[RawItem, ...]
    keys: tuple[int, ...]
    faults: tuple[Fault, ...]
    forms: Mapping[str, int]
    labelled: int = 0
    unread: tuple[str, ...] = ()


def raw_items(name: str, table: SourceTable, fields: FieldMap | None = None) -> RawItems:
    """Read the rows of a table by its layout, or by the user's field map.

    Raises:
        UsageError: no row has a mapped field.
        DataError: the layout is unknown or ambiguous, or the rows contradict each other.
    """
    known, found = _chosen_layout(name, table, fields)
    read = known.read if known else partial(read_fields, fields=found)
    made, faults = rows_or_faults(((row, row.cells) for row in table.rows), lambda _, cells: read(cells))
    raws = [raw for _, raw in made]
    # Files that robustify wrote are read back unchanged.
    plain = raws if known is OWN else without_leads(bare_stems(raws))
    unlabelled = raws if known is OWN else bare_choices(plain)
    bare = raws if known is OWN else _evened(unlabelled)
    shared = () if bare is unlabelled else (SHARED_SPACE,)
    free = known is None and (fields is None or fields.key is None)
    meant = rivals(found, [row.cells for row, _ in made], bare) if free else {}
    if (counting := counted_as_rivals(bare, meant)) is not bare:
        bare, found = counting, found.model_copy(update={"key_is": "number"})
    _require_whole(name, bare)
    keys = read_keys(bare)
    require_one_key(name, found, [row.line for row, _ in made], keys, meant)
    faults += [Fault(row.line, key.fault) for (row, _), key in zip(made, keys, strict=True) if key.fault]
    good = [at for at, key in enumerate(keys) if not key.fault]
    return RawItems(
        layout=known.name if known else BY_NAMES,
        fields=found,
        rows=tuple(made[at][0] for at in good),
        raws=tuple(bare[at] for at in good),
        keys=tuple(keys[at].index for at in good),
        faults=tuple(faults),
        forms=dict(Counter(keys[at].form for at in good)),
        labelled=sum(
            one.choices is not two.choices or one.cut == BY_LABEL
            for one, two in zip(plain, unlabelled, strict=True)
        ),
        unread=(*table.notes, *shared, *_unread(table, found if known is None else None, bare)),
    )


def _evened(raws: Sequence[RawItem]) -> Sequence[RawItem]:
    """Take off the white space that all choices of a file begin or end with, such as the blank after each comma."""
    if not (raws and raws[0].choices and any(edges(raws[0].choices[0]))):
        return raws
    every = [choice for raw in raws for choice in raw.choices]
    texts = iter(even := undressed(every))
    if even[0] == every[0]:
        return raws
    return [replace(raw, choices=tuple(islice(texts, len(raw.choices)))) for raw in raws]


def _chosen_layout(
    name: str, table: SourceTable, fields: FieldMap | None
) -> tuple[BenchmarkLayout | None, FieldMap]:
    """Return the layout of a table and an empty field map, or None and a field map for an unknown layout."""
    if fields is not None:
        return None, field_map(name, table, fields)
    if table.layout:
        return next(known for known in LAYOUTS if known.name == table.layout), FieldMap()
    looked_at = table.rows[:ROWS_LOOKED_AT]
    found = Counter(next((known for known in LAYOUTS if known.has_it(r.cells)), None) for r in looked_at)
    most, n = found.most_common(1)[0]
    return (
        (most, FieldMap()) if most and n * 2 > len(looked_at) else (None, field_map(name, table, FieldMap()))
    )


def field_map(name: str, table: SourceTable, said: FieldMap) -> FieldMap:
    """Return the user's field map, with missing parts filled in from common names.

    Raises:
        UsageError: no row has a mapped field, or the table has no field names.
        DataError: a part of an item has no field, or several fields.
    """
    if table.layout:
        raise UsageError(
            f"{name} has no field names (layout `{table.layout}`). Remove `fields`, or add a header to the file."
        )
    rows = [row.cells for row in table.rows]
    columns = Columns.of(rows)
    for mapped in (said.stem, *several(said.choices), said.key, said.id, said.topic, said.passage):
        if mapped is None or any(has(cells, mapped) for cells in rows):
            continue
        # A key may be a member of the options that marks the right one.
        choices = said.choices or next(iter(usual_names(columns.usual, CHOICES)), None)
        flags = possible_flags(columns.example, choices)
        if mapped != said.key or mapped not in flags:
            raise UsageError(f"{name}: no row has the field `{mapped}` named in `fields`; {_columns(table)}")
    try:
        return complete(said, columns)
    except AmbiguousError as error:
        keys = _proposed_keys(name, table, said, error) if isinstance(error, NoKeyError) else []
        mend = (
            f"Its values fit: add {' or '.join(keys)}, or set the same under `fields` in the config."
            if keys
            else "Name the fields with `--map stem=NAME --map choices=NAME,NAME --map key=NAME`, or set `fields: {stem: "
            "NAME, choices: NAME or [NAME, NAME], key: NAME}` in the config."
        )
        raise DataError(f"{name}: the layout is unknown ({error}); {_columns(table)}. {mend}") from None


def _proposed_keys(name: str, table: SourceTable, said: FieldMap, error: NoKeyError) -> list[str]:
    """Return the option that maps the key, if exactly one column can be the key: one that marks single options, or else one
    with letters, labels, or texts, or else with numbers. Columns that say the same count once."""
    some = replace(table, rows=table.rows[:ROWS_LOOKED_AT])
    example, found = table.rows[0].cells, dict[str, tuple[FieldMap, RawItems]]()
    inside = [f"{error.choices}.{name}" for name in as_object(example.get(str(error.choices)))]
    columns = [*dict.fromkeys(name for row in some.rows for name in row.cells), *inside]
    for column in possible_flags(example, error.choices) or columns:
        for key_is in ("auto", "number") if column not in several(error.choices) else ():
            fields = said.model_copy(update={"key": column, "key_is": key_is})
            with suppress(DataError, UsageError):
                read = raw_items(name, some, fields)
                if not read.faults and (len(read.keys) < 3 or len({*read.keys}) > 1):
                    found[column] = fields, read
                    break
    sure = {column: one for column, one in found.items() if not one[1].forms.keys() & {*FORMS.values()}}
    best = [*(sure or found).items()]
    alike = bool(sure) and len({read.keys for _, read in sure.values()}) == 1
    if not best or (len(best) > 1 and not alike):
        return []
    column, (fields, _) = best[0]
    with suppress(DataError, UsageError):
        if name_like(column) and not raw_items(name, table, fields).faults:
            form = " --map key_is=number" if fields.key_is == "number" else ""
            return [f"`--map {shlex.quote(f'key={column}')}{form}`"]
    return []


def _columns(table: SourceTable) -> str:
    names, what = list(table.rows[0].cells), "column" if table.flat else "field"
    # A field that few records have may be named after a choice or an ID.
    rows = table.rows[:ROWS_LOOKED_AT]
    usual = [
        n for n in names if name_key(n) in KNOWN_NAMES or 2 * sum(n in r.cells for r in rows) > len(rows) > 1
    ]
    if not usual or not _shown(table, names):
        return f"found {counted(len(names), what)} (names not shown, because they may be item text)"
    rest = f" and {len(names) - len(usual)} rare ones" if len(usual) < len(names) else ""
    return f"found the {what}s {', '.join(usual)}{rest}"


def _shown(table: SourceTable, names: Sequence[str]) -> bool:
    """Return whether field names may be shown. If the header is missing, the first record is read as names, and an object
    may use its question as a name. Both are item text. Names are shown only if they are single words with one common name,
    or short phrases with two."""
    known = sum(name_key(name) in KNOWN_NAMES for name in table.rows[0].cells)
    if all(re.fullmatch(r"#?[A-Za-z_][\w.@:/+-]{0,59}", name) for name in names):
        return known > 0 or not table.flat
    return known > 1 and all(map(name_like, names))


def _require_whole(name: str, raws: Sequence[RawItem]) -> None:
    """Refuse a file whose rows are valid one by one but inconsistent as a whole."""
    bare = [raw for raw in raws if only_labels(raw.choices)]
    sure = [raw for raw in bare if raw.choices[0].strip() == "A" or cut_at_labels(raw.stem)]
    letters = [raw for raw in bare if not raw.choices[0].strip().isdecimal()]
    most = max(len(sure), len(letters) * (len(letters) >= ROWS_OF_LETTERS))
    if most * 2 > len(raws):
        raise DataError(
            f"{name}: in {most} of {len(raws)} rows, the options are only letters, and their text is in the stem or "
            "missing. Use a version of the benchmark that includes the text of each option."
        )
    if forms := uncertain_base(raws):
        raise DataError(
            f"{name}: the keys are whole numbers and never 0, so they may count from 1{key_hint(forms)}"
        )
    cuts = {raw.cut for raw in raws}
    sizes = {len(raw.choices) for raw in raws if raw.cut not in ("", BY_LABEL)}
    if len(cuts) > 1 or len(sizes) > 1:
        raise DataError(
            f"{name}: the options are in one cell, and rows differ in separator or number of options. The separator may be "
            "part of an option. Put each option in its own column."
        )


def _unread(table: SourceTable, fields: FieldMap | None, raws: Sequence[RawItem]) -> Iterator[str]:
    """Say which fields of the rows were not read, and what stood beside the choices."""
    rows = len(raws)
    for what, n in Counter(what for raw in raws for what in dict.fromkeys(raw.unread)).items():
        says = "kept as a part of the last option" if what == KEPT_BELOW else "not read as an option"
        yield f"{says}: {what} (in {n:,} of {rows:,} rows)"
    if fields is None or table.layout:
        return
    columns = Columns.of([row.cells for row in table.rows])
    parts = (fields.stem, fields.key, fields.id, fields.topic, fields.passage, *several(fields.choices))
    taken = {LOGGED_TARGET, *(str(part).split(".")[0] for part in parts)}
    names = [name for name in (*columns.usual, *columns.more) if name not in taken]
    for sparse in sparse_keys(fields, names, columns.filled):
        yield f"`{sparse}` has a value in some rows only and was not read as the key"
    if names:
        yield f"{counted(len(names), 'field')} not read: {', '.join(names) if _shown(table, names) else 'names not shown'}"


def groups(raws: Sequence[RawItem], base: str) -> list[str]:
    """Return a group name for each row that shares its passage with other rows, and "" for other rows. Groups are
    numbered by first occurrence."""
    shared = Counter(raw.passage for raw in raws)
    numbers: dict[str, int] = {}
    for raw in raws:
        if raw.passage.strip() and shared[raw.passage] > 1:
            numbers.setdefault(raw.passage, len(numbers) + 1)
    return [f"{base}-p{numbers[raw.passage]:04d}" if raw.passage in numbers else "" for raw in raws]
