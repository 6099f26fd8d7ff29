"""Prints a report: one offline HTML page, GitHub-flavoured Markdown of the same blocks, and its figures.

The page has style and drawings inline, no script, and fetches nothing. Everything that is printed into a template is
escaped. The same page gives the same bytes.
"""

import re
from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup

from robustify.report.blocks import Page, Plot
from robustify.report.figures import NARROW, WIDE, PlotSize, placed

SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~$#])")


def environment(package: str, folder: str, *, autoescape: bool) -> jinja2.Environment:
    """Templates of a folder of ours; a missing value is an error, and the filter `md` escapes Markdown."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(package, folder),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["md"] = escaped
    return made


def escaped(text: str) -> str:
    """Text that GitHub prints as it is: no markup, no tag, no cell border."""
    return SPECIAL.sub(r"\\\1", text.replace("&", "&amp;")).replace("\n", " ")


@cache
def _templates(autoescape: bool) -> jinja2.Environment:
    return environment("robustify.report", "", autoescape=autoescape)


@cache
def _styles(*names: str) -> Markup:
    return Markup("".join((files("robustify.report") / f"{name}.css").read_text("utf-8") for name in names))


def html(page: Page) -> str:
    """The text of report.html."""
    drawings = {
        plot.name: tuple(Markup(svg(plot, layout, alone=False)) for layout in (WIDE, NARROW))
        for plot in page.plots
    }
    return (
        _templates(True)
        .get_template("page.html.j2")
        .render(page=page, styles=_styles("palette", "plot", "style"), drawings=drawings)
    )


def markdown(page: Page) -> str:
    """The text of report.md."""
    return _templates(False).get_template("report.md.j2").render(page=page)


def svg(plot: Plot, layout: PlotSize = WIDE, *, alone: bool = True) -> str:
    """The plot as an SVG document; `alone` brings light and dark colours, else the page's are used."""
    styles = _styles("palette", "plot") if alone else ""
    return _templates(True).get_template("plot.svg.j2").render(d=placed(plot, layout), styles=styles)
