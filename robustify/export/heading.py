"""Headings of exported files: comment lines of a task file, or the title of a card.

Names come from files of other authors. Headings are therefore single printable lines, so that no line break or control
character gets into a comment, a docstring or a page.
"""

from dataclasses import dataclass

from robustify.report.format import plain, rate
from robustify.report.printing import environment

LONGEST = 2000
ENVIRONMENT = environment("robustify.export", "templates", autoescape=False)
ENVIRONMENT.filters |= {"plain": plain, "rate": rate}


@dataclass(frozen=True, slots=True)
class Heading:
    """Benchmark name, run signature, and a warning if the export should not be used (otherwise "")."""

    benchmark: str
    signature: str
    warning: str = ""

    def lines(self, says: str, *more: str) -> list[str]:
        """Return the lines of the heading: description, warning if there is one, `more`, and signature."""
        warning = [f"WARNING: {self.warning}"] if self.warning else []
        lines = [f"{self.benchmark}: {says}", *warning, *more, f"Signature: {self.signature}"]
        return [one_line(line) for line in lines]


def one_line(text: str) -> str:
    """Remove line breaks and control characters from a text, so that it cannot end a comment."""
    return plain(text, LONGEST)


def commented(lines: list[str]) -> str:
    """Format lines as YAML or Python comments."""
    return "".join(f"# {one_line(line)}\n" for line in lines)
