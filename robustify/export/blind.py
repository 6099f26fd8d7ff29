"""Write tasks with which other tools ask any set without its questions, before there is a run. Prompts and orders are the
same as in our screen, so that imported answers equal the answers that our own engines would get."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robustify.base.files import write_text
from robustify.export import writing
from robustify.export.tasks import (
    START,
    VERSION,
    SplitTask,
    beside,
    task_name,
    task_tree,
    write_module,
    write_yaml,
)
from robustify.export.writing import commented, one_line, write_parquet
from robustify.items import orders
from robustify.items.item import Item, item_row
from robustify.items.views import template
from robustify.runs.run import write_lines

Blind = Callable[[Path, str, Sequence[Item]], list[Path]]
"""Function that writes the tasks of a set, given an output folder, its name, and its items. It returns the files."""
_TEXTS = SplitTask("blind_texts", (), "choices_only_text", "the texts of the options, without the question")


def _row(item: Item, order: orders.Order) -> dict[str, Any]:
    return item_row(item.with_choices(tuple(item.choices[j] for j in order), order.index(item.key)))


def rotated(items: Sequence[Item], turn: int) -> list[dict[str, Any]]:
    """Return the rows of the items in rotation `turn` of their base orders. An item with too few options has no row."""
    every = [(item, orders.rotations(orders.base(item.id, item.k))) for item in items]
    return [_row(item, turns[turn]) for item, turns in every if turn < item.k]


def write_blind_lm_eval(folder: Path, name: str, items: Sequence[Item]) -> list[Path]:
    """Write one lm-eval task per rotation of the lettered options, and one task with the options' text. Return the files.
    Raise the errors of `staged`."""
    turns = range(max((item.k for item in items), default=0))
    says = "the options by letter, without the question, rotation"
    letters = {
        turn: SplitTask(f"blind_letters_{turn}", (), "choices_only", f"{says} {turn}") for turn in turns
    }
    tasks = [(task, rotated(items, turn)) for turn, task in letters.items()]
    texts = [item_row(item) for item in items if all(choice.strip() for choice in item.choices)]
    tag = task_name(name, "blind")
    with writing.staged(folder) as place:
        write_module(place)
        for task, rows in [*tasks, (_TEXTS, texts)]:
            if rows:
                own, used = task_name(name, task.ending), template(task.view)
                data = write_parquet(place, own, rows)
                head = [
                    f"{name}: {task.says}.",
                    f"Prompt: template {used.view}/{used.name}, sha256 {used.digest}.",
                    START,
                    f"All tasks of the set, with logs to import: --tasks {tag} --log_samples --output_path LOGS",
                    "Then: robustify import LOGS --data ITEMS -o RUN",
                ]
                tree = task_tree(own, task, beside([data]), tag=tag)
                write_yaml(place / f"{own}.yaml", [one_line(line) for line in head], tree)
    return writing.files_of(folder)


def write_blind_inspect(folder: Path, name: str, items: Sequence[Item]) -> list[Path]:
    """Write an Inspect task that asks for letters without the question, in each rotation. Return the files. Raise the
    errors of `staged`."""
    rows = [_row(item, orders.base(item.id, item.k)) for item in items]
    with writing.staged(folder) as place:
        write_lines(place / "blind.jsonl", rows)
        head = commented([f"{name}: the options by letter, without the question."])
        settings: Mapping[str, object] = {"head": head, "name": task_name(name, "blind"), "version": VERSION}
        text = writing.ENVIRONMENT.get_template("inspect_blind.py.j2").render(**settings)
        write_text(place / "blind.py", text)
    return writing.files_of(folder)


BLIND: Mapping[str, Blind] = {"lm-eval": write_blind_lm_eval, "inspect": write_blind_inspect}
"""Writers of blind tasks by the name of the export."""
