"""Support for items and answers in memory: write them to files for the loaders, and let errors name Python types and
arguments instead of files and command options.
"""

# pandas has no type hints.
# mypy: disable-error-code="import-untyped"

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from robustify.base.errors import Notice, RobustifyError, UsageError
from robustify.base.files import write_text
from robustify.items.item import Item, item_row

if TYPE_CHECKING:
    import pandas as pd

Table: TypeAlias = "str | Path | Sequence[Mapping[str, Any]] | pd.DataFrame"
"""File, or rows in memory."""
Data: TypeAlias = "Table | Sequence[Item]"
"""Config, items file, `Item` objects, or rows in any layout that an items file may have."""


_MAP = re.compile(r"--map (\w+)=(=?(?:'[^']*'|[^\s`.,;)]+(?:[.,][^\s`.,;)]+)*))")
_MAPS = re.compile(rf"{_MAP.pattern}(?: {_MAP.pattern})*")
_IN_CONFIG = re.compile(r", or set `fields: [^`]*` in the config")
_OPTIONS = {
    "-o DIR": "out=DIR", "--force": "force=True", "--data ITEMS": "data=ITEMS", "--data FILE": "data=FILE",
    "-m NAME": "models=[NAME]", "--public": "public=True", "--trust-task-code": "trust_task_code=True",
    "--include-path": "include_path", "--split": "split",
}  # fmt: skip
"""Arguments of Python by the options that errors name."""


@contextmanager
def in_python(data: Data = "", mapping: str = "fields", table: Table = "") -> Iterator[None]:
    """Rewrite errors for Python users. Name options as arguments, and items and answers in memory (`data`, `table`)
    by their types instead of files. `mapping` is the argument that replaces `--map`."""
    files = {re.escape(_MEMORY): data, TABLE.format(r"\d+"): table}
    memory = {
        name: type(given).__name__ for name, given in files.items() if not isinstance(given, str | Path)
    }

    def mapped(options: re.Match[str]) -> str:
        parts = {
            part: text if text.startswith("=") or "," not in text else text.split(",")
            for part, text in ((part, text.strip("'")) for part, text in _MAP.findall(options[0]))
        }
        return f"{mapping}={json.dumps(parts, ensure_ascii=False)}"

    def worded(line: str) -> str:
        line = _MAPS.sub(mapped, _IN_CONFIG.sub("", line))
        for option, argument in {**_OPTIONS, "--map": mapping}.items():
            line = line.replace(option, argument)
        for name, kind in memory.items():
            line = re.sub(rf"\S*\b{name}", f"the {kind}", line)
        return line

    try:
        yield
    except RobustifyError as error:
        error.lines = tuple(Notice(worded(line), code=line.code) for line in error.notices)
        error.args = ("\n".join(error.lines),)
        raise


_MEMORY = "items.jsonl"
"""File of items that Python passes in memory."""
TABLE = "answers-{}.jsonl"
"""Files of answers that Python passes in memory, by number."""


def written(data: Any, place: Path, name: str = _MEMORY) -> str:
    """Return `data` if it is a path. Otherwise, write the rows to the file `name` in `place` and return its path."""
    if isinstance(data, str | Path):
        return str(data)
    rows = data.to_dict("records") if hasattr(data, "to_dict") else data
    try:
        lines = [json.dumps(_row(row), default=methodcaller("tolist"), ensure_ascii=False) for row in rows]
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        expected = "expected a file, a DataFrame, or a list of items or of rows of plain values"
        fault = f"items cannot be written as JSON ({type(error).__name__}); {expected}"
        raise UsageError(fault, code="items-not-json") from None
    write_text(place / name, "".join(f"{line}\n" for line in lines))
    return str(place / name)


def _row(row: Any) -> dict[str, Any]:
    """Convert an item or a row to a mapping without missing cells."""
    import pandas as pd

    if isinstance(row, Item):
        return item_row(row)
    return {str(k): v for k, v in row.items() if not (pd.api.types.is_scalar(v) and pd.isna(v))}
