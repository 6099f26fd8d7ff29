"""lm-eval itself reads the tasks of a restricted run: our prompts, the right items, and no copy of them on disk."""

import os
from pathlib import Path

import pytest

from robustify.restricted.ids import read_split
from tests.support import restricted_run, restricted_set
from tests.support.cases import refuses


@pytest.mark.oracle
def test_lm_eval_gets_the_items_of_the_split_and_leaves_no_copy(
    restricted: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HF_HOME", "HF_DATASETS_CACHE", "XDG_CACHE_HOME", "TMPDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    lm_eval_tasks = pytest.importorskip("lm_eval.tasks")
    run = restricted / "out" / "run"
    monkeypatch.chdir(run)
    before = restricted_run.files(run)
    manager = lm_eval_tasks.TaskManager(include_path=str(run / "lm_eval_tasks"), include_defaults=False)
    loaded = manager.load_task_or_group(["mock_kept", "mock_all", "mock_cloze"])
    stems = {record["question"] for record in restricted_set.items()}
    sizes = {s: len(read_split(run / "splits" / f"{s}.json").ids) for s in ("kept", "flagged")}
    expected = {
        "mock_kept": sizes["kept"],
        "mock_all": sizes["kept"] + sizes["flagged"],
        "mock_cloze": sizes["kept"] + sizes["flagged"],
    }
    for name, n in expected.items():
        docs = list(loaded[name].test_docs())
        assert len(docs) == n
        assert loaded[name].dataset["test"].cache_files == []
        assert {doc["stem"] for doc in docs} <= stems
        assert docs[0]["stem"] in loaded[name].doc_to_text(docs[0])
    ids = {doc["id"] for doc in loaded["mock_kept"].test_docs()}
    assert ids == set(read_split(run / "splits" / "kept.json").ids)
    words = [w.encode() for w in restricted_set.canaries(restricted_set.items())]
    for name, content in restricted_run.files(tmp_path).items():
        assert not [w for w in words if w in content], name
    assert restricted_run.files(run) == before


@pytest.mark.oracle
@pytest.mark.proof
def test_without_the_key_lm_eval_gets_nothing(restricted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROBUSTIFY_KEY_FILE")
    lm_eval_tasks = pytest.importorskip("lm_eval.tasks")
    monkeypatch.chdir(restricted / "out" / "run")
    manager = lm_eval_tasks.TaskManager(include_path="lm_eval_tasks", include_defaults=False)
    with refuses("missing-ids-key"):
        manager.load_task_or_group(["mock_kept"])
    assert "ROBUSTIFY_KEY_FILE" not in os.environ
