"""Conversion of records that are not items yet: samples of logs, rows of a viewer, questions inside rows, and special
layouts.

A converter turns a record into the records of its items, with usual names of columns, so that nothing after it needs to
know their source. From the logs of a harness, only the original items are read, each once (`robustify import` reads the
answers).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from string import ascii_uppercase
from typing import Any, cast

from robustify.base.errors import DataError, Notice, counted
from robustify.reading.columns import (
    LOGGED_TARGET,
    choice_columns,
    column_label,
    is_mark_name,
    labelled_series,
    usual_names,
)
from robustify.reading.loaders import special_layouts
from robustify.reading.loaders.option_columns import has_points, right_count_error, truth
from robustify.reading.loaders.rows import Cells, Fault, SourceRow, SourceTable, as_object
from robustify.reading.marks.labelling import cut_at_labels, without_tail

_SAMPLE, _SAMPLE_OF_LAYOUT = 20, 200
_POINTS = re.compile(r"(?:fraction|points?|grade|punkte|puntos)[\W_]*(\w{1,2})$", re.IGNORECASE)
"""Names of columns with the points of an option. Scores may be those of a model."""
_APART = Notice(
    "the options were read from the text of the question, one in each line", code="options-in-question"
)
_CROSSED = ("Context1", "Context2", "Target1", "Target2")


def is_lm_eval(cells: Cells) -> bool:
    """Return whether a row is a sample logged by lm-eval."""
    inner = isinstance(cells.get("doc"), Mapping)
    return inner and "doc_id" in cells and bool({"resps", "arguments"} & cells.keys())


def table_of_items(name: str, table: SourceTable) -> SourceTable:
    """Extract the items from a log, or from rows that contain several items each. Return any other table unchanged.
    Raise `DataError` if an Inspect log is from a task without choices."""
    if table.outer == "inspect_log":
        if not any(row.cells.get("choices") for row in table.rows):
            table = replace(table, rows=tuple(map(_with_listed_choices, table.rows)))
        if not any(row.cells.get("choices") for row in table.rows):
            raise DataError(
                f"{name}: the Inspect samples have no choices, and their inputs do not list any; expected a "
                "multiple-choice task. To grade written answers, see `robustify free`.",
                code="log-without-choices",
            )
        return _rebuilt(table, partial(_inspect_cells, set()), layout="inspect_log", outer="")
    if is_lm_eval(table.rows[0].cells if table.rows else {}):
        return _rebuilt(table, partial(_lm_eval_cells, {}), outer="lm_eval_samples")
    for converter in CONVERTERS:
        if not table.layout and any(converter.applies(row.cells) for row in table.rows[:_SAMPLE]):
            table = _converted(table, converter)
    return table


def special_table(table: SourceTable) -> SourceTable:
    """Convert the records if most of them have one special layout, and set the table's layout name. Return any other
    table unchanged."""
    sample = [] if table.layout else [row.cells for row in table.rows[:_SAMPLE_OF_LAYOUT]]
    for converter in SPECIAL_LAYOUTS:
        if 2 * sum(map(converter.applies, sample)) > len(sample):
            return _rebuilt(table, converter.convert, layout=converter.name)
    return table


def with_options_apart(table: SourceTable) -> SourceTable:
    """Separate the options from the question if every question lists its own options. Return any other table
    unchanged. Logs stay as they are, because their prompts decide which options a model saw."""
    if table.layout or not table.rows or not all(special_layouts.options_apart(r.cells) for r in table.rows):
        return table
    apart = _rebuilt(
        table, lambda cells: [special_layouts.options_apart(cells) or cells], layout="options_in_question"
    )
    return replace(apart, notes=(*table.notes, _APART))


def _converted(table: SourceTable, converter: "Converter") -> SourceTable:
    """Convert all rows of a table, and number the items if a row can have several."""
    n = len(table.rows)
    table = _rebuilt(table, converter.convert, flat=False)
    rows: Sequence[SourceRow] = table.rows
    if len(rows) > n:
        rows = tuple(replace(row, number=number) for number, row in enumerate(rows, start=1))
    if converter.note is None:
        return replace(table, rows=rows)
    text = converter.note.format(counted(len(rows), "item"), counted(n, "row"))
    return replace(table, rows=rows, notes=(*table.notes, Notice(text, code=converter.note.code)))


def _rebuilt(
    table: SourceTable, convert: Callable[[Cells], Sequence[Cells] | Notice], **more: Any
) -> SourceTable:
    """Replace each row of a table with the rows that `convert` returns. If `convert` returns a reason or raises an
    error, replace the row with a fault."""
    rows, faults = list[SourceRow](), list[Fault]()
    for row in table.rows:
        try:
            items: Sequence[Cells] | Notice = convert(row.cells)
        except DataError as error:
            items = error.reason
        if isinstance(items, Notice):
            faults.append(Fault(row.line, items))
        else:
            rows += [SourceRow(row.line, row.number, cells) for cells in items]
    return replace(table, rows=tuple(rows), faults=(*table.faults, *faults), names=(), **more)


def _crossed_cells(cells: Cells) -> Sequence[Cells]:
    """Return the two items of an EWoK row, in which each of two contexts fits one of two targets."""
    others = {name: cell for name, cell in cells.items() if name not in _CROSSED}
    *contexts, target1, target2 = (cells[name] for name in _CROSSED)
    return [
        {**others, "question": context, "options": [target1, target2], "answer_index": key}
        for key, context in enumerate(contexts)
    ]


def _inner_item(cells: Cells) -> Cells | None:
    """Return the only item inside a row that is not an item itself, with the row's other fields."""
    inner = [name for name, cell in cells.items() if is_item(as_object(cell))]
    if len(inner) != 1 or is_item(cells) or usual_names(inner, "stem"):
        return None
    item = as_object(cells[inner[0]])
    if cells.keys() & item.keys() or not isinstance(item[usual_names(item, "stem")[0]], str):
        return None
    others = {name: cell for name, cell in cells.items() if name != inner[0]}
    return {**others, **item}


