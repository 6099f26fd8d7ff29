"""Tasks for lm-eval: the splits of a run under our own prompts.

A task is plain YAML over the split file beside it: no code travels, and the prompt is the text of our own
template, so that lm-eval asks what we asked. A split without items gets no task, because lm-eval could not
load it.
"""

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from robustify.errors import DataError
from robustify.export.heading import Heading, commented
from robustify.views import DEFAULT_TEMPLATE, View, template

VERSION = 1
LETTERS = f"{{% set letters = '{string.ascii_uppercase}' %}}"
"""lm-eval gives a template the fields of an item and nothing else, so it has to bring the letters along."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task: a split asked under a view."""

    ending: str
    splits: tuple[str, ...]
    view: View
    says: str


TASKS = (
    Task("all", ("robust", "shortcut", "undecided"), "full", "all items, full question, answered by letter"),
    Task("robust", ("robust",), "full", "the robust items, full question, answered by letter"),
    Task("shortcut", ("shortcut",), "full", "the shortcut items, full question, answered by letter"),
    Task(
        "robust_choices_only",
        ("robust",),
        "choices_only",
        "the robust items without their question, in the benchmark's own order",
    ),
    Task("cloze", ("cloze",), "cloze", "the items that can be asked without choices, by their texts"),
)


def write_tasks(folder: Path, benchmark: str, *, signature: str, warning: str = "") -> list[Path]:
    """Write one YAML a task into `folder`, for the split files in its parent folder; the paths written.

    `warning` (why the export should not be used) goes into the head of every task.

    Raises:
        DataError: none of the split files holds an item.
    """
    found = [(task, data) for task in TASKS if (data := _data(folder.parent, task))]
    if not found:
        raise DataError(
            f"{folder.parent}: no split file with items; expected robust.jsonl or cloze.jsonl of a run"
        )
    folder.mkdir(parents=True, exist_ok=True)
    heading = Heading(benchmark, signature, warning)
    written = []
    for task, data in found:
        name = task_name(benchmark, task.ending)
        tree = task_tree(name, task, data, tag=task_name(benchmark, "robustify"))
        head = [*heading.lines(f"{task.says}.", _prompt(task.view)), *starting(folder.name, name)]
        whole = f"All tasks of this run at once: --tasks {task_name(benchmark, 'robustify')}"
        written.append(write_yaml(folder / f"{name}.yaml", [*head, whole], tree))
    return written


def write_yaml(path: Path, head: list[str], tree: Mapping[str, Any]) -> Path:
    """One YAML file: comments, then the tree; its path."""
    body = yaml.dump(tree, Dumper=_Quoted, sort_keys=False, allow_unicode=False, width=10_000)
    path.write_text(commented(head) + body, encoding="utf-8", newline="\n")
    return path


def task_name(benchmark: str, ending: str) -> str:
    """The task's name: `demo-benign` and `robust` give `demo_benign_robust`."""
    return f"{re.sub(r'[^a-z0-9]+', '_', benchmark.lower()).strip('_') or 'benchmark'}_{ending}"


def _data(folder: Path, task: Task) -> list[str]:
    # A task over several splits stands for their whole, so it needs all of the files; empty ones add nothing.
    paths = [folder / f"{split}.jsonl" for split in task.splits]
    return [p.name for p in paths if p.stat().st_size] if all(p.is_file() for p in paths) else []


def _prompt(view: View) -> str:
    used = template(view)
    return f"Prompt: template {used.view}/{used.name}, sha256 {used.digest}."


def starting(folder: str, name: str) -> list[str]:
    """How a task of this folder is run."""
    return [
        "lm-eval looks for the data from the folder in which it is started, so start it in the folder above",
        "this one, the one that holds the .jsonl files:",
        f"  cd RUN && lm_eval run --include_path {folder} --tasks {name} "
        "--model hf --model_args pretrained=MODEL",
    ]


def task_tree(name: str, task: Task, data: Sequence[str], *, tag: str = "") -> dict[str, Any]:
    """A task as lm-eval reads it: `data` are files beside which it is started, `tag` starts all that carry it."""
    words = _words(task.view)
    by_letter = template(task.view).by_letter
    metrics = ("acc",) if by_letter else ("acc", "acc_norm")
    return {
        "task": name,
        **({"tag": [tag]} if tag else {}),
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": list(data)}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "num_fewshot": 0,
        "description": words["description"],
        "doc_to_text": (LETTERS if by_letter else "") + words["context"],
        "doc_to_choice": f"{{{{ '{string.ascii_uppercase}'[:choices | length] | list }}}}"
        if by_letter
        else "choices",
        "doc_to_target": "key",
        "target_delimiter": words["continuation"].split("{")[0],
        "metric_list": [{"metric": m, "aggregation": "mean", "higher_is_better": True} for m in metrics],
        "metadata": {"version": VERSION},
    }


def _words(view: View) -> dict[str, str]:
    path = files("robustify") / "templates" / view / f"{DEFAULT_TEMPLATE[view]}.yaml"
    return {str(k): str(v) for k, v in yaml.safe_load(path.read_bytes()).items()}


class _Quoted(yaml.SafeDumper):
    """Texts with a line break in double quotes: in single ones lm-eval would get a backslash and an n."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if set(text) & set("\n{'\" ") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Quoted.add_representer(str, _quoted)


class Function(str):
    """A function that lm-eval imports by its name."""


def _function(dumper: yaml.SafeDumper, name: Function) -> yaml.ScalarNode:
    return dumper.represent_scalar("!function", str(name))


_Quoted.add_representer(Function, _function)
