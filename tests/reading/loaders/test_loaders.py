"""Every layout on made-up items: what is read, where it came from, and what is said about it. Forms of keys: test_forms."""

import bz2
import csv
import gzip
import hashlib
import io
import json
import lzma
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from string import ascii_uppercase
from unittest.mock import Mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from robustify.base.errors import DataError, notice_code
from robustify.items.item import Item
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import FieldMap, Loaded, Source, describe, load, load_many, notes
from robustify.reading.loaders.open_file import open_rows
from tests.reading.loaders import made
from tests.reading.loaders.made import lines
from tests.support.cases import refuses
from tests.support.tables import arrow, parquet

Read = Callable[..., Loaded]
COLOURS = ["red", "green", "blue", "grey"]
LAMP = {"question": "Which lamp?"}
LISTED = {**LAMP, "choices": COLOURS}


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Write a text, rows or records of CSV into a file, and load it."""

    def _read(content: object, file: str = "a.jsonl", **said: object) -> Loaded:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        return made.loaded(path, content, **said)

    return _read


def csv_text(records: Sequence[Sequence[str]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out).writerows(records)
    return out.getvalue()


def own(items: Sequence[Item]) -> str:
    fields = ("id", "stem", "choices", "key", "topic", "group")
    return lines([{name: getattr(item, name) for name in fields} for item in items])


def test_parquet_arrow_stream_and_arrow_folder_give_the_same_items(tmp_path: Path) -> None:
    choices = {"text": COLOURS, "label": list("ABCD")}
    rows = [
        {"id": f"q{n}", "question": f"Which {n}?", "choices": choices, "answerKey": "B"} for n in range(3)
    ]
    part = tmp_path / "saved" / "data-00000-of-00001.arrow"
    parquet(tmp_path / "a.parquet", rows)
    arrow(part, rows)
    arrow(tmp_path / "file.arrow", rows, pa.ipc.new_file)
    found = [
        load(Source(path=str(tmp_path / name)), UNGUARDED) for name in ("a.parquet", "saved", "file.arrow")
    ]
    assert found[0].items == found[1].items == found[2].items
    assert (found[1].name, found[1].layout, found[1].lines) == ("saved", "fields", (1, 2, 3))
    assert found[1].sha256 == hashlib.sha256(part.read_bytes()).hexdigest()


def test_what_a_map_leaves_out_is_left_out_of_a_copy_of_it_too() -> None:
    for fields in ({}, {"passage": None, "key": "gold"}):
        assert FieldMap.model_validate(fields).model_dump() == fields
    for kind, tree in ((FieldMap, {"steem": "x"}), (Source, {"path": "x", "feilds": {}})):
        with pytest.raises(ValidationError):
            kind.model_validate(tree)


def test_the_guard_sees_the_set_with_its_adapter_and_names(tmp_path: Path) -> None:
    guard = Mock()
    (tmp_path / "a.jsonl").write_text(lines([{**LISTED, "answer": 1}]), "utf-8")
    source = Source(path=str(tmp_path / "a.jsonl"))
    loaded = load_many([source], guard, adapter="made-up", names=["lamps"])
    guard.require_ordinary.assert_called_once_with(loaded, [source], "made-up", ["lamps"])


def test_the_place_of_a_chosen_reply_tells_nothing(read: Read) -> None:
    texts = [(f"Which {n}?", f"blue {n}", f"grey {n}") for n in range(60)]
    prompted = [{"prompt": q, "chosen": r, "rejected": w} for q, r, w in texts]
    chats = [
        {name: [{"role": "user", "content": q}, {"role": "assistant", "content": reply}]
         for name, reply in (("chosen", r), ("rejected", w))}
        for q, r, w in texts
    ]  # fmt: skip
    for rows in (prompted, chats):
        items = read(rows).items
        assert [item.choices[item.key] for item in items] == [r for _, r, _ in texts]
        assert 20 < sum(item.key for item in items) < 40
    again = read(prompted[::-1]).items
    assert [item.key for item in again] == [item.key for item in items[::-1]]


def test_a_description_counts_and_holds_no_text(read: Read) -> None:
    both = ["ZQX a", "ZQX b"]
    rows = [{"question": f"ZQX {n}?", "choices": both, "answer": n % 2, "topic": "cups"} for n in range(5)]
    loaded = read([*rows, {"question": "ZQX?", "choices": ["ZQX a"], "answer": 0}], skip_bad=True)
    told = describe(loaded)
    assert "ZQX" not in json.dumps(told) + repr(loaded)
    assert (told["n_items"], told["topics"]) == (5, {"cups": 5})
    assert (told["option_counts"], told["key_positions"]) == ({"2": 5}, {"0": 3, "1": 2})
    assert told["chance_accuracy"] == pytest.approx(0.5)
    (aside,) = told["quarantined"]
    assert (aside["line"], aside["file"], aside["code"]) == (6, "a.jsonl", "choice-count")
    assert told["note_codes"] == made.note_codes(loaded)
    same = describe(read([*rows, rows[0]]))["defects"]["repeated_stem"]
    assert same == {"n": 1, "at": [{"line": 6, "item": "a-0006", "file": "a.jsonl", "first": 1}]}


_PLAIN = st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"])
_IDS = st.text(_PLAIN, min_size=1, max_size=12)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@st.composite
def items(draw: st.DrawFn) -> Item:
    choices = tuple(draw(st.lists(_TEXTS, min_size=2, max_size=26)))
    stem = draw(_TEXTS.filter(lambda t: t.strip() != ""))
    topic, group = draw(st.text(_PLAIN, max_size=8)).strip(), draw(st.sampled_from(["", "g1"]))
    return Item(draw(_IDS), stem, choices, draw(st.integers(0, len(choices) - 1)), topic, group=group)


def _is_trap(found: Sequence[Item]) -> bool:
    return sum(i.choices == tuple(ascii_uppercase[: i.k]) for i in found) * 2 > len(found)


_SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_SETTINGS
@given(found=st.lists(items(), min_size=1, max_size=6, unique_by=lambda i: i.id))
def test_items_written_in_our_own_layout_come_back_equal(tmp_path: Path, found: list[Item]) -> None:
    assume(not _is_trap(found))
    path = tmp_path / "kept.jsonl"
    for text in (own(found), own(found).replace("\n", "\r\n"), "\ufeff" + own(found)):
        path.write_bytes(text.encode("utf-8"))
        assert load(Source(path=str(path)), UNGUARDED).items == tuple(found)
    rows = [json.loads(line) for line in own(found).split("\n") if line]
    path.write_bytes("".join(json.dumps(row) + "\n" for row in rows).encode("utf-8"))
    assert load(Source(path=str(path)), UNGUARDED).items == tuple(found)


ASKED = [
    {
        "id": f"i{at % 90}",
        "question": f"Which one, {at % 70}?",
        "answer": "ABC"[at % 3],
        "passage": f"p{at // 2}",
    }
    for at in range(99)
]
OPTIONS = ["red ", "blue", "a;b"]
LISTS = [{**row, "options": OPTIONS} for row in ASKED]
RECORDS = [[*ASKED[0], *"ABC", ""], *([*row.values(), *OPTIONS, ""] for row in ASKED), [], [""] * 8]
DAYS = [{**row, "answer": date(2026, 1, 1)} for row in LISTS]
FAULTY = [*RECORDS[:50], ["x", "y"], *RECORDS[50:]]
STREAMED: dict[str, str | list[dict[str, object]]] = {
    "set.jsonl": "\n".join([*lines(LISTS[:50]).split("\n"), "{broken", "", *lines(LISTS[50:]).split("\n")]),
    "set.csv": "sep=,\r\n" + csv_text(FAULTY),
    "set.tsv": csv_text(FAULTY).replace(",", "\t"),
    "mmlu.csv": csv_text([[f"Which, {at}\n?", *OPTIONS, "ABC"[at % 3]] for at in range(99)]),
    "set.parquet": LISTS,
    "set.arrow": LISTS,
    "days.parquet": [{**LISTS[0], "answer": None}, *DAYS],
}


@pytest.mark.parametrize("name", STREAMED)
def test_a_large_file_gives_the_same_as_a_small_one_whatever_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path, content = tmp_path / name, STREAMED[name]
    if isinstance(content, str):
        path.write_text(content, "utf-8")
    elif name.endswith("parquet"):
        parquet(path, content, row_group_size=40)
    else:
        arrow(path, content, max_chunksize=40)
    source = Source(path=str(path), skip_bad=True)
    monkeypatch.setattr("robustify.reading.loaders.assemble._MANY", 0)
    found: list[tuple[object, ...]] = []
    for large, batch in ((1 << 30, 4096), (0, 1), (0, 7), (0, 4096)):
        monkeypatch.setattr("robustify.reading.loaders.open_file._LARGE", large)
        monkeypatch.setattr("robustify.reading.loaders.open_file._BATCH", batch)
        try:
            one = load(source, UNGUARDED)
        except DataError as error:
            found.append(error.lines)
            continue
        assert "Which one" not in repr(one)
        found.append((tuple(one.items), tuple(one.lines), one.items[-1], describe(one), one.recognised))
    refused = found[0] if name == "days.parquet" else ()
    assert "(2 to 100)" in str(refused) if refused else "-0001, 3 choices)" in str(found[0]).replace("'", "")
    assert found[1:] == found[:1] * 3


@pytest.mark.parametrize(
    ("keys", "skip_bad", "code"),
    [
        ([1, 2] * 3, False, ""),
        ([1, 2] * 20, False, "uncertain-key-base"),
        ([1, 2, 3, 4], True, "uncertain-key-base"),
    ],
)
def test_keys_without_a_0_count_like_those_of_another_file_only_if_they_probably_do(
    tmp_path: Path, keys: list[int], skip_bad: bool, code: str
) -> None:
    for name, of_file in (("a", [0, 1, 2, 3]), ("b", keys)):
        rows = [
            {"question": f"{name} {i}?", "choices": COLOURS, "answer": key} for i, key in enumerate(of_file)
        ]
        (tmp_path / f"{name}.jsonl").write_text(lines(rows), "utf-8")
    source = Source(path=str(tmp_path), skip_bad=skip_bad)
    if not code:
        assert [item.key for item in load(source, UNGUARDED).items] == [0, 1, 2, 3, *keys]
        return
    with refuses(code):
        load(source, UNGUARDED)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("large", [0, 1 << 30])
def test_a_compressed_file_gives_the_items_in_it_and_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes], large: int
) -> None:
    raw = lines(
        [{"question": f"Which lamp {i}?", "choices": COLOURS, "answer": "B"} for i in range(30)]
    ).encode()
    suffix = {"gzip": "gz", "bz2": "bz2", "lzma": "xz"}[pack.__module__]
    plain, packed = tmp_path / "set.jsonl", tmp_path / f"set.jsonl.{suffix}"
    plain.write_bytes(raw)
    packed.write_bytes(pack(raw))
    monkeypatch.setattr("robustify.reading.loaders.open_file._LARGE", large)
    monkeypatch.setattr("robustify.base.compressed._CHUNK", 64)
    monkeypatch.setattr("robustify.base.compressed.MOST_UNPACKED", len(raw))
    expected, found = (load(Source(path=str(path)), UNGUARDED) for path in (plain, packed))
    assert (found.name, list(found.items), list(found.lines)) == (
        "set", list(expected.items), list(expected.lines)
    )  # fmt: skip
    assert found.sha256 == hashlib.sha256(packed.read_bytes()).hexdigest()
    assert sorted(tmp_path.iterdir()) == sorted([plain, packed])
    monkeypatch.setattr("robustify.base.compressed.MOST_UNPACKED", len(raw) - 1)
    with refuses("compressed-file-too-large"):
        load(Source(path=str(packed)), UNGUARDED)


@pytest.mark.parametrize("name", ["{}_test.jsonl", "{}.json", "{}.csv"])
@pytest.mark.parametrize(
    ("pack", "end"), [(gzip.compress, "gz"), (bz2.compress, "bz2"), (lzma.compress, "xz")]
)
def test_compressed_files_of_a_folder_are_read_as_the_files_in_them(
    tmp_path: Path, pack: Callable[[bytes], bytes], end: str, name: str
) -> None:
    folders = [tmp_path / "plain" / "set", tmp_path / "packed" / "set", tmp_path / "mixed" / "set"]
    for i, of in enumerate("ab"):
        rows = [{"question": f"{of} {j}?", "choices": COLOURS, "answer": "B"} for j in range(3)]
        table = [["question", *"ABCD", "answer"], *([r["question"], *COLOURS, "B"] for r in rows)]
        text = {"jsonl": lines(rows), "json": json.dumps(rows), "csv": csv_text(table)}[name.split(".")[-1]]
        for folder, packed in zip(folders, (False, True, i == 1), strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            raw, file = text.encode(), folder / name.format(of)
            (folder / f"{file.name}.{end}" if packed else file).write_bytes(pack(raw) if packed else raw)
    plain, *others = (load(Source(path=str(folder)), UNGUARDED) for folder in folders)
    for found in others:
        assert (found.name, list(found.items), notes(found)) == ("set", list(plain.items), [])
    (packed,) = folders[2].glob(f"*.{end}")
    packed.with_suffix("").write_bytes(b"\n")
    with refuses("repeated-file"):
        load(Source(path=str(folders[2])), UNGUARDED)
    packed.write_bytes(packed.read_bytes()[:-9])
    packed.with_suffix("").unlink()
    with refuses("damaged-compressed-file"):
        load(Source(path=str(folders[2])), UNGUARDED)


@pytest.mark.parametrize("name", ["b.csv.zst", "b.json.zst"])
@pytest.mark.parametrize("beside", ["", "a.csv", "a.json"])
def test_a_file_of_zstandard_in_a_folder_is_refused_with_the_command_that_unpacks_it(
    tmp_path: Path, name: str, beside: str
) -> None:
    (tmp_path / name).write_bytes(b"\x28\xb5\x2f\xfd" + bytes(range(40)))
    if beside:
        rows = [{"question": "Which?", "choices": COLOURS, "answer": "B"}] * 2
        (tmp_path / beside).write_text(
            json.dumps(rows) if beside == "a.json" else "question,A,B,answer\nW?,x,y,A\n"
        )
    if (name, beside) == ("b.json.zst", "a.csv"):
        assert "unread-files" in map(notice_code, notes(load(Source(path=str(tmp_path)), UNGUARDED)))
        return
    with refuses("compressed-file", says="zstd -d"):
        load(Source(path=str(tmp_path)), UNGUARDED)


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(lines([{**LISTED, "answer": "B"}] * 3), "utf-8")
    monkeypatch.setattr("robustify.reading.loaders.open_file._LARGE", 0)
    table, _ = open_rows(str(path), stream=True)
    path.write_text(lines([{**LISTED, "answer": "C"}] * 4), "utf-8")
    with refuses("file-changed"):
        list(table.rows)


def test_a_map_of_parquet_with_a_repeated_label_loses_no_option(tmp_path: Path) -> None:
    pairs = [("A", "red"), ("A", "blue"), ("B", "grey")]
    options = pa.array([pairs], pa.map_(pa.string(), pa.string()))
    table = pa.table({"question": ["Which lamp?"], "options": options, "answer": ["B"]})
    path = parquet(tmp_path / "x.parquet", table)
    with refuses("not-text"):
        load(Source(path=str(path)), UNGUARDED)
