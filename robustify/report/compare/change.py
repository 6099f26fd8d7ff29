"""Changes from one run to another in matched items and in each number, with a test if it is valid."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from robustify.base.arrays import Floats, Ints
from robustify.items.item import Item
from robustify.judging.accuracy import compare_pair
from robustify.judging.looks.estimate import looks_difference
from robustify.judging.measures import LOOKS, MEASURES
from robustify.judging.stats.intervals import NORMAL, clusters, effective_size, rate
from robustify.judging.stats.tests import LEVEL, detectable, independent_difference, newcombe
from robustify.judging.summary.quantity import Part, Quantity
from robustify.report.format import counted, plain
from robustify.report.printing import label
from robustify.runs.run import Run

Tree = dict[str, Any]
Split = Literal["all", "kept", "added"]
Models = tuple[str, str] | None
Sample = tuple[Floats, Ints | None]
"""Credits of items, and the independent group of each."""
WORSE_HIGH = ("flagged", "shortcuts", "shortcuts_at_least", "probe", "reader", "choices_only", "looks")
WORSE_LOW = ("full", "cloze_chars", "free")
"""Numbers that are worse if they are higher, because the set gives its keys away, or if they are lower."""
_PARTS = {"added": "new items against all before"}
"""Labels of the parts whose code is no label."""
FROM_CUT = ("flagged", "shortcuts_at_least")
"""Measures of the screen that depend on the cut of `criterion: fdr`, if there is one."""


class Change(Part):
    """Change of a measure (`number`) from the first run to the second. `difference` is `second` minus `first`.

    If `paired`, it is computed on matched items that both runs answered and tested by McNemar's test (by groups of items if
    there are any), `p` exact and `p_mid` the mid-p. Otherwise, it is computed from the intervals in the summaries (Newcombe
    1998, method 10), which is too wide if the items are the same. `p_holm` adjusts the mid-p over all numbers of all pairs.
    `left_out` counts the items scored on one side only, which are not compared: the test assumes that scores are missing at
    random. `same` means equal credit on every item, so that there is nothing to test. `one_cut` means that the verdicts of
    a run share one cut, so that no test of single items holds. `voter` marks a score on kept items that selection biases.
    In the part `added`, `first` is on all items of the first run, and `second` on the items that only the second contains.
    """

    number: str
    part: Split
    models: Models
    first: Quantity
    second: Quantity
    difference: Quantity
    error: float | None = Field(exclude=True)
    p: float | None
    p_mid: float | None
    paired: bool
    voter: bool = False
    left_out: int = 0
    same: bool = False
    one_cut: bool = False
    p_holm: float | None = None
    confidence: float = Field(default=1 - LEVEL, exclude=True)

    @property
    def changed(self) -> bool | None:
        """Whether the difference is significant, or None if there is no test."""
        ci, p = self.difference.ci, self.p_holm
        return None if ci is None or p is None else p <= LEVEL and not ci[0] <= 0 <= ci[1]

    @property
    def degraded(self) -> bool:
        """Whether the number got significantly worse. A voter's score on kept items is no evidence."""
        rise = self.difference.value or 0.0
        worse = rise > 0 if self.number in WORSE_HIGH else rise < 0 and self.number in WORSE_LOW
        return bool(self.changed) and worse and not self.voter

    @property
    def in_points(self) -> bool:
        """Whether the number itself is a difference of two shares."""
        return any(measure.name == self.number and measure.unit == "points" for measure in MEASURES)

    @property
    def mde(self) -> float | None:
        """Difference detectable with 80 % power at the level that Holm's method requires of the smallest p-value, if the
        difference is not significant."""
        if self.changed is not False or self.error is None:
            return None
        return detectable(self.error, self.confidence)

    @property
    def label(self) -> str:
        """Label of the number, with its models and items."""
        part = "both kept" if self.paired and self.part == "kept" else _PARTS.get(self.part, self.part)
        number = f"{label(self.number)}, {part}"
        if self.models is None:
            return number
        names = " / ".join(plain(name) for name in dict.fromkeys(self.models))
        return f"{names}, {number}{' *' if self.voter else ''}"

    @property
    def noise(self) -> str:
        """Result of the test in words, with the number of items left out."""
        return self._result + not_counting(self.left_out)

    @property
    def _result(self) -> str:
        if self.one_cut:
            return "not tested, because one cutoff decides all verdicts of a run"
        if self.changed is None:
            return "the same on every item" if self.same and self.first.n else "too few to tell"
        if self.changed:
            return "changed"
        outside = self.difference.ci is not None and not self.difference.ci[0] <= 0 <= self.difference.ci[1]
        return "within noise, because many numbers were tested" if outside else "within noise"

    def untested(self) -> "Change":
        """Return the change without an interval and a test, because the number depends on one cutoff."""
        difference = Quantity(value=self.difference.value, n=self.difference.n)
        return self.model_copy(update={"difference": difference, "p": None, "p_mid": None, "one_cut": True})

    def tree(self) -> Tree:
        """Return the change as JSON values."""
        return {**super().tree(), "mde": self.mde, "changed": self.changed, "degraded": self.degraded}


