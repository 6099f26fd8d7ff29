"""Reader of the logged samples of lm-eval (`samples_*.jsonl`), old and new.

A row states the best choice and whether it was right. Both are recomputed from the log-likelihoods, and inconsistent logs
are refused. Formats have changed over the years: numbers may be floats or text, and arguments may be lists or named
objects. Unreadable values become None and give no answer.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from robustify.arrays import tied_best
from robustify.errors import ItemError, UsageError
from robustify.item import unspaced
from robustify.loaders.layouts import item_table
from robustify.loaders.rows import Cells, Fault, SourceRow, SourceTable, rows_or_faults
from robustify.logs.checked_names import as_label, listed, names_in
from robustify.logs.lm_eval_results import LmEvalRun, find_run
from robustify.logs.log import Log, LoggedItem, LogOptions, LogReply, ShownBefore
from robustify.logs.prompts import Prompt, asked_as, mostly_letters, position_named
from robustify.scoring import per_character

KIND = "lm-eval"
TEXT_VIEWS = ("cloze", "choices_only_text")
"""Views in which texts are scored. If a log has no prompts, only the view distinguishes texts from letters."""
Make = Callable[..., LogReply]


def read_lm_eval(
    path: Path, table: SourceTable, sha256: str, options: LogOptions, before: ShownBefore
) -> Log:
    """Read the replies in a log of lm-eval. Raise `UsageError` if the filter does not exist, or the view contradicts the
    prompts. Raise `DataError` if the items have no known layout, or the prompts contradict `options`."""
    run = find_run(path)
    head = Log(path.name, KIND, sha256, run.task, (), table.faults, run.facts or {})
    return read_rows(head, run, table, options, before)


def read_rows(head: Log, run: LmEvalRun, table: SourceTable, options: LogOptions, before: ShownBefore) -> Log:
    """Return `head` with the replies from a table of lm-eval rows. Raise the errors of `read_lm_eval`."""
    rows, notes = _one_filter(head.file, table.rows, options.filter)
    first = _first_lines(rows)
    names = {row.line: as_label(row.cells.get("doc_id")) for row in rows}
    inner = item_table(head.file, replace(table, rows=rows))
    by_line, faults, said = before.items(head.file, inner, options, run.task, names)
    items = {line: by_line[first_line] for line, first_line in first.items() if first_line in by_line}
    lettered = mostly_letters(_written(row.cells) for row in rows)
    rows = tuple(row for row in rows if row.line in items)
    prompts = {row.line: _prompt(row.cells, items[row.line]) for row in rows}
    asked = [prompt for prompt in prompts.values() if prompt is not None]
    how = asked_as(head.file, head.kind, asked, options)
    make = partial(LogReply, model=options.name or run.model, view=how.view, template=how.template)
    made, wrong = rows_or_faults(
        ((row, items[row.line]) for row in rows),
        lambda row, item: _reply(row, prompts[row.line], item, make, how.view in TEXT_VIEWS, lettered),
    )
    faults += [*wrong, *_contradictions(made), *_unfinished(run, len(set(first.values())))]
    notes += said + _assumed(run, options, asked)
    return replace(
        head,
        replies=tuple(reply for _, reply in made),
        faults=tuple(faults),
        templates={f"{how.view}/{how.template}": how.digest} if how.digest else {},
        notes=(*notes, *([how.note] if how.note else [])),
    )


def _one_filter(
    name: str, rows: Sequence[SourceRow], wanted: str | None
) -> tuple[tuple[SourceRow, ...], list[str]]:
    """Return the rows of one filter and a note. lm-eval writes one row per filter of a task."""
    said = [str(row.cells.get("filter", "none")) for row in rows]
    filters, known = list(dict.fromkeys(said)), names_in(said)
    if wanted is not None and wanted not in filters:
        raise UsageError(f"{name}: there is no filter {wanted!r}; expected one of {listed(filters, known)}")
    taken = wanted or filters[0]
    kept = tuple(row for row, one in zip(rows, said, strict=True) if one == taken)
    if len(filters) == 1:
        return kept, []
    others = listed((one for one in filters if one != taken), known)
    shown = known.get(taken, "of the first row")
    return kept, [f"the filter {shown} was used, not {others} (to change this, use --filter)"]


def _first_lines(rows: Sequence[SourceRow]) -> dict[int, int]:
    """Return a mapping from each line to the first line with the same item. `item_table` keeps only that line."""
    seen: dict[str, tuple[int, object]] = {}
    out: dict[int, int] = {}
    for row in rows:
        number, inner = str(row.cells.get("doc_id")), row.cells.get("doc")
        if not (number in seen and seen[number][1] == inner):
            seen[number] = (row.line, inner)
        out[row.line] = seen[number][0]
    return out


def _reply(
    row: SourceRow, asked: Prompt | None, item: LoggedItem, make: Make, text_view: bool, lettered: bool
) -> LogReply:
    values = _log_likelihoods(row.cells)
    if asked is None and (len(values) != item.k or any(map(math.isnan, values))):
        said = _written(row.cells)
        if said is None:
            raise ItemError(f"the row has neither a log-likelihood for each of {item.k} choices nor a reply")
        pick = position_named(said, item.k, item.choices, lettered=lettered)
        return make(row.line, item=item, pick=pick, reason="names no choice, or several")
    if len(values) not in (item.k, 2 * item.k):
        raise ItemError(f"{len(values)} log-likelihoods for {item.k} choices; expected one per choice")
    by_text = not asked.by_letter if asked is not None else text_view
    back = (_by_choice(asked) if asked is not None and by_text else None) or range(item.k)
    scores = _finite(values[j] for j in back)
    if not scores:
        return make(row.line, item=item, reason="a score that is no finite number")
    # Like acc_norm, count characters without the space between context and text.
    texts = asked.continuations if asked is not None else item.choices
    chars = tuple(len(texts[j].removeprefix(" ")) for j in back) if by_text else ()
    twice = by_text and len(values) > item.k
    unconditioned = _finite(values[item.k + j] for j in back) if twice else ()
    return make(
        row.line, item=item, scores=scores, by_text=by_text, n_chars=chars, unconditioned=unconditioned
    )


def _contradictions(made: Sequence[tuple[SourceRow, LogReply]]) -> list[Fault]:
    """Return faults for rows whose metric differs from the one computed from their scores and key, ignoring ties.
    This finds keys that were read incorrectly, and scores that were assigned to the wrong choices."""
    faults: list[Fault] = []
    for row, reply in made:
        normed = per_character(reply.scores, reply.n_chars) if reply.by_text and all(reply.n_chars) else ()
        for metric, ranked in (("acc", reply.scores), ("acc_norm", normed)):
            said = row.cells.get(metric)
            if isinstance(said, bool) or said not in (0, 1) or not ranked:
                continue
            best = tied_best(ranked)
            if len(best) == 1 and (best[0] == reply.item.key) != bool(said):
                reason = (
                    f"`{metric}` is {said:g}, but the scores and key of the row give {1 - said:g}. If the key is "
                    "read incorrectly, use --map key=FIELD or --map key_is=number."
                )
                faults.append(Fault(reply.line, reason))
                break
    return faults


def _assumed(run: LmEvalRun, options: LogOptions, prompts: Sequence[Prompt]) -> list[str]:
    notes = []
    if run.facts is None and options.model is None:
        notes.append(
            "there is no results file beside the log, so the name of the folder is used as the model name"
        )
    in_order = sum(not prompt.by_letter and _by_choice(prompt) is None for prompt in prompts)
    if in_order:
        notes.append(
            f"rows whose scored texts differ from the choices (assumed to be in the order of the choices): {in_order}"
        )
    return notes


def _unfinished(run: LmEvalRun, n: int) -> list[Fault]:
    if run.n is None or run.n == n:
        return []
    return [Fault(1, f"the log contains {n} items, but the results file counts {run.n}; expected all items")]


def _prompt(cells: Cells, item: LoggedItem) -> Prompt | None:
    """Return the prompts of a row, or None unless it has one context and one continuation for every choice.
    `acc_mutual_info` scores each continuation again without context. These additional pairs are dropped."""
    pairs = _pairs(cells.get("arguments"))
    if len(pairs) == 2 * item.k and not any(context for context, _ in pairs[item.k :]):
        pairs = pairs[: item.k]
    if len(pairs) != item.k:
        return None
    contexts, continuations = zip(*pairs, strict=True)
    return Prompt(item, contexts, continuations)


def _pairs(arguments: object) -> list[tuple[str, str]]:
    """Return the context and continuation of each request, or an empty list unless every request has both."""
    members: Sequence[object] = arguments if isinstance(arguments, list) else ()
    if isinstance(arguments, dict):
        # Sort by number, so that gen_args_10 comes after gen_args_2.
        names = sorted(arguments, key=_number) if len(arguments) > 10 else arguments
        members = [arguments[name] for name in names]
    pairs = [pair for member in members if (pair := _pair(member)) is not None]
    return pairs if len(pairs) == len(members) else []


def _pair(member: object) -> tuple[str, str] | None:
    match member:
        case {"arg_0": str(context), "arg_1": str(continuation)} | [str(context), str(continuation), *_]:
            return context, continuation
    return None


def _number(name: str) -> int:
    number = str(name).rpartition("_")[2]
    return int(number) if number.isdecimal() else 0


def _by_choice(asked: Prompt) -> list[int] | None:
    """Return the index of the request that scored each choice, or None if the scored texts differ from the choices.
    Some tasks modify a choice before scoring it, or score one text in several contexts."""
    texts = [unspaced(text) for text in asked.continuations]
    positions: list[int] = []
    for choice in asked.item.choices:
        wanted = unspaced(choice)
        position = next((i for i, text in enumerate(texts) if text == wanted and i not in positions), None)
        if position is None:
            return None
        positions.append(position)
    return positions


def _log_likelihoods(cells: Cells) -> list[float]:
    """Return the log-likelihood of each request, or NaN if it is unreadable.
    `resps` contains a list per request, which contains a list per repeat. Older logs have one level less."""
    for name in ("resps", "filtered_resps"):
        responses = cells.get(name)
        if isinstance(responses, list) and responses:
            return [_float(_innermost(response)) for response in responses]
    return []


def _innermost(value: object) -> object:
    while isinstance(value, list) and value:
        value = value[0]
    return value


def _float(value: object) -> float:
    try:
        return float(value) if isinstance(value, str | int | float) and value is not True else math.nan
    except (ValueError, OverflowError):
        return math.nan


def _finite(values: Iterable[float]) -> tuple[float, ...]:
    """Return the values, or an empty tuple unless all are finite."""
    every = tuple(values)
    return every if all(map(math.isfinite, every)) else ()


def _written(cells: Cells) -> str | None:
    """Return the text generated by a model, after the filter of the task, or None if it is not text."""
    text = _innermost(cells.get("filtered_resps", cells.get("resps")))
    return text if isinstance(text, str) else None
