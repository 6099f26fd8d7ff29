"""Reader of lighteval details (`details_*.parquet`), in the current format and in the format from 2023 to version 0.9.

Each row is converted to the format of lm-eval and read as such.
"""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from robustify.base.errors import DataError, ItemError
from robustify.reading.loaders.rows import Cells, as_object, cell_or_none, cell_value, has, rows_or_faults
from robustify.reading.logs.archive_formats import with_members
from robustify.reading.logs.lm_eval_logs import LmEvalRun, replies_in_rows
from robustify.reading.logs.log import (
    Log,
    LogFile,
    LogOptions,
    LogReader,
    Name,
    ShownBefore,
    model_name,
    number_or_nan,
    path_name,
)  # fmt: skip
from robustify.reading.logs.requested import NO_TEXTS, listed_options, without_instruction
from robustify.reading.logs.responses import innermost
from robustify.reading.logs.stated_scores import scores_of_row
from robustify.reading.logs.tables import pick_tables
from robustify.reading.marks.labelling import only_labels
from robustify.reading.printed import literal

_COLUMNS = {"stem": "stem", "choices": "choices", "key": "key"}
_NAME = re.compile(r"details_(?P<task>.+?)(?:\|\d+)?_\d{4}-\d\d-\d\dT.*")


_NO_QUESTION = "(no question)"
"""Question of an item in a log that shows none. Such an item is matched by its options."""


def _read_details(
    kind: str, of_today: Callable[[Cells], Cells], file: LogFile, options: LogOptions, before: ShownBefore
) -> Log:
    """Read the replies in lighteval details, which a function converts to the current format. If the user mapped the
    parts of a table of picks, read them as one. Rows that show no item become faults. Raise `DataError` if no row
    shows a question, unless the items are in another file."""
    if options.parts_of_picks:
        return pick_tables.READER.read(file, options, before)
    path = file.path
    table = replace(
        file.table, rows=tuple(replace(row, cells=of_today(row.cells)) for row in file.table.rows)
    )
    queries = [cell_or_none(row.cells, "doc.query") for row in table.rows]
    blank = all(isinstance(query, str) and not query.strip() for query in queries)
    if blank and not options.keyed:
        raise DataError(
            f"{path.name}: the query (`doc.query`) of every row is empty, so the log has no question. Pass the items with "
            "their questions (--data ITEMS).",
            code="empty-questions",
        )
    converted, faults = rows_or_faults(
        ((row, row.cells) for row in table.rows),
        lambda row, cells: replace(
            row, cells=_detail_as_lm_eval(cells, row.number, _NO_QUESTION if blank else "")
        ),
    )
    rows, notes = without_instruction(
        sorted((row for _, row in converted), key=lambda row: _position(str(row.cells["doc_id"])))
    )
    match = _NAME.fullmatch(path.stem)
    run = LmEvalRun(path_name(match["task"] if match else path.stem), _model(path))
    head = Log(path.name, kind, file.sha256, run.task, (), (*table.faults, *faults))
    merged = replace(table, rows=tuple(rows), faults=head.faults)
    own = replace(options, columns=_COLUMNS | {"key_is": "index"})
    read = replies_in_rows(head, run, merged, own, before) if rows else head
    return replace(read, notes=(*notes, *read.notes))


def _position(name: str) -> tuple[int, str]:
    """Return a key that sorts IDs: numbers come first, in numeric order, then all other names."""
    return (int(name), "") if name.isdecimal() else (10**9, name)


def _detail_as_lm_eval(cells: Cells, number: int, stem: str) -> dict[str, object]:
    query, choices = cell_value(cells, "doc.query"), cell_value(cells, "doc.choices")
    if (
        not isinstance(query, str)
        or not isinstance(choices, list)
        or not all(isinstance(c, str) for c in choices)
    ):
        raise ItemError(
            "`doc` has no `query` or no `choices`; expected a multiple-choice task",
            code="no-question-or-options",
        )
    key = cell_value(cells, "doc.gold_index")
    key = key[0] if isinstance(key, list) and len(key) == 1 else key
    if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < len(choices):
        raise ItemError(
            f"`doc.gold_index` does not select exactly one of {len(choices)} choices", code="key-of-no-choice"
        )
    plain = stem or query, [c.removeprefix(" ") for c in choices]
    listed = listed_options(query, choices) if only_labels(tuple(choices)) else plain
    if listed is None:
        raise ItemError(NO_TEXTS, code=NO_TEXTS.code)
    response = as_object(cells.get("model_response"))
    scores, alone = (_scores(response.get(n), len(choices)) for n in ("logprobs", "unconditioned_logprobs"))
    requests = [[query, choice] for choice in choices] + [["", choice] for choice in choices if alone]
    texts = response.get("text")
    is_written = isinstance(texts, list) and bool(texts) and not response.get("logprobs")
    return {
        **as_object(cells.get("metric") or cells.get("metrics")),
        "doc_id": cell_value(cells, "doc.id") if has(cells, "doc.id") else number,
        "doc": {"stem": listed[0], "choices": listed[1], "key": key},
        "arguments": [[query, {}]] if is_written else requests,
        "resps": [texts]
        if is_written
        else [[score] for score in (scores or [math.nan] * len(choices)) + alone],
    }


_PRINTED = ("choices", "gold_index", "predictions", "metrics")


def _detail_of_today(cells: Cells) -> Cells:
    """Convert a detail in the format from 2023 to version 0.9, whose lists are written as text in some versions."""
    listed = {
        name: literal(cell) if isinstance(cell, str) else cell
        for name in _PRINTED
        if (cell := cells.get(name)) is not None
    }
    choices, answers = listed.get("choices"), listed.get("predictions")
    answers = answers if isinstance(answers, list) else []
    if len(answers) == 1 and isinstance(answers[0], list | tuple) and len(answers[0]) > 2:
        # One request scored all labels.
        answers = [*answers[0]]
    values = [number_or_nan(innermost([*a] if isinstance(a, tuple) else a)) for a in answers]
    are_scores = (
        isinstance(choices, list) and len(values) == len(choices) and not any(map(math.isnan, values))
    )
    texts = tuple(map(str, choices)) if isinstance(choices, list) else ()
    # Only the prompt is certain to list the options that labels stand for.
    query = "full_prompt" if only_labels(texts) or not cells.get("example") else "example"
    return {
        "doc": {
            "query": cells.get(query),
            "choices": choices,
            "gold_index": listed.get("gold_index"),
        },
        "model_response": {"logprobs": values} if are_scores else {"text": answers},
        "metric": {**scores_of_row(cells), **as_object(listed.get("metrics"))},
    }


def _model(path: Path) -> Name:
    """Return the model name from a path such as `details/<owner>/<name>/<date>/details_...`."""
    parts = list(path.resolve().parts[:-2])
    after = parts[len(parts) - parts[::-1].index("details") :] if "details" in parts else parts[-1:]
    return model_name("/".join(after[-2:]))


def _scores(value: object, k: int) -> list[float]:
    """Return the log-probabilities of `k` choices, or an empty list unless all are finite."""
    values = value if isinstance(value, list) else []
    complete = len(values) == k and all(isinstance(v, int | float) and math.isfinite(v) for v in values)
    return [float(v) for v in values] if complete else []


READERS = tuple(
    LogReader(kind, with_members(*members), partial(_read_details, kind, of_today))
    for kind, members, of_today in (
        ("lighteval", ("doc", "model_response"), lambda cells: cells),
        ("lighteval-0", ("full_prompt", "choices", "gold_index", "predictions"), _detail_of_today),
    )
)
