"""Replies in archives of many evaluations, read like the logs of lm-eval.

The question comes from the prompt, because archives keep it as the model saw it. The options do so, too, unless the
archive lists other options apart from it, as for a cloze.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from robustify.base.errors import ItemError
from robustify.base.redaction import HoldsText
from robustify.base.texts import unspaced
from robustify.reading.loaders.rows import Cells, SourceTable, rows_or_faults
from robustify.reading.logs.checked_names import Name, as_name, path_name
from robustify.reading.logs.lm_eval_logs import replies_in_rows
from robustify.reading.logs.lm_eval_requests import NO_TEXTS, last_question, listed_options
from robustify.reading.logs.lm_eval_results import LmEvalRun
from robustify.reading.logs.log import Log, LogFile, LogOptions, ShownBefore, plain_model
from robustify.reading.marks.labelling import only_labels

_COLUMNS = {"stem": "stem", "choices": "choices", "key": "key", "topic": "topic"}


@dataclass(frozen=True, slots=True, repr=False)
class Archived(HoldsText):
    """Reply of a model to a sample, "" if there is none. `keys` are the right answers, in any form. `right` is true if the
    archive scored it as right. `choices` are the options that the archive lists apart from the prompt."""

    model: str
    sample: str
    prompt: str
    reply: str
    keys: tuple[str, ...]
    right: bool = False
    choices: tuple[str, ...] = ()
    topic: str = ""


def archived_log(
    kind: str, task: Name, file: LogFile, replies: Callable[[Cells], Iterable[Archived]], options: LogOptions
) -> Log:
    """Return the log of an archive with the `replies` in each of its rows. A reply that the archive repeats, for example
    for each of its metrics, counts once. Raise the errors of `replies_in_rows`."""
    head = Log(file.path.name, kind, file.sha256, task, (), file.table.faults)
    read, faults = rows_or_faults(
        ((row, row.cells) for row in file.table.rows), lambda _, cells: list(replies(cells))
    )
    every = [(row, one) for row, found in read for one in found]
    once = {(r.model, r.topic, r.sample, r.prompt, r.reply): (row, r) for row, r in reversed(every)}
    made, unread = rows_or_faults(
        reversed(once.values()), lambda row, one: replace(row, cells=_as_lm_eval(one))
    )
    before, own, logs = ShownBefore(), replace(options, columns=_COLUMNS), list[Log]()
    for model in dict.fromkeys(str(row.cells["model"]) for _, row in made):
        run = LmEvalRun(task, as_name(plain_model(model)) or path_name(plain_model(model)), facts={})
        table = SourceTable(tuple(row for _, row in made if row.cells["model"] == model))
        logs.append(replies_in_rows(replace(head, faults=()), run, table, own, before))
    repeated = len(every) - len(once)
    notes = [f"replies that repeat another one, as for a second metric, were left out: {repeated}"]
    return replace(
        head,
        replies=tuple(reply for log in logs for reply in log.replies),
        faults=(*head.faults, *faults, *unread, *(fault for log in logs for fault in log.faults)),
        notes=(*notes[: bool(repeated)], *dict.fromkeys(note for log in logs for note in log.notes)),
    )


def _as_lm_eval(one: Archived) -> dict[str, object]:
    shown = listed_options(one.prompt, ())
    apart = () if only_labels(one.choices) else one.choices
    if apart and (shown is None or sorted(map(unspaced, shown[1])) != sorted(map(unspaced, apart))):
        shown = last_question(one.prompt), [*apart]
    if shown is None:
        raise ItemError(NO_TEXTS)
    if len(set(one.keys)) != 1:
        raise ItemError(f"the sample has {len(set(one.keys))} right answers; expected one")
    return {
        "model": one.model,
        "doc_id": one.sample,
        "doc": {"stem": shown[0], "choices": shown[1], "key": one.keys[0], "topic": one.topic},
        "arguments": [[one.prompt, {}]],
        "filtered_resps": [one.reply],
        "exact_match": one.right or None,
    }


def texts_of(value: object) -> tuple[str, ...]:
    """Return the texts of a value: a text, a number, an object with a text, or a list of them. Others have none."""
    match value:
        case str():
            return (value,)
        case int() | float() if not isinstance(value, bool):
            return (str(value),)
        case {"text": inner} | {"content": inner} | {"prompt": inner} | {"output": inner}:
            return texts_of(inner)
        case list() | tuple():
            return tuple(text for one in value for text in texts_of(one))
        case _:
            return ()
