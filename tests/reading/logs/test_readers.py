"""The contract of log readers: a new format is one reader and one entry."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from robustify.reading.logs import READERS, Log, LogFile, LogOptions, ShownBefore, read_log
from robustify.reading.logs.checked_names import path_name
from robustify.reading.logs.log import LoggedItem, LogReply
from tests.support.fake_archives import ARCHIVES
from tests.support.fake_logs import boxes, inspect_sample, inspect_tree, jsonl, lighteval_parquet, lm_eval_row


def recognizes(file: LogFile) -> bool:
    return bool(file.table.rows) and set(file.table.rows[0].cells) == {"frage", "wahl", "richtig", "getippt"}


def read(file: LogFile, options: LogOptions, before: ShownBefore) -> Log:
    replies = tuple(
        LogReply(
            row.line, path_name("made-up"), "full", "quiz",
            LoggedItem(3, row.cells["frage"], tuple(row.cells["wahl"]), row.cells["richtig"]), row.cells["getippt"],
        )
        for row in file.table.rows
    )  # fmt: skip
    return Log(file.path.name, "quiz", file.sha256, path_name(file.path.stem), replies)


def test_a_made_up_format_is_one_reader_and_one_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"frage": f"Wer wohnt in Haus {i}?", "wahl": ["Ada", "Bo", "Cy"], "richtig": i % 3, "getippt": 1}
        for i in range(6)
    ]
    path = jsonl(tmp_path / "quiz.jsonl", rows)
    others = list(READERS.items())
    quiz = SimpleNamespace(KIND="quiz", recognizes=recognizes, read=read)
    monkeypatch.setattr("robustify.reading.logs.READERS", {"quiz": quiz, **dict(others)})
    log = read_log(path, LogOptions())
    assert (log.kind, [reply.pick for reply in log.replies]) == ("quiz", [1] * 6)


def test_each_reader_reads_its_own_logs_and_the_last_one_any_table(tmp_path: Path) -> None:
    import json

    inspect = tmp_path / "a.json"
    inspect.write_text(json.dumps(inspect_tree([inspect_sample(item, "A") for item in boxes()])))
    logs = {
        "inspect": inspect,
        "lm-eval": jsonl(tmp_path / "samples_x.jsonl", [lm_eval_row(boxes()[0], 0, [-1.0, -2.0, -3.0, -4.0])]),
        "lighteval": lighteval_parquet(tmp_path / "d.parquet", boxes(2), [[-1.0, -2.0, -3.0, -4.0]] * 2, letters=True),
        **{kind: write(tmp_path / kind, boxes(), {"m": ["A"] * 6})[0] for kind, write in ARCHIVES.items()},
        "picks": jsonl(tmp_path / "p.jsonl", [{"item": x, "key": x, "pick": "B", "model": "m"} for x in "AB"]),
    }  # fmt: skip
    assert list(READERS) == list(logs)
    assert {kind: read_log(path, LogOptions()).kind for kind, path in logs.items()} == {
        kind: kind for kind in logs
    }
    assert all(kind == reader.KIND for kind, reader in READERS.items())
