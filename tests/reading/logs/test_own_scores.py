"""A log's own scores: the lengths of lm-eval, losses, ties, and scores that contradict the key."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import Table, parquet

from robustify.base.errors import DataError
from robustify.items.item import Item
from robustify.reading.logs import Log, LogOptions, gather, read_log
from robustify.reading.logs.log import scored_right
from tests.support.fake_logs import (
    boxes,
    inspect_sample,
    inspect_tree,
    jsonl,
    lighteval_parquet,
    lm_eval_row,
    results,
    scores_for,
    written_row,
)

FORMS: list[tuple[Any, Any]] = [
    (1, 0), (1.0, 0.0), (True, False), ("1.0", "0.0"), ("true", "false"), ("C", "I"), ("CORRECT", "INCORRECT"),
    ([1.0], [0.0]), ({"accuracy": 1}, {"accuracy": 0}),
]  # fmt: skip
"""Right and wrong, in the forms of several harnesses."""


def log_of(path: Path, rows: list[dict[str, object]], **wanted: object) -> Log:
    return read_log(jsonl(path, rows), LogOptions(**wanted))


def uneven(n: int = 12) -> list[Item]:
    """Items whose options have very different lengths, so that lengths decide which one is best."""
    words = ("ant", "a red fox", "the old brown bear", "elk")
    return [
        Item(f"u{i}", f"Who lives in house {i}?", tuple(f"{w} {i}" for w in words), i % 4) for i in range(n)
    ]


def nearly(items: list[Item], extra: int) -> list[list[float]]:
    """Scores per character that are close, so that counting `extra` characters more would change the best option."""
    out = []
    for at, item in enumerate(items):
        own = [-1.0 * (len(choice) + 0.5 * extra) for choice in item.choices]
        own[at % item.k] *= 0.97 + 0.02 * (at % 3)
        out.append(own)
    return out


@pytest.mark.parametrize("delimiter", [" ", "", "\n", "\n\n", ": ", "\tAnswer: "])
@pytest.mark.parametrize("first", ["", " "])
@pytest.mark.parametrize("named", ["list", "object", "columns", "hidden"])
def test_lengths_are_those_of_the_choices_whatever_the_delimiter(
    tmp_path: Path, delimiter: str, first: str, named: str
) -> None:
    items = uneven()
    if named == "hidden" and (first or not delimiter or delimiter.startswith("\t")):
        pytest.skip("the docs do not contain these choices, so nothing tells the delimiter from the choice")
    rows, best = [], []
    for at, (item, scores) in enumerate(zip(items, nearly(items, len(delimiter)), strict=True)):
        texts = [first + choice for choice in item.choices]
        row = lm_eval_row(item, at, scores, texts=True)
        for pair, text in zip(row["arguments"].values(), texts, strict=True):
            pair["arg_1"] = delimiter + text
        doc = {"question": item.stem, "answer": item.key}
        match named:
            case "list":
                row["doc"] = {**doc, "choices": texts}
            case "object":
                row["doc"] = {"question": item.stem, "choices": {"text": texts, "label": list("ABCD")},
                              "answerKey": "ABCD"[item.key]}  # fmt: skip
            case "columns":
                row["doc"] = {**doc, **dict(zip("ABCD", texts, strict=True)), "answer": "ABCD"[item.key]}
            case _:
                row["doc"] = {**doc, "choices": [text.upper() for text in texts]}
        best.append(int(np.argmax([s / len(t) for s, t in zip(scores, texts, strict=True)])))
        row["acc_norm"] = float(best[-1] == item.key)
        row["acc"] = float(int(np.argmax(scores)) == item.key)
        rows.append(row)
    log = log_of(tmp_path / "samples_u.jsonl", rows, view="cloze")
    assert not log.faults
    assert not any("computed with the lengths" in note for note in log.notes)
    table = gather([log], None).answers.table
    assert table["pick"].to_pylist() == best


def test_the_results_file_gives_the_delimiter_of_choices_that_no_doc_contains(tmp_path: Path) -> None:
    path = tmp_path / "samples_u.jsonl"
    rows = []
    for at, (item, scores) in enumerate(zip(uneven(), scores_for([0] * 12), strict=True)):
        row = lm_eval_row(item, at, scores, texts=True)
        row["doc"]["choices"] = [choice.upper() for choice in item.choices]
        for pair in row["arguments"].values():
            pair["arg_1"] = f" -- {pair['arg_1'].strip()}"
        rows.append(row)
    tree = json.loads(results(jsonl(path, rows).parent, "x", "u", "tiny", 12).read_text())
    tree["configs"] = {"u": {"target_delimiter": " -- "}}
    (tmp_path / "results_x.json").write_text(json.dumps(tree))
    (reply, *_) = read_log(path, LogOptions(view="cloze")).replies
    assert reply.n_chars == tuple(map(len, uneven()[0].choices))


def test_a_norm_that_differs_is_named_and_not_blamed_on_the_key(tmp_path: Path) -> None:
    rows = [
        lm_eval_row(i, at, s, texts=True)
        for at, (i, s) in enumerate(zip(boxes(), scores_for([0] * 6), strict=True))
    ]
    rows[2]["acc_norm"] = 1.0 - rows[2]["acc_norm"]
    log = log_of(tmp_path / "samples_u.jsonl", rows)
    assert not log.faults
    assert any("1 (lines 3)" in note for note in log.notes)


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize("above", [2.5, 0.2, "1e-3"])
def test_losses_are_refused(tmp_path: Path, texts: bool, above: float | str) -> None:
    rows = [lm_eval_row(item, at, [above] * 4, texts=texts) for at, item in enumerate(boxes())]
    faults = log_of(tmp_path / "samples_u.jsonl", rows).faults
    assert len(faults) == 6
    assert all("above 0" in fault.reason and "loss" in fault.reason for fault in faults)


def test_losses_of_lighteval_are_refused_and_rounding_is_not(tmp_path: Path) -> None:
    log = read_log(lighteval_parquet(tmp_path / "d.parquet", boxes(2), [[1.0, 2.0, 3.0, 4.0]] * 2, letters=True),
                   LogOptions())  # fmt: skip
    assert ["above 0" in fault.reason for fault in log.faults] == [True, True]
    log = read_log(lighteval_parquet(tmp_path / "e.parquet", boxes(2), [[1e-9, -2.0, -3.0, -4.0]] * 2, letters=True),
                   LogOptions())  # fmt: skip
    assert not log.faults


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize("score", [0.0, -3.5])
def test_rows_in_which_all_scores_are_equal_are_named(tmp_path: Path, texts: bool, score: float) -> None:
    rows = [
        lm_eval_row(item, at, [score] * 4, texts=texts, acc=0.0, acc_norm=0.0)
        for at, item in enumerate(boxes())
    ]
    notes = gather([log_of(tmp_path / "samples_u.jsonl", rows)], None).notes
    assert any("same score, so that they tie: 6 of 6" in note for note in notes)


@pytest.mark.parametrize(("right", "wrong"), FORMS)
def test_scores_have_many_forms(right: object, wrong: object) -> None:
    assert scored_right(right) is True
    assert scored_right(wrong) is False
    assert [scored_right(one) for one in (0.5, "P", "N", None, [], [1, 0], {"a": 1, "b": 1}, 2)] == [None] * 8


METRICS = ["acc", "acc_norm", "exact_match", "mcq_accuracy", "is_correct"]
SCORED: dict[str, tuple[list[str], str]] = {
    "letters": (METRICS, "key"), "texts": (METRICS, "key"), "written": (["exact_match"], "key"),
    "inspect": (["choice", "match", "my_scorer"], "target"),
    "picks": (["correct", "is_correct", "acc", "exact_match", "score"], "key"),
}  # fmt: skip
"""Of each kind of log: how its own score may be called, and what a contradicted score is held against."""


def scored_log(path: Path, kind: str, name: str, said: list[Any], keys: list[int]) -> Path:
    """Write a log of eight items whose replies are 0, 1, 2, 3, 0, ... and scored as `said`, with other `keys`."""
    items = [replace(item, key=key) for item, key in zip(boxes(8), keys, strict=True)]
    rows: list[dict[str, Any]] = []
    for at, (item, score) in enumerate(zip(items, said, strict=True)):
        pick = "ABCD"[at % 4]
        match kind:
            case "inspect":
                rows.append(inspect_sample(item, pick) | {"scores": {name: {"answer": pick, "value": score}}})
            case "picks":
                rows.append({"item": item.id, "key": "ABCD"[item.key], "pick": pick, name: score})
            case "written":
                row = written_row(boxes(8)[at], at, pick, "none", score)
                rows.append({**row, "doc": {**row["doc"], "answer": item.key}})
            case _:
                row = lm_eval_row(boxes(8)[at], at, scores_for([at % 4])[0], texts=kind == "texts")
                row.pop("acc"), row.pop("acc_norm", None)
                rows.append({**row, "doc": {**row["doc"], "answer": item.key}, name: score})
    if kind != "inspect":
        return jsonl(path.with_suffix(".jsonl"), rows)
    path.write_text(json.dumps(inspect_tree(rows)))
    return path


CONTRADICTIONS = [
    (kind, name, right, wrong)
    for kind, (names, _) in SCORED.items()
    for name in names
    for right, wrong in FORMS[: 1 if name != names[0] else 7 if kind == "picks" else None]
]
"""Every form under the first name, and one form under each other name."""


@pytest.mark.parametrize(("kind", "name", "right", "wrong"), CONTRADICTIONS)
def test_a_log_that_contradicts_its_key_is_refused(
    tmp_path: Path, kind: str, name: str, right: Any, wrong: Any
) -> None:
    path, keys = tmp_path / "samples_u.json", [0, 1, 2, 3] * 2
    options = LogOptions(model="m" if kind == "picks" else None)
    assert not read_log(scored_log(path, kind, name, [right] * 8, keys), options).faults
    # Three keys are read as the next option, as if a number counted from 1 counted from 0.
    log = read_log(scored_log(path, kind, name, [right] * 7 + [wrong], [1, 2, 3, *keys[3:]]), options)
    # In a task with scores, a failed exact match means only that the key is not the greedy continuation.
    lenient = name == "exact_match" and kind in ("letters", "texts")
    assert [fault.line for fault in log.faults] == [1, 2, 3] + [8] * (not lenient)
    assert all(SCORED[kind][1] in fault.reason for fault in log.faults)


def test_lm_eval_may_not_see_that_a_reply_is_right(tmp_path: Path) -> None:
    rows = [written_row(item, at, "(ABCD)"[item.key + 1], "none", 1.0) for at, item in enumerate(boxes())]
    rows[3] |= {"filtered_resps": ["(D)"], "exact_match": 0.0}
    rows[2] |= {"filtered_resps": ["C\n"], "exact_match": 0.0}
    assert not log_of(tmp_path / "samples_u.jsonl", rows).faults


@pytest.mark.parametrize("letters", [True, False])
def test_lighteval_details_that_contradict_their_key_are_refused(tmp_path: Path, letters: bool) -> None:
    path = lighteval_parquet(tmp_path / "d.parquet", boxes(), scores_for([0, 1, 2, 3, 0, 1]), letters=letters)
    assert not read_log(path, LogOptions()).faults
    rows = parquet.read_table(path).to_pylist()
    for row in rows:
        row["doc"]["gold_index"] = (row["doc"]["gold_index"] + 1) % 4
    parquet.write_table(Table.from_pylist(rows), path)
    assert len(read_log(path, LogOptions()).faults) == 6


@pytest.mark.parametrize(
    "tree",
    [
        {"results": {"u": {"acc,none": 0.5}}, "config": {}, "versions": {"u": 1}},
        {"results": {"u": {"acc": 0.5}}, "versions": {"u": 0}},
        {"results": {"all": {"acc": 0.5}, "u|0": {"acc": 0.5}}, "config_general": {}, "versions": {}},
        {"results": {"g": {}}, "groups": {"g": {}}, "configs": {"u": {"metric_list": [{"metric": "acc"}]}}},
    ],
)
def test_results_alone_say_which_file_is_needed(tmp_path: Path, tree: dict[str, object]) -> None:
    path = tmp_path / "results_2026.json"
    path.write_text(json.dumps(tree))
    with pytest.raises(DataError, match=r"samples_\*.jsonl.*--log_samples"):
        read_log(path, LogOptions())


def requested(
    options: list[str], target: str, doc: dict[str, object], context: str = "Q:\nA:"
) -> dict[str, object]:
    """A row whose options are in its requests alone; the target is the most likely one."""
    return {
        "doc": doc,
        "target": target,
        "arguments": {f"gen_args_{j}": {"arg_0": context, "arg_1": f" {o}"} for j, o in enumerate(options)},
        "resps": [[[str(-1.0 - j), "False"]] for j in range(len(options))],
        "filter": "none",
        "metrics": ["acc"],
        "acc": 1.0,
    }


@pytest.mark.parametrize(
    ("options", "target", "doc"),
    [
        (["yes", "no"], "0", {"question": "Is it odd?", "passage": "Odd.", "label": 0}),
        (["True", "False"], "True", {"input": "not not True is", "target": "True"}),
    ],
)
def test_options_that_only_the_requests_contain_are_read_there(
    tmp_path: Path, options: list[str], target: str, doc: dict[str, object]
) -> None:
    stem = next(iter(doc))
    rows = [
        {"doc_id": at, **requested(options, target, {**doc, stem: f"{at}. {doc[stem]}"})} for at in range(4)
    ]
    log = log_of(tmp_path / "samples_boolq.jsonl", rows)
    assert (log.faults, {(r.item.choices, r.item.key) for r in log.replies}) == ((), {(tuple(options), 0)})
    assert gather([log], None).answers.table["correct"].to_pylist() == [1.0] * 4
    assert any("read from the requests" in note for note in log.notes)


@pytest.mark.parametrize("form", ["({}) {}", "{}. {}", "{}) {}", "{}: {}"])
@pytest.mark.parametrize("shown", ["doc", "prompt"])
def test_scored_letters_get_the_texts_of_the_lines_that_they_label(
    tmp_path: Path, form: str, shown: str
) -> None:
    rows = []
    for at in range(4):
        texts = [f"{colour} {at}" for colour in ("red", "green", "blue")]
        lines = "\n".join(form.format(letter, text) for letter, text in zip("ABC", texts, strict=True))
        stem = f"Which colour has box {at}?"
        whole = f"{stem}\nOptions:\n{lines}"
        doc: dict[str, object] = {"input": whole if shown == "doc" else stem, "target": "(A)"}
        rows.append({"doc_id": at, **requested(["(A)", "(B)", "(C)"], "(A)", doc, f"Q: {whole}\nA:")})
    log = log_of(tmp_path / "samples_bbh.jsonl", rows)
    assert log.faults == ()
    assert [(r.item.stem, r.item.choices, r.item.key) for r in log.replies] == [
        (f"Which colour has box {at}?", (f"red {at}", f"green {at}", f"blue {at}"), 0) for at in range(4)
    ]
    assert {r.view for r in log.replies} == {"full"}


def test_a_written_answer_gets_the_options_that_its_prompt_shows(tmp_path: Path) -> None:
    rows = []
    for at in range(4):
        shown = f"Which colour has box {at}?\nOptions:\n(A) red {at}\n(B) green {at}"
        row = written_row(boxes()[0], at, "(B)", "none", 0.0)
        row |= {"target": "(A)", "doc": {"input": shown, "target": "(A)", "why": "(A) no\n(B) yes"}}
        row["arguments"]["gen_args_0"]["arg_0"] = f"Q: {shown}\nA:"
        rows.append(row)
    log = log_of(tmp_path / "samples_bbh.jsonl", rows)
    assert log.faults == ()
    assert [(r.item.choices, r.item.key, r.pick) for r in log.replies] == [
        ((f"red {at}", f"green {at}"), 0, 1) for at in range(4)
    ]
    for row in rows:
        row["doc"]["input"] = row["arguments"]["gen_args_0"]["arg_0"] = "Which colour?"
    with pytest.raises(DataError, match="the layout is unknown"):
        log_of(tmp_path / "samples_v.jsonl", rows)


def test_scored_letters_without_texts_are_refused(tmp_path: Path) -> None:
    rows = [{"doc_id": 0, **requested(["(A)", "(B)"], "(A)", {"input": "Which one?", "target": "(A)"})}]
    faults = log_of(tmp_path / "samples_bbh.jsonl", rows).faults
    assert ["only labels" in fault.reason for fault in faults] == [True]
