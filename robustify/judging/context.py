"""Context of judging: the rules, and the inputs and intermediate results that measures share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from robustify.base.arrays import Bools, Floats, Ints, numbered
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.items.scoring import Mode
from robustify.items.views import Hidden
from robustify.judging.baselines.wording import FEWEST_WORDS
from robustify.judging.cloze import ClozeSettings, excluded
from robustify.judging.readers.reader_rows import ProbeSettings
from robustify.judging.response_data import Facts, ResponseData
from robustify.judging.screen.item_screen import ItemScreen, screen_items
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.stats.intervals import Rate, rate

LONGEST = "longest_answer"
UNNAMED = "(none)"
"""Topic name for items without a topic."""


class Limits(BaseModel):
    """Limits of the guardrails. Shares are from 0 to 1, and divergences are in nats. A run with fewer than `min_items`
    items is a trial. `max_one_place` limits the share of a voter's letters at one position. `residual_margin` is how
    far above chance an independent auditor may be."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    min_items: int = Field(default=30, ge=1)
    max_one_place: float = Field(default=0.9, ge=0.5, lt=1)
    min_topic_n: int = Field(default=10, ge=1)
    topic_loss: float = Field(default=0.5, gt=0, lt=1)
    min_kept: int = Field(default=30, ge=1)
    max_unanswered: float = Field(default=0.02, ge=0, le=1)
    max_ties: float = Field(default=0.02, ge=0, le=1)
    max_undecided: float = Field(default=0.02, ge=0, le=1)
    residual_margin: float = Field(default=0.05, gt=0, lt=1)
    max_kl: float = Field(default=0.02, ge=0)
    kl_p: float = Field(default=0.01, gt=0, lt=1)
    excess_p: float = Field(default=0.05, gt=0, lt=1)


class ContaminationSettings(BaseModel):
    """Text files in which to search for the items, and the number of consecutive words that count as a match."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: tuple[str, ...] = Field(min_length=1)
    ngram: int = Field(default=13, ge=FEWEST_WORDS, le=50)


@dataclass(frozen=True)
class Rules:
    """Settings for judging. `alternatives` are compared with `screen`. `mode` is that of the full question, if it was
    asked. `part` is true if a limit truncated the benchmark. `hidden` is what voters did not see of an item."""

    screen: ScreenRules = field(default_factory=ScreenRules)
    cloze: ClozeSettings = field(default_factory=ClozeSettings)
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    limits: Limits = field(default_factory=Limits)
    under_test: tuple[str, ...] = ()
    alternatives: tuple[ScreenRules, ...] = ()
    mode: Mode = "letter"
    part: bool = False
    hidden: Hidden = "question"


@dataclass(frozen=True)
class Parts:
    """Split, topic and group of each item, and the credit of its longest choice (n,). Unknown credit is NaN. `topic` is a
    number. `groups` are resampled together (None if independent). `k` is the number of choices (None to omit chance)."""

    flagged: Bools
    kept: Bools
    cloze: Bools
    longest: Floats
    topic: Ints
    groups: Ints | None = None
    k: Ints | None = None

    def groups_of(self, mask: Bools) -> Ints | None:
        """Return the groups of the masked items, or None if all items are independent."""
        return None if self.groups is None else self.groups[mask]

    def rate(self, values: Floats, mask: Bools) -> Rate:
        """Return the mean of the masked items' values, with an interval over independent groups. Values are (n,)."""
        return rate(values[mask], self.groups_of(mask))


@dataclass(frozen=True, eq=False)
class Context:
    """Responses, their screen by the run's rule, and the resulting parts. `cloze_excluded` gives reasons by item ID."""

    responses: ResponseData
    screen: ItemScreen
    parts: Parts
    rules: Rules
    cloze_excluded: Mapping[str, str]


def context(answers: Answers, facts: Facts, rules: Rules, items: Sequence[Item] | None = None) -> Context:
    """Screen the items that were asked, and divide them into parts. Raise `UsageError` if the rules name voters or a
    template that the answers do not contain, and `DataError` if rows contradict each other or the items."""
    responses = ResponseData.from_answers(answers, facts, rules.mode, items)
    screen = screen_items(responses, rules.screen, rules.probe)
    cloze_excluded = {} if items is None else excluded(items, rules.cloze)
    longest = answers.block("heuristic", LONGEST).first()
    parts = Parts(
        flagged=screen.flagged,
        kept=screen.kept,
        cloze=np.array([item not in cloze_excluded for item in responses.index.items], dtype=bool),
        longest=responses.index.spread(longest, longest.correct),
        topic=numbered(responses.topics)[1],
        groups=responses.groups,
        k=responses.index.k,
    )
    return Context(responses, screen, parts, rules, cloze_excluded)
