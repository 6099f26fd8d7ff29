"""The released page of a restricted run, which contains the only numbers that may be published.

If m of n items are flagged, the split is one of C(n, m). Numbers that reveal less than half of the log2 C(n, m) bits fit
so many splits that the right one cannot be computed. The page has as many numbers as this budget allows, in a fixed
order, which depends only on counts. Every number is charged for all values that it could have, and so is the number of
flagged items, because a published list of IDs reveals it.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from robustify.judging.measures import MEASURES, TOPICS_RANK, Disclosed, Group, Measure
from robustify.judging.summary.quantity import Measured, Score
from robustify.judging.summary.result import State, Summary
from robustify.restricted.disclosure import rounding
from robustify.restricted.disclosure.rounding import (
    CELL,
    COARSE,
    FINE,
    Kind,
    log2_choose,
    one_digit_up,
    rounded,
)
from robustify.restricted.disclosure.topics import ReleasedTopics, topic_table

SMALL = 500
"""Number of items below which shares are rounded to 5 percentage points instead of whole percents."""
MOST = 24
"""Maximum number of numbers on a page."""
BUDGET = 0.5
"""Share of the bits of a split that all its releases together may spend."""
_VERDICT_BITS = 2.0
_NAME = re.compile(r"[!-~]{1,80}")

Label = Callable[[str], str]
_GROUPS: tuple[Group, ...] = get_args(Group)


class ReleasedNumber(BaseModel):
    """A released number. `value` is null if the number is not shown, for the `reason`, which is otherwise empty."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    group: Group
    kind: Kind
    value: float | None
    n: int | None
    ci: tuple[float, float] | None
    reason: str
    bits: float


