"""Items as instructions to train on: fields for a trainer, and Mistral's text `[INST] ... [/INST] ...`.

A model that was trained on them can no longer be evaluated on them. Items that hold Mistral's own marks are refused,
because their text would end the instruction.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from robustify.errors import DataError
from robustify.export.free_tasks import FreeRows, free_rows
from robustify.export.heading import Heading
from robustify.files import write_text
from robustify.item import Item
from robustify.orders import own
from robustify.report.printing import escaped
from robustify.views import template

Form = Literal["mcq", "free"]
FORMS: tuple[Form, ...] = ("mcq", "free")
BY_LETTER = "Answer the multiple-choice question with the letter of the right choice."
WARNING = "A model that was trained on these items can no longer be evaluated on them."
_MARKS = re.compile(r"\[/?INST\]|</?s>", re.IGNORECASE)


def mistral(instruction: str, input_: str, output: str) -> str:
    """`[INST] instruction\\n\\ninput [/INST] output`; an empty input is left out with its blank line."""
    asked = f"{instruction}\n\n{input_}" if input_ else instruction
    return f"[INST] {asked} [/INST] {output}"


def write_instruct(folder: Path, heading: Heading, items: Sequence[Item], form: Form) -> list[Path]:
    """`instruct.jsonl` with instruction, input and output, `mistral.jsonl` with the text, `README.md`; the paths.

    `mcq`: the input is the question with its choices, the output a letter. `free`: the instruction is the question,
    there is no input, and the output is the right choice's text; items that cannot be asked so are left out.

    Raises:
        DataError: nothing to write, or items that hold Mistral's marks (by id).
    """
    free = free_rows(items)
    rows = _by_letter(items) if form == "mcq" else _in_words(free)
    if not rows:
        raise DataError(
            f"{heading.benchmark}: no item of this split can be written so; expected another --split"
        )
    marked = [id_ for id_, *parts in rows if any(_MARKS.search(part) for part in parts)]
    if marked:
        raise DataError.gather([f"{id_}: holds a mark of Mistral's format; expected none" for id_ in marked])
    fields = [{"id": i, "instruction": said, "input": given, "output": out} for i, said, given, out in rows]
    texts = [{"id": i, "text": mistral(said, given, out)} for i, said, given, out in rows]
    says = f"{len(rows)} of {len(items)} items" if form == "mcq" else free.says
    lines = [*heading.lines(f"{says} as instructions."), WARNING]
    write_text(folder / "README.md", "\n\n".join(escaped(line) for line in lines) + "\n")
    paths = [_lines(folder / "instruct.jsonl", fields), _lines(folder / "mistral.jsonl", texts)]
    return [*paths, folder / "README.md"]


def _by_letter(items: Sequence[Item]) -> list[tuple[str, str, str, str]]:
    full = template("full")
    rows = []
    for item in items:
        requests = full.requests(item, own(item.k))
        shown = requests[0].context.removeprefix(full.description)
        rows.append((item.id, BY_LETTER, shown, requests[item.key].continuation.strip()))
    return rows


def _in_words(free: FreeRows) -> list[tuple[str, str, str, str]]:
    return [(row["id"], row["question"].strip(), "", row["reference"]) for row in free.rows]


def _lines(path: Path, rows: Sequence[dict[str, str]]) -> Path:
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path
