"""A fault is one line without text: bad rows, files, keys, layouts, configs and arguments, through the command line.

Every made-up text below holds the marker ZQX, so that a leak shows.
"""

import gzip
import io
import json
import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import FieldMap, Source, load

GOOD = {
    "id": "g",
    "stem": "ZQX stem?",
    "choices": ["ZQX a", "ZQX b", "ZQX c", "ZQX d"],
    "key": 1,
    "topic": "cups",
}
DEEP = "[" * 100_000
AB = ["ZQX a", "ZQX b"]


def row(**changed: object) -> str:
    return json.dumps({**GOOD, **changed})


def without(name: str) -> str:
    return json.dumps({k: v for k, v in GOOD.items() if k != name})


def asked(**more: object) -> bytes:
    """A row in the usual field names, without a key."""
    return json.dumps({"question": "ZQX?", "choices": AB, **more}).encode()


def refusals(ended, code: int) -> list[str]:
    """The lines on stderr of a command that was refused with this code, without a word of an item."""
    assert (ended.code, ended.out) == (code, ""), ended.err
    lines = ended.err.rstrip("\n").split("\n")
    assert all(line.startswith("robustify: ") for line in lines), ended.err
    assert "ZQX" not in ended.err
    assert "Traceback" not in ended.err
    return [line.removeprefix("robustify: ") for line in lines]


