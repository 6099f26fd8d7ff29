"""Advice on a file whose layout is unknown: which fields to map, or how to rewrite the file. Every suggested map was
tried on rows of the file."""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from robustify.base.errors import DataError, Notice, UsageError
from robustify.reading.columns import (
    Value,
    every_named,
    is_named,
    known_name,
    labelled_series,
    may_show,
    several,
    usual_name,
    usual_names,
)
from robustify.reading.loaders import answer_keys, rows
from robustify.reading.loaders.column_rules import Columns
from robustify.reading.loaders.layouts import (
    ROWS_LOOKED_AT,
    RawItems,
    names_are_safe,
    possible_flags,
    raw_items,
)
from robustify.reading.loaders.listed_options import form_of
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.marks.labelling import cut_at_labels

_FIXED = (("yes", "no"), ("true", "false"), ("yes", "no", "maybe"), ("true", "false", "unknown"),
          ("entailment", "neutral", "contradiction"))  # fmt: skip
"""Options that files without options imply by their keys. These words are safe to show."""
_KEY_FORMS = ("auto", "index", "number")
_OTHERS = re.compile(
    r"model|pred|student|response|reply|(?<!expected.)output|generated|generation|guess|gpt|llm|difficulty|level|grade|year",
    re.IGNORECASE,
)
"""Words in names of columns that are not proposed as the key, because they hold answers of somebody, or kinds of items."""
_AS_CSV = "with the columns question, A, B, C, D, and answer"


def advice(
    name: str,
    table: rows.SourceTable,
    columns: Columns,
    fields: FieldMap,
    choices: Value | None,
    reason: Notice,
) -> tuple[Notice, str]:
    """Return the reason why the layout is unknown, perhaps a clearer reason, and the advice. `choices` has the
    columns of the options, if only the key is missing."""
    safe = names_are_safe(table, columns.names)
    if reason.code == "several-columns-for-part":
        ways = " or ".join(
            f"`--map {re.split(' the ', reason)[-1]}={column}`" for column in re.findall("`(.*?)`", reason)
        )
        return reason, f"Name the right one with {ways}, or the same under `fields` in the config."
    mend = _naming_mend(fields, reason)
    if choices is not None:
        if empty := [name for name in every_named(columns.names, "key") if not columns.filled.get(name)]:
            reason = Notice(f"`{empty[0]}` is empty in every row", code=reason.code)
            mend = "Use a version of the set that has keys."
        elif proposed := _proposed_key(name, table, fields, choices):
            mend = _fits(proposed)
        elif _one_option_a_row(table, columns):
            mend = f"Each row seems to hold one option of a question. Write one row for each question, {_AS_CSV}."
        elif not _others(columns, choices):
            mend = "The file has no other field, so its keys may be in another file. Add them as the field `answer`."
    elif "the choices" in reason and fields.choices is None:
        mend = _mend_of_choices(name, table, columns, fields, safe=safe) or mend
    elif "the stem" in reason and (stems := _proposed_stems(name, table, columns, fields) if safe else ()):
        mend = (
            f"Name the question's field with {' or '.join(stems)}, or the same under `fields` in the config."
        )
    if gaps := _several_lists(columns):
        mend = (
            f"`{gaps}` holds several lists of options in each row, one for each question or gap. Write one row for each of "
            f"these, {_AS_CSV}."
        )
    elif block := _block_field(table, columns):
        mend = (
            f"The options are in one text with the question, in `{block}`. Put the question and each option into fields "
            "of their own, for example question, A, B, C, D, and answer."
        )
    elif table.flat and len(columns.names) == 1:
        reason = Notice("it has one column, so it may be a text", code="text-not-table")
        mend = f"Save its questions as CSV {_AS_CSV}."
    elif table.flat and not any(map(known_name, columns.names)):
        mend += " If line 1 is an item, put a header above it, for example question,A,B,C,D,answer."
    return reason, mend


