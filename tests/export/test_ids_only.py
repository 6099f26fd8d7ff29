"""Tasks that filter lm-eval's own set by id: no text in them, and real lm-eval asks those items alone."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from robustify.errors import AuthorisationError
from robustify.export.ids_only import export_ids_only
from robustify.run import Run
from tests.export.test_lm_eval import HAS_LM_EVAL, lm_eval, logged, results_of
from tests.support.exported_run import made_run, made_up
from tests.support.fake_logs import jsonl

UPSTREAM = "boxes_upstream"
WHOLE: dict[str, Any] = {
    "task": UPSTREAM,
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"validation": "upstream.jsonl", "train": "shots.jsonl"}},
    "validation_split": "validation",
    "fewshot_split": "train",
    "num_fewshot": 1,
    "output_type": "multiple_choice",
    "doc_to_text": "{{ask}}\nSo:",
    "doc_to_choice": "texts",
    "doc_to_target": "right",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}


def upstream(folder: Path, n: int = 60) -> Path:
    """The benchmark under another owner's field names, in another order, with examples of its own."""
    rows = [{"code": i.id, "ask": i.stem, "texts": list(i.choices), "right": i.key} for i in made_up(n)]
    jsonl(folder / "upstream.jsonl", rows[::-1])
    jsonl(folder / "shots.jsonl", [{"code": "s", "ask": "An example?", "texts": ["yes", "no"], "right": 0}])
    return folder


def test_no_text_of_an_item_is_written_and_a_run_without_text_will_do(run: Run, tmp_path: Path) -> None:
    bare = made_run(tmp_path / "bare", text=False)
    for n, one in enumerate((run, bare)):
        paths = export_ids_only(one, tmp_path / f"out{n}", UPSTREAM, "code")
        assert [p.name for p in paths] == [
            *(
                f"{UPSTREAM}_{split}.{ending}"
                for split in ("robust", "shortcut")
                for ending in ("json", "yaml")
            ),
            "robust_subset.py",
        ]
        written = "".join(p.read_text("utf-8") for p in paths)
        assert not any(text in written for i in made_up() for text in (i.stem, *i.choices) if len(text) > 4)
    ids = json.loads((tmp_path / "out0" / f"{UPSTREAM}_robust.json").read_text("utf-8"))["ids"]
    assert set(ids) == {item for item, verdict in run.verdicts.items() if verdict == "robust"}


def test_a_restricted_run_gives_no_ids(run: Run, tmp_path: Path) -> None:
    config = {**run.manifest["config"], "sensitivity": "restricted"}
    with pytest.raises(AuthorisationError):
        export_ids_only(Run(run.folder, {**run.manifest, "config": config}), tmp_path / "out", UPSTREAM)


needs_lm_eval = pytest.mark.skipif(not HAS_LM_EVAL, reason="lm-eval is not installed")


@pytest.fixture(scope="module")
def place(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = upstream(tmp_path_factory.mktemp("ids"))
    export_ids_only(run, folder / "lm_eval_tasks", UPSTREAM, "code")
    (folder / "lm_eval_tasks" / "upstream.yaml").write_text(yaml.safe_dump(WHOLE))
    return folder


@needs_lm_eval
@pytest.mark.slow
@pytest.mark.oracle
def test_lm_eval_asks_the_items_of_these_ids_as_its_own_task_asks_them(place: Path, run: Run) -> None:
    names = [UPSTREAM, f"{UPSTREAM}_robust", f"{UPSTREAM}_shortcut"]
    lm_eval(place, "--model", "dummy", tasks=names)
    whole, robust, shortcut = ({r["doc"]["code"]: r for r in logged(place, name)} for name in names)
    assert len(whole) == 60
    for split, rows in (("robust", robust), ("shortcut", shortcut)):
        assert set(rows) == {item for item, verdict in run.verdicts.items() if verdict == split}
        assert all(row["arguments"] == whole[item]["arguments"] for item, row in rows.items())
        assert all("An example?" in row["arguments"]["gen_args_0"]["arg_0"] for row in rows.values())
    assert results_of(place)["n-samples"][f"{UPSTREAM}_robust"]["effective"] == len(robust)


@needs_lm_eval
@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize(
    ("n", "field", "says"),
    [(50, "code", "the upstream set lacks"), (60, "uid", "no field `uid`; found code")],
)
def test_another_version_of_the_set_is_an_error_and_no_smaller_set(
    run: Run, tmp_path: Path, n: int, field: str, says: str
) -> None:
    upstream(tmp_path, n)
    export_ids_only(run, tmp_path / "lm_eval_tasks", UPSTREAM, field)
    (tmp_path / "lm_eval_tasks" / "upstream.yaml").write_text(yaml.safe_dump(WHOLE))
    with pytest.raises(AssertionError, match=says):
        lm_eval(tmp_path, "--model", "dummy", tasks=[f"{UPSTREAM}_robust"])
