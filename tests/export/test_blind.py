"""Tasks that ask any set without its question, before a run: prompts and orders are those of our own screen, and lm-eval's
logs come back as our own picks."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import pyarrow.parquet as pq
import pytest
import yaml

from robustify.base.errors import AuthorisationError, UsageError
from robustify.items.item import Item
from robustify.items.views import Asking
from robustify.models.asking import Planned, plan
from robustify.runs.run import Run, write_items
from tests.export.test_inspect import asked, needs_inspect
from tests.export.test_lm_eval import FLAGGED, KEPT, LM_EVAL, needs_lm_eval
from tests.support.command import invoked
from tests.support.lm_eval_command import run_lm_eval

ITEMS = (*KEPT, *FLAGGED, Item("p3", "Which of these is empty?", ("a full jar", " ", "a lake"), 1, "matter"))


@pytest.fixture
def items(tmp_path: Path) -> Path:
    write_items(tmp_path / "quiz.jsonl", ITEMS)
    return tmp_path / "quiz.jsonl"


def asked_by(folder: Path, tree: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...], int]]:
    """Each prompt of a task: its context, its continuations, and the position of the right one."""
    rows = [
        row for name in tree["dataset_kwargs"]["files"] for row in pq.read_table(folder / name).to_pylist()
    ]
    by_letter = tree["doc_to_choice"] != "choices"

    def prompt(row: Mapping[str, Any]) -> tuple[str, tuple[str, ...], int]:
        text = jinja2.Environment(keep_trailing_newline=True).from_string(tree["doc_to_text"]).render(**row)
        options = "ABCDEFGH"[: len(row["choices"])] if by_letter else row["choices"]
        continuations = tuple(tree["target_delimiter"] + option for option in options)
        return tree["description"] + text, continuations, row["key"]

    return [prompt(row) for row in rows]


def test_each_prompt_of_the_screen_is_asked_once_and_no_other(items: Path, tmp_path: Path) -> None:
    done = invoked("export", "lm-eval", items, "--blind", "-o", tmp_path / "tasks")
    assert done.exception is None
    texts = [path.read_text("utf-8") for path in sorted((tmp_path / "tasks").glob("*.yaml"))]
    trees = [yaml.safe_load(text.replace("!function ", "")) for text in texts]
    turns = [f"letters_{turn}" for turn in range(5)]
    assert [tree["task"] for tree in trees] == [f"quiz_blind_{name}" for name in (*turns, "texts")]
    theirs = sorted(one for tree in trees for one in asked_by(tmp_path / "tasks", tree))

    def asked(p: Planned) -> tuple[str, tuple[str, ...], int]:
        right = p.order.index(p.item.key) if p.template.by_letter else p.item.key
        return p.requests[0].context, tuple(r.continuation for r in p.requests), right

    planned = plan(ITEMS, Asking(views=("choices_only", "choices_only_text")))
    assert theirs == sorted(asked(p) for p in planned if p.requests)
    assert not any(word in prompt for prompt, *_ in theirs for word in ("planet", "spider", "liquid"))


def test_a_run_is_exported_as_before_and_blind_only_if_asked(run: Run, items: Path, tmp_path: Path) -> None:
    assert invoked("export", "lm-eval", run.folder, "--kept", "-o", tmp_path / "run").exception is None
    assert (tmp_path / "run" / "lm_eval_tasks").is_dir()
    assert invoked("export", "lm-eval", run.folder, "--blind", "-o", tmp_path / "blind").exception is None
    data = pq.read_table(next((tmp_path / "blind").glob("*_blind_letters_0.parquet")))
    assert set(data["id"].to_pylist()) == {item.id for item in run.items or ()}
    # A name of a sensitive set is refused, too, and nothing is written.
    for words, error in (([items], UsageError), (["lm-eval:wmdp_bio", "--blind"], AuthorisationError)):
        assert isinstance(invoked("export", "lm-eval", *words, "-o", tmp_path / "none").exception, error)
    assert not (tmp_path / "none").exists()


def test_inspect_asks_the_rotations_of_the_same_orders(items: Path, tmp_path: Path) -> None:
    assert invoked("export", "inspect", items, "--blind", "-o", tmp_path / "tasks").exception is None
    assert {path.name for path in (tmp_path / "tasks").iterdir()} == {"blind.jsonl", "blind.py"}
    compile((tmp_path / "tasks" / "blind.py").read_text("utf-8"), "blind.py", "exec")


@needs_inspect
def test_a_folder_of_inspect_logs_of_all_rotations_comes_back_as_what_the_model_picked(
    items: Path, tmp_path: Path
) -> None:
    invoked("export", "inspect", items, "--blind", "-o", tmp_path / "tasks")
    says = [[item.choices, item.choices[0], None] for item in ITEMS]
    task = {"file": str(tmp_path / "tasks" / "blind.py"), "task": "blind", "says": says, "format": "json"}
    (tmp_path / "plan.json").write_text(
        json.dumps([{**task, "args": {"rotation": turn}} for turn in range(5)])
    )
    asked(tmp_path / "plan.json", tmp_path, with_robustify=True)
    done = invoked("import", tmp_path / "logs", "--data", items, "-o", tmp_path / "run")
    assert done.return_value in (0, 7), done.exception
    rows = pq.read_table(tmp_path / "run" / "answers.parquet").to_pylist()
    rows = [row for row in rows if row["view"] == "choices_only"]
    assert {row["pick"] for row in rows} == {0}
    planned = plan(ITEMS, Asking(views=("choices_only",)))
    assert {(r["item"], tuple(r["order"])) for r in rows} == {(p.item.id, p.order) for p in planned}


@needs_lm_eval
def test_lm_eval_starts_in_any_folder_and_a_folder_of_its_logs_is_one_import(
    items: Path, tmp_path: Path
) -> None:
    invoked("export", "lm-eval", items, "--blind", "-o", tmp_path / "tasks")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tasks").rename(tmp_path / "moved")
    command = f"--include_path {tmp_path / 'moved'} --tasks quiz_blind --model dummy --output_path logs --log_samples"
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    run_lm_eval(LM_EVAL, command, tmp_path / "elsewhere", env)
    (tmp_path / "elsewhere" / "logs" / "notes.txt").write_text("a note")
    done = invoked("import", tmp_path / "elsewhere" / "logs", "--data", items, "-o", tmp_path / "run")
    assert done.return_value in (0, 7)
    assert "notes.txt: not used" in done.output
    rows = pq.read_table(tmp_path / "run" / "answers.parquet").to_pylist()
    views = ("choices_only", "choices_only_text")
    scored = {(r["item"], r["view"], tuple(r["order"])) for r in rows if r["view"] in views}
    planned = plan(ITEMS, Asking(views=views))
    assert scored == {(p.item.id, p.template.view, p.order) for p in planned if p.requests}