def _mend_of_choices(
    name: str, table: rows.SourceTable, columns: Columns, fields: FieldMap, *, safe: bool
) -> str:
    """Return how to find the options, or "" if nothing in the file looks like them."""
    if fixed := _fixed_options(table, columns):
        words = ",".join(fixed)
        return (
            "The file has no options, but its keys are the same few words. Add them as the options of all items, for "
            f'example with `--map choices=={words}`, or `fields: {{choices: "={words}"}}` in the config.'
        )
    if proposed := _proposed_choices(name, table, columns, fields):
        return _fits(proposed)
    if nested := _nested(columns) if safe else ():
        where = " or ".join(f"`{column}`" for column in nested)
        return (
            f"The questions or options may be inside {where}. Write one object for each question, {_AS_CSV}, and leave "
            "out questions with several right options."
        )
    return ""


def _fits(proposed: str) -> str:
    return f"Its values fit: add {proposed}, or set the same under `fields` in the config."


def _others(columns: Columns, choices: Value) -> list[str]:
    """Return the columns that contain neither options nor another part with a usual name."""
    parts = ("stem", "id", "topic", "passage")
    return [
        name
        for name in columns.names
        if name not in several(choices) and not any(is_named(name, part) for part in parts)
    ]


def _one_option_a_row(table: rows.SourceTable, columns: Columns) -> bool:
    """Return whether successive rows repeat a question while a column marks the right option."""
    stems, marks = (usual_name(columns.names, part) for part in ("stem", "option_mark"))
    texts = [str(row.cells.get(stems)) for row in table.rows[:ROWS_LOOKED_AT]]
    repeated = sum(text == before for text, before in zip(texts[1:], texts, strict=False))
    return bool(stems and marks) and 2 * repeated >= len(texts)


def _proposed_choices(name: str, table: rows.SourceTable, columns: Columns, mapped: FieldMap) -> str:
    """Return the `--map` option for the options if exactly one column of lists, or one series of columns, can be the
    options. All rows must have the same number, because a list of tags seldom has."""
    some = replace(table, rows=table.rows[:ROWS_LOOKED_AT])
    lists = [name for name, cell in columns.example.items() if isinstance(cell, list | Mapping)]
    fitting = []
    for choices in (*labelled_series(columns.names), *lists):
        with suppress(DataError, UsageError):
            read = raw_items(name, some, mapped.model_copy(update={"choices": choices}))
            alike = len({len(raw.choices) for raw in read.raws}) == 1
            names = several(choices)
            if alike and not read.faults and all(map(rows.name_like, names)) and may_show(names):
                fitting.append(",".join(several(choices)))
    return f"`--map choices={shlex.quote(fitting[0])}`" if len(fitting) == 1 else ""


def _nested(columns: Columns) -> Sequence[str]:
    """Return the fields that contain objects, or lists of objects."""
    inner = {
        name: [*cell][:1] if isinstance(cell, list) else [cell] for name, cell in columns.example.items()
    }
    return [name for name, members in inner.items() if any(map(rows.as_object, members))]


def _several_lists(columns: Columns) -> str:
    """Return the column with a usual name for the options that contains a list of lists, or ""."""
    for name in usual_names(columns.example, "choices"):
        cell, form = columns.example[name], form_of(columns.example[name])
        lists = isinstance(cell, list) and cell and all(isinstance(member, list) for member in cell)
        if lists and form is not None and form.form == "a list":
            return name
    return ""


def _proposed_stems(name: str, table: rows.SourceTable, columns: Columns, mapped: FieldMap) -> Sequence[str]:
    """Return a `--map` option for each field that may contain the question. Such a field contains text of several words
    that is not another part. With this option, sample items can be read with `key_is=auto`, or otherwise with exactly
    one other form of key."""
    some = replace(table, rows=table.rows[:ROWS_LOOKED_AT])
    texts = {column: cell for column, cell in columns.example.items() if isinstance(cell, str)}
    taken = {column for series in labelled_series(columns.names) for column in series}
    parts = ("choices", "key", "right", "wrong", "id", "topic")
    ways = []
    for column, text in texts.items():
        if len(text.split()) < 2 or column in taken or any(is_named(column, part) for part in parts):
            continue
        forms = list[str]()
        for key_is in _KEY_FORMS[:1] if mapped.key_is != "auto" else _KEY_FORMS:
            with suppress(DataError, UsageError):
                update = {"stem": column} if key_is == "auto" else {"stem": column, "key_is": key_is}
                if "auto" not in forms and not raw_items(name, some, mapped.model_copy(update=update)).faults:
                    forms.append(key_is)
        if len(forms) == 1:
            form = "" if forms[0] == "auto" else f" --map key_is={forms[0]}"
            ways.append(f"`--map stem={shlex.quote(column)}{form}`")
    return ways


