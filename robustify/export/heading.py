"""The head of everything that is exported: comment lines of a task file, the title of a card.

Names come from files that others wrote, so a head is made of single printable lines: no line break and no control
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
    """The benchmark's name, the run's signature, and why the export should not be used ("" if it may be)."""

    benchmark: str
    signature: str
    warning: str = ""

    def lines(self, says: str, *more: str) -> list[str]:
        """Return the head as single lines: what it is, the warning if there is one, `more`, the signature."""
        warning = [f"WARNING: {self.warning}"] if self.warning else []
        lines = [f"{self.benchmark}: {says}", *warning, *more, f"Signature: {self.signature}"]
        return [one_line(line) for line in lines]


def one_line(text: str) -> str:
    """Return a text that cannot end a comment: without line breaks and control characters."""
    return plain(text, LONGEST)


def commented(lines: list[str]) -> str:
    """Return lines as comments of YAML or Python."""
    return "".join(f"# {one_line(line)}\n" for line in lines)
