"""The released page of a restricted run, which contains the only numbers that may be published.

If m of n items are flagged, the split is one of C(n, m). Numbers that reveal less than half of the log2 C(n, m) bits fit
so many splits that the right one cannot be computed. The page has as many numbers as this budget allows, in a fixed
order, which depends only on counts. Every number is charged for all values that it could have, and so is the number of
flagged items, because a published list of IDs reveals it.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from robustify.judging.measures import MEASURES, TOPICS_RANK, PartName, ReleaseGroup
from robustify.judging.stats.intervals import wilson
from robustify.judging.summary.model_parts import Looks
from robustify.judging.summary.quantity import Measured, Score
from robustify.judging.summary.result import State, Summary
from robustify.judging.summary.screen_parts import TopicRow
from robustify.restricted.disclosure.item_words import ItemWords
from robustify.restricted.disclosure.released_number import Kind, Numbering, ReleasedNumber

FINE, COARSE = 0.01, 0.05
CELL = 10
"""Minimum number of items, right answers, wrong answers or flags behind a released number or topic."""
P_VALUES = 28
"""Number of values of a rounded p-value: 0.001 to 0.009, 0.01 to 0.09, and 0.1 to 1."""

STATE_BITS = 2.0
"""Bits of a state: claimed, not claimed, cannot tell, or not measured."""


def rounded(x: float, step: float) -> float:
    """Return the nearest multiple of `step`. Zero is never negative."""
    return round(round(x / step) * step, 6) + 0.0


def one_digit_up(p: float) -> float:
    """Round a p-value upwards to one digit, so that it never looks more significant. The minimum is 0.001."""
    if p <= 0.001:
        return 0.001
    unit = 10.0 ** math.floor(math.log10(p) + 1e-12)
    return min(1.0, round(math.ceil(p / unit - 1e-9) * unit, 6))


def rounded_interval(share: float, n: int) -> tuple[float, float]:
    """Return the rounded Wilson interval of a share of `n`. It reveals nothing beyond these two arguments."""
    low, high = wilson(share * n, n)
    return rounded(low, FINE), rounded(high, FINE)


def bits(kind: Kind, step: float) -> float:
    """Return the number of bits that a released number may reveal: log2 of the number of its possible values. A
    p-value may also be unmeasured, and a share may be unmeasured or based on too few items."""
    if kind == "state":
        return STATE_BITS
    return math.log2(P_VALUES + 1 if kind == "p" else round(1 / step) + 3)


def log2_choose(n: int, m: int) -> float:
    """Return log2 of the binomial coefficient C(n, m)."""
    return (math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)) / math.log(2)


class ReleasedTopic(BaseModel):
    """A topic or several merged topics, with the number of items and the share that the filter kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    n: int
    kept: float
    ci: tuple[float, float]


