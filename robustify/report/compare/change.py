"""One number in two runs: its values, their difference, and whether that is more than noise."""

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
    """One number in two runs: `REMOVED`, a name of `NUMBERS`, or a view or `ADJUSTED` of `models`, one of each run.

    `difference` is `second` less `first`. A `paired` one is on the matched items that both answered, by exact McNemar (by
    groups of items if they have any). Any other is from the intervals in the summaries (Newcombe 1998, method 10), which
    is too wide if the items are the same. `p_holm` is over all numbers of all pairs of runs. `same`: every item has the
    same credit, which is not a test. `voter`: a voter on Robust, which is biased by selection.
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
        """Return whether the difference is more than noise; None if that cannot be said."""
        ci, p = self.difference["ci"], self.p_holm
        return None if ci is None or p is None else p <= LEVEL and not ci[0] <= 0 <= ci[1]

    @property
    def tested(self) -> Mapping[str, Any]:
        """Return the difference with its p and, beside a null result, the difference that 80 % power would detect."""
        mde = detectable(self.error) if self.changed is False and self.error is not None else None
        return {**self.difference, "p_holm": self.p_holm, "mde": mde}

    @property
    def label(self) -> str:
        """Return what is compared, in words."""
        if self.models is None:
            return self.number
        names = " / ".join(plain(name) for name in dict.fromkeys(self.models))
        if self.number == ADJUSTED:
            return f"{names}, full, adjusted"
        part = "both robust" if self.paired and self.part == "robust" else self.part
        return f"{names}, {VIEWS[self.number]}, {part}{' *' if self.voter else ''}"

    @property
    def words(self) -> Mapping[str, Any]:
        """Return the change as a row of a table."""
        noise = "changed" if self.changed else "within noise"
        if self.changed is None:
            noise = "the same on every item" if self.same and self.first["n"] else "too few to tell"
        how = "paired" if self.paired else "not paired"
        return {"first": self.first, "second": self.second, "tested": self.tested, "how": how, "noise": noise}

    def tree(self) -> dict[str, Any]:
        """Return the change as it is in JSON."""
        found = asdict(self)
        del found["error"]
        return {**found, "mde": self.tested["mde"], "changed": self.changed}
