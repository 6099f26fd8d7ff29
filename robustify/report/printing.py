"""Rendering of the templates in this folder.

A page contains its style, figures, and data. It has no script and makes no request. All values are escaped. The same
input gives the same bytes.
"""

import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from robustify.report import cells
from robustify.report.format import AT_LIMIT, FILTERS
from robustify.report.messages import cue_words, finding, sentence

MOST_WORDS = 6
"""Maximum number of words in a cell. The title has the full text."""
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~$#])")


def jinja(package: str, folder: str, *, autoescape: bool) -> jinja2.Environment:
    """Return a strict Jinja environment for one of our folders. The filter `md` escapes Markdown."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(package, folder),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["md"] = in_markdown
    return made


def in_markdown(text: str) -> str:
    """Escape text for GitHub Markdown."""
    return SPECIAL.sub(r"\\\1", text.replace("&", "&amp;")).replace("\n", " ")


@cache
def templates(*, autoescape: bool) -> jinja2.Environment:
    """Return the Jinja environment of the report templates, with our filters and functions."""
    env = jinja("robustify.report", "", autoescape=autoescape)
    env.filters |= {**FILTERS, "sentence": sentence, "short": short}
    made = (finding, cue_words, styles, cells.cell, cells.text_table, cells.value_table)
    env.globals |= {"AT_LIMIT": AT_LIMIT, **{one.__name__: one for one in made}}
    return env


def html(page: str, /, **values: Any) -> str:
    """Render a template as HTML."""
    return templates(autoescape=True).get_template(page).render(**values)


def framed(page: str) -> str:
    """Return a page inside a sandboxed `iframe`."""
    return f'<iframe srcdoc="{escape(page)}" sandbox="" title="robustify" style="width:100%;height:34em;border:0"></iframe>'


def markdown(page: str, /, **values: Any) -> str:
    """Render a template as Markdown or plain text."""
    return templates(autoescape=False).get_template(page).render(**values)


def printed_table(found: cells.Table, form: str) -> str:
    """Return a table in Markdown, LaTeX (for the package booktabs), or CSV. The CSV has each number, its interval and n."""
    if form == "csv":
        return found.csv()
    if form == "markdown":
        return markdown("table.j2", found=found)
    import pandas as pd  # type: ignore[import-untyped]

    rows = [[one.main for one in row] for row in found.rows]
    written: str = pd.DataFrame(rows, columns=[*found.heads]).to_latex(index=False, escape=True)
    return written.replace("\u2212", "$-$").replace("\u2013", "--")


@cache
def styles(*names: str) -> Markup:
    """Return the content of the named style sheets."""
    return Markup("".join((files("robustify.report") / f"{name}.css").read_text("utf-8") for name in names))


def short(words: str) -> str:
    """Shorten a text to six words and an ellipsis."""
    parts = words.split(" ")
    return words if len(parts) <= MOST_WORDS else " ".join(parts[:MOST_WORDS]) + " \u2026"
