"""What the gate opens, how far, and what it refuses because it cannot: containers, encodings, bombs, hostile text."""

import base64
import bz2
import gzip
import io
import lzma
import random
import signal
import sys
import tarfile
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.gate.check import scan
from robustify.gate.policy import GateFinding
from robustify.gate.reading import DecodedText, Decoder, Undecoded
from robustify.gate.reading.cells import Lines
from robustify.gate.reading.encoded import runs, text_of, unescaped, without_tags
from robustify.gate.reading.unpack import MOST_BYTES, MOST_DEPTH, file_kind
from tests.gate.artefacts import LOG_PROBABILITIES
from tests.gate.corpus import LETTERS, Made, made, whole, zipped
from tests.gate.layouts import LAYOUTS, STRUCTURE
from tests.gate.repo import ROOT
from tests.gate.sets import mock_items, mock_prints, rules_of, written
from tests.support.cost import costs_at_most

LEAK = mock_items()[0]


def rules(data: bytes) -> set[str]:
    return rules_of(data, mock_prints())


def nested(data: bytes, depth: int) -> bytes:
    for i in range(depth):
        data = zipped({f"{i}.bin": data}) if i % 2 else gzip.compress(data, mtime=0)
    return data


# Bounds.


ZEROS = bytes(64 << 20)
BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip": lambda: gzip.compress(ZEROS, mtime=0),
    "bzip2": lambda: bz2.compress(ZEROS),
    "xz": lambda: lzma.compress(ZEROS),
    "zlib": lambda: zlib.compress(ZEROS),
    "zip": lambda: zipped({"a": ZEROS}),
    "zip_of_gzip": lambda: zipped({f"{i}.gz": gzip.compress(bytes(12 << 20), mtime=0) for i in range(8)}),
    "many_members": lambda: zipped({f"{i}": b"x" for i in range(3000)}),
    "gzip_twice": lambda: gzip.compress(gzip.compress(ZEROS, mtime=0), mtime=0),
}
"""How each is made, which a run of other tests need not pay for."""


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_little_and_is_refused(name: str) -> None:
    bomb = BOMBS[name]()
    assert "RBG503" in costs_at_most(400, lambda: rules_of(bomb))


def test_what_is_packed_too_deep_is_refused_and_less_deep_is_read() -> None:
    text = whole(LEAK).encode()
    assert "RBG301" in rules(nested(text, MOST_DEPTH))
    assert rules(nested(text, MOST_DEPTH + 1)) == {"RBG503"}
    encoded = text
    for _ in range(MOST_DEPTH + 1):
        encoded = base64.b64encode(encoded)
    assert rules(encoded) == {"RBG503"}


