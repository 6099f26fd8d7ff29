"""The report of a run: one offline page, a short Markdown file and the figures, printed from the summary alone.

It computes nothing that the summary does not hold, and it holds no text of any item.
"""

from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path

from robustify.report.blocks import Group, Page
from robustify.report.format import as_released, plain
from robustify.report.opening import opening
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
        page = html(replace(content(summary, provenance), groups=()))
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
    # A restricted run has none, whatever a manifest says.
    explorer = provenance.get("explorer") is True and summary.release is None
    signature = summary.signature or provenance.get("signature")
    return Page(
        name=plain((summary.benchmark or Benchmark()).name or "unnamed benchmark"),
        first=opening(summary, explorer),
        groups=_groups(summary, provenance),
        signature=plain(signature if isinstance(signature, str) and signature else "not signed", 1000),
        explorer=explorer,
    )


def _groups(summary: Summary, provenance: Mapping[str, object]) -> tuple[Group, ...]:
    level = headline.level(summary)
    if summary.release is not None and summary.release.too_small:
        # Even the totals are too small to be shown.
        return (Group("trust", "How far to trust this", "Too little may be shown to judge by.", level),)
    items = (contamination.items(summary),) if summary.release is None else ()
    return (
        Group(
            "removed",
            "What was removed",
            "Items whose options alone give the answer away were set aside; some of them are there by chance.",
            (
                removal.removed(summary),
                removal.voters(summary),
                benchmark.topics(summary),
                residual_audit.sensitivity(summary),
            ),
        ),
        Group(
            "models",
            "How models score",
            "What each model gets right on all items, on those kept, and when it sees no options.",
            (
                scores.accuracy(summary),
                paired.pairs(summary),
                paired.random_removal(summary),
                option_order.order(summary),
                paired.calibration(summary),
            ),
        ),
        Group(
            "cues",
            "What gives items away",
            "Signs in the options, such as a longer right answer, let a test-taker score without knowing the subject.",
            (*items, benchmark.heuristics(summary), benchmark.findings(summary)),
        ),
        Group(
            "trust",
            "How far to trust this",
            "Checks that had no part in the choice of items look for what was missed.",
            (
                *level,
                headline.certified(summary),
                headline.advised(summary),
                residual_audit.residual(summary),
                headline.guardrails(summary),
                contamination.label_noise(summary),
                contamination.contamination(summary),
            ),
        ),
        Group(
            "how",
            "Method",
            "How the numbers were made, with which models and versions, so that anybody can make them again.",
            (method.method(summary, provenance), method.reading(provenance)),
        ),
    )
