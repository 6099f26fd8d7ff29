"""Edited files of a run: each is refused in one line with exit code 3, even if its digest in run.json was renewed."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robustify.runs.run import Run, open_run
from robustify.wings import GUARD
from tests.support.cases import cases, refuses
from tests.support.exported_run import renewed


def edited(run: Run, to: Path, name: str, data: bytes) -> Path:
    folder = shutil.copytree(run.folder, to)
    (folder / name).write_bytes(data)
    return folder if name == "run.json" else renewed(folder, name).folder


def first(data: bytes, changes: dict[str, object]) -> bytes:
    """Change cells of the first row of a JSON Lines file."""
    line, _, rest = data.partition(b"\n")
    return json.dumps(json.loads(line) | changes).encode() + b"\n" + rest


KINDS = {"int16": pa.int16(), "list<int16>": pa.list_(pa.int16()), "binary": pa.binary()}


def column(data: bytes, name: str, cell: Any, kind: str) -> bytes:
    """Put one value of a kind into a column of a Parquet file."""
    table = pq.read_table(pa.BufferReader(data))
    cells = pa.array([cell.encode("latin-1") if kind == "binary" else cell] * table.num_rows, KINDS[kind])
    pq.write_table(table.set_column(table.column_names.index(name), name, cells), out := io.BytesIO())
    return out.getvalue()


EDITS: dict[str, Callable[..., bytes]] = {
    "first": first,
    "column": column,
    "cut": lambda data, n: data[:n],
    "swap": lambda data, old, new: data.replace(old.encode(), new.encode(), 1),
    "text": lambda _, text: text.encode(),
    "deep": lambda data, n: b"[" * n + data,
}


@pytest.mark.parametrize(("name", "edit", "command"), cases("runs", "edited_files"))
def test_an_edited_file_of_a_run_ends_with_one_line(
    robustify, run: Run, tmp_path: Path, name: str, edit: list[Any], command: str
) -> None:
    labels = (f"i{n},{'shortcut' if n % 3 else 'not'}\n" for n in range(30))
    (tmp_path / "labels.csv").write_text("".join(labels))
    kind, *how = edit
    folder = edited(run, tmp_path / "run", name, EDITS[kind]((run.folder / name).read_bytes(), *how))
    ended = robustify(*(folder if word == "RUN" else word for word in command.split()))
    assert (ended.code, ended.err.count("\n")) == (3, 1), ended.err
    assert name.partition(".")[0] in ended.err or "answer table" in ended.err
    assert "ball" not in ended.err


def test_an_item_may_not_be_in_two_splits(run: Run, tmp_path: Path) -> None:
    both = (run.folder / "flagged.jsonl").read_bytes() + (run.folder / "kept.jsonl").read_bytes()
    with refuses("item-in-two-splits"):
        _ = open_run(edited(run, tmp_path / "run", "flagged.jsonl", both), GUARD).items


def test_what_a_run_wrote_is_read_as_it_is_and_only_once(run: Run) -> None:
    rows: list[dict[str, Any]] = run.evidence
    lines = (run.folder / "evidence.jsonl").read_text("utf-8").splitlines()
    assert rows == [json.loads(line) for line in lines]
    assert run.summary is run.summary
    assert run.answers is run.answers
