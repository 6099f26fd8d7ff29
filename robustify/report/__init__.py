"""The report of a run: one offline page, its Markdown twin and the figures, printed from the summary alone.

It computes nothing that the summary does not hold, and it holds no text of any item.
"""

from collections.abc import Mapping
from pathlib import Path

from robustify.report.content import page
from robustify.report.figures import svg
from robustify.report.html import html
from robustify.report.markdown import markdown
from robustify.report.words import released


def render(summary: Mapping[str, object], provenance: Mapping[str, object]) -> dict[str, str]:
    """The report's files by their path in the run's folder; the same input gives the same text.

    `provenance` may hold versions, models (name to fingerprint), templates (name to sha256), config, data,
    seed, signature and notes. Whatever the summary or the provenance lacks is said to be absent.
    """
    with released("release" in summary):
        told = page(summary, provenance)
        figures = {f"figures/{plot.name}.svg": svg(plot) for plot in told.plots}
        return {"report.html": html(told), "report.md": markdown(told), **figures}


def write_report(folder: Path, summary: Mapping[str, object], provenance: Mapping[str, object]) -> list[Path]:
    """Write report.html, report.md and figures/*.svg into `folder`; the paths written."""
    written = []
    for name, text in render(summary, provenance).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return written
