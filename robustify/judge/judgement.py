"""From answers to a judgement: verdicts, splits, numbers with intervals, guardrails and a certificate.

Pure and without a model: the same answers under the same rules give the same judgement, wherever the answers
came from. What the answers do not hold is absent from the summary; nothing is asked here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

import numpy as np

from robustify.answers import Answers
from robustify.arrays import Bools, Ints, numbered
from robustify.baselines.artifact_probe import ProbeSettings
from robustify.errors import DataError, UsageError
from robustify.item import Item
from robustify.judge.accuracy import Parts, accuracy, credits, everyone, pairs
from robustify.judge.audit.fresh import FreshProbe
from robustify.judge.audit.residual import residual
from robustify.judge.calibration import calibrations
from robustify.judge.cloze import ClozeSettings, excluded
from robustify.judge.evidence import Evidence, cue_counts, evidence
from robustify.judge.free_response import FreeGrades, free_scores
from robustify.judge.guardrails import Limits, certificate, guardrails, trial_run
from robustify.judge.permutation import permutation
from robustify.judge.positions import position_biases
from robustify.judge.removal_effects import random_removal, topics
from robustify.judge.screening import UNNAMED, benchmark, heuristics, screen
from robustify.judge.sensitivity import sensitivity
from robustify.judge.signs import contamination, label_noise
from robustify.ngrams.overlap import Overlap
from robustify.screen.consensus import (
    ROBUST,
    SHORTCUT,
    UNDECIDED,
    Verdicts,
    could_be,
    outcome,
    screen_chance,
    screen_verdicts,
)
from robustify.screen.decoy_filter import DecoyFilter
from robustify.screen.item_index import ItemIndex, item_index
from robustify.screen.screen_rules import FDR, FULL_OF, VIEW_OF, Mode, ScreenRules
from robustify.screen.votes import (
    Votes,
    cast_votes,
    first_picks,
    first_template,
    full_mode,
    models_asked,
    one_pick,
    who_votes,
)
from robustify.summary.result import Guardrail, Summary
from robustify.summary.screened import Splits

LONGEST = "longest_answer"


@dataclass(frozen=True)
class Rules:
    """All settings of the judge side; `alternatives` are compared with `screen` and decide nothing.

    `mode`: of the full question, where it was asked so; `part`: a limit cut the set.
    """

    screen: ScreenRules = field(default_factory=ScreenRules)
    cloze: ClozeSettings = field(default_factory=ClozeSettings)
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    limits: Limits = field(default_factory=Limits)
    under_test: tuple[str, ...] = ()
    alternatives: tuple[ScreenRules, ...] = ()
    mode: Mode = "letter"
    part: bool = False


@dataclass(frozen=True)
class Facts:
    """What is known of the benchmark beside the rows.

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
class Judgement:
    """A verdict on every item, why items are no cloze, the summary, and of items that could be ranked the evidence."""

    verdicts: Verdicts
    cloze_excluded: dict[str, str]
    summary: Summary
    evidence: Evidence | None = None

    @property
    def checks(self) -> tuple[Guardrail, ...]:
        """The outcomes of the guardrails."""
        return self.summary.guardrails


