"""Parts of what a path names: sheets of a workbook, splits of a folder, and bytes that JSON does not allow."""

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from robustify.base.errors import installing
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, load
from tests.reading.loaders.made import lines, note_codes, right
from tests.support.cases import refuses
from tests.support.tables import arrow, parquet

ROWS = [
    {"question": f"Which {n}?", "A": "red", "B": "green", "C": "blue", "answer": "CAB"[n]} for n in range(3)
]
RIGHT = ["blue", "red", "green"]
HEADER = list(ROWS[0])
CELLS = [list(row.values()) for row in ROWS]


def read(path: Path, split: str | None = None) -> Loaded:
    return load(Source(path=str(path), split=split), UNGUARDED)


def workbook(
    path: Path, sheets: dict[str, Sequence[Sequence[object]]], formats: dict[str, str] | None = None
) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
        for place, form in (formats or {}).items():
            sheet[place].number_format = form
    book.save(path)
    return path


def test_the_first_sheet_of_a_workbook_or_another_is_read(tmp_path: Path) -> None:
    other = [HEADER, *reversed(CELLS), [None, None], []]
    path = workbook(tmp_path / "q.xlsx", {"Spring": [HEADER, *CELLS], "Autumn": other})
    first = read(path)
    assert right(first) == RIGHT
    assert first.lines == (2, 3, 4)
    assert note_codes(first) == ["several-sheets"]
    assert right(read(path, "Autumn")) == RIGHT[::-1]
    with refuses("no-such-sheet"):
        read(path, "Winter")


def test_numbers_of_a_sheet_are_read_as_shown_and_dates_are_refused(tmp_path: Path) -> None:
    numbers = [
        ["question", "A", "B", "C", "answer"],
        ["Which?", 1, 0.5, 2.5, "B"],
        ["What?", 3.0, 4.25, 0.1, "A"],
    ]
    shown = read(workbook(tmp_path / "n.xlsx", {"s": numbers}, {"C2": "0%", "D2": "0.00"}))
    assert [item.choices for item in shown.items] == [("1", "50%", "2.50"), ("3", "4.25", "0.1")]
    dated = [HEADER, ["Which?", date(2026, 1, 2), "x", "y", "A"], ["What?", "u", "v", "w", "B"]]
    with refuses("formatted-cell") as refusal:
        read(workbook(tmp_path / "d.xlsx", {"s": dated}))
    assert str(refusal.value).startswith("d.xlsx:2: ")
    assert "2026" not in str(refusal.value)
    made = [[*HEADER, "made"], *([*row, date(2026, 1, 2)] for row in CELLS)]
    assert right(read(workbook(tmp_path / "m.xlsx", {"s": made}))) == RIGHT


def archive(**members: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name.replace("__", "/"), content)
    return data.getvalue()


def test_a_workbook_without_openpyxl_and_a_broken_one_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "q.xlsx"
    path.write_bytes(archive(xl__workbook=b"no XML"))
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "openpyxl", None)
        with refuses("openpyxl-missing") as refusal:
            read(path)
        assert installing("tables") in str(refusal.value)
    pytest.importorskip("openpyxl")
    with refuses("unreadable-workbook"):
        read(path)
    monkeypatch.setattr("robustify.reading.records._MOST_UNPACKED", 3)
    with refuses("workbook-too-large"):
        read(path)


@pytest.mark.parametrize("indent", [False, True])
@pytest.mark.parametrize(("raw", "code"), [("\t", "0x09"), ("\x1f", "0x1F"), ("\n", "0x0A")])
def test_a_raw_control_character_is_pointed_at_and_the_mend_works(
    tmp_path: Path, indent: bool, raw: str, code: str
) -> None:
    if raw == "\n" and not indent:
        pytest.skip("a line break ends a line of JSON Lines")
    text = lines(ROWS) if not indent else f"[{','.join(lines([row]) for row in ROWS)}]"
    path = tmp_path / "it's.json"
    path.write_text(text.replace("green", f"gr\\u00e9{raw}en"))
    with refuses(*["raw-control-character"] * (1 if indent else 3)) as refusal:
        read(path)
    said = str(refusal.value)
    assert f"({code}, byte " in said
    at = int(said.split("byte ")[1].split(" ")[0])
    broken = path.read_bytes().split(b"[" if indent else b"\0")[-1]
    assert broken[at - (2 if indent else 1) :].startswith(raw.encode())
    mend = said.split(". `")[1].split("`")[0]
    subprocess.run(["bash", "-c", mend], cwd=tmp_path, check=True)
    found = read(tmp_path / "mended-it's.json")
    assert [item.choices[1] for item in found.items] == ["gré en"] * 3


def test_the_commands_take_a_sheet_or_a_split(robustify, tmp_path: Path) -> None:
    parquet(tmp_path / "set" / "test.parquet", ROWS[:1] * 2)
    parquet(tmp_path / "set" / "train.parquet", ROWS)
    (tmp_path / "plain.jsonl").write_text(lines(ROWS))
    code, out, err = robustify("validate", "set", "--split", "train")
    assert (code, "3 items" in out, "split: train" in out) == (0, True, True)
    assert robustify("heuristics", "set", "--split", "train")[0] == 0
    assert robustify("set", "--split", "train", "--public", "-o", "run")[0] == 0
    for args in (
        ("validate", "plain.jsonl", "--sheet", "x"),
        ("demo_benign.yaml", "--split", "x", "--dry-run"),
    ):
        code, _, err = robustify(*args)
        assert (code, "split" in err) == (2, True)


@pytest.mark.parametrize(
    ("classes", "keys"),
    [
        (["no", "yes", "maybe"], [1, 0, 2]),  # names, in another order than the options
        (["C", "A", "B"], [2, 0, 1]),
        (["A", "B", "C"], [0, 1, 2]),
        (["ending0", "ending1", "ending2"], [0, 1, 2]),  # names that only count
        (["1", "2", "3"], [0, 1, 2]),
    ],
)
def test_a_number_that_stands_for_a_class_is_read_as_the_name_of_the_class(
    tmp_path: Path, classes: list[str], keys: list[int]
) -> None:
    features = {"label": {"names": classes, "_type": "ClassLabel"}, "question": {"_type": "Value"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    content = [
        {"question": f"Is kite {n} red?", "choices": ["yes", "no", "maybe"], "label": n % 3}
        for n in range(12)
    ]
    classed = pa.Table.from_pylist(content).replace_schema_metadata(metadata)
    parquet(tmp_path / "x.parquet", classed)
    arrow(tmp_path / "x.arrow", classed)
    for name in ("x.parquet", "x.arrow"):
        assert [item.key for item in read(tmp_path / name).items] == [keys[n % 3] for n in range(12)]
