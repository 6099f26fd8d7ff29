"""Numbers of a run: every part of the summary except the state, and the numbers by item that the run writes."""

from robustify.judging import Judgement
from robustify.judging.context import Context
from robustify.judging.evidence import cue_counts, inference, item_evidence
from robustify.judging.measures import MeasureInput, measures
from robustify.judging.screening import benchmark, other_rules, screen, split_sizes
from robustify.judging.summary.model_parts import Permutation
from robustify.judging.summary.result import Contamination, Residual, Summary
from robustify.judging.summary.screen_parts import Topics


def run_numbers(ctx: Context, audit: Residual | None) -> Judgement:
    """Return the judgment of a run, whose summary has no guardrails and no state yet. Results without answers or texts are
    null. What a run may lack, such as models, is imported if the run has it."""
    responses, parts, was_screened = ctx.responses, ctx.parts, ctx.screen.was_done
    given, evidence = MeasureInput.from_context(ctx), item_evidence(responses, ctx.screen)
    summary = Summary(
        benchmark=benchmark(responses),
        screen=screen(ctx) if was_screened else None,
        splits=split_sizes(responses, parts, ctx.cloze_excluded),
        full_mode=responses.mode,
        models={},
        measures=measures(given),
        permutation=Permutation(by_model={}, cloze_invariance=None),
        calibration={},
        topics=_topics(ctx) if was_screened and any(responses.facts.topics.values()) else None,
        residual=audit,
        sensitivity=other_rules(ctx) if was_screened else (),
        evidence=None if evidence is None else cue_counts(evidence, parts, responses.items),
        inference=None if evidence is None else inference(evidence, parts),
        contamination=_contamination(ctx),
    )
    if not given.models:
        return Judgement(ctx.screen.verdicts, ctx.cloze_excluded, summary, evidence)
    from robustify.judging.model_numbers import with_model_numbers

    summary, analysed = with_model_numbers(summary, given)
    return Judgement(ctx.screen.verdicts, ctx.cloze_excluded, summary, evidence, given.looks, analysed)


def _topics(ctx: Context) -> Topics:
    from robustify.judging.removal_effects import topics

    return topics(ctx.responses.topics, ctx.parts.kept, ctx.parts.groups)


def _contamination(ctx: Context) -> Contamination | None:
    if ctx.responses.facts.overlap is None:
        return None
    from robustify.judging.text_overlap import contamination

    parts, items = ctx.parts, ctx.responses.index.items
    return contamination(ctx.responses.facts.overlap, items, parts.kept, parts.flagged, parts.groups)
