"""Items as questions without options, in rows that other tools read: the prompt complete, the choices for the grader.

Only what rules can grade is exported (numbers and short texts); what cannot be asked so is counted, never dropped in
silence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from robustify.freeform.convert import convert_item
from robustify.freeform.generate import Generation, prompt_of
from robustify.freeform.schema import FreeItem
from robustify.item import Item


@dataclass(frozen=True, slots=True, repr=False)
class FreeRows:
    """Rows to ask, and of how many items they are; `left_out` counts the others by reason."""

    rows: tuple[dict[str, Any], ...]
    n_items: int
    left_out: dict[str, int]

    def __repr__(self) -> str:
        return f"FreeRows({len(self.rows)} of {self.n_items})"

    @property
    def says(self) -> str:
        """How many items are asked, and why the others are not."""
        reasons = ", ".join(f"{name} {n}" for name, n in sorted(self.left_out.items()))
        return f"{len(self.rows)} of {self.n_items} items" + (f" (left out: {reasons})" if reasons else "")


def free_rows(items: Sequence[Item]) -> FreeRows:
    """The items that can be asked without options and graded by rules, in their own order."""
    rows, left_out = [], dict[str, int]()
    how = Generation()
    for item in items:
        free = convert_item(item)
        if free.excluded_reason:
            left_out[free.excluded_reason] = left_out.get(free.excluded_reason, 0) + 1
        else:
            rows.append(_row(item, free, prompt_of(free, how)[0]))
    return FreeRows(tuple(rows), len(items), left_out)


def _row(item: Item, free: FreeItem, prompt: str) -> dict[str, Any]:
    return {
        "id": item.id,
        "prompt": prompt,
        "question": free.question,
        "kind": free.kind,
        "reference": free.reference,
        "choices": list(item.choices),
        "key": item.key,
        "topic": item.topic,
    }
