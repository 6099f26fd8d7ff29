"""Parts of what a path names: sheets of a workbook, splits of a folder, and bytes that JSON does not allow."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from robustify.base.errors import installing
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, load
from robustify.report.opening import mend_command
from tests.reading.loaders.made import lines
from tests.support.cases import refuses
from tests.support.tables import parquet

ROWS = [
    {"question": f"Which {n}?", "A": "red", "B": "green", "C": "blue", "answer": "CAB"[n]} for n in range(3)
]


def read(path: Path, split: str | None = None) -> Loaded:
    return load(Source(path=str(path), split=split), UNGUARDED)


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
    monkeypatch.setattr("robustify.reading.sheets.MOST_UNPACKED", 3)
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


def test_each_language_of_a_folder_has_its_own_name_and_run(robustify, tmp_path: Path) -> None:
    """All languages were called as the folder, so that the run of the second was refused as another benchmark."""
    draw = [(n * 7 % 60, n) for n in range(60)]
    for language in ("de", "fr"):
        rows = [
            {
                "id": f"q{n}",
                "stem": f"{language} {n}?",
                "choices": [f"{a} {language}", f"{n}, {'so ' * 9}"],
                "key": 1,
            }
            for a, n in draw
        ]
        parquet(tmp_path / "set" / language / "test.parquet", rows)
        split = ("--split", f"{language}/test")
        assert robustify("set", *split, "--public", "--no-encoder", "-q").code in (0, 7)
        run = tmp_path / "results" / f"set-{language}-test"
        assert json.loads((run / "run.json").read_text("utf-8"))["config"]["name"] == run.name
        assert robustify("init", "set", *split).code == 0
        assert (tmp_path / f"{run.name}.yaml").is_file()
        ended = robustify("explain", run)
        assert {line.partition(":")[0] for line in ended.out.splitlines()} == {f"set/{language}/test"}
        assert f"set-{language}-test-mended" in mend_command(
            json.loads((run / "run.json").read_text("utf-8"))
        )


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