def _is_instance(cells: Cells) -> bool:
    """Return whether a row is an instance of HELM: a text, and references with tags."""
    references = cells.get("references")
    return (
        "input" in cells
        and isinstance(references, list)
        and "tags" in as_object(next(iter(references), None))
    )


def _instance_cells(cells: Cells) -> Sequence[Cells] | Notice:
    """Return the item of a HELM instance, or no item for a perturbed copy."""
    if "perturbation" in cells:
        return ()
    references = [as_object(reference) for reference in cast(list[object], cells["references"])]
    right = [i for i, reference in enumerate(references) if "correct" in reference.get("tags", ())]
    if len(right) != 1:
        return right_count_error(len(right)).reason
    options = [as_object(reference.get("output")).get("text") for reference in references]
    item = {"id": cells.get("id"), "question": cells["input"], "options": options, "answer_index": right[0]}
    # A note names the split as not read, unless it is the usual one.
    return [item if cells.get("split") in (None, "test") else {**item, "split": cells["split"]}]


def _viewed_cells(cells: Cells) -> Sequence[Cells] | Notice:
    """Return the cells nested inside a row of the Hub's dataset viewer."""
    if cells.get("truncated_cells"):
        return Notice(
            "the viewer of the Hub cut texts of the row (`truncated_cells`); download the file of the set",
            code="truncated-cells",
        )
    return [as_object(cells.get("row"))]


def _unrolled_cells(cells: Cells) -> Sequence[Cells] | Notice:
    items = inner_items(cells)
    if not items and [] not in cells.values():
        return Notice(
            "the row has no list of questions with options, as the first row has", code="no-questions-in-row"
        )
    return items


def is_item(cells: Cells) -> bool:
    """Return whether a row is an item: it has a question and options."""
    return bool(usual_names(cells, "stem")) and bool(usual_names(cells, "choices") or choice_columns(cells))


def inner_items(cells: Cells, depth: int = 3) -> list[Cells]:
    """Return the items in the lists of a row, with the row's other fields. A row that is an item has none."""
    if is_item(cells) or not depth:
        return []
    for name, value in cells.items():
        others = {other: cell for other, cell in cells.items() if other != name}
        if isinstance(value, list) and value and all(isinstance(member, Mapping) for member in value):
            inner = [[member] if is_item(member) else inner_items(member, depth - 1) for member in value]
            if all(inner):
                return [{**others, **item} for items in inner for item in items]
    # The row may have a list of questions and a list of lists of options.
    lists = {name: cell for name, cell in cells.items() if isinstance(cell, list) and cell}
    options = [name for name, cell in lists.items() if all(isinstance(texts, list) for texts in cell)]
    n = len(lists[options[0]]) if len(options) == 1 else 0
    singular = {
        name: name if name in options else name.removesuffix("s") for name in lists if len(lists[name]) == n
    }
    others = {name: cell for name, cell in cells.items() if name not in singular}
    items: list[Cells] = [
        {**others, **{column: lists[name][i] for name, column in singular.items()}} for i in range(n)
    ]
    return items if items and is_item(items[0]) else []


def _mark_columns(cells: Cells) -> tuple[str, ...]:
    """Return the columns that mark one option each, if a row has no other column for the key."""
    names = tuple(cells)
    marks = _mark_series(names)
    return () if _has_key(tuple(name for name in names if name not in marks)) else marks


