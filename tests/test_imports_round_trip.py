"""Our items through our export, real lm-eval 0.4.13 and our import: what comes back is what we had ourselves."""

import importlib.util

import pytest

from robustify.config import parse, shipped
from robustify.importing import import_logs
from robustify.imports import Given
from robustify.models import cache_folder
from robustify.pipeline import robustify
from robustify.run import Run
from tests.model_cache import model_folder
from tests.test_export_lm_eval import lm_eval

NEAR = 1e-3
"""Nats. Both sides compute in float32, in batches of different shapes."""
N_ITEMS = 20

pytestmark = [
    pytest.mark.slow,
    pytest.mark.oracle,
    pytest.mark.model,
    pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="lm-eval is not installed"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Our own run of 20 items of the demo, and the run imported from what lm-eval made of its export."""
    folder = tmp_path_factory.mktemp("round")
    model = model_folder("smollm2-135m")
    tree = {
        "name": "demo-benign",
        "sensitivity": "public",
        "data": [{"path": str(shipped() / "data" / "benign_demo.jsonl")}],
        "models": [{"name": "smollm2-135m"}],
        "asking": {"views": ["choices_only", "full", "cloze"], "rotations": "one", "orders": 1},
        "limits": {"min_robust": 1},
        "limit": N_ITEMS,
    }
    ours = robustify(parse(tree, "test"), folder / "run", cache_folder())
    lm_eval(
        ours.folder, "--model", "hf", "--model_args", f"pretrained={model},dtype=float32", "--device", "cpu"
    )
    logs = [next(ours.folder.rglob(f"samples_demo_benign_{kind}_2*.jsonl")) for kind in ("all", "cloze")]
    return ours, import_logs([Given(path) for path in logs], folder / "back")


def rows(run: Run, view: str) -> dict[str, dict[str, object]]:
    return {r["item"]: r for r in run.answers.table.to_pylist() if r["view"] == view}


@pytest.mark.parametrize("view", ["full", "cloze"])
def test_every_pick_and_score_comes_back(runs: tuple[Run, Run], view: str) -> None:
    ours, back = (rows(run, view) for run in runs)
    shared = [item for item in ours if item in back]
    # The cloze task holds only the items that can be asked without choices.
    assert len(back) == len(shared) == (N_ITEMS if view == "full" else runs[0].summary["splits"]["cloze"])
    for item in shared:
        mine, theirs = ours[item], back[item]
        for same in ("pick", "correct", "tie", "key", "order", "template", "n_chars"):
            assert mine[same] == theirs[same], (item, same)
        assert mine["scores"] == pytest.approx(theirs["scores"], abs=NEAR), item


def test_every_accuracy_comes_back(runs: tuple[Run, Run]) -> None:
    mine, theirs = (run.summary["accuracy"]["smollm2-135m"] for run in runs)
    for measure in ("full", "cloze_chars", "cloze_sum", "cloze_bytes"):
        assert mine[measure]["all"] == theirs[measure]["all"], measure


def test_the_items_and_what_they_were_asked_come_back(runs: tuple[Run, Run]) -> None:
    ours, back = runs
    assert sorted(ours.items or (), key=lambda i: i.id) == sorted(back.items or (), key=lambda i: i.id)
    assert back.manifest["templates"].items() <= ours.manifest["templates"].items()
    assert list(back.manifest["models"]) == ["smollm2-135m"]
    assert back.summary["heuristics"]["all"] == ours.summary["heuristics"]["all"]
