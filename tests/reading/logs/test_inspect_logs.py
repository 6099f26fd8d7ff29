"""Inspect's logs: a letter is a letter of the logged choices, and nothing partial passes for whole."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.pipeline.from_logs import run_of_logs
from robustify.reading.loaders import Loaded
from robustify.reading.logs import Log, LogOptions, LogPath, gather, read_log
from robustify.wings import GUARD
from tests.support.cases import refuses
from tests.support.fake_logs import boxes, inspect_sample, inspect_tree


def bench(items: list[object]) -> Loaded:
    return Loaded("boxes", "robustify", tuple(items), (), (), (), "0" * 64, "")


def log_of(path: Path, tree: dict[str, object], **wanted: object) -> Log:
    path.write_text(json.dumps(tree), encoding="utf-8")
    return read_log(path, LogOptions(**wanted))


def rows_of(log: Log) -> list[dict[str, object]]:
    return list(gather([log], None).answers.table.to_pylist())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.permutations(range(4)), st.integers(0, 3)), min_size=6, max_size=6))
def test_shuffled_choices_are_found_by_their_text(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[list[int], int]]
) -> None:
    items = boxes(6)
    samples = [
        inspect_sample(item, "ABCD"[order.index(wanted)], order)
        for item, (order, wanted) in zip(items, drawn, strict=True)
    ]
    log = log_of(tmp_path_factory.mktemp("logs") / "a.json", inspect_tree(samples))
    found = gather([log], bench(items))
    rows = found.answers.table.to_pylist()
    assert [r["pick"] for r in rows] == [wanted for _, wanted in drawn]
    assert [tuple(r["order"]) for r in rows] == [tuple(order) for order, _ in drawn]
    assert [r["correct"] for r in rows] == [float(w == i.key) for i, (_, w) in zip(items, drawn, strict=True)]


def test_an_import_without_blind_answers_says_what_is_missing_and_what_to_do(tmp_path: Path) -> None:
    items = boxes(6)
    asked = {"full": "a.json", "choices_only": "b.json"}
    for view, name in asked.items():
        samples = [
            inspect_sample(i, "B") | ({} if view == "full" else {"input": "Which one?"}) for i in items
        ]
        (tmp_path / name).write_text(json.dumps(inspect_tree(samples)))
    paths = [LogPath(tmp_path / name, view=view) for view, name in asked.items()]
    told = [
        sum(
            "`export lm-eval`" in note
            for note in run_of_logs(logs, tmp_path / f"out{n}", GUARD).manifest["config"]["notes"]
        )
        for n, logs in enumerate((paths[:1], paths))
    ]
    assert told == [1, 0]


def test_the_json_log_that_inspect_itself_wrote(data: Path) -> None:
    log = read_log(data / "formats" / "inspect_tiny.json", LogOptions())
    assert sum(float(str(r["correct"])) for r in rows_of(log)) == 2.0
    assert not log.faults


def test_a_zipped_log_is_read_by_inspect(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai.log")
    plain, zipped = (read_log(data / "formats" / f"inspect_tiny.{k}", LogOptions()) for k in ("json", "eval"))
    assert rows_of(plain) == rows_of(zipped)
    assert (plain.facts, plain.notes) == (zipped.facts, zipped.notes)
    (tmp_path / "a.eval").write_bytes((data / "formats" / "inspect_tiny.eval").read_bytes()[:900])
    with refuses("damaged-log"):
        read_log(tmp_path / "a.eval", LogOptions())


def test_a_zipped_log_without_inspect_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    (tmp_path / "a.eval").write_bytes(b"PK\x03\x04")
    with refuses("inspect-not-installed"):
        read_log(tmp_path / "a.eval", LogOptions())
