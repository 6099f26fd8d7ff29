"""What every measure is computed from, made once: the answers, the items, the rules, the votes, the cut and the parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat

import numpy as np

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Floats, Ints, numbered
from robustify.baselines.artifact_probe import ProbeSettings
from robustify.errors import DataError, UsageError
from robustify.item import Item
from robustify.judging.cloze import ClozeSettings, excluded
from robustify.judging.free_grades import FreeGrades
from robustify.judging.guardrails import Limits
from robustify.ngrams.overlap import Overlap
from robustify.scoring import as_compared
from robustify.screen.chance import Chance
from robustify.screen.consensus import ROBUST, SHORTCUT, UNDECIDED, Screened, Verdicts, screened
from robustify.screen.decoy_filter import Decision, flagging, flags
from robustify.screen.item_index import ItemIndex, item_index
from robustify.screen.ranking import Ranker, Ranking
from robustify.screen.screen_rules import FDR, FULL_OF, VIEW_OF, Mode, ScreenRules
from robustify.screen.votes import (
    Votes,
    cast_votes,
    first_block,
    first_template,
    full_mode,
    models_asked,
    who_votes,
)
from robustify.summary.adjusted import Adjust
from robustify.views import Hidden

LONGEST = "longest_answer"
UNNAMED = "(none)"
"""The topic of items without one."""
VIEWS = ("full", "full_text", "choices_only", "choices_only_text", "cloze")


@dataclass(frozen=True)
class Rules:
    """All settings of judging; `alternatives` are compared with `screen` and decide nothing.

    `mode`: that of the full question, if it was asked so; `part`: a limit cut the set; `hidden`: what voters did not see;
    `adjust`: what the weights of the adjusted score balance.
    """

    screen: ScreenRules = field(default_factory=ScreenRules)
    cloze: ClozeSettings = field(default_factory=ClozeSettings)
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    limits: Limits = field(default_factory=Limits)
    under_test: tuple[str, ...] = ()
    alternatives: tuple[ScreenRules, ...] = ()
    mode: Mode = "letter"
    part: bool = False
    hidden: Hidden = "question"
    adjust: Adjust = "form"


@dataclass(frozen=True)
class Facts:
    """What is known of the benchmark besides the rows.

    `topics` and `groups` by item id, how many rows were set aside, `defects` `{"kind", "item", ...}`, which items
    are in given text files, and grades of answers in free words.
    """

    name: str
    topics: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    n_quarantined: int = 0
    defects: Sequence[Mapping[str, object]] = ()
    overlap: Overlap | None = None
    free: FreeGrades | None = None


@dataclass(frozen=True)
class Parts:
    """Which items are what, (n,) each. `longest`: the credit of the longest answer (NaN if unknown); `topic`: its number;
    `groups`: what is resampled together (None: every item for itself); `k`: the number of choices (None: no chance is
    given).
    """

    shortcut: Bools
    robust: Bools
    cloze: Bools
    longest: Floats
    topic: Ints
    groups: Ints | None = None
    k: Ints | None = None


@dataclass(frozen=True, eq=False)
class Context:
    """What every measure is computed from.

    `votes` and `screened`: those of the run's own rule; `ranking` and `decision`: what the question-free scorer makes of
    the items, and its cut at the run's q, whatever rule decides. `cloze_excluded`: why items are no cloze, by id.
    """

    answers: Answers
    index: ItemIndex
    items: Sequence[Item] | None
    facts: Facts
    rules: Rules
    ranker: Ranker
    votes: Votes
    ranking: Ranking
    decision: Decision
    screened: Screened
    verdicts: Verdicts
    parts: Parts
    cloze_excluded: Mapping[str, str]

    def screen(self, votes: Votes, rules: ScreenRules) -> Screened:
        """Return what other votes, or another rule, make of the items."""
        if rules.criterion != FDR:
            return screened(votes, rules)
        run = self.rules.screen
        alike = votes.voters == self.votes.voters and rules.fdr_exact == run.fdr_exact
        asked = run.model_copy(update={"voters": votes.voters, "fdr_exact": rules.fdr_exact})
        ranking = self.ranking if alike else self.ranker.rank(asked)
        decision = flags(ranking, self.index.key, rules.fdr, exact=rules.fdr_exact)
        return screened(votes, rules, flagging(ranking, decision, self.index.width))

    @property
    def was_screened(self) -> bool:
        """Whether anything was screened: models were asked the choices alone, a probe voted, or items were ranked."""
        rules = self.rules.screen
        ranked = rules.criterion == FDR and bool((self.ranking.top >= 0).any())
        return self.votes.template is not None or rules.probe_vote != "none" or ranked

    @cached_property
    def chance(self) -> Chance:
        """What chance explains of the flags of the run's own rule."""
        return self.screened.chance(self.parts.groups)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every model that was asked any view, in the order of its first row."""
        return tuple(dict.fromkeys(m for v, m, _ in self.answers.askings() if v in VIEWS))

    @cached_property
    def mode(self) -> Mode:
        """The mode in which the full question was asked."""
        return full_mode(self.answers, self.rules.mode)

    @property
    def full(self) -> str:
        """The view of the full question."""
        return FULL_OF[self.mode]

    @cached_property
    def topic_of(self) -> list[str]:
        """The topic of each item, "" if it has none."""
        return topics_of(self.index, self.facts)

    def first_rows(self, view: str, model: str) -> Block:
        """Return the first row of each item that a model answered under a view, its scores as they are compared."""
        block = first_block(self.answers, view, model).first()
        return as_compared(block.where(self.index.at[block.item] >= 0), view)

    def in_table(self, values: Bools) -> Bools:
        """Return values of the items (n, ...) for the items of the answer table; False for those that are not judged."""
        at = self.index.at
        return np.where((at >= 0).reshape(-1, *[1] * (values.ndim - 1)), values[at], False)

    def row_groups(self, block: Block) -> Ints | None:
        """Return the groups of a block's rows, (r,)."""
        groups = self.parts.groups
        return None if groups is None else groups[self.index.at[block.item]]


