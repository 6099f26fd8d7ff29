"""lighteval's details (`details_*.parquet`) -> replies.

Its rows stand in no particular order and its columns vary with the task. Options that the log holds as letters
are read from the prompt, where they stand as text.
"""

import math
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from robustify.errors import ItemError
from robustify.item import FEWEST, MOST
from robustify.loaders.answer_keys import bare_stems
from robustify.loaders.rows import Cells, RawItem, SourceTable, as_object, cell_value, has, rows_or_faults
from robustify.logs.checked_names import Name, as_label, path_name
from robustify.logs.log import Log, LoggedItem, LogOptions, LogReply, plain_model
from robustify.logs.prompts import are_letters, assumed
from robustify.views import View

KIND = "lighteval"
_OPTION = re.compile(r"^[ \t]*\(?([A-Z])[.)][ \t]*(.*)$", re.MULTILINE)
_LAST_QUESTION = re.compile(r"(?:^|\n)Question:[ \t]*")
_NAME = re.compile(r"details_(?P<task>.+?)(?:\|\d+)?_\d{4}-\d\d-\d\dT.*")


def is_lighteval(table: SourceTable) -> bool:
    """Whether rows are lighteval's details."""
    return bool(table.rows) and {"doc", "model_response"} <= set(table.rows[0].cells)


def read_lighteval(path: Path, table: SourceTable, sha256: str, options: LogOptions) -> Log:
    """The replies of one log; rows that show no item are faults."""
    made, faults = rows_or_faults(
        ((row, row.cells) for row in table.rows), lambda row, cells: _raw_and_key(cells, row.number)
    )
    bare = bare_stems([raw for _, (raw, _) in made])
    items = [
        (row, LoggedItem(len(raw.choices), raw.stem, raw.choices, key=key, name=as_label(raw.id)))
        for (row, (_, key)), raw in zip(made, bare, strict=True)
    ]
    # By number where an item's name is one, before all others by name.
    items.sort(key=lambda at: (int(at[1].name), "") if at[1].name.isdecimal() else (10**9, at[1].name))
    letters = sum(_by_letter(row.cells) for row, _ in items) * 2 >= len(items)
    view: View = options.view or ("full" if letters else "cloze")
    make = partial(LogReply, model=options.name or _model(path), view=view, template=KIND)
    match = _NAME.fullmatch(path.stem)
    return Log(
        file=path.name,
        kind=KIND,
        sha256=sha256,
        task=path_name(match["task"] if match else path.stem),
        replies=tuple(make(row.line, item=item, **_answer(row.cells, item)) for row, item in items),
        faults=(*table.faults, *faults),
        notes=(
            *([] if options.view else [assumed(view)]),
            *([] if options.model else ["its folder was taken for the model's name"]),
        ),
    )


def _raw_and_key(cells: Cells, number: int) -> tuple[RawItem, int]:
    query, said = cell_value(cells, "doc.query"), cell_value(cells, "doc.choices")
    if not isinstance(query, str) or not isinstance(said, list) or not all(isinstance(c, str) for c in said):
        raise ItemError("`doc` has no `query` and `choices`; expected a multiple-choice task")
    if not FEWEST <= len(said) <= MOST:
        raise ItemError(f"{len(said)} choices; expected {FEWEST} to {MOST}")
    key = cell_value(cells, "doc.gold_index")
    key = key[0] if isinstance(key, list) and len(key) == 1 else key
    if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < len(said):
        raise ItemError(f"`doc.gold_index` names no one choice of {len(said)}")
    name = str(cell_value(cells, "doc.id")) if has(cells, "doc.id") else str(number)
    stem, choices = query, tuple(c.removeprefix(" ") for c in said)
    if are_letters(tuple(said)):
        stem, choices = _lettered(query, len(said))
    return RawItem(stem, choices, key, "index", id=name), key


def _lettered(query: str, k: int) -> tuple[str, tuple[str, ...]]:
    """The stem and the texts of the last `k` lines `A. ...` of a prompt."""
    lines = list(_OPTION.finditer(query))[-k:]
    if [line[1] for line in lines] != list(ascii_uppercase[:k]):
        raise ItemError("its options are letters, and its prompt has no lines `A. ...` with their texts")
    before = query[: lines[0].start()]
    starts = list(_LAST_QUESTION.finditer(before))
    return before[starts[-1].end() if starts else 0 :].strip(), tuple(line[2].strip() for line in lines)


def _by_letter(cells: Cells) -> bool:
    said = cell_value(cells, "doc.choices")
    return isinstance(said, list) and are_letters(tuple(map(str, said)))


def _model(path: Path) -> Name:
    """`details/<owner>/<name>/<date>/details_...`: what stands between the first folder and the date."""
    parts = list(path.resolve().parts[:-2])
    after = parts[len(parts) - parts[::-1].index("details") :] if "details" in parts else parts[-1:]
    return path_name(plain_model("/".join(after[-2:])))


def _answer(cells: Cells, item: LoggedItem) -> dict[str, Any]:
    """The scores of a row, or the reason why there are none."""
    said = as_object(cells.get("model_response"))
    scores, alone = (_numbers(said.get(name), item.k) for name in ("logprobs", "unconditioned_logprobs"))
    if not scores:
        return {"reason": "no finite log-probability for each choice"}
    if _by_letter(cells):
        return {"scores": scores}
    # As its LogProbCharNorm with ignore_first_space, and as acc_norm of lm-eval.
    n_chars = tuple(map(len, item.choices))
    return {"scores": scores, "by_text": True, "n_chars": n_chars, "unconditioned": alone}


def _numbers(value: object, k: int) -> tuple[float, ...]:
    values = value if isinstance(value, Sequence) and not isinstance(value, str) else []
    whole = len(values) == k and all(isinstance(v, int | float) and math.isfinite(v) for v in values)
    return tuple(float(v) for v in values) if whole else ()
