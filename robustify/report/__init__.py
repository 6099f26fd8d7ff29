"""The report of a run: one offline page, its Markdown twin and the figures, printed from the summary alone.

It computes nothing that the summary does not hold, and it holds no text of any item.
"""

from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path

from robustify.report.blocks import Page, Section
from robustify.report.format import as_released, plain
from robustify.report.printing import html, markdown, svg
from robustify.report.sections import (
    benchmark,
    contamination,
    headline,
    method,
    option_order,
    paired,
    removal,
    residual_audit,
    scores,
)
from robustify.summary.result import Summary
from robustify.summary.screened import Benchmark


def render(summary: Summary, provenance: Mapping[str, object]) -> dict[str, str]:
    """The report's files by their path in the run's folder; the same input gives the same text.

    `provenance` may hold versions, models (name to fingerprint), templates (name to sha256), config, data,
    seed, signature, notes, and as `explorer` whether the run has one. Whatever the summary or the provenance lacks is
    said to be absent.
    """
    with as_released(summary.release is not None):
        page = content(summary, provenance)
        figures = {f"figures/{plot.name}.svg": svg(plot) for plot in page.plots}
        return {"report.html": html(page), "report.md": markdown(page), **figures}


def first_screen(summary: Summary, provenance: Mapping[str, object]) -> str:
    """The verdict and the headline numbers as a page in a frame of its own, for a notebook."""
    with as_released(summary.release is not None):
        page = html(replace(content(summary, provenance), sections=()))
    return f'<iframe srcdoc="{escape(page)}" sandbox="" title="robustify" style="width:100%;height:34em;border:0"></iframe>'


def write_report(folder: Path, summary: Summary, provenance: Mapping[str, object]) -> list[Path]:
    """Write report.html, report.md and figures/*.svg into `folder`; the paths written."""
    written = []
    for name, text in render(summary, provenance).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return written


def content(summary: Summary, provenance: Mapping[str, object]) -> Page:
    """The whole report in its order; parts that the summary lacks are said to be absent."""
    signature = summary.signature or provenance.get("signature")
    return Page(
        name=plain((summary.benchmark or Benchmark()).name or "unnamed benchmark"),
        banner=headline.banner(summary),
        tiles=headline.tiles(summary),
        sections=_sections(summary, provenance),
        signature=plain(signature if isinstance(signature, str) and signature else "not signed", 1000),
    )


def _sections(summary: Summary, provenance: Mapping[str, object]) -> tuple[Section, ...]:
    level = headline.level(summary)
    if summary.release is not None and summary.release.too_small:
        # Even the totals are too small to be shown.
        return level
    return (
        *level,
        removal.removed(summary),
        *([contamination.items(summary)] if summary.release is None else []),
        scores.accuracy(summary),
        paired.pairs(summary),
        paired.random_removal(summary),
        benchmark.heuristics(summary),
        option_order.order(summary),
        benchmark.topics(summary),
        residual_audit.residual(summary),
        residual_audit.sensitivity(summary),
        benchmark.findings(summary),
        contamination.label_noise(summary),
        contamination.contamination(summary),
        headline.guardrails(summary),
        paired.calibration(summary),
        method.method(summary, provenance),
        method.reading(provenance),
    )
