"""The tasks ask exactly our prompts, and lm-eval 0.4.13 loads and runs them offline."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from robustify.errors import DataError
from robustify.export.lm_eval import task_name, write_tasks
from robustify.item import Item
from robustify.orders import own
from robustify.run import write_items
from robustify.views import View, template

ROBUST = (
    Item("r0", "  Which planet is nearest to the Sun? ", ("Venus", "Mercury", "Mars", "the Earth"), 1, "sky"),
    Item("r1", "How many legs has a spider?", ("six", "eight"), 1, "animals"),
    Item(
        "r2",
        "Which metal is liquid\nat room temperature?",
        ("iron", "gold", "mercury", "zinc", "lead"),
        2,
        "matter",
    ),
)
SHORTCUT = (
    Item("s0", "What is {{ 7 }} times 8? {% raw", ("54", "56", "63"), 1, "numbers"),
    Item(
        "s1",
        "Which bird cannot fly?",
        ("the 'ostrich'", 'a "sparrow"', "a {{ swift }}", "[a, list]"),
        0,
        "animals",
    ),
)
UNDECIDED = (Item("u0", "Which sea is salt?", ("the Dead Sea", "Lake Geneva", "7"), 0),)
SPLITS = {"robust": ROBUST, "shortcut": SHORTCUT, "undecided": UNDECIDED, "cloze": (*ROBUST, *SHORTCUT)}
VIEW_OF: dict[str, View] = {
    "all": "full",
    "robust": "full",
    "shortcut": "full",
    "robust_choices_only": "choices_only",
    "cloze": "cloze",
}

needs_lm_eval = pytest.mark.skipif(
    importlib.util.find_spec("lm_eval") is None, reason="lm-eval is not installed"
)


def put(folder: Path, *names: str) -> Path:
    for name in names or tuple(SPLITS):
        write_items(folder / f"{name}.jsonl", SPLITS[name])
    return folder


def tasks_of(folder: Path) -> dict[str, dict[str, Any]]:
    paths = write_tasks(folder / "lm_eval_tasks", "Demo-benign", signature="set:demo|n:6")
    return {p.stem.removeprefix("demo_benign_"): yaml.safe_load(p.read_text("utf-8")) for p in paths}


def items_of(name: str) -> list[Item]:
    if name == "all":
        return [*ROBUST, *SHORTCUT, *UNDECIDED]
    return list(SPLITS[name.removesuffix("_choices_only")])


def test_every_split_of_a_run_has_its_task(tmp_path: Path) -> None:
    tasks = tasks_of(put(tmp_path))
    assert set(tasks) == set(VIEW_OF)
    assert tasks["all"]["dataset_kwargs"]["data_files"]["test"] == [
        "robust.jsonl",
        "shortcut.jsonl",
        "undecided.jsonl",
    ]
    assert [m["metric"] for m in tasks["cloze"]["metric_list"]] == ["acc", "acc_norm"]


def test_tasks_name_no_place_of_this_machine_and_repeat_byte_for_byte(tmp_path: Path) -> None:
    put(tmp_path)
    first = {p: p.read_bytes() for p in write_tasks(tmp_path / "lm_eval_tasks", "demo", signature="s")}
    assert first == {
        p: p.read_bytes() for p in write_tasks(tmp_path / "lm_eval_tasks", "demo", signature="s")
    }
    assert not any(str(tmp_path).encode() in text for text in first.values())


def test_a_split_without_items_has_no_task_and_all_is_never_a_part(tmp_path: Path) -> None:
    put(tmp_path, "robust", "shortcut")
    (tmp_path / "cloze.jsonl").touch()
    assert set(tasks_of(tmp_path)) == {"robust", "shortcut", "robust_choices_only"}


def test_a_folder_without_items_is_refused(tmp_path: Path) -> None:
    (tmp_path / "robust.jsonl").touch()
    with pytest.raises(DataError, match="no split file with items"):
        write_tasks(tmp_path / "lm_eval_tasks", "demo", signature="s")


def test_the_head_says_where_to_start_what_was_asked_and_what_to_beware_of(tmp_path: Path) -> None:
    paths = write_tasks(
        put(tmp_path) / "tasks", "demo", signature="set:demo\nrun: evil", warning="FORCED\nall: {}"
    )
    for path in paths:
        text = path.read_text("utf-8")
        head = [line for line in text.splitlines() if line.startswith("#")]
        assert f"cd RUN && lm_eval run --include_path tasks --tasks {path.stem} " in text
        assert any("WARNING: FORCED" in line for line in head)
        assert set(yaml.safe_load(text)) & {"run", "all"} == set()
        assert any(
            f"sha256 {template(VIEW_OF[path.stem.removeprefix('demo_')]).digest}" in line for line in head
        )


@pytest.mark.parametrize(
    ("name", "expected"), [("demo-benign", "demo_benign_x"), ("A.b--C", "a_b_c_x"), ("--", "benchmark_x")]
)
def test_task_names_are_plain(name: str, expected: str) -> None:
    assert task_name(name, "x") == expected


@pytest.fixture(scope="module")
def dummy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder after lm-eval's dummy model was asked every task."""
    folder = put(tmp_path_factory.mktemp("run"))
    tasks_of(folder)
    lm_eval(folder, "--model", "dummy")
    return folder


