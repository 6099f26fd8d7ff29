"""The numbers of two runs beside one another: their differences, with intervals, and whether these are noise.

On the items that both runs have a difference is paired; elsewhere it rests on what the two summaries show and on no more.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from robustify.arrays import Bools, Floats, Ints
from robustify.judge.accuracy import Credits, compare_pair, credits
from robustify.report.format import plain
from robustify.run import Run
from robustify.screen.item_index import item_index
from robustify.stats.tests import LEVEL, detectable
from robustify.summary.quantity import Quantity
from robustify.summary.result import Residual, Summary
from robustify.summary.scored import Accuracy
from robustify.summary.screened import Screen

Part = Literal["all", "robust"]
PARTS: tuple[Part, ...] = ("all", "robust")
VIEWS = {"full": "full", "choices_only": "choices only", "cloze_chars": "cloze", "free": "free"}
NUMBERS = {"removed": "removed", "latent": "latent shortcuts", "probe": "probe on what is left"}
"""The numbers of a run that are no model's, by code."""
FINE, COARSE = 0.01, 0.05
"""Steps in which a released number is rounded."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Change:
    """One number in two runs. `runs`: their places from 0; `number`: a code of `NUMBERS` or a view of `models`, one a run.

    `difference`: `second` less `first`, in shares of items. `paired`: on the items that both answered, by exact McNemar
    (clustered where items have groups); else from the intervals that the summaries show (Newcombe 1998, method 10), which
    is too wide where the items are the same, and p is its normal limit. `p_holm`: over all numbers of all pairs of runs.
    `same`: one credit on every item, as where the same answers are judged by two rules; this is no test.
    `voter`: a voter on Robust, which is biased by selection. `mde`: beside a null result what 80 % power would detect.
    """

    runs: tuple[int, int]
    number: str
    part: Part
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
        """Whether the difference is more than noise; None where nothing can be said."""
        ci, p = self.difference.ci, self.p_holm
        return None if ci is None or p is None else p <= LEVEL and not ci[0] <= 0 <= ci[1]

    @property
    def mde(self) -> float | None:
        """Beside a null result the difference that would be seen with 80 % power."""
        return detectable(self.error) if self.changed is False and self.error is not None else None

    @property
    def label(self) -> str:
        """What is compared, in words."""
        if self.models is None:
            return NUMBERS[self.number]
        names = " / ".join(plain(name) for name in dict.fromkeys(self.models))
        part = "robust in both" if self.paired and self.part == "robust" else self.part
        return f"{names}, {VIEWS[self.number]}, {part}{' *' if self.voter else ''}"

    def row(self) -> dict[str, Any]:
        """The change as one flat object, as in JSON and CSV."""
        low, high = self.difference.ci or (None, None)
        one, two = self.models or (None, None)
        return {
            "first": self.runs[0], "second": self.runs[1], "number": self.number, "part": self.part,
            "model_first": one, "model_second": two, "value_first": self.first.value, "value_second": self.second.value,
            "difference": self.difference.value, "low": low, "high": high,
            "n_first": self.first.n, "n_second": self.second.n, "paired": self.paired,
            "p": self.p, "p_holm": self.p_holm, "mde": self.mde, "voter": self.voter,
            "same": self.same, "changed": self.changed,
        }  # fmt: skip


@dataclass(frozen=True)
class Side:
    """One run of a pair: `common` items in the order of `verdicts`, (n,), none where items are not compared."""

    run: Run
    summary: Summary
    common: tuple[str, ...]
    verdicts: Sequence[str]

    @cached_property
    def models(self) -> Mapping[str, Accuracy]:
        """What each model scored."""
        return self.summary.accuracy or {}

    @cached_property
    def removed(self) -> Floats:
        """1 for a removed item, 0 for a kept one, NaN for one that is undecided, (n,)."""
        return np.array([{"shortcut": 1.0, "robust": 0.0}.get(v, np.nan) for v in self.verdicts])

    @cached_property
    def groups(self) -> Ints | None:
        """The number of each item's group, (n,); None where no item has one."""
        group = {item.id: item.group for item in self.run.items or ()}
        if not any(group.get(i) for i in self.common):
            return None
        names = [f"group/{group[i]}" if group.get(i) else f"item/{i}" for i in self.common]
        return np.unique(names, return_inverse=True)[1]

    @cached_property
    def cloze(self) -> Bools:
        """The items that are fit for cloze, (n,)."""
        fit = {row["item"] for row in self.run.verdict_rows() if not row.get("cloze_excluded")}
        return np.array([item in fit for item in self.common], dtype=bool)

    def credits(self, model: str) -> Credits:
        """The model's credits by view, (n,) each, as its run's summary counts them."""
        screen, answers = self.summary.screen or Screen(), self.run.answers
        template = None if screen.mode == "text" else screen.template
        mode: Literal["letter", "text"] = "text" if self.summary.full_mode == "text" else "letter"
        found = credits(answers, item_index(answers, self.common), model, template, mode=mode)
        cloze = found["cloze_chars"]
        return {**found, "cloze_chars": None if cloze is None else np.where(self.cloze, cloze, np.nan)}

    def step(self) -> float:
        """Half the step in which a released number is rounded; 0 of what is exact."""
        release = self.summary.release
        return 0.0 if release is None else (COARSE if release.coarser else FINE) / 2


