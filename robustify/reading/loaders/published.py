"""Published layouts of benchmarks (`layouts.yaml`), and the reader of rows by a complete field map.

A layout states how its benchmark writes a key. It does not check whether the key is right.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from string import Formatter

from robustify.base.errors import ItemError
from robustify.base.settings_files import read_yaml
from robustify.items.item import NO_ID
from robustify.reading.columns import choice_columns, several, usual_names
from robustify.reading.loaders import rows
from robustify.reading.loaders.listed_options import FormRule, read_choices
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.loaders.option_columns import own_label

OWN = "robustify"
"""Name of the layout that robustify writes, and reads back unchanged."""
Read = Callable[[rows.Cells], rows.RawItem]
"""Function that reads a row. Raises ItemError if the row cannot become an item."""


class PublishedLayout(FieldMap):
    """Layout of a published benchmark: an entry of `layouts.yaml`, which describes the fields."""

    name: str
    about: str
    template: str = ""
    needs: tuple[str, ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that distinguish this layout from others. If it has none, only a reader of the format names it."""
        if self.needs is not None:
            return self.needs
        stems = template_columns(self.template) or several(self.stem)
        return (*stems, *several(self.choices), *several(self.key))

    def matches(self, cells: rows.Cells) -> bool:
        """Return whether a row has this layout, and the layout reads all of the row's options."""
        if not self.columns or any(rows.cell_or_none(cells, column) is None for column in self.columns):
            return False
        return columns_of_options(cells) <= {*self.columns}


@lru_cache(1)
def layouts() -> tuple[PublishedLayout, ...]:
    """Return all layouts, in order. The first layout that fits a row reads it."""
    file = files("robustify.reading").joinpath("layouts.yaml")
    return tuple(map(PublishedLayout.model_validate, read_yaml(file.read_bytes(), "layouts.yaml")))


def template_columns(template: str) -> tuple[str, ...]:
    """Return the columns in the braces of a template, in order."""
    return tuple(name for _, name, *_ in Formatter().parse(template) if name)


def columns_of_options(cells: rows.Cells) -> set[str]:
    """Return a row's option columns: one column with a usual name for options, or one column per option."""
    series = (column for labels in choice_columns(cells) for column in labels)
    return {*usual_names(cells, "choices", slice(1)), *series}


def reader_of(fields: FieldMap, usual: FormRule | None = None) -> Read:
    """Return a function that reads rows by a complete field map. `usual` is the form of the options in most rows."""
    stem, choices, key = fields.stem or "stem", fields.choices or "choices", fields.key
    template = fields.template if isinstance(fields, PublishedLayout) else ""
    columns = template_columns(template)
    in_choices = key is None or key in several(choices)

    def read(cells: rows.Cells) -> rows.RawItem:
        options = read_choices(cells, choices, key, usual)
        if template:
            text = template.format_map({column: rows.cell_text(cells, column) for column in columns})
            passage, question_at = text, 0
        else:
            question, passage = rows.stem_text(cells, stem), ""
            if fields.passage and (above := rows.cell_or_none(cells, fields.passage)) is not None:
                turns = above if isinstance(above, list) else [above]
                passage = "\n".join(rows.require_text(turn, f"`{fields.passage}`") for turn in turns)
            text, question_at = joined_stem(passage, question)
        marked = in_choices or (bool(options.marks) and rows.cell_or_none(cells, key or "") is None)
        right = options.right if marked or options.marks else None
        return rows.RawItem(
            stem=text,
            choices=options.texts,
            key=right if marked else own_label(rows.cell_value(cells, key or ""), choices, options.labels),
            key_is="index" if marked else fields.key_is,
            labels=options.labels,
            id=rows.cell_label(cells, fields.id),
            topic=_topic(cells, fields.topic),
            passage=passage,
            group=rows.cell_label(cells, fields.group),
            question_at=question_at,
            marked=right,
            cut=options.cut,
            unread=options.unread,
        )

    return read


def _topic(cells: rows.Cells, name: str | None) -> str:
    """Return a topic as `cell_label` does, or the joined topics of a list."""
    value = rows.cell_or_none(cells, name) if name is not None else None
    if isinstance(value, list | tuple) and name is not None:
        return ", ".join(filter(None, (rows.cell_label({name: topic}, name) for topic in value)))
    return rows.cell_label(cells, name)


def joined_stem(passage: str, question: str) -> tuple[str, int]:
    """Put the passage, if any, before the question. Return the stem and the index at which the question begins."""
    stem = f"{passage}\n\n{question}" if passage.strip() else question
    return stem, len(stem) - len(question)


def read_own(cells: rows.Cells) -> rows.RawItem:
    """Read a row written by robustify. Raise `ItemError` if the ID or a field is missing, or a type is wrong."""
    if not (name := rows.cell_label(cells, "id")):
        raise ItemError(NO_ID, code=NO_ID.code)
    passage = rows.cell_text(cells, "passage") if cells.get("passage") is not None else ""
    stem, question_at = joined_stem(passage, rows.cell_text(cells, "stem"))
    if not passage and 0 < (start := rows.as_integer(cells.get("question_at")) or 0) < len(stem):
        question_at = start
    return rows.RawItem(
        stem,
        rows.text_list(rows.cell_value(cells, "choices"), "`choices`"),
        rows.cell_value(cells, "key"),
        "index",
        id=name,
        topic=rows.cell_label(cells, "topic"),
        group=rows.cell_label(cells, "group"),
        passage=passage,
        question_at=question_at,
    )
