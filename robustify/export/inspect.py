"""Tasks for Inspect: a small Python file for each split, its data as JSON lines beside it.

The code is written to be read: it holds no text of an item and nothing but the split's name differs from one file to
the next. Choices may be shuffled, because a log is read back by the text of the choices and never by a letter.
"""

from collections.abc import Sequence
from pathlib import Path

import jinja2

from robustify.export.free import FreeRows
from robustify.export.heading import Heading, commented
from robustify.export.lm_eval import task_name

VERSION = 1
_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("robustify.export"),
    undefined=jinja2.StrictUndefined,
    autoescape=False,
    keep_trailing_newline=True,
)


def write_inspect(folder: Path, heading: Heading, splits: Sequence[str], free: FreeRows) -> list[Path]:
    """A task file for each of these splits, and for the questions without options where there are any; the paths.

    `folder` holds `SPLIT.jsonl` and `robust_free.jsonl`.
    """
    written = []
    for split in splits:
        head = commented(heading.lines(f"the {split} items as an Inspect task."))
        written.append(_write(folder / f"{split}.py", "inspect_split.py.j2", heading, head, split))
    if free.rows:
        head = commented(heading.lines(f"the robust items without options; {free.says}."))
        written.append(_write(folder / "robust_free.py", "inspect_free.py.j2", heading, head, "robust_free"))
    return written


def _write(path: Path, template: str, heading: Heading, head: str, split: str) -> Path:
    name = task_name(heading.benchmark, split)
    text = _ENVIRONMENT.get_template(template).render(head=head, split=split, name=name, version=VERSION)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path
