"""Files of texts, of rows as Parquet or Arrow, and of sheets."""

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def written(path: Path, content: Any) -> Path:
    """Write a text, rows, rows with a column of numbers of `classes`, or `sheets` and `formats` of their cells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match content:
        case str():
            path.write_bytes(content.encode())
            return path
        case {"sheets": sheets, **more}:
            return workbook(path, sheets, more.get("formats", {}))
        case {"maps": maps, "decimals": decimals, "rows": rows}:
            return parquet(path, _with_types(rows, maps, decimals))
        case {"classes": classes, "rows": rows}:
            features = {"label": {"names": classes, "_type": "ClassLabel"}, "question": {"_type": "Value"}}
            metadata = {"huggingface": json.dumps({"info": {"features": features}})}
            content = _table(rows).replace_schema_metadata(metadata)
    return (arrow if path.suffix == ".arrow" else parquet)(path, content)


def workbook(path: Path, sheets: Mapping[str, Any], formats: Mapping[str, str]) -> Path:
    """Write a workbook; `formats` are those of cells, in each sheet."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
        for place, form in formats.items():
            sheet[place].number_format = form
    book.save(path)
    return path


def parquet(path: Path, rows: Any, **options: Any) -> Path:
    """Write rows or a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(_table(rows), path, **options)
    return path


def arrow(path: Path, rows: Any, new: Any = pa.ipc.new_stream, **options: Any) -> Path:
    """Write rows or a table as a stream of Arrow, or as a file of it."""
    table = _table(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, new(sink, table.schema) as writer:
        writer.write_table(table, **options)
    return path


def _with_types(rows: Any, map_column: str, decimal_column: str) -> pa.Table:
    """Return a table with a column of maps from texts to texts, and a column of decimal numbers."""
    kinds = {map_column: pa.map_(pa.string(), pa.string()), decimal_column: pa.decimal128(5, 0)}
    cells = {name: [row[name] for row in rows] for name in rows[0]}
    cells[map_column] = [[*row.items()] for row in cells[map_column]]
    cells[decimal_column] = [*map(Decimal, cells[decimal_column])]
    return pa.table({name: pa.array(column, kinds.get(name)) for name, column in cells.items()})


def _table(rows: Any) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows))