def not_counting(left_out: int) -> str:
    """Return the words for items that are left out because only one side has a score, or "" if there are none."""
    return f", not counting {counted(left_out, 'item')} scored on one side only" if left_out else ""


def paired_change(number: str, models: Models, x: Floats, y: Floats, groups: Ints | None) -> Change:
    """Return the change of a number on items that both runs answered. Credits `x`, `y` are NaN if unanswered (n_items,)."""
    answered = ~np.isnan(x + y)
    tested, estimate = compare_pair(y, x, groups)
    same = np.array_equal(x[answered], y[answered])
    # Nothing is estimated if all credits are equal.
    difference = Quantity(value=estimate.value, n=estimate.n) if same else Quantity.from_rate(estimate)
    means = (float(v[answered].mean()) if estimate.n else None for v in (x, y))
    first, second = (Quantity(value=mean, n=estimate.n) for mean in means)
    return Change(
        number=number, part="all", models=models, first=first, second=second, difference=difference,
        error=estimate.error, p=None if same else tested.p, p_mid=None if same else tested.p_mid, paired=True, same=same,
        left_out=int(np.count_nonzero(np.isnan(x) != np.isnan(y))),
    )  # fmt: skip


def looks_change(models: Models, x: Floats, y: Floats, groups: Ints | None) -> Change:
    """Return the difference of points by looks, second model minus first. Values by item are NaN if unknown (n_items,)."""
    estimate = looks_difference(y, x, groups)
    answered = ~np.isnan(x + y)
    first, second = (
        Quantity(value=float(v[answered].mean()) if estimate.n else None, n=estimate.n) for v in (x, y)
    )
    p = 2 * NORMAL.cdf(-abs(estimate.value or 0.0) / estimate.error) if estimate.error else None
    return Change(
        number=LOOKS.name, part="all", models=models, first=first, second=second, difference=Quantity.from_rate(estimate),
        error=estimate.error, p=p, p_mid=p, paired=True, same=np.array_equal(x[answered], y[answered]),
        left_out=int(np.count_nonzero(np.isnan(x) != np.isnan(y))),
    )  # fmt: skip


def unpaired_change(
    number: str, models: Models, part: Split, q: Quantity | None, r: Quantity | None
) -> Change | None:
    """Return the change of a number from one summary to another, or None if either summary lacks the number."""
    if q is None or r is None or q.value is None or r.value is None or q.n is None or r.n is None:
        return None
    value, ci, error, p = r.value - q.value, None, None, None
    if q.ci is not None and r.ci is not None:
        ci = newcombe(r.value, r.ci, q.value, q.ci)
        error = (ci[1] - ci[0]) / 2 / NORMAL.inv_cdf(0.975)
        p = 2 * NORMAL.cdf(-abs(value) / error) if error else None
    return Change(
        number=number, part=part, models=models, first=Quantity.from_rate(q), second=Quantity.from_rate(r),
        difference=Quantity(value=value, ci=ci), error=error, p=p, p_mid=p, paired=False,
    )  # fmt: skip