class ReleasedTopics(BaseModel):
    """Topic table of a released page. `merged` is the number of topics that were merged."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: tuple[ReleasedTopic, ...]
    merged: int
    bits: float

    @property
    def name(self) -> str:
        """Name of the table among the released numbers."""
        return "topic table"

    @property
    def group(self) -> ReleaseGroup:
        """Group that the table belongs to."""
        return "topics"

    @property
    def code(self) -> Sequence[str]:
        """Code of the table, which does not depend on its values."""
        return ["code", self.name]

    @property
    def identities(self) -> tuple[object, ...]:
        """Identities of the table in the record of releases."""
        return (self.model_dump(mode="json", exclude={"bits"}),)


@dataclass(frozen=True, slots=True)
class TopicBlock:
    """A topic or several merged topics, with the number of items before and after the filter."""

    name: str
    before: int
    after: int
    topics: int = 1

    @property
    def least(self) -> int:
        """Number of kept items or of removed items, whichever is smaller."""
        return min(self.after, self.before - self.after)


def topic_table(topics: Mapping[str, TopicRow], k: int, step: float, words: ItemWords) -> ReleasedTopics:
    """Return the topic table. It has no rows if the topics are too small even when merged. Hiding a name changes no
    other part of the table."""
    every = [(name, f"topic {i}", row) for i, (name, row) in enumerate(sorted(topics.items()), start=1)]
    plain = [ItemWords().shown(name, number) for name, number, _ in every]
    named = {old: words.shown(name, number) for old, (name, number, _) in zip(plain, every, strict=True)}
    blocks = partition(
        [TopicBlock(old, row.before, row.after) for old, (*_, row) in zip(plain, every, strict=True)], k
    )
    shares = [rounded(block.after / block.before, step) for block in blocks]
    rows = [
        ReleasedTopic(
            name=named.get(block.name, block.name),
            n=block.before,
            kept=kept,
            ci=rounded_interval(kept, block.before),
        )
        for block, kept in zip(blocks, shares, strict=True)
    ]
    # Each topic is charged for its share and for whether it is shown separately.
    cost = len(topics) * (1 + bits("share", step))
    return ReleasedTopics(
        rows=tuple(rows), merged=sum(b.topics for b in blocks if b.topics > 1), bits=round(cost, 2)
    )


def partition(blocks: Sequence[TopicBlock], k: int) -> list[TopicBlock]:
    """Merge small topics into one block "Other" of two or more topics. Return an empty list if this block is too small."""
    kept = sorted((b for b in blocks if b.least >= k), key=lambda b: (-b.least, b.name))
    small = [b for b in blocks if b.least < k]
    while small and kept and (len(small) < 2 or _merged(small).least < k):
        small.append(kept.pop())
    if small and _merged(small).least < k:
        return []
    return [*sorted(kept, key=lambda b: b.name), *([_merged(small)] if small else [])]


def _merged(blocks: Sequence[TopicBlock]) -> TopicBlock:
    before, after = sum(b.before for b in blocks), sum(b.after for b in blocks)
    return TopicBlock(f"Other ({len(blocks)} topics)", before, after, len(blocks))


SMALL = 500
"""Number of items below which shares are rounded to 5 percentage points instead of whole percents."""
MOST = 24
"""Maximum number of numbers on a page."""
BUDGET = 0.5
"""Share of the bits of a split that all its releases together may spend."""
_VERDICT_BITS = 2.0

Label = Callable[[str], str]


class Released(BaseModel):
    """The released page of a restricted run.

    `step` is the rounding step of shares, `cell` the minimum count behind a number, `withheld` names the numbers that
    exceed the budget, or all if too few items are flagged or kept, and `owed` is charged for every release. `available`
    is null if nothing was screened, or no number can be shown. `models` has the engine of each model, and `releases` the
    number of releases under the key so far. `replaced` has what stands for names that contain words of items, `failed`
    names the failed guardrails, and `halting` those that stop exports. These three are removed before publication. The
    gate refuses a page with the `release_level` of the evaluator, because such a page is not in the record.
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
    replaced: tuple[str, ...] = ()
    models: Mapping[str, str] = Field(default_factory=dict)
    step: float
    cell: int
    numbers: tuple[ReleasedNumber, ...]
    topics: ReleasedTopics | None
    withheld: tuple[str, ...]
    owed: float
    available: float | None
    signature: str
    releases: int = 0

    @property
    def bits(self) -> float:
        """Number of bits that the numbers and topics on this page may reveal."""
        table = 0.0 if self.topics is None else self.topics.bits
        return round(table + sum(number.bits for number in self.numbers), 2)

    @property
    def spent(self) -> float:
        """Number of bits that this page costs, including the bits charged once for all releases of a split."""
        return self.bits + self.owed


