"""Archives and lighteval come out as other logs do: the same items, picks, and refusals. A new format is one reader."""

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from robustify.base.errors import DataError, RobustifyError, UsageError
from robustify.pipeline.linted_logs import may_be_log
from robustify.reading.logs import (
    READERS,
    Gathered,
    Log,
    LogFile,
    LogOptions,
    LogPath,
    LogReader,
    ShownBefore,
    gather,
    logs_in,
    read_log,
)
from robustify.reading.logs.log import LoggedItem, LogReply, path_name
from robustify.runs.run import open_run
from robustify.wings import GUARD
from tests.support.cases import codes
from tests.support.command import invoked
from tests.support.fake_archives import ARCHIVES, openeval
from tests.support.fake_logs import (
    boxes,
    inspect_sample,
    inspect_tree,
    jsonl,
    lighteval_parquet,
    lm_eval_row,
    old_lighteval_row,
)
from tests.support.tables import parquet

REPLIES = {
    "alpha": ["A", "B", "B", "D", "C", "C"],
    "beta": ["The answer is **A**.", "B", "I do not know.", "D"],
}
PICKS = {"alpha": [0, 1, 1, 3, 2, 2], "beta": [0, 1, None, 3]}
formats = pytest.mark.parametrize("kind", ARCHIVES)


def read(paths: list[Path]) -> tuple[list[Log], Gathered]:
    logs = [read_log(path, LogOptions()) for path in paths]
    assert not [fault for log in logs for fault in log.faults]
    return logs, gather(logs, None)


@formats
def test_items_and_picks_are_those_of_the_archive(tmp_path: Path, kind: str) -> None:
    logs, found = read(ARCHIVES[kind](tmp_path, boxes(), REPLIES))
    assert {(log.kind, log.task) for log in logs} == {(kind, "boxes")}
    assert [(i.stem, i.choices, i.key) for i in found.items or ()] == [
        (i.stem, i.choices, i.key) for i in boxes()
    ]
    picks = {
        m: found.answers.table.filter([x == m for x in found.answers.table["model"].to_pylist()])["pick"].to_pylist()
        for m in REPLIES
    }  # fmt: skip
    assert picks == PICKS
    assert codes(found.notes)[:2] == ["items-without-rows", "unreadable-answers"]