def test_a_file_of_more_than_the_bound_is_refused() -> None:
    assert rules(b"word " * (MOST_BYTES // 5 + 1)) == {"RBG503"}


def test_an_encrypted_member_is_refused_and_the_others_are_read() -> None:
    raw = bytearray(zipped({"open.txt": whole(LEAK).encode(), "shut.txt": b"anything at all"}))
    at = raw.rindex(b"PK\x01\x02")
    raw[at + 8] |= 1
    assert rules(bytes(raw)) >= {"RBG301", "RBG502"}


@pytest.mark.parametrize("cut", [10, 40, 90])
def test_a_damaged_archive_is_refused(cut: int) -> None:
    whole_archive = zipped({"a.txt": random.Random(1).randbytes(4000)})
    assert rules(whole_archive[: len(whole_archive) * cut // 100]) & {"RBG504", "RBG501"}
    packed = gzip.compress(random.Random(2).randbytes(4000), mtime=0)
    assert rules(packed[: len(packed) * cut // 100]) & {"RBG504", "RBG501"}


def test_what_stands_behind_a_stream_or_in_an_archive_s_names_is_read_too() -> None:
    assert "RBG301" in rules(gzip.compress(b"nothing", mtime=0) + whole(LEAK).encode())
    assert "RBG301" in rules(zipped({LEAK.stem.replace(" ", "_") + ".txt": b"nothing"}))
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = tarfile.SYMTYPE, LEAK.stem.replace(" ", "/")
        archive.addfile(info)
    assert "RBG301" in rules(held.getvalue())


def test_folders_in_an_archive_are_passed_over_and_the_files_in_them_read() -> None:
    assert rules(zipped({"notes/": b"", "notes/a.txt": whole(LEAK).encode()})) >= {"RBG301"}
    assert rules(zipped({"notes/": b"", "notes/a.txt": b"a painted tub"})) == set()


def test_a_damaged_stream_or_member_is_refused() -> None:
    packed = bytearray(gzip.compress(whole(LEAK).encode(), mtime=0))
    packed[12:20] = b"\xff" * 8
    assert rules(bytes(packed)) == {"RBG504"}
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"))
        info = tarfile.TarInfo("b.txt")
        info.size = 4000
        archive.addfile(info, io.BytesIO(bytes(range(65, 91)) * 160))
    raw = held.getvalue()
    assert "RBG504" in rules(raw[:2000])


def test_an_encoded_run_that_is_encrypted_is_refused_however_short() -> None:
    data = b"Salted__" + random.Random(5).randbytes(56)
    assert rules(b"blob: " + base64.b64encode(data) + b"\n") == {"RBG502"}


def test_nothing_is_written_while_archives_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scan(zipped({"../../escape.txt": b"words", "/absolute.txt": b"words"}), mock_prints())
    assert list(tmp_path.iterdir()) == []


# Kinds and encodings.


def test_binary_content_is_refused_and_its_words_are_still_looked_at() -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) + LEAK.stem.encode() + bytes(range(256))
    assert rules(png) >= {"RBG501", "RBG301"}
    assert rules(png.replace(LEAK.stem.encode(), LEAK.stem.encode("utf-16-le"))) >= {"RBG501", "RBG301"}


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "latin-1"]
)
def test_text_is_read_in_every_common_encoding(encoding: str) -> None:
    text = "Où est la " + LEAK.stem
    assert text_of(text.encode(encoding)) == text
    assert "RBG301" in rules(text.encode(encoding))


def test_a_mark_that_could_begin_a_word_does_not_make_text_binary() -> None:
    for text in (b"MZ is a county code", b"ORC is a format", b"RIFF and GGUF are others", b"x^2 + y^2"):
        assert file_kind(text) == "text"


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_read_or_refused_and_never_crash(data: bytes) -> None:
    found = list(Decoder(lambda text: False).read(data))
    assert found
    assert any(isinstance(part, Undecoded) or (isinstance(part, DecodedText) and part.raw) for part in found)


FRAGMENTS = (
    "question", ": ", "choices", "[", "]", "{", "}", '"', "'", "Which lamp is lit?", "A) x ", "B) y ", "C) z", "\n",
    "answer", "=", "<li>", "</li>", "|", ",", "(", ")", "~", "\\item", "\\begin{", "%41", "&#65;", "\\u0041",
    "INSERT INTO a VALUES ", "[x]", "[ ]", "-----BEGIN PGP MESSAGE-----", "QUJD" * 12, "1. ", "2. ", "3. ", "\x0b",
    "\u200b", "é", "Answer1: ", "- ", "options: ",
)  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join))
@settings(max_examples=400, deadline=None)
def test_broken_pieces_of_every_notation_never_crash_a_scan(text: str) -> None:
    assert all(found.line >= 1 for found in scan(text.encode(), mock_prints()))


PIECES = (
    "<", "&#", "%4", "\\u", "A) ", '{"question": "', "[", "=\n", "-\n", "| a ", "question: ", "```", "~{",
    "INSERT INTO a (", "B. ", "\u200b", "question: which old lamp is lit? choices: ", "INSERT INTO a VALUES ('x',\n",
    "what is it? answer: a ", "question  ", "question  \\\n1  x\n\n", '\\"', '\'a" ', '"a" ', "<td>a ", "a & b \\\\ ",
    "0.5 a\n", "12345, ", "[1, 2, ", "Ġa Ċ", "a ##b ", "token: a\n", 'a,"b', '["a", ',
)  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_hostile_repetition_costs_no_more_than_its_size(piece: str) -> None:
    def seconds(n: int) -> float:
        """Of the processor, the least of three scans: a busy machine makes one longer, none shorter."""
        data = (piece * (n // len(piece))).encode()
        taken = []
        for _ in range(3):
            begin = time.process_time()
            scan(data, mock_prints())
            taken.append(time.process_time() - begin)
        return min(taken)

    # Four times as much costs four times as much; a cost of the square would be sixteen. Some clocks tick every 4 ms.
    assert seconds(48_000) <= 10 * max(seconds(12_000), 0.008)


def test_a_file_that_takes_too_long_is_refused_with_what_was_found() -> None:
    data = whole(LEAK).encode() + b"\nA) x\nB) y\nC) z\n" * 20_000
    findings = scan(data, mock_prints(), seconds=0.05)
    (late,) = [finding for finding in findings if finding.rule.id == "RBG503"]
    assert "s of the processor" in late.says
    assert {finding.rule.id for finding in scan(b"a note", seconds=0.0)} == {"RBG503"}
    assert scan(b"a note") == []


def test_a_timer_is_taken_back_and_another_thread_has_none() -> None:
    before = signal.getsignal(signal.SIGPROF)
    scan(b"a note")
    assert (signal.getsignal(signal.SIGPROF), signal.getitimer(signal.ITIMER_PROF)) == (before, (0.0, 0.0))
    found: list[list[GateFinding]] = []
    threads = [
        threading.Thread(target=lambda s=s: found.append(scan(b"a note", seconds=s))) for s in (9.0, 0.0)
    ]
    for thread in threads:
        thread.start()
        thread.join()
    assert [len(findings) for findings in found] == [0, 1]


# Unwrapping.


@given(st.text(st.characters(codec="utf-8"), max_size=120))
@settings(max_examples=300, deadline=None)
def test_unwrapping_keeps_the_count_of_lines(text: str) -> None:
    plain = text.replace("=\n", " \n").replace("-\n", " \n").replace("=\r\n", "\r\n").replace("-\r\n", "\r\n")
    assert unescaped(plain).count("\n") == plain.count("\n")
    assert without_tags(plain).count("\n") == plain.count("\n")


def test_surrogate_pairs_in_escapes_come_back_as_one_letter() -> None:
    assert unescaped("\\ud835\\udc00 \\u{61} \\x62 \\143") == "\U0001d400 a b c"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lines_that_end_with_a_carriage_return_alone_hide_no_shape(layout: str) -> None:
    """Old programs end lines so, and a program that reads CSV stops at the first one."""
    text = LAYOUTS[layout](made(5, 77), "letter").replace("\r\n", "\n")
    assert rules_of(text.replace("\n", "\r")) & STRUCTURE
    whole_note = rules_of("a note\nof two lines\n" + text) & STRUCTURE
    assert bool(rules_of("a note\rof two lines\n" + text) & STRUCTURE) == bool(whole_note)


@pytest.mark.parametrize("form", ["tsv", "csv", "markdown_rows", "words_and_numbers"])
def test_lines_that_end_with_a_carriage_return_alone_hide_no_record_of_tokens(form: str) -> None:
    text = LOG_PROBABILITIES[form](whole(LEAK)).replace("\r\n", "\n")
    assert "RBG301" in rules(text.replace("\n", "\r").encode())
    assert "RBG301" in rules(f"a note\rof two lines\n{text}".encode())


@pytest.mark.parametrize("mark", ["\r", "\\r", "\\r\\n", "&#13;", "%0D", "\\u000d", "\\x0d"])
def test_a_carriage_return_parts_words_however_it_is_written(mark: str) -> None:
    assert rules((LEAK.stem.replace(" ", mark)).encode()) == {"RBG301"}


def test_escapes_are_undone_four_deep() -> None:
    text = "?"
    for _ in range(4):
        text = "%" + text.encode().hex() if text == "?" else text.replace("%", "%25")
    assert unescaped(text) == "?"
    assert unescaped(text.replace("%", "%25")) == "%3f"


def test_base64_of_any_length_is_decoded_without_what_fits_no_group() -> None:
    for n in range(60, 66):
        encoded = base64.b64encode(bytes(range(65, 65 + n))).decode().rstrip("=")
        for extra in ("", "A"):
            (found,) = {data for _, data in runs(encoded + extra)}
            assert found[: n - 1] == bytes(range(65, 65 + n))[: n - 1]


def test_a_digest_in_a_lock_file_is_no_finding_but_a_long_unreadable_run_is() -> None:
    rng = random.Random(3)
    lock = "\n".join(f"pkg=={i} --hash=sha256:{rng.randbytes(32).hex()}" for i in range(200))
    lock += "\n".join(base64.b64encode(rng.randbytes(64)).decode() for _ in range(50))
    assert rules(lock.encode()) == set()
    assert rules(base64.b64encode(rng.randbytes(9000))) == {"RBG501"}


@given(st.text("ab\n", max_size=60))
def test_lines_are_counted_right(text: str) -> None:
    lines = Lines(text)
    assert [lines.of(i) for i in range(len(text))] == [text.count("\n", 0, i) + 1 for i in range(len(text))]


# Parquet.


def _parquet(items: list[Made], compression: str, **columns: list[str]) -> bytes:
    item = {"question": [i.stem for i in items], "choices": [i.choices for i in items]}
    texts: dict[str, Any] = dict(columns) or item
    return written(pa.table({**texts, "answer": [i.key for i in items]}), compression=compression)


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_a_parquet_file_is_read_in_every_compression(compression: str) -> None:
    items = mock_items()[:40]
    assert rules(_parquet(items, compression)) == {"RBG102", "RBG301"}
    harmless = _parquet(items, compression, boat=["a painted tub"] * 40, note=["seen twice"] * 40)
    assert rules(harmless) == set()


def test_our_own_answers_are_read_and_a_list_of_keyed_ids_in_them_is_refused() -> None:
    path = ROOT / "results" / "benign_demo" / "answers.parquet"
    assert rules(path.read_bytes()) == set()
    ids = ["rb1_" + letter * 26 for letter in "abcdefgh"]
    assert rules(_parquet(mock_items()[:8], "zstd", item=ids)) == {"RBG405"}


def test_texts_in_lists_structs_and_maps_of_a_parquet_file_are_read() -> None:
    stem = LEAK.stem
    for column in (
        pa.array([[[stem]]]),
        pa.array([{"a": {"b": stem}}]),
        pa.array([[("a", stem)]], pa.map_(pa.string(), pa.string())),
        pa.array([stem.encode()], pa.binary()),
        pa.array([stem], pa.large_string()),
        pa.array([stem, stem]).dictionary_encode(),
        pa.array([stem.encode()], pa.binary(len(stem.encode()))),
        pa.array([[stem]], pa.list_view(pa.string())),
        pa.array([None, stem, None]),
    ):
        assert rules(written(pa.table({"note": column}))) == {"RBG301"}


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_a_text_in_any_encoding_of_a_parquet_file_is_read_in_base64_too(encoding: str) -> None:
    data = written(
        pa.table({"note": [LEAK.stem]}), use_dictionary=False, column_encoding=encoding, compression="zstd"
    )
    assert rules(data) == {"RBG301"}
    assert rules(b"blob: " + base64.b64encode(data) + b"\n") == {"RBG301"}


def test_a_parquet_file_without_rows_is_no_finding() -> None:
    columns = {"note": pa.array([], pa.string()), "ids": pa.array([], pa.list_(pa.int64()))}
    assert rules(written(pa.table(columns))) == set()


def test_a_parquet_file_of_one_row_with_many_values_is_refused() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0]).take(pa.array([0] * 5_000_000)), ["a word"])
    column = pa.ListArray.from_arrays([0, len(values)], values)
    assert rules(written(pa.table({"note": column}))) == {"RBG503"}