class Candidates(BaseModel):
    """All numbers of a run that may be released, the most important first. A page shows those that fit the budget.

    `page` has no number yet. `enough` is false if too few items are flagged or kept to show any. `marks` has what the
    record of releases knows each number by: its digest, and those of earlier versions. `codes` has digests without values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["robustify.candidates/1"] = "robustify.candidates/1"
    release_level: Literal["evaluator"] = "evaluator"
    page: Released
    enough: bool
    numbers: tuple[ReleasedNumber | ReleasedTopics, ...]
    marks: tuple[tuple[str, ...], ...] = ()
    codes: tuple[str, ...] = ()

    def shown(
        self, groups: Sequence[str] = (), room: float | None = None, paid_for: Collection[str] = ()
    ) -> list[int]:
        """Return the positions of the numbers in `groups` (by default, all) that fit into `room` bits (by default,
        the budget). Numbers whose codes or marks are `paid_for` cost nothing. Only order and bits decide, because a
        choice by value would be information."""
        bits_left = (self.page.available or 0.0) - self.page.owed if room is None else room
        fitting = list[int]()
        for i in self._positions_in(groups) if self.enough else ():
            identities = {*self.marks[i], self.codes[i]} if paid_for else set()
            price = self.numbers[i].bits if identities.isdisjoint(paid_for) else 0.0
            if len(fitting) < MOST and price <= bits_left + 0.01:
                fitting.append(i)
                bits_left -= price
        return fitting

    def filled(self, groups: Sequence[str] = (), fit: Sequence[int] | None = None) -> Released:
        """Return the page with the numbers of these groups that fit the budget."""
        fit = self.shown(groups) if fit is None else fit
        numbers = [self.numbers[i] for i in fit]
        return self.page.model_copy(
            update={
                "numbers": tuple(number for number in numbers if isinstance(number, ReleasedNumber)),
                "topics": next((number for number in numbers if isinstance(number, ReleasedTopics)), None),
                "withheld": tuple(self.numbers[i].name for i in self._positions_in(groups) if i not in fit),
            }
        )

    def published(self, groups: Sequence[str] = (), fit: Sequence[int] | None = None) -> Released:
        """Return the page to publish, without the fields that are only for the evaluator."""
        update = {"release_level": "published", "failed": (), "halting": (), "replaced": ()}
        return self.filled(groups, fit).model_copy(update=update)

    def _positions_in(self, groups: Sequence[str]) -> list[int]:
        return [i for i, number in enumerate(self.numbers) if not groups or number.group in groups]


def candidates(summary: Summary, label: Label, words: ItemWords, min_cell: int = CELL) -> Candidates:
    """Return the numbers of a summary that may be released. `label` names measures, and `words` are those of the items.
    `min_cell` applies if larger than `CELL`."""
    splits, k = summary.splits, max(CELL, min_cell)
    page = _Page(splits.all, splits.kept, splits.flagged, summary.screen is not None, k)
    failed = tuple(guardrail.name for guardrail in summary.guardrails if guardrail.state == "failed")
    models = words.models(summary.models)
    topics = sorted(summary.topics.by_topic) if summary.topics is not None else ()
    shown = [words.shown(topic, f"topic {i}") for i, topic in enumerate(topics, 1)]
    name = summary.benchmark.name or "unnamed"
    blank = Released(
        name=words.shown(name, "unnamed"),
        n=page.n,
        state=summary.state,
        trial=summary.trial,
        failed=failed,
        # A trial is not exported either, because a split of few items tells more about each of them.
        halting=failed if summary.state == "failed" or summary.trial else (),
        replaced=tuple(new for old, new in (*models.items(), *zip(topics, shown, strict=True)) if new != old),
        models=dict.fromkeys(models.values(), ""),
        step=page.step,
        cell=k,
        numbers=(),
        topics=None,
        withheld=(),
        owed=round(_VERDICT_BITS + math.log2(page.n + 1), 2) if page.screened else 0.0,
        available=round(BUDGET * log2_choose(page.n, page.flagged), 2)
        if page.screened and page.enough
        else None,
        signature=summary.signature or "",
    )
    return Candidates(page=blank, enough=page.enough, numbers=tuple(page.numbers(summary, label, words)))


@dataclass(frozen=True, slots=True)
class _Page:
    """Counts of a split, and methods that round its numbers and compute their cost in bits."""

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

    def numbers(
        self, summary: Summary, label: Label, words: ItemWords
    ) -> list[ReleasedNumber | ReleasedTopics]:
        """Return all numbers that may be shown, the most important first."""
        position_of_model = {name: i for i, name in enumerate(summary.models, 1)}
        models = words.models(position_of_model)
        ranked: list[tuple[tuple[int, int], ReleasedNumber | ReleasedTopics]] = []
        for measure in MEASURES:
            disclosed = measure.disclosure
            if disclosed is None:
                continue
            for subject, parts in measure.read(summary).items():
                if subject and disclosed.rules and subject not in disclosed.rules:
                    continue
                i = position_of_model[subject] if measure.scope == "model" else 0
                printed = models[subject] if i else subject
                numbering = Numbering(measure, disclosed, printed, label(measure.name))
                if disclosed.only_state:
                    numbers = iter((self._state(numbering, summary.models[subject].looks),))
                else:
                    numbers = self._numbers_of(numbering, parts)
                ranked += (((disclosed.rank, i), number) for number in numbers)
        if summary.topics is not None and self.screened:
            ranked.append(((TOPICS_RANK, 0), topic_table(summary.topics.by_topic, self.k, self.step, words)))
        return [number for _, number in sorted(ranked, key=lambda ranked_number: ranked_number[0])]

    def _numbers_of(self, numbering: Numbering, parts: Measured) -> Iterator[ReleasedNumber]:
        """Yield the released numbers of a measure on all or kept items. Sizes are rounded down if some items were not
        answered. Points, which may be smaller than the rounding, are never released."""
        measure = numbering.measure
        if measure.unit == "points":
            return
        answered = (parts.all and parts.all.n) or 0
        all_answered = measure.scope == "set" or answered == self.n
        size = self.n if all_answered else answered // self.k * self.k
        score_and_size = {
            "all": (parts.all, size),
            "kept": (parts.kept, size * self.kept // self.n if self.n else 0),
        }
        for part in numbering.disclosed.parts:
            if part == "all" or measure.scope == "set" or self.screened:
                yield self._number(
                    "p" if measure.unit == "p" else "share", numbering, part, *score_and_size[part]
                )

    def _state(self, numbering: Numbering, looks: Looks | None) -> ReleasedNumber:
        """Return the released state of a model's points of looks: 1 if they are claimed, 0 if only wrong picks show them,
        and null otherwise."""
        value, reason = None, "not measured" if looks is None else "cannot tell"
        if looks is not None and min(looks.n or 0, looks.wrong_picks) >= self.k:
            value = {"claimed": 1.0, "wrong picks only": 0.0}.get(looks.state)
        price = bits("state", self.step) if self.screened else 0.0
        return numbering.number(
            "state", "all", Score(value=value), "" if value is not None else reason, price
        )

    def _number(
        self, kind: Kind, numbering: Numbering, part: PartName, score: Score | None, size: int
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
        ci = None if value is None or not shown else rounded_interval(value, shown)
        price = round(bits(kind, self.step), 2) if self.screened and numbering.disclosed.charged else 0.0
        return numbering.number(kind, part, Score(value=value, n=shown, ci=ci), reason, price)
