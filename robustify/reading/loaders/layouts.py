"""Recognition of layouts by field names and shapes, and conversion of rows to raw items.

The columns and the reader of a file are chosen once. A file that can be read in several ways is refused, with the fields
found and the mapping to write. Rows that look right one by one but not together are refused too (`file_checks`).
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress

from robustify.base.errors import DataError, Notice, UsageError, counted
from robustify.base.redaction import HoldsText
from robustify.reading import file_checks
from robustify.reading.bare_items import Bare, bare_items
from robustify.reading.columns import (
    LOGGED_TARGET,
    ColumnError,
    PartDecision,
    every_named,
    is_named,
    known_name,
    may_show,
    several,
    usual_name,
    without_notes,
)
from robustify.reading.loaders import answer_keys, file_evidence, listed_options, option_columns, rows
from robustify.reading.loaders.column_rules import PARTS, Columns, decide_columns
from robustify.reading.loaders.converters import special_table
from robustify.reading.loaders.loaded import NOBODY, UNREVIEWED, FieldMap, Recognised
from robustify.reading.loaders.published import OWN, PublishedLayout, Read, layouts, read_own, reader_of

ROWS_LOOKED_AT = 200
_DAMAGED = Notice(
    "the labels of the options repeat, or one is missing, but other rows have labels in a series. Correct the labels",
    code="damaged-labels",
)
_BY_NAMES = "fields"
"""Name of the layout that is read by field names."""
_COMPOSED = {UNREVIEWED, UNREVIEWED.capitalize()}


@dataclass(frozen=True, slots=True, repr=False)
class RawItems(HoldsText):
    """Items read by a layout, with their lines and zero-based keys, the faults of other rows, and a description of
    how the file was read. `ids` are the hashes of their IDs, or 0. Items may share an ID only with `passages`."""

    lines: Sequence[int]
    numbers: Sequence[int]
    raws: rows.Raws
    keys: tuple[int, ...]
    faults: tuple[rows.Fault, ...]
    recognised: Recognised
    ids: Sequence[int]
    passages: bool


def raw_items(name: str, table: rows.SourceTable, fields: FieldMap | None = None) -> RawItems:
    """Read the rows of a table by its layout or by the user's field map. Raise `UsageError` if no row has a mapped
    field, and `DataError` if the layout is unknown or ambiguous, or the rows contradict each other."""
    faults, mapped = list[rows.Fault](), fields or FieldMap()
    layout = _published_layout(table) if fields is None else None
    if fields is None and layout is None and (special := special_table(table)) is not table:
        faults += special.faults[len(table.faults) :]
        table, layout = special, _published_layout(special)
    columns = None if layout else Columns.collect(table)
    if columns:
        schema, decisions = _field_map(name, table, columns, mapped)
    else:
        assert layout
        schema, decisions = layout, (PartDecision("all", (), layout.name, layout.about),)
    form = listed_options.usual_form((row.cells for row in table.rows[:ROWS_LOOKED_AT]), schema.choices)
    own = layout is not None and layout.name == OWN
    others = file_evidence.OtherColumns()
    if columns:
        others = others.find(schema, columns, fields, table.outer)
    evidence = file_evidence.FileEvidence(schema, others)
    as_read, lines, numbers = _as_read(
        table.rows, read_own if own else reader_of(schema, form), evidence, faults
    )
    # Files that robustify wrote are read back unchanged.
    around = lines, evidence.n_with_lead, evidence.n_inside
    bare = Bare(as_read) if own else bare_items(as_read, *around)
    raws = answer_keys.with_alphabet(bare.raws, evidence.short_keys)
    evidence = evidence if raws is as_read else evidence.recount(raws)
    file_evidence.settle_base(evidence)
    schema = evidence.fields
    weak = columns is not None and mapped.stem is None and not is_named(schema.stem or "", "stem", slice(1))
    keys = answer_keys.read_keys(evidence.written, schema.key_is)
    for i in bare.damaged:
        keys[i] = answer_keys.ReadKey(fault=_DAMAGED)
    sample = [row.cells for row in table.rows[:ROWS_LOOKED_AT]] if columns and fields is None else []
    file_checks.require_clear(name, file_checks.Case(evidence, lines, keys, weak, sample))
    differ = [*evidence.differences(keys)]
    ids: Sequence[int] = evidence.ids
    if any(key.fault for key in keys):
        faults += [rows.Fault(line, key.fault) for line, key in zip(lines, keys, strict=True) if key.fault]
        good = [not key.fault for key in keys]
        raws, keys = raws.where(good), [*compress(keys, good)]
        lines, numbers, ids = ([*compress(values, good)] for values in (lines, numbers, ids))
    recognised = Recognised(
        file=name,
        layout=layout.name if layout else _BY_NAMES,
        fields={} if layout else schema.model_dump(exclude_defaults=True, exclude_none=True),
        key_forms=dict(Counter(key.form for key in keys)),
        labelled=len(evidence.written) if bare.labelled else evidence.cuts[listed_options.BY_LABEL],
        cut=raws[0].cut if raws else "",
        unread=(*table.notes, *bare.notes, *differ, *_unread_notes(table, evidence, columns)),
        decisions=(*decisions, *_form_decisions(schema, form, keys)),
    )
    indices = tuple(key.index for key in keys)
    return RawItems(lines, numbers, raws, indices, tuple(faults), recognised, ids, evidence.passages)


_COUNTING = {
    answer_keys.FORMS[
        "index"
    ]: "numbers count from 0 unless another column, or a number of options, shows otherwise",
    answer_keys.FORMS[
        "number"
    ]: "mapped, or keys from 0 would contradict another column or the numbers of options",
    answer_keys.MARKED: "the right option is marked, or has its own column",
    answer_keys.NUMBERED: "the options are labeled with these numbers",
    "label": "the labels of the options name them",
    "letter": "letters name the options in the order of the file",
    "text": "the key is the text of exactly one option",
}
"""Reasons for the forms of keys."""


def _form_decisions(
    fields: FieldMap, form: listed_options.FormRule | None, keys: Sequence[answer_keys.ReadKey]
) -> Iterator[PartDecision]:
    """Yield decisions on the form of the options and of the keys."""
    if form is not None:
        yield PartDecision("form of choices", several(fields.choices), form.form, "the form of most rows")
    for name, n in Counter(key.form for key in keys if not key.fault).items():
        yield PartDecision(
            "form of key", several(fields.key), f"{name} in {n:,} rows", _COUNTING.get(name, "")
        )


def _as_read(
    table: Sequence[rows.SourceRow],
    read: Read,
    evidence: file_evidence.FileEvidence,
    faults: list[rows.Fault],
) -> tuple[rows.Raws, Sequence[int], Sequence[int]]:
    """Read rows into items. Return the items with their lines and numbers, count them, and add the faults of other rows."""
    raws, lines, numbers = rows.packed_raws(), array("q"), array("q")
    candidates = evidence.others.every
    for row in table:
        evidence.n_unreviewed += any(map(row.cells.get, _COMPOSED))
        try:
            raw = read(row.cells)
        except DataError as error:
            faults.append(rows.Fault(row.line, error.reason))
            continue
        if candidates:
            raw = replace(raw, candidates=tuple(map(row.cells.get, candidates)))
        raws.add(rows.raw_parts(raw))
        evidence.add(raw)
        lines.append(row.line)
        numbers.append(row.number)
    return raws, lines, numbers


def _published_layout(table: rows.SourceTable) -> PublishedLayout | None:
    """Return the layout that the file's reader named. Otherwise, return the layout of most rows, or None."""
    if table.layout:
        return next(layout for layout in layouts() if layout.name == table.layout)
    sample = table.rows[:ROWS_LOOKED_AT]
    matching = Counter(
        next((layout.name for layout in layouts() if layout.matches(row.cells)), "") for row in sample
    )
    name, n = matching.most_common(1)[0]
    return next((layout for layout in layouts() if layout.name == name and 2 * n > len(sample)), None)


