"""Change of a number between two runs, with its test."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from robustify.report.format import plain
from robustify.report.messages import label
from robustify.stats.tests import LEVEL, detectable
from robustify.summary.quantity import Quantity

Split = Literal["all", "kept"]


@dataclass(frozen=True, slots=True)
class Change:
    """Change of a number from the first run to the second.

    `number` is the name of a measure. `models` has one model of each run. `difference` is
    `second` minus `first`. If `paired`, it is computed on matched items that both runs answered and tested by the exact
    McNemar test (by groups of items if there are any). Otherwise, it is computed from the intervals in the summaries
    (Newcombe 1998, method 10), which is too wide if the items are the same. `p_holm` is adjusted over all numbers of all
    pairs. `same` is true if every item has the same credit, so that there is nothing to test. `voter` marks a score of a
    voter on robust items, which selection biases.
    """

    number: str
    part: Split
    models: tuple[str, str] | None
    first: Quantity
    second: Quantity
    difference: Quantity
    error: float | None
    p: float | None
    paired: bool
    voter: bool = False
    same: bool = False
    p_holm: float | None = None

    @property
    def changed(self) -> bool | None:
        """Whether the difference is more than noise, or None if there is no test."""
        ci, p = self.difference.ci, self.p_holm
        return None if ci is None or p is None else p <= LEVEL and not ci[0] <= 0 <= ci[1]

    @property
    def mde(self) -> float | None:
        """Smallest detectable difference, if the difference is not significant."""
        return detectable(self.error) if self.changed is False and self.error is not None else None

    @property
    def label(self) -> str:
        """Label of the number, with its models and items."""
        part = "both kept" if self.paired and self.part == "kept" else self.part
        said = f"{label(self.number)}, {part}"
        if self.models is None:
            return said
        names = " / ".join(plain(name) for name in dict.fromkeys(self.models))
        return f"{names}, {said}{' *' if self.voter else ''}"

    @property
    def noise(self) -> str:
        """Whether the difference is more than noise, in words."""
        if self.changed is None:
            return "the same on every item" if self.same and self.first.n else "too few to tell"
        return "changed" if self.changed else "within noise"

    def tree(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        found = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "error"}
        shown = {
            name: value.tree() if isinstance(value, Quantity) else value for name, value in found.items()
        }
        return {**shown, "mde": self.mde, "changed": self.changed}
