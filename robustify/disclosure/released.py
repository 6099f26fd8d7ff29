"""The released page of a restricted run, which contains the only numbers that may be published.

If m of n items are flagged, the split is one of C(n, m). Numbers that reveal less than half of the log2 C(n, m) bits fit
so many splits that the right one cannot be computed. The page has n, the verdict, and as many numbers as this budget
allows, in a fixed order of importance. Every number is charged for all values that it could have. The number of flagged
items is charged too, because a published list of IDs reveals it. The choice of numbers depends only on counts and
reveals nothing.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from robustify.disclosure.rounding import (
    CELL,
    COARSE,
    FINE,
    Kind,
    bits,
    interval,
    log2_choose,
    one_digit_up,
    rounded,
)
from robustify.disclosure.topics import ReleasedTopics, topic_table
from robustify.summary.quantity import Quantity
from robustify.summary.result import Summary

SMALL = 500
"""Number of items below which shares are rounded to 5 percentage points instead of whole percents."""
MOST = 24
"""Maximum number of numbers on a page."""
BUDGET = 0.5
"""Share of the bits of a split that all its releases together may spend."""
_VERDICT_BITS = 2.0
_NAME = re.compile(r"[!-~]{1,80}")

Group = Literal["screen", "accuracy", "audit", "topics", "free", "cues"]
GROUPS: tuple[Group, ...] = get_args(Group)


class ReleasedNumber(BaseModel):
    """A released number. `value` is null if too few items, right answers or wrong answers are behind it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    group: Group
    kind: Kind
    value: float | None
    n: int | None
    ci: tuple[float, float] | None
    bits: float


