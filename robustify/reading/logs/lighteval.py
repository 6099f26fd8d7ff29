"""Reader of lighteval details (`details_*.parquet`).

Rows have no particular order, and columns vary with the task. Each row is converted to the format of lm-eval and read as
such. If the log contains options only as letters, their texts are taken from the prompt.
"""

import math
import re
from dataclasses import replace
from pathlib import Path

from robustify.base.errors import ItemError
from robustify.reading.loaders.rows import Cells, as_object, cell_value, has, rows_or_faults
from robustify.reading.logs.checked_names import Name, path_name
from robustify.reading.logs.lm_eval_logs import LmEvalRun, replies_in_rows
from robustify.reading.logs.lm_eval_requests import NO_TEXTS, listed_options
from robustify.reading.logs.log import Log, LogFile, LogOptions, ShownBefore, plain_model
from robustify.reading.marks.labelling import only_labels

KIND = "lighteval"
COLUMNS = {"stem": "stem", "choices": "choices", "key": "key", "key_is": "index"}
_NAME = re.compile(r"details_(?P<task>.+?)(?:\|\d+)?_\d{4}-\d\d-\d\dT.*")


def recognizes(file: LogFile) -> bool:
    """Return whether the rows are lighteval details."""
    return bool(file.table.rows) and {"doc", "model_response"} <= set(file.table.rows[0].cells)


def read(file: LogFile, options: LogOptions, before: ShownBefore) -> Log:
    """Read the replies in lighteval details. Rows that show no item become faults."""
    path, table = file.path, file.table
    made, faults = rows_or_faults(
        ((row, row.cells) for row in table.rows),
        lambda row, cells: replace(row, cells=_as_lm_eval(cells, row.number)),
    )
    rows = sorted((row for _, row in made), key=lambda row: _position(str(row.cells["doc_id"])))
    match = _NAME.fullmatch(path.stem)
    run = LmEvalRun(path_name(match["task"] if match else path.stem), _model(path))
    head = Log(path.name, KIND, file.sha256, run.task, (), (*table.faults, *faults))
    whole = replace(table, rows=tuple(rows), faults=head.faults)
    return replies_in_rows(head, run, whole, replace(options, columns=COLUMNS), before) if rows else head


def _position(name: str) -> tuple[int, str]:
    """Return the position of an ID: numbers in their order, before all other names."""
    return (int(name), "") if name.isdecimal() else (10**9, name)


def _as_lm_eval(cells: Cells, number: int) -> dict[str, object]:
    query, said = cell_value(cells, "doc.query"), cell_value(cells, "doc.choices")
    if not isinstance(query, str) or not isinstance(said, list) or not all(isinstance(c, str) for c in said):
        raise ItemError("`doc` has no `query` or no `choices`; expected a multiple-choice task")
    key = cell_value(cells, "doc.gold_index")
    key = key[0] if isinstance(key, list) and len(key) == 1 else key
    if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < len(said):
        raise ItemError(f"`doc.gold_index` does not select exactly one of {len(said)} choices")
    plain = query, [c.removeprefix(" ") for c in said]
    shown = listed_options(query, said) if only_labels(tuple(said)) else plain
    if shown is None:
        raise ItemError(NO_TEXTS)
    response = as_object(cells.get("model_response"))
    scores, alone = (_scores(response.get(n), len(said)) for n in ("logprobs", "unconditioned_logprobs"))
    asked = [[query, choice] for choice in said] + [["", choice] for choice in said if alone]
    return {
        **as_object(cells.get("metric") or cells.get("metrics")),
        "doc_id": cell_value(cells, "doc.id") if has(cells, "doc.id") else number,
        "doc": {"stem": shown[0], "choices": shown[1], "key": key},
        "arguments": asked,
        "resps": [[score] for score in (scores or [math.nan] * len(said)) + alone],
    }


def _model(path: Path) -> Name:
    """Return the model name from a path such as `details/<owner>/<name>/<date>/details_...`."""
    parts = list(path.resolve().parts[:-2])
    after = parts[len(parts) - parts[::-1].index("details") :] if "details" in parts else parts[-1:]
    return path_name(plain_model("/".join(after[-2:])))


def _scores(value: object, k: int) -> list[float]:
    """Return the log-probabilities of `k` choices, or an empty list unless all are finite."""
    values = value if isinstance(value, list) else []
    whole = len(values) == k and all(isinstance(v, int | float) and math.isfinite(v) for v in values)
    return [float(v) for v in values] if whole else []
