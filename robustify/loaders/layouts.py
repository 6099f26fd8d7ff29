"""From the rows of a file to raw items: which layout it has, by the names and shapes of its fields alone.

Refuses a file with the fields it has and the mapping to write, rather than guess what is what; and a file whose
rows look right one by one and are wrong together. Of the logs of harnesses (lm-eval's `samples_*.jsonl`, Inspect's JSON)
only the rows that they were made from are taken; what models answered is for `robustify import`.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from string import ascii_uppercase

from robustify.errors import DataError, UsageError
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
from robustify.redaction import KeptHere

ROWS_LOOKED_AT = 200
KNOWN = (OWN, *LAYOUTS, *NAMED_BY_READER)
BY_NAMES = "fields"
"""The layout of rows that are read by the names of their fields."""


@dataclass(frozen=True, slots=True, repr=False)
class RawItems(KeptHere):
    """The rows that a layout could read, with their `keys` as indexes, and the faults of the others.

    `fields`: which field is which, if that is not the layout's own. `forms`: in which forms the keys are written
    {form: rows}. `labelled`: of how many rows the labels inside their choices were taken off.
    """

    layout: str
    fields: FieldMap
    rows: tuple[SourceRow, ...]
    raws: tuple[RawItem, ...]
    keys: tuple[int, ...]
    faults: tuple[Fault, ...]
    forms: Mapping[str, int]
    labelled: int = 0


def raw_items(name: str, table: SourceTable, fields: FieldMap | None = None) -> RawItems:
    """Return the rows of a table as its layout reads them, or by `fields` if the user has said which is which.

    Raises:
        UsageError: a mapped field that no row has.
        DataError: nothing recognised, or in two ways; the rows look right one by one and are wrong together.
    """
    known, found = _chosen_layout(name, table, fields)
    read = known.read if known else partial(read_fields, fields=found)
    made, faults = rows_or_faults(((row, row.cells) for row in table.rows), lambda _, cells: read(cells))
    raws = tuple(raw for _, raw in made)
    # What we wrote ourselves comes back exactly as it was.
    bare = raws if known is OWN else bare_choices(bare_stems(raws))
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
        labelled=sum(one.choices is not two.choices for one, two in zip(raws, bare, strict=True)),
    )


def _chosen_layout(
    name: str, table: SourceTable, fields: FieldMap | None
) -> tuple[BenchmarkLayout | None, FieldMap]:
    """Return the layout of a table, or by which fields it is read. Raises as `raw_items`."""
    if table.layout and fields is None:
        return next(known for known in NAMED_BY_READER if known.name == table.layout), FieldMap()
    looked_at = table.rows[:ROWS_LOOKED_AT]
    found = Counter(next((own for own in (OWN, *LAYOUTS) if own.has_it(r.cells)), None) for r in looked_at)
    most, n = found.most_common(1)[0]
    if most is not None and n * 2 > len(looked_at) and fields is None:
        return most, FieldMap()
    return None, field_map(name, table, fields or FieldMap())


def field_map(name: str, table: SourceTable, said: FieldMap) -> FieldMap:
    """Return which field is which in a table that is read by its field names: what was said, completed by usual names.

    Raises:
        UsageError: a mapped field that no row has, or a table without field names.
        DataError: a part of an item has no field, or several.
    """
    if table.layout:
        raise UsageError(
            f"{name}: has no field names (layout `{table.layout}`); expected no `fields`, or a header"
        )
    choices = [said.choices] if isinstance(said.choices, str) else list(said.choices or ())
    for mapped in (said.stem, *choices, said.key, said.id, said.topic, said.passage):
        if mapped is not None and not any(has(row.cells, mapped) for row in table.rows):
            raise UsageError(f"{name}: no row has a field `{mapped}`, as `fields` says; {_columns(table)}")
    # The first rows may be bad ones: the names that most rows have come first, and no row's fifth choice is lost.
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
            f"{name}: holds no items of a known layout ({error}); {_columns(table)}; expected it "
            "to be said which is which: write `fields: {stem: NAME, choices: NAME or [NAME, NAME], key: NAME}` in a "
            "config, or `--map stem=NAME --map choices=NAME,NAME --map key=NAME`"
        ) from None


def _columns(table: SourceTable) -> str:
    names, what = list(table.rows[0].cells), "columns" if table.flat else "fields"
    # Without a header the first record stands where the names should be, and that would be item text; and an
    # object may be keyed by its question. So names are shown only where they are plainly names: single words of which
    # one is a usual name, or a few words each of which two are.
    known = sum(name_key(name) in KNOWN_NAMES for name in names)
    if all(re.fullmatch(r"#?[A-Za-z_][\w.@:/+-]{0,59}", name) for name in names):
        shown = known > 0 or not table.flat
    else:
        shown = known > 1 and all(map(name_like, names))
    # A field of few records may be named by a choice or an id.
    rows = table.rows[:ROWS_LOOKED_AT]
    usual = {
        n for n in names if name_key(n) in KNOWN_NAMES or 2 * sum(n in r.cells for r in rows) > len(rows) > 1
    }
    if not shown or not usual:
        return f"found {what}: {len(names)} (names not shown: they may be text of an item)"
    rest = f" and {len(names) - len(usual)} that few records have" if len(usual) < len(names) else ""
    return f"found the {what} {', '.join(n for n in names if n in usual)}{rest}"


def _require_whole(name: str, raws: Sequence[RawItem]) -> None:
    """Refuse rows that look right one by one and are wrong together."""
    bare = sum(raw.choices == tuple(ascii_uppercase[: len(raw.choices)]) for raw in raws)
    if bare * 2 > len(raws):
        raise DataError(
            f"{name}: the options are letters (in {bare} of {len(raws)} rows); their texts are inside the "
            "stem or missing; expected each option's own text: take the benchmark from a source that has them"
        )
    if count_from_one(raws):
        raise DataError(
            f"{name}: the keys are whole numbers from 1 up and never 0, so that they may count from 1; "
            "expected it to be said: `fields: {key_is: number}` if they do, `fields: {key_is: index}` if not"
        )
    cuts = {raw.cut for raw in raws}
    sizes = {len(raw.choices) for raw in raws if raw.cut not in ("", BY_LABEL)}
    if len(cuts) > 1 or len(sizes) > 1:
        raise DataError(
            f"{name}: the options come in one cell and its separator may also be part of an option (rows differ in "
            "separator or number of options); expected a column for each option"
        )


def _require_one_key(
    name: str, fields: FieldMap, rows: Sequence[SourceRow], raws: Sequence[RawItem], keys: Sequence[ReadKey]
) -> None:
    """Refuse a file that says in several columns which choice is right, and not the same one."""
    read = [(row, raw, key.index) for row, raw, key in zip(rows, raws, keys, strict=True) if not key.fault]
    said = {"what is marked as right": [set() if raw.marked is None else {raw.marked} for _, raw, _ in read]}
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
                f"{name}:{line}: `{fields.key}` means choice {key + 1}, but {what} choice {min(other) + 1} "
                f"({len(differ)} such rows); expected it to be said which column is the key (`--map key={fields.key}`)"
            )


def groups(raws: Sequence[RawItem], base: str) -> list[str]:
    """For each row the name of the passage it shares with others, numbered by first occurrence; else ""."""
    shared = Counter(raw.passage for raw in raws)
    numbers: dict[str, int] = {}
    for raw in raws:
        if raw.passage.strip() and shared[raw.passage] > 1:
            numbers.setdefault(raw.passage, len(numbers) + 1)
    return [f"{base}-p{numbers[raw.passage]:04d}" if raw.passage in numbers else "" for raw in raws]


_KEY_NAMES = frozenset(name for rank in KEYS for name in rank)


def is_lm_eval(cells: Cells) -> bool:
    """Whether a row is one of lm-eval's samples."""
    return (
        isinstance(cells.get("doc"), Mapping)
        and "doc_id" in cells
        and ("resps" in cells or "arguments" in cells)
    )


def item_table(name: str, table: SourceTable) -> SourceTable:
    """The table of the items inside a log; any other table as it is.

    An item that a log holds several times (lm-eval: one row for each filter; Inspect: one for each epoch)
    is taken once.
    Raises `DataError`: an Inspect log of a task without choices."""
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
            faults.append(Fault(row.line, "no object `doc`; expected a row of lm-eval's samples"))
            continue
        number = str(row.cells.get("doc_id"))
        if number in seen and seen[number] == inner:
            continue
        seen[number] = inner
        # Where the inner row has no key of its own, lm-eval's `target` is one.
        keyed = "target" not in row.cells or not _KEY_NAMES.isdisjoint(inner)
        rows.append(replace(row, cells=inner if keyed else {**inner, "target": row.cells["target"]}))
    return replace(table, rows=tuple(rows), faults=tuple(faults), outer="lm_eval_samples")


def _inspect(name: str, table: SourceTable) -> SourceTable:
    if not any(row.cells.get("choices") for row in table.rows):
        raise DataError(
            f"{name}: an Inspect log whose samples have no choices; expected a multiple-choice task"
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
