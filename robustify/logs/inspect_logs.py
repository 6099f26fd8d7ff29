"""Reader of Inspect logs (`.json`, and `.eval` if inspect-ai is installed).

Inspect may shuffle the choices, so a letter alone has no meaning. It refers to a choice of the logged sample, whose text is
then matched. A reply that Inspect scores as wrong because it is unreadable counts as unanswered here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from robustify.errors import DataError, ItemError, UsageError
from robustify.loaders.json_rows import item_table, whole_object
from robustify.loaders.rows import Cells, Fault, as_object, rows_or_faults, table_of
from robustify.logs.checked_names import Name, as_label, as_name, facts_of, listed, names_in, path_name
from robustify.logs.log import (
    Log,
    LogFile,
    LoggedItem,
    LogOptions,
    LogReply,
    ShownBefore,
    logged_items,
    plain_model,
)
from robustify.logs.own_scores import pick_contradicts, scored_right
from robustify.logs.prompts import Naming, assumed
from robustify.redaction import HoldsText

KIND = "inspect"
_ATTACHED = "attachment://"


def recognizes(file: LogFile) -> bool:
    """Return whether a file is an Inspect log, as JSON or zipped."""
    return file.zipped or file.table.outer == "inspect_log"


def read(file: LogFile, options: LogOptions, _: ShownBefore) -> Log:
    """Read the replies in the first epoch of an Inspect log. Raise `UsageError` if the scorer does not exist or none of
    several is selected, or inspect-ai is needed but not installed. Raise `DataError` if the task is not multiple choice,
    or a zipped log is unreadable."""
    path, tree = file.path, _tree(file)
    spec = as_object(tree["eval"])
    task = as_name(str(spec.get("task") or "").rsplit("/", 1)[-1]) or path_name(path.stem)
    samples = _in_order(tree, spec)
    table = table_of(enumerate(samples, start=1))
    rows, inner = table.rows, item_table(path.name, replace(table, outer="inspect_log"))
    names = {row.line: as_label(row.cells.get("id")) for row in rows}
    items, faults, said = logged_items(path.name, inner, options, task, names)
    scorer = _scorer(path.name, samples, options.filter)
    naming = Naming.of(_score(cells, scorer).get("answer") for cells in samples)
    known = _Answers(scorer, naming, [sample.get("target") for sample in samples])
    model = options.name or as_name(plain_model(str(spec.get("model") or ""))) or path_name("model")
    make = partial(LogReply, model=model, view=options.view or "full", template=KIND)
    made, wrong = rows_or_faults(
        ((row, items[row.line]) for row in rows if row.line in items),
        lambda row, item: make(row.line, item=item, **_answer(row.cells, item, known)),
    )
    replies = tuple(reply for _, reply in made)
    return Log(
        file=path.name,
        kind=KIND,
        sha256=file.sha256,
        task=task,
        replies=replies,
        faults=(*faults, *_unfinished(tree, len(samples)), *wrong),
        facts=_facts(tree, spec),
        notes=(*said, *_notes(options, replies, len(rows) - len(inner.rows))),
    )


def _tree(file: LogFile) -> Mapping[str, Any]:
    """Return the contents of a log. An .eval file has the form of a JSON log after it is unzipped."""
    path = file.path
    if not file.zipped:
        return as_object(whole_object(path.name, path.read_text(encoding="utf-8-sig")))
    try:
        from inspect_ai.log import read_eval_log
    except ImportError:
        raise UsageError(
            f"{path.name}: reading an .eval file needs inspect-ai, which is not installed. Run `pip install "
            "'robustcbrn-eval[inspect]'`, or convert the log with `inspect log convert --to json --output-dir DIR FILE`."
        ) from None
    try:
        log = read_eval_log(str(path), exclude_fields={"events", "messages", "store"})
    except Exception as error:
        # Readers raise errors of many types, and their messages may quote a sample.
        raise DataError(
            f"{path.name}: the file is incomplete or damaged ({type(error).__name__}). Use a complete copy."
        ) from None
    return dict(log.model_dump(mode="json", exclude_none=True))


def _in_order(tree: Mapping[str, Any], spec: Mapping[str, Any]) -> list[Cells]:
    """Return the samples in the order of their data set, not of their completion."""
    ids = _list(as_object(spec.get("dataset")).get("sample_ids"))
    position = {str(name): at for at, name in enumerate(ids)}
    samples = [_resolved(sample) for sample in _list(tree["samples"]) if isinstance(sample, Mapping)]

    def place(sample: Cells) -> tuple[int, int]:
        epoch = sample.get("epoch")
        return position.get(str(sample.get("id")), len(position)), epoch if isinstance(epoch, int) else 1

    return sorted(samples, key=place)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _resolved(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sample with its attachments inserted into the item texts."""
    apart = as_object(sample.get("attachments"))
    texts = {name: _put_back(sample[name], apart) for name in ("input", "choices") if name in sample}
    return {**sample, **texts}


