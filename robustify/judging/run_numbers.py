"""Numbers of a run: every part of its summary but its state, and what the run writes by item."""

from collections.abc import Mapping
from dataclasses import dataclass

from robustify.judging.accuracy import calibrations, pairs
from robustify.judging.audit.item_analysis import AnalysedItems, item_analysis, label_noise
from robustify.judging.context import Context
from robustify.judging.evidence import ItemEvidence, cue_counts, inference, item_evidence
from robustify.judging.looks.estimate import Estimate
from robustify.judging.measures import MeasureInput, measures
from robustify.judging.positions import permutation, position_bias
from robustify.judging.removal_effects import random_removal, topics
from robustify.judging.screening import benchmark, other_rules, screen, split_sizes
from robustify.judging.summary.model_parts import Model
from robustify.judging.summary.result import Residual, Summary
from robustify.judging.text_overlap import contamination


@dataclass(frozen=True, eq=False)
class RunNumbers:
    """Summary without guardrails and state, and the numbers by item: the evidence, the looks of each model, and the item
    analysis, which needs five models."""

    summary: Summary
    evidence: ItemEvidence | None
    looks: Mapping[str, Estimate]
    analysed: AnalysedItems | None


def run_numbers(ctx: Context, audit: Residual | None) -> RunNumbers:
    """Compute the numbers of a run. Results without answers or texts are null."""
    responses, parts, voters, was_screened = ctx.responses, ctx.parts, ctx.screen.voters, ctx.screen.was_done
    given = MeasureInput.from_context(ctx)
    credits, evidence = given.credits, item_evidence(responses, ctx.screen)
    analysed = item_analysis(responses, parts, credits)
    full_rows = {name: responses.first_rows(responses.full, name) for name in responses.models}
    removals = {m: random_removal(credits[m], parts, is_voter=m in voters) for m in responses.models}
    has_topics = was_screened and any(responses.facts.topics.values())
    summary = Summary(
        benchmark=benchmark(responses),
        screen=screen(ctx) if was_screened else None,
        splits=split_sizes(responses, parts, ctx.cloze_excluded),
        full_mode=responses.mode,
        models={name: _model(name, ctx, given) for name in credits},
        measures=measures(given),
        pairs=pairs(responses.models, voters, parts, credits, given.looks),
        random_removal={name: row for name, row in removals.items() if row is not None} or None,
        permutation=permutation(responses, voters),
        position_bias={m: position_bias(rows, responses.row_groups(rows)) for m, rows in full_rows.items()}
        or None,
        calibration=calibrations(responses, parts),
        topics=topics(responses.topics, parts.kept, parts.groups) if has_topics else None,
        residual=audit,
        sensitivity=other_rules(ctx) if was_screened else (),
        evidence=None if evidence is None else cue_counts(evidence, parts, responses.items),
        inference=None if evidence is None else inference(evidence, parts),
        label_noise=label_noise(responses, parts, credits, analysed),
        item_analysis=None if analysed is None else analysed.part,
        contamination=contamination(
            responses.facts.overlap, responses.index.items, parts.kept, parts.flagged, parts.groups
        ),
    )
    return RunNumbers(summary, evidence, given.looks, analysed)


def _model(name: str, ctx: Context, given: MeasureInput) -> Model:
    return Model(
        is_voter=name in ctx.screen.voters,
        looks=looks.part if (looks := given.looks.get(name)) else None,
        free=free.facts if (free := given.free.get(name)) else None,
        logged=ctx.responses.facts.logged.get(name),
    )
