"""The order in which a report tells its story; both printings follow it."""

from collections.abc import Mapping

from robustify.report.blocks import Page
from robustify.report.reading import at, text
from robustify.report.sections import (
    audit,
    contamination,
    findings,
    level,
    method,
    noise,
    opening,
    order,
    pairs,
    reliability,
    removal,
    rules,
    scores,
)
from robustify.report.sections import surface as cues
from robustify.report.words import plain


def page(summary: Mapping[str, object], provenance: Mapping[str, object]) -> Page:
    """The whole report of a run; parts that the summary lacks are said to be absent."""
    return Page(
        name=plain(text(at(summary, "benchmark", "name"), "unnamed benchmark")),
        banner=opening.banner(summary),
        tiles=opening.tiles(summary),
        sections=level.alone(summary)
        or (
            *level.level(summary),
            removal.luck(summary),
            scores.accuracy(summary),
            pairs.pairs(summary),
            scores.random_removal(summary),
            cues.heuristics(summary),
            order.order(summary),
            cues.topics(summary),
            audit.residual(summary),
            rules.sensitivity(summary),
            findings.findings(summary),
            noise.label_noise(summary),
            contamination.contamination(summary),
            findings.guardrails(summary),
            reliability.calibration(summary),
            method.method(summary, provenance),
            method.reading(provenance),
        ),
        signature=plain(
            text(at(summary, "signature")) or text(at(provenance, "signature"), "not signed"), 1000
        ),
    )
