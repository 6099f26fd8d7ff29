"""Readers of archives (Every Eval Ever, OpenCompass, OpenEval) and of lighteval details (`details_*.parquet`).

Each row is converted to the format of lm-eval and read as such. The question and options of an archive come from the prompt
that the model saw, unless it lists other options apart from the prompt, as for a cloze.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from robustify.base.errors import DataError, ItemError, Notice
from robustify.base.redaction import HoldsText
from robustify.base.texts import unspaced
from robustify.reading.loaders.rows import (
    Cells,
    SourceTable,
    as_object,
    cell_or_none,
    cell_value,
    has,
    rows_or_faults,
)
from robustify.reading.logs.lm_eval_logs import LmEvalRun, replies_in_rows
from robustify.reading.logs.log import (
    Log,
    LogFile,
    LogOptions,
    LogReader,
    Name,
    ShownBefore,
    model_name,
    path_name,
    scores_of_row,
)
from robustify.reading.logs.requested import NO_TEXTS, last_question, listed_options
from robustify.reading.marks.labelling import only_labels
from robustify.reading.marks.picks import runs_on

_COLUMNS = {"stem": "stem", "choices": "choices", "key": "key"}


@dataclass(frozen=True, slots=True, repr=False)
class _Archived(HoldsText):
    """A model's reply to a sample, or "" if there is none. `keys` are the right answers, in any form. `right` is true
    if the archive scored it as right. `choices` are the options that the archive lists apart from the prompt, and `raw` is
    the reply before the archive extracted an answer from it, if both are known."""

    model: str
    sample: str
    prompt: str
    reply: str
    keys: tuple[str, ...]
    right: bool = False
    choices: tuple[str, ...] = ()
    topic: str = ""
    raw: str = ""


def _read(
    kind: str,
    task_of: Callable[[LogFile], str],
    replies_of: Callable[[LogFile, Cells], Iterable[_Archived]],
    file: LogFile,
    options: LogOptions,
    _: ShownBefore,
) -> Log:
    """Return the log of an archive. A repeated reply counts once. Raise the errors of `replies_in_rows`."""
    task = path_name(task_of(file))
    head = Log(file.path.name, kind, file.sha256, task, (), tuple(file.table.faults))
    read, faults = rows_or_faults(
        ((row, row.cells) for row in file.table.rows), lambda _, cells: list(replies_of(file, cells))
    )
    every = [(row, archived) for row, replies in read for archived in replies]
    once = {(r.model, r.topic, r.sample, r.prompt, r.reply): (row, r) for row, r in reversed(every)}
    several = len({archived.topic for _, archived in every}) > 1
    converted, unread = rows_or_faults(
        reversed(once.values()), lambda row, archived: replace(row, cells=_as_lm_eval(archived, several))
    )
    before, own, logs = ShownBefore(), replace(options, columns=_COLUMNS | {"topic": "topic"}), list[Log]()
    for model in dict.fromkeys(str(row.cells["model"]) for _, row in converted):
        run = LmEvalRun(task, model_name(model, model), facts={}, from_prompts=True)
        table = SourceTable(tuple(row for _, row in converted if row.cells["model"] == model))
        logs.append(replies_in_rows(replace(head, faults=()), run, table, own, before))
    repeated = len(every) - len(once)
    note = Notice(
        f"replies that repeat another one, as for a second metric, were left out: {repeated}",
        code="repeated-replies",
    )
    return replace(
        head,
        replies=tuple(reply for log in logs for reply in log.replies),
        faults=(*head.faults, *faults, *unread, *(fault for log in logs for fault in log.faults)),
        notes=(*[note] * bool(repeated), *dict.fromkeys(note for log in logs for note in log.notes)),
        exchanges={place: exchange for log in logs for place, exchange in log.exchanges.items()},
    )


def _as_lm_eval(archived: _Archived, with_topic: bool) -> dict[str, object]:
    listed = listed_options(archived.prompt, ())
    apart = () if only_labels(archived.choices) else archived.choices
    if apart and (listed is None or sorted(map(unspaced, listed[1])) != sorted(map(unspaced, apart))):
        listed = last_question(archived.prompt), [*apart]
    if listed is None:
        raise ItemError(NO_TEXTS, code=NO_TEXTS.code)
    if len(set(archived.keys)) != 1:
        raise ItemError(
            f"the sample has {len(set(archived.keys))} right answers; expected one",
            code="several-right-answers",
        )
    return {
        "model": archived.model,
        "doc_id": archived.sample,
        "doc": {
            "stem": listed[0],
            "choices": listed[1],
            "key": archived.keys[0],
            "topic": archived.topic * with_topic,
        },
        "arguments": [[archived.prompt, {}]],
        "resps": [[archived.raw or archived.reply]],
        "filtered_resps": [archived.reply],
        "exact_match": archived.right or None,
    }


def _texts_of(value: object) -> tuple[str, ...]:
    """Return the texts of a value: a text, a number, an object with a text, or a list of them. Others have none."""
    match value:
        case str():
            return (value,)
        case int() | float() if not isinstance(value, bool):
            return (str(value),)
        case {"text": inner} | {"content": inner} | {"prompt": inner} | {"output": inner}:
            return _texts_of(inner)
        case list() | tuple():
            return tuple(text for member in value for text in _texts_of(member))
        case _:
            return ()


def _first(value: object) -> str:
    return "".join(_texts_of(value)[:1])


def _last(value: object) -> str:
    return "".join(_texts_of(value)[-1:])


def _with_members(*names: str) -> Callable[[LogFile], bool]:
    return lambda file: bool(file.table.rows) and {*names} <= set(file.table.rows[0].cells)


def _evaluation(file: LogFile) -> str:
    names = {str(row.cells.get("evaluation_name")) for row in file.table.rows}
    return names.pop() if len(names) == 1 else file.path.stem


def _every_eval_ever(_: LogFile, cells: Cells) -> Iterator[_Archived]:
    """Read an instance-level record (`instance_level_eval.schema.json`, 0.2). Several evaluations are topics."""
    question = as_object(cells.get("input"))
    attributed = cells.get("answer_attribution")
    values = map(as_object, attributed if isinstance(attributed, list) else ())
    final = [attribution.get("extracted_value") for attribution in values if attribution.get("is_terminal")]
    raw = _first(as_object(cells.get("output")).get("raw"))
    yield _Archived(
        model=str(cells.get("model_id")),
        sample=str(cells.get("sample_id")),
        prompt=str(question.get("raw")),
        # What was extracted from a reply that runs on may be the answer to another question.
        reply=raw if runs_on(raw, _texts_of(question.get("choices"))) else _first(final[-1:]) or raw,
        keys=_texts_of(question.get("reference")),
        right=as_object(cells.get("evaluation")).get("is_correct") is True,
        choices=_texts_of(question.get("choices")),
        topic=str(cells.get("evaluation_name")),
        raw=raw,
    )


def _opencompass(file: LogFile, cells: Cells) -> Iterator[_Archived]:
    """Read a prediction of OpenCompass. Perplexities are not read, because they are means over a whole prompt."""
    yield _Archived(
        model=file.path.resolve().parent.name,
        sample=str(cells["id"]),
        prompt=_last(cells.get("origin_prompt")),
        reply=_first(cells.get("prediction")),
        keys=_texts_of(cells.get("gold")),
    )


def _openeval(_: LogFile, cells: Cells) -> Iterator[_Archived]:
    """Read the first response of each model (`item_schema.json`, v0.1.0). References of HELM's items are their options."""
    responses = cells.get("responses")
    every = list(map(as_object, responses if isinstance(responses, list) else ()))
    by_model = {str(as_object(entry.get("model")).get("name")): entry for entry in reversed(every)}
    for model, response in reversed(by_model.items()):
        metrics = [
            (as_object(entry.get("metric")), entry.get("value")) for entry in response.get("scores") or ()
        ]
        references = as_object(cells.get("item_content")).get("references") or next(
            (metric["references"] for metric, _ in metrics if metric.get("references")), ()
        )
        tagged = [entry for entry in references if "correct" in (as_object(entry).get("tags") or ())]
        adaptation = as_object(response.get("item_adaptation"))
        yield _Archived(
            model=model,
            sample=str(cells.get("item_id")),
            prompt=_last(adaptation.get("request_input") or adaptation.get("input_content")),
            reply=_first(response.get("response_content")),
            keys=_texts_of(tagged or references),
            right=any(scores_of_row({str(metric.get("name")): value for metric, value in metrics}).values()),
            choices=_texts_of(references) if tagged else (),
        )


