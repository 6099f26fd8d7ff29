"""Logs that real lm-eval and real Inspect write of their own templates: `lint` is silent on them, and finds planted errors.

The items are made up, in the columns of the sets for which lm-eval's tasks were written.
"""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
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
from tests.support.cases import contents

Doc = Mapping[str, object]
N = 14
LETTERS = "ABCDE"


def _mmlu(item: HouseItem) -> Doc:
    return {"id": item.number, "question": item.question, "choices": [*item.options], "answer": item.key}


def _labelled(stem: str) -> Callable[[HouseItem], Doc]:
    def doc(item: HouseItem) -> Doc:
        labels = [*LETTERS[: len(item.options)]]
        return {
            stem: item.question,
            "choices": {"text": [*item.options], "label": labels},
            "answerKey": LETTERS[item.key],
        }

    return doc


def _sciq(item: HouseItem) -> Doc:
    others = [text for index, text in enumerate(item.options) if index != item.key]
    distractors = {f"distractor{n}": text for n, text in enumerate(others, start=1)}
    support = f"The family keeps object {item.number} in a room of its own."
    return {
        "support": support,
        "question": item.question,
        "correct_answer": item.options[item.key],
        **distractors,
    }


def _truthful(item: HouseItem) -> Doc:
    texts = [item.options[item.key], *(text for text in item.options if text != item.options[item.key])]
    return {"question": item.question, "mc1_targets": {"choices": texts, "labels": [1, 0, 0, 0]}}


def _medical(item: HouseItem) -> Doc:
    options = dict(zip(("opa", "opb", "opc", "opd"), item.options, strict=True))
    return {"question": item.question, "cop": item.key, **options}


MMLU = "mmlu/default/_default_template_yaml"
CLEAN: dict[str, tuple[str, Callable[[HouseItem], Doc], int]] = {
    "letters": (MMLU, _mmlu, 4),
    "continuation": ("mmlu/continuation/_continuation_template_yaml", _mmlu, 4),
    "arc": ("arc/arc_easy.yaml", _labelled("question"), 4),
    "sense": ("commonsense_qa/default.yaml", _labelled("question"), 5),
    "book": ("openbookqa/openbookqa.yaml", _labelled("question_stem"), 4),
    "science": ("sciq/sciq.yaml", _sciq, 4),
    "truthful": ("truthfulqa/truthfulqa_mc1.yaml", _truthful, 4),
    "medical": ("medmcqa/medmcqa.yaml", _medical, 4),
}
"""Templates that lm-eval ships, with the columns that they read and the number of options."""
_LINES = "{{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\n"
_WHOLE = _LINES + "D. {{choices[3]}}\nAnswer:"
PLANTED: dict[str, tuple[str, dict[str, object]]] = {
    "no_option": ("L001", {"doc_to_text": f"{_LINES}Answer:"}),
    "wrong_range": ("L003", {"description": "Reply with one of ABCDE.\n\n"}),
    "own_example": ("L004", {"num_fewshot": 3, "fewshot_split": "again"}),
    "no_question": ("L006", {"doc_to_text": _WHOLE.partition("\n")[2]}),
    "spaced": ("L018", {"doc_to_text": f"{_WHOLE} ", "target_delimiter": ""}),
    "repeated": ("L020", {"test_split": "twice"}),
    "printed_key": ("L022", {"doc_to_text": "Record {{id}}, right answer: {{answer}}\n" + _WHOLE}),
    "next_labels": (
        "L023",
        {
            "doc_to_text": "{{question}}\n(B) {{choices[0]}}\n(C) {{choices[1]}}\n(D) {{choices[2]}}\n(E) {{choices[3]}}\n"
        },
    ),
}
"""Settings that break the template of MMLU, and the rule that should find it."""


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
    for name, (template, doc, k) in CLEAN.items():
        items = house_items(N + 4, k)
        docs = {"test": [*map(doc, items[:N])], "examples": [*map(doc, items[N:])]}
        more = {"num_fewshot": 3 if name in ("letters", "arc") else 0, "fewshot_split": "examples"}
        _write_task(place / "tasks", name, str(shipped / template), docs, more)
    rows = [*map(_mmlu, house_items(N))]
    for name, (_, more) in PLANTED.items():
        docs = {"test": rows, "again": rows, "twice": [*rows, *rows[:3]]}
        _write_task(place / "tasks", name, str(shipped / MMLU), docs, {"fewshot_split": "again", **more})
    names = ",".join(f"house_{name}" for name in (*CLEAN, *PLANTED))
    command = ["-m", "lm_eval", "run", "--include_path", "tasks", "--tasks", names, "--model", "dummy"]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "hf")}
    done = subprocess.run(
        [str(LM_EVAL), *command, "--log_samples", "--output_path", "logs"],
        cwd=place,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
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
@pytest.mark.parametrize(("name", "code"), [(name, code) for name, (code, _) in PLANTED.items()])
def test_a_broken_template_of_lm_eval_is_found_in_its_log(name: str, code: str, lm_eval_logs: Path) -> None:
    [log] = lm_eval_logs.rglob(f"samples_house_{name}_*.jsonl")
    assert {finding.code for finding in linted([log])} == {code}


@needs_lm_eval
def test_a_folder_of_all_logs_has_the_planted_errors_and_no_others(lm_eval_logs: Path) -> None:
    codes = {finding.code for finding in linted(files_in(str(lm_eval_logs)))}
    assert codes == {code for code, _ in PLANTED.values()}


INSPECTED: dict[str, set[str]] = {
    "plain": set(),
    "thinking": set(),
    "shuffled": set(),
    "wrong_range": {"L003"},
    "pointer": {"L013"},
}


@needs_inspect
def test_logs_of_inspect_are_clean_and_planted_errors_are_found(tmp_path: Path) -> None:
    rows = [*map(_mmlu, house_items(20))]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    (tmp_path / "made.py").write_text(contents("harness_tasks")["linted"])
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
