"""Reader of samples logged by lm-eval (`samples_*.jsonl`), in old and new formats. Numbers may be written as text.

A row states whether the best choice was right. That is recomputed from the log-likelihoods, and inconsistent logs are
refused.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from robustify.base.compressed import plain_path
from robustify.base.errors import DataError, ItemError, Notice
from robustify.items.scoring import per_character
from robustify.reading.loaders.converters import is_lm_eval
from robustify.reading.loaders.rows import (
    Cells,
    Fault,
    SourceRow,
    SourceTable,
    as_object,
    line_spans,
    rows_or_faults,
)
from robustify.reading.logs import log, stated_scores
from robustify.reading.logs.exchanges import Exchange
from robustify.reading.logs.lm_eval_filters import one_filter
from robustify.reading.logs.naming import Naming
from robustify.reading.logs.prompts import Prompt, decide_presentation
from robustify.reading.logs.requested import (
    by_choice,
    delimiter,
    items_in_rows,
    prompt_in_row,
)
from robustify.reading.logs.responses import (
    every_text,
    generated_text,
    innermost,
    is_scored,
    log_likelihoods,
    n_replies,
    other_targets,
    reply_runs_on,
    run_on_notes,
)

KIND = "lm-eval"
_LOGGED = re.compile(r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+))?")
TEXT_VIEWS = ("cloze", "choices_only_text")
"""Views in which texts are scored. If a log has no prompts, only the view distinguishes texts from letters."""
ROUNDING = 1e-6
"""A log-likelihood may exceed 0 by this much."""
UNNAMED = Notice(
    "there is no results file beside the log, so the name of the folder is used as the model name",
    code="model-named-by-folder",
)


@dataclass(frozen=True, slots=True)
class LmEvalRun:
    """Task, model, number of rows, and text before each choice of an lm-eval run, as far as they are known. If
    `from_prompts` is true, the questions were read from the prompts."""

    task: log.Name
    model: log.Name = log.NOTHING
    n: int | None = None
    facts: Mapping[str, log.Name] | None = None
    delimiter: str | None = None
    from_prompts: bool = False


def _recognizes(file: log.LogFile) -> bool:
    """Return whether a file has logged samples, or is the results file next to them."""
    cells = file.table.rows[0].cells if file.table.rows else {}
    return is_lm_eval(cells) or _is_results(cells)


def _read(file: log.LogFile, options: log.LogOptions, before: log.ShownBefore) -> log.Log:
    """Read the replies in a log of lm-eval."""
    if _is_results(file.table.rows[0].cells):
        raise DataError(
            f"{file.path.name} has only aggregated results; expected the answers to each item. Use samples_*.jsonl, which "
            "lm-eval writes with --log_samples, or details_*.parquet, which lighteval writes with --save-details.",
            code="results-without-answers",
        )
    run = find_run(file.path)
    head = log.Log(file.path.name, KIND, file.sha256, run.task, (), tuple(file.table.faults), run.facts or {})
    return replies_in_rows(head, run, file.table, options, before)


def _is_results(cells: Cells) -> bool:
    beside = {"config", "configs", "versions", "config_general", "n-samples", "config_tasks"}
    return isinstance(cells.get("results"), dict) and not beside.isdisjoint(cells)


def replies_in_rows(
    head: log.Log, run: LmEvalRun, table: SourceTable, options: log.LogOptions, before: log.ShownBefore
) -> log.Log:
    """Return the log `head` with the replies from a table of lm-eval rows. Raise `UsageError` if the filter does not exist,
    or the view contradicts the prompts, and `DataError` if the layout is unknown, or the prompts contradict `options`."""
    rows, notes = one_filter(head.file, table.rows, options.filter)
    names = {row.line: log.as_label(row.cells.get("doc_id")) for row in rows}
    apart = delimiter(rows, run.delimiter)
    task_items = options.task_items(rows, names) if options.task_items else None
    show = partial(before.items, head.file, options=options, task=run.task, names=names)
    by_line, faults, shown_notes = task_items or items_in_rows(
        head.file, replace(table, rows=rows), apart, show
    )
    first = _first_lines(rows)
    items = {line: by_line[first_line] for line, first_line in first.items() if first_line in by_line}
    prompts = {row.line: prompt_in_row(row.cells, items[row.line]) for row in rows if row.line in items}
    present = [prompt for prompt in prompts.values() if prompt is not None]
    presentation = decide_presentation(head.file, head.kind, present, options, from_prompts=run.from_prompts)
    make = partial(
        log.LogReply, model=options.name or run.model, view=presentation.view, template=presentation.template
    )
    texts = {row.line: generated_text(row.cells) for row in rows if not is_scored(row.cells)}
    replied = [row for row in rows if row.line in texts]
    run_on = {row.line for row in replied if row.line in items and reply_runs_on(row.cells, items[row.line])}
    naming = Naming.from_cells(texts.values(), letters=presentation.labels)
    reading = _ReplyReading(make, apart, presentation.view in TEXT_VIEWS, naming, texts, run_on)
    read, wrong = rows_or_faults(
        ((row, items[row.line]) for row in rows if row.line in items),
        lambda row, item: _reply(row, prompts[row.line], item, reading),
    )
    plain = [(row, reply) for row, reply in read if row.line not in run_on]
    against, lengths = _contradictions(plain, texts, {str(row.cells.get("target")) for row in rows})
    faults += [*wrong, *([] if options.linting else against)]
    if run.n not in (None, n := len(set(first.values()))):
        reason = f"the log contains {n} items, but the results file counts {run.n}; expected all items"
        faults.append(Fault(1, Notice(reason, code="incomplete-log")))
    notes += [*shown_notes, *lengths, *[UNNAMED] * (run.facts is None and options.model is None)]
    notes += _reply_notes(replied, len(run_on))
    scored = [prompt for prompt in present if not prompt.written and not prompt.by_letter]
    if in_order := sum(by_choice(prompt) is None for prompt in scored):
        differ = "rows whose scored texts differ from the choices (assumed to be in the order of the choices)"
        notes.append(Notice(f"{differ}: {in_order}", code="other-scored-texts"))
    return replace(
        head,
        replies=tuple(reply for _, reply in read),
        faults=tuple(faults),
        templates={f"{presentation.view}/{presentation.template}": presentation.digest}
        if presentation.digest
        else {},
        notes=(*notes, *presentation.notes),
        accuracies=_accuracies(rows),
        exchanges=_exchanges(read, prompts, texts, {fault.line for fault in against})
        if options.linting
        else {},
    )


ACCURACIES = ("acc", "acc_norm")
"""Metrics of lm-eval whose means are shown beside the score by robustify."""


def _accuracies(rows: Sequence[SourceRow]) -> dict[str, tuple[int, int]]:
    """Return the number of right rows and of all rows for each accuracy that the log states."""
    stated = [stated_scores.scores_of_row(row.cells) for row in rows]
    credits = {metric: [row[metric] for row in stated if metric in row] for metric in ACCURACIES}
    return {metric: (sum(right), len(right)) for metric, right in credits.items() if right}


def _exchanges(
    read: Sequence[tuple[SourceRow, log.LogReply]],
    prompts: Mapping[int, Prompt | None],
    texts: Mapping[int, str | None],
    contradicting: Collection[int],
) -> dict[tuple[int, log.Name], Exchange]:
    """Return the request and the reply of each row."""
    return {
        (row.line, reply.model): Exchange(
            prompt.contexts if (prompt := prompts[row.line]) else (),
            prompt.continuations if prompt else (),
            every_text(row.cells) if row.line in texts else (),
            texts.get(row.line) or "",
            stated_scores.scores_of_row(row.cells),
            row.line in contradicting,
        )
        for row, reply in read
    }


@dataclass(frozen=True, slots=True)
class _ReplyReading:
    """Rules for reading the replies of a log: the delimiter before each choice, the scored texts of rows without prompts,
    the `texts` of rows without scores by line, and the lines whose replies run on into another question."""

    make: Callable[..., log.LogReply]
    delimiter: str
    text_view: bool
    naming: Naming
    texts: Mapping[int, str | None]
    run_on: Collection[int]


def _reply_notes(rows: Sequence[SourceRow], n_run_on: int) -> list[Notice]:
    """Return notes on replies that run on, and on rows with several replies. These rows have no scores."""
    several = sum(n_replies(row.cells) > 1 for row in rows)
    note = f"rows with several replies (the first one was used): {several}"
    return [*run_on_notes(n_run_on), *[Notice(note, code="several-replies")] * bool(several)]


def _first_lines(rows: Sequence[SourceRow]) -> dict[int, int]:
    """Map each line to the first line with the same item, which is the only line that `table_of_items` keeps."""
    seen: dict[str, SourceRow] = {}
    out: dict[int, int] = {}
    for row in rows:
        number = str(row.cells.get("doc_id"))
        if number not in seen or seen[number].cells.get("doc") != row.cells.get("doc"):
            seen[number] = row
        out[row.line] = seen[number].line
    return out


def _reply(
    row: SourceRow, prompt: Prompt | None, item: log.LoggedItem, reading: _ReplyReading
) -> log.LogReply:
    make = partial(reading.make, row.line, item=item)
    if (text := reading.texts.get(row.line)) is not None:
        named = reading.naming.answer(text, item.k, item.choices)
        if row.line in reading.run_on:
            whole = reading.naming.answer(innermost(row.cells.get("resps", text)), item.k, item.choices)
            named = named if whole.pick is None else whole
        return make(pick=named.pick, reason=named.reason)
    if not (values := log_likelihoods(row.cells)):
        raise ItemError(
            f"the row has neither a log-likelihood for each of the {item.k} choices nor a reply",
            code="no-scores-or-reply",
        )
    if reason := other_targets(row.cells, item):
        raise ItemError(reason, code=reason.code)
    if len(values) not in (item.k, 2 * item.k):
        raise ItemError(
            f"{len(values)} log-likelihoods for {item.k} choices; expected one per choice",
            code="other-number-of-scores",
        )
    prompt = None if prompt is None or prompt.written else prompt
    if any(value > ROUNDING and math.isfinite(value) for value in values):
        raise ItemError("a score is above 0, so it is not a log-likelihood but, for example, a loss. Log the "
                        "log-likelihoods, which are at most 0.", code="positive-scores")  # fmt: skip
    by_text = not prompt.by_letter if prompt is not None else reading.text_view
    back = (by_choice(prompt) if prompt is not None and by_text else None) or range(item.k)
    scores = _finite(values[j] for j in back)
    if not scores:
        return make(reason="a score that is not a finite number")
    # Like acc_norm, count the characters of the choice, without the delimiter before it.
    texts = item.choices
    if prompt is not None:
        texts = tuple(text.removeprefix(reading.delimiter) for text in prompt.continuations)
    chars = tuple(len(texts[j]) for j in back) if by_text else ()
    alone = _finite(values[item.k + j] for j in back) if by_text and len(values) > item.k else ()
    return make(scores=scores, by_text=by_text, n_chars=chars, unconditioned=alone)


def _contradictions(
    replies: Sequence[tuple[SourceRow, log.LogReply]],
    texts: Mapping[int, str | None],
    targets: Collection[str],
) -> tuple[list[Fault], list[Notice]]:
    """Return faults for rows in which a metric contradicts the scores, or the pick and the key. If only norms differ,
    return a note instead. `targets` are the answers expected in any row."""
    faults, other_norm, stricter = list[Fault](), list[int](), 0
    for row, reply in replies:
        rightness, norms = stated_scores.scores_of_row(row.cells), _norms(reply)
        plain = texts.get(row.line) in targets
        for metric, right in rightness.items():
            if not reply.scores:
                stricter += stated_scores.is_stricter(right, reply.item, reply.pick)
                against = blamed = stated_scores.pick_contradicts(right, reply.item, reply.pick, plain=plain)
            elif metric == "exact_match" and not right:
                # In a task with scores, this means that the key is not the greedy continuation.
                continue
            else:
                key, own = reply.item.key, [norms[metric]] if metric in norms else norms.values()
                against = stated_scores.score_contradicts(right, key, own)
                every = "acc" not in rightness and stated_scores.score_contradicts(right, key, norms.values())
                blamed = (against and metric == "acc") or every
            if blamed:
                logged, other = ("right", "wrong") if right else ("wrong", "right")
                reason = (
                    f"`{metric}` says that the answer is {logged}, but the scores or pick and the key of the row say "
                    f"{other}. If the key is read incorrectly, use --map key=FIELD or --map key_is=number."
                )
                faults.append(Fault(reply.line, Notice(reason, code="contradicted-key")))
            elif against:
                other_norm.append(reply.line)
            if against:
                break
    note = (
        "rows in which a metric of the log differs from the one computed with the lengths of the choices, although the key "
        f"agrees: {len(other_norm)} (lines {line_spans(other_norm)})"
    )
    notes = [Notice(note, code="other-norm")] * bool(other_norm)
    return faults, [*notes, *stated_scores.stricter_notes(stricter)]


def _norms(reply: log.LogReply) -> dict[str, tuple[float, ...]]:
    """Map each lm-eval metric to the scores that it compares. Labels have equal lengths."""
    scores, norms = reply.scores, {"acc": reply.scores}
    if not reply.by_text:
        norms["acc_norm"] = scores
    elif all(reply.n_chars):
        norms["acc_norm"] = tuple(per_character(scores, reply.n_chars))
    if reply.unconditioned:
        norms["acc_mutual_info"] = tuple(a - b for a, b in zip(scores, reply.unconditioned, strict=True))
    return norms


def _finite(values: Iterable[float]) -> tuple[float, ...]:
    """Return the values, or an empty tuple if any value is not finite."""
    every = tuple(values)
    return every if all(map(math.isfinite, every)) else ()


def dateless_path(path: Path) -> Path:
    """Return the path without its date, which is the same for all logs of a task and model."""
    match = _LOGGED.fullmatch(plain_path(path).stem)
    return path.with_name(match["task"]) if match and match["date"] else path


def find_run(path: Path) -> LmEvalRun:
    """Return the lm-eval run of a log, found in its results file, or else in the names of the log and its folder."""
    match = _LOGGED.fullmatch(path.stem)
    task, date = (match["task"], match["date"]) if match else (path.stem, None)
    tree = _results(path.parent, task, date)
    config = as_object(tree.get("config"))
    n = as_object(as_object(tree.get("n-samples")).get(task)).get("effective")
    before = as_object(as_object(tree.get("configs")).get(task)).get("target_delimiter")
    model = str(tree.get("model_name") or _pretrained(config.get("model_args")) or "")
    return LmEvalRun(
        task=log.path_name(task),
        model=log.model_name(model, path.parent.name),
        n=n if isinstance(n, int) else None,
        facts=_facts(tree, config, task) if tree else None,
        delimiter=before if isinstance(before, str) else None,
    )


def _results(folder: Path, task: str, date: str | None) -> Mapping[str, Any]:
    """Read the results file with this date, or otherwise the only results file with the task. Return {} without one."""
    same = folder / f"results_{date}.json"
    paths = [same] if same.is_file() else sorted(folder.glob("results*.json"))
    trees = [tree for path in paths if task in as_object((tree := _tree(path)).get("results"))]
    return trees[0] if len(trees) == 1 else {}


def _tree(path: Path) -> Mapping[str, Any]:
    try:
        return as_object(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}


def _pretrained(arguments: object) -> object:
    if isinstance(arguments, str):
        arguments = dict(pair.partition("=")[::2] for pair in arguments.split(","))
    options = as_object(arguments)
    return options.get("pretrained") or options.get("model")


def _facts(tree: Mapping[str, Any], config: Mapping[str, Any], task: str) -> dict[str, log.Name]:
    return log.checked_facts(
        {
            "lm_eval": tree.get("lm_eval_version"),
            "task_version": as_object(tree.get("versions")).get(task),
            "shots": as_object(tree.get("n-shot")).get(task),
            "backend": tree.get("model_source") or config.get("model"),
            "dtype": str(config.get("model_dtype") or "").removeprefix("torch.") or None,
            "revision": config.get("model_sha") or config.get("model_revision"),
            # Many models share a template. A full digest would look like that of a file and make them the same model.
            "chat_template": str(tree.get("chat_template_sha") or "")[:16],
            "transformers": tree.get("transformers_version"),
        }
    )


READER = log.LogReader(KIND, _recognizes, _read)
