"""The lm-eval task of the composed MMLU-Pro on made-up rows, and lm-eval on tasks of a restricted run: no copy is made."""

import csv
import importlib.util
import json
import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench.compose import PUBLISHED, write_indices
from robustify.items.item import Item
from robustify.restricted.ids import read_split
from tests.support import restricted_run, restricted_set
from tests.support.cases import refuses
from tools.tasks import BY_HAND, FOLDER

CSV = PUBLISHED.name


FIELDS = ("question_id", "question", "options", "answer_index", "answer", "category")


def rows(n: int) -> list[dict[str, Any]]:
    """Rows of ten options, in which option `at % 10` is right."""
    made = []
    for at in range(n):
        boxes, key = [f" box {at} {name}" for name in "abcdefghij"], at % 10
        cells = (70 + at, f" Which box has the number {at}?", boxes, key, "ABCDEFGHIJ"[key], "boxes")
        made.append(dict(zip(FIELDS, cells, strict=True)))
    return made


def written(folder: Path, n: int) -> list[dict[str, Any]]:
    """Write the indices of four options of each row: the right one, and the three after it."""
    public, items, composed = rows(n), [], []
    for row in public:
        key, options = row["answer_index"], tuple(text.strip() for text in row["options"])
        items.append(Item(f"mmlupro-{row['question_id']}", row["question"], options, key))
        composed.append(items[-1].with_choices(tuple(options[(key + step) % 10] for step in (2, 0, 3, 1)), 1))
    write_indices(folder / CSV, items, composed)
    return public


@pytest.fixture
def task(tmp_path: Path) -> ModuleType:
    """The module of the task in a folder of its own, in which its CSV lies beside it."""
    path = Path(shutil.copy(FOLDER / BY_HAND / "composed_options.py", tmp_path))
    spec = importlib.util.spec_from_file_location("composed_options", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_question_gets_the_options_that_the_file_names(task: ModuleType, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    public = written(tmp_path, 12)
    made = task.process_docs(datasets.Dataset.from_list([*public, {**public[0], "question_id": 9}]))
    assert made["question_id"] == [row["question_id"] for row in public]
    assert made[3]["options"] == ["box 3 f", "box 3 d", "box 3 g", "box 3 e"]
    assert {(row["answer_index"], row["answer"]) for row in made} == {(1, "B")}


def test_a_changed_question_is_left_out_with_a_warning_and_many_are_refused(
    task: ModuleType, tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets")
    public = written(tmp_path, 150)
    public[4]["options"][0] = "another box"
    with pytest.warns(UserWarning, match="1 of 150 questions were changed"):
        assert 74 not in task.process_docs(datasets.Dataset.from_list(public))["question_id"]
    for row in public[:20]:
        row["answer_index"] = (row["answer_index"] + 5) % 10
    with pytest.raises(ValueError, match="130 of the 150 questions"):
        task.process_docs(datasets.Dataset.from_list(public))


@pytest.mark.oracle
def test_lm_eval_asks_the_composed_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = pytest.importorskip("lm_eval.tasks")
    folder = tmp_path / "task"
    shutil.copytree(FOLDER / BY_HAND, folder)
    data = tmp_path / "test.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in written(folder, 12)))
    page = folder / "mmlu_pro_composed.yaml"
    source = f"dataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {data}"
    page.write_text(page.read_text().replace("dataset_path: TIGER-Lab/MMLU-Pro", source))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    manager = tasks.TaskManager(include_path=str(folder), include_defaults=False)
    found = manager.load_task_or_group(["mmlu_pro_composed"])["mmlu_pro_composed"]
    doc = found.test_docs()[3]
    assert found.doc_to_text(doc) == (
        "Which box has the number 3?\nA. box 3 f\nB. box 3 d\nC. box 3 g\nD. box 3 e\nAnswer:"
    )
    assert (found.doc_to_choice(doc), found.doc_to_target(doc)) == (["A", "B", "C", "D"], 1)


def test_the_published_indices_are_of_four_different_options() -> None:
    with PUBLISHED.open(newline="") as file:
        table = list(csv.DictReader(file))
    audit = json.loads(PUBLISHED.with_suffix(".json").read_text())
    assert len(table) == audit["items"] == len({row["question_id"] for row in table})
    places = [[int(at) for at in row["options"].split()] for row in table]
    assert all(len(set(one)) == 4 and max(one) < 10 for one in places)
    assert len({int(row["check"]) for row in table}) > 0.98 * len(table)


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
    every = sizes["kept"] + sizes["flagged"]
    expected = {"mock_kept": sizes["kept"], "mock_all": every, "mock_cloze": every}
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
