"""Logs and runs with valid syntax and values of wrong types: refused or read, never an exception of another kind.

Each draw changes a few places of a sound file, from a seed of its own; the long form runs with the slow tests.
"""

import contextlib
import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robustify.errors import RobustifyError
from robustify.logs import LogOptions, LogPath, gather, read_logs
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

ODD: tuple[Any, ...] = (
    None, True, 0, -1, 3, 10**30, 10**400, 1.5, 1e308, float("nan"), float("inf"), "", " ", "A", "x" * 50, "\0", "\ud800",
    [], [[]], [None], {}, {"a": None}, [1, 2, 3], ["A", 2], {"0": "x"}, "attachment://q",
)  # fmt: skip
DATE = "2026-01-02T03-04-05.678"
SEEDS = [pytest.param(range(40), id="short"), pytest.param(range(40, 400), id="long", marks=pytest.mark.slow)]
SCORES = scores_for([0, 1, 2, 3, 0, 1])
At = tuple[str | int, ...]


def places(node: Any, at: At = ()) -> Iterator[At]:
    if at:
        yield at
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for step, value in inner:
        yield from places(value, (*at, step))


def changed(tree: Any, draw: random.Random) -> Any:
    """The tree with up to four places that are gone, renamed or of another kind; it may itself be one of them."""
    whole = [copy.deepcopy(tree)]
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        at = draw.choice([*places(whole)] or [(0,)])
        node: Any = whole
        for step in at[:-1]:
            node = node[step]
        how = draw.random()
        if how < 0.15 and len(at) > 1:
            del node[at[-1]]
        elif how < 0.25 and isinstance(node, dict):
            node[draw.choice(["", "0", "model", "\u202e"])] = node.pop(at[-1])
        elif node:
            node[at[-1]] = copy.deepcopy(draw.choice(ODD))
    return whole[0]


def lm_eval_rows(**more: Any) -> list[dict[str, Any]]:
    return [lm_eval_row(i, at, s, **more) for at, (i, s) in enumerate(zip(boxes(), SCORES, strict=True))]


def as_lines(folder: Path, tree: Any) -> Path:
    rows = tree if isinstance(tree, list) else [tree]
    return jsonl(folder / "one" / "samples_boxes.jsonl", rows)


def as_document(folder: Path, tree: Any) -> Path:
    path = folder / "a.json"
    path.write_text(json.dumps(tree))
    return path


def beside_rows(folder: Path, tree: Any) -> Path:
    log = jsonl(folder / "m" / f"samples_boxes_{DATE}.jsonl", lm_eval_rows())
    results(log.parent, DATE, "boxes", "one", 6).write_text(json.dumps(tree))
    return log


def as_parquet(folder: Path, tree: Any) -> Path:
    """Details of lighteval; what Parquet cannot hold is left as it was."""
    path = folder / "details" / "o" / "m" / "d" / f"details_boxes|0_{DATE}.parquet"
    lighteval_parquet(path, boxes(), SCORES, letters=False)
    with contextlib.suppress(pa.ArrowException, OverflowError, ValueError, TypeError, AttributeError):
        pq.write_table(pa.Table.from_pylist([tree] * 3), path)
    return path


def sound() -> dict[str, tuple[Any, Callable[[Path, Any], Path]]]:
    log = inspect_tree([inspect_sample(item, "ABCD"[item.key]) for item in boxes()])
    picks = [
        {
            "model": m,
            "item": f"i{at}",
            "key": "ABAD"[at],
            "pick": "ABCD"[at],
            "condition": "choices_only",
            "topic": "t",
        }
        for m in "xy"
        for at in range(4)
    ]
    texts = [
        {"model": m, "stem": i.stem, "choices": list(i.choices), "key": i.key, "pick": 0,
         "scores": [-1.0, -2.0, -3.0, -4.0], "correct": i.key == 0}
        for m in "xy"
        for i in boxes()
    ]  # fmt: skip
    run = {"results": {"boxes": {"acc,none": 0.5}}, "versions": {"boxes": 2.0}, "n-shot": {"boxes": 5},
           "n-samples": {"boxes": {"original": 100, "effective": 6}}, "model_name": "one",
           "config": {"model": "hf", "model_args": "pretrained=one", "model_dtype": "torch.float32"}}  # fmt: skip
    detail = {"doc": {"query": "Question: Which?\nAnswer:", "choices": [" a", " b"], "gold_index": 1, "id": "0"},
              "model_response": {"logprobs": [-1.0, -2.0], "unconditioned_logprobs": [-3.0, -4.0]}}  # fmt: skip
    return {
        "lm-eval": (lm_eval_rows(), as_lines),
        "lm-eval, old": (lm_eval_rows(old=True), as_lines),
        "lm-eval, texts": (lm_eval_rows(texts=True), as_lines),
        "lm-eval, written": ([written_row(i, at, "ABCD"[at % 4], "get", 1.0) for at, i in enumerate(boxes())], as_lines),
        "lm-eval, results": (run, beside_rows),
        "inspect": (log, as_document),
        "lighteval": (detail, as_parquet),
        "picks": (picks, as_document),
        "picks with texts": (texts, as_lines),
    }  # fmt: skip


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("kind", sound())
def test_an_odd_log_is_read_or_refused(tmp_path: Path, kind: str, seeds: range) -> None:
    tree, write = sound()[kind]
    for seed in seeds:
        draw = random.Random(seed)
        path = write(tmp_path, changed(tree, draw))
        options = LogOptions(
            skip_bad=draw.random() < 0.7,
            view=draw.choice([None, None, "full", "choices_only", "cloze"]),
            model=draw.choice([None, None, "me"]),
        )
        print(f"seed {seed}")
        with contextlib.suppress(RobustifyError):
            gather(read_logs([LogPath(path)], options), None)


@pytest.mark.parametrize("value", [3, True, "x", {"a": 1}])
@pytest.mark.parametrize("where", ["sample_ids", "steps"])
def test_an_inspect_log_without_a_list_of_ids_or_steps_is_read(
    tmp_path: Path, where: str, value: object
) -> None:
    log = inspect_tree([inspect_sample(item, "A") for item in boxes()])
    (log["eval"]["dataset"] if where == "sample_ids" else log["plan"])[where] = value
    (read,) = read_logs([LogPath(as_document(tmp_path, log))], LogOptions())
    assert len(read.replies) == 6
