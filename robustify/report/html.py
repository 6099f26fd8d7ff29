"""Prints a report as one offline HTML page: style and drawings inline, no script, nothing fetched."""

from importlib.resources import files

from robustify.report.blocks import Page, Plot
from robustify.report.environment import environment, safe
from robustify.report.figures import NARROW, WIDE, Layout, svg


def html(page: Page) -> str:
    """The page; the same page gives the same bytes."""
    styles = "".join(
        (files("robustify.report") / name).read_text("utf-8")
        for name in ("palette.css", "plot.css", "style.css")
    )
    drawings = {
        plot.name: tuple(safe(_inline(plot, layout)) for layout in (WIDE, NARROW)) for plot in page.plots
    }
    return (
        environment().get_template("page.html.j2").render(page=page, styles=safe(styles), drawings=drawings)
    )


def _inline(plot: Plot, layout: Layout) -> str:
    return svg(plot, layout, alone=False)
