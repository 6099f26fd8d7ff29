"""Formats of files with prompts and replies, such as those of HELM, EvalScope, and promptfoo.

To add a format, add an entry to `FORMATS`.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os.path import commonprefix
from typing import Any

from robustify.base.errors import DataError, ItemError
from robustify.base.redaction import HoldsText
from robustify.reading.columns import usual_names
from robustify.reading.loaders.rows import Cells, SourceRow, as_integer, as_object, cell_or_none
from robustify.reading.logs.log import LogFile
from robustify.reading.logs.naming import whole_number
from robustify.reading.logs.requested import numbered_texts
from robustify.reading.logs.stated_scores import scored_right, scores_of_row
from robustify.reading.marks.labelling import LETTERS
from robustify.reading.marks.picks import runs_on


@dataclass(frozen=True, slots=True, repr=False)
class Archived(HoldsText):
    """Reply of a model to a sample. The model is "" if the file names none, and so is a missing reply. `keys` are the right
    answers, in any form. `right` says whether the file scored the reply as right, or is None if it does not say. `choices`
    are the options that the file lists apart from the prompt, `stem` is the question apart from it, and `raw` is the reply
    before an answer was extracted from it, if they are known. A changed or repeated sample `is_copy`."""

    model: str
    sample: str
    prompt: str
    reply: str
    keys: tuple[str, ...]
    right: bool | None = None
    choices: tuple[str, ...] = ()
    stem: str = ""
    topic: str = ""
    raw: str = ""
    is_copy: bool = False


@dataclass(frozen=True, slots=True)
class Format:
    """How to read one tool's files: `recognizes` them, returns `replies` from their `rows`, and names their `task`."""

    kind: str
    recognizes: Callable[[LogFile], bool]
    replies: Callable[[LogFile, Cells], Iterable[Archived]]
    task: Callable[[LogFile], str] = lambda file: file.path.stem
    rows: Callable[[LogFile], Sequence[SourceRow]] = lambda file: file.table.rows


def _texts_of(value: object) -> tuple[str, ...]:
    """Return the texts in a value: a text, a number, an object with a text, or a list of them. Other values have none."""
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


def _any(scores: Iterable[bool | None]) -> bool | None:
    """Return whether any score says that the reply is right, or None if no score says anything."""
    stated = [right for right in scores if right is not None]
    return any(stated) if stated else None


def _members(value: object) -> Sequence[Any]:
    """Return a list unchanged. Other values have no members."""
    return value if isinstance(value, list) else ()


def _correct(references: Iterable[object]) -> list[object]:
    """Return the references that are tagged as correct."""
    return [option for option in references if "correct" in _texts_of(as_object(option).get("tags"))]


def _first(value: object) -> str:
    return "".join(_texts_of(value)[:1])


def _last(value: object) -> str:
    return "".join(_texts_of(value)[-1:])


def with_members(*names: str) -> Callable[[LogFile], bool]:
    """Return a function that checks whether the first row of a file has these members."""
    return lambda file: bool(file.table.rows) and {*names} <= set(file.table.rows[0].cells)


def _evaluation(file: LogFile) -> str:
    names = {str(row.cells.get("evaluation_name")) for row in file.table.rows}
    return names.pop() if len(names) == 1 else file.path.stem


def _every_eval_ever(_: LogFile, cells: Cells) -> Iterator[Archived]:
    """Read an instance-level record (`instance_level_eval.schema.json`, 0.2). Several evaluations are topics."""
    question = as_object(cells.get("input"))
    attributed = cells.get("answer_attribution")
    values = map(as_object, _members(attributed))
    final = [attribution.get("extracted_value") for attribution in values if attribution.get("is_terminal")]
    raw = _first(as_object(cells.get("output")).get("raw"))
    yield Archived(
        model=str(cells.get("model_id")),
        sample=str(cells.get("sample_id")),
        prompt=str(question.get("raw")),
        # What was extracted from a reply that runs on may be the answer to another question.
        reply=raw if runs_on(raw, _texts_of(question.get("choices"))) else _first(final[-1:]) or raw,
        keys=_texts_of(question.get("reference")),
        right=scored_right(as_object(cells.get("evaluation")).get("is_correct")),
        choices=_texts_of(question.get("choices")),
        topic=str(cells.get("evaluation_name")),
        raw=raw,
    )


