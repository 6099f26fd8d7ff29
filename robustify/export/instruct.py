"""Export of a run's split as training instructions, as separate fields and in Mistral's format."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from robustify.base.errors import DataError
from robustify.base.files import write_text
from robustify.export import writing
from robustify.export.free_grading import free_rows
from robustify.items.item import Item
from robustify.items.orders import own
from robustify.items.views import template
from robustify.report.printing import in_markdown
from robustify.runs.run import Run, write_lines

Form = Literal["mcq", "free"]
BY_LETTER = "Answer the multiple-choice question with the letter of the right choice."
WARNING = "A model that was trained on these items can no longer be evaluated on them."
_MARKS = re.compile(r"\[/?INST\]|</?s>", re.IGNORECASE)
"""Mistral's format markers. An item that contains one would end the instruction early."""


def export_instruct(
    run: Run, folder: Path, kept: bool = False, *, form: Form = "mcq", split: str = "kept"
) -> list[Path]:
    """Write a split as training instructions, as separate fields and in Mistral's format. Return the paths."""
    with writing.exporting(run, folder, kept) as (staging, heading):
        write_instruct(staging, heading, writing.exported_items(run, split), form)
    return writing.files_of(folder)


def mistral(instruction: str, input_: str, output: str) -> str:
    r"""Format an instruction as `[INST] instruction\n\ninput [/INST] output`. An empty input is omitted."""
    asked = f"{instruction}\n\n{input_}" if input_ else instruction
    return f"[INST] {asked} [/INST] {output}"


def write_instruct(folder: Path, heading: writing.Heading, items: Sequence[Item], form: Form) -> None:
    """Write `instruct.jsonl` (separate fields), `mistral.jsonl` (Mistral's format) and `README.md`.

    With `mcq`, the input is the question with its choices, and the output is a letter. With `free`, the instruction is
    the question, and the output is the text of the correct choice. Items that cannot be asked without choices are
    omitted. Raise `DataError` if no item is left, or if an item contains a marker of Mistral's format.
    """
    if form == "mcq":
        rows, says = list(map(_by_letter, items)), f"{len(items)} of {len(items)} items"
    else:
        free = free_rows(items)
        rows = [(row["id"], row["question"].strip(), "", row["reference"]) for row in free.rows]
        says = free.says
    if not rows:
        raise DataError(f"{heading.benchmark}: this split has no suitable item. Choose another --split.")
    if marked := [id_ for id_, *parts in rows if any(map(_MARKS.search, parts))]:
        raise DataError.gather([f"{i}: contains a marker of Mistral's format. Remove it." for i in marked])
    lines = [*heading.lines(f"{says} as instructions."), WARNING]
    write_text(folder / "README.md", "\n\n".join(map(in_markdown, lines)) + "\n")
    fields = ({"id": i, "instruction": said, "input": given, "output": out} for i, said, given, out in rows)
    write_lines(folder / "instruct.jsonl", fields)
    write_lines(folder / "mistral.jsonl", ({"id": i, "text": mistral(*parts)} for i, *parts in rows))


def _by_letter(item: Item) -> tuple[str, str, str, str]:
    full = template("full")
    requests = full.requests(item, own(item.k))
    shown = requests[0].context.removeprefix(full.description)
    return item.id, BY_LETTER, shown, requests[item.key].continuation.strip()


INSTRUCT = writing.Exporter(
    "instruct",
    r"""Write a split as training instructions.

    The text format of Mistral is included. Do not evaluate a model on items that it was trained on.

    \b
    Example:
        robustify export instruct results/demo -o train --form free
    """,
    export_instruct,
    {
        "kept": writing.KEPT,
        "form": writing.Option(
            "Write questions with choices (mcq), or with free-text answers (free).",
            values=("mcq", "free"),
            default="mcq",
        ),
        "split": writing.Option("Write this split.", values=writing.SPLITS, default="kept"),
    },
)
