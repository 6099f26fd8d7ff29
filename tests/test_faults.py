"""A fault is one line without text: files, configs and arguments, through the command line. Files of text: `cases`.

Every made-up text holds the marker ZQX, so that a leak shows.
"""

import gzip
import io
import json
import os
import re
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.reader_case import Case, cases

CHOICES = ["ZQX a", "ZQX b", "ZQX c", "ZQX d"]
ROW = json.dumps({"id": "g", "stem": "ZQX stem?", "choices": CHOICES, "key": 1, "topic": "cups"})
DEEP = "[" * 100_000


def refusals(ended, code: int) -> list[str]:
    """The lines on stderr of a command that was refused with this exit code, without a word of an item."""
    assert (ended.code, ended.out) == (code, ""), ended.err
    lines = ended.err.rstrip("\n").split("\n")
    assert all(line.startswith("robustify: ") for line in lines), ended.err
    assert not re.search("ZQX|Traceback|\x1b", ended.err)
    return [line.removeprefix("robustify: ") for line in lines]


def codes(ended, exit_code: int) -> list[str]:
    """The codes of the lines of a refusal."""
    return [line.rpartition(" [")[2].rstrip("]") for line in refusals(ended, exit_code)]


def zipped(member: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(member, ROW)
    return out.getvalue()


FILES: dict[str, tuple[bytes, str]] = {
    "gzip in gzip": (gzip.compress(gzip.compress(ROW.encode())), "compressed-file"),
    "half of a gzip": (gzip.compress(ROW.encode())[:60], "damaged-compressed-file"),
    "a tar archive in gzip": (
        gzip.compress(b"a".ljust(257, b"\0") + b"ustar\x0000" + bytes(600)),
        "tar-archive",
    ),
    "a workbook": (zipped("x.opendocument.spreadsheet"), "opendocument-sheet"),
    "an old workbook": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "old-office-file"),
    "a zipped log": (zipped("header.json"), "zipped-inspect-log"),
    "another archive": (zipped("a.jsonl"), "zip-archive"),
    "a Word document": (zipped("word/document.xml"), "document-file"),
    "a package of Anki": (zipped("collection.anki2"), "quiz-export"),
    "a tar archive": (b"items.jsonl".ljust(257, b"\0") + b"ustar\x0000" + bytes(600), "tar-archive"),
    "a database": (b"SQLite format 3\0\x10\0\x01\x01\0" + bytes(600), "sqlite-file"),
    "a PDF": (b"%PDF-1.7\n%\xe2\xe3\n1 0 obj\n", "document-file"),
    "an export of Brightspace": (b"NewQuestion,MC,,,\nQuestionText,ZQX?,,,\nOption,100,x,,\n", "quiz-export"),
    "an export of Blackboard": (b"MC\tZQX?\tx\tcorrect\ty\tincorrect\n", "quiz-export"),
    "an export of Anki": (b"#separator:tab\n#html:true\nZQX?\tx\ty\t1 0\n", "quiz-export"),
    "a quiz in Markdown": (b"#### Q1. ZQX?\n\n- [ ] x\n- [x] y\n", "quiz-export"),
    "a script": (f"export const QUIZ: Item[] = [\n{ROW}\n];\n".encode(), "program-code"),
    "JSON with comments": (f"// ZQX\n[{ROW}]\n".encode(), "program-code"),
    "TOML": (b'[[questions]]\nquestion = "ZQX?"\n', "toml-file"),
    "binary": (b"ZQX\x00\x01\x02 and more of it", "binary-file"),
    "UTF-16": (f"{ROW}\n".encode("utf-16"), "utf-16"),
    "UTF-16 without a mark": (f"{ROW}\n".encode("utf-16-le"), "utf-16"),
    "only opening brackets": (DEEP.encode(), "deep-json"),
    "a row nested deeply": (f'{ROW}\n{{"id": {DEEP}\n'.encode(), "deep-json"),
    "a key of 5000 digits": (ROW.replace('"key": 1', '"key": 1' + "0" * 5000).encode(), "number-too-long"),
    "bytes that are not UTF-8": (f"{ROW}\n".encode() + ROW.encode().replace(b"stem?", b"\xff?"), "not-utf-8"),
    "two faults": (b"question,A,B,answer\nZQX,x,y,A\nZQX,y,A\nZQX,x\n", "cell-count cell-count"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_items_says_why(robustify, name: str) -> None:
    data, expected = FILES[name]
    Path("items.jsonl").write_bytes(data)
    ended = robustify("validate", "items.jsonl")
    assert codes(ended, 3) == expected.split()
    assert all(line.startswith("items.jsonl") for line in refusals(ended, 3))
    tree = json.loads(robustify("validate", "items.jsonl", "--json").out)["error"]
    assert tree["codes"] == expected.split()


def test_bytes_that_are_not_utf_8_are_named_by_line_with_the_command_that_mends_them(robustify) -> None:
    Path("items.jsonl").write_bytes(FILES["bytes that are not UTF-8"][0])
    (line,) = refusals(robustify("validate", "items.jsonl"), 3)
    assert line.startswith("items.jsonl:2: ")
    assert "`iconv -f WINDOWS-1252 -t UTF-8 items.jsonl > utf8-items.jsonl`" in line


def test_a_parquet_file_names_its_columns_and_the_mapping_or_its_rows(robustify) -> None:
    pq.write_table(pa.table({"length": [1.0, 2.0], "label": [0, 1], "text": ["ZQX", "ZQX"]}), "items.parquet")
    (line,) = refusals(robustify("validate", "items.parquet"), 3)
    assert "length, label, text" in line
    assert "`fields: {stem: NAME, choices: NAME or [NAME, NAME], key: NAME}`" in line
    rows = [{"question": "ZQX?", "choices": ["ZQX", None], "answer": n} for n in range(2)]
    pq.write_table(pa.Table.from_pylist(rows), "items.parquet")
    lines = refusals(robustify("validate", "items.parquet"), 3)
    assert [line.split(": ")[0] for line in lines] == ["items.parquet:1", "items.parquet:2"]


CONFIG = "name: t\nsensitivity: public\ndata: items.jsonl\nmodels: []\n"
ALIASES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{" + ", ".join(f"k{j}: *a{i - 1}" for j in range(9)) + "}\n" for i in range(1, 9)
)
REFUSED: list[Case] = [
    *cases("commands"),
    {"name": "nested deeply", "config": CONFIG + "notes: " + "[" * 3000 + "]" * 3000, "code": "invalid-yaml"},
    {
        "name": "aliases that multiply",
        "config": ALIASES + CONFIG,
        "code": "invalid-yaml",
        "names": ["c.yaml:2:"],
    },
    {"name": "too large", "config": CONFIG + "notes:\n" + "- a\n" * 70_000, "names": ["280,064"]},
    {"name": "a long path", "run": ["check", "x" * 300]},
    {"name": "a longer path", "run": ["validate", "x" * 5000], "code": "invalid-path"},
    {"name": "a path with a NUL", "run": ["validate", "with\0nul"], "code": "invalid-path"},
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["name"])
def test_a_refused_command_is_one_line_with_its_codes(
    robustify, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    monkeypatch.setenv("ROBUSTIFY_RESTRICTED_DATA", "nowhere")
    Path("empty").mkdir()
    Path("one.csv").write_text("Question,A,B,Answer\nZQX?,x,y,A\n", encoding="utf-8")
    Path("c.yaml").write_text(case.get("config", CONFIG), encoding="utf-8")
    (line,) = refusals(robustify(*case.get("run", ["c.yaml"])), case.get("exit", 2))
    assert all(name in line for name in case.get("names", ()))
    assert line.endswith(f" [{case['code']}]" if "code" in case else "")


def test_many_faults_of_a_config_are_shown_at_once_up_to_twenty(robustify) -> None:
    Path("c.yaml").write_text("name: t\ndata: []\nscreen: {criterion: ZQX}\nlimit: 0\n", encoding="utf-8")
    assert len(refusals(robustify("c.yaml"), 2)) == 4
    Path("c.yaml").write_text(CONFIG.replace(" []", "\n" + "- 1\n" * 500), encoding="utf-8")
    lines = refusals(robustify("c.yaml"), 2)
    assert (len(lines), "480" in lines[-1]) == (21, True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no mkfifo")
def test_a_pipe_is_refused_without_waiting_for_it(robustify) -> None:
    os.mkfifo("pipe")
    expected = ["not-a-regular-file"]
    assert codes(robustify("validate", "pipe"), 2) == expected


@pytest.mark.parametrize("command", ["mend", "init"])
def test_a_command_that_refuses_a_config_offers_none_in_its_usage(robustify, command: str) -> None:
    assert "CONFIG" not in robustify(command, "--help").out.splitlines()[0]
