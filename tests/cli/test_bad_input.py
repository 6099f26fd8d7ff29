"""Bad input: one line for each fault, with file and line, all of them at once, and never a word of an item.

Every made-up text below holds the marker ZQX, so that a leak shows.
"""

import gzip
import io
import json
import logging
import os
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robustify.errors import DataError, RobustifyError, UsageError
from robustify.loaders import FieldMap, Source, load

GOOD = {
    "id": "g",
    "stem": "ZQX stem?",
    "choices": ["ZQX a", "ZQX b", "ZQX c", "ZQX d"],
    "key": 1,
    "topic": "cups",
}
DEEP = "[" * 100_000


def row(**changed: object) -> str:
    return json.dumps({**GOOD, **changed})


def without(name: str) -> str:
    return json.dumps({k: v for k, v in GOOD.items() if k != name})


def refused(path: Path, **said: object) -> RobustifyError:
    """The error of loading `path`, after a look for item text wherever it could have gone."""
    source = Source.model_validate({"path": str(path), **said})
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(RobustifyError) as caught:
            load(source)
    assert not warned
    error = caught.value
    assert not any("ZQX" in text for text in (str(error), repr(error), *error.lines))
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None, "a chained error would carry the text"
    assert not any("\n" in line for line in error.lines)
    return error


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "items.jsonl"


# ---- one bad row between two good ones: refused by line, or set aside ----

