"""Our items through our export, real lm-eval 0.4.13 and our import: what comes back is what we had ourselves.

A short form runs with the slow tests; the long one asks 40 items and is run by hand.
"""

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from robustify.base.files import cache_folder
from robustify.export.tasks import export_lm_eval
from robustify.items.orders import own
from robustify.items.views import template
from robustify.models.asking import Planned, ask
from robustify.models.engines import open_scorer
from robustify.models.model_settings import HFModel
from robustify.pipeline.config import parse, shipped
from robustify.pipeline.from_logs import run_of_logs
from robustify.pipeline.steps import robustify
from robustify.reading.logs import LogPath
from robustify.runs.run import Run
from robustify.runs.stored import split_items
from robustify.wings import GUARD, free_rows, wings
from tests.export.test_lm_eval import lm_eval
from tests.support.model_cache import model_folder
from tests.support.trees import measured

NEAR = 1e-3
"""Nats. Both sides compute in float32, in batches of different shapes."""
NAME = "smollm2-135m"
TASKS = {
    "all": "full",
    "kept": "full",
    "flagged": "full",
    "kept_choices_only": "choices_only",
    "cloze": "cloze",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.oracle,
    pytest.mark.model,
    pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="lm-eval is not installed"),
]
SAME = ("pick", "correct", "tie", "key", "order", "template", "n_chars")


@dataclass(frozen=True, slots=True)
class Trip:
    """Our run, our own rows of every task, and where lm-eval left its logs of the exported tasks."""

    run: Run
    rows: Mapping[str, Mapping[str, Mapping[str, Any]]]
    out: Path

    def log(self, task: str) -> Path:
        return next(self.out.rglob(f"samples_demo_benign_{task}_2*.jsonl"))

    @property
    def results(self) -> dict[str, Any]:
        path = next(self.out.rglob("results_*.json"))
        return dict(json.loads(path.read_text("utf-8"))["results"])


@pytest.fixture(
    scope="module", params=[pytest.param(8, id="short"), pytest.param(40, id="long", marks=pytest.mark.proof)]
)
def trip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trip:
    folder = tmp_path_factory.mktemp("round")
    weights = model_folder(NAME)
    tree = {
        "name": "demo-benign",
        "sensitivity": "public",
        "data": [{"path": str(shipped() / "data" / "benign_demo.jsonl")}],
        "models": [{"name": NAME}],
        "asking": {"views": ["choices_only", "full", "cloze"], "rotations": "one", "orders": 1},
        "screen": {"criterion": "unanimous"},
        "limits": {"min_kept": 1},
        "limit": request.param,
    }
    run = robustify(parse(tree, "test"), folder / "run", cache_folder(), wings())
    export_lm_eval(run, folder / "out", free_rows, True)
    lm_eval(
        folder / "out",
        "--model",
        "hf",
        "--model_args",
        f"pretrained={weights},dtype=float32",
        "--device",
        "cpu",
    )
    return Trip(run, own_rows(run), folder / "out" / "out")


def own_rows(run: Run) -> dict[str, dict[str, dict[str, Any]]]:
    """What we have for each task. lm-eval shows choices in the benchmark's own order, which our screen need not."""
    held = run.answers.table.to_pylist()
    found = {}
    for task, view in TASKS.items():
        names = [i.id for i in items_of(run, task)]
        found[task] = {r["item"]: r for r in held if r["view"] == view and r["item"] in names}
    words = template("choices_only")
    planned = [
        Planned(item, words, own(item.k), words.requests(item, own(item.k)))
        for item in items_of(run, "kept_choices_only")
    ]
    with open_scorer(HFModel(name=NAME), cache_folder()) as scorer:
        asked = list(ask(planned, scorer))
    found["kept_choices_only"] = {
        a.item: {name: getattr(a, name) for name in (*SAME, "scores")} for a in asked
    }
    return found


def items_of(run: Run, task: str) -> list[Any]:
    if task == "all":
        return list(run.items or ())
    return list(split_items(run.folder / f"{task.removesuffix('_choices_only')}.jsonl", GUARD))


@pytest.mark.parametrize("task", TASKS)
def test_every_pick_and_score_comes_back(trip: Trip, tmp_path: Path, task: str) -> None:
    back = run_of_logs([LogPath(trip.log(task))], tmp_path / "back", GUARD)
    theirs = {r["item"]: r for r in back.answers.table.to_pylist() if r["model"] == NAME}
    ours = trip.rows[task]
    assert set(theirs) == set(ours) == {i.id for i in items_of(trip.run, task)}
    assert {r["view"] for r in theirs.values()} == {TASKS[task]}
    for item, row in ours.items():
        for same in SAME:
            mine = list(row[same]) if isinstance(row[same], tuple) else row[same]
            assert mine == theirs[item][same], (item, same)
        assert list(row["scores"]) == pytest.approx(theirs[item]["scores"], abs=NEAR), item


@pytest.mark.parametrize("task", TASKS)
def test_lm_eval_s_own_accuracy_is_ours(trip: Trip, task: str) -> None:
    rows = trip.rows[task].values()
    # At a tie lm-eval takes the first of the best ones, we share the credit.
    assert all(row["tie"] == 1 for row in rows)
    metric = "acc_norm,none" if task == "cloze" else "acc,none"
    mine = sum(row["correct"] for row in rows) / len(rows)
    assert trip.results[f"demo_benign_{task}"][metric] == pytest.approx(mine)


def test_accuracies_items_and_what_they_were_asked_come_back(trip: Trip, tmp_path: Path) -> None:
    back = run_of_logs([LogPath(trip.log("all")), LogPath(trip.log("cloze"))], tmp_path / "back", GUARD)
    ours = trip.run
    measures = [("full", NAME), ("cloze_chars", NAME), ("cloze_sum", NAME), ("cloze_bytes", NAME)]
    measures += [("rule", rule) for rule in ours.summary.measures.rule["rule"]]
    for measure, name in measures:
        mine, theirs = (measured(run.summary, measure, name) for run in (ours, back))
        assert mine["all"] == theirs["all"], (measure, name)
    assert sorted(ours.items or (), key=lambda i: i.id) == sorted(back.items or (), key=lambda i: i.id)
    assert back.manifest["templates"].items() <= ours.manifest["templates"].items()
    assert list(back.manifest["models"]) == [NAME]


def test_the_screen_of_an_imported_log_is_the_one_that_these_picks_give(trip: Trip, tmp_path: Path) -> None:
    back = run_of_logs([LogPath(trip.log("kept_choices_only"))], tmp_path / "back", GUARD)
    picked = {item for item, row in trip.rows["kept_choices_only"].items() if row["correct"] == 1}
    assert back.summary.screen.criterion == "fdr"
    beside = {row.name: row.flagged for row in back.summary.sensitivity}
    assert {round(rate.value * rate.n) for rate in (beside["D.4"], beside["unanimous"])} == {len(picked)}
    counted = run_of_logs(
        [LogPath(trip.log("kept_choices_only"))],
        tmp_path / "counted",
        GUARD,
        overrides={"screen.criterion": "unanimous"},
    )
    assert {i.id for i in split_items(counted.folder / "flagged.jsonl", GUARD)} == picked
