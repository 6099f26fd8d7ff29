"""Readers of files with prompts and replies, whose formats are listed in `archive_formats`.

Each row is converted to the format of lm-eval and read as such. The question and options come from the prompt that the
model saw, unless the file lists other options apart from the prompt, as for a cloze.
"""

from dataclasses import replace
from functools import partial

from robustify.base.errors import DataError, ItemError, Notice, UsageError
from robustify.base.texts import unspaced
from robustify.reading.loaders.rows import SourceTable, as_object, rows_or_faults
from robustify.reading.logs.archive_formats import FORMATS, Archived, Format
from robustify.reading.logs.lm_eval_logs import LmEvalRun, replies_in_rows
from robustify.reading.logs.log import Log, LogFile, LogOptions, LogReader, ShownBefore, model_name, path_name
from robustify.reading.logs.requested import NO_TEXTS, last_question, listed_options, without_instruction
from robustify.reading.logs.responses import innermost
from robustify.reading.logs.tables import pick_tables
from robustify.reading.marks.labelling import only_labels

_UNNAMED = Notice(
    "the file does not name the model, so the name of the folder is used (to change this, use MODEL=FILE)",
    code="model-named-by-folder",
)
_COLUMNS = {"stem": "stem", "choices": "choices", "key": "key"}


def _read(format_: Format, file: LogFile, options: LogOptions, shown: ShownBefore) -> Log:
    """Return the log that a file contains. A repeated reply counts once. If the user mapped the parts of a table of
    picks, read the file as such a table. Raise the errors of `replies_in_rows`."""
    if options.parts_of_picks:
        return pick_tables.READER.read(file, options, shown)
    task = path_name(format_.task(file))
    head = Log(file.path.name, format_.kind, file.sha256, task, (), tuple(file.table.faults))
    read, faults = rows_or_faults(
        ((row, row.cells) for row in format_.rows(file)), lambda _, cells: list(format_.replies(file, cells))
    )
    every = [(row, archived) for row, replies in read for archived in replies]
    models = {archived.model for _, archived in every}
    if options.model is not None and len(models) > 1:
        raise UsageError(
            f"{file.path.name}: the file contains answers from {len(models)} models and already names each model. "
            f"Remove {options.model}=.",
            code="models-named-twice",
        )
    copies = sum(archived.is_copy for _, archived in every)
    every = [(row, archived) for row, archived in every if not archived.is_copy]
    once = {(r.model, r.topic, r.sample, r.prompt, r.reply): (row, r) for row, r in reversed(every)}
    several = len({archived.topic for _, archived in every}) > 1
    keyless = not any(archived.keys for _, archived in every)
    converted, unread = rows_or_faults(
        reversed(once.values()),
        lambda row, archived: replace(row, cells=_as_lm_eval(archived, several, keyless)),
    )
    rows, notes = without_instruction([row for _, row in converted])
    if keyless and rows:
        return _read_keyless(
            replace(file, table=SourceTable(tuple(rows), (*head.faults, *faults, *unread))), options
        )
    before, own, logs = ShownBefore(), replace(options, columns=_COLUMNS | {"topic": "topic"}), list[Log]()
    for model in dict.fromkeys(str(row.cells["model"]) for row in rows):
        run = LmEvalRun(
            task, model_name(model, model or file.path.resolve().parent.name), facts={}, from_prompts=True
        )
        table = SourceTable(tuple(row for row in rows if row.cells["model"] == model))
        logs.append(replies_in_rows(replace(head, faults=()), run, table, own, before))
    return replace(
        head,
        replies=tuple(reply for log in logs for reply in log.replies),
        faults=(*head.faults, *faults, *unread, *(fault for log in logs for fault in log.faults)),
        notes=(
            *_left_out(len(every) - len(once), copies),
            *notes,
            *[_UNNAMED] * (options.model is None and "" in models),
            *dict.fromkeys(note for log in logs for note in log.notes),
        ),
        exchanges={place: exchange for log in logs for place, exchange in log.exchanges.items()},
    )


def _read_keyless(file: LogFile, options: LogOptions) -> Log:
    """Read rows in the format of lm-eval that have no keys, as a table of picks. Raise `DataError` unless the items are in
    another file."""
    if not options.keyed:
        raise DataError(
            f"{file.path.name}: the log has no keys. Pass the items with their keys (--data ITEMS).",
            code="no-key",
        )
    columns = {"stem": "stem", "choices": "choices", "pick": "pick"}
    columns |= {"model": "model"} if options.model is None else {}
    folder, rows = file.path.resolve().parent.name, file.table.rows
    picks = (
        {
            **as_object(row.cells["doc"]),
            "pick": innermost(row.cells["filtered_resps"]),
            "model": model_name(str(row.cells["model"]), str(row.cells["model"]) or folder),
        }
        for row in rows
    )
    table = replace(
        file.table, rows=[replace(row, cells=cells) for row, cells in zip(rows, picks, strict=True)]
    )
    read = pick_tables.READER.read(
        replace(file, table=table), replace(options, columns=columns), ShownBefore()
    )
    unnamed = options.model is None and any(row.cells["model"] == "" for row in rows)
    return replace(read, notes=(*read.notes, *[_UNNAMED] * unnamed))


def _left_out(n_repeated: int, n_copies: int) -> list[Notice]:
    """Return notes on replies that were not used."""
    repeated = f"replies that repeat another one, as for a second metric, were left out: {n_repeated}"
    copies = f"replies to changed or repeated copies of items were left out: {n_copies}"
    return [
        *[Notice(repeated, code="repeated-replies")] * bool(n_repeated),
        *[Notice(copies, code="copies-left-out")] * bool(n_copies),
    ]


def _as_lm_eval(archived: Archived, with_topic: bool, keyless: bool) -> dict[str, object]:
    listed = listed_options(archived.prompt, ())
    apart = () if only_labels(archived.choices) else archived.choices
    if apart and (listed is None or sorted(map(unspaced, listed[1])) != sorted(map(unspaced, apart))):
        listed = last_question(archived.prompt), [*apart]
    if listed is None:
        raise ItemError(NO_TEXTS, code=NO_TEXTS.code)
    if not keyless and len(set(archived.keys)) != 1:
        raise ItemError(
            f"the sample has {len(set(archived.keys))} right answers; expected one",
            code="several-right-answers",
        )
    return {
        "model": archived.model,
        "doc_id": archived.sample,
        "doc": {
            "stem": archived.stem or listed[0],
            "choices": listed[1],
            **({} if keyless else {"key": archived.keys[0]}),
            "topic": archived.topic * with_topic,
        },
        "arguments": [[archived.prompt, {}]],
        "resps": [[archived.raw or archived.reply]],
        "filtered_resps": [archived.reply],
        "exact_match": archived.right,
    }


READERS = tuple(LogReader(entry.kind, entry.recognizes, partial(_read, entry)) for entry in FORMATS)
