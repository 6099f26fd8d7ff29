"""Export the splits of a run as lm-eval and Inspect tasks, and the hashed splits of a restricted run as lm-eval tasks.

An lm-eval task is YAML with the text of the run's template. A module in its folder finds its data, wherever lm-eval is
started. The names of data files depend on the set, the signature, and the content, so that a task does not find the data of
another export. A task of a restricted run contains no text and needs no module. Its loader, a function of the installed
package, finds the items in the reader's copy of the set with the reader's key.
"""

import re
import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from robustify.base.files import write_text
from robustify.base.settings_files import DATA_FUNCTION, DATA_MODULE
from robustify.export import writing
from robustify.export.writing import AsFreeRows, FreeRows, Heading, commented, write_parquet
from robustify.items.item import Item, item_row
from robustify.items.views import BEFORE_A_QUESTION, NO_PASSAGE, Hidden, View, template
from robustify.judging.cloze import Profile
from robustify.runs.run import Run, write_lines

VERSION = 1
_ALL = ("kept", "flagged", "undecided")
LETTERS = f"{{% set letters = '{string.ascii_uppercase}' %}}"
"""Template prefix that defines the letters, because lm-eval passes only the fields of an item."""
_LETTER_LIST = f"{{{{ '{string.ascii_uppercase}'[:choices | length] | list }}}}"


@dataclass(frozen=True, slots=True)
class SplitTask:
    """An lm-eval task that asks the items of splits in one view, with the view's default template or another template."""

    ending: str
    splits: tuple[str, ...]
    view: View
    says: str
    template: str | None = None


TASKS = (
    SplitTask("all", _ALL, "full", "all items, full question, answered by letter"),
    SplitTask("kept", ("kept",), "full", "the kept items, full question, answered by letter"),
    SplitTask("flagged", ("flagged",), "full", "the flagged items, full question, answered by letter"),
    SplitTask("kept_choices_only", ("kept",), "choices_only",
              "the kept items without their question, in the benchmark's own order"),
    SplitTask("cloze", ("cloze",), "cloze", "the items that can be asked without choices, by their texts"),
)  # fmt: skip
_GRADED = (
    "robustify's graders read the replies: numbers within 5 %, units, whole words; no judge. acc is over the replies",
    "that they can decide, decided is the share of those; acc_low and acc_high take the others as wrong and as right.",
    "lm-eval prints n of all items beside acc: its own n is that times decided. lm-eval does not say whether a reply",
    "was cut off, so a cut-off reply is graded as it stands.",
)
QUESTION = "{% set question = stem[question_at:] %}"
"""Template prefix that defines the question after a passage."""


def tasks_for(hidden: Hidden) -> tuple[SplitTask, ...]:
    """Return the tasks of a run, given the part of each item that its screen hid."""
    if hidden not in BEFORE_A_QUESTION:
        return TASKS
    says = f"the kept items without their {hidden}, in the benchmark's own order"
    without = SplitTask("kept_choices_only", ("kept_passages",), "choices_only", says, NO_PASSAGE)
    return tuple(without if task.ending == without.ending else task for task in TASKS)


def write_tasks(
    folder: Path,
    heading: Heading,
    splits: Mapping[str, Sequence[Item]],
    hidden: Hidden = "question",
) -> None:
    """Write the data of each split that has items, and one YAML file per task. `hidden` is the part that the screen hid."""
    tag = task_name(heading.benchmark, "robustify")
    folder.mkdir(parents=True, exist_ok=True)
    if hidden in BEFORE_A_QUESTION:
        splits = {**splits, "kept_passages": [item for item in splits["kept"] if item.question is not None]}
    data = {
        split: write_data(folder, heading, split, [item_row(item) for item in items])
        for split, items in splits.items()
        if items
    }
    write_module(folder)
    for task in tasks_for(hidden):
        if not (paths := [data[split] for split in task.splits if split in data]):
            continue
        name, used = task_name(heading.benchmark, task.ending), template(task.view, task.template)
        prompt = f"Prompt: template {used.view}/{used.name}, sha256 {used.digest}."
        all_tasks = f"All tasks of this run at once: --tasks {tag}"
        head = [*heading.lines(f"{task.says}.", prompt), START, all_tasks]
        write_yaml(folder / f"{name}.yaml", head, task_tree(name, task, beside(paths), tag=tag))


