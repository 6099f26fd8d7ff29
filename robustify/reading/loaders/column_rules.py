"""Rules that decide which column of a file contains which part of an item.

A file passes these tables in order. In each, the first entry that fits decides, and `validate --why` prints its name:

1. its format, by content: `open_file.py`
2. records that hold items, such as rows of a log or questions inside rows: `CONVERTERS` in `converters.py`
3. a published layout, if no column is mapped: `layouts.yaml`, or `SPECIAL_LAYOUTS` in `converters.py` if it needs code
4. the columns: `RULES` below, with the names in `vocabulary.txt`
5. the form of the options of most rows: `FORM_RULES` in `listed_options.py`
6. how the keys of the file name options: `answer_keys.py`
7. reasons to refuse the file as a whole: `CHECKS` in `file_checks.py`

To let a file be read in a new way, add a name, a layout, a form, or a rule there, and a case to `tests/data/cases/reading`.
If several columns could each be a part, the file is refused, and nothing is guessed. Examples of columns, and their parts:

    question, A, B, C, D, answer                    -> stem: question  choices: A,B,C,D  key: answer
    Question, Options, Correct Answer, Answer       -> stem: Question  choices: Options  key: Correct Answer
    id, prompt, choices, gold, context              -> stem: prompt  choices: choices  key: gold  id: id  passage: context
    question, prompt, option1, option2, label       -> stem: question  choices: option1,option2  key: label
    query, A, B, options, target, topic             -> stem: query  choices: options  key: target  topic: topic
    Question, Correct Answer, Incorrect Answer 1    -> choices: Correct Answer,Incorrect Answer 1  key: Correct Answer
    question, answer, distractors, subject          -> choices: answer,distractors  key: answer  topic: subject
    Frage, Antwort A, Antwort B, Lösung             -> stem: Frage  choices: Antwort A,Antwort B  key: Lösung
    question, choices                               -> stem: question  choices: choices  (the options mark the key)
    question, query, choices, answer                -> refused: `question` and `query` could each be the stem
    question, A, B, option1, option2, answer        -> refused: several groups of columns could be the choices
    riddle, A, B, answer                            -> refused: no field has one of the usual names for the stem
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from robustify.reading.columns import (
    WRONG_PREFIXES,
    ColumnError,
    PartDecision,
    PartRule,
    Value,
    choice_columns,
    decide_part,
    every_named,
    is_named,
    several,
    usual_names,
)
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.loaders.rows import Cells, SourceRow, SourceTable, cell_or_none

_SAMPLE = 10_000
"""Number of records, from the first, in which the columns are decided."""
_ROWS_LOOKED_AT = 1000
"""Number of rows in which empty columns are looked for, spread over the sample."""
_OPTIONAL = ("id", "topic", "passage", "group")
PARTS = ("stem", "choices", "key", *_OPTIONAL)
"""Parts of an item that a column may hold."""
_MOST_IN_GROUP = 20
"""Largest mean size of groups in a column that nobody mapped. Larger ones are probably topics."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Column names of a table's sample, the most common first, and the number of rows with a value in each.

    `example` is a row with the most common names. `group_sizes` are the mean sizes of the groups in columns that may name
    them."""

    names: tuple[str, ...]
    filled: Mapping[str, int]
    example: Cells
    group_sizes: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def collect(cls, table: SourceTable) -> "Columns":
        """Collect the column names of a table. The first rows may be bad, so the most common names come first."""
        rows, shapes, examples = table.rows, Counter[tuple[str, ...]](), dict[tuple[str, ...], Cells]()
        for row in rows[:1] if table.names else islice(rows, _SAMPLE):
            shapes[shape := tuple(row.cells)] += min(len(rows), _SAMPLE) if table.names else 1
            examples.setdefault(shape, row.cells)
        usual = shapes.most_common(1)[0][0]
        some = islice(rows, 0, _SAMPLE, max(1, shapes.total() // _ROWS_LOOKED_AT))
        pairs = ((name, cell) for row in some for name, cell in row.cells.items() if cell is not None)
        filled = Counter(name for name, cell in pairs if not isinstance(cell, str) or cell.strip())
        names = dict.fromkeys([*usual, *(name for shape in shapes for name in shape)])
        return cls(tuple(names), filled, examples[usual], _group_sizes(rows, [*names]))


def _group_sizes(rows: Sequence[SourceRow], names: Sequence[str]) -> dict[str, float]:
    """Return the mean group size in each column that may name groups, or infinity if a cell is not a label."""
    sizes = dict[str, float]()
    for name in usual_names(names, "group"):
        cells = [cell for row in islice(rows, _SAMPLE) if (cell := row.cells.get(name)) not in (None, "")]
        labels = all(isinstance(cell, str | int | float) for cell in cells)
        sizes[name] = len(cells) / max(1, len(set(cells))) if labels else float("inf")
    return sizes


@dataclass(slots=True)
class Schema:
    """Columns of a table, the user's field map, and the parts decided so far."""

    columns: Columns
    fields: FieldMap
    parts: dict[str, Value | None] = field(default_factory=dict)
    decisions: list[PartDecision] = field(default_factory=list)

    def every(self) -> list[str]:
        """Return the columns that the user did not map and that contain neither options nor the question."""
        mapped = (getattr(self.fields, part) for part in PARTS)
        decided = (self.parts.get(part) for part in ("stem", "choices"))
        taken = {column for value in (*mapped, *decided) for column in several(value)}
        return [column for column in self.columns.names if column not in taken]

    def filled(self) -> list[str]:
        """Return the columns of `every` that have a value in some row."""
        return [column for column in self.every() if self.columns.filled[column]]

    def usual(self) -> list[str]:
        """Return the columns of `filled` in the most common kind of row, without the key."""
        return [c for c in self.filled() if c in self.columns.example and c != self.parts.get("key")]

    def series(self, prefixes: frozenset[str] | None = None) -> list[tuple[str, ...]]:
        """Return the series of columns with one option each, or one wrong option each, depending on `prefixes`."""
        if prefixes:
            return choice_columns(self.every(), prefixes, fewest=1)
        return [names for names in choice_columns(self.every()) if any(map(self.columns.filled.get, names))]


