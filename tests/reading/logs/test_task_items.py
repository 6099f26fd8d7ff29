"""Rows of logs are recognized by the documents of a task: by their content, or by number and target if all rows agree."""

from typing import Any

import pytest

from robustify.items.item import Item
from robustify.reading.loaders.loaded import TaskDocument
from robustify.reading.loaders.rows import SourceRow
from robustify.reading.logs.log import NOTHING
from robustify.reading.logs.task_items import TaskItems
from tests.support.cases import contents

TABLES = contents("logs/task_items")
ITEMS = [Item(f"q{n}", f"Which box is number {n}?", ("red", "blue"), n % 2) for n in range(4)]


@pytest.mark.parametrize("case", TABLES["cases"], ids=lambda case: case["name"])
def test_rows_get_the_items_of_the_task(case: dict[str, Any]) -> None:
    documents = [TaskDocument.from_row(line, row) for line, row in enumerate(TABLES["documents"], start=1)]
    items = [item if n < case.get("n_items", 4) else None for n, item in enumerate(ITEMS)]
    lines = [SourceRow(line, line, row) for line, row in enumerate(case["rows"], start=1)]
    nothing = dict.fromkeys(range(1, len(lines) + 1), NOTHING)
    shown = TaskItems.of([*zip(documents, items, strict=True)]).in_rows(lines, nothing)
    gives = shown and [
        {line: str(item.id) for line, item in shown[0].items()},
        [fault.line for fault in shown[1]],
    ]
    assert gives == case["gives"]
