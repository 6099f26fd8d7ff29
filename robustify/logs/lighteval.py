"""lighteval's details (`details_*.parquet`) -> replies.

Its rows stand in no particular order and its columns vary with the task. Options that the log holds as letters
are read from the prompt, where they stand as text.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase

from robustify.errors import ItemError
from robustify.item import FEWEST, MOST
from robustify.loaders.cells import dig, has
from robustify.loaders.rows import Fault, Raw, Row, Table
from robustify.loaders.whole import bare_stems
from robustify.logs.letters import are_letters
from robustify.logs.log import Log, Reply, Shown, Wanted
from robustify.logs.prompts import assumed
from robustify.logs.results_beside import plain_model
from robustify.views import View

KIND = "lighteval"
_OPTION = re.compile(r"^[ \t]*\(?([A-Z])[.)][ \t]*(.*)$", re.MULTILINE)
_LAST_QUESTION = re.compile(r"(?:^|\n)Question:[ \t]*")
_NAME = re.compile(r"details_(?P<task>.+?)(?:\|\d+)?_\d{4}-\d\d-\d\dT.*")


def is_lighteval(table: Table) -> bool:
    """Whether rows are lighteval's details."""
    return bool(table.rows) and {"doc", "model_response"} <= set(table.rows[0].cells)


def read_lighteval(path: Path, table: Table, sha256: str, wanted: Wanted) -> Log:
    """The replies of one log; rows that show no item are faults."""
    read = [(row, _raw_or_fault(row)) for row in table.rows]
    raws = [(row, raw) for row, raw in read if isinstance(raw, Raw)]
    faults = [*table.faults, *(raw for _, raw in read if isinstance(raw, Fault))]
    bare = bare_stems([raw for _, raw in raws])
    shown = [
        (row, Shown(len(raw.choices), raw.stem, raw.choices, key=_index(raw), name=raw.id))
        for (row, _), raw in zip(raws, bare, strict=True)
    ]
    shown.sort(key=lambda pair: _rank(pair[1].name))
    letters = sum(_by_letter(row) for row, _ in shown) * 2 >= len(shown)
    view: View = wanted.view or ("full" if letters else "cloze")
    model = wanted.model or _model(path)
    replies = [_reply(row, item, Reply(row.line, model, view, KIND, item)) for row, item in shown]
    found = _NAME.fullmatch(path.stem)
    return Log(
        file=path.name,
        kind=KIND,
        sha256=sha256,
        task=(found["task"] if found else path.stem).replace("|", "-"),
        replies=tuple(replies),
        faults=tuple(faults),
        notes=(
            *([] if wanted.view else [assumed(view)]),
            *([] if wanted.model else ["its folder was taken for the model's name"]),
        ),
    )


def _raw_or_fault(row: Row) -> Raw | Fault:
    try:
        return _raw(row)
    except ItemError as error:
        return Fault(row.line, str(error))


def _raw(row: Row) -> Raw:
    query, said = dig(row.cells, "doc.query"), dig(row.cells, "doc.choices")
    if not isinstance(query, str) or not isinstance(said, list) or not all(isinstance(c, str) for c in said):
        raise ItemError("`doc` has no `query` and `choices`; expected a multiple-choice task")
    if not FEWEST <= len(said) <= MOST:
        raise ItemError(f"{len(said)} choices; expected {FEWEST} to {MOST}")
    key = dig(row.cells, "doc.gold_index")
    key = key[0] if isinstance(key, list) and len(key) == 1 else key
    if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < len(said):
        raise ItemError(f"`doc.gold_index` names no one choice of {len(said)}")
    name = str(dig(row.cells, "doc.id")) if has(row.cells, "doc.id") else str(row.place)
    if not are_letters(said):
        return Raw(query, tuple(c.removeprefix(" ") for c in said), key, "index", id=name)
    stem, choices = _lettered(query, len(said))
    return Raw(stem, choices, key, "index", id=name)


def _lettered(query: str, k: int) -> tuple[str, tuple[str, ...]]:
    """The stem and the texts of the last `k` lines `A. ...` of a prompt.

    Raises:
        ItemError: no such lines.
    """
    lines = list(_OPTION.finditer(query))[-k:]
    if [line[1] for line in lines] != list(ascii_uppercase[:k]):
        raise ItemError("its options are letters, and its prompt has no lines `A. ...` with their texts")
    before = query[: lines[0].start()]
    starts = list(_LAST_QUESTION.finditer(before))
    return before[starts[-1].end() if starts else 0 :].strip(), tuple(line[2].strip() for line in lines)


def _index(raw: Raw) -> int:
    assert isinstance(raw.key, int)
    return raw.key


def _rank(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (10**9, name)


def _by_letter(row: Row) -> bool:
    said = dig(row.cells, "doc.choices")
    return isinstance(said, list) and are_letters([str(c) for c in said])


def _model(path: Path) -> str:
    """`details/<owner>/<name>/<date>/details_...`: what stands between the first folder and the date."""
    parts = list(path.resolve().parts[:-2])
    after = parts[len(parts) - parts[::-1].index("details") :] if "details" in parts else parts[-1:]
    return plain_model("/".join(after[-2:]))


def _reply(row: Row, item: Shown, bare: Reply) -> Reply:
    response = row.cells.get("model_response")
    told: Mapping[str, object] = response if isinstance(response, Mapping) else {}
    scores, alone = (_numbers(told.get(name), item.k) for name in ("logprobs", "unconditioned_logprobs"))
    by_text = not _by_letter(row)
    if scores:
        # As its LogProbCharNorm with ignore_first_space, and as acc_norm of lm-eval.
        n_chars = tuple(map(len, item.choices)) if by_text else ()
        return replace(bare, scores=scores, by_text=by_text, n_chars=n_chars, alone=alone if by_text else ())
    return replace(bare, why="no finite log-probability for each choice")


def _numbers(found: object, k: int) -> tuple[float, ...]:
    values = found if isinstance(found, Sequence) and not isinstance(found, str) else []
    whole = len(values) == k and all(isinstance(v, int | float) and math.isfinite(v) for v in values)
    return tuple(float(v) for v in values) if whole else ()
