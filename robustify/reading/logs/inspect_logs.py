"""Reader of Inspect logs (`.json`, and `.eval` if inspect-ai is installed).

Inspect may shuffle the choices, so a letter alone has no meaning. It refers to a choice of the logged sample, whose text is
then matched. A reply that Inspect scores as wrong because it is unreadable counts as unanswered here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

from robustify.base.errors import DataError, ItemError, Notice, UsageError, installing
from robustify.reading.loaders.converters import table_of_items
from robustify.reading.loaders.json_rows import whole_object
from robustify.reading.loaders.open_file import text_of
from robustify.reading.loaders.rows import Cells, Fault, SourceRow, as_object, rows_or_faults, table_of
from robustify.reading.logs import log, stated_scores
from robustify.reading.logs.exchanges import Exchange
from robustify.reading.logs.naming import Naming
from robustify.reading.logs.prompts import Prompt, content_texts, decide_presentation, same_question_notes

KIND = "inspect"
_ATTACHED = "attachment://"
_decide = partial(decide_presentation, from_prompts=True, maps_letters=True)


def _read(file: log.LogFile, options: log.LogOptions, _: log.ShownBefore) -> log.Log:
    """Read the replies in the first epoch of an Inspect log."""
    path, tree = file.path, _tree(file)
    spec = as_object(tree["eval"])
    task = log.as_name(str(spec.get("task") or "").rsplit("/", 1)[-1]) or log.path_name(path.stem)
    samples = _samples(tree, spec)
    table = replace(table_of(enumerate(samples, start=1)), outer="inspect_log")
    inner = table_of_items(path.name, table)
    names = {row.line: log.as_label(row.cells.get("id")) for row in table.rows}
    items, faults, notes = log.logged_items(path.name, inner, options, task, names)
    scorer = _scorer(path.name, samples, options.filter)
    scores, reply_notes = _scores(samples, scorer)
    naming = Naming.from_cells(score.get("answer") for score in scores.values())
    targets = [] if scorer == "choice" else [sample.get("target") for sample in samples]
    model = options.name or log.model_name(str(spec.get("model") or ""), "model")
    asked_rows = [(row, items[row.line]) for row in table.rows if row.line in items]
    prompts = [Prompt(item, (text,), ("",)) for row, item in asked_rows if (text := _prompt(row.cells))]
    presentation = _decide(path.name, KIND, prompts, options)
    texts = _completions(samples) if options.linting else {}
    exchanges: dict[tuple[int, log.Name], Exchange] = {}
    stricter = list[int]()
    make = partial(log.LogReply, model=model, view=presentation.view, template=presentation.template)

    def reply(row: SourceRow, item: log.LoggedItem) -> log.LogReply:
        if options.linting:
            exchanges[row.line, model] = _exchange(row.cells, {}, texts, None, False)
        if row.cells.get("error") is not None:
            return make(row.line, item=item, reason="the run failed on it")
        if not (score := scores[row.line]):
            return make(row.line, item=item, reason="no score is logged")
        named = naming.answer(score.get("answer"), item.k, item.choices)
        plain = scorer == "choice" or score.get("answer") in targets
        right = stated_scores.scored_right(score.get("value"))
        contradicts = stated_scores.pick_contradicts(right, item, named.pick, plain=plain)
        stricter.extend([row.line] * stated_scores.is_stricter(right, item, named.pick))
        if options.linting:
            exchanges[row.line, model] = _exchange(row.cells, score, texts, right, contradicts)
        elif contradicts:
            raise _contradiction(right)
        return make(row.line, item=item, pick=named.pick, reason=named.reason)

    read, wrong = rows_or_faults(asked_rows, reply)
    notes += [
        *reply_notes,
        *stated_scores.stricter_notes(len(stricter)),
        *_epoch_notes(len(table.rows) - len(inner.rows)),
        *presentation.notes,
    ]
    notes += same_question_notes([] if prompts or options.view else items.values())
    return log.Log(
        file=path.name,
        kind=KIND,
        sha256=file.sha256,
        task=task,
        replies=tuple(logged_reply for _, logged_reply in read),
        faults=(*faults, *_unfinished(tree, len(samples)), *wrong),
        facts=_facts(tree, spec),
        notes=tuple(notes),
        exchanges=exchanges,
    )


def _contradiction(right: bool | None) -> ItemError:
    return ItemError(
        f"the sample is scored as {'right' if right else 'wrong'}, but its answer and target imply the opposite. "
        "Check that both are letters of the logged choices.",
        code="contradicted-key",
    )


def _scores(
    samples: Sequence[Cells], scorer: str | None
) -> tuple[dict[int, Mapping[str, Any]], list[Notice]]:
    """Return the scores of a scorer by line. If it logged no answer at all, as is common, the replies are the answers."""
    by_scorer = (as_object(cells.get("scores")) for cells in samples)
    scores = {line: as_object(scorers.get(scorer or "")) for line, scorers in enumerate(by_scorer, start=1)}
    if not any(scores.values()) or any(score.get("answer") is not None for score in scores.values()):
        return scores, []
    answered = {
        line: {**scores[line], "answer": _completion(sample)}
        for line, sample in enumerate(samples, start=1)
        if scores[line]
    }
    note = "the scorer logged no answers, so they were read from the replies"
    return {**scores, **answered}, [Notice(note, code="answers-from-replies")]


def _epoch_notes(n_dropped: int) -> list[Notice]:
    note = f"samples of later epochs left out: {n_dropped} (the first epoch of each item counts)"
    return [Notice(note, code="later-epochs")] * bool(n_dropped)


def _exchange(
    cells: Cells,
    score: Mapping[str, Any],
    texts: Mapping[str, Sequence[str]],
    right: bool | None,
    contradicts: bool,
) -> Exchange:
    """Return the request and the reply of a sample."""
    return Exchange(
        contexts=(_prompt(cells),),
        continuations=("",),
        texts=tuple(texts[str(cells.get("id"))]),
        extracted=str(score.get("answer") or ""),
        rightness={} if right is None else {"score": right},
        contradicts=contradicts,
    )


def _completions(samples: Sequence[Cells]) -> dict[str, list[str]]:
    """Map the ID of each sample to its replies in all epochs."""
    texts: dict[str, list[str]] = {}
    for sample in samples:
        reply = _completion(sample)
        texts.setdefault(str(sample.get("id")), []).extend([reply] * bool(reply))
    return texts


def _completion(sample: Cells) -> str:
    """Return the reply of a model to a sample, or "" if the sample has no reply."""
    choices = _list(as_object(sample.get("output")).get("choices"))
    message = as_object(as_object(choices[0]).get("message")) if choices else {}
    return "\n".join(content_texts(message.get("content")))


def _prompt(cells: Cells) -> str:
    """Return the texts of the turns before a model's first reply, or "" if the log has no such turns."""
    turns = [as_object(turn) for turn in _list(cells.get("messages"))]
    before = list(takewhile(lambda turn: turn.get("role") != "assistant", turns))
    return "\n\n".join(text for turn in before for text in content_texts(turn.get("content")))