def write_data(folder: Path, heading: Heading, split: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write the rows of a split as Parquet. Return the name of the file."""
    return write_parquet(folder, task_name(heading.benchmark, split), rows, heading.signature)


def write_yaml(path: Path, head: Sequence[str], tree: Mapping[str, Any]) -> Path:
    """Write a tree to a YAML file, below header comments. Return its path."""
    body = yaml.dump(tree, Dumper=_Quoted, sort_keys=False, allow_unicode=False, width=10_000)
    path.write_text(commented(head) + body, encoding="utf-8", newline="\n")
    return path


def task_name(benchmark: str, ending: str) -> str:
    """Return a task name: `demo-benign` and `kept` become `demo_benign_kept`."""
    return f"{re.sub(r'[^a-z0-9]+', '_', benchmark.lower()).strip('_') or 'benchmark'}_{ending}"


def task_tree(name: str, task: SplitTask, data: Mapping[str, Any], *, tag: str = "") -> dict[str, Any]:
    """Build the YAML tree of a task. `data` contains its dataset options, and `tag` groups tasks."""
    used = template(task.view, task.template)
    words = yaml.safe_load(
        (files("robustify.items") / "templates" / task.view / f"{used.name}.yaml").read_bytes()
    )
    prefix = LETTERS * used.by_letter + QUESTION * used.hides_passage
    return {
        "task": name,
        **({"tag": [tag]} if tag else {}),
        **data,
        "test_split": "test",
        "output_type": "multiple_choice",
        "num_fewshot": 0,
        "description": words["description"],
        "doc_to_text": prefix + words["context"],
        "doc_to_choice": _LETTER_LIST if used.by_letter else "choices",
        "doc_to_target": "key",
        "target_delimiter": words["continuation"].split("{")[0],
        "metric_list": accuracies("acc", *[] if used.by_letter else ["acc_norm"]),
        "metadata": {"version": VERSION},
    }


def accuracies(*metrics: str) -> list[dict[str, Any]]:
    """Return the lm-eval metrics of a task: averaged accuracies, for which higher is better."""
    return [{"metric": m, "aggregation": "mean", "higher_is_better": True} for m in metrics]


class _Quoted(yaml.SafeDumper):
    """YAML dumper that puts text with line breaks in double quotes, because lm-eval would misread it in single quotes."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if set(text) & set("\n{'\" ") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


class Function(str):
    """Name of a function that lm-eval imports."""


_Quoted.add_representer(str, _quoted)
_Quoted.add_representer(Function, lambda dumper, name: dumper.represent_scalar("!function", str(name)))


START = (
    "Start it in any folder: lm_eval run --include_path THIS_FOLDER --tasks TASK --model hf --model_args ..."
)
"""Comment on how to start a task."""


def beside(files: Sequence[str]) -> dict[str, Any]:
    """Return the dataset options of a task with these files in its folder, which the module of `write_module` reads."""
    return {"custom_dataset": Function(DATA_FUNCTION), "dataset_kwargs": {"files": list(files)}}


def write_module(folder: Path) -> None:
    """Write the Python module that finds the data of the tasks in its folder."""
    ours = files("robustify.reading") / "harness" / "data_beside.py"
    write_text(folder / DATA_MODULE, ours.read_text(encoding="utf-8"))


LOADER = Function("robustify.restricted.loader.local_items")

_GRADER = Function("robustify.freeform.free_grading.process_results")
HEAD = (
    "No text is here. The items come from your own copy of the set, found with your own key at run time:",
    "  ROBUSTIFY_KEY_FILE, the data folder that the adapter names, ROBUSTIFY_ADAPTERS; robustify restricted license show",
    "Do not use --log_samples, --write_out, --use_cache or --cache_requests: they write texts, or plain digests of",
    "them, to disk.",
)


def write_restricted_tasks(
    folder: Path, heading: Heading, splits: Collection[str], profile: Profile, hidden: Hidden = "question"
) -> None:
    """Write the lm-eval tasks of a restricted run. `splits` are the names of the splits in `../splits`. Cloze has no split,
    so its task names all items and the `profile`, with which the loader skips items. There is no cloze task for the profile
    `labels`, because human decisions are not exported."""
    folder.mkdir(parents=True, exist_ok=True)
    for task in tasks_for(hidden):
        cloze, says = task.view == "cloze", f"{task.says}."
        wanted = _ALL if cloze else ("kept",) if task.template else task.splits
        missing = [split for split in wanted if split not in splits]
        present = [split for split in wanted if split in splits]
        if (cloze and profile == "labels") or not present or set(missing) - {"undecided"}:
            continue
        if missing:
            says = f"{task.says}, but for the undecided, too few to be shown."
        name = task_name(heading.benchmark, task.ending)
        only = {"cloze": profile} if cloze else {"passages": True} if task.template else {}
        kwargs = {"splits": [f"splits/{split}.json" for split in present], **only}
        data = {"custom_dataset": LOADER, "dataset_kwargs": kwargs}
        tree = task_tree(name, task, data, tag=task_name(heading.benchmark, "robustify"))
        write_yaml(folder / f"{name}.yaml", heading.lines(says, *HEAD, START), tree)


def write_free_task(folder: Path, heading: Heading, free: FreeRows) -> None:
    """Write the lm-eval task for these questions, with its data. If there are no questions, write nothing."""
    if not free.rows:
        return
    name = task_name(heading.benchmark, "kept_free_graded")
    says = heading.lines(f"the kept items without options, answered in words; {free.says}.", *_GRADED)
    tree = {
        "task": name,
        **beside([write_data(folder, heading, "kept_free", free.rows)]),
        "test_split": "test",
        "output_type": "generate_until",
        "num_fewshot": 0,
        "doc_to_text": "prompt",
        "doc_to_target": "reference",
        "generation_kwargs": {"until": ["</s>"], "do_sample": False, "max_gen_toks": 512},
        "process_results": _GRADER,
        "metric_list": accuracies("acc", "decided", "acc_low", "acc_high"),
        "metadata": {"version": VERSION},
    }
    write_module(folder)
    write_yaml(folder / f"{name}.yaml", [*says, START], tree)


@writing.exporter("lm-eval", writing.KEPT, writing.TRIM, writing.BLIND, asks_free=True)
def export_lm_eval(
    run: Run, folder: Path, as_free: AsFreeRows, kept: bool = False, trim: bool = False
) -> list[Path]:
    """Write tasks for lm-eval.

    The tasks run offline. They contain the kept, flagged, and cloze items, the kept items without their
    question, and the kept questions without options for free-text answers.

    \b
    Examples:
        robustify export lm-eval results/demo -o tasks
        lm_eval run --include_path tasks/lm_eval_tasks --tasks demo_benign_kept
    """
    with writing.exporting(run, folder, kept) as (staging, heading):
        tasks = staging / "lm_eval_tasks"
        splits = {name: writing.exported_items(run, name, trim) for name in writing.SPLITS}
        write_tasks(tasks, heading, splits, run.manifest["config"].get("hidden", "question"))
        write_free_task(tasks, heading, as_free(splits["kept"]))
    return writing.files_of(folder)


@writing.exporter("inspect", writing.KEPT, writing.TRIM, writing.BLIND, asks_free=True)
def export_inspect(
    run: Run, folder: Path, as_free: AsFreeRows, kept: bool = False, trim: bool = False
) -> list[Path]:
    """Write tasks for Inspect, with a Python file per split.

    \b
    Example:
        robustify export inspect results/demo -o tasks
        inspect eval tasks/kept.py --model MODEL
    """
    with writing.exporting(run, folder, kept) as (staging, heading):
        splits = {name: writing.exported_items(run, name, trim) for name in writing.SPLITS if name != "cloze"}
        write_inspect(staging, heading, splits, as_free)
    return writing.files_of(folder)


def write_inspect(
    folder: Path, heading: Heading, splits: Mapping[str, Sequence[Item]], as_free: AsFreeRows
) -> None:
    """Write an Inspect task file and its data for each split with items, and for kept items that can be asked without
    options. A task file contains no item text. Choices may be shuffled, because logs are matched by their text."""
    free = as_free(splits["kept"])
    tasks = [
        (split, tuple(map(item_row, items)), f"the {split} items as an Inspect task.")
        for split, items in splits.items()
    ]
    tasks.append(("kept_free", free.rows, f"the kept items without options; {free.says}."))
    for split, rows, says in tasks:
        if rows:
            write_lines(folder / f"{split}.jsonl", rows)
            form = f"inspect_{'free' if split == 'kept_free' else 'split'}.py.j2"
            head, name = commented(heading.lines(says)), task_name(heading.benchmark, split)
            text = writing.ENVIRONMENT.get_template(form).render(
                head=head, split=split, name=name, version=VERSION
            )
            write_text(folder / f"{split}.py", text)
