"""Prints a report as GitHub-flavoured Markdown: the same blocks as the page, with links to the figures."""

from robustify.report.blocks import Page
from robustify.report.environment import markdown_environment


def markdown(page: Page) -> str:
    """The text of report.md."""
    return markdown_environment().get_template("report.md.j2").render(page=page)