def _opencompass(file: LogFile, cells: Cells) -> Iterator[Archived]:
    """Read an OpenCompass prediction. Perplexities are not read, because they are means over a whole prompt. The prompts
    that they are about differ only in the answer at the end."""
    prompts = [
        _last(as_object(cell).get("prompt")) for name, cell in cells.items() if name.startswith("label: ")
    ]
    yield Archived(
        model=file.path.resolve().parent.name,
        sample=str(cells["id"]),
        prompt=_last(cells.get("origin_prompt")) or commonprefix(prompts),  # noqa: RUF071 (texts, not paths)
        reply=_first(cells.get("prediction")),
        keys=_texts_of(cells.get("gold")),
    )


def _openeval(_: LogFile, cells: Cells) -> Iterator[Archived]:
    """Read the first response of each model (`item_schema.json`, v0.1.0). References of HELM's items are their options."""
    every = list(map(as_object, _members(cells.get("responses"))))
    by_model = {str(as_object(entry.get("model")).get("name")): entry for entry in reversed(every)}
    for model, response in reversed(by_model.items()):
        scores = map(as_object, _members(response.get("scores")))
        metrics = [(as_object(entry.get("metric")), entry.get("value")) for entry in scores]
        listed = [as_object(cells.get("item_content")), *(metric for metric, _ in metrics)]
        references = next(filter(None, (_members(entry.get("references")) for entry in listed)), ())
        tagged = _correct(references)
        adaptation = as_object(response.get("item_adaptation"))
        yield Archived(
            model=model,
            sample=str(cells.get("item_id")),
            prompt=_last(adaptation.get("request_input") or adaptation.get("input_content")),
            reply=_first(response.get("response_content")),
            keys=_texts_of(tagged or references),
            right=_any(scores_of_row({str(metric.get("name")): value for metric, value in metrics}).values()),
            choices=_texts_of(references) if tagged else (),
        )


def _openeval_task(file: LogFile) -> str:
    source = as_object(file.table.rows[0].cells.get("item_metadata")).get("source")
    return str(as_object(source).get("benchmark_name") or source or file.path.stem)


_CAPITALS = tuple(letter.upper() for letter in LETTERS)


def _helm(_: LogFile, cells: Cells) -> Iterator[Archived]:
    """Read a request of `scenario_state.json`. Changed instances and later trials count as copies."""
    if cells.get("reference_index") is not None:
        raise ItemError(
            "the request scores one option separately (multiple_choice_separate), which robustify cannot read. Use a "
            "run of multiple_choice_joint.",
            code="options-scored-apart",
        )
    instance, request = as_object(cells.get("instance")), as_object(cells.get("request"))
    references = _members(instance.get("references"))
    completions = as_object(cells.get("result")).get("completions") or ()
    shown = as_object(cells.get("output_mapping"))
    yield Archived(
        model=str(request.get("model")),
        sample=str(instance.get("id")),
        prompt=str(request.get("prompt") or _last(request.get("messages"))),
        reply=_first(completions),
        keys=_texts_of(_correct(references)),
        choices=_texts_of([*shown.values()] or references),
        stem=_first(instance.get("input")),
        is_copy="perturbation" in instance or bool(cells.get("train_trial_index")),
    )


def _tries(file: LogFile) -> list[SourceRow]:
    """Return the reviews of EvalScope 1, and whether each is a later try at the item of its group."""
    first: dict[str | None, int] = {}
    for row in sorted(file.table.rows, key=lambda row: as_integer(row.cells.get("index")) or 0):
        group = cell_or_none(row.cells, "sample_score.group_id")
        first.setdefault(None if group is None else str(group), row.line)
    later = {row.line for row in file.table.rows} - {*first.values()} if None not in first else set[int]()
    return [replace(row, cells={**row.cells, "is_later": row.line in later}) for row in file.table.rows]