def context(answers: Answers, facts: Facts, rules: Rules, items: Sequence[Item] | None = None) -> Context:
    """Cast the votes, rank the items, cut, and say which item is what.

    Raises:
        UsageError: the rules name voters, a template or a probe's vote that are not in these answers.
        DataError: rows that disagree with one another or with the items.
    """
    index = _index(answers, items)
    _require(answers, rules.screen)
    votes = cast_votes(answers, rules.screen, index)
    ranker = Ranker(answers, index, items, rules.probe, facts.groups)
    ranking = ranker.rank(rules.screen.model_copy(update={"voters": votes.voters}))
    decision = flags(ranking, index.key, rules.screen.fdr, exact=rules.screen.fdr_exact)
    cut = flagging(ranking, decision, index.width) if rules.screen.criterion == FDR else None
    found = screened(votes, rules.screen, cut)
    code, verdicts = _settled(found.outcome, found.verdicts(), facts)
    no_cloze = {} if items is None else excluded(items, rules.cloze)
    longest = answers.block("heuristic", LONGEST).first()
    parts = Parts(
        shortcut=code == SHORTCUT,
        robust=code == ROBUST,
        cloze=np.array([name not in no_cloze for name in index.items], dtype=bool),
        longest=index.spread(longest, longest.correct),
        topic=numbered(topics_of(index, facts))[1],
        groups=_groups(index, facts),
        k=index.k,
    )
    return Context(
        answers, index, items, facts, rules, ranker, votes, ranking, decision, found, verdicts, parts, no_cloze
    )  # fmt: skip


def topics_of(index: ItemIndex, facts: Facts) -> list[str]:
    """Return the topic of each item, "" if it has none."""
    return list(map(facts.topics.get, index.items, repeat("")))


def _groups(index: ItemIndex, facts: Facts) -> Ints | None:
    if not facts.groups:
        return None
    names = [f"group/{facts.groups[i]}" if facts.groups.get(i) else f"item/{i}" for i in index.items]
    return numbered(names)[1]


def _settled(code: Ints, verdicts: Verdicts, facts: Facts) -> tuple[Ints, Verdicts]:
    """The outcomes, with no item robust whose key another item contradicts: one of the two is wrong."""
    disputed = {d["item"] for d in facts.defects if d["kind"] == "conflicting_key"}
    if not disputed:
        return code, verdicts
    open_ = np.array([name in disputed for name in verdicts.items], dtype=bool) & (code == ROBUST)
    reason = "conflicting_key: the same question and choices have another key elsewhere"
    return np.where(open_, UNDECIDED, code), verdicts.undecided(open_, reason)


def _index(answers: Answers, items: Sequence[Item] | None) -> ItemIndex:
    if items is None:
        return item_index(answers, answers.items)
    index = item_index(answers, [item.id for item in items])
    key = np.array([item.key for item in items], dtype=np.int64)
    k = np.array([item.k for item in items], dtype=np.int64)
    other = np.flatnonzero((index.k > 0) & ((index.key != key) | (index.k != k)))
    if len(other):
        raise DataError(
            f"answer table: item {items[other[0]].id} was asked with another key or other choices than it "
            f"has now ({len(other)} such items); expected the items that were asked, so ask again"
        )
    return replace(index, key=key, k=k)


def _require(answers: Answers, rules: ScreenRules) -> None:
    """Refuse rules that these answers cannot follow; a screen that nobody was asked for is no fault of its voters."""
    askings, view = answers.askings(), VIEW_OF[rules.mode]
    views, known = {v for v, _, _ in askings}, {m for _, m, _ in askings}
    templates = sorted({t for v, _, t in askings if v == view})
    if rules.probe_vote != "none" and first_template(answers, "probe") is None:
        raise UsageError(
            f"screen.probe_vote: {rules.probe_vote}, but the answers hold no probe; expected none"
        )
    if templates:
        if rules.template is not None and rules.template not in templates:
            raise UsageError(
                f"screen.template: {rules.template} was not asked; expected one of {', '.join(templates)}"
            )
        template, _ = who_votes(answers, rules)
        there = models_asked(answers, view, template)
        absent = [name for name in rules.voters if name not in there]
        if absent:
            raise UsageError(
                f"screen.voters: {', '.join(absent)} did not answer {view} under {template}; "
                f"expected models among {', '.join(there)}"
            )
        return
    strangers = sorted(set(rules.voters) - known)
    other = next((mode for mode, asked in VIEW_OF.items() if asked in views), None)
    if rules.template is not None or strangers or (rules.voters and other is not None):
        named = f"voters: {', '.join(strangers or rules.voters)}"
        setting = named if rules.voters else f"template: {rules.template}"
        expected = (
            "neither a template nor other voters" if other is None else f"mode {other}, which was asked"
        )
        raise UsageError(f"screen.{setting}, but no model was asked {view}; expected {expected}")
