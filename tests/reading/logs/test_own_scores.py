"""A log's own scores: the lengths of lm-eval, losses, ties, and scores that contradict the key."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustify.items.item import Item
from robustify.reading.logs import LogOptions, gather, read_log
from robustify.reading.logs.stated_scores import scored_right
from tests.reading.logs.test_lm_eval import log_of
from tests.support.cases import codes
from tests.support.fake_logs import (
    boxes,
    inspect_sample,
    inspect_tree,
    jsonl,
    lm_eval_row,
    scores_for,
    written_row,
)

FORMS: list[tuple[Any, Any]] = [
    (1, 0), (1.0, 0.0), (True, False), ("1.0", "0.0"), ("true", "false"), ("C", "I"), ("CORRECT", "INCORRECT"),
    ([1.0], [0.0]), ({"accuracy": 1}, {"accuracy": 0}),
]  # fmt: skip
"""Right and wrong, in the forms of several harnesses."""


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
    assert "other-norm" not in codes(log.notes)
    table = gather([log], None).answers.table
    assert table["pick"].to_pylist() == best


@pytest.mark.parametrize(("right", "wrong"), FORMS)
def test_scores_have_many_forms(right: object, wrong: object) -> None:
    assert scored_right(right) is True
    assert scored_right(wrong) is False
    assert [scored_right(one) for one in (0.5, "P", "N", None, [], [1, 0], {"a": 1, "b": 1}, 2)] == [None] * 8


METRICS = ["acc", "acc_norm", "exact_match", "mcq_accuracy", "is_correct"]
SCORED = {
    "letters": METRICS, "texts": METRICS, "written": ["exact_match"], "inspect": ["choice", "match", "my_scorer"],
    "picks": ["correct", "is_correct", "acc", "exact_match", "score"],
}  # fmt: skip
"""Names of the scores of each kind of log."""


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
    for kind, names in SCORED.items()
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
    assert {*codes(fault.reason for fault in log.faults)} == {"contradicted-key"}