ROWS: dict[str, tuple[str, str]] = {
    "cut off": (row()[:40], "it ends too early"),
    "no JSON": ('{"id": ZQX}', "not valid JSON: column"),
    "two values": (row() + " " + row(), "more text follows the first value"),
    "a list": ('["ZQX"]', "a list; expected an object"),
    "a number": ("7", "a number; expected an object"),
    "no stem": (without("stem"), "the field `stem` is missing"),
    "no choices": (without("choices"), "the field `choices` is missing"),
    "no key": (without("key"), "the field `key` is missing"),
    "no id": (row(id=""), "the ID is empty"),
    "stem is a number": (row(stem=7), "`stem` is a number; expected text"),
    "stem is null": (row(stem=None), "`stem` is null; expected text"),
    "stem is blank": (row(stem=" \n"), "stem is empty"),
    "choices are a text": (row(choices="ZQX a, ZQX b"), "`choices` is text; expected a list"),
    "choices are an object": (row(choices={"A": "ZQX"}), "`choices` is an object; expected a list"),
    "a null choice": (row(choices=["ZQX a", None]), "choice 2 of `choices` is null; expected text"),
    "a list as choice": (row(choices=["ZQX a", ["ZQX"]]), "choice 2 of `choices` is a list; expected text"),
    "one choice": (row(choices=["ZQX a"], key=0), "expected 2 to 26 choices, found 1"),
    "27 choices": (row(choices=[f"ZQX {n}" for n in range(27)]), "expected 2 to 26 choices, found 27"),
    "key 4 of 4": (row(key=4), "the key is 4, but there are only 4 choices (0 to 3). If keys count from 1"),
    "key -1": (row(key=-1), "the key is -1, but there are only 4 choices (0 to 3)"),
    "key true": (row(key=True), "key is true or false; expected a whole number from 0 to 3"),
    "key 1.5": (row(key=1.5), "key is a number; expected a whole number"),
    "key NaN": (row(key=float("nan")), "NaN is not a JSON number"),
    "key is text": (row(key="ZQX b"), "key is text; expected a whole number"),
    "key of 5000 digits": (row().replace('"key": 1', '"key": 1' + "0" * 5000), "a number has too many digits"),
    "id is a list": (row(id=["ZQX"]), "`id` is a list; expected text"),
    "escape in topic": (row(topic="ZQX\x1b[31m"), "`topic` contains control characters"),
    "bidi in id": (row(id="ZQX\u202e"), "`id` contains control characters"),
    "field twice": (row()[:-1] + ', "key": 2}', "an object repeats a field name"),
    "half a character": (row(stem="ZQX \ud800"), "`stem` contains an incomplete character"),
    "nested deeply": ('{"id": ' + DEEP, "nested too deeply"),
    "the same id": (row(id="first"), "the ID is already used on line 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_bad_row_is_refused_by_its_line_or_set_aside(robustify, name: str) -> None:
    bad, reason = ROWS[name]
    Path("items.jsonl").write_text("\n".join([row(id="first"), bad, row(id="last")]) + "\n", "utf-8")
    (line,) = refusals(robustify("validate", "items.jsonl"), 3)
    assert line.startswith("items.jsonl:2: ")
    assert reason in line
    tree = json.loads(robustify("validate", "items.jsonl", "--skip-bad", "--json").out)
    assert (tree["n_items"], [q["line"] for q in tree["quarantined"]]) == (2, [2])


def zipped(member: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(member, row())
    return out.getvalue()


def contexts(*options: str) -> bytes:
    return json.dumps({"context_options": list(options), "continuation": "ZQX", "gold": 0}).encode()


def prose(instruction: str, answer: str) -> bytes:
    return json.dumps({"instruction": f"ZQX? {instruction}", "answer": answer}).encode()


def labelled(*labels: str) -> dict[str, list[str]]:
    return {"text": AB, "label": list(labels)}


LETTERS = json.dumps({"query": "ZQX?\nA. ZQX\nB. ZQX", "choices": ["A", "B"], "gold": 0}).encode()
LOG = {"id": 1, "input": "ZQX", "target": "ZQX", "choices": None}
OPEN = b'question,A,B,answer\nZQX,x,y,A\n"ZQX,x,y,A\nZQX,x,y,A\n'
FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty; expected items"),
    "blank": (b" \r\n\t\n", "empty; expected items"),
    "Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "Run `git lfs pull`"),
    "gzip": (gzip.compress(row().encode()), "is compressed (gzip)"),
    "a workbook": (zipped("x.opendocument.spreadsheet"), "is a spreadsheet. Save the sheet as CSV"),
    "an old workbook": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "an old Office file, perhaps .xls"),
    "a zipped log": (zipped("header.json"), "zipped Inspect log"),
    "another archive": (zipped("a.jsonl"), "is a zip archive. Unpack it first"),
    "binary": (b"ZQX\x00\x01\x02 and more of it", "is a binary file"),
    "UTF-16": (f"{row()}\n".encode("utf-16"), "is UTF-16 or UTF-32 text"),
    "UTF-16 without a mark": (f"{row()}\n".encode("utf-16-le"), "is UTF-16 or UTF-32 text"),
    "Parquet, damaged": (b"PAR1" + b"ZQX" * 50 + b"PAR1", "the Parquet file cannot be read"),
    "Arrow, damaged": (b"ARROW1" + b"ZQX" * 50, "the Arrow file cannot be read"),
    "only opening brackets": (DEEP.encode(), "the JSON is nested too deeply"),
    "the list is empty": (b"[]", "the list is empty"),
    "a list cut off": (json.dumps([GOOD, GOOD]).encode()[:-20], "items.jsonl:1: not valid JSON: it ends too early"),
    "a list and more": (b"[" + row().encode() + b"]\n" + row().encode(), "more text follows"),
    "a document cut off": (json.dumps({"data": [GOOD, GOOD]}, indent=1).encode()[:-30], "it ends too early"),
    "a last line cut off": (f"{row(id='a')}\n{row()[:-9]}".encode(), "items.jsonl:2: not valid JSON: it ends too early"),
    "prose": (b"ZQX is no table at all.\nZQX neither.\n", "the layout is unknown"),
    "one word": (b"ZQX", "only one record"),
    "a header with a name twice": (b"question,A,A,answer\nZQX,x,y,A\n", "the header repeats a name"),
    "ragged CSV": (b"question,A,B,answer\nZQX,x,y,A\nZQX,y,A\n", "items.jsonl:3: found 3 cells; expected 4"),
    "an open quotation": (OPEN, "items.jsonl:3: the record cannot be read"),
    "CSV key out of range": (b"question,A,B,answer\n\nZQX,x,y,C\n", "items.jsonl:3: the key is C, but there are"),
    "CSV list that is none": (b"question,choices,answer\nZQX?,ZQX and ZQX,A\n", "`choices` is text; expected a JSON"),
    "log without samples": (json.dumps({"version": 2, "eval": {}, "samples": None}).encode(), "has no samples"),
    "log without choices": (json.dumps({"eval": {}, "samples": [LOG]}).encode(), "have no choices"),
    "a name that may be text": (b'{"The ZQX stem that somebody made a name of": 1}', "found 1 field (names not shown"),
    "two stems": (asked(query="ZQX?", answer=0), "`question` and `query` could each be the stem"),
    "two lists": (asked(options=["ZQX b", "c"], answer=0), "`choices` and `options` could each be the choices"),
    "two keys": (asked(gold=0, answer_idx=1), "`answer_idx` names choice 2, but `gold` names choice 1"),
    "nothing for the key": (asked(), "no field has one of the usual names for the key"),
    "letters in place of choices": (b"\n".join([LETTERS] * 4), "in 4 of 4 rows, the options are only letters"),
    "letter out of range": (asked(answer="C"), "the key is C, but there are only 2 choices (A to B)"),
    "key of no choice": (asked(answer="ZQX c"), "the key is text that matches no choice"),
    "key of two": (asked(choices=["ZQX a", "ZQX a", "b"], answer="ZQX a"), "key is the text of 2 identical choices"),
    "label of no choice": (asked(choices=labelled("1", "2"), answer="3"), "the key is not one of the 2 labels"),
    "number that is no label": (asked(choices=labelled("1", "2"), answer=0), "the key is not one of the 2 labels"),
    "labels too few": (asked(choices=labelled("A"), answer="A"), "a different number of labels"),
    "contexts that are the same": (contexts("ZQX a", "ZQX a"), "the two contexts are equal"),
    "three contexts": (contexts("ZQX a", "ZQX b", "ZQX c"), "has 3 contexts; expected 2"),
    "prose out of order": (prose("Answer Choices: (A) x (C) y (B) z", "A"), "cannot be separated"),
    "numbered prose": (prose("\n\nAnswer1: x Answer2: y", "ZQX"), "expected the label of one choice"),
    "two right answers": (
        b'{"question": "ZQX?", "mc1_targets": {"choices": ["a", "b"], "labels": [1, 1]}}',
        "the item has several right answers (2 are named)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_items_says_why(robustify, name: str) -> None:
    data, reason = FILES[name]
    Path("items.jsonl").write_bytes(data)
    lines = refusals(robustify("validate", "items.jsonl"), 3)
    assert reason in lines[0], lines
    assert all(line.startswith("items.jsonl") for line in lines)


@pytest.mark.parametrize(
    ("kind", "key", "reason"),
    [
        ("index", "ZQX", "key is text; expected a whole number from 0 to 1"),
        ("number", 0, "the key is 0, but there are only 2 choices (1 to 2)"),
        ("letter", 1, "key is a number; expected a letter from A to B"),
        ("text", "ZQX", "the key is text that matches no choice"),
        ("label", "ZQX", "expected the label of one choice"),
    ],
)
def test_a_key_of_another_kind_than_said(robustify, kind: str, key: object, reason: str) -> None:
    Path("items.jsonl").write_bytes(asked(answer=key))
    assert reason in refusals(robustify("validate", "items.jsonl", "--map", f"key_is={kind}"), 3)[0]


def test_all_faults_of_a_file_are_given_at_once_in_the_order_of_its_lines(robustify) -> None:
    rows = [row(key=4), row(id="b", stem=3), row(id="c"), row(id="d")[:30], row(id="c")]
    Path("items.jsonl").write_text("\n".join(rows), "utf-8")
    lines = refusals(robustify("validate", "items.jsonl"), 3)
    assert [line.split(": ")[0] for line in lines] == [f"items.jsonl:{n}" for n in (1, 2, 4, 5)]


def test_more_than_five_faults_of_a_kind_are_one_line(robustify) -> None:
    keys = [9, 9, 1, 9, 9, 1, 7, 9, 1, 9, 9, 1, 9, 1, 9]
    Path("items.jsonl").write_text("\n".join(row(id=str(n), key=key) for n, key in enumerate(keys)), "utf-8")
    (line,) = refusals(robustify("validate", "items.jsonl"), 3)
    assert line.startswith("items.jsonl: 10 lines (1 to 2, 4 to 5, 7 to 8, 10 to 11, 13 and 1 more): ")
    assert line.endswith(" [key-out-of-range]")


def test_bytes_that_are_not_utf_8_are_named_by_line_with_the_command_that_mends_them(robustify) -> None:
    good = row(id="a").encode()
    Path("items.jsonl").write_bytes(b"\n".join([good, row(id="b").encode().replace(b"stem?", b"\xff?")]))
    (line,) = refusals(robustify("validate", "items.jsonl"), 3)
    assert line.startswith("items.jsonl:2: not valid UTF-8. Save it as UTF-8. ")
    assert "WINDOWS-1252 (or MACINTOSH)" in line
    assert "`iconv -f WINDOWS-1252 -t UTF-8 items.jsonl > utf8-items.jsonl`" in line


def test_a_parquet_file_names_its_columns_and_the_mapping_or_its_rows(robustify) -> None:
    pq.write_table(pa.table({"length": [1.0, 2.0], "label": [0, 1], "text": ["ZQX", "ZQX"]}), "items.parquet")
    (line,) = refusals(robustify("validate", "items.parquet"), 3)
    assert "found the columns length, label, text" in line
    assert "set `fields: {stem: NAME, choices: NAME or [NAME, NAME], key: NAME}`" in line
    rows = [{"question": "ZQX?", "choices": ["ZQX", None], "answer": n} for n in range(2)]
    pq.write_table(pa.Table.from_pylist(rows), "items.parquet")
    lines = refusals(robustify("validate", "items.parquet"), 3)
    assert [line.split(": ")[0] for line in lines] == ["items.parquet:1", "items.parquet:2"]


def test_the_mapping_resolves_what_can_be_read_in_two_ways(tmp_path: Path) -> None:
    for name, fields in (("two stems", FieldMap(stem="query")), ("two keys", FieldMap(key="gold"))):
        (tmp_path / "items.jsonl").write_bytes(FILES[name][0])
        assert load(Source(path=str(tmp_path / "items.jsonl"), fields=fields), UNGUARDED).items[0].key == 0


LINES = [row(id="a"), row(id="b", stem="ZQX \u2028 and \x85 and \u2029 stem?")]
ACCEPTED: dict[str, str] = {
    "a byte order mark": "\ufeff" + "\n".join(LINES),
    "CRLF": "\r\n".join(LINES) + "\r\n",
    "blank lines": "\n\n" + "\n \n".join(LINES) + "\n\n\n",
    "no line end at the end": "\n".join(LINES),
    "U+2028 inside a string": "\n".join(json.dumps(json.loads(line), ensure_ascii=False) for line in LINES),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_no_fault(tmp_path: Path, name: str) -> None:
    (tmp_path / "items.jsonl").write_bytes(ACCEPTED[name].encode("utf-8"))
    loaded = load(Source(path=str(tmp_path / "items.jsonl")), UNGUARDED)
    assert [i.id for i in loaded.items] == ["a", "b"]
    assert loaded.items[1].stem == "ZQX \u2028 and \x85 and \u2029 stem?"
    assert "ZQX" not in repr(loaded)


CONFIG = "name: t\nsensitivity: public\ndata: items.jsonl\nmodels: []\n"
ALIASES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{" + ", ".join(f"k{j}: *a{i - 1}" for j in range(9)) + "}\n" for i in range(1, 9)
)
CONFIGS: dict[str, tuple[str, str]] = {
    "cut off": ("name: [", "c.yaml:1: the YAML cannot be read (syntax); expected keys and values"),
    "a list": ("- ZQX\n- b\n", "c.yaml contains a list; expected keys and values"),
    "a key twice": ("name: ZQX\nlimit: 1\nname: b\n", "c.yaml:3: the YAML cannot be read (the key name is repeated)"),
    "a key twice below": ("screen:\n  mode: text\n  mode: ZQX\n", "c.yaml:3: the YAML cannot be read (the key mode"),
    "text twice": ("a ZQX, pasted: 1\na ZQX, pasted: 2\n", "c.yaml:2: the YAML cannot be read (the key is repeated)"),
    "a tag": ("name: !!python/object:os.system ZQX\n", "(tags are not allowed)"),
    "empty": ("# nothing\n", "c.yaml is empty; expected keys and values"),
    "a bell": ("name: ZQX\x07\n", "c.yaml: the YAML cannot be read (syntax)"),
    "nested deeply": (CONFIG + "notes: " + "[" * 3000 + "]" * 3000, "cannot be read (more than 20 levels)"),
    "aliases that multiply": (ALIASES + CONFIG, "c.yaml:2: the YAML cannot be read (aliases are not allowed"),
    "too large": (CONFIG + "notes:\n" + "- a\n" * 70_000, "280,064 bytes"),
    "an unknown key": (CONFIG + "scren: {}\n", "c.yaml: scren: unknown key. Did you mean screen?"),
    "an unknown key of a model": (
        CONFIG.replace("[]", "[{name: a, enigne: ZQX}]"), "c.yaml: models[0].enigne: unknown key. Did you mean engine?"
    ),
    "an unknown engine": (CONFIG.replace("[]", "[{name: m, engine: ZQX}]"), "models[0].engine: unknown engine; expected"),
    "no name": (CONFIG.replace("name: t", "name: ZQX ?"), "c.yaml: name: String should match pattern"),
    "a list for a name": (CONFIG.replace("name: t", "name: [ZQX]"), "c.yaml: name: Input should be a valid string"),
    "a word for a number": (CONFIG + "limit: ZQX\n", "c.yaml: limit: Input should be a valid integer"),
    "a yes for a number": (CONFIG + "asking: {shots: yes}\n", "c.yaml: asking.shots: Input should be a valid integer"),
    "out of range": (CONFIG + "limit: 0\n", "c.yaml: limit: Input should be greater than or equal to 1"),
    "another sensitivity": (CONFIG.replace("public", "ZQX"), "c.yaml: sensitivity: Input should be 'public' or"),
    "no sensitivity": ("name: t\ndata: x.jsonl\n", "c.yaml: sensitivity: missing. Add this setting"),
    "a number for fields": (
        CONFIG.replace("items.jsonl", "{path: x, fields: {stem: 7}}"), "c.yaml: data[0].fields.stem: Input"
    ),
    "one model twice": (CONFIG.replace("[]", "[hf:a/m@r, ./m]"), "c.yaml: models: two models have the same name"),
    "itself": ("extends: c.yaml\n", "c.yaml extends itself"),
    "no variable": (CONFIG.replace("items.jsonl", "$NOWHERE/x"), "variable $NOWHERE is not set"),
    "an escape": ('"\\e[2JZQ": 1\n' + CONFIG, "unknown key"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_a_fault_of_a_config_has_its_place_and_no_value(robustify, name: str) -> None:
    text, reason = CONFIGS[name]
    Path("c.yaml").write_text(text, encoding="utf-8")
    (line,) = refusals(robustify("c.yaml"), 2)
    assert reason in line
    assert "\x1b" not in line


def test_many_faults_of_a_config_are_shown_at_once_up_to_twenty(robustify) -> None:
    Path("c.yaml").write_text("name: t\ndata: []\nscreen: {criterion: ZQX}\nlimit: 0\n", encoding="utf-8")
    assert len(refusals(robustify("c.yaml"), 2)) == 4
    Path("c.yaml").write_text(CONFIG.replace(" []", "\n" + "- 1\n" * 500), encoding="utf-8")
    lines = refusals(robustify("c.yaml"), 2)
    assert (len(lines), lines[-1]) == (21, "c.yaml: ... and 480 more faults of this kind")


COMMANDS: dict[str, tuple[list[str], int, str]] = {
    "no config": (["nowhere.yaml"], 2, "is not a known config"),
    "a misspelt config": (["demo_bening"], 2, "Did you mean demo_benign.yaml?"),
    "a misspelt command": (["validat", "x"], 2, "Did you mean validate?"),
    "a misspelt command alone": (["heuristic"], 2, "Did you mean heuristics?"),
    "no file": (["validate", "nowhere.jsonl"], 2, "does not exist"),
    "a path, no config": (["sub/demo_benign.yam"], 2, "does not exist"),
    "a URL": (["validate", "https://example.org/items.csv"], 2, "is a URL; expected a file. Download it"),
    "a folder": (["heuristics", "."], 2, "folder"),
    "no run": (["check", "nowhere"], 2, "is not a folder"),
    "a folder without run.json": (["check", "."], 2, "has no run.json"),
    "a long path": (["check", "x" * 300], 2, "too long"),
    "a longer path": (["validate", "x" * 5000], 2, "path cannot be opened"),
    "a path with a NUL": (["validate", "with\0nul"], 2, "path cannot be opened"),
    "nothing": (["validate", ""], 2, "is empty"),
    "an unknown model": (["models", "pull", "smollm"], 2, "smollm2-135m"),
    "a restricted set": (["wmdp_bio.yaml"], 4, "restricted"),
    "a restricted set in a demo": (["wmdp_bio.yaml", "--safe-demo"], 4, "no-safe-demo"),
    "an unknown option": (["--nope"], 2, "--nope"),
    "no map": (["validate", "one.csv", "--map", "stem"], 2, "expected PART=COLUMN"),
    "a map of no part": (["validate", "one.csv", "--map", "stm=Question"], 2, "expected PART=COLUMN"),
    "a map to nothing": (["validate", "one.csv", "--map", "stem="], 2, "expected PART=COLUMN"),
    "a map of two keys": (["validate", "one.csv", "--map", "key=a", "--map", "key=b"], 2, "--map key is given twice"),
    "a map of another kind": (["validate", "one.csv", "--map", "key_is=word"], 2, "expected one of auto, index"),
    "a question": (["validate", "ZQX is the question that somebody pasted here?"], 2, "<argument 2>"),
    "a config to init": (["init", "demo_benign.yaml"], 2, "is already a config"),
    "one run to compare": (["compare", "one"], 2, "does not exist"),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_refused_command_is_one_line_with_its_exit_code(
    robustify, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    arguments, code, part = COMMANDS[name]
    monkeypatch.setenv("ROBUSTIFY_RESTRICTED_DATA", "nowhere")
    Path("one.csv").write_text("Question,A,B,Answer\nZQX?,x,y,A\n", encoding="utf-8")
    assert part in refusals(robustify(*arguments), code)[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_without_waiting_for_it(robustify) -> None:
    os.mkfifo("pipe")
    assert "is a pipe or device" in refusals(robustify("validate", "pipe"), 2)[0]


@pytest.mark.parametrize("command", ["mend", "init"])
def test_a_command_that_refuses_a_config_offers_none_in_its_usage(robustify, command: str) -> None:
    assert "CONFIG" not in robustify(command, "--help").out.splitlines()[0]