def _evalscope(file: LogFile, cells: Cells) -> Iterator[Archived]:
    """Read a review written by EvalScope 1."""
    score = as_object(as_object(cells.get("sample_score")).get("score"))
    raw = _first(score.get("prediction"))
    yield Archived(
        model=file.path.resolve().parent.name,
        sample=str(cells.get("index")),
        prompt=_last(cells.get("input")),
        reply=_first(score.get("extracted_prediction")) or raw,
        keys=_texts_of(cells.get("target")),
        right=_any(scores_of_row(as_object(score.get("value"))).values()),
        raw=raw,
        is_copy=bool(cells["is_later"]),
    )


def _reviewed(_: LogFile, cells: Cells) -> Iterator[Archived]:
    """Read a review written by EvalScope 0, whose options are columns of the raw sample."""
    every = cells.get("choices")
    reply = as_object(every[0]) if isinstance(every, list) and every else {}
    review, sample = as_object(reply.get("review")), as_object(cells.get("raw_input"))
    names = usual_names(sample, "choices", slice(1))
    listed = sample[names[0]] if names else [sample[mark] for mark in _CAPITALS if mark in sample]
    raw = _first(as_object(reply.get("message")).get("content"))
    yield Archived(
        model=str(cells.get("model")),
        sample=str(cells.get("index")),
        prompt=_last(as_object(cells.get("origin_prompt")).get("data")) or _usual_text(sample, "stem"),
        stem=_usual_text(sample, "stem"),
        reply=_first(review.get("pred")) or raw,
        keys=_texts_of(review.get("gold")),
        right=_any(map(scored_right, as_object(review.get("result")).values())),
        choices=_texts_of(listed),
        topic=str(cells.get("subset_name") or ""),
        raw=raw,
    )


def _usual_text(cells: Cells, part: str) -> str:
    """Return the text of the column with a usual name of a part, or "" unless exactly one column has such a name."""
    names = usual_names(cells, part)
    return _first(cells[names[0]]) if len(names) == 1 else ""


def _events(file: LogFile) -> list[SourceRow]:
    """Return one row per OpenAI Evals sample, with the sample's events keyed by type, and the model of the run. Raise
    `DataError` if the file has several runs, or several matches of a sample."""
    n_runs = sum("spec" in row.cells for row in file.table.rows)
    matched = Counter(
        str(row.cells.get("sample_id")) for row in file.table.rows if row.cells.get("type") == "match"
    )
    if n_runs > 1 or max(matched.values(), default=0) > 1:
        raise DataError(
            f"{file.path.name}: the file has several runs, or several matches of a sample; expected one. Write each run to "
            "a file of its own.",
            code="several-runs-in-file",
        )
    spec = as_object(file.table.rows[0].cells.get("spec"))
    samples: dict[str, SourceRow] = {}
    for row in file.table.rows:
        name, kind = str(row.cells.get("sample_id")), row.cells.get("type")
        if kind in ("sampling", "match"):
            before = samples.setdefault(
                name, replace(row, cells={"id": name, "model": _first(spec.get("completion_fns"))})
            )
            samples[name] = replace(
                before, cells={**before.cells, str(kind): as_object(row.cells.get("data"))}
            )
    return [row for row in samples.values() if "match" in row.cells]


def _openai_evals(_: LogFile, cells: Cells) -> Iterator[Archived]:
    match, sampling = as_object(cells.get("match")), as_object(cells.get("sampling"))
    yield Archived(
        model=str(cells["model"]),
        sample=str(cells["id"]),
        prompt=_last(sampling.get("prompt") or match.get("prompt")),
        reply=_first(match.get("sampled") or sampling.get("sampled") or match.get("picked")),
        keys=_texts_of(match.get("expected")),
        right=scored_right(match.get("correct")),
    )


_EQUALS = frozenset({"equals", "contains", "icontains", "starts-with", "contains-any"})


