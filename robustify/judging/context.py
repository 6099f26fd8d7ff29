"""Judging context: the inputs and intermediate results that all measures share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from robustify.base.arrays import Bools, Floats, Ints, group_numbers, numbered
from robustify.base.errors import DataError, UsageError
from robustify.items.answers import Answers, Block
from robustify.items.item import Item
from robustify.items.scoring import FULL_OF, VIEW_OF, Mode, as_compared
from robustify.items.views import VIEWS, Hidden
from robustify.judging.baselines.near_duplicates import numbered_groups
from robustify.judging.cloze import ClozeSettings, excluded
from robustify.judging.free_response import FreeGrades
from robustify.judging.readers.reader_rows import ProbeSettings
from robustify.judging.screen.consensus import Screened, Verdicts, screened
from robustify.judging.screen.decoy_filter import FilterDecision, flags
from robustify.judging.screen.item_index import ItemIndex, item_index
from robustify.judging.screen.ranking import Ranker, Ranking
from robustify.judging.screen.screen_rules import FDR, ScreenRules
from robustify.judging.screen.votes import (
    FLAGGED,
    KEPT,
    Votes,
    cast_votes,
    first_block,
    models_asked,
    who_votes,
)
from robustify.judging.stats.intervals import Rate, clusters, rate
from robustify.judging.summary.quantity import Quantity
from robustify.judging.text_overlap import Overlap

LONGEST = "longest_answer"
UNNAMED = "(none)"
"""Topic name for items without a topic."""
_DEPENDENT = "not evaluated: items depend on each other"
_CONFLICT = "conflicting_key: the same question and choices have another key elsewhere"


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
class Facts:
    """Facts about the benchmark that are not in the answer table. `topics` and `groups` map item IDs to names.
    `n_quarantined` counts rows that were set aside. `defects` are `{"kind", "item", ...}`. `logged` has the accuracies
    that logs state for cloze, by model and metric."""

    name: str
    topics: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    n_quarantined: int = 0
    defects: Sequence[Mapping[str, object]] = ()
    overlap: Overlap | None = None
    free: FreeGrades | None = None
    logged: Mapping[str, dict[str, Quantity]] = field(default_factory=dict)


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
        """Return the mean of the masked items' values with an interval over independent groups. Values are (n,)."""
        return rate(values[mask], self.groups_of(mask))


@dataclass(frozen=True, eq=False)
class Context:
    """Shared inputs of all measures. `votes` and `screened` belong to the run's own rule. `ranking` is the
    question-free scorer's, and `decision` its cutoff at the run's q, whichever rule decides. `cloze_excluded` gives
    reasons by item ID, and `topic_names` the names of the topics in `parts`, with "" for items without one."""

    answers: Answers
    index: ItemIndex
    items: Sequence[Item] | None
    facts: Facts
    rules: Rules
    ranker: Ranker
    votes: Votes
    ranking: Ranking
    decision: FilterDecision
    screened: Screened
    verdicts: Verdicts
    parts: Parts
    cloze_excluded: Mapping[str, str]
    topic_names: Sequence[str]

    @property
    def topic_of(self) -> list[str]:
        """Topic of each item, or "" if it has none."""
        return list(map(self.topic_names.__getitem__, self.parts.topic.tolist()))

    def screen(self, votes: Votes, rules: ScreenRules) -> Screened:
        """Return the outcome of screening the items with other votes or another rule."""
        if rules.criterion != FDR:
            return screened(votes, rules)
        run = self.rules.screen
        same_voters, voted = (
            votes.voters == self.votes.voters,
            run.model_copy(update={"voters": votes.voters}),
        )
        ranking = self.ranking if same_voters else self.ranker.rank(voted, explained=False)
        return screened(votes, rules, flags(ranking, self.index.key, rules.fdr))

    @property
    def was_screened(self) -> bool:
        """Whether voters or a ranking screened the items."""
        ranked = self.rules.screen.criterion == FDR and bool((self.ranking.top >= 0).any())
        return self.votes.template is not None or ranked

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Models that were asked in at least one view, in order of first appearance."""
        return tuple(dict.fromkeys(m for v, m, _ in self.answers.askings() if v in VIEWS))

    @cached_property
    def mode(self) -> Mode:
        """Mode in which the full question was asked. If it was asked in both, the rules choose."""
        views, preferred = {view for view, _, _ in self.answers.askings()}, self.rules.mode
        other: Mode = "text" if preferred == "letter" else "letter"
        return other if FULL_OF[preferred] not in views and FULL_OF[other] in views else preferred

    @property
    def full(self) -> str:
        """View of the full question."""
        return FULL_OF[self.mode]

    @property
    def groups(self) -> Ints | None:
        """Group of each item, shared by items that depend on each other, or None if every item is independent (n,)."""
        return self.parts.groups

    def first_rows(self, view: str, model: str) -> Block:
        """Return a model's first answer to each item under a view, with text scores per character."""
        block = first_block(self.answers, view, model).first()
        return as_compared(block.where(self.index.index_of[block.item] >= 0), view)

    def in_table(self, values: Bools) -> Bools:
        """Return the values of items in the order of the answer table (n, ...). Items that are not judged get False."""
        index_of = self.index.index_of
        return np.where((index_of >= 0).reshape(-1, *[1] * (values.ndim - 1)), values[index_of], False)

    @cached_property
    def table_groups(self) -> Ints | None:
        """Group of each item of the answer table (t,), or None if items are independent. Others get -1."""
        index_of = self.index.index_of
        return None if self.groups is None else np.where(index_of >= 0, self.groups[index_of], -1)

    def row_groups(self, block: Block) -> Ints | None:
        """Return the group of each row of a block (r,), or None if items are independent."""
        groups = self.parts.groups
        return None if groups is None else groups[self.index.index_of[block.item]]