def _tree(file: log.LogFile) -> Mapping[str, Any]:
    """Return the contents of a log. An unzipped .eval file has the form of a JSON log."""
    path = file.path
    if not file.zipped:
        return as_object(whole_object(path.name, text_of(file.opened)))
    try:
        from inspect_ai.log import read_eval_log
    except ImportError:
        raise UsageError(
            f"{path.name}: reading an .eval file needs inspect-ai, which is not installed. Run {installing('inspect')}, "
            "or convert the log with `inspect log convert --to json --output-dir DIR FILE`.",
            code="inspect-not-installed",
        ) from None
    try:
        opened = read_eval_log(str(path), exclude_fields={"events", "store"})
    except Exception as error:
        # Readers raise errors of many types, and their messages may quote a sample.
        raise DataError(
            f"{path.name}: the file is incomplete or damaged ({type(error).__name__}). Use a complete copy.",
            code="damaged-log",
        ) from None
    return dict(opened.model_dump(mode="json", exclude_none=True))


def _samples(tree: Mapping[str, Any], spec: Mapping[str, Any]) -> list[Cells]:
    """Return the samples with their attachments, in the order of their data set instead of their completion."""
    ids = _list(as_object(spec.get("dataset")).get("sample_ids"))
    position = {str(name): index for index, name in enumerate(ids)}
    samples = [sample for sample in _list(tree.get("samples")) if isinstance(sample, Mapping)]
    # The first version had one score for each sample, and its scorer in the results.
    scorer = as_object(as_object(tree.get("results")).get("scorer")).get("name")
    samples = [
        {**sample, "scores": {str(scorer or "score"): sample["score"]}}
        if isinstance(sample.get("score"), Mapping) and not sample.get("scores")
        else sample
        for sample in samples
    ]
    samples.sort(key=lambda sample: sample["epoch"] if isinstance(sample.get("epoch"), int) else 1)
    samples.sort(key=lambda sample: position.get(str(sample.get("id")), len(position)))
    return [
        {
            **sample,
            **{
                part: _put_back(sample[part], sample)
                for part in ("input", "choices", "messages")
                if part in sample
            },
        }
        for sample in samples
    ]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _put_back(value: object, sample: Mapping[str, Any]) -> object:
    match value:
        case str() if value.startswith(_ATTACHED):
            return as_object(sample.get("attachments")).get(value.removeprefix(_ATTACHED), value)
        case list():
            return [_put_back(member, sample) for member in value]
        case Mapping():
            return {name: _put_back(member, sample) for name, member in value.items()}
        case _:
            return value


