"""A group of lm-eval tasks for a split: one task a topic, and the group's accuracy is that of the split.

The items of all topics stand in one JSON file, each topic under a name of its own, so that no topic names a file.
Small topics share one task: none is left out, or the group would be of fewer items than the split.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robustify.export.heading import Heading, one_line
from robustify.export.lm_eval import TASKS, VERSION, Task, starting, task_name, write_yaml

Row = Mapping[str, Any]
FEWEST = 10
"""Items of a topic below which its accuracy says nothing by itself."""
GROUPED = ("robust", "cloze")
OTHER = "other"
UNNAMED = "without topic"
LONGEST = 60


def write_topics(folder: Path, heading: Heading, splits: Mapping[str, Sequence[Row]]) -> list[Path]:
    """One group for each of the robust and the cloze split that has two topics or more; the paths written.

    `folder` holds the tasks of the splits, its parent their data; `splits` are the rows of their files.
    """
    written = []
    for task in TASKS:
        if task.ending not in GROUPED:
            continue
        parts = topic_parts(splits[task.ending])
        if len(parts) > 1:
            written += _group(folder, heading, task, parts)
    return written


def topic_parts(rows: Sequence[Row]) -> dict[str, tuple[str, list[Row]]]:
    """The rows of each topic under a plain name, with the topic as it is shown; small topics are one part, the last."""
    held: dict[str, list[Row]] = {}
    for row in rows:
        held.setdefault(str(row["topic"]), []).append(row)
    parts: dict[str, tuple[str, list[Row]]] = {}
    rest: list[Row] = []
    for topic in sorted(held):
        if len(held[topic]) < FEWEST:
            rest += held[topic]
        else:
            parts[_free_name(topic, parts)] = (topic.strip() or UNNAMED, held[topic])
    if rest:
        parts[_free_name(OTHER, parts)] = (f"topics of fewer than {FEWEST} items", rest)
    return parts


def topic_task(whole: str, name: str) -> str:
    """The task of a topic of the task `whole`; no other task is called so."""
    return f"{whole}_topic_{name}"


def _free_name(topic: str, taken: Mapping[str, object]) -> str:
    plain = re.sub(r"[^a-z0-9]+", "_", topic.lower())[:LONGEST].strip("_") or "topic"
    names = (plain if n == 1 else f"{plain}_{n}" for n in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _group(
    folder: Path, heading: Heading, task: Task, parts: Mapping[str, tuple[str, list[Row]]]
) -> list[Path]:
    whole = task_name(heading.benchmark, task.ending)
    group = f"{whole}_topics"
    data = folder.parent / f"{task.ending}_by_topic.json"
    tree = {name: rows for name, (_, rows) in parts.items()}
    data.write_text(
        json.dumps(tree, ensure_ascii=False, indent=0) + "\n", encoding="utf-8", errors="surrogatepass"
    )
    inner = folder / "topics"
    inner.mkdir(exist_ok=True)
    head = heading.lines(f"{task.says}; one task a topic.") + starting(folder.name, group)
    paths = [write_yaml(inner / f"{group}.yaml", head, _group_tree(group, whole, task, parts))]
    for name, (topic, rows) in parts.items():
        own = {
            "include": f"../{whole}.yaml",
            "task": topic_task(whole, name),
            "task_alias": one_line(topic)[:LONGEST],
            # Not the split's tag, or all tasks of the run would ask every item twice.
            "tag": [f"{group}_alone"],
            "dataset_kwargs": {"data_files": {"test": data.name}, "field": name},
        }
        says = [f"{heading.benchmark}, topic {topic}: {len(rows)} items of {whole}."]
        paths.append(write_yaml(inner / f"{topic_task(whole, name)}.yaml", says, own))
    return paths


def _group_tree(group: str, whole: str, task: Task, parts: Mapping[str, object]) -> dict[str, Any]:
    metrics = ("acc", "acc_norm") if task.ending == "cloze" else ("acc",)
    return {
        "group": group,
        "task": [topic_task(whole, name) for name in parts],
        "aggregate_metric_list": [
            {"metric": metric, "aggregation": "mean", "weight_by_size": True} for metric in metrics
        ],
        "metadata": {"version": VERSION},
    }