def _field_map(
    name: str, table: rows.SourceTable, columns: Columns, fields: FieldMap
) -> tuple[FieldMap, tuple[PartDecision, ...]]:
    """Return the user's field map, with missing parts filled in from common names. Raise `UsageError` if no row has a
    mapped field, or the table has no field names, and `DataError` if a part of an item has no field, or several fields."""
    if table.layout:
        raise UsageError(
            f"{name} has no field names (layout `{table.layout}`). Remove `fields`, or add a header to the file.",
            code="no-field-names",
        )
    for mapped in (column for part in PARTS for column in several(getattr(fields, part))):
        if mapped.startswith("=") or any(rows.has(row.cells, mapped) for row in table.rows):
            continue
        # A key may be a member of the options that marks the right one.
        choices = fields.choices or usual_name(columns.example, "choices") or None
        if mapped != fields.key or mapped not in possible_flags(columns.example, choices):
            raise UsageError(
                f"{name}: no row has the field `{mapped}` named in `fields`; {listed_columns(table)}",
                code="no-such-field",
            )
    choices = None
    try:
        schema, decisions = decide_columns(fields, columns)
        if schema.key is not None or _mark_the_key(columns, schema.choices):
            return schema, decisions
        choices = schema.choices
        reason = Notice("no field has one of the usual names for the key", code="no-key-column")
    except ColumnError as error:
        reason = error.reason
    from robustify.reading.loaders import layout_advice

    reason, mend = layout_advice.advice(name, table, columns, fields, choices, reason)
    raise DataError(
        f"{name}: the layout is unknown ({reason}); {listed_columns(table)}. {mend}", code=reason.code
    )


def _mark_the_key(columns: Columns, choices: str | tuple[str, ...] | None) -> bool:
    """Return whether the choices of the example row mark the right choice."""
    with suppress(DataError):
        return isinstance(choices, str) and bool(listed_options.read_choices(columns.example, choices).marks)
    return False


