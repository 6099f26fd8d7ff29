"""Which layout a file has, told from the names and shapes of its fields, never from the file's name.

Refuses a file with the fields it found and the mapping to write, rather than guess what is what.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from robustify.errors import DataError, UsageError
from robustify.loaders import datasets, prose
from robustify.loaders.cells import has
from robustify.loaders.choice_cells import shape
from robustify.loaders.fields import KNOWN_NAMES, AmbiguousError, complete, read_fields
from robustify.loaders.rows import Cells, Raw, Table
from robustify.loaders.source import FieldMap

Read = Callable[[Cells], Raw]
ROWS_LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout: its name, whether a row has it, and how a row is read."""

    name: str
    has_it: Callable[[Cells], bool]
    read: Read


def _fields(*names: str) -> Callable[[Cells], bool]:
    return lambda cells: all(name in cells for name in names)


def _nested(cells: Cells) -> bool:
    question = cells.get("question")
    return isinstance(question, Mapping) and "choices" in question and not _commonsenseqa(cells)


def _commonsenseqa(cells: Cells) -> bool:
    question = cells.get("question")
    return isinstance(question, Mapping) and {"choices", "question_concept"} <= set(question)


# From the most particular to the most general; what none of them has is read by its field names.
LAYOUTS = (
    Layout("arct", _fields("warrant0", "warrant1", "correctLabelW0orW1", "reason", "claim"), datasets.arct),
    Layout(
        "truthfulqa_binary",
        _fields("Question", "Best Answer", "Best Incorrect Answer"),
        datasets.truthfulqa_binary,
    ),
    Layout(
        "truthfulqa_mc1", _fields("Question", "Best Answer", "Incorrect Answers"), datasets.truthfulqa_mc1
    ),
    Layout("truthfulqa_hub", _fields("question", "mc1_targets"), datasets.truthfulqa_hub),
    Layout(
        "sciq",
        _fields("question", "correct_answer", "distractor1", "distractor2", "distractor3"),
        datasets.sciq,
    ),
    Layout(
        "gpqa",
        _fields(
            "Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"
        ),
        datasets.gpqa,
    ),
    Layout("piqa", _fields("goal", "sol1", "sol2", "label"), datasets.piqa),
    Layout("siqa", _fields("context", "question", "answerA", "answerB", "answerC", "label"), datasets.siqa),
    Layout("hellaswag", _fields("ctx", "endings", "label"), datasets.hellaswag),
    Layout("winogrande", _fields("sentence", "option1", "option2", "answer"), datasets.winogrande),
    Layout(
        "winogrande_contexts",
        _fields("context_options", "continuation", "gold"),
        datasets.winogrande_contexts,
    ),
    Layout("commonsenseqa", _commonsenseqa, datasets.nested),
    Layout("arc", _nested, datasets.nested),
    Layout("prose_lettered", prose.is_lettered, prose.lettered),
    Layout("prose_numbered", prose.is_numbered, prose.numbered),
    Layout("mmlu_csv", lambda _: False, datasets.mmlu_csv),
    Layout("logiqa", lambda _: False, datasets.logiqa),
    Layout("inspect_log", lambda _: False, datasets.inspect_log),
)
HOUSE = Layout("robustify", _fields("id", "stem", "choices", "key"), datasets.robustify_rows)
BY_FIELDS = (
    "text_label",
    "choices_by_letter",
    "choices_literal",
    "query_gold",
    "choices_list",
    "choice_columns",
)


def choose(name: str, table: Table, layout: str | None, fields: FieldMap | None) -> tuple[str, Read]:
    """The layout of a table and how to read its rows; `layout` or `fields` where the user has said it.

    Raises:
        UsageError: no such layout, a mapped field that no row has, or both said.
        DataError: nothing recognised, or in two ways.
    """
    if layout is not None and fields is not None:
        raise UsageError(f"{name}: both `layout` and `fields` are given; expected one of them")
    if fields is not None:
        return _by_fields(name, table, fields)
    if layout is not None:
        return _said(name, table, layout)
    if table.layout:
        return table.layout, _named(table.layout).read
    known = Counter(
        found.name for row in table.rows[:ROWS_LOOKED_AT] if (found := _recognised(row.cells, table))
    )
    if known and known.most_common(1)[0][1] * 2 > min(len(table.rows), ROWS_LOOKED_AT):
        found = _named(known.most_common(1)[0][0])
        return found.name, found.read
    return _by_fields(name, table, FieldMap())


