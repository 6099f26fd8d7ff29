"""Rows that lie inside other rows: samples of harness logs, and articles with a list of questions each.

Of a log, only the original items are read (`robustify import` reads the answers). An item that a log repeats, in lm-eval
for each filter and in Inspect for each epoch, is taken once.
"""

from collections.abc import Mapping
from dataclasses import replace

from robustify.errors import DataError, counted
from robustify.loaders.choices import choice_columns, usual_names
from robustify.loaders.fields import CHOICES, KEYS, LOGGED_TARGET, STEMS
from robustify.loaders.rows import Cells, Fault, SourceRow, SourceTable, as_object

ROWS_LOOKED_AT = 20


def is_lm_eval(cells: Cells) -> bool:
    """Return whether a row is a sample logged by lm-eval."""
    return (
        isinstance(cells.get("doc"), Mapping)
        and "doc_id" in cells
        and bool({"resps", "arguments"} & cells.keys())
    )


def item_table(name: str, table: SourceTable) -> SourceTable:
    """Extract the items from a log, or from rows that hold several items each. Return any other table unchanged. Raise
    `DataError` if an Inspect log is of a task without choices."""
    if table.outer == "inspect_log":
        return _inspect(name, table)
    if table.rows and is_lm_eval(table.rows[0].cells):
        return _lm_eval(table)
    if table.rows and isinstance(table.rows[0].cells.get("row"), dict) and "row_idx" in table.rows[0].cells:
        # The dataset viewer of the Hub puts each row into an object.
        table = replace(
            table, rows=tuple(replace(row, cells=as_object(row.cells.get("row"))) for row in table.rows)
        )
    inside = not table.layout and any(_inner_items(row.cells) for row in table.rows[:ROWS_LOOKED_AT])
    return _unrolled(table) if inside else table


def _is_item(cells: Cells) -> bool:
    return bool(usual_names(cells, STEMS)) and bool(usual_names(cells, CHOICES) or choice_columns(cells))


def _inner_items(cells: Cells, depth: int = 3) -> list[Cells]:
    """Return the items in the lists of a row, each with the other fields of the row, or [] if the row is an item itself."""
    if _is_item(cells) or not depth:
        return []
    for name, value in cells.items():
        rest = {other: cell for other, cell in cells.items() if other != name}
        if isinstance(value, list) and value and all(isinstance(member, Mapping) for member in value):
            inner = [[member] if _is_item(member) else _inner_items(member, depth - 1) for member in value]
            if all(inner):
                return [{**rest, **one} for found in inner for one in found]
    return _parallel(cells)


def _parallel(cells: Cells) -> list[Cells]:
    """Return the items of a row with a list of questions and a list of lists of options."""
    lists = {name: cell for name, cell in cells.items() if isinstance(cell, list) and len(cell) > 0}
    options = [name for name, cell in lists.items() if all(isinstance(one, list) for one in cell)]
    if len(options) != 1:
        return []
    n = len(lists[options[0]])
    names = {
        name: name if name in options else name.removesuffix("s") for name in lists if len(lists[name]) == n
    }
    rest = {name: cell for name, cell in cells.items() if name not in names}
    made: list[Cells] = [
        {**rest, **{short: lists[name][at] for name, short in names.items()}} for at in range(n)
    ]
    return made if _is_item(made[0]) else []


def _unrolled(table: SourceTable) -> SourceTable:
    rows: list[SourceRow] = []
    faults = list(table.faults)
    for row in table.rows:
        found = _inner_items(row.cells)
        rows += [SourceRow(row.line, len(rows) + at, cells) for at, cells in enumerate(found, start=1)]
        if not found and [] not in row.cells.values():
            faults.append(
                Fault(row.line, "the row has no list of questions with options, as the first row has")
            )
    note = f"{counted(len(rows), 'item')} were taken from lists inside {counted(len(table.rows), 'row')}"
    return replace(table, rows=tuple(rows), faults=tuple(faults), flat=False, notes=(*table.notes, note))


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
        # lm-eval's `target` is the key if the inner row has none, and otherwise it tells how the key counts.
        as_what = LOGGED_TARGET if any(usual_names(inner, [rank]) for rank in KEYS) else "target"
        target = {as_what: row.cells["target"]} if "target" in row.cells else {}
        rows.append(replace(row, cells={**inner, **target}))
    return replace(table, rows=tuple(rows), faults=tuple(faults), outer="lm_eval_samples")


def _inspect(name: str, table: SourceTable) -> SourceTable:
    if not any(row.cells.get("choices") for row in table.rows):
        raise DataError(
            f"{name}: the samples of the Inspect log have no choices; expected a multiple-choice task"
        )
    # Of a sample with several epochs, the first is taken.
    seen = {str(row.cells.get("id")): row for row in reversed(table.rows)}
    kept = (
        row for row in table.rows if row.cells.get("epoch", 1) == 1 or row is seen[str(row.cells.get("id"))]
    )
    rows = tuple(replace(row, cells=_inspect_cells(row.cells)) for row in kept)
    return replace(table, rows=rows, layout="inspect_log", outer="")


def _inspect_cells(sample: Cells) -> dict[str, object]:
    asked, metadata = sample.get("input"), as_object(sample.get("metadata"))
    if isinstance(asked, list):
        users = [turn for turn in asked if isinstance(turn, Mapping) and turn.get("role") == "user"]
        asked = users[-1].get("content") if users else None
    cells = {"input": asked, **{name: sample.get(name) for name in ("id", "target", "choices")}}
    topics = [metadata[name] for name in ("topic", "subject", "category") if name in metadata]
    return cells | ({"topic": topics[0]} if topics else {})
