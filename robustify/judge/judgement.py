"""From answers to a judgement: verdicts, splits, numbers with intervals, guardrails and a certificate.

Pure and without a model: the same answers under the same rules give the same judgement, wherever the answers
came from. What the answers do not hold is absent from the summary; nothing is asked here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from robustify.answers import Answers
from robustify.arrays import Bools, Ints
from robustify.baselines.artifact_probe import ProbeSettings
from robustify.errors import DataError, UsageError
from robustify.item import Item
from robustify.judge.accuracy import Credits, Parts, credits, everyone, random_removal, scored
from robustify.judge.cloze import ClozeSettings, excluded
from robustify.judge.free_response import FreeGrades, free_scores
from robustify.judge.guardrails import Check, Limits, guardrails
from robustify.judge.label_noise import label_noise
from robustify.judge.memorisation import contamination
from robustify.judge.pairs import pairs
from robustify.judge.parts import UNNAMED, benchmark, calibrated, certificate, heuristics, leaning, screen
from robustify.judge.permutation import permutation
from robustify.judge.residual import FreshProbe, residual
from robustify.judge.sensitivity import sensitivity
from robustify.judge.topics import topics
from robustify.ngrams.overlap import Overlap
from robustify.screen.consensus import (
    ROBUST,
    SHORTCUT,
    Verdict,
    could_be,
    outcome,
    screen_chance,
    screen_verdicts,
)
from robustify.screen.item_index import ItemIndex, item_index
from robustify.screen.screen_rules import VIEW_OF, ScreenRules
from robustify.screen.votes import Votes, cast_votes, first_template, models_asked

FORMAT = 1
LONGEST = "longest_answer"


@dataclass(frozen=True)
class Rules:
    """Everything the judge side is told; `alternatives` are compared with `screen` and decide nothing."""

    screen: ScreenRules = field(default_factory=ScreenRules)
    cloze: ClozeSettings = field(default_factory=ClozeSettings)
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    limits: Limits = field(default_factory=Limits)
    under_test: tuple[str, ...] = ()
    alternatives: tuple[ScreenRules, ...] = ()


@dataclass(frozen=True)
class Facts:
    """What is known of the benchmark beside the rows.

    `topics` and `groups` by item id, how many rows were set aside, `defects` `{"kind", "item", ...}`, which items
    stand in given text files, and grades of answers in free words. `named`: whether ids of items may be listed (not of
    a restricted set).
    """

    name: str
    topics: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    n_quarantined: int = 0
    defects: Sequence[Mapping[str, object]] = ()
    overlap: Overlap | None = None
    named: bool = True
    free: FreeGrades | None = None


@dataclass(frozen=True)
class Judgement:
    """A verdict on every item, why items are no cloze, summary.json as a tree, and the guardrails."""

    verdicts: tuple[Verdict, ...]
    cloze_excluded: dict[str, str]
    summary: dict[str, object]
    checks: tuple[Check, ...]


def judge(answers: Answers, facts: Facts, rules: Rules, items: Sequence[Item] | None = None) -> Judgement:
    """Judge the answers. Without `items` (an imported log) what needs text is left out and said to be absent.

    Raises:
        UsageError: the rules name voters, a template or a probe's vote that these answers do not hold.
        DataError: rows that disagree with one another or with the items.
    """
    held = _called(answers, items)
    _require(answers, rules.screen)
    votes = cast_votes(answers, rules.screen, held)
    verdicts = screen_verdicts(votes, rules.screen)
    out_of_cloze = {} if items is None else excluded(items, rules.cloze)
    parts = _parts(answers, held, outcome(votes, rules.screen), out_of_cloze, facts)
    screened = votes.template is not None or rules.screen.probe_vote != "none"
    summary: dict[str, object] = {
        "format": FORMAT,
        **_what_is_there(answers, held, facts, parts, out_of_cloze, items, could_be(votes, rules.screen)),
        **_what_models_score(answers, held, votes, rules.screen, parts, facts),
        **(
            _what_the_filter_did(answers, held, votes, rules, facts, items, parts) if screened else _NO_SCREEN
        ),
        "contamination": contamination(
            answers, held, facts.overlap, parts.robust, parts.shortcut, named=facts.named
        ),
    }
    checks = tuple(guardrails(summary, rules.limits))
    audit = summary["residual"]
    tested = [name for name in rules.under_test if name in votes.voters and screened]
    summary["guardrails"] = [c.json() for c in checks]
    summary["certificate"] = certificate(audit if isinstance(audit, dict) else None, checks, tested)
    summary["signature"] = None
    return Judgement(verdicts, out_of_cloze, {name: summary[name] for name in _NAMES}, checks)


_NAMES = (
    "format", "benchmark", "heuristics", "screen", "splits", "accuracy", "pairs", "random_removal", "permutation",
    "position_bias", "calibration", "topics", "residual", "sensitivity", "label_noise", "contamination", "guardrails",
    "certificate", "signature",
)  # fmt: skip
_NO_SCREEN: dict[str, object] = {"screen": None, "topics": None, "residual": None, "sensitivity": []}


def _called(answers: Answers, items: Sequence[Item] | None) -> ItemIndex:
    if items is None:
        return item_index(answers, answers.items)
    held = item_index(answers, [item.id for item in items])
    key = np.array([item.key for item in items], dtype=np.int64)
    k = np.array([item.k for item in items], dtype=np.int64)
    other = np.flatnonzero((held.k > 0) & ((held.key != key) | (held.k != k)))
    if len(other):
        raise DataError(
            f"answer table: item {items[other[0]].id} was asked with another key or other choices than it "
            f"has now ({len(other)} such items); expected the items that were asked, so ask again"
        )
    return replace(held, key=key, k=k)


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
    template = rules.template or first_template(answers, view, rules.voters)
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
        told = (
            f"voters: {', '.join(strangers or rules.voters)}"
            if rules.voters
            else f"template: {rules.template}"
        )
        expected = (
            "neither template nor strange voters" if other is None else f"mode {other}, which was asked"
        )
        raise UsageError(f"screen.{told}, but nobody was asked {VIEW_OF[rules.mode]}; expected {expected}")


def _parts(
    answers: Answers, held: ItemIndex, code: Ints, out_of_cloze: Mapping[str, str], facts: Facts
) -> Parts:
    longest = answers.block("heuristic", LONGEST).first()
    _, topic = np.unique([facts.topics.get(name, "") for name in held.items], return_inverse=True)
    groups = None
    if facts.groups:
        names = [f"group/{facts.groups[i]}" if facts.groups.get(i) else f"item/{i}" for i in held.items]
        groups = np.unique(names, return_inverse=True)[1].astype(np.int64)
    return Parts(
        shortcut=code == SHORTCUT,
        robust=code == ROBUST,
        cloze=np.array([name not in out_of_cloze for name in held.items], dtype=bool),
        longest=held.spread(longest, longest.correct),
        topic=topic.astype(np.int64),
        groups=groups,
        k=held.k,
    )


def _what_is_there(
    answers: Answers,
    held: ItemIndex,
    facts: Facts,
    parts: Parts,
    out_of_cloze: Mapping[str, str],
    items: Sequence[Item] | None,
    could: tuple[Bools, Bools],
) -> dict[str, object]:
    topic_of = [facts.topics.get(name, "") for name in held.items]
    masks = {"all": np.ones(len(held), dtype=bool), "robust": parts.robust, "shortcut": parts.shortcut}
    reasons = sorted(out_of_cloze.values())
    n_shortcut, n_robust = int(parts.shortcut.sum()), int(parts.robust.sum())
    return {
        "benchmark": benchmark(facts.name, held, topic_of, facts.n_quarantined, facts.defects),
        "heuristics": heuristics(
            answers,
            held,
            {**masks, "cloze": parts.cloze},
            dict(zip(("shortcut", "robust"), could, strict=True)),
        ),
        "splits": {
            "all": len(held),
            "shortcut": n_shortcut,
            "robust": n_robust,
            "undecided": len(held) - n_shortcut - n_robust,
            "cloze": None if items is None else int(parts.cloze.sum()),
            "cloze_excluded": {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)},
        },
    }


def _what_models_score(
    answers: Answers, held: ItemIndex, votes: Votes, rules: ScreenRules, parts: Parts, facts: Facts
) -> dict[str, object]:
    names = everyone(answers)
    # A model may have answered in words alone.
    others = [] if facts.free is None else [name for name in facts.free.models if name not in names]
    found = {name: credits(answers, held, name, votes.template, rules) for name in names}
    removed = {name: random_removal(c, parts, is_voter=name in votes.voters) for name, c in found.items()}
    return {
        "accuracy": {
            name: {"is_voter": name in votes.voters, **scored(c, parts), **_free(name, held, parts, facts, c)}
            for name, c in {
                **found,
                **{name: credits(answers, held, name, votes.template, rules) for name in others},
            }.items()
        },
        "pairs": pairs(found, parts, votes.voters),
        "random_removal": {name: r for name, r in removed.items() if r is not None} or None,
        "permutation": permutation(answers, held, names, votes.voters, parts.groups),
        "position_bias": {name: leaning(answers, held, name, parts.groups) for name in names} or None,
        "calibration": calibrated(answers, held, names, parts.groups),
        "label_noise": label_noise(answers, held, found, parts, list_items=facts.named),
    }


def _free(name: str, held: ItemIndex, parts: Parts, facts: Facts, won: Credits) -> dict[str, object]:
    if facts.free is None:
        return {}
    return {"free": free_scores(facts.free, name, held, parts, won["full"])}


def _what_the_filter_did(
    answers: Answers,
    held: ItemIndex,
    votes: Votes,
    rules: Rules,
    facts: Facts,
    items: Sequence[Item] | None,
    parts: Parts,
) -> dict[str, object]:
    topic_of = [facts.topics.get(name, "") or UNNAMED for name in held.items]
    luck = screen_chance(votes, rules.screen, parts.groups)
    margin = rules.limits.residual_margin
    probe = FreshProbe(items, rules.probe)
    compared = (rules.screen, *rules.alternatives)
    return {
        "screen": screen(answers, held, votes, rules.screen, luck, parts.groups, rules.limits.excess_p),
        "topics": topics(topic_of, parts.robust) if any(facts.topics.values()) else None,
        "residual": residual(answers, held, votes, rules.screen, probe, margin),
        "sensitivity": sensitivity(answers, held, compared, votes, probe, parts.groups),
    }