Find = Callable[[Schema], Sequence[Value]]


def _options_by_name(columns: Callable[[Schema], list[str]]) -> Find:
    def find(schema: Schema) -> Sequence[Value]:
        series = schema.series()
        single = {column for columns_ in series for column in columns_}  # "Option S" is not "options"
        usual = usual_names([column for column in columns(schema) if column not in single], "choices")
        # Beside the columns A to D, only a column with the most usual name holds the options.
        return usual if usual and (not series or is_named(usual[0], "choices", slice(1))) else []

    return find


def _right_and_wrong(columns: Callable[[Schema], list[str]]) -> Find:
    def find(schema: Schema) -> Sequence[Value]:
        every, series = columns(schema), schema.series(WRONG_PREFIXES)
        wrong = usual_names(every, "wrong") or [column for label in series[:1] for column in label]
        right = usual_names([column for column in every if column not in wrong], "right")
        return [(right[0], *wrong)] if right and wrong else []

    return find


def _right_option(schema: Schema) -> Sequence[Value]:
    choices = schema.parts.get("choices")
    by_rule = {decision.part: decision.rule for decision in schema.decisions}
    return [choices[0]] if by_rule.get("choices") == RIGHT_AND_WRONG and isinstance(choices, tuple) else []


def _full_keys(schema: Schema) -> Sequence[Value]:
    """Return the usual key columns that are nearly as full as the fullest, because a sparse column never wins."""
    keys = every_named(schema.usual(), "key")
    most = max((schema.columns.filled[column] for column in keys), default=0)
    return [column for column in keys if 10 * schema.columns.filled[column] >= 9 * most]


def _stems(schema: Schema) -> Sequence[Value]:
    return usual_names(schema.usual(), "stem")


def _first_by_name(part: str) -> Find:
    # A column that is null in the first rows may have values later in the file.
    return lambda schema: usual_names(schema.filled(), part) or usual_names(schema.every(), part)


def _passages(schema: Schema) -> Sequence[Value]:
    passages, example = _first_by_name("passage")(schema), schema.columns.example
    if not passages:
        return []
    question, above = (cell_or_none(example, str(column)) for column in (schema.parts["stem"], passages[0]))
    is_prompt = isinstance(question, str) and isinstance(above, str) and question in above
    return [] if is_prompt else passages


def _groups(schema: Schema) -> Sequence[Value]:
    sizes = schema.columns.group_sizes
    return [name for name in _first_by_name("group")(schema) if sizes[str(name)] <= _MOST_IN_GROUP]


RIGHT_AND_WRONG = "right and wrong"
_MOST_OPEN = "most rows have no options"
RULES: tuple[PartRule[Schema], ...] = (
    PartRule(
        "choices",
        "usual name",
        "one column has a usual name for all options",
        _options_by_name(Schema.usual),
        True,
    ),
    PartRule("choices", "series", "columns are labeled A, B, C or 1, 2, 3", Schema.series, True),
    PartRule(
        "choices",
        RIGHT_AND_WRONG,
        "one column has the right option, others wrong ones",
        _right_and_wrong(Schema.usual),
    ),
    PartRule("choices", "usual name in some rows", _MOST_OPEN, _options_by_name(Schema.filled), True),
    PartRule("choices", RIGHT_AND_WRONG, _MOST_OPEN, _right_and_wrong(Schema.filled)),
    PartRule("key", RIGHT_AND_WRONG, "the column with the right option is the key", _right_option),
    PartRule("key", "usual name", "the most usual name for a key among the full columns", _full_keys),
    PartRule("stem", "usual name", "one column has a usual name for the question", _stems, True),
    PartRule("id", "usual name", "the first column with a usual name for an ID", _first_by_name("id")),
    PartRule(
        "topic", "usual name", "the first column with a usual name for a topic", _first_by_name("topic")
    ),
    PartRule(
        "passage",
        "usual name",
        "the first column with a usual name for a passage, unless it is a prompt",
        _passages,
    ),
    PartRule(
        "group", "usual name", "the first column with a usual name, and few items in each group", _groups
    ),
)
"""In order. The options and the question must not be missing, and options may mark the key themselves."""


def decide_columns(fields: FieldMap, columns: Columns) -> tuple[FieldMap, tuple[PartDecision, ...]]:
    """Find the parts that a field map lacks, by the rules. Return the complete map and the decisions.

    An optional part that `fields` sets to null stays out. The key is None if no rule finds it. Raise `ColumnError`, which
    names the part, if another part is missing or several columns could be the part."""
    schema = Schema(columns, fields)
    for part in dict.fromkeys(rule.part for rule in RULES):
        value = getattr(fields, part)
        if value is not None or (part in fields.model_fields_set and part in _OPTIONAL):
            schema.parts[part] = value
            if value is not None:
                schema.decisions.append(
                    PartDecision(part, several(value), "mapped", "named with --map or `fields`")
                )
            continue
        chosen = decide_part(RULES, part, schema)
        if chosen is None and part in ("choices", "stem"):
            raise ColumnError(f"no field has one of the usual names for the {part}", code="no-usual-column")
        schema.parts[part] = chosen and chosen[0]
        schema.decisions += [chosen[1]] if chosen else []
    return FieldMap.model_validate({**schema.parts, "key_is": fields.key_is}), tuple(schema.decisions)
