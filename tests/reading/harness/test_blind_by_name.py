"""Blind tasks of sets that are only named: real lm-eval and real Inspect ask them, and their logs are our own picks."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from robustify.items.item import Item
from robustify.items.views import Asking
from robustify.models.asking import ask, plan
from tests.export.test_inspect import asked
from tests.reading.harness.made_tasks import docs, write_tasks
from tests.reading.harness.test_by_name import INSPECT, LM_EVAL, called, needs_inspect, needs_lm_eval
from tests.support.model_cache import hf, model_folder

VIEWS = ("choices_only", "choices_only_text")
Picks = dict[tuple[str, str, tuple[int, ...]], int | None]
"""Pick of a model by the item, the view, and the order of the options."""


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_tasks(tmp_path)
    (tmp_path / "sums.jsonl").write_text("".join(f"{json.dumps(doc)}\n" for doc in docs(9)))
    monkeypatch.chdir(tmp_path)
    for name, value in {"HF_HUB_OFFLINE": "1", "HF_HOME": tmp_path / "hf"}.items():
        monkeypatch.setenv(name, str(value))
    return tmp_path


def robustify(python: str | None, *arguments: object) -> None:
    done = called(python, *arguments)
    # The state of a run on nine items does not matter.
    assert done.returncode in (0, 7), done.stderr


def imported_picks(folder: Path) -> Picks:
    rows = pq.read_table(folder / "answers.parquet").to_pylist()
    return {
        (row["item"], row["view"], tuple(row["order"])): row["pick"] for row in rows if row["view"] in VIEWS
    }


def own_items(rows: Sequence[dict[str, Any]]) -> list[Item]:
    return [Item(row["id"], row["stem"], tuple(row["choices"]), row["key"], row["topic"]) for row in rows]


@needs_lm_eval
@pytest.mark.oracle
@pytest.mark.slow
def test_lm_eval_picks_what_our_own_engine_picks_on_a_task_that_is_only_named(tasks: Path) -> None:
    model = model_folder("smollm2-135m")
    named = ("lm-eval:made_letters", "--include-path", tasks)
    robustify(LM_EVAL, "export", "lm-eval", *named, "--blind", "-o", "blind")
    [texts] = (tasks / "blind").glob("*_blind_texts.parquet")
    command = [
        "-m",
        "lm_eval",
        "run",
        "--include_path",
        "blind",
        "--tasks",
        texts.name.removesuffix("_texts.parquet"),
    ]
    command += ["--model", "hf", "--model_args", f"pretrained={model},dtype=float32", "--device", "cpu"]
    done = subprocess.run(
        [str(LM_EVAL), *command, "--log_samples", "--output_path", "logs"],
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    robustify(LM_EVAL, "lint", "logs", "--select", "L")
    robustify(LM_EVAL, "import", "logs", "--data", named[0], *named[1:], "-o", "run")
    items = own_items(pq.read_table(texts).to_pylist())
    ours = ask(plan(items, Asking(views=VIEWS)), hf(model, name="ours"))
    assert imported_picks(tasks / "run") == {(row.item, row.view, tuple(row.order)): row.pick for row in ours}


@needs_inspect
def test_inspect_asks_a_task_that_is_only_named_in_our_orders(tasks: Path) -> None:
    named = ("inspect:made.py@sums", "--trust-task-code")
    robustify(INSPECT, "export", "inspect", *named, "--blind", "-o", "blind")
    rows = [json.loads(line) for line in (tasks / "blind" / "blind.jsonl").open()]
    says = [[row["choices"], sorted(row["choices"])[0], None] for row in rows]
    task = {"file": str(tasks / "blind" / "blind.py"), "task": "blind", "says": says, "format": "eval"}
    (tasks / "plan.json").write_text(json.dumps([{**task, "args": {"rotation": turn}} for turn in range(3)]))
    asked(tasks / "plan.json", tasks, with_robustify=False)
    robustify(INSPECT, "lint", "logs", "--select", "L")
    robustify(INSPECT, "import", "logs", "--data", *named, "-o", "run")
    run_items = own_items(
        [
            json.loads(line)
            for name in ("kept", "flagged", "undecided")
            for line in (tasks / "run" / f"{name}.jsonl").open()
        ]
    )
    planned = plan(run_items, Asking(views=("choices_only",)))
    assert imported_picks(tasks / "run") == {
        (question.item.id, "choices_only", question.order): question.item.choices.index(
            sorted(question.item.choices)[0]
        )
        for question in planned
    }
