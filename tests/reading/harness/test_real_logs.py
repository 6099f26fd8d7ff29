"""Logs that real lm-eval and real Inspect write of their own templates: `lint` is silent on them, and finds planted errors.

The items are made up, in the columns of the sets for which lm-eval's tasks were written.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.planted_logs import HouseItem, house_items, write_jsonl
from robustify.judging.lint.findings import Finding, log_findings
from robustify.judging.lint.log_rules import LOG_RULES
from robustify.pipeline.linted_logs import as_log, files_in
from robustify.wings import GUARD
from tests.export.test_inspect import asked
from tests.reading.harness.test_by_name import LM_EVAL, needs_inspect, needs_lm_eval
from tests.support.cases import contents, filled_in
from tests.support.lm_eval_command import run_lm_eval

Doc = Mapping[str, object]
N = 14
TASKS = contents("harness_tasks")
CLEAN, PLANTED = TASKS["shipped"], TASKS["planted"]


def _doc(item: HouseItem, template: str = "letters") -> Doc:
    """Return an item in the columns that a template reads."""
    right = item.options[item.key]
    others = [text for text in item.options if text != right]
    names = {
        "number": item.number, "question": item.question, "options": [*item.options], "key": item.key, "right": right,
        "right_first": [right, *others], "labels": [*"ABCDE"[: len(item.options)]], "letter": "ABCDE"[item.key],
        **{f"option{n}": text for n, text in enumerate(item.options)},
        **{f"wrong{n}": text for n, text in enumerate(others, start=1)},
    }  # fmt: skip
    filled: Doc = filled_in(CLEAN[template]["columns"], names)
    return filled


def _write_task(folder: Path, name: str, template: str, docs: Mapping[str, Sequence[Doc]], more: Doc) -> None:
    files = {split: str(write_jsonl(folder / f"{name}_{split}.jsonl", rows)) for split, rows in docs.items()}
    tree = {
        "include": template,
        "task": f"house_{name}",
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": files},
        "training_split": None,
        "validation_split": None,
        "test_split": "test",
        "num_fewshot": 0,
        **more,
    }
    # JSON is YAML.
    (folder / f"{name}.yaml").write_text(json.dumps(tree))


@pytest.fixture(scope="module")
def lm_eval_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the logs of all tasks, each into a folder of its own."""
    place = tmp_path_factory.mktemp("lm_eval")
    (place / "tasks").mkdir()
    origin = subprocess.run(
        [str(LM_EVAL), "-c", "import importlib.util as u; print(u.find_spec('lm_eval').origin)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    shipped = Path(origin).parent / "tasks"
    for name, told in CLEAN.items():
        rows = [_doc(item, name) for item in house_items(N + 4, told["k"])]
        docs = {"test": rows[:N], "examples": rows[N:]}
        more = {"num_fewshot": 3 if name in ("letters", "arc") else 0, "fewshot_split": "examples"}
        _write_task(place / "tasks", name, str(shipped / told["template"]), docs, more)
    rows = [*map(_doc, house_items(N))]
    for name, told in PLANTED.items():
        docs = {"test": rows, "again": rows, "twice": [*rows, *rows[:3]]}
        more = {"fewshot_split": "again", **told["settings"]}
        _write_task(place / "tasks", name, str(shipped / CLEAN["letters"]["template"]), docs, more)
    names = ",".join(f"house_{name}" for name in (*CLEAN, *PLANTED))
    command = f"--include_path tasks --tasks {names} --model dummy --log_samples --output_path logs"
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "hf")}
    run_lm_eval(LM_EVAL, command, place, env)
    return place / "logs"


def linted(paths: Sequence[Path | str]) -> list[Finding]:
    logs = [as_log(str(path), {}, GUARD, certain=True) for path in paths]
    return log_findings([log for log in logs if log], LOG_RULES)


@needs_lm_eval
@pytest.mark.parametrize("name", CLEAN)
def test_logs_of_templates_that_lm_eval_ships_are_clean(name: str, lm_eval_logs: Path) -> None:
    [log] = lm_eval_logs.rglob(f"samples_house_{name}_*.jsonl")
    assert linted([log]) == []


@needs_lm_eval
@pytest.mark.parametrize(("name", "code"), [(name, told["code"]) for name, told in PLANTED.items()])
def test_a_broken_template_of_lm_eval_is_found_in_its_log(name: str, code: str, lm_eval_logs: Path) -> None:
    [log] = lm_eval_logs.rglob(f"samples_house_{name}_*.jsonl")
    assert {finding.code for finding in linted([log])} == {code}


@needs_lm_eval
def test_a_folder_of_all_logs_has_the_planted_errors_and_no_others(lm_eval_logs: Path) -> None:
    codes = {finding.code for finding in linted(files_in(str(lm_eval_logs)))}
    assert codes == {told["code"] for told in PLANTED.values()}


INSPECTED: dict[str, set[str]] = {
    "plain": set(),
    "thinking": set(),
    "shuffled": set(),
    "wrong_range": {"L003"},
    "pointer": {"L013"},
}


@needs_inspect
def test_logs_of_inspect_are_clean_and_planted_errors_are_found(tmp_path: Path) -> None:
    rows = [*map(_doc, house_items(20))]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    (tmp_path / "made.py").write_text(TASKS["linted"])
    says: list[list[Any]] = [[[row["question"]], row["choices"][n % 3], None] for n, row in enumerate(rows)]  # type: ignore[index]
    plans = [
        {"file": str(tmp_path / "made.py"), "task": name, "says": says, "format": "json"}
        for name in INSPECTED
    ]
    (tmp_path / "plan.json").write_text(json.dumps(plans))
    told = asked(tmp_path / "plan.json", tmp_path, with_robustify=True)
    codes = {
        name: {finding.code for finding in linted([log["log"]])}
        for name, log in zip(INSPECTED, told, strict=True)
    }
    assert codes == INSPECTED
