"""Change of a number between two runs, with its test."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from robustify.report.format import plain
from robustify.stats.tests import LEVEL, detectable

Part = Literal["all", "robust"]
VIEWS = {"full": "full", "choices_only": "choices only", "cloze_chars": "cloze", "free": "free"}
ADJUSTED, REMOVED = "adjusted", "removed, of all items"


@dataclass(frozen=True, slots=True)
class Change:
    """Change of a number from the first run to the second.

    `number` is `REMOVED`, a name in `NUMBERS`, `ADJUSTED`, or a view. `models` has one model of each run. `difference` is
    `second` minus `first`. If `paired`, it is computed on matched items that both runs answered and tested by the exact
    McNemar test (by groups of items if there are any). Otherwise, it is computed from the intervals in the summaries
    (Newcombe 1998, method 10), which is too wide if the items are the same. `p_holm` is adjusted over all numbers of all
    pairs. `same` is true if every item has the same credit, so that there is nothing to test. `voter` marks a score of a
    voter on robust items, which selection biases.
    """

    number: str
    part: Part
    models: tuple[str, str] | None
    first: Mapping[str, Any]
    second: Mapping[str, Any]
    difference: Mapping[str, Any]
    error: float | None
    p: float | None
    paired: bool
    voter: bool = False
    same: bool = False
    p_holm: float | None = None

    @property
    def changed(self) -> bool | None:
        """Whether the difference is more than noise, or None if there is no test."""
        ci, p = self.difference["ci"], self.p_holm
        return None if ci is None or p is None else p <= LEVEL and not ci[0] <= 0 <= ci[1]

    @property
    def tested(self) -> Mapping[str, Any]:
        """Difference with its p-value and, if it is not significant, the smallest detectable difference."""
        mde = detectable(self.error) if self.changed is False and self.error is not None else None
        return {**self.difference, "p_holm": self.p_holm, "mde": mde}

    @property
    def label(self) -> str:
        """Label of the number, with its models and items."""
        if self.models is None:
            return self.number
        names = " / ".join(plain(name) for name in dict.fromkeys(self.models))
        if self.number == ADJUSTED:
            return f"{names}, full, adjusted"
        part = "both robust" if self.paired and self.part == "robust" else self.part
        return f"{names}, {VIEWS[self.number]}, {part}{' *' if self.voter else ''}"

    @property
    def words(self) -> Mapping[str, Any]:
        """Row of the comparison table."""
        noise = "changed" if self.changed else "within noise"
        if self.changed is None:
            noise = "the same on every item" if self.same and self.first["n"] else "too few to tell"
        how = "paired" if self.paired else "not paired"
        return {"first": self.first, "second": self.second, "tested": self.tested, "how": how, "noise": noise}

    def tree(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        found = asdict(self)
        del found["error"]
        return {**found, "mde": self.tested["mde"], "changed": self.changed}