def _put_back(value: object, apart: Mapping[str, Any]) -> object:
    match value:
        case str() if value.startswith(_ATTACHED):
            return apart.get(value.removeprefix(_ATTACHED), value)
        case list():
            return [_put_back(member, apart) for member in value]
        case Mapping():
            return {name: _put_back(member, apart) for name, member in value.items()}
        case _:
            return value


def _unfinished(tree: Mapping[str, Any], n: int) -> list[Fault]:
    total = as_object(tree.get("results")).get("total_samples")
    status = tree.get("status", "success")
    shown = as_name(status) or "not shown"
    reasons = [] if status == "success" else [f"the run has the status {shown}; expected success"]
    if isinstance(total, int) and total != n:
        reasons.append(f"the log contains {n} samples, but its results count {total}; expected all samples")
    return [Fault(1, reason) for reason in reasons]


def _scorer(file: str, samples: Sequence[Cells], wanted: str | None) -> str | None:
    scores = [sample.get("scores") for sample in samples]
    said = [name for one in scores if isinstance(one, Mapping) for name in one]
    names, known = list(dict.fromkeys(said)), names_in(said)
    if wanted is not None and wanted not in names:
        raise UsageError(f"{file}: there is no scorer {wanted!r}; expected one of {listed(names, known)}")
    if wanted is None and len(names) > 1 and "choice" not in names:
        raise UsageError(
            f"{file}: the log has several scorers ({listed(names, known)}). Select one with --filter NAME."
        )
    return wanted or ("choice" if "choice" in names else next(iter(names), None))


@dataclass(frozen=True, slots=True, repr=False)
class _Answers(HoldsText):
    """Scorer of a log, the format of its answers, and its targets."""

    scorer: str | None
    naming: Naming
    targets: Sequence[object]


def _score(cells: Cells, scorer: str | None) -> Mapping[str, Any]:
    return as_object(as_object(cells.get("scores")).get(scorer or ""))


def _answer(cells: Cells, item: LoggedItem, known: _Answers) -> dict[str, Any]:
    """Return the pick of a sample, or the reason why it has none."""
    score = _score(cells, known.scorer)
    if cells.get("error") is not None:
        return {"reason": "the run failed on it"}
    if not score:
        return {"reason": "no score is logged"}
    answer = known.naming.answer(score.get("answer"), item)
    plain = known.scorer == "choice" or score.get("answer") in known.targets
    if pick_contradicts(right := scored_right(score.get("value")), item, answer["pick"], plain=plain):
        raise ItemError(
            f"the sample is scored as {'right' if right else 'wrong'}, but its answer and target imply the opposite. Check "
            "that both are letters of the logged choices."
        )
    return answer


def _notes(options: LogOptions, replies: Sequence[LogReply], dropped: int) -> list[str]:
    notes = []
    if dropped:
        notes.append(f"samples of later epochs left out: {dropped} (the first epoch of each item counts)")
    if options.view is None:
        same = len(replies) > 1 and len({reply.item.stem for reply in replies}) == 1
        doubt = ". All items have the same stem; if the question was not shown, use choices_only"
        notes.append(assumed("full") + doubt * same)
    return notes


def _facts(tree: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Name]:
    steps = _list(as_object(tree.get("plan")).get("steps"))
    return facts_of(
        {
            "inspect_ai": as_object(spec.get("packages")).get("inspect_ai"),
            "task_version": spec.get("task_version"),
            "epochs": as_object(spec.get("config")).get("epochs"),
            "solver": "+".join(str(step.get("solver")) for step in steps if isinstance(step, Mapping)),
        }
    )