def _unfinished(tree: Mapping[str, Any], n: int) -> list[Fault]:
    total = as_object(tree.get("results")).get("total_samples")
    status = tree.get("status", "success")
    name = log.as_name(status) or "not shown"
    reasons = []
    if status != "success":
        reason = f"the run has the status {name}; expected success. Use the log of `inspect eval-retry` alone"
        reasons.append(Notice(reason, code="unfinished-run"))
    if isinstance(total, int) and total != n:
        reason = f"the log contains {n} samples, but its results count {total}; expected all samples"
        reasons.append(Notice(reason, code="incomplete-log"))
    return [Fault(1, reason) for reason in reasons]


def _scorer(file: str, samples: Sequence[Cells], wanted: str | None) -> str | None:
    scorers = [name for sample in samples for name in as_object(sample.get("scores"))]
    names, checked = list(dict.fromkeys(scorers)), log.names_in(scorers)
    if wanted is not None and wanted not in names:
        raise UsageError(
            f"{file}: there is no scorer {wanted!r}; expected one of {log.listed(names, checked)}",
            code="unknown-scorer",
        )
    if wanted is None and len(names) > 1 and "choice" not in names:
        raise UsageError(
            f"{file}: the log has several scorers ({log.listed(names, checked)}). Select one with --filter NAME.",
            code="several-scorers",
        )
    return wanted or ("choice" if "choice" in names else next(iter(names), None))


def _facts(tree: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, log.Name]:
    steps = _list(as_object(tree.get("plan")).get("steps"))
    return log.checked_facts(
        {
            "inspect_ai": as_object(spec.get("packages")).get("inspect_ai"),
            "task_version": spec.get("task_version"),
            "epochs": as_object(spec.get("config")).get("epochs"),
            "solver": "+".join(str(step.get("solver")) for step in steps if isinstance(step, Mapping)),
        }
    )


READER = log.LogReader(KIND, lambda file: file.zipped or file.table.outer == "inspect_log", _read)