def judge(answers: Answers, facts: Facts, rules: Rules, items: Sequence[Item] | None = None) -> Judgement:
    """Judge the answers. Without `items` (an imported log) what needs text is null.

    Raises:
        UsageError: the rules name voters, a template or a probe's vote that are not in these answers.
        DataError: rows that disagree with one another or with the items.
    """
    index = _index(answers, items)
    _require(answers, rules.screen)
    by_rank = DecoyFilter(answers, index, rules.screen, items, rules.probe, facts.groups)
    votes = by_rank.ranked(cast_votes(answers, rules.screen, index))
    code, verdicts = _settled(outcome(votes, rules.screen), screen_verdicts(votes, rules.screen), facts)
    out_of_cloze = {} if items is None else excluded(items, rules.cloze)
    could = could_be(votes, rules.screen)
    topic_of = _topic_of(index, facts)
    parts = _parts(answers, index, code, out_of_cloze, facts, topic_of)
    parts = replace(parts, agreed=one_pick(could[0]))
    ranks = rules.screen.criterion == FDR and bool((by_rank.ranking(votes.voters).top >= 0).any())
    screened = votes.template is not None or rules.screen.probe_vote != "none" or ranks
    summary = Summary(
        **_benchmark(answers, index, facts, topic_of, parts, out_of_cloze, items, could),
        **_scores(answers, index, votes, rules, parts, facts),
        **(
            _filtered(answers, index, votes, rules, facts, topic_of, items, parts, by_rank)
            if screened
            else {"sensitivity": ()}
        ),
        contamination=contamination(answers, index, facts.overlap, parts.robust, parts.shortcut),
    )
    found = _evidence(by_rank, votes, rules.screen, items)
    if found is not None:
        summary = summary.model_copy(update={"evidence": cue_counts(found, parts.shortcut)})
    checks = guardrails(summary, rules.limits)
    tested = [name for name in rules.under_test if name in votes.voters and screened]
    final = certificate(summary.residual, checks, tested, trial_run(summary, rules.limits, part=rules.part))
    whole = summary.model_copy(update={"guardrails": checks, "certificate": final})
    return Judgement(verdicts, out_of_cloze, whole, found)


def _settled(code: Ints, verdicts: Verdicts, facts: Facts) -> tuple[Ints, Verdicts]:
    """The outcomes, and no item robust whose key another item contradicts: one of the two is wrong."""
    disputed = {d["item"] for d in facts.defects if d["kind"] == "conflicting_key"}
    if not disputed:
        return code, verdicts
    open_ = np.array([name in disputed for name in verdicts.items], dtype=bool) & (code == ROBUST)
    reason = "conflicting_key: the same question and choices have another key elsewhere"
    return np.where(open_, UNDECIDED, code), verdicts.undecided(open_, reason)


def _evidence(
    by_rank: DecoyFilter, votes: Votes, rules: ScreenRules, items: Sequence[Item] | None
) -> Evidence | None:
    """The evidence on each item, whatever rule flags; None where the ranking has no pick."""
    ranking = by_rank.ranking(votes.voters, vectors=not rules.fdr_exact)
    if not (ranking.top >= 0).any():
        return None
    return evidence(ranking, by_rank.decision(votes.voters, rules), votes, items)


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
    view = VIEW_OF[rules.mode]
    asked = [(m, t) for v, m, t in answers.askings() if v == view]
    templates = sorted({t for _, t in asked})
    if rules.probe_vote != "none" and first_template(answers, "probe") is None:
        raise UsageError(
            f"screen.probe_vote: {rules.probe_vote}, but the answers hold no probe; expected none"
        )
    if not asked:
        _require_no_screen(answers, rules)
        return
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


def _require_no_screen(answers: Answers, rules: ScreenRules) -> None:
    """A run may leave the screen out, for voters that were asked other views; a rule for another one may not."""
    asked = answers.askings()
    strangers = sorted(set(rules.voters) - {m for _, m, _ in asked})
    other = next((mode for mode, view in VIEW_OF.items() if view in {v for v, _, _ in asked}), None)
    if rules.template is not None or strangers or (rules.voters and other is not None):
        setting = (
            f"voters: {', '.join(strangers or rules.voters)}"
            if rules.voters
            else f"template: {rules.template}"
        )
        expected = (
            "neither template nor strange voters" if other is None else f"mode {other}, which was asked"
        )
        raise UsageError(f"screen.{setting}, but nobody was asked {VIEW_OF[rules.mode]}; expected {expected}")


def _parts(
    answers: Answers,
    index: ItemIndex,
    code: Ints,
    out_of_cloze: Mapping[str, str],
    facts: Facts,
    topic_of: Sequence[str],
) -> Parts:
    longest = answers.block("heuristic", LONGEST).first()
    groups = None
    if facts.groups:
        names = [f"group/{facts.groups[i]}" if facts.groups.get(i) else f"item/{i}" for i in index.items]
        groups = numbered(names)[1]
    return Parts(
        shortcut=code == SHORTCUT,
        robust=code == ROBUST,
        cloze=np.array([name not in out_of_cloze for name in index.items], dtype=bool),
        longest=index.spread(longest, longest.correct),
        topic=numbered(topic_of)[1],
        groups=groups,
        k=index.k,
    )


