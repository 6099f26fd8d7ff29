"""Archives of answers come out as other logs do: the same items, picks, notes, and refusals."""

import json
from pathlib import Path

import pandas as pd
import pytest

from robustify.base.errors import DataError
from robustify.items.item import Item
from robustify.reading.loaders import Source, load_many
from robustify.reading.logs import Gathered, Log, LogOptions, gather, read_log
from robustify.runs.run import open_run, write_items
from tests.support.command import invoked
from tests.support.fake_archives import ARCHIVES, after_examples, eee_row, opencompass, openeval, prompt
from tests.support.fake_logs import boxes, jsonl

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
    assert "beta, view full: items without a row: 2 of 6" in found.notes
    assert "beta, view full: rows without a readable answer: 1" in found.notes


@formats
def test_an_archive_becomes_a_run_with_the_items_of_the_set(tmp_path: Path, kind: str) -> None:
    # The set lists the options in another order, and lacks the last item of the archive.
    data = [item.permuted((2, 0, 3, 1)) for item in boxes(5)]
    write_items(tmp_path / "set.jsonl", data)
    logs = ARCHIVES[kind](tmp_path / "logs", boxes(), REPLIES)
    out = tmp_path / "run"
    done = invoked("import", *logs, "--data", tmp_path / "set.jsonl", "-o", out)
    assert done.return_value in (0, 7)
    run = open_run(out)
    block = run.answers.block("full", "alpha")
    texts = {item.id: item.choices for item in data}
    said = [texts[run.answers.items[at]][pick] for at, pick in zip(block.item, block.pick, strict=True)]
    assert said == [
        boxes()[at].choices[pick] for at, pick in enumerate(PICKS["alpha"][:5]) if pick is not None
    ]
    assert run.manifest["import"]["formats"] == kind
    assert run.manifest["data"]["quarantined"][0]["reason"] == "no item in the data has this content"


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
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "5 models answered 24 items." in page
    assert open_run(tmp_path / "run").summary.item_analysis is not None


@formats
def test_another_set_and_a_second_copy_are_refused(tmp_path: Path, kind: str) -> None:
    others = [Item(f"h{i}", f"Who lives in house {i}?", ("Ada", "Bo"), i % 2) for i in range(6)]
    write_items(tmp_path / "other.jsonl", others)
    (path, *_) = ARCHIVES[kind](tmp_path, boxes(), {"alpha": REPLIES["alpha"]})
    bench = load_many([Source(path=str(tmp_path / "other.jsonl"))])
    with pytest.raises(DataError, match="none of the 6 rows matches an item of other"):
        gather([read_log(path, LogOptions())], bench)
    copy = tmp_path / "copy.json"
    copy.write_bytes(path.read_bytes())
    with pytest.raises(DataError, match=r"repeats .* 6 such rows"):
        gather([read_log(one, LogOptions(model="alpha")) for one in (path, copy)], None)


def test_metrics_and_trials_of_one_reply_count_once(tmp_path: Path) -> None:
    rows = [eee_row(item, "owner/name", "B") for item in boxes()]
    path = jsonl(tmp_path / "x_samples.jsonl", [row for row in rows for _ in range(3)])
    log = read_log(path, LogOptions())
    assert ([reply.pick for reply in log.replies], {reply.model for reply in log.replies}) == (
        [1] * 6,
        {"owner/name"},
    )
    assert "replies that repeat another one, as for a second metric, were left out: 12" in log.notes
    (archive,) = openeval(tmp_path, boxes(), {"alpha": ["A"] * 6})
    records = json.loads(archive.read_text())
    for record in records:
        record["responses"] *= 2
    # One record a file, too, is read as an archive.
    for tree, n in ((records, 6), (records[0], 1)):
        archive.write_text(json.dumps(tree))
        assert len(read_log(archive, LogOptions()).replies) == n


def test_what_other_converters_write_is_read_too(tmp_path: Path) -> None:
    def row(at: int, reply: str, **shown: object) -> dict[str, object]:
        made = eee_row(boxes()[at], "m", reply, **shown)
        return {**made, "evaluation": {"score": 0.0, "is_correct": shown["reference"] == [reply]}}

    items = boxes()
    forms = {
        "inspect": [
            {**row(at, "B", raw=item.stem, reference=["ABCD"[item.key]]), "answer_attribution": []}
            for at, item in enumerate(items)
        ],
        "lm-eval, texts": [
            row(at, item.choices[1], raw=f"Question: {item.stem}\nAnswer:", reference=[str(item.key)])
            for at, item in enumerate(items)
        ],
        "lm-eval, letters": [
            row(at, "B", raw=prompt(item), reference=[str(item.key)], choices=list("ABCD"))
            for at, item in enumerate(items)
        ],
    }
    for name, rows in forms.items():
        _, found = read([jsonl(tmp_path / name / "x_samples.jsonl", rows)])
        assert [(i.stem, i.choices, i.key) for i in found.items or ()] == [
            (i.stem, i.choices, i.key) for i in items
        ], name
        assert found.answers.table["pick"].to_pylist() == [1] * 6, name


def test_several_evaluations_in_a_file_are_topics(tmp_path: Path) -> None:
    rows = [
        {**eee_row(item, "m", "A"), "evaluation_name": name}
        for name, items in (("low", boxes(12)[:6]), ("high", boxes(12)[6:])) for item in items
    ]  # fmt: skip
    _, found = read([jsonl(tmp_path / "x_samples.jsonl", rows)])
    assert sorted(found.topics.values()) == ["high"] * 6 + ["low"] * 6


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ({"reference": ["red 0", "green 0"]}, "the sample has 2 right answers; expected one"),
        ({"reference": []}, "the sample has 0 right answers; expected one"),
        ({"raw": "Which thing?", "choices": None}, "neither `doc` nor the prompt has lines with their texts"),
        ({"reference": ["violet"]}, "matches no choice"),
    ],
)
def test_a_sample_that_is_no_item_is_told_by_line(
    tmp_path: Path, shown: dict[str, object], reason: str
) -> None:
    rows = [eee_row(item, "m", "A") for item in boxes()]
    rows[2] = eee_row(boxes()[2], "m", "A", **shown)
    log = read_log(jsonl(tmp_path / "x_samples.jsonl", rows), LogOptions())
    assert [fault.line for fault in log.faults] == [3]
    assert reason in log.faults[0].reason
    assert len(log.replies) == 5


def test_a_misread_key_is_told_by_the_scores_of_the_archive(tmp_path: Path) -> None:
    rows = [{**eee_row(item, "m", "B"), "evaluation": {"score": 1.0, "is_correct": True}} for item in boxes()]
    log = read_log(jsonl(tmp_path / "x_samples.jsonl", rows), LogOptions())
    assert len(log.faults) == sum(item.key != 1 for item in boxes())


def test_perplexities_of_opencompass_count_as_its_own_prediction(tmp_path: Path) -> None:
    (path,) = opencompass(tmp_path, boxes(), {"alpha": ["C"] * 6})
    rows = json.loads(path.read_text())
    for at, item in enumerate(boxes()):
        shown = {f"label: {mark}": {"testing input": "", "prompt": "", "PPL": 0.5} for mark in "ABCD"}
        rows[str(at)] |= {"in-context examples": "", "origin_prompt": f"{after_examples(item)} A", **shown}
    path.write_text(json.dumps(rows))
    _, found = read([path])
    assert found.answers.table["pick"].to_pylist() == [2] * 6
    assert [i.choices for i in found.items or ()] == [i.choices for i in boxes()]
