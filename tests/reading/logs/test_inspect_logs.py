"""Inspect's logs: a letter is a letter of the logged choices, and nothing partial passes for whole."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.base.errors import DataError, UsageError
from robustify.pipeline.from_logs import import_logs
from robustify.reading.loaders import Loaded
from robustify.reading.logs import Log, LogOptions, LogPath, gather, read_log
from robustify.wings import GUARD
from tests.support.fake_logs import boxes, inspect_sample, inspect_tree


def bench(items: list[object]) -> Loaded:
    return Loaded("boxes", "robustify", tuple(items), (), (), (), "0" * 64, "")


def log_of(path: Path, tree: dict[str, object], **wanted: object) -> Log:
    path.write_text(json.dumps(tree), encoding="utf-8")
    return read_log(path, LogOptions(**wanted))


def rows_of(log: Log) -> list[dict[str, object]]:
    return list(gather([log], None).answers.table.to_pylist())


def test_letters_become_choices_and_what_was_not_read_is_unanswered(tmp_path: Path) -> None:
    items = boxes(5)
    said = ["A", "B", None, "", "A, C"]
    tree = inspect_tree([inspect_sample(i, a) for i, a in zip(items, said, strict=True)])
    rows = rows_of(log_of(tmp_path / "a.json", tree))
    assert [r["pick"] for r in rows] == [0, 1, None, None, None]
    assert [r["correct"] for r in rows] == [1.0, 1.0, None, None, None]
    assert {r["model"] for r in rows} == {"mockllm/model"}
    assert [r["item"] for r in rows] == ["b0", "b1", "b2", "b3", "b4"]


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


@pytest.mark.parametrize("epochs", [((2, "C"), (1, "B")), ((3, "C"), (2, "B"))])
def test_of_several_epochs_the_first_counts_and_it_is_said(
    tmp_path: Path, epochs: tuple[tuple[int, str], ...]
) -> None:
    items = boxes(3)
    samples = [inspect_sample(i, a, epoch=e) for e, a in epochs for i in items]
    log = log_of(tmp_path / "a.json", inspect_tree(samples))
    assert [r["pick"] for r in rows_of(log)] == [1, 1, 1]
    assert "samples of later epochs left out: 3 (the first epoch of each item counts)" in log.notes


def test_a_run_that_did_not_end_is_told(tmp_path: Path) -> None:
    tree = inspect_tree([inspect_sample(i, "B") for i in boxes(3)], status="error")
    tree["results"]["total_samples"] = 9
    assert [f.reason for f in log_of(tmp_path / "a.json", tree).faults] == [
        "the run has the status error; expected success",
        "the log contains 3 samples, but its results count 9; expected all samples",
    ]


def test_a_sample_on_which_the_run_failed_is_unanswered(tmp_path: Path) -> None:
    sample = inspect_sample(boxes()[0], "A", error={"message": "time out"})
    del sample["scores"]
    assert [
        (r["pick"], r["error"]) for r in rows_of(log_of(tmp_path / "a.json", inspect_tree([sample])))
    ] == [(None, "the run failed on it")]


@pytest.mark.parametrize(
    "dress", ["{mark}) {text}", "{text}", "ANSWER: {mark}", "**{mark}**\n{text}", "{mark}. {text}"]
)
def test_an_answer_in_other_words_is_read(tmp_path: Path, dress: str) -> None:
    items = boxes(4)
    said = [dress.format(mark="BCDA"[i], text=item.choices[(i + 1) % 4]) for i, item in enumerate(items)]
    samples = [inspect_sample(i, "A") for i in items]
    for sample, answer in zip(samples, said, strict=True):
        sample["scores"]["choice"] = {"value": "I", "answer": answer}
    assert [r["pick"] for r in rows_of(log_of(tmp_path / "a.json", inspect_tree(samples)))] == [1, 2, 3, 0]


@pytest.mark.parametrize("wrap", [str, lambda text: [text], lambda text: f" {text.upper()} "])
def test_a_target_that_is_the_text_of_a_choice_is_its_key(
    tmp_path: Path, wrap: Callable[[str], object]
) -> None:
    items = boxes(5)
    samples = [inspect_sample(i, i.choices[1]) | {"target": wrap(i.choices[i.key])} for i in items]
    for sample, item in zip(samples, items, strict=True):
        sample["scores"]["choice"]["value"] = "C" if item.key == 1 else "I"
    log = log_of(tmp_path / "a.json", inspect_tree(samples))
    assert not log.faults
    assert [(r["key"], r["pick"]) for r in rows_of(log)] == [(i.key, 1) for i in items]


def test_a_score_that_its_own_letters_belie_is_told_by_line(tmp_path: Path) -> None:
    samples = [inspect_sample(i, "A") for i in boxes(3)]
    samples[1]["scores"]["choice"]["value"] = "C"
    faults = log_of(tmp_path / "a.json", inspect_tree(samples)).faults
    assert [f.line for f in faults] == [2]


def test_texts_that_inspect_keeps_apart_are_put_back(tmp_path: Path) -> None:
    items = boxes(2)
    samples = [inspect_sample(i, "B") for i in items]
    samples[0] |= {"input": "attachment://ab", "attachments": {"ab": items[0].stem}}
    samples[1]["input"] = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": items[1].stem},
    ]
    found = gather([log_of(tmp_path / "a.json", inspect_tree(samples))], None)
    assert [i.stem for i in found.items or ()] == [i.stem for i in items]


def test_of_several_scorers_choice_is_taken_or_one_must_be_named(tmp_path: Path) -> None:
    sample = inspect_sample(boxes()[0], "B")
    sample["scores"]["judge"] = {"value": "C", "answer": "A"}
    tree = inspect_tree([sample])
    assert [r["pick"] for r in rows_of(log_of(tmp_path / "a.json", tree))] == [1]
    assert [r["pick"] for r in rows_of(log_of(tmp_path / "a.json", tree, filter="judge"))] == [0]
    sample["scores"]["other"] = sample["scores"].pop("choice")
    with pytest.raises(UsageError, match="judge, other"):
        log_of(tmp_path / "a.json", tree)


def test_a_task_without_choices_is_refused(tmp_path: Path) -> None:
    sample = {k: v for k, v in inspect_sample(boxes()[0], "B").items() if k != "choices"}
    with pytest.raises(DataError, match="no choices"):
        log_of(tmp_path / "a.json", inspect_tree([sample]))


def test_a_choices_only_task_is_matched_by_its_choices_alone(tmp_path: Path) -> None:
    items = boxes(4)
    samples = [inspect_sample(i, "B") | {"input": "Which is the most likely answer?"} for i in items]
    log = log_of(tmp_path / "a.json", inspect_tree(samples))
    assert any("the same question" in note for note in log.notes)
    log = log_of(tmp_path / "a.json", inspect_tree(samples), view="choices_only")
    found = gather([log], bench(items))
    assert [r["item"] for r in found.answers.table.to_pylist()] == [i.id for i in items]
    assert any("choices alone" in note for note in found.notes)


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
        [
            note
            for note in import_logs(logs, tmp_path / f"out{n}", GUARD).manifest["config"]["notes"]
            if "without the question" in note
        ]
        for n, logs in enumerate((paths[:1], paths))
    ]
    assert told[1] == []
    (note,) = told[0]
    assert note.startswith(
        "no log has answers without the question (view choices_only), so only rules and probes"
    )
    assert "Inspect: `--solver robustify/choices_only`" in note
    assert note.endswith("import its log, too, as choices_only:FILE")
    assert "\n" not in note


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
    with pytest.raises(DataError, match=r"^a\.eval: the file is incomplete or damaged"):
        read_log(tmp_path / "a.eval", LogOptions())


def test_a_zipped_log_without_inspect_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    (tmp_path / "a.eval").write_bytes(b"PK\x03\x04")
    with pytest.raises(UsageError, match=r"pip install 'robustcbrn-eval\[inspect\]'.*log convert --to json"):
        read_log(tmp_path / "a.eval", LogOptions())