def _naming_mend(fields: FieldMap, reason: str) -> str:
    """Return advice to name the parts that are not mapped. All items may have one question, as in sentence pairs."""
    forms = {"stem": "NAME", "choices": "NAME,NAME", "key": "NAME"}
    missing = {part: form for part, form in forms.items() if getattr(fields, part) is None}
    ways = " ".join(f"--map {part}={form}" for part, form in missing.items())
    listed = ", ".join(
        f"{part}: {form.replace('NAME,NAME', 'NAME or [NAME, NAME]')}" for part, form in missing.items()
    )
    own = (
        "Items without a question of their own need one for all: `--map stem==TEXT`. "
        if "the stem" in reason
        else ""
    )
    return f"{own}Name the fields with `{ways}`, or set `fields: {{{listed}}}` in the config."


def _fixed_options(table: rows.SourceTable, columns: Columns) -> Sequence[str]:
    """Return the options that keys such as yes, no, and maybe imply in a file without options."""
    for name in every_named(columns.names, "key"):
        cells = [row.cells.get(name) for row in table.rows[:ROWS_LOOKED_AT]]
        words = {str(cell).strip().casefold() for cell in cells if isinstance(cell, str | bool)}
        if fitting := [options for options in _FIXED if len(words) > 1 and words <= {*options}]:
            return fitting[0]
    return ()


def _block_field(table: rows.SourceTable, columns: Columns) -> str:
    """Return the field whose text contains labeled options in at least a fifth of the rows. Return "" if there is no
    such field or its name may be item text."""
    listed = usual_names(columns.names, "choices")
    apart = any(form_of(columns.example.get(name)) for name in listed) or not names_are_safe(
        table, columns.names
    )
    looked_at = [] if apart else table.rows[:ROWS_LOOKED_AT]
    for name in columns.names:
        if looked_at and 5 * sum(_has_options(row.cells, name) for row in looked_at) >= len(looked_at):
            return name
    return ""


def _has_options(cells: rows.Cells, name: str) -> bool:
    """Return whether a text ends with labeled options."""
    with suppress(DataError):
        cut = cut_at_labels(rows.stem_text(cells, name))
        return cut is not None and bool(cut.before.strip())
    return False


def _proposed_key(
    name: str, table: rows.SourceTable, mapped: FieldMap, choices: str | tuple[str, ...]
) -> str:
    """Return the `--map` option for the key if exactly one column can be the key. Columns that mark single options
    come first, then columns of letters, labels, or texts, then numbers. Columns with the same keys count once."""
    some = replace(table, rows=table.rows[:ROWS_LOOKED_AT])
    example, candidates = table.rows[0].cells, dict[str, tuple[FieldMap, RawItems]]()
    inside = [f"{choices}.{name}" for name in rows.as_object(example.get(str(choices)))]
    columns = [*dict.fromkeys(name for row in some.rows for name in row.cells), *inside]
    columns = [column for column in columns if not _OTHERS.search(column)]
    for column in possible_flags(example, choices) or columns:
        for key_is in ("auto", "number") if column not in several(choices) else ():
            fields = mapped.model_copy(update={"key": column, "key_is": key_is})
            with suppress(DataError, UsageError):
                read = raw_items(name, some, fields)
                if not read.faults and (len(read.keys) < 3 or len({*read.keys}) > 1):
                    candidates[column] = fields, read
                    break
    sure = {
        column: candidate
        for column, candidate in candidates.items()
        if not candidate[1].recognised.key_forms.keys() & {*answer_keys.FORMS.values()}
    }
    best = [*(sure or candidates).items()]
    alike = bool(sure) and len({read.keys for _, read in sure.values()}) == 1
    column = best[0][0] if best and (len(best) == 1 or alike) else ""
    if rows.name_like(column) and may_show([column]):
        fields, _ = best[0][1]
        with suppress(DataError, UsageError):
            if not raw_items(name, table, fields).faults:
                form = " --map key_is=number" if fields.key_is == "number" else ""
                return f"`--map key={shlex.quote(column)}{form}`"
    return ""