BAD_ROWS: dict[str, tuple[str, str]] = {
    "cut off": (row()[:40], "it ends too early"),
    "no JSON": ('{"id": ZQX}', "not valid JSON: column"),
    "two values": (row() + " " + row(), "more after the first value"),
    "a list": ('["ZQX"]', "a list; expected an object"),
    "a number": ("7", "a number; expected an object"),
    "a text": ('"ZQX"', "text; expected an object"),
    "null": ("null", "null; expected an object"),
    "no stem": (without("stem"), "no field `stem`"),
    "no choices": (without("choices"), "no field `choices`"),
    "no key": (without("key"), "no field `key`"),
    "no id": (row(id=""), "id is empty"),
    "stem is a number": (row(stem=7), "`stem` is a number; expected text"),
    "stem is null": (row(stem=None), "`stem` is null; expected text"),
    "stem is a list": (row(stem=["ZQX"]), "`stem` is a list; expected text"),
    "stem is blank": (row(stem=" \n"), "stem is empty"),
    "choices are a text": (row(choices="ZQX a, ZQX b"), "`choices` is text; expected a list"),
    "choices are a number": (row(choices=4), "`choices` is a number; expected a list"),
    "choices are null": (row(choices=None), "`choices` is null; expected a list"),
    "choices are an object": (row(choices={"A": "ZQX"}), "`choices` is an object; expected a list"),
    "a null choice": (row(choices=["ZQX a", None]), "choice 2 of `choices` is null; expected text"),
    "a number as choice": (row(choices=["ZQX a", 3]), "choice 2 of `choices` is a number; expected text"),
    "a list as choice": (row(choices=["ZQX a", ["ZQX"]]), "choice 2 of `choices` is a list; expected text"),
    "no choice": (row(choices=[]), "0 choices; expected 2 to 26"),
    "one choice": (row(choices=["ZQX a"], key=0), "1 choice; expected 2 to 26"),
    "27 choices": (row(choices=[f"ZQX {n}" for n in range(27)]), "27 choices; expected 2 to 26"),
    "key 4 of 4": (row(key=4), "key 4, but only 4 choices (0 to 3); counted from 1? say `fields: {key_is: number}`"),
    "key -1": (row(key=-1), "key -1, but only 4 choices (0 to 3)"),
    "key true": (row(key=True), "key is true or false; expected a whole number from 0 to 3"),
    "key null": (row(key=None), "key is null"),
    "key 1.0": (row(key=1.0), "key is a number with a decimal point"),
    "key NaN": (row(key=float("nan")), "NaN is no JSON number"),
    "key Infinity": (row(key=float("-inf")), "-Infinity is no JSON number"),
    "key is text": (row(key="ZQX b"), "key is text; expected a whole number"),
    "key is a list": (row(key=[1]), "key is a list"),
    "key of 20 digits": (row(key=10**20), "key with more than 9 digits, but only 4 choices"),
    "key of 5000 digits": (row().replace('"key": 1', '"key": 1' + "0" * 5000), "a number with too many digits"),
    "id is a list": (row(id=["ZQX"]), "`id` is a list; expected text"),
    "id is true": (row(id=True), "`id` is true or false; expected text"),
    "topic is an object": (row(topic={"ZQX": 1}), "`topic` is an object; expected text"),
    "escape in topic": (row(topic="ZQX\x1b[31m"), "`topic` holds control characters"),
    "bidi in id": (row(id="ZQX\u202e"), "`id` holds control characters"),
    "field twice": (row()[:-1] + ', "key": 2}', "the same field name stands twice"),
    "half a character": (row(stem="ZQX \ud800"), "`stem` holds half a character"),
    "half a character in a choice": (row(choices=["ZQX \udfff", "b"]), "choice 1 of `choices` holds half a character"),
    "nested deeply": ('{"id": ' + DEEP, "nested too deeply"),
    "the same id": (row(id="first"), "the same id as line 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_row_that_cannot_be_an_item(path: Path, name: str) -> None:
    bad, reason = BAD_ROWS[name]
    path.write_text("\n".join([row(id="first"), bad, row(id="last")]) + "\n", encoding="utf-8")
    error = refused(path)
    assert isinstance(error, DataError)
    assert error.exit_code == 3
    assert len(error.lines) == 1
    assert error.lines[0].startswith("items.jsonl:2: ")
    assert reason in error.lines[0]
    loaded = load(Source(path=str(path), skip_bad=True))
    assert [i.id for i in loaded.items] == ["first", "last"]
    assert [(q.line, q.file) for q in loaded.quarantined] == [(2, "items.jsonl")]
    assert reason in loaded.quarantined[0].reason
    assert "ZQX" not in repr(loaded)


@pytest.mark.parametrize("name", sorted(set(BAD_ROWS) - {"the same id"}))
def test_a_file_of_that_row_alone(path: Path, name: str) -> None:
    path.write_text(BAD_ROWS[name][0] + "\n", encoding="utf-8")
    for skip_bad in (False, True):
        error = refused(path, skip_bad=skip_bad)
        assert error.exit_code == 3
        assert error.lines[0].startswith("items.jsonl")


def test_all_faults_of_a_file_are_given_at_once_in_the_order_of_its_lines(path: Path) -> None:
    path.write_text(
        "\n".join([row(key=4), row(id="b", stem=3), row(id="c"), row(id="d")[:30], row(id="c")]), "utf-8"
    )
    assert refused(path).lines == (
        "items.jsonl:1: key 4, but only 4 choices (0 to 3); counted from 1? say `fields: {key_is: number}`",
        "items.jsonl:2: `stem` is a number; expected text",
        "items.jsonl:4: not valid JSON: it ends too early (cut off?)",
        "items.jsonl:5: the same id as line 3; expected one of its own",
    )


def test_more_than_five_faults_of_a_kind_are_one_line(path: Path) -> None:
    keys = [9, 9, 1, 9, 9, 1, 7, 9, 1, 9, 9, 1, 9, 1, 9]
    path.write_text("\n".join(row(id=str(n), key=key) for n, key in enumerate(keys)), "utf-8")
    assert refused(path).lines == (
        "items.jsonl: 10 lines (1 to 2, 4 to 5, 7 to 8, 10 to 11, 13 and 1 more): the first: key 9, but only 4 "
        "choices (0 to 3)",
    )
    path.write_text("\n".join(row(id=str(n), key=9) for n in range(5)), "utf-8")
    assert len(refused(path).lines) == 5


def test_the_last_line_cut_off_is_named(path: Path) -> None:
    path.write_text((row(id="a") + "\n" + row(id="b"))[:-9], "utf-8")
    assert refused(path).lines == ("items.jsonl:2: not valid JSON: it ends too early (cut off?)",)


# ---- bytes ----


def test_bytes_that_are_not_utf_8_are_named_by_line(path: Path) -> None:
    good = row(id="a").encode()
    path.write_bytes(
        b"\n".join([good, row(id="b").encode().replace(b"stem?", b"\xff?"), good.replace(b'"a"', b'"\xe9"')])
    )
    mend = "; save it as UTF-8, or try `iconv -f WINDOWS-1252 -t UTF-8 items.jsonl > utf8-items.jsonl`"
    assert refused(path).lines == (f"items.jsonl:2: not valid UTF-8{mend}", "items.jsonl:3: not valid UTF-8")
    assert [q.line for q in load(Source(path=str(path), skip_bad=True)).quarantined] == [2, 3]
    path.write_bytes(b"[\n" + good + b",\n" + good.replace(b"stem?", b"\xff?") + b"]")
    assert refused(path).lines == (f"items.jsonl:3: not valid UTF-8{mend}",)
    path.write_bytes(b"question,A,B,answer\nZQX?,x,y,A\nZQX \xff?,x,y,B\n")
    assert refused(path).lines == (f"items.jsonl:3: not valid UTF-8{mend}",)


def zipped(member: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(member, row())
    return out.getvalue()


ZIPPED = {
    name: zipped(name)
    for name in (
        "xl/workbook.xml", "mimetypeapplication/vnd.oasis.opendocument.spreadsheet", "a.jsonl", "header.json",
    )
}  # fmt: skip
WIDE = ["utf-16", "utf-16-le", "utf-16-be", "utf-32"]
LISTED = b"question,choices,answer\n"
LOG = {"id": 1, "input": "ZQX", "target": "ZQX", "choices": None}
BYTES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty; expected items"),
    "blank": (b" \r\n\t\n", "empty; expected items"),
    "a mark and nothing else": (b"\xef\xbb\xbf", "empty; expected items"),
    "Git LFS pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
        "is a Git LFS pointer, not the data: run `git lfs pull`",
    ),
    "gzip": (gzip.compress(row().encode()), "is compressed (gzip)"),
    "a workbook": (ZIPPED["xl/workbook.xml"], "is a spreadsheet; expected a data file: save its sheet as CSV"),
    "an open spreadsheet": (
        ZIPPED["mimetypeapplication/vnd.oasis.opendocument.spreadsheet"],
        "is a spreadsheet; expected a data file: save its sheet as CSV",
    ),
    "an old workbook": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "an old Office file (.xls?)"),
    "a zipped log": (ZIPPED["header.json"], "zipped Inspect log"),
    "another archive": (ZIPPED["a.jsonl"], "is a zip archive; expected a data file: unpack it first"),
    "binary": (b"ZQX\x00\x01\x02 and more of it", "is a binary file"),
    **{name: (f"{row()}\n".encode(name), "is UTF-16 or UTF-32; expected UTF-8") for name in WIDE},
    "Parquet, damaged": (b"PAR1" + b"ZQX" * 50 + b"PAR1", "Parquet that cannot be read"),
    "Arrow, damaged": (b"ARROW1" + b"ZQX" * 50, "Arrow that cannot be read"),
    "Arrow stream, damaged": (b"\xff\xff\xff\xff\x10\x00\x00\x00" + b"ZQX" * 50, "Arrow that cannot be read"),
    "only opening brackets": (DEEP.encode(), "JSON nested too deeply"),
    "an empty list": (b"[]", "an empty list"),
    "a list cut off": (json.dumps([GOOD, GOOD]).encode()[:-20], "items.jsonl:1: not valid JSON: it ends too early"),
    "a list with a comma too many": (b"[" + row().encode() + b",\n]", "items.jsonl:2: not valid JSON"),
    "a list and more": (b"[" + row().encode() + b"]\n" + row().encode(), "more after the end"),
    "a list of texts": (b'["ZQX",\n"ZQX"]', "items.jsonl:1: text; expected an object"),
    "a document cut off": (json.dumps({"data": [GOOD, GOOD]}, indent=1).encode()[:-30], "it ends too early"),
    "prose": (b"ZQX is no table at all.\nZQX neither.\n", "holds no items of a known layout"),
    "one word": (b"ZQX", "a single record"),
    "a header alone": (b"question,choices,answer\n", "a single record of 3 cells"),
    "a header with a name twice": (b"question,A,A,answer\nZQX,x,y,A\n", "names a column twice"),
    "ragged CSV": (b"question,A,B,answer\nZQX,x,y,A\nZQX,y,A\n", "items.jsonl:3: 3 cells; expected 4"),
    "ragged CSV without header": (
        b"ZQX is what?,x,y,A\nZQX is that, is it?,x,y,B\nZQX is it?,x,y,B\n",
        "items.jsonl:2: 5 cells; expected 4, as most records have",
    ),
    "an open quotation": (
        b'question,A,B,answer\nZQX,x,y,A\n"ZQX,x,y,A\nZQX,x,y,A\n',
        "items.jsonl:3: the record cannot be read",
    ),
    "CSV key out of range": (b"question,A,B,answer\n\nZQX,x,y,C\n", "items.jsonl:3: key C, but only 2 choices (A to B)"),
    "CSV without header, key": (
        b'"ZQX is\nwhat?",x,y,A\nZQX is it?,x,y,E\nZQX is that?,x,y,\nZQX was it?,x,y,B\n',
        "items.jsonl:3: key E, but only 2 choices (A to B)",
    ),
    "CSV list that is none": (LISTED + b"ZQX?,ZQX and ZQX,A\n", "`choices` is text; expected a list"),
    "CSV list nested deeply": (LISTED + f'ZQX?,"{DEEP}",A\n'.encode(), "`choices` is text; expected a list"),
    "CSV list with an odd escape": (LISTED + b"ZQX?,\"['ZQX \\d', None]\",A\n", "choice 2 of `choices` is null"),
    "CSV index out of range": (b"question,A,B,answer_index\nZQX,x,y,2\n", "key 2, but only 2 choices (0 to 1)"),
    "a block too short": (
        b"a\nZQX\nZQX?\nA.1\nB.2\nC.3\nD.4\n\nb\nZQX\nZQX?\nA.1\nB.2\nC.3\n",
        "items.jsonl:9: a block of 6 lines",
    ),
    "log without samples": (json.dumps({"version": 2, "eval": {}, "samples": None}).encode(), "without samples"),
    "log without choices": (json.dumps({"eval": {}, "samples": [LOG]}).encode(), "whose samples have no choices"),
}  # fmt: skip


