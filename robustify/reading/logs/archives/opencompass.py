"""Reader of OpenCompass predictions (`predictions/MODEL/DATASET.json`): an object of rows named "0", "1", and so on.

A row has the prompt (in a chat, its last turn asks), the prediction, and the gold, which OpenCompass leaves out if it is 0.
Perplexities are not read, because they are means over a whole prompt: the prediction is the label with the lowest one.
"""

from collections.abc import Iterator

from robustify.reading.loaders.rows import Cells
from robustify.reading.logs.archives.archived import Archived, archived_log, texts_of
from robustify.reading.logs.checked_names import path_name
from robustify.reading.logs.log import Log, LogFile, LogOptions, ShownBefore

KIND = "opencompass"


def recognizes(file: LogFile) -> bool:
    """Return whether the file is an object of predictions."""
    return file.table.outer == KIND


def read(file: LogFile, options: LogOptions, _: ShownBefore) -> Log:
    """Read the replies. The model is the folder of the file."""

    def replies(cells: Cells) -> Iterator[Archived]:
        yield Archived(
            model=file.path.resolve().parent.name,
            sample=str(cells["id"]),
            prompt="".join(texts_of(cells.get("origin_prompt"))[-1:]),
            reply="".join(texts_of(cells.get("prediction"))[:1]),
            keys=texts_of(cells.get("gold")),
        )

    return archived_log(KIND, path_name(file.path.stem), file, replies, options)
