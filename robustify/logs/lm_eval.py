"""lm-eval's logged rows (`samples_*.jsonl`, old and new) -> replies.

A row says which choice the harness took for the best and whether that was right; both are made again from its
log-likelihoods, and a log that contradicts itself is refused. A number that is none is no answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from robustify.errors import UsageError
from robustify.loaders.logs import unwrapped
from robustify.loaders.rows import Cells, Fault, Row, Table
from robustify.logs.letters import mostly_letters, place_named
from robustify.logs.lm_eval_rows import by_choice, finite, numbers, prompt, written
from robustify.logs.log import Log, Reply, Shown, Wanted
from robustify.logs.prompts import AskedAs, Prompt, asked_as
from robustify.logs.results_beside import Beside, beside
from robustify.logs.rows import shown_items
from robustify.stats.ties import tied_best

KIND = "lm-eval"
TEXT_VIEWS = ("cloze", "choices_only_text")
"""Where a log does not hold its prompts, only the view says that texts were scored and not letters."""


def read_lm_eval(path: Path, table: Table, sha256: str, wanted: Wanted) -> Log:
    """The replies of one log.

    Raises:
        UsageError: no such filter, or a view that is not what the prompts show.
        DataError: the items are in no known layout, or asked in another way than `wanted` says.
    """
    made = beside(path)
    rows, notes = _one_filter(path.name, table.rows, wanted.filter)
    first = _first_lines(rows)
    called = {row.line: str(row.cells.get("doc_id")) for row in rows}
    logged = unwrapped(path.name, replace(table, rows=rows))
    shown, faults = shown_items(path.name, logged, wanted, made.task, called)
    items = {line: shown[first_line] for line, first_line in first.items() if first_line in shown}
    prompts = {row.line: prompt(row.cells, items[row.line]) for row in rows if row.line in items}
    how = asked_as(path.name, KIND, [p for p in prompts.values() if p is not None], wanted)
    model = wanted.model or made.model
    lettered = mostly_letters(written(row.cells) for row in rows)
    found = [
        _reply(row, prompts[row.line], items[row.line], _Made(model, how, lettered))
        for row in rows
        if row.line in items
    ]
    replies = [one for one in found if isinstance(one, Reply)]
    faults += [one for one in found if isinstance(one, Fault)]
    faults += _contradictions(replies, {row.line: row.cells for row in rows})
    faults += _half(made, len(set(first.values())))
    notes += _assumed(made, wanted, [p for p in prompts.values() if p is not None])
    return Log(
        file=path.name,
        kind=KIND,
        sha256=sha256,
        task=made.task,
        replies=tuple(replies),
        faults=tuple(faults),
        facts=made.facts or {},
        templates={f"{how.view}/{how.template}": how.digest} if how.digest else {},
        notes=(*notes, *([how.note] if how.note else [])),
    )


@dataclass(frozen=True, slots=True)
class _Made:
    """What all replies of a log share."""

    model: str
    how: AskedAs
    lettered: bool

    def reply(
        self,
        line: int,
        item: Shown,
        *,
        pick: int | None = None,
        scores: tuple[float, ...] = (),
        by_text: bool = False,
        n_chars: tuple[int, ...] = (),
        alone: tuple[float, ...] = (),
        why: str = "",
    ) -> Reply:
        how = self.how
        return Reply(
            line, self.model, how.view, how.template, item, pick, scores, by_text, n_chars, alone, why
        )


def _one_filter(name: str, rows: Sequence[Row], wanted: str | None) -> tuple[tuple[Row, ...], list[str]]:
    """The rows of one filter; lm-eval writes a row for each filter of a task."""
    filters = list(dict.fromkeys(str(row.cells.get("filter", "none")) for row in rows))
    if wanted is not None and wanted not in filters:
        raise UsageError(f"{name}: no filter {wanted!r}; expected one of {', '.join(filters)}")
    taken = wanted or filters[0]
    kept = tuple(row for row in rows if str(row.cells.get("filter", "none")) == taken)
    others = ", ".join(f for f in filters if f != taken)
    return kept, [f"filter {taken} was taken, not {others} (--filter says otherwise)"] * bool(others)


def _first_lines(rows: Sequence[Row]) -> dict[int, int]:
    """By line the line on which the same item stood first, which is the one that `unwrapped` keeps."""
    seen: dict[str, tuple[int, object]] = {}
    out: dict[int, int] = {}
    for row in rows:
        number, inner = str(row.cells.get("doc_id")), row.cells.get("doc")
        if not (number in seen and seen[number][1] == inner):
            seen[number] = (row.line, inner)
        out[row.line] = seen[number][0]
    return out


def _reply(row: Row, asked: Prompt | None, item: Shown, log: _Made) -> Reply | Fault:
    values = numbers(row.cells)
    if asked is None and (len(values) != item.k or None in values):
        said = written(row.cells)
        if said is None:
            return Fault(row.line, f"neither a log-likelihood for each of {item.k} choices nor a text")
        pick = place_named(said, item.k, item.choices, lettered=log.lettered)
        return log.reply(row.line, item, pick=pick, why="names no choice, or several")
    if len(values) not in (item.k, 2 * item.k):
        return Fault(row.line, f"{len(values)} log-likelihoods for {item.k} choices; expected one a choice")
    by_text = not asked.by_letter if asked is not None else log.how.view in TEXT_VIEWS
    back = (by_choice(asked) if asked is not None and by_text else None) or range(item.k)
    scores = finite(values[j] for j in back)
    if not scores:
        return log.reply(row.line, item, why="a score that is no finite number")
    # As acc_norm counts: without the space that parts the text from its context.
    texts = asked.continuations if asked is not None else item.choices
    chars = tuple(len(texts[j].removeprefix(" ")) for j in back) if by_text else ()
    alone = finite(values[item.k + j] for j in back) if by_text and len(values) > item.k else ()
    return log.reply(row.line, item, scores=scores, by_text=by_text, n_chars=chars, alone=alone)


def _contradictions(replies: Sequence[Reply], cells: Mapping[int, Cells]) -> list[Fault]:
    """Rows whose own metric is not what their scores and key give; ties are the harness's to break.

    A key that was read wrongly, or scores joined to the wrong choices, cannot pass this.
    """
    found: list[Fault] = []
    for reply in replies:
        for metric, ranked in (("acc", reply.scores), ("acc_norm", _per_character(reply))):
            said = cells[reply.line].get(metric)
            if isinstance(said, bool) or said not in (0, 1) or not ranked:
                continue
            best = tied_best(ranked)
            if len(best) == 1 and (best[0] == reply.shown.key) != bool(said):
                found.append(
                    Fault(
                        reply.line,
                        f"`{metric}` is {said:g}, but the row's scores and key give {1 - said:g}; expected the "
                        "same (is the key read as meant? --map key=FIELD or key_is=number says otherwise)",
                    )
                )
                break
    return found


def _per_character(reply: Reply) -> tuple[float, ...]:
    if not reply.by_text or not all(reply.n_chars):
        return ()
    return tuple(s / n for s, n in zip(reply.scores, reply.n_chars, strict=True))


def _assumed(made: Beside, wanted: Wanted, prompts: Sequence[Prompt]) -> list[str]:
    told = []
    if made.facts is None and wanted.model is None:
        told.append("no results file beside it: the folder was taken for the model's name")
    by_place = sum(not prompt.by_letter and by_choice(prompt) is None for prompt in prompts)
    if by_place:
        told.append(
            f"rows whose scored texts are not those of the choices, taken in the order of the choices: {by_place}"
        )
    return told


def _half(made: Beside, n: int) -> list[Fault]:
    if made.n is None or made.n == n:
        return []
    return [Fault(1, f"{n} items are logged of the {made.n} that the results file counts; expected them all")]