def _recognised(cells: Cells, table: Table) -> Layout | None:
    # A flat file writes its lists out: it is read by its fields, whatever they are called.
    found = None if table.literals and isinstance(cells.get("choices"), str) else HOUSE
    if found is not None and found.has_it(cells):
        return found
    return next((layout for layout in LAYOUTS if layout.has_it(cells)), None)


def _named(layout: str) -> Layout:
    return next(known for known in (*LAYOUTS, HOUSE) if known.name == layout)


def _said(name: str, table: Table, layout: str) -> tuple[str, Read]:
    every = [known.name for known in LAYOUTS] + [HOUSE.name, *BY_FIELDS]
    if layout not in every:
        near = get_close_matches(layout, every, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise UsageError(f"{name}: no layout is called `{layout}`{hint} (known: {', '.join(every)})")
    if layout not in BY_FIELDS:
        return layout, _named(layout).read
    found, read = _by_fields(name, table, FieldMap())
    if found != layout:
        raise DataError(
            f"{name}: has the layout `{found}`, not `{layout}` as `layout` says; leave `layout` out"
        )
    return found, read


def _by_fields(name: str, table: Table, said: FieldMap) -> tuple[str, Read]:
    fields = field_map(name, table, said)
    choices = fields.choices or ""
    kinds = Counter(shape(row.cells, choices, literals=table.literals) for row in table.rows[:ROWS_LOOKED_AT])
    return kinds.most_common(1)[0][0], lambda cells: read_fields(cells, fields, literals=table.literals)


def field_map(name: str, table: Table, said: FieldMap) -> FieldMap:
    """Which field is which in a table that is read by its field names: what was said, and what was found.

    Raises:
        UsageError: a mapped field that no row has, or a table without field names.
        DataError: a part of an item has no field, or several.
    """
    if table.layout:
        raise UsageError(
            f"{name}: has no field names (layout `{table.layout}`); expected no `fields`, or a header"
        )
    for mapped in _mapped(said):
        if not any(has(row.cells, mapped) for row in table.rows):
            raise UsageError(f"{name}: no row has a field `{mapped}`, as `fields` says; {_columns(table)}")
    # The first rows may be bad ones: the fields are taken from the names that most rows have.
    common = Counter(tuple(row.cells) for row in table.rows[:ROWS_LOOKED_AT]).most_common(1)[0][0]
    first = next(row.cells for row in table.rows if tuple(row.cells) == common)
    try:
        return complete(said, first)
    except AmbiguousError as error:
        raise DataError(_ambiguous(name, table, error)) from None


def _mapped(said: FieldMap) -> list[str]:
    choices = [said.choices] if isinstance(said.choices, str) else list(said.choices or ())
    return [
        name
        for name in (said.stem, *choices, said.key, said.id, said.topic, said.passage)
        if name is not None
    ]


def _ambiguous(name: str, table: Table, error: AmbiguousError) -> str:
    return (
        f"{name}: holds no items of a known layout ({error}); {_columns(table)}; expected to be told "
        "which is what: write `fields: {stem: NAME, choices: NAME or [NAME, NAME], key: NAME}`"
    )


def _columns(table: Table) -> str:
    names, what = list(table.rows[0].cells), "columns" if table.literals else "fields"
    # Without a header the first record stands where the names should be, and that would be item text; and an
    # object may be keyed by its question. So names are shown only where they are plainly names.
    plain = all(re.fullmatch(r"#?[A-Za-z_][\w.\-]{0,39}", name) for name in names)
    if not plain or (table.literals and not any(name.casefold() in KNOWN_NAMES for name in names)):
        return f"found {what}: {len(names)} (names not shown: they may be text of an item)"
    return f"found the {what} {', '.join(names)}"