def context(answers: Answers, facts: Facts, rules: Rules, items: Sequence[Item] | None = None) -> Context:
    """Build the judging context: cast the votes, rank the items, find the cutoff, and assign verdicts. Raise
    `UsageError` if the rules name voters or a template that the answers do not contain, and `DataError` if rows
    contradict each other or the items."""
    index = _index(answers, items)
    _check_rules(answers, rules.screen)
    votes = cast_votes(answers, rules.screen, index)
    ranker = Ranker(answers, index, items, rules.probe, facts.groups)
    ranking = ranker.rank(rules.screen.model_copy(update={"voters": votes.voters}))
    decision = flags(ranking, index.key, rules.screen.fdr)
    screen = screened(votes, rules.screen, decision)
    # One of two conflicting keys must be wrong.
    disputed = {d["item"] for d in facts.defects if d["kind"] == "conflicting_key"}
    conflict = np.array([name in disputed for name in index.items], dtype=bool) & (screen.outcome == KEPT)
    verdicts = screen.verdicts()
    if decision.cutoff.groups is not None and rules.screen.criterion == FDR:
        verdicts = verdicts.undecided(np.ones(len(verdicts), dtype=bool), _DEPENDENT)
    if conflict.any():
        verdicts = verdicts.undecided(conflict, _CONFLICT)
    no_cloze = {} if items is None else excluded(items, rules.cloze)
    longest = answers.block("heuristic", LONGEST).first()
    topic_names, topic = numbered([facts.topics.get(item, "") for item in index.items])
    parts = Parts(
        flagged=screen.outcome == FLAGGED,
        kept=(screen.outcome == KEPT) & ~conflict,
        cloze=np.array([name not in no_cloze for name in index.items], dtype=bool),
        longest=index.spread(longest, longest.correct),
        topic=topic,
        groups=_passages(index, facts.groups) if items is None else numbered_groups(items),
        k=index.k,
    )
    return Context(
        answers, index, items, facts, rules, ranker, votes, ranking, decision, screen, verdicts, parts, no_cloze,
        topic_names,
    )  # fmt: skip


def _index(answers: Answers, items: Sequence[Item] | None) -> ItemIndex:
    if items is None:
        return item_index(answers, answers.items)
    index = item_index(answers, [item.id for item in items])
    key, k = np.array([(item.key, item.k) for item in items], dtype=np.int64).reshape(-1, 2).T
    other = np.flatnonzero((index.k > 0) & ((index.key != key) | (index.k != k)))
    if len(other):
        raise DataError(
            f"answer table: item {items[other[0]].id} was asked with a different key or number of choices "
            f"({len(other)} such items). Restore the items that were asked, or ask again.",
            code="items-differ-from-answers",
        )
    return replace(index, key=key.astype(np.int16), k=k.astype(np.int16))


def _passages(index: ItemIndex, group_of: Mapping[str, str]) -> Ints | None:
    groups = group_numbers(index.items, group_of)
    return groups if clusters(len(groups), groups) < len(groups) else None


def _check_rules(answers: Answers, rules: ScreenRules) -> None:
    """Raise UsageError if the answers cannot satisfy the rules. Without a screen, any model with answers may be a voter."""
    askings, view = answers.askings(), VIEW_OF[rules.mode]
    templates = sorted({t for v, _, t in askings if v == view})
    other_mode = next((mode for mode, mode_view in VIEW_OF.items() if models_asked(answers, mode_view)), None)
    if templates:
        voters = models_asked(answers, view, who_votes(answers, rules)[0])
    else:
        voters = () if other_mode else tuple({m: None for _, m, _ in askings})
    if rules.template not in (None, *templates):
        code, setting, candidates = "unasked-template", f"template: {rules.template}", templates
    elif missing := [name for name in rules.voters if name not in voters]:
        code, setting, candidates = "unasked-voters", f"voters: {', '.join(missing)}", list(voters)
    else:
        return
    instead = f"Expected some of {', '.join(candidates)}." if candidates else "Remove it."
    instead = instead if templates or other_mode is None else f"Set `mode: {other_mode}`, which was asked."
    raise UsageError(f"screen.{setting} cannot be used with the answers under {view}. {instead}", code=code)
