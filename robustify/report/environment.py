"""The templates of the report. Everything that is printed into them is escaped."""

import re
from functools import cache

import jinja2
from markupsafe import Markup

SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~$#])")


@cache
def environment() -> jinja2.Environment:
    """Templates for pages and drawings: every value is escaped, a missing one is an error."""
    return _made(autoescape=True)


@cache
def markdown_environment() -> jinja2.Environment:
    """The template for Markdown, which escapes with a filter of its own."""
    made = _made(autoescape=False)
    made.filters["md"] = markdown
    return made


def _made(autoescape: bool) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("robustify.report", ""),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def markdown(text: str) -> str:
    """Text that GitHub prints as it stands: no markup, no tag, no cell border."""
    return SPECIAL.sub(r"\\\1", text.replace("&", "&amp;")).replace("\n", " ")


def safe(markup: str) -> Markup:
    """Markup that a template of ours has already escaped."""
    return Markup(markup)