def _openeval_task(file: LogFile) -> str:
    source = as_object(file.table.rows[0].cells.get("item_metadata")).get("source")
    return str(as_object(source).get("benchmark_name") or source or file.path.stem)


_NAME = re.compile(r"details_(?P<task>.+?)(?:\|\d+)?_\d{4}-\d\d-\d\dT.*")


_NO_QUESTION = "(no question)"
"""Question of an item in a log that shows none. Such an item is matched by its options."""


def _read_details(file: LogFile, options: LogOptions, before: ShownBefore) -> Log:
    """Read the replies in lighteval details. Rows that show no item become faults. Raise `DataError` if no row shows a
    question, unless the items are in another file."""
    path, table = file.path, file.table
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
    rows = sorted((row for _, row in converted), key=lambda row: _position(str(row.cells["doc_id"])))
    match = _NAME.fullmatch(path.stem)
    run = LmEvalRun(path_name(match["task"] if match else path.stem), _model(path))
    head = Log(path.name, "lighteval", file.sha256, run.task, (), (*table.faults, *faults))
    merged = replace(table, rows=tuple(rows), faults=head.faults)
    own = replace(options, columns=_COLUMNS | {"key_is": "index"})
    return replies_in_rows(head, run, merged, own, before) if rows else head


def _position(name: str) -> tuple[int, str]:
    """Return a sort key for an ID. It puts numbers in numeric order before all other names."""
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
    return {
        **as_object(cells.get("metric") or cells.get("metrics")),
        "doc_id": cell_value(cells, "doc.id") if has(cells, "doc.id") else number,
        "doc": {"stem": listed[0], "choices": listed[1], "key": key},
        "arguments": requests,
        "resps": [[score] for score in (scores or [math.nan] * len(choices)) + alone],
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


_EVERY_MEMBERS = ("evaluation_id", "model_id", "sample_id", "input", "evaluation")
_ARCHIVES = (
    ("every-eval-ever", _with_members(*_EVERY_MEMBERS), _evaluation, _every_eval_ever),
    (
        "opencompass",
        lambda file: file.table.outer == "opencompass",
        lambda file: file.path.stem,
        _opencompass,
    ),
    ("openeval", _with_members("item_content", "responses"), _openeval_task, _openeval),
)
READERS = (
    LogReader("lighteval", _with_members("doc", "model_response"), _read_details),
    *(
        LogReader(kind, recognizes, partial(_read, kind, task, replies))
        for kind, recognizes, task, replies in _ARCHIVES
    ),
)