@pytest.mark.parametrize("name", BYTES)
def test_a_file_that_holds_no_items(path: Path, name: str) -> None:
    data, reason = BYTES[name]
    path.write_bytes(data)
    error = refused(path)
    assert error.exit_code == 3
    assert reason in error.lines[0], error.lines
    assert all(line.startswith("items.jsonl") for line in error.lines)


def test_a_bad_key_in_the_first_row_of_a_csv_without_header_is_named_too(path: Path) -> None:
    path.write_text("ZQX is the first of them?,x,y,7\nZQX is it?,x,y,B\nZQX was it?,x,y,A\n", "utf-8")
    assert refused(path).lines == ("items.jsonl:1: key is no letter; expected a letter from A to B",)


def test_a_parquet_without_items_names_its_columns_and_the_mapping(tmp_path: Path) -> None:
    path = tmp_path / "items.parquet"
    pq.write_table(pa.table({"length": [1.0, 2.0], "label": [0, 1], "text": ["ZQX", "ZQX"]}), path)
    line = refused(path).lines[0]
    assert "found the columns length, label, text" in line
    assert "write `fields: {stem: NAME, choices: NAME or [NAME, NAME], key: NAME}`" in line
    pq.write_table(pa.table({"question": pa.array([], pa.string())}), path)
    assert "no rows" in refused(path).lines[0]


