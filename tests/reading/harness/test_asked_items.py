"""Items in lm-eval's requests: which options they show, which question, and which key its `doc_to_target` names.

`cases/asked_items.yaml` holds the documents, and what is read of them.
"""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from robustify.reading.harness.asked_items import item_table
from robustify.reading.loaders.layouts import raw_items
from tests.support.cases import codes, contents

CASES = contents("asked_items")


def read(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the faults of the usual document with these changes, or what is read of it."""
    listed = "\n".join(f"{letter}. {text}" for letter, text in zip("ABC", CASES["options"], strict=True))
    table, fields = item_table([
        {
            "task": "fruit",
            "doc": {"question": f"What is in bowl {n}?", "choices": CASES["options"]},
            "text": f"Question: What is in bowl {n}?\n{listed}\nAnswer:",
            "choices": ["A", "B", "C"],
            "target": n % 3,
            **changes,
        }
        for n, changes in enumerate(rows)
    ])  # fmt: skip
    if table.faults:
        return {"faults": codes(fault.reason for fault in table.faults)}
    raw = raw_items("fruit", table, fields)
    return {
        "stems": [item.stem for item in raw.raws],
        "questions": [item.stem[item.question_at :] for item in raw.raws],
        "passages": [item.passage for item in raw.raws],
        "choices": [[*item.choices] for item in raw.raws],
        "topics": [item.topic for item in raw.raws],
        "ids": [item.id for item in raw.raws],
        "keys": [*raw.keys],
        "unread": [place for note in raw.recognised.unread for place in re.findall(r"\d+ for \d+", note)],
    }


@pytest.mark.parametrize("case", CASES["cases"].values(), ids=CASES["cases"])
def test_documents_are_read_as_their_case_says(case: dict[str, Any]) -> None:
    seen = read(case["rows"])
    assert {name: seen.get(name) for name in case["expect"]} == case["expect"]


@pytest.mark.parametrize(("changes", "code"), CASES["faults"])
def test_a_document_that_is_no_item_is_a_fault_with_its_code(changes: dict[str, Any], code: str) -> None:
    assert read([changes]) == {"faults": [code]}