def places(tree: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each member of a tree; of a list, only its first two members."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree[:2]) if isinstance(tree, list) else ()
    for step, member in pairs:
        yield (step,)
        yield from ((step, *path) for path in places(member))


@formats
def test_members_of_any_type_end_in_no_other_error(tmp_path: Path, kind: str) -> None:
    path = ARCHIVES[kind](tmp_path, boxes(), {"alpha": REPLIES["alpha"]})[0]
    if path.suffix == ".csv":
        pytest.skip("cells of a table are texts")
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    ended = set[int]()
    for place in places(documents := [*map(json.loads, lines)]):
        for value in (7, "x", [7], [[]], {"a": 7}, None):
            tree = deepcopy(documents)
            parent = reduce(getitem, place[:-1], tree)
            parent[place[-1]] = value
            path.write_text("".join(f"{json.dumps(member)}\n" for member in tree))
            try:
                found = gather([read_log(path, LogOptions())], None, skip_bad=True)
            except RobustifyError as error:
                ended.add(error.exit_code)
            else:
                ended.add(0)
                assert len(found.items or ()) <= len(boxes())
    assert {0, 3} <= ended <= {0, 2, 3}


def test_five_models_of_an_archive_are_analyzed_by_item(tmp_path: Path) -> None:
    items = boxes(24)
    said = {
        f"m{n}": ["ABCD"[i.key if at % 6 >= n else (i.key + 1) % 4] for at, i in enumerate(items)]
        for n in range(5)
    }
    (archive,) = openeval(tmp_path, items, said)
    assert invoked("import", archive, "-o", tmp_path / "run").return_value in (0, 7)
    table = pd.read_csv(tmp_path / "run" / "item_analysis.csv")
    assert table["models"].tolist() == [5] * 24
    assert table["difficulty"].tolist()[:6] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    assert table["picks_of_stronger"][0] == "1 2 0 0"
    run = open_run(tmp_path / "run", GUARD)
    assert run.summary.item_analysis is not None
    assert run.manifest["import"]["formats"] == "openeval"


def test_trials_of_one_reply_count_once(tmp_path: Path) -> None:
    (archive,) = openeval(tmp_path, boxes(), {"alpha": ["A"] * 6})
    records = json.loads(archive.read_text())
    for record in records:
        record["responses"] *= 2
    # One record a file, too, is read as an archive.
    for tree, n in ((records, 6), (records[0], 1)):
        archive.write_text(json.dumps(tree))
        assert len(read_log(archive, LogOptions()).replies) == n


def recognizes(file: LogFile) -> bool:
    return bool(file.table.rows) and set(file.table.rows[0].cells) == {"frage", "wahl", "richtig", "getippt"}


def read_quiz(file: LogFile, options: LogOptions, before: ShownBefore) -> Log:
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
    quiz = LogReader("quiz", recognizes, read_quiz)
    monkeypatch.setattr("robustify.reading.logs.READERS", {"quiz": quiz, **dict(others)})
    log = read_log(path, LogOptions())
    assert (log.kind, [reply.pick for reply in log.replies]) == ("quiz", [1] * 6)


def test_each_reader_reads_its_own_logs_and_the_last_one_any_table(tmp_path: Path) -> None:
    inspect = tmp_path / "a.json"
    inspect.write_text(json.dumps(inspect_tree([inspect_sample(item, "A") for item in boxes()])))
    logs = {
        "inspect": inspect,
        "lm-eval": jsonl(tmp_path / "samples_x.jsonl", [lm_eval_row(boxes()[0], 0, [-1.0, -2.0, -3.0, -4.0])]),
        "lighteval": lighteval_parquet(tmp_path / "d.parquet", boxes(2), [[-1.0, -2.0, -3.0, -4.0]] * 2, letters=True),
        "lighteval-0": parquet(tmp_path / "o.parquet", [old_lighteval_row(boxes()[0], 0, [-1.0, -2.0, -3.0, -4.0])]),
        **{kind: write(tmp_path / kind, boxes(), {"m": ["A"] * 6})[0] for kind, write in ARCHIVES.items()},
        "picks": jsonl(tmp_path / "p.jsonl", [{"item": x, "key": x, "pick": "B", "model": "m"} for x in "AB"]),
    }  # fmt: skip
    assert list(READERS) == list(logs)
    assert {kind: read_log(path, LogOptions()).kind for kind, path in logs.items()} == {
        kind: kind for kind in logs
    }
    assert [kind for kind, path in logs.items() if not may_be_log(path)] == []


@pytest.mark.parametrize(
    ("telling", "others"),
    [
        ("reviews/m/boxes.jsonl", ["reports/m/boxes.json", "predictions/m/boxes.jsonl"]),
        ("m/20260301_100000_samples_boxes.jsonl", ["m/20260301_100000_results.json"]),
        ("run/scenario_state.json", ["run/stats.json", "run/per_instance_stats.json"]),
        ("boxes/1_samples.jsonl", ["boxes/1.json"]),
    ],
)
def test_the_logs_in_a_folder_are_told_by_their_names(
    tmp_path: Path, telling: str, others: list[str]
) -> None:
    for name in (telling, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert [log.path for log in logs_in(LogPath(tmp_path))] == [tmp_path / telling]


def test_a_file_with_several_models_takes_no_other_name(tmp_path: Path) -> None:
    (archive,) = openeval(tmp_path, boxes(), REPLIES)
    with pytest.raises(UsageError) as raised:
        read_log(archive, LogOptions(model="gamma"))
    assert raised.value.code == "models-named-twice"


def test_right_replies_that_a_file_scores_as_wrong_are_counted(tmp_path: Path) -> None:
    # The first reply of beta names the key in other words than a letter.
    logs, _ = read(ARCHIVES["promptfoo"](tmp_path, boxes(), REPLIES))
    assert [codes(log.notes).count("stricter-scores") for log in logs] == [0, 1]


def test_two_runs_of_openai_evals_in_one_file_are_refused(tmp_path: Path) -> None:
    first, second = ARCHIVES["openai-evals"](tmp_path, boxes(), REPLIES)
    first.write_text(first.read_text() + second.read_text())
    with pytest.raises(DataError) as raised:
        read_log(first, LogOptions())
    assert raised.value.code == "several-runs-in-file"


def test_a_test_of_promptfoo_that_accepts_several_answers_is_no_key(tmp_path: Path) -> None:
    path, _ = ARCHIVES["promptfoo"](tmp_path, boxes(), REPLIES)
    tree = json.loads(path.read_text())
    for row in tree["results"]["results"]:
        row["testCase"]["assert"] = [{"type": "contains-any", "value": ["A", "B"]}]
    path.write_text(json.dumps(tree))
    faults = read_log(path, LogOptions()).faults
    assert {fault.reason.code for fault in faults} == {"several-right-answers"}


@pytest.mark.parametrize(("numbered", "n_options"), [(True, 4), (False, None)])
def test_options_of_weights_and_biases_may_have_several_lines(
    tmp_path: Path, numbered: bool, n_options: int | None
) -> None:
    row = {
        "id": 0, "data": "Which box is heavy?", "labels": 1, "filtered_predictions": 1, "raw_predictions": 1,
        "output_type": "multiple_choice",
        "choices": "\n".join(f"{i}. " * numbered + f"box {i}\nwith a lid" for i in range(4)),
    }  # fmt: skip
    log = read_log(jsonl(tmp_path / "boxes.jsonl", [row]), LogOptions())
    assert [reply.item.k for reply in log.replies] == [n_options] * numbered
    assert [fault.reason.code for fault in log.faults] == ["unnumbered-options"] * (not numbered)