@pytest.mark.parametrize("rows", [2_000_000, 5_000_000])
def test_a_parquet_file_that_repeats_a_text_costs_little(rows: int) -> None:
    text = pa.DictionaryArray.from_arrays(pa.array([0]).take(pa.array([0] * rows)), ["a word " * 10_000])
    data = written(pa.table({"note": text}), row_group_size=rows)
    assert costs_at_most(200, lambda: rules(data)) == (set() if rows < 4_000_000 else {"RBG503"})


def test_without_pyarrow_a_parquet_file_is_refused_and_its_words_are_still_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = _parquet(mock_items()[:5], "none")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    findings = scan(data, mock_prints())
    assert {finding.rule.id for finding in findings} == {"RBG301", "RBG501"}
    (unread,) = [finding.says for finding in findings if finding.rule.id == "RBG501"]
    assert "pip install pyarrow" in unread


@pytest.mark.parametrize("at", [0.2, 0.5, 0.9, 0.99])
def test_a_damaged_parquet_file_is_refused(at: float) -> None:
    raw = _parquet(made(50, 5), "snappy")
    assert rules(raw[: int(len(raw) * at)]) & {"RBG504", "RBG501"}
    place = int(len(raw) * at)
    assert rules(raw[:place] + b"\xff" * 12 + raw[place + 12 :])


def test_an_arrow_file_is_refused_and_its_words_are_looked_at() -> None:
    out = io.BytesIO()
    table = pa.table({"note": [item.stem for item in mock_items()[:5]]})
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    assert rules(out.getvalue()) >= {"RBG501", "RBG301"}


def test_options_in_one_cell_are_seen() -> None:
    rows = [
        f'"{i.stem}","{" ".join(f"{LETTERS[j]}) {c}" for j, c in enumerate(i.choices))}"' for i in made(4, 6)
    ]
    assert rules_of("\n".join(rows)) & {"RBG102", "RBG103"}
