"""Judging of answers: verdicts, splits, numbers with intervals, guardrails and the state of the run.

A judgement is a pure function of answers and rules, and needs no model. Results without answers are null in the summary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.judging.accuracy import pairs
from robustify.judging.adjusted import Balanced
from robustify.judging.audit.contamination import contamination
from robustify.judging.audit.item_analysis import AnalysedItems, item_analysis, label_noise
from robustify.judging.audit.residual import residual
from robustify.judging.calibration import calibrations
from robustify.judging.context import Facts, Rules, context
from robustify.judging.evidence import Evidence, cue_counts, evidence, inference
from robustify.judging.guardrails import guardrails, run_state, trial_run
from robustify.judging.measures import MeasureInput, measures
from robustify.judging.positions import permutation, position_biases
from robustify.judging.removal_effects import random_removal, topics
from robustify.judging.screen.consensus import Verdicts
from robustify.judging.screening import benchmark, other_rules, screen, split_sizes
from robustify.judging.summary.result import Summary
from robustify.judging.summary.scored import Model


@dataclass(frozen=True)
class Judgement:
    """Result of judging a run. `cloze_excluded` gives the reasons of items excluded from cloze, by ID.

    `balance` has the weights of the adjusted score, unless they are withheld. `analysed` needs five models.
    """

    verdicts: Verdicts
    cloze_excluded: Mapping[str, str]
    summary: Summary
    evidence: Evidence | None = None
    balance: Balanced | None = None
    analysed: AnalysedItems | None = None


def judge(answers: Answers, facts: Facts, rules: Rules, items: Sequence[Item] | None = None) -> Judgement:
    """Judge the answers. Without `items`, as for an imported log, results that need text are null. Raise `UsageError`
    if the rules name voters or a template that the answers do not contain, and `DataError` if rows contradict each
    other or the items."""
    ctx = context(answers, facts, rules, items)
    judged = MeasureInput.of(ctx)
    credits, found, balance = judged.credits, evidence(ctx), judged.balance
    analysed = item_analysis(ctx, credits)
    parts, voters, has_topics = ctx.parts, ctx.votes.voters, any(ctx.facts.topics.values())
    removals = {m: random_removal(credits[m], parts, is_voter=m in voters) for m in ctx.names}
    summary = Summary(
        benchmark=benchmark(ctx),
        screen=screen(ctx) if ctx.was_screened else None,
        splits=split_sizes(ctx),
        full_mode=ctx.mode,
        adjustment=None if balance is None else balance.part,
        models={
            name: Model(is_voter=name in voters, free=free.facts if free else None)
            for name, free in ((name, judged.free.get(name)) for name in credits)
        },
        measures=measures(judged),
        pairs=pairs(ctx, credits, balance),
        random_removal={name: row for name, row in removals.items() if row is not None} or None,
        permutation=permutation(ctx),
        position_bias=position_biases(ctx) or None,
        calibration=calibrations(ctx),
        topics=topics(ctx.topic_of, parts.kept, parts.groups) if ctx.was_screened and has_topics else None,
        residual=residual(ctx) if ctx.was_screened else None,
        sensitivity=other_rules(ctx) if ctx.was_screened else (),
        evidence=None if found is None else cue_counts(found, ctx.parts.flagged, ctx.items),
        inference=None if found is None else inference(found, ctx.parts.flagged),
        label_noise=label_noise(ctx, credits, analysed),
        item_analysis=None if analysed is None else analysed.part,
        contamination=contamination(ctx),
    )
    limits = ctx.rules.limits
    checks, trial = guardrails(summary, limits), trial_run(summary, limits, part=ctx.rules.part)
    placed = any(check.name == "voters_by_position" and check.state == "failed" for check in checks)
    if summary.residual and (trial or placed):
        # The audit of a run that is not evaluated is not evaluated either.
        audit = summary.residual.model_copy(update={"state": "not evaluated"})
        summary = summary.model_copy(update={"residual": audit})
        checks = guardrails(summary, limits)
    tested = [name for name in ctx.rules.under_test if name in voters and ctx.was_screened]
    state, reasons = run_state(summary.residual, checks, tested, trial)
    return Judgement(
        ctx.verdicts,
        ctx.cloze_excluded,
        summary.model_copy(update={"guardrails": checks, "state": state, "reasons": reasons}),
        found,
        None if balance is None or balance.scored is None else balance,
        analysed,
    )