def listed_columns(table: rows.SourceTable) -> str:
    """Return the names of a table's columns in words, or only their number if a name may be item text."""
    names, what = list(table.rows[0].cells), "column" if table.flat else "field"
    # A field that few records have may be named after a choice or an ID.
    counts = table.rows[:ROWS_LOOKED_AT]
    usual = [n for n in names if known_name(n) or 2 * sum(n in r.cells for r in counts) > len(counts) > 1]
    if not usual or not names_are_safe(table, names):
        return f"found {counted(len(names), what)} (names not shown, because they may be item text)"
    others = f" and {len(names) - len(usual)} rare ones" if len(usual) < len(names) else ""
    return f"found the {what}s {', '.join(usual)}{others}"


def names_are_safe(table: rows.SourceTable, names: Sequence[str]) -> bool:
    """Return whether field names may be shown. If the header is missing, the first record is read as names, and an object
    may use its question as a name. Both are item text. Names are shown only if they are single words with one common name,
    or short phrases with two."""
    if not may_show(names):
        return False
    n_known = sum(map(known_name, table.rows[0].cells))
    if all(re.fullmatch(r"#?[A-Za-z_][\w.@:/+-]{0,59}", name) for name in names):
        return n_known > 0 or not table.flat or _is_header(table, names)
    return all(rows.name_like(without_notes(name)) for name in names) and (
        n_known > 1 or (table.flat and _is_header(table, names))
    )


def _is_header(table: rows.SourceTable, names: Sequence[str]) -> bool:
    """Return whether line 1 is a header, because one of its names is above a column of short marks, such as key letters."""
    counts = [row.cells for row in table.rows[:ROWS_LOOKED_AT]]
    return any(len(name) > 2 and all(0 < len(str(cells.get(name))) < 3 for cells in counts) for name in names)


def _unread_notes(
    table: rows.SourceTable, facts: file_evidence.FileEvidence, columns: Columns | None
) -> Iterator[Notice]:
    """Yield notes on unread parts: texts next to the choices, and fields. One note counts the items of a composed set
    that have options that nobody reviewed."""
    for what, n in facts.unread.items():
        if what == option_columns.ONE_TEXT and 10 * n < len(facts.written):
            continue
        says = listed_options.KEPT.get(what, "not read as an option")
        text = f"{says}: {what} (in {n:,} of {len(facts.written):,} rows)"
        yield Notice(text, code="text-beside-options")
    if facts.n_unreviewed:
        text = f"{counted(facts.n_unreviewed, 'item')} with {NOBODY} (`{UNREVIEWED}`)"
        yield Notice(text, code="unreviewed-options")
    if columns is None:
        return
    fields = facts.fields
    parts = (
        fields.stem,
        fields.key,
        fields.id,
        fields.topic,
        fields.passage,
        fields.group,
        *several(fields.choices),
    )
    taken = {LOGGED_TARGET, *_COMPOSED, *parts, *(str(part).split(".")[0] for part in parts)}
    names = [name for name in columns.names if name not in taken]
    full = columns.filled.get(fields.key or "", 0)
    for name in every_named(names, "key"):
        if 0 < columns.filled[name] * 10 < full * 9:
            text = f"`{name}` has a value in some rows only and was not read as the key"
            yield Notice(text, code="sparse-key-column")
    for part in (fields.passage, fields.topic):
        cells = [row.cells.get(part or "") for row in table.rows[:ROWS_LOOKED_AT]]
        texts = [cell for cell in cells if cell not in (None, "")]
        if (
            1 < len(texts) == len({*map(str, texts)})
            and 2 * len(texts) <= len(cells)
            and texts[0] == cells[0]
        ):
            text = f"`{part}` has a value in {len(texts)} of the first {len(cells)} rows, as merged cells do, and not below"
            yield Notice(f"{text}. If it holds for rows below, repeat it there", code="value-in-first-rows")
    if names:
        listed = ", ".join(names) if names_are_safe(table, names) else "names not shown"
        yield Notice(f"{counted(len(names), 'field')} not read: {listed}", code="fields-not-read")


def groups(raw: RawItems, base: str) -> Sequence[str]:
    """Return a numbered group name for each row that shares a passage with other rows, and "" for all other rows."""
    if not raw.passages:
        return [""] * len(raw.raws)
    passages = [hash(raw.passage) if raw.passage.strip() else 0 for raw in raw.raws]
    shared, numbers = Counter(passages), dict[int, int]()
    for passage in passages:
        if passage and shared[passage] > 1:
            numbers.setdefault(passage, len(numbers) + 1)
    return [f"{base}-p{numbers[passage]:04d}" if passage in numbers else "" for passage in passages]


def possible_flags(cells: rows.Cells, choices: str | Sequence[str] | None) -> list[str]:
    """Return the member names of a row's option objects that are true for exactly one option and false for all others."""
    listed = rows.cell_or_none(cells, choices) if isinstance(choices, str) else None
    listed = [*listed.values()] if isinstance(listed, Mapping) else listed
    members = [rows.as_object(option) for option in listed] if isinstance(listed, list) else []
    names = dict.fromkeys(name for member in members for name in member)
    truths = {
        name: [option_columns.truth_of_member(name, m.get(name, False)) for m in members] for name in names
    }
    flags = {name: marks for name, marks in truths.items() if all(mark in (0, 1) for mark in marks)}
    return [name for name, marks in flags.items() if sum(map(bool, marks)) == 1]
