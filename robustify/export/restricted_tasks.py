"""Tasks for lm-eval over a restricted run: our prompts, the hashed splits, and a loader that runs at the reader's.

A task file holds neither text nor code: it names a function of the installed package, which finds the items in the
reader's own copy with the reader's own key. Where either is missing nothing is loaded.
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from robustify.export.heading import Heading
from robustify.export.lm_eval_tasks import TASKS, Function, Task, task_name, task_tree, write_yaml
from robustify.judge.cloze import Profile

LOADER = Function("robustify.restricted.loader.local_items")
HEAD = (
    "No text is here. The items come from your own copy of the set, found with your own key at run time:",
    "  ROBUSTIFY_KEY_FILE, the data folder that the adapter names, ROBUSTIFY_ADAPTERS; robustify licence accept",
    "Do not use --log_samples, --write_out, --use_cache or --cache_requests: they write texts, or plain digests of",
    "them, to disk. Start it in the folder that holds splits/:",
)


def write_restricted_tasks(
    folder: Path, benchmark: str, *, signature: str, there: Collection[str], profile: Profile
) -> list[Path]:
    """The tasks whose splits (`there`, by name) are in `../splits`; the paths written.

    The undecided items are often too few for a split of their own; a task over all items says that it lacks them.
    Cloze has no split: its task names all items and the `profile`, by which the loader leaves out those that cannot be
    asked without choices. Decisions of a person (`labels`) are not here, so that profile has no task.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for task in _tasks(profile):
        present = [name for name in task.splits if name in there]
        if not present or set(task.splits) - set(present) - {"undecided"}:
            continue
        name = task_name(benchmark, task.ending)
        tree = task_tree(name, task, [], tag=task_name(benchmark, "robustify"))
        # The place of `dataset_path`: lm-eval calls the loader with these arguments.
        kwargs = {"splits": [f"splits/{s}.json" for s in present]}
        asked = {
            "custom_dataset": LOADER,
            "dataset_kwargs": kwargs | ({"cloze": profile} if task.view == "cloze" else {}),
        }
        tree = {key: value for key, value in tree.items() if key not in ("dataset_path", "dataset_kwargs")}
        run = (
            f"  cd RUN && lm_eval run --include_path {folder.name} --tasks {name} --model hf --model_args ..."
        )
        says = (
            task.says
            if len(present) == len(task.splits)
            else f"{task.says}, but for the undecided, too few to be shown"
        )
        head = Heading(benchmark, signature).lines(f"{says}.", *HEAD, run)
        written.append(write_yaml(folder / f"{name}.yaml", head, {**tree, **asked}))
    return written


def _tasks(profile: Profile) -> list[Task]:
    whole = next(task.splits for task in TASKS if task.ending == "all")
    asked = [replace(task, splits=whole) if task.view == "cloze" else task for task in TASKS]
    return [task for task in asked if task.view != "cloze" or profile != "labels"]
