"""A large file is read in parts: what is said of it is what would be said of the whole, in less memory."""

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from robustify.baselines.heuristics import table
from robustify.cli import options
from robustify.cli.data import heuristics_of, surveyed
from robustify.errors import DataError, UsageError
from robustify.loaders import Source, Survey, assemble, describe, load, parts
from tests.support.command import invoked

ROW = {"stem": "Which lamp is number {}?", "choices": ["red", "green", "blue"], "key": 1, "topic": "lamps"}


def rows(n: int, **changed: object) -> list[dict[str, object]]:
    return [
        {**ROW, "id": f"i{i}", "stem": f"Which lamp is number {i}?", "key": i % 3, **changed}
        for i in range(n)
    ]


def plain(n: int) -> list[dict[str, object]]:
    return [
        {"question": f"Question: lamp {i}?\nAnswer:", "options": ["a", "b"], "answer": "AB"[i % 2]}
        for i in range(n)
    ]


BAD = [{"stem": 7}, {"choices": ["a"]}, {"key": 3}, {"id": "i3"}, {"id": "i3", "stem": "another"}]
SETS: dict[str, list[dict[str, object]]] = {
    "our own": rows(40),
    "by field names, without ids": plain(40),
    "the same again": [*rows(20), *({**row, "id": f"j{i}"} for i, row in enumerate(rows(20)))],
    "with other keys": [*rows(20), *({**row, "id": f"j{i}", "key": 0} for i, row in enumerate(rows(20)))],
    "bad rows": [*rows(10), *({**rows(1)[0], "id": f"b{i}", **bad} for i, bad in enumerate(BAD)), *rows(14)[10:]],
}  # fmt: skip


def written(folder: Path, items: list[dict[str, object]], *, end: str = "\n", mark: bytes = b"") -> Path:
    path = folder / "items.jsonl"
    path.write_bytes(mark + "".join(json.dumps(item) + end for item in items).encode())
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n\n"])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("size", [150, 1000])
def test_the_parts_are_the_whole(tmp_path: Path, name: str, end: str, size: int) -> None:
    source = Source(path=str(written(tmp_path, SETS[name], end=end, mark=b"\xef\xbb\xbf")), skip_bad=True)
    whole, found = load(source), [*parts(source, size=size)]
    assert len(found) > 1
    assert tuple(item for part in found for item in part.items) == whole.items
    assert tuple(line for part in found for line in part.lines) == whole.lines
    aside = [row for part in found for row in part.quarantined]
    assert [(row.line, row.reason) for row in aside] == [(row.line, row.reason) for row in whole.quarantined]
    survey = Survey()
    for part in found:
        survey.add(part.items, part.lines, part.files)
    last = found[-1]
    description = survey.description(last.name, last.layout, last.sha256, aside, last.recognised)
    assert description == describe(whole)
    assert last.recognised == whole.recognised


def refusal(found: Iterator[object]) -> tuple[str, ...]:
    with pytest.raises(DataError) as error:
        list(found)
    return error.value.lines


@pytest.mark.parametrize(
    ("items", "said", "words"),
    [
        (SETS["bad rows"], {}, "the same id as line 4"),
        (rows(40)[:20] + rows(5), {}, "the same id as line 1"),
        (rows(1, key=9) * 40, {}, "40 lines (1 to 40): key 9, but only 3 choices"),
        ([{**row, "answer": 1 + i % 2} for i, row in enumerate(plain(60))], {}, "never 0"),
        ([{**row, "options": ["A", "B"]} for row in plain(60)], {}, "the options are letters (in 60 of 60 rows)"),
        (rows(40), {"sha256": "0" * 64}, "as the config pins it"),
    ],
)  # fmt: skip
def test_a_large_file_is_refused_as_the_whole_is(
    tmp_path: Path, items: list[dict[str, object]], said: dict[str, object], words: str
) -> None:
    source = Source.model_validate({"path": str(written(tmp_path, items)), **said})
    lines = refusal(parts(source, size=300))
    assert any(words in line for line in lines)
    with pytest.raises(DataError) as error:
        load(source)
    assert error.value.lines == lines


def test_other_files_are_one_part(tmp_path: Path) -> None:
    log = [{"doc_id": i, "doc": row, "resps": [], "target": "0"} for i, row in enumerate(rows(40))]
    for name, text in {
        "a.json": json.dumps(rows(40)),
        "b.json": json.dumps({"data": rows(40)}, indent=1),
        "c.csv": "question,A,B,answer\n" + "Which?,x,y,A\n" * 40,
        "d.jsonl": "".join(json.dumps(row) + "\n" for row in log),
    }.items():
        (tmp_path / name).write_text(text)
        assert len([*parts(Source(path=str(tmp_path / name)), size=300)]) == 1


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    peaks = []
    for words in (200, 1000):
        path = written(tmp_path, rows(2000, stem="lamp " * words))
        tracemalloc.start()
        survey = Survey()
        for part in parts(Source(path=str(path)), size=1 << 16):
            survey.add(part.items, part.lines, part.files)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert survey.n == 2000
    # Five times the text, of which a whole file would need five times the memory.
    assert peaks[1] < 2 * peaks[0]


def test_validate_says_the_same_in_parts_and_shows_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, SETS["with other keys"])
    whole = json.loads(invoked("validate", path, "--json").output)
    monkeypatch.setattr(assemble, "PART", 500)
    monkeypatch.setattr(options, "EVERY_SECONDS", 0)
    assert surveyed(str(path), skip_bad=False) == whole
    lines = capsys.readouterr().err.strip().split("\n")
    assert len(lines) > 5
    size = path.stat().st_size
    assert f"{size:,} of {size:,} bytes read" in lines[-1]


def test_heuristics_score_the_same_in_parts_and_show_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path, [*SETS["with other keys"], *({**row, "choices": ["a", "b b"]} for row in plain_own(30))]
    )
    whole = table(load(Source(path=str(path))).items)
    assert json.loads(invoked("heuristics", path, "--json").output) == whole
    monkeypatch.setattr(assemble, "PART", 500)
    monkeypatch.setattr(options, "EVERY_SECONDS", 0)
    assert heuristics_of(str(path), skip_bad=False) == whole
    assert len(capsys.readouterr().err.strip().split("\n")) > 5


def plain_own(n: int) -> list[dict[str, object]]:
    return [{**row, "id": f"k{i}", "key": i % 2} for i, row in enumerate(rows(n))]


def test_a_path_that_cannot_be_opened_is_refused_as_any_other() -> None:
    assert isinstance(invoked("validate", f"{'a' * 300}.jsonl").exception, UsageError)
