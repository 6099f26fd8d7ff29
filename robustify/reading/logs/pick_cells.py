"""Cells of a table of picks: the columns of its parts, and what a row says about the pick of each model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from robustify.base.redaction import HoldsText
from robustify.reading.loaders import rows
from robustify.reading.loaders.listed_options import read_choices
from robustify.reading.logs import log


@dataclass(frozen=True, slots=True)
class PickColumns:
    """Columns of a table that hold each model's picks, the other parts, and the choices. The model is "" if all share one.
    A column is `=value` if the value is constant, and may contain `*` for the name of a model."""

    picks: Mapping[log.Name, str]
    parts: Mapping[str, str]
    choices: str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True, repr=False)
class PickCells(HoldsText):
    """Cells of a row that describe one model's pick. `model` is "" if the row names the model."""

    model: log.Name
    choices: tuple[str, ...]
    parts: Mapping[str, object]

    def text(self, part: str) -> str:
        """Return a part as text, or "" if it is neither text nor a whole number."""
        cell = self.parts.get(part)
        number = rows.as_integer(cell)
        return str(cell if number is None else number).strip() if isinstance(cell, str | int | float) else ""

    @property
    def scores(self) -> list[float]:
        """Scores of the choices, with NaN for an unreadable one. Lists may be written as text."""
        cells: object = self.parts.get("scores")
        while isinstance(cells, list) and len(cells) == 1:
            cells = cells[0]
        if isinstance(cells, str):
            cells = [text for text in re.split(r"[\s,;]+", cells.strip(" []()")) if text]
        elif isinstance(cells, dict):
            cells = [cells[label] for label in sorted(cells, key=lambda label: (len(label), label))]
        values = cells if isinstance(cells, list) else []
        return [] if all(value is None for value in values) else [*map(log.number_or_nan, values)]


def pick_cells(row: rows.SourceRow, columns: PickColumns) -> list[PickCells]:
    """Return one pick for each model of a row."""
    choices = () if columns.choices is None else read_choices(row.cells, columns.choices).texts

    def cell(part: str, column: str) -> object:
        if column.startswith("="):
            return column[1:]
        if part != "scores":
            return rows.cell_or_none(row.cells, column)
        return [rows.cell_or_none(row.cells, name) for name in column.split(",")]

    return [
        PickCells(
            model,
            choices,
            {part: cell(part, c.replace("*", model or "*")) for part, c in columns.parts.items()}
            | {"pick": cell("pick", pick)},
        )
        for model, pick in columns.picks.items()
    ]