class Released(BaseModel):
    """The released page of a restricted run.

    `step` is the rounding step of shares, and `withheld` names the numbers that exceed the budget. `owed` is charged for
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
    verdict: str
    trial: bool
    failed: tuple[str, ...]
    halting: tuple[str, ...]
    step: float
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

    def only(self, groups: Sequence[str]) -> "Released":
        """Return the page to publish, with only the numbers of the given groups, or of all groups by default."""
        wanted = groups or GROUPS
        return self.model_copy(
            update={
                "release_level": "published",
                "numbers": tuple(number for number in self.numbers if number.group in wanted),
                "topics": self.topics if "topics" in wanted else None,
                "failed": (),
                "halting": (),
            }
        )


def released(summary: Summary, min_cell: int = CELL) -> Released:
    """Return the released page of a summary. `min_cell` comes from the manifest and applies if it is larger than `CELL`."""
    page = _Page.of(summary, max(CELL, min_cell))
    owed = _VERDICT_BITS + math.log2(page.n + 1) if page.screened else 0.0
    available = BUDGET * log2_choose(page.n, page.flagged) if page.screened else math.inf
    shown: list[ReleasedNumber | ReleasedTopics] = []
    withheld: list[str] = []
    spent = owed
    for one in page.numbers(summary):
        if page.enough and len(shown) < MOST and spent + one.bits <= available:
            shown.append(one)
            spent += one.bits
        else:
            withheld.append(one.name)
    failed = [guardrail for guardrail in summary.guardrails if guardrail.passed is False]
    return Released(
        name=str((summary.benchmark and summary.benchmark.name) or "unnamed"),
        n=page.n,
        verdict=str((summary.certificate and summary.certificate.verdict) or "not judged"),
        trial=summary.trial,
        failed=tuple(str(guardrail.name) for guardrail in failed),
        halting=tuple(str(guardrail.name) for guardrail in failed if guardrail.halts_export),
        step=page.step,
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

    @classmethod
    def of(cls, summary: Summary, k: int) -> "_Page":
        splits, screened = summary.splits, summary.screen is not None
        if splits is None:
            return cls((summary.benchmark and summary.benchmark.n_items) or 0, 0, 0, screened, k)
        return cls(splits.all or 0, splits.robust or 0, splits.shortcut or 0, screened, k)

    @property
    def enough(self) -> bool:
        return (min(self.kept, self.flagged) if self.screened else self.n) >= self.k

    @property
    def step(self) -> float:
        return COARSE if self.n < SMALL else FINE

    def numbers(self, summary: Summary) -> Iterator[ReleasedNumber | ReleasedTopics]:
        """Yield all numbers that may be shown, the most important first."""
        screen, residual, cues = summary.screen, summary.residual, summary.heuristics
        scores = [(_name(name, i), one) for i, (name, one) in enumerate((summary.accuracy or {}).items(), 1)]
        if screen is not None:
            # The number of flagged items is already charged.
            flagged = self._share("flagged", "screen", self.flagged / self.n if self.n else None, self.n)
            yield flagged.model_copy(update={"bits": 0.0})
            expected, excess = screen.expected_flags, screen.excess_over_chance
            count = None if expected is None else expected.value
            by_chance = count / screen.flagged.n if count is not None and screen.flagged.n else None
            yield self._share("flagged if keys were random", "screen", by_chance)
            yield self._p("p of the excess", None if excess is None else excess.p)
        for model, one in scores:
            if one.full is not None:
                yield from self._rates(f"{model}: full question", "accuracy", one.full.all, one.full.robust)
        if residual is not None and residual.probe is not None:
            yield self._rate("probe without questions, items kept", "audit", residual.probe, self.kept)
            yield self._share("the same by chance", "audit", residual.probe.chance)
        if summary.topics is not None and screen is not None:
            yield topic_table(summary.topics.by_topic or {}, self.k, self.step)
        if screen is not None:
            least = "items with a shortcut, at least" if screen.cut else "items with a shortcut"
            yield self._rate(least, "screen", screen.latent_shortcut_rate, self.n)
        for model, one in scores:
            blind = one.choices_only or one.choices_only_text
            if blind is not None:
                yield self._rate(f"{model}: choices only, all items", "accuracy", blind.all, self.n)
        for model, one in scores:
            if one.cloze_chars is not None:
                yield from self._rates(
                    f"{model}: cloze", "accuracy", one.cloze_chars.all, one.cloze_chars.robust
                )
            if one.free is not None:
                yield from self._rates(f"{model}: free response", "free", one.free.all, one.free.robust)
        for cue in ("longest_answer", "most_common_position") if cues is not None else ():
            on_all, on_kept = ((part or {}).get(cue) for part in (cues and cues.all, cues and cues.robust))
            yield from self._rates(f"rule: {cue.replace('_', ' ')}", "cues", on_all, on_kept)

    def _rates(
        self, name: str, group: Group, on_all: Quantity | None, on_kept: Quantity | None
    ) -> Iterator[ReleasedNumber]:
        """Yield a rate on all items and on the kept items. Sizes are rounded down if not all items have the view."""
        answered = (on_all and on_all.n) or 0
        size = self.n if answered == self.n else answered // self.k * self.k
        yield self._rate(f"{name}, all items", group, on_all, size)
        if self.screened:
            kept = size * self.kept // self.n if self.n else 0
            yield self._rate(f"{name}, items kept", group, on_kept, kept)

    def _rate(self, name: str, group: Group, found: Quantity | None, size: int) -> ReleasedNumber:
        value, n = (None, None) if found is None else (found.value, found.n)
        large = value is not None and n is not None and min(n, size) >= self.k
        if value is None or n is None or not large or min(value * n, n - value * n) < self.k:
            return self._share(name, group, None)
        return self._share(name, group, value, size)

    def _share(self, name: str, group: Group, share: float | None, n: int | None = None) -> ReleasedNumber:
        value = None if share is None else rounded(min(1.0, max(0.0, share)), self.step)
        ci = None if value is None or not n else interval(value, n)
        price = bits("share", self.step) if self.screened else 0.0
        return ReleasedNumber(
            name=name, group=group, kind="share", value=value, n=n, ci=ci, bits=round(price, 2)
        )

    def _p(self, name: str, p: float | None) -> ReleasedNumber:
        value = None if p is None else one_digit_up(p)
        price = round(bits("p", self.step), 2)
        return ReleasedNumber(name=name, group="screen", kind="p", value=value, n=None, ci=None, bits=price)


def _name(model: str, number: int) -> str:
    # A name that is not a single printable word might be text.
    return model if _NAME.fullmatch(model) else f"model {number}"