def test_parquet_rows_are_named_by_number(tmp_path: Path) -> None:
    path = tmp_path / "items.parquet"
    rows = [{"question": "ZQX?", "choices": ["ZQX", None], "answer": n} for n in range(2)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert [line.split(": ")[0] for line in refused(path).lines] == ["items.parquet:1", "items.parquet:2"]


def test_names_that_may_be_text_are_not_shown(path: Path) -> None:
    path.write_text(json.dumps({"The ZQX stem that somebody made a name of": 1}), "utf-8")
    assert "found fields: 1 (names not shown" in refused(path).lines[0]


# ---- paths ----


def test_paths_that_lead_to_no_file_are_usage_errors(tmp_path: Path) -> None:
    cases = [tmp_path / "nothing.jsonl", tmp_path, tmp_path / "with\0nul", tmp_path / ("x" * 5000)]
    for case in cases:
        error = refused(case)
        assert isinstance(error, UsageError)
        assert error.exit_code == 2
    assert "no such file" in refused(cases[0]).lines[0]
    assert "is a folder without .arrow or .parquet files" in refused(tmp_path).lines[0]
    (tmp_path / "dataset_dict.json").write_text("{}")
    assert "give one of its split folders" in refused(tmp_path).lines[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in refused(tmp_path / "pipe").lines[0]


# ---- what is ambiguous ----

AB = ["ZQX a", "ZQX b"]


def asked(**more: object) -> dict[str, object]:
    """A row in the usual field names, without a key."""
    return {"question": "ZQX?", "choices": AB, **more}


AMBIGUOUS: dict[str, tuple[dict[str, object], str]] = {
    "two stems": (asked(query="ZQX?", answer=0), "`question` and `query` could each be the stem"),
    "two lists": (asked(options=["ZQX b", "c"], answer=0), "`choices` and `options` could each be the choices"),
    "two keys": (asked(gold=0, answer_idx=1), "`answer_idx` and `gold` could each be the key"),
    "two series": (
        {"question": "ZQX?", "A": "a", "B": "b", "option1": "c", "option2": "d", "answer": "A"},
        "several rows of columns could be the choices",
    ),
    "no key": (asked(), "no field for the key"),
    "no stem": ({"choices": AB, "answer": 1}, "no field for the stem"),
}  # fmt: skip


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused_with_the_mapping_to_write(path: Path, name: str) -> None:
    fields, reason = AMBIGUOUS[name]
    path.write_text(json.dumps(fields), "utf-8")
    error = refused(path)
    assert error.exit_code == 3
    assert reason in error.lines[0]
    assert "write `fields: {stem: " in error.lines[0]


def test_the_mapping_resolves_it(path: Path) -> None:
    for name, fields in (("two stems", FieldMap(stem="query")), ("two keys", FieldMap(key="gold"))):
        path.write_text(json.dumps(AMBIGUOUS[name][0]), "utf-8")
        assert load(Source(path=str(path), fields=fields)).items[0].key == 0


def test_letters_in_place_of_choices_are_refused_by_name(path: Path) -> None:
    def letters(n: int) -> dict[str, object]:
        return {"query": f"ZQX {n}?\nA. ZQX\nB. ZQX", "choices": ["A", "B"], "gold": n % 2}

    path.write_text("\n".join(json.dumps(letters(n)) for n in range(4)), "utf-8")
    reason = "the options are letters (in 4 of 4 rows); their texts are inside the stem"
    assert reason in refused(path).lines[0]
    assert refused(path, skip_bad=True).exit_code == 3
    rows = [letters(0), *({"query": f"ZQX {n}?", "choices": ["red", "blue"], "gold": 0} for n in range(2))]
    path.write_text("\n".join(json.dumps(one) for one in rows), "utf-8")
    assert len(load(Source(path=str(path))).items) == 3, "one item may well ask for a letter"


def labelled(*labels: str) -> dict[str, list[str]]:
    return {"text": AB, "label": list(labels)}


KEYS: dict[str, tuple[object, object, str]] = {
    "letter out of range": (AB, "C", "key C, but only 2 choices (A to B)"),
    "text of no choice": (AB, "ZQX c", "key is neither an index, nor a letter"),
    "text of two": (["ZQX a", "ZQX a", "b"], "ZQX a", "key is the text of 2 identical choices"),
    "empty": (AB, " ", "key is empty"),
    "label of no choice": (labelled("1", "2"), "3", "key 3, but only 2 choices"),
    "number that is no label": (labelled("1", "2"), 0, "key is none of the 2 labels"),
    "labels twice": (labelled("A", "A"), "A", "or there twice"),
    "labels too few": (labelled("A"), "A", "not as many labels"),
    "letter among odd labels": (labelled("F", "G"), "A", "key is neither"),
    "text not a list": ({"text": "ZQX", "label": ["A"]}, "A", "`choices` is text"),
    "float": (AB, 1.5, "key is a number with a decimal point"),
    "object": (AB, {"ZQX": 1}, "key is an object"),
}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_names_no_choice(path: Path, name: str) -> None:
    choices, answer, reason = KEYS[name]
    path.write_text(json.dumps(asked(choices=choices, answer=answer)), "utf-8")
    error = refused(path)
    assert reason in error.lines[0], error.lines
    assert error.lines[0].startswith("items.jsonl:1: ")


KEY_KINDS: Sequence[tuple[str, object, str]] = [
    ("index", "ZQX", "key is text; expected a whole number from 0 to 1"),
    ("number", 0, "key 0, but only 2 choices (1 to 2)"),
    ("number", "3", "key 3, but only 2 choices (1 to 2)"),
    ("letter", 1, "key is a number; expected a letter from A to B"),
    ("letter", "ZQX", "key is no letter; expected a letter from A to B"),
    ("text", 1, "key is a number; expected the text of exactly one choice"),
    ("text", "ZQX", "key is the text of 0 choices"),
    ("label", "ZQX", "key is none of the 0 labels"),
]


@pytest.mark.parametrize(("kind", "key", "reason"), KEY_KINDS)
def test_a_key_of_another_kind_than_said(path: Path, kind: str, key: object, reason: str) -> None:
    path.write_text(json.dumps(asked(answer=key)), "utf-8")
    assert reason in refused(path, fields={"key_is": kind}).lines[0]


def contexts(*options: str) -> dict[str, object]:
    return {"context_options": list(options), "continuation": "ZQX", "gold": 0}


def prose(instruction: str, answer: str) -> dict[str, object]:
    return {"instruction": f"ZQX? {instruction}", "answer": answer}


IN_ORDER = "do not come once each and in order"
NAMED: dict[str, tuple[dict[str, object], str]] = {
    "contexts without a common word": (contexts("ZQX a", "b ZQX"), "share no first word"),
    "contexts that are the same": (contexts("ZQX a", "ZQX a"), "differ by no word"),
    "one context in the other": (contexts("ZQX a", "ZQX a b"), "one holds the other"),
    "three contexts": (contexts("ZQX a", "ZQX b", "ZQX c"), "has 3 contexts; expected 2"),
    "prose out of order": (prose("Answer Choices: (A) x (C) y (B) z", "A"), IN_ORDER),
    "prose with a letter twice": (prose("Answer Choices: (A) see (B) (B) z", "A"), IN_ORDER),
    "numbered prose out of order": (prose("\n\nAnswer1: x Answer3: y", "answer1"), IN_ORDER),
    "numbered prose, other key": (prose("\n\nAnswer1: x Answer2: y", "ZQX"), "is not of the form answer1 to answer2"),
    "siqa label 0": (
        {"context": "ZQX", "question": "ZQX?", "answerA": "a", "answerB": "b", "answerC": "c", "label": "0"},
        "key 0, but only 3 choices (1 to 3)",
    ),
    "hellaswag without label": ({"ctx": "ZQX", "endings": AB, "label": ""}, "key is empty"),
    "two right answers": (
        {"question": "ZQX?", "mc1_targets": {"choices": ["a", "b"], "labels": [1, 1]}},
        "does not hold exactly one 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_a_named_layout_with_a_bad_row(path: Path, name: str) -> None:
    fields, reason = NAMED[name]
    path.write_text(json.dumps(fields), "utf-8")
    assert reason in refused(path).lines[0]


# ---- what is accepted ----

LINES = [row(id="a"), row(id="b", stem="ZQX \u2028 and \x85 and \u2029 stem?")]
ACCEPTED: dict[str, str] = {
    "a byte order mark": "\ufeff" + "\n".join(LINES),
    "CRLF": "\r\n".join(LINES) + "\r\n",
    "blank lines": "\n\n" + "\n \n".join(LINES) + "\n\n\n",
    "no line end at the end": "\n".join(LINES),
    "U+2028 inside a string": "\n".join(json.dumps(json.loads(line), ensure_ascii=False) for line in LINES),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_no_fault(path: Path, name: str) -> None:
    path.write_bytes(ACCEPTED[name].encode("utf-8"))
    loaded = load(Source(path=str(path)))
    assert [i.id for i in loaded.items] == ["a", "b"]
    assert loaded.items[1].stem == "ZQX \u2028 and \x85 and \u2029 stem?"
    assert loaded.quarantined == ()


def test_loading_says_nothing_and_leaves_the_file_alone(
    path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    text = "\n".join([row(id="a"), row(id="b", key=9), '{"id": "ZQX'])
    path.write_text(text, "utf-8")
    with caplog.at_level(logging.DEBUG):
        load(Source(path=str(path), skip_bad=True))
        refused(path)
    assert capfd.readouterr() == ("", "")
    assert caplog.text == ""
    assert path.read_text("utf-8") == text
    assert [p.name for p in path.parent.iterdir()] == ["items.jsonl"]
