"""Layout recognition by field names and shapes, and conversion of rows to raw items.

A file that can be read in several ways is refused, with the fields found and the mapping to write. Rows that look right
one by one but not together are refused too. From harness logs (lm-eval's `samples_*.jsonl`, Inspect's JSON), only the
original items are read. `robustify import` reads the models' answers.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from string import ascii_uppercase

from robustify.errors import DataError, UsageError, counted
from robustify.loaders.answer_keys import (
    ReadKey,
    bare_choices,
    bare_stems,
    count_from_one,
    positions,
    read_keys,
)
from robustify.loaders.choices import BY_LABEL, name_key
from robustify.loaders.datasets import LAYOUTS, NAMED_BY_READER, OWN, BenchmarkLayout
from robustify.loaders.fields import (
    KEYS,
    KNOWN_NAMES,
    AmbiguousError,
    complete,
    own_label,
    read_fields,
    rival_keys,
)
from robustify.loaders.loaded import FieldMap
from robustify.loaders.rows import (
    Cells,
    Fault,
    RawItem,
    SourceRow,
    SourceTable,
    as_object,
    has,
    name_like,
    rows_or_faults,
)
from robustify.redaction import HoldsText
from robustify.texts import edges, undressed

ROWS_LOOKED_AT = 200
KNOWN = (OWN, *LAYOUTS, *NAMED_BY_READER)
BY_NAMES = "fields"
"""Name of the layout that is read by field names."""


@dataclass(frozen=True, slots=True, repr=False)
class RawItems(HoldsText):
    """Items read by a layout, with zero-based keys, and the faults of rows that could not be read.

    `fields` maps the fields unless the layout has its own names. `forms` counts rows by the form of their key. `labelled`
    is the number of rows whose choices had inline labels, which were removed. `evened` is true if all choices began or
    ended with the same white space, which was removed."""

    layout: str
    fields: FieldMap
    rows: tuple[SourceRow, ...]
    raws: tuple[RawItem, ...]
    keys: tuple[int, ...]
    faults: tuple[Fault, ...]
    forms: Mapping[str, int]
    labelled: int = 0
    evened: bool = False


def raw_items(name: str, table: SourceTable, fields: FieldMap | None = None) -> RawItems:
    """Read the rows of a table by its layout, or by the user's field map.

    Raises:
        UsageError: no row has a mapped field.
        DataError: the layout is unknown or ambiguous, or the rows contradict each other.
    """
    known, found = _chosen_layout(name, table, fields)
    read = known.read if known else partial(read_fields, fields=found)
    made, faults = rows_or_faults(((row, row.cells) for row in table.rows), lambda _, cells: read(cells))
    raws = tuple(raw for _, raw in made)
    # Files that robustify wrote are read back unchanged.
    unlabelled = raws if known is OWN else bare_choices(bare_stems(raws))
    bare = raws if known is OWN else _evened(unlabelled)
    _require_whole(name, bare)
    keys = read_keys(bare)
    if known is None and (fields is None or fields.key is None):
        _require_one_key(name, found, [row for row, _ in made], bare, keys)
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
        labelled=sum(one.choices is not two.choices for one, two in zip(raws, unlabelled, strict=True)),
        evened=bare is not unlabelled,
    )


def _evened(raws: tuple[RawItem, ...]) -> tuple[RawItem, ...]:
    """Take off the white space that all choices of a file begin or end with, such as the blank after each comma."""
    if not (raws and raws[0].choices and any(edges(raws[0].choices[0]))):
        return raws
    every = [choice for raw in raws for choice in raw.choices]
    texts = iter(even := undressed(every))
    if even[0] == every[0]:
        return raws
    return tuple(replace(raw, choices=tuple(islice(texts, len(raw.choices)))) for raw in raws)


def _chosen_layout(
    name: str, table: SourceTable, fields: FieldMap | None
) -> tuple[BenchmarkLayout | None, FieldMap]:
    """Return the layout of a table and an empty field map, or None and a field map for an unknown layout."""
    if table.layout and fields is None:
        return next(known for known in NAMED_BY_READER if known.name == table.layout), FieldMap()
    looked_at = table.rows[:ROWS_LOOKED_AT]
    found = Counter(next((own for own in (OWN, *LAYOUTS) if own.has_it(r.cells)), None) for r in looked_at)
    most, n = found.most_common(1)[0]
    if most is not None and n * 2 > len(looked_at) and fields is None:
        return most, FieldMap()
    return None, field_map(name, table, fields or FieldMap())


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
    choices = [said.choices] if isinstance(said.choices, str) else list(said.choices or ())
    for mapped in (said.stem, *choices, said.key, said.id, said.topic, said.passage):
        if mapped is not None and not any(has(row.cells, mapped) for row in table.rows):
            raise UsageError(f"{name}: no row has the field `{mapped}` named in `fields`; {_columns(table)}")
    # The first rows may be bad, so the most common names come first. Rarer names, such as a fifth choice, follow.
    shapes = Counter(tuple(row.cells) for row in table.rows)
    common = shapes.most_common(1)[0][0]
    first = next(row.cells for row in table.rows if tuple(row.cells) == common)
    more = dict.fromkeys(column for names in shapes for column in names if column not in first)
    looked_at = [row.cells for row in table.rows[:ROWS_LOOKED_AT]]
    absent = {column for column in common if all(cells.get(column) in (None, "") for cells in looked_at)}
    try:
        return complete(said, first, [*more], absent)
    except AmbiguousError as error:
        raise DataError(
            f"{name}: the layout is unknown ({error}); {_columns(table)}. Name the fields with "
            "`--map stem=NAME --map choices=NAME,NAME --map key=NAME`, or set `fields: {stem: NAME, choices: NAME or "
            "[NAME, NAME], key: NAME}` in the config."
        ) from None


def _columns(table: SourceTable) -> str:
    names, what = list(table.rows[0].cells), "column" if table.flat else "field"
    # If the header is missing, the first record is read as names, and an object may use its question as a name. Both are
    # item text. Names are shown only if they are single words with one common name, or short phrases with two.
    known = sum(name_key(name) in KNOWN_NAMES for name in names)
    if all(re.fullmatch(r"#?[A-Za-z_][\w.@:/+-]{0,59}", name) for name in names):
        shown = known > 0 or not table.flat
    else:
        shown = known > 1 and all(map(name_like, names))
    # A field that few records have may be named after a choice or an ID.
    rows = table.rows[:ROWS_LOOKED_AT]
    usual = {
        n for n in names if name_key(n) in KNOWN_NAMES or 2 * sum(n in r.cells for r in rows) > len(rows) > 1
    }
    if not shown or not usual:
        return f"found {counted(len(names), what)} (names not shown, because they may be item text)"
    rest = f" and {len(names) - len(usual)} rare ones" if len(usual) < len(names) else ""
    return f"found the {what}s {', '.join(n for n in names if n in usual)}{rest}"


def _require_whole(name: str, raws: Sequence[RawItem]) -> None:
    """Refuse a file whose rows are valid one by one but inconsistent as a whole."""
    bare = sum(raw.choices == tuple(ascii_uppercase[: len(raw.choices)]) for raw in raws)
    if bare * 2 > len(raws):
        raise DataError(
            f"{name}: in {bare} of {len(raws)} rows, the options are only letters, and their text is in the stem or "
            "missing. Use a version of the benchmark that includes the text of each option."
        )
    if count_from_one(raws):
        raise DataError(
            f"{name}: the keys are whole numbers and never 0, so they may count from 1. If they do, set "
            "`fields: {key_is: number}`. If they count from 0, set `fields: {key_is: index}`."
        )
    cuts = {raw.cut for raw in raws}
    sizes = {len(raw.choices) for raw in raws if raw.cut not in ("", BY_LABEL)}
    if len(cuts) > 1 or len(sizes) > 1:
        raise DataError(
            f"{name}: the options are in one cell, and rows differ in separator or number of options. The separator may be "
            "part of an option. Put each option in its own column."
        )


def _require_one_key(
    name: str, fields: FieldMap, rows: Sequence[SourceRow], raws: Sequence[RawItem], keys: Sequence[ReadKey]
) -> None:
    """Refuse a file in which several columns name different correct choices."""
    read = [(row, raw, key.index) for row, raw, key in zip(rows, raws, keys, strict=True) if not key.fault]
    said = {"the mark in the choices": [set() if raw.marked is None else {raw.marked} for _, raw, _ in read]}
    for rival in rival_keys(fields, dict.fromkeys(column for row in rows for column in row.cells)):
        meant = (
            replace(raw, key=own_label(row.cells.get(rival), fields, raw.labels)) for row, raw, _ in read
        )
        said[f"`{rival}`"] = [positions(replace(raw, key_is="auto")) for raw in meant]
    for what, others in said.items():
        both = [(row.line, key, other) for (row, _, key), other in zip(read, others, strict=True) if other]
        differ = [one for one in both if one[1] not in one[2]]
        if differ and len(both) * 2 > len(read):
            line, key, other = differ[0]
            raise DataError(
                f"{name}:{line}: `{fields.key}` names choice {key + 1}, but {what} names choice {min(other) + 1} "
                f"({len(differ)} such rows). Name the key column, for example `--map key={fields.key}`."
            )


def groups(raws: Sequence[RawItem], base: str) -> list[str]:
    """Return a group name for each row that shares its passage with other rows, and "" for other rows. Groups are
    numbered by first occurrence."""
    shared = Counter(raw.passage for raw in raws)
    numbers: dict[str, int] = {}
    for raw in raws:
        if raw.passage.strip() and shared[raw.passage] > 1:
            numbers.setdefault(raw.passage, len(numbers) + 1)
    return [f"{base}-p{numbers[raw.passage]:04d}" if raw.passage in numbers else "" for raw in raws]


_KEY_NAMES = frozenset(name for rank in KEYS for name in rank)


def is_lm_eval(cells: Cells) -> bool:
    """Return whether a row is a sample logged by lm-eval."""
    return (
        isinstance(cells.get("doc"), Mapping)
        and "doc_id" in cells
        and ("resps" in cells or "arguments" in cells)
    )


def item_table(name: str, table: SourceTable) -> SourceTable:
    """Extract the items from a log. Return any other table unchanged. An item that a log repeats (in lm-eval for each
    filter, in Inspect for each epoch) is taken once. Raise `DataError` if an Inspect log is of a task without choices."""
    if table.outer == "inspect_log":
        return _inspect(name, table)
    if table.rows and is_lm_eval(table.rows[0].cells):
        return _lm_eval(table)
    return table


def _lm_eval(table: SourceTable) -> SourceTable:
    rows: list[SourceRow] = []
    faults = list(table.faults)
    seen: dict[str, object] = {}
    for row in table.rows:
        inner = row.cells.get("doc")
        if not isinstance(inner, dict):
            faults.append(Fault(row.line, "the row has no object `doc`; expected an lm-eval sample"))
            continue
        number = str(row.cells.get("doc_id"))
        if number in seen and seen[number] == inner:
            continue
        seen[number] = inner
        # lm-eval's `target` is the key if the inner row has none.
        keyed = "target" not in row.cells or not _KEY_NAMES.isdisjoint(inner)
        rows.append(replace(row, cells=inner if keyed else {**inner, "target": row.cells["target"]}))
    return replace(table, rows=tuple(rows), faults=tuple(faults), outer="lm_eval_samples")


def _inspect(name: str, table: SourceTable) -> SourceTable:
    if not any(row.cells.get("choices") for row in table.rows):
        raise DataError(
            f"{name}: the samples of the Inspect log have no choices; expected a multiple-choice task"
        )
    rows: list[SourceRow] = []
    seen: set[str] = set()
    for row in table.rows:
        sample = str(row.cells.get("id"))
        if row.cells.get("epoch", 1) != 1 and sample in seen:
            continue
        seen.add(sample)
        rows.append(replace(row, cells=_inspect_cells(row.cells)))
    return replace(table, rows=tuple(rows), layout="inspect_log", outer="")


def _inspect_cells(sample: Cells) -> dict[str, object]:
    asked, metadata = sample.get("input"), as_object(sample.get("metadata"))
    if isinstance(asked, list):
        users = [turn for turn in asked if isinstance(turn, Mapping) and turn.get("role") == "user"]
        asked = users[-1].get("content") if users else None
    key = sample.get("target")
    if isinstance(key, list) and len(key) == 1:
        key = key[0]
    cells = {"id": sample.get("id"), "input": asked, "target": key, "choices": sample.get("choices")}
    topics = [metadata[name] for name in ("topic", "subject", "category") if name in metadata]
    return cells | ({"topic": topics[0]} if topics else {})
