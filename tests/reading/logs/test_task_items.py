"""Rows of logs are recognized by the documents of a task: by their content, or by number and target if all rows agree."""

from typing import Any

import pytest

from robustify.items.item import Item
from robustify.reading.loaders.rows import SourceRow
from robustify.reading.logs.log import NOTHING
from robustify.reading.logs.task_items import TaskItems
from robustify.reading.task_documents import TaskDocument

ITEMS = [Item(f"q{n}", f"Which box is number {n}?", ("red", "blue"), n % 2) for n in range(4)]
ROWS: list[dict[str, Any]] = [
    {"doc_id": n, "doc": {"kiste": n, "farben": ["red", "blue"]}, "target": n % 2} for n in range(4)
]


def recognized(
    rows: list[dict[str, Any]], items: list[Item | None]
) -> tuple[dict[int, str], list[int]] | None:
    """Return the IDs by line and the lines of faults, for a log with these rows."""
    documents = [TaskDocument.from_row(line, row) for line, row in enumerate(ROWS, start=1)]
    lines = [SourceRow(line, line, row) for line, row in enumerate(rows, start=1)]
    shown = TaskItems.of([*zip(documents, items, strict=True)]).in_rows(
        lines, dict.fromkeys(range(1, len(rows) + 1), NOTHING)
    )
    if shown is None:
        return None
    return {line: str(item.id) for line, item in shown[0].items()}, [fault.line for fault in shown[1]]


REORDERED = [{**row, "doc": {"farben": row["doc"]["farben"], "kiste": row["doc"]["kiste"]}} for row in ROWS]
OTHER_FORM = [
    {**row, "doc": {**row["doc"], "day": "2020-01-01"}, "target": str(row["target"])} for row in ROWS
]


@pytest.mark.parametrize(
    ("rows", "items", "expected"),
    [
        (REORDERED[::-1], [*ITEMS], ({1: "q3", 2: "q2", 3: "q1", 4: "q0"}, [])),
        ([*ROWS[:2], {**ROWS[2], "doc": {}}], [*ITEMS], ({1: "q0", 2: "q1"}, [3])),
        (ROWS, [*ITEMS[:3], None], ({1: "q0", 2: "q1", 3: "q2"}, [4])),
        (OTHER_FORM, [*ITEMS], ({n + 1: f"q{n}" for n in range(4)}, [])),
        ([*OTHER_FORM[:3], {**OTHER_FORM[3], "target": 0}], [*ITEMS], None),
        ([{**row, "doc_id": row["doc_id"] + 1} for row in OTHER_FORM], [*ITEMS], None),
    ],
    ids=[
        "content",
        "an unknown document",
        "no item",
        "number and target",
        "another target",
        "another number",
    ],
)
def test_rows_get_the_items_of_the_task(rows: Any, items: Any, expected: Any) -> None:
    assert recognized(rows, items) == expected