class Released(BaseModel):
    """The released page of a restricted run.

    `step` is the rounding step of shares, `cell` the minimum count behind a number, and `withheld` names the numbers that
    exceed the budget, or all if too few items are flagged or kept. `owed` is charged for
    every release. `available` is null if nothing was screened, or if too few items are flagged or kept to show any
    number. `failed` names the failed guardrails and `halting` those that stop exports. Both are removed before
    publication. The gate refuses a page with the `release_level` of the evaluator, because such a page is not in the
    record.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["robustify.released/1"] = "robustify.released/1"
    release_level: Literal["evaluator", "published"] = "evaluator"
    name: str
    n: int
    state: State
    trial: bool
    failed: tuple[str, ...]
    halting: tuple[str, ...]
    step: float
    cell: int
    numbers: tuple[ReleasedNumber, ...]
    topics: ReleasedTopics | None
    withheld: tuple[str, ...]
    owed: float
    available: float | None
    signature: str

    @property
    def bits(self) -> float:
        """Number of bits that the numbers and topics on this page may reveal."""
        table = 0.0 if self.topics is None else self.topics.bits
        return round(table + sum(number.bits for number in self.numbers), 2)

    @property
    def spent(self) -> float:
        """Number of bits on this page, including the bits owed once for all releases of a split."""
        return self.bits + self.owed

    def parts(self) -> list[tuple[object, float]]:
        """Return each number and the topic table as JSON, with its bits."""
        every: list[ReleasedNumber | ReleasedTopics] = [*self.numbers]
        every += [] if self.topics is None else [self.topics]
        return [(one.model_dump(mode="json", exclude={"bits"}), one.bits) for one in every]

    def only(self, groups: Sequence[str]) -> "Released":
        """Return the page to publish, with only the numbers of the given groups, or of all groups by default."""
        wanted = groups or _GROUPS
        return self.model_copy(
            update={
                "release_level": "published",
                "numbers": tuple(number for number in self.numbers if number.group in wanted),
                "topics": self.topics if "topics" in wanted else None,
                "failed": (),
                "halting": (),
            }
        )


def released(summary: Summary, label: Label, min_cell: int = CELL) -> Released:
    """Return the released page of a summary, with the label of each measure by its name.

    `min_cell` comes from the manifest and applies if it is larger than `CELL`.
    """
    splits, k = summary.splits, max(CELL, min_cell)
    page = _Page(splits.all, splits.kept, splits.flagged, summary.screen is not None, k)
    owed = _VERDICT_BITS + math.log2(page.n + 1) if page.screened else 0.0
    available = BUDGET * log2_choose(page.n, page.flagged) if page.screened else math.inf
    shown: list[ReleasedNumber | ReleasedTopics] = []
    withheld: list[str] = []
    spent = owed
    for one in page.numbers(summary, label):
        if page.enough and len(shown) < MOST and spent + one.bits <= available:
            shown.append(one)
            spent += one.bits
        else:
            withheld.append(one.name)
    failed = [guardrail for guardrail in summary.guardrails if guardrail.state == "failed"]
    return Released(
        name=summary.benchmark.name or "unnamed",
        n=page.n,
        state=summary.state,
        trial=summary.trial,
        failed=tuple(guardrail.name for guardrail in failed),
        halting=tuple(guardrail.name for guardrail in failed if guardrail.halts_export),
        step=page.step,
        cell=k,
        numbers=tuple(one for one in shown if isinstance(one, ReleasedNumber)),
        topics=next((one for one in shown if isinstance(one, ReleasedTopics)), None),
        withheld=tuple(withheld),
        owed=round(owed, 2),
        available=round(available, 2) if page.screened and page.enough else None,
        signature=summary.signature or "",
    )


@dataclass(frozen=True, slots=True)
class _Page:
    """Counts of a split, and the rounding and charging of its numbers."""

    n: int
    kept: int
    flagged: int
    screened: bool
    k: int

    @property
    def enough(self) -> bool:
        return (min(self.kept, self.flagged) if self.screened else self.n) >= self.k

    @property
    def step(self) -> float:
        return COARSE if self.n < SMALL else FINE

    def numbers(self, summary: Summary, label: Label) -> list[ReleasedNumber | ReleasedTopics]:
        """Return all numbers that may be shown, the most important first."""
        place = {name: i for i, name in enumerate(summary.models, 1)}
        found: list[tuple[tuple[int, int], ReleasedNumber | ReleasedTopics]] = []
        for measure in MEASURES:
            disclosed = measure.disclosure
            if disclosed is None:
                continue
            for subject, parts in measure.of(summary).items():
                if subject and disclosed.rules and subject not in disclosed.rules:
                    continue
                i, name = 0, label(measure.name)
                if measure.scope == "model":
                    i = place[subject]
                    # A name that is not a single printable word might be text.
                    name = f"{subject if _NAME.fullmatch(subject) else f'model {i}'}: {name}"
                elif measure.scope == "rule":
                    name = f"{name}: {subject.replace('_', ' ')}"
                numbers = self._of(measure, disclosed, name, parts)
                found += (((disclosed.rank, i), number) for number in numbers)
        if summary.topics is not None and self.screened:
            found.append(((TOPICS_RANK, 0), topic_table(summary.topics.by_topic, self.k, self.step)))
        return [number for _, number in sorted(found, key=lambda one: one[0])]

    def _of(
        self, measure: Measure, disclosed: Disclosed, name: str, parts: Measured
    ) -> Iterator[ReleasedNumber]:
        """Yield a measure on its parts. Sizes are rounded down if a model or rule did not answer all items."""
        answered = (parts.all and parts.all.n) or 0
        whole = measure.scope == "set" or answered == self.n
        size = self.n if whole else answered // self.k * self.k
        kept = size * self.kept // self.n if self.n else 0
        found = {
            "all": (parts.all, name if measure.scope == "set" else f"{name}, all items", size),
            "kept": (parts.kept, f"{name}, items kept", kept),
        }
        for part in disclosed.parts:
            if part == "all" or measure.scope == "set" or self.screened:
                yield self._number("p" if measure.unit == "p" else "share", disclosed, *found[part])

    def _number(
        self, kind: Kind, disclosed: Disclosed, score: Score | None, name: str, size: int
    ) -> ReleasedNumber:
        value, n = (None, None) if score is None else (score.value, score.n)
        reason = ""
        if value is None:
            reason, n = (score and score.withheld) or "not measured", None
        elif kind == "p":
            value = one_digit_up(value)
        elif n is not None and min(n, size, value * n, n - value * n) < self.k:
            reason, value, n = f"fewer than {self.k} items, right answers or wrong answers", None, None
        else:
            value = rounded(min(1.0, max(0.0, value)), self.step)
        shown = None if n is None else size
        ci = None if value is None or not shown else rounding.rounded_interval(value, shown)
        price = round(rounding.bits(kind, self.step), 2) if self.screened and disclosed.charged else 0.0
        return ReleasedNumber(
            name=name,
            group=disclosed.group,
            kind=kind,
            value=value,
            n=shown,
            ci=ci,
            reason=reason,
            bits=price,
        )