def _promptfoo(_: LogFile, cells: Cells) -> Iterator[Archived]:
    """Read a promptfoo result. The key is the text that a test expects, or a variable with a usual name of keys.
    Raise `ItemError` if the result has neither."""
    expected = [
        value
        for test in map(as_object, _members(as_object(cells.get("testCase")).get("assert")))
        if str(test.get("type")) in _EQUALS
        for value in _texts_of(test.get("value"))
        if "{{" not in value
    ]
    named = as_object(cells.get("vars"))
    expected = expected or [*_texts_of(_usual_text(named, "key") or named.get("expected"))]
    if not expected:
        raise ItemError(
            "no test expects a text (`equals` or `contains`), and no variable is named `answer` or `expected`. Add such a "
            "variable to the tests.",
            code="no-key",
        )
    provider, output = as_object(cells.get("provider")), as_object(cells.get("response")).get("output")
    yield Archived(
        model=str(provider.get("label") or provider.get("id")),
        sample=str(cells.get("testIdx")),
        prompt=_promptfoo_prompt(cells),
        reply=json.dumps(output) if isinstance(output, dict) else _first(output),
        keys=tuple(expected),
        right=scored_right(cells.get("success")),
        is_copy=bool(cells.get("promptIdx") or cells.get("repeatIndex")),
    )


def _promptfoo_prompt(cells: Cells) -> str:
    """Return the text of a prompt, which may be a chat written as JSON."""
    raw = str(as_object(cells.get("prompt")).get("raw"))
    try:
        return _last(json.loads(raw)) or raw
    except ValueError:
        return raw


def _deepeval(_: LogFile, cells: Cells) -> Iterator[Archived]:
    """Read a row of a DeepEval benchmark's `predictions`."""
    yield Archived(
        model="",
        sample=str(cells.get("Input")),
        prompt=str(cells.get("Input")),
        reply=str(cells.get("Prediction")),
        keys=_texts_of(cells.get("Expected Output")),
        right=scored_right(cells.get("Correct")),
        topic=str(cells.get("Task") or ""),
    )


def _wandb(_: LogFile, cells: Cells) -> Iterator[Archived]:
    """Read a row of the table that lm-eval sends to Weights & Biases. If options were scored, numbers name them."""
    scored = cells.get("output_type") == "multiple_choice"
    options = numbered_texts(str(cells.get("choices") or "")) if scored else ()
    pick, key = (_capital(cells.get(name), len(options)) for name in ("filtered_predictions", "labels"))
    yield Archived(
        model="",
        sample=str(cells.get("id")),
        prompt=str(cells.get("data")),
        reply=pick,
        keys=(key,),
        right=_any(scores_of_row({name: cells.get(name) for name in ("acc", "exact_match")}).values()),
        choices=options,
    )


def _capital(cell: object, k: int) -> str:
    """Return the capital letter for the number of one of `k` options, or any other cell as text."""
    number = whole_number(cell)
    return _CAPITALS[number] if number is not None and 0 <= number < k else str(cell)


def _is_deepeval(file: LogFile) -> bool:
    """Return whether a file is a table of DeepEval. Early versions wrote no keys, and no column that is not listed here."""
    names = {*file.table.rows[0].cells} if file.table.rows else set()
    alone = names <= {"", "column 1", "Task", "Input", "Prediction", "Correct"}
    return {"Input", "Prediction", "Correct"} <= names and (alone or "Expected Output" in names)


FORMATS = (
    Format(
        "every-eval-ever",
        with_members("evaluation_id", "model_id", "sample_id", "input", "evaluation"),
        _every_eval_ever,
        _evaluation,
    ),
    Format("opencompass", lambda file: file.table.outer == "opencompass", _opencompass),
    Format("openeval", with_members("item_content", "responses"), _openeval, _openeval_task),
    Format(
        "helm",
        with_members("instance", "request", "result"),
        _helm,
        lambda file: file.path.resolve().parent.name,
    ),
    Format("evalscope", with_members("index", "target", "sample_score"), _evalscope, rows=_tries),
    Format("evalscope-0", with_members("raw_input", "choices", "reviewed"), _reviewed),
    Format(
        "openai-evals",
        with_members("spec"),
        _openai_evals,
        lambda file: str(cell_or_none(file.table.rows[0].cells, "spec.eval_name") or file.path.stem),
        _events,
    ),
    Format("promptfoo", with_members("testIdx", "provider", "prompt", "vars"), _promptfoo),
    Format("deepeval", _is_deepeval, _deepeval),
    Format("wandb", with_members("data", "labels", "raw_predictions", "filtered_predictions"), _wandb),
)
"""In order. The first one that recognizes a file reads it."""