def changes(places: tuple[int, int], one: Side, two: Side) -> Iterator[Change]:
    """Every number that both runs have; `places` of the runs from 0, `p_holm` not yet given."""
    by_item = bool(one.common) and all("answers.parquet" in side.run.manifest["files"] for side in (one, two))
    if one.common:
        yield _paired(places, "removed", "all", None, one.removed, two.removed, one.groups)
    else:
        yield from _apart(places, "removed", "all", None, one, two)
    for number in ("latent", "probe"):
        yield from _apart(places, number, "all", None, one, two)
    robust = (one.removed == 0) & (two.removed == 0)
    for models in _same_models(list(one.models), list(two.models)):
        a, b = one.models[models[0]], two.models[models[1]]
        won = [one.credits(models[0]), two.credits(models[1])] if by_item else []
        for view in VIEWS:
            x, y = (won[0].get(view), won[1].get(view)) if won else (None, None)
            if x is None or y is None:
                found = [c for part in PARTS for c in _apart(places, view, part, models, one, two)]
            else:
                found = [_paired(places, view, "all", models, x, y, one.groups)]
                if found[0].same:
                    # What differs is which items each run kept.
                    found += _apart(places, view, "robust", models, one, two)
                else:
                    x, y = np.where(robust, x, np.nan), np.where(robust, y, np.nan)
                    found.append(_paired(places, view, "robust", models, x, y, one.groups))
            voter = bool(a.is_voter or b.is_voter)
            yield from (replace(c, voter=voter and c.part == "robust") for c in found)


def _same_models(one: Sequence[str], two: Sequence[str]) -> list[tuple[str, str]]:
    """Models of one name; and where each run has one more, these two: a base and its fine-tuned form."""
    left, right = [m for m in one if m not in two], [m for m in two if m not in one]
    return [(m, m) for m in one if m in two] + ([(left[0], right[0])] if len(left) == len(right) == 1 else [])


def _paired(
    places: tuple[int, int], number: str, part: Part, models: tuple[str, str] | None, one: Floats, two: Floats,
    groups: Ints | None,
) -> Change:  # fmt: skip
    """A change on the same items, (n,) each, NaN where there is no answer: both values are on those that have two."""
    there = ~np.isnan(one) & ~np.isnan(two)
    found = compare_pair(two, one, groups)
    n, same = found.difference.n, bool(np.array_equal(one[there], two[there]))
    first, second = (Quantity(value=float(x[there].mean()) if n else None, n=n) for x in (one, two))
    return Change(
        places, number, part, models, first, second, Quantity.of(found.difference), found.difference.error,
        None if same else found.p, True, same=same,
    )  # fmt: skip


def _apart(
    places: tuple[int, int], number: str, part: Part, models: tuple[str, str] | None, one: Side, two: Side
) -> Iterator[Change]:
    """A change of what the two summaries show; nothing where one of them lacks it."""
    q, r = (shown(s.summary, number, part, m) for s, m in zip((one, two), models or ("", ""), strict=True))
    if q is None or r is None or q.value is None or r.value is None:
        return
    value, slack, ci, error, p = r.value - q.value, one.step() + two.step(), None, None, None
    if q.ci is not None and r.ci is not None:
        low = value - math.hypot(r.value - r.ci[0], q.ci[1] - q.value) - slack
        high = value + math.hypot(r.ci[1] - r.value, q.value - q.ci[0]) + slack
        ci, error = (max(-1.0, low), min(1.0, high)), (high - low) / 2 / _NORMAL.inv_cdf(0.975)
        p = 2 * _NORMAL.cdf(-abs(value) / error) if error else None
    yield Change(places, number, part, models, q, r, Quantity(value=value, ci=ci), error, p, False)


def shown(summary: Summary, number: str, part: Part, model: str) -> Quantity | None:
    """What a run's summary shows of a number, on all of its own items; None where it does not."""
    match number:
        case "removed":
            return (summary.screen or Screen()).flagged
        case "latent":
            return (summary.screen or Screen()).latent_shortcut_rate
        case "probe":
            return (summary.residual or Residual()).probe
    view = getattr((summary.accuracy or {})[model], number)
    found: Quantity | None = None if view is None else getattr(view, part)
    return found
