"""A run's splits as a dataset folder: a JSON Lines file for each split and a card. Nothing is uploaded.

A split without items gets no file, because a reader could not tell its types.
"""

import shutil
from pathlib import Path

from robustify.errors import DataError
from robustify.export.heading import ENVIRONMENT, one_line
from robustify.export.writing import SPLITS, exporting, files_of
from robustify.files import write_text
from robustify.run import Run

SAYS = {
    "robust": "not answered in the screen",
    "shortcut": "answered in the screen",
    "undecided": "missing answers could still turn the verdict",
    "cloze": "can be asked without choices",
}


def export_dataset(run: Run, folder: Path, force: bool = False, licence: str = "") -> list[Path]:
    """Write `SPLIT.jsonl` for each split with items, and `README.md`. Return their paths.
    Raises as `exporting`; DataError also if no split holds an item."""
    with exporting(run, folder, force) as (staging, heading):
        splits = []
        for name in SPLITS:
            source = run.folder / f"{name}.jsonl"
            if n := source.read_bytes().count(b"\n"):
                shutil.copyfile(source, staging / source.name)
                splits.append({"name": name, "n": n, "says": SAYS[name]})
        if not splits:
            raise DataError(f"{run.folder}: no split holds an item; expected robust or cloze items")
        text = ENVIRONMENT.get_template("card.md.j2").render(
            name=one_line(heading.benchmark),
            warning=one_line(heading.warning) if heading.warning else "",
            signature=one_line(heading.signature),
            licence=one_line(licence) if licence else "",
            splits=splits,
            screen=run.summary.screen,
            accuracy=list((run.summary.accuracy or {}).items()),
        )
        write_text(staging / "README.md", text)
    return files_of(folder)
