"""Answers in the schema of *Every Eval Ever* (versions 0.2 and 0.3) -> replies; HELM's come through its converter.

The converters write what each harness has: HELM and lm-eval the whole prompt, few-shot examples too, Inspect the question;
choices as texts, or as letters whose texts stand in the prompt; the reference as a letter, an index or a text. So the stem
is what stands before the choices in the prompt's last block, and a row whose `is_correct` contradicts key and pick is
refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from robustify.errors import DataError, ItemError
from robustify.loaders.rows import Cells, SourceRow, SourceTable, as_object, rows_or_faults
from robustify.logs.checked_names import as_label, as_name, facts_of, path_name
from robustify.logs.log import Log, LoggedItem, LogOptions, LogReply, logged_items, plain_model
from robustify.logs.prompts import are_letters, assumed, mostly_letters, place_named
from robustify.views import View

KIND = "every-eval-ever"
_PARTS = ("evaluation_id", "model_id", "sample_id", "input", "evaluation")
_MARKED = r"^[ \t]*\(?{letter}[.):][ \t]+(.+?)[ \t]*$"
_OPENINGS = re.compile(r"\A(?:Question|Q)\s*:\s*", re.IGNORECASE)


def is_every_eval(cells: Cells) -> bool:
    """Whether a row is one answer of this schema."""
    return all(part in cells for part in _PARTS)


def refuse_scores(file: str, cells: Cells) -> None:
    """Refuse the file of scores, which has no single answer.

    Raises:
        DataError: it is that file.
    """
    if "evaluation_results" in cells and "eval_library" in cells:
        raise DataError(
            f"{file}: holds scores of Every Eval Ever; expected the .jsonl of single answers beside it"
        )


def read_every_eval(path: Path, table: SourceTable, sha256: str, options: LogOptions) -> Log:
    """The replies of one file. Of several rows of one answer, one for each metric, the first counts.

    Raises:
        DataError: the items are in no known layout.
    """
    rows, dropped = _one_each(table.rows)
    names = {row.line: as_label(row.cells.get("sample_id")) for row in rows}
    inner = tuple(replace(row, cells=_item(row.cells)) for row in rows)
    task = as_name(rows[0].cells.get("evaluation_name")) or path_name(path.stem)
    by_line, faults, said = logged_items(path.name, replace(table, rows=inner), options, task, names)
    lettered = mostly_letters(_extracted(row.cells) for row in rows)
    view: View = options.view or "full"

    def reply(row: SourceRow, item: LoggedItem) -> LogReply:
        model = options.name or as_name(plain_model(str(row.cells.get("model_id")))) or path_name("model")
        pick = _pick(row.cells, item, lettered=lettered)
        return LogReply(row.line, model, view, KIND, item, pick, reason="names no choice, or several")

    made, wrong = rows_or_faults(((row, by_line[row.line]) for row in rows if row.line in by_line), reply)
    notes = [*said, *([assumed("full")] if options.view is None else [])]
    notes += [f"rows of further metrics of the same answers left out: {dropped}"] * bool(dropped)
    return Log(
        file=path.name,
        kind=KIND,
        sha256=sha256,
        task=task,
        replies=tuple(one for _, one in made),
        faults=(*faults, *wrong),
        facts=facts_of({"schema_version": rows[0].cells.get("schema_version")}),
        notes=tuple(notes),
    )


def _one_each(rows: Sequence[SourceRow]) -> tuple[tuple[SourceRow, ...], int]:
    first: dict[tuple[str, ...], SourceRow] = {}
    for row in rows:
        first.setdefault(
            tuple(str(row.cells.get(part)) for part in ("evaluation_id", "model_id", "sample_id")), row
        )
    return tuple(first.values()), len(rows) - len(first)


def _item(cells: Cells) -> dict[str, object]:
    """The item of a row under the names that the loaders know."""
    given, metadata = as_object(cells.get("input")), as_object(cells.get("metadata"))
    reference = given.get("reference")
    key = reference[0] if isinstance(reference, list) and len(reference) == 1 else reference
    stem, choices = shown_item(str(given.get("raw") or ""), given.get("choices"))
    topic = metadata.get("topic") or metadata.get("subject") or ""
    return {
        "id": str(cells.get("sample_id")),
        "question": stem,
        "choices": choices,
        "answer": key,
        "topic": topic,
    }


def shown_item(raw: str, choices: object) -> tuple[str, object]:
    """The stem and the choices' texts: of a whole prompt its last block, of a bare question as they are."""
    if not isinstance(choices, list) or not all(isinstance(one, str) for one in choices):
        return raw, choices
    places = list(_places(raw, len(choices)))
    if not places:
        return raw, choices
    start, texts = places[-1]
    block = raw[:start].rstrip().rsplit("\n\n", 1)[-1]
    return _OPENINGS.sub("", block.strip()), list(texts) if are_letters(choices) else choices


def _places(raw: str, k: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Where k lettered choices stand one below the other, and their texts."""
    lines = r"\n".join(_MARKED.format(letter=chr(ord("A") + j)) for j in range(k))
    for found in re.finditer(lines, raw, re.MULTILINE):
        yield found.start(), found.groups()


def _extracted(cells: Cells) -> object:
    """What the converter says that the model answered, None where it says nothing."""
    said = cells.get("answer_attribution")
    last = said[-1] if isinstance(said, list) and said else None
    if isinstance(last, Mapping) and "extracted_value" in last:
        return last["extracted_value"]
    texts = as_object(cells.get("output")).get("raw")
    return texts[0] if isinstance(texts, list) and texts else None


def _pick(cells: Cells, item: LoggedItem, *, lettered: bool) -> int | None:
    """The place of the choice that was answered; None where it names none, or several.

    Raises:
        ItemError: the row says otherwise of its own answer.
    """
    pick = (
        None
        if cells.get("error")
        else place_named(_extracted(cells), item.k, item.choices, lettered=lettered)
    )
    right = _right(cells.get("evaluation"))
    if pick is not None and item.key is not None and right is not None and right != (pick == item.key):
        raise ItemError(
            f"is_correct is {str(right).lower()}, but its answer and reference say otherwise; expected the same"
        )
    return pick


def _right(result: object) -> bool | None:
    """Whether the row says that its answer is right; None for a graded metric, which says neither."""
    if not isinstance(result, Mapping) or not isinstance(result.get("is_correct"), bool):
        return None
    return result["is_correct"] if result.get("score") == float(result["is_correct"]) else None