def added_change(number: str, x: Sample, y: Sample) -> Change | None:
    """Compare a statistic for the items that are only in the second run (`y`) with the same statistic for all items of the
    first run (`x`). Return None if there are too few new items."""
    (first, n), (second, m) = ((rate(*sample), _size(*sample)) for sample in (x, y))
    if first.value is None or second.value is None or not n or not m or m < FEWEST_ADDED:
        return None
    estimate = independent_difference(second.value * m, m, first.value * n, n)
    p = 2 * NORMAL.cdf(-abs(estimate.value or 0.0) / estimate.error) if estimate.error else None
    return Change(
        number=number, part="added", models=None, first=Quantity.from_rate(first), second=Quantity.from_rate(second),
        difference=Quantity(value=estimate.value, ci=estimate.ci), error=estimate.error, p=p, p_mid=p, paired=False,
    )  # fmt: skip


def _size(credits: Floats, groups: Ints | None) -> float | None:
    """Return the number of items, or the effective number if some items depend on each other."""
    n = len(credits)
    return float(n) if clusters(n, groups) == n else effective_size(credits, groups)


class DifferencesPlot(NamedTuple):
    """Labeled differences that have an interval, and the largest end of the axis."""

    rows: tuple[tuple[str, Quantity], ...]
    reach: float


def differences_plot(rows: Iterable[tuple[str, Quantity]]) -> DifferencesPlot:
    """Return the content of the plot of differences, in the order of `rows`."""
    shown = tuple((label, difference) for label, difference in rows if difference.ci is not None)
    ends = [abs(end) for _, difference in shown for end in difference.ci or ()]
    return DifferencesPlot(shown, max([0.05, *ends]))


FEWEST_ADDED = 5
"""Smallest number of new items to test. If two are added, both are hits by chance in one of 16 cases."""
FEWEST_ALIKE = 0.1
"""Smallest share of equal IDs with the same stem or choices for which IDs count."""


@dataclass(frozen=True, slots=True)
class SameItem:
    """Item that two runs share: IDs in the `first` and the `second` run, and verdicts before (`was`) and after (`now`).

    `edited` names the parts that changed: the question, the options in any order, or which option is the key.
    """

    first: str
    second: str
    was: str
    now: str
    edited: tuple[str, ...] = ()

    @property
    def moved(self) -> bool:
        """Whether the item's verdict changed."""
        return self.was != self.now


def same_items(first: Run, second: Run) -> tuple[SameItem, ...]:
    """Match the items of two runs, in the order of the first run: by ID, then by stem, then by choices.

    Many files number their items 1, 2, 3, so IDs count only if texts also agree. Without texts, items match only if
    both runs read the same file.
    """
    was, now = first.verdicts, second.verdicts
    if first.manifest["data"].get("sha256") == second.manifest["data"].get("sha256"):
        return tuple(SameItem(name, name, was[name], now[name]) for name in was if name in now)
    first_items, second_items = ({item.id: item for item in run.items or ()} for run in (first, second))
    matches = {name: name for name in first_items if name in second_items}
    alike = sum(
        first_items[n].stem == second_items[n].stem or first_items[n].choices == second_items[n].choices
        for n in matches
    )
    if alike < FEWEST_ALIKE * len(matches):
        matches = {}
    keys: tuple[Callable[[Item], Hashable], ...] = (
        lambda item: (item.stem, item.choices), lambda item: item.stem, lambda item: item.choices,
    )  # fmt: skip
    for key in keys:
        # Items with equal values are matched in order.
        candidates, taken = defaultdict[Hashable, list[str]](list), set(matches.values())
        for item in second_items.values():
            if item.id not in taken:
                candidates[key(item)].append(item.id)
        unmatched = [item for item in first_items.values() if item.id not in matches]
        matches |= {item.id: candidates[key(item)].pop(0) for item in unmatched if candidates[key(item)]}
    both = ((item, second_items[matches[name]]) for name, item in first_items.items() if name in matches)
    return tuple(SameItem(a.id, b.id, was[a.id], now[b.id], _edits(a, b)) for a, b in both)


def _edits(a: Item, b: Item) -> tuple[str, ...]:
    """Return the parts in which two versions of an item differ. If the text of the key was edited, only options differ."""
    key = a.choices[a.key]
    parts = {
        "question": a.stem != b.stem,
        "options": sorted(a.choices) != sorted(b.choices),
        "key": key != b.choices[b.key] and key in b.choices,
    }
    return tuple(part for part, differs in parts.items() if differs)