@needs_lm_eval
@pytest.mark.parametrize("name", sorted(VIEW_OF))
def test_lm_eval_asks_the_prompts_that_we_ask(dummy: Path, name: str) -> None:
    rows = list(logged(dummy, name))
    items = items_of(name)
    assert [row["doc"]["id"] for row in rows] == [item.id for item in items]
    for row, item in zip(rows, items, strict=True):
        asked = [(r["arg_0"], r["arg_1"]) for r in row["arguments"].values()]
        ours = template(VIEW_OF[name]).requests(item, own(item.k))
        assert asked == [(r.context, r.continuation) for r in ours]
        assert int(row["target"]) == item.key


@needs_lm_eval
@pytest.mark.oracle
def test_lm_eval_runs_the_tasks_with_a_real_model_offline(tmp_path: Path) -> None:
    cache = Path(os.environ.get("ROBUSTIFY_CACHE", Path.home() / ".cache" / "robustify"))
    model = cache / "models" / "smollm2-135m"
    if not (model / "config.json").is_file():
        pytest.skip("smollm2-135m is not in the cache: robustify models pull smollm2-135m")
    tasks_of(put(tmp_path))
    lm_eval(
        tmp_path,
        "--model",
        "hf",
        "--model_args",
        f"pretrained={model},dtype=float32",
        "--device",
        "cpu",
        "--limit",
        "3",
    )
    results = json.loads(next((tmp_path / "out").rglob("results_*.json")).read_text("utf-8"))["results"]
    for name in VIEW_OF:
        rows = list(logged(tmp_path, name))
        assert 1 <= len(rows) <= 3
        for metric in ("acc", "acc_norm") if name == "cloze" else ("acc",):
            credit = [won(row, per_character=metric == "acc_norm") for row in rows]
            assert results[task_name("Demo-benign", name)][f"{metric},none"] == pytest.approx(
                sum(credit) / len(rows)
            )


def won(row: dict[str, Any], *, per_character: bool) -> float:
    """Whether the best log-likelihood of a logged row is the key's, counted here and not by lm-eval."""
    item = next(read for read in items_of("all") if read.id == row["doc"]["id"])
    scores = [float(r[0]) for r in row["filtered_resps"]]
    assert all(math.isfinite(s) and s < 0 for s in scores)
    ranked = [s / len(c) for s, c in zip(scores, item.choices, strict=True)] if per_character else scores
    return float(ranked.index(max(ranked)) == item.key)


def lm_eval(folder: Path, *arguments: str) -> None:
    """Run all tasks as their head says: from the run's folder, with no network."""
    offline = {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(folder / ".datasets"),
    }
    command = [
        "run",
        "--include_path",
        "lm_eval_tasks",
        "--tasks",
        "demo_benign_robustify",
        "--output_path",
        "out",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "lm_eval", *command, "--log_samples", *arguments],
        cwd=folder,
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def logged(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The rows that lm-eval logged for a task, in the order of the items."""
    paths = list((folder / "out").rglob(f"samples_{task_name('Demo-benign', name)}_2*.jsonl"))
    assert len(paths) == 1, paths
    rows = [json.loads(line) for line in paths[0].read_text("utf-8").splitlines()]
    yield from sorted(rows, key=lambda row: row["doc_id"])