@lru_cache
def _mark_series(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the only series of mark or point columns that is as long as the only series of option columns."""
    options = choice_columns(names)
    taken = {name for series in options for name in series}
    series = [
        marks for marks in labelled_series(name for name in names if name not in taken) if len(options) == 1
    ]
    fitting = [
        marks
        for marks in series
        if len(marks) == len(options[0])
        and (all(map(is_mark_name, marks)) or all(map(_are_points_of, marks, options[0])))
    ]
    return fitting[0] if len(fitting) == 1 else ()


def _are_points_of(name: str, option: str) -> bool:
    """Return whether a column's name says that it has the points of an option, and contains the option's label."""
    match = _POINTS.match(name)
    return match is not None and match[1].casefold() == column_label(option)[1].casefold()


def _marked_options(cells: Cells) -> list[int]:
    """Return the positions of the options that mark or point columns mark, or nothing for other values."""
    columns = _mark_columns(cells)
    marks = [truth(cells[name]) for name in columns]
    if not all(mark in (True, False) for mark in marks):
        marks = [has_points(cells[name]) if _POINTS.match(name) else None for name in columns]
    return [i for i, mark in enumerate(marks) if mark] if None not in marks else []


def _marked_cells(cells: Cells) -> Sequence[Cells] | Notice:
    """Return the row with its mark or point columns replaced by the letter of the only marked option."""
    columns, marked = _mark_columns(cells), _marked_options(cells)
    if len(marked) != 1:
        return right_count_error(len(marked)).reason
    others = {name: cell for name, cell in cells.items() if name not in columns}
    return [{**others, "answer": ascii_uppercase[marked[0]]}]


@lru_cache
def _has_key(names: tuple[str, ...]) -> bool:
    return bool(usual_names(names, "key"))


def _lm_eval_cells(seen: dict[str, object], cells: Cells) -> Sequence[Cells] | Notice:
    inner, number = cells.get("doc"), str(cells.get("doc_id"))
    if not isinstance(inner, dict):
        return Notice("the row has no object `doc`; expected an lm-eval sample", code="no-doc-in-sample")
    if seen.get(number) == inner:
        return ()
    seen[number] = inner
    # lm-eval's `target` is the key if the inner row has none, and otherwise it tells how the key counts.
    column = LOGGED_TARGET if _has_key(tuple(inner)) else "target"
    return [{**inner, **({column: cells["target"]} if "target" in cells else {})}]


def _with_listed_choices(row: SourceRow) -> SourceRow:
    """Return an Inspect sample with the choices that its input lists. Return other samples unchanged."""
    text = row.cells.get("input")
    listed = cut_at_labels(text) if isinstance(text, str) else None
    if listed is None or (listed := without_tail(listed)) is None or not listed.before:
        return row
    return replace(row, cells={**row.cells, "input": listed.before, "choices": [*listed.texts]})


def _inspect_cells(seen: set[str], sample: Cells) -> Sequence[Cells]:
    # Of a sample with several epochs, the first is taken.
    name = str(sample.get("id"))
    if name in seen and sample.get("epoch", 1) != 1:
        return ()
    seen.add(name)
    metadata = as_object(sample.get("metadata"))
    topic = next((metadata[name] for name in ("topic", "subject", "category") if name in metadata), None)
    return [{"topic": topic, **{name: sample.get(name) for name in ("input", "id", "target", "choices")}}]


@dataclass(frozen=True, slots=True)
class Converter:
    """Kind of record that contains items. `convert` returns a record per item, or the reason why there are none."""

    name: str
    applies: Callable[[Cells], bool]
    convert: Callable[[Cells], Sequence[Cells] | Notice]
    note: Notice | None = None


CONVERTERS = (
    Converter(
        "rows of the Hub's viewer",
        lambda cells: isinstance(cells.get("row"), dict) and "row_idx" in cells,
        _viewed_cells,
    ),
    Converter(
        "two contexts with two targets (EWoK)", lambda cells: {*_CROSSED} <= cells.keys(), _crossed_cells
    ),
    Converter("instances of HELM", _is_instance, _instance_cells),
    Converter(
        "an item inside an object",
        lambda cells: _inner_item(cells) is not None,
        lambda cells: [_inner_item(cells) or cells],
    ),
    Converter(
        "questions inside rows",
        lambda cells: bool(inner_items(cells)),
        _unrolled_cells,
        Notice("{} were taken from lists inside {}", code="items-from-lists"),
    ),
    Converter(
        "a column of 0 and 1 for each option",
        lambda cells: len(_marked_options(cells)) == 1,
        _marked_cells,
        Notice(
            "the keys of {} were read from columns with a 1 for the right option", code="key-from-columns"
        ),
    ),
)
"""In order. Several can apply one after the other, such as rows of the viewer with questions inside."""
SPECIAL_LAYOUTS = (
    Converter("preferences", special_layouts.is_preference, special_layouts.preference_cells),
    Converter("winogrande_contexts", special_layouts.has_two_contexts, special_layouts.cells_of_two_contexts),
    Converter("prose", special_layouts.has_instruction, special_layouts.cells_of_instruction),
)
"""Published layouts whose items need code. The first that most records have reads the file, if no layout of `layouts.yaml`
does and the user maps no column. `layouts.yaml` says how the keys of the converted records count."""
