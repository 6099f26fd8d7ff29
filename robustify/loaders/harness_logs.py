"""Harness logs -> the rows they were made from: lm-eval `samples_*.jsonl` and Inspect's JSON logs.

Only the items are taken here; what models answered is for `robustify import`.
"""

from collections.abc import Mapping
from dataclasses import replace

from robustify.errors import DataError
from robustify.loaders.fields import KEYS
from robustify.loaders.rows import Cells, Fault, SourceRow, SourceTable

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

    Raises:
        DataError: an Inspect log of a task without choices.
    """
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
        if not isinstance(inner, Mapping):
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
    asked = sample.get("input")
    if isinstance(asked, list):
        users = [turn for turn in asked if isinstance(turn, Mapping) and turn.get("role") == "user"]
        asked = users[-1].get("content") if users else None
    key = sample.get("target")
    if isinstance(key, list) and len(key) == 1:
        key = key[0]
    cells = {"id": sample.get("id"), "input": asked, "target": key, "choices": sample.get("choices")}
    metadata = sample.get("metadata")
    if isinstance(metadata, Mapping):
        topics = [metadata[name] for name in ("topic", "subject", "category") if name in metadata]
        cells |= {"topic": topics[0]} if topics else {}
    return cells
