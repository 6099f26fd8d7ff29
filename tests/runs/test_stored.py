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
from tests.support.cases import refuses
from tests.support.exported_run import renewed

Change = Callable[[bytes], bytes]


def edited(run: Run, to: Path, name: str, data: bytes) -> Path:
    folder = shutil.copytree(run.folder, to)
    (folder / name).write_bytes(data)
    return folder if name == "run.json" else renewed(folder, name).folder


def first(**changes: object) -> Change:
    """Change cells of the first row of a JSON Lines file."""

    def change(data: bytes) -> bytes:
        line, _, rest = data.partition(b"\n")
        return json.dumps(json.loads(line) | changes).encode() + b"\n" + rest

    return change


def column(name: str, cell: object, kind: pa.DataType) -> Change:
    def change(data: bytes) -> bytes:
        table = pq.read_table(pa.BufferReader(data))
        cells = pa.array([cell] * table.num_rows, kind)
        table = table.set_column(table.column_names.index(name), name, cells)
        pq.write_table(table, out := io.BytesIO())
        return out.getvalue()

    return change


def cell(old: bytes, new: bytes) -> Change:
    return lambda data: data.replace(old, new, 1)


JUDGE, EXPLAIN = ("judge", "RUN", "-o", "out"), ("explain", "RUN")
LM_EVAL = ("export", "lm-eval", "RUN", "-o", "out", "--kept")


@pytest.mark.parametrize(
    ("name", "change", "arguments"),
    [
        ("flagged.jsonl", first(choices=["a", None, "b"]), JUDGE),
        ("kept.jsonl", first(stem=["a"]), JUDGE),
        ("kept.jsonl", first(topic="\ud800"), (*JUDGE, "--criterion", "majority")),
        ("kept.jsonl", first(more=1), JUDGE),
        ("cloze.jsonl", lambda data: data[:40], LM_EVAL),
        ("evidence.jsonl", lambda data: data[:30], EXPLAIN),
        ("evidence.jsonl", lambda _: b"[]\n", EXPLAIN),
        ("evidence.jsonl", first(cues=[{}]), EXPLAIN),
        ("evidence.jsonl", first(pick=99), (*EXPLAIN, "i0")),
        ("evidence.jsonl", first(p_key=float("nan")), ("agree", "RUN", "labels.csv")),
        ("verdicts.csv", cell(b"kept", b"maybe"), EXPLAIN),
        ("verdicts.csv", cell(b"item,topic", b"id,topic"), EXPLAIN),
        ("verdicts.csv", cell(b"\ni1,", b"\ni0,"), ("compare", "RUN", "RUN")),
        ("answers.parquet", column("pick", 9, pa.int16()), JUDGE),
        ("answers.parquet", column("order", [0, 0], pa.list_(pa.int16())), JUDGE),
        ("answers.parquet", column("model", b"\xff", pa.binary()), JUDGE),
        ("run.json", lambda data: data.replace(b'"data": [', b'"date": ['), JUDGE),
        ("run.json", lambda data: data.replace(b'"free": null', b'"free": "a"'), JUDGE),
        ("run.json", lambda data: b"[" * 100_000 + data, JUDGE),
        ("summary.json", lambda _: b"[]", ("check", "RUN")),
    ],
)
def test_an_edited_file_of_a_run_ends_with_one_line(
    robustify, run: Run, tmp_path: Path, name: str, change: Change, arguments: tuple[str, ...]
) -> None:
    labels = (f"i{n},{'shortcut' if n % 3 else 'not'}\n" for n in range(30))
    (tmp_path / "labels.csv").write_text("".join(labels))
    folder = edited(run, tmp_path / "run", name, change((run.folder / name).read_bytes()))
    ended = robustify(*(folder if word == "RUN" else word for word in arguments))
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