def _topic_of(index: ItemIndex, facts: Facts) -> list[str]:
    """The topic of each item, "" where it has none."""
    return list(map(facts.topics.get, index.items, repeat("")))


def _benchmark(
    answers: Answers,
    index: ItemIndex,
    facts: Facts,
    topic_of: Sequence[str],
    parts: Parts,
    out_of_cloze: Mapping[str, str],
    items: Sequence[Item] | None,
    could: tuple[Bools, Bools],
) -> dict[str, Any]:
    masks = {"all": np.ones(len(index), dtype=bool), "robust": parts.robust, "shortcut": parts.shortcut}
    n_shortcut, n_robust = int(parts.shortcut.sum()), int(parts.robust.sum())
    return {
        "benchmark": benchmark(facts.name, index, topic_of, facts.n_quarantined, facts.defects),
        "heuristics": heuristics(
            answers,
            index,
            {**masks, "cloze": parts.cloze},
            dict(zip(("shortcut", "robust"), could, strict=True)),
        ),
        "splits": Splits(
            all=len(index),
            shortcut=n_shortcut,
            robust=n_robust,
            undecided=len(index) - n_shortcut - n_robust,
            cloze=None if items is None else int(parts.cloze.sum()),
            cloze_excluded=dict(sorted(Counter(out_of_cloze.values()).items())),
        ),
    }


def _scores(
    answers: Answers, index: ItemIndex, votes: Votes, rules: Rules, parts: Parts, facts: Facts
) -> dict[str, Any]:
    names, free = everyone(answers), facts.free
    mode = full_mode(answers, rules.mode)
    full = FULL_OF[mode]
    # A model may have answered in words alone.
    scored = names if free is None else tuple(dict.fromkeys((*names, *free.models)))
    voted = {name: votes.best[:, m] for m, name in enumerate(votes.voters)}
    won = {
        name: credits(answers, index, name, votes.template, rules.screen, mode, voted.get(name))
        for name in scored
    }
    asked = {name: won[name] for name in names}
    graded = {
        name: None if free is None else free_scores(free, name, index, parts, won[name]["full"])
        for name in scored
    }
    removed = {
        name: random_removal(c, parts, first_picks(answers, index, full, name), is_voter=name in votes.voters)
        for name, c in asked.items()
    }
    return {
        "full_mode": mode,
        "accuracy": {
            name: accuracy(c, parts, graded[name], is_voter=name in votes.voters) for name, c in won.items()
        },
        "pairs": pairs(asked, parts, votes.voters),
        "random_removal": {name: row for name, row in removed.items() if row is not None} or None,
        "permutation": permutation(answers, index, names, votes.voters, parts.groups, full),
        "position_bias": position_biases(answers, index, names, parts.groups, full) or None,
        "calibration": calibrations(answers, index, names, parts.groups, full),
        "label_noise": label_noise(answers, index, asked, parts, full),
    }


def _filtered(
    answers: Answers,
    index: ItemIndex,
    votes: Votes,
    rules: Rules,
    facts: Facts,
    topic_of: Sequence[str],
    items: Sequence[Item] | None,
    parts: Parts,
    by_rank: DecoyFilter,
) -> dict[str, Any]:
    chance = screen_chance(votes, rules.screen, parts.groups)
    cut = by_rank.decision(votes.voters, rules.screen).cut if rules.screen.criterion == FDR else None
    probe = FreshProbe(items, rules.probe)
    compared = (rules.screen, *rules.alternatives)
    return {
        "screen": screen(
            answers, index, votes, rules.screen, chance, parts.groups, rules.limits.excess_p, cut
        ),
        "topics": topics([name or UNNAMED for name in topic_of], parts.robust, parts.groups)
        if any(facts.topics.values())
        else None,
        "residual": residual(answers, index, votes, rules.screen, probe, rules.limits.residual_margin),
        "sensitivity": sensitivity(answers, index, compared, votes, probe, parts.groups, chance),
    }
