"""What is at the head of everything that is exported: which benchmark, which recipe, what to beware of.

Names come from files that others wrote, so a head is made of single printable lines; it refuses to carry a line break
or a control character into a comment, a docstring or a page.
"""

from dataclasses import dataclass

from robustify.report.format import plain

LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Heading:
    """The benchmark's name, the run's signature, and why the export should not be used ("" where it may be)."""

    benchmark: str
    signature: str
    warning: str = ""

    def lines(self, says: str, *more: str) -> list[str]:
        """The head as single lines: what it is, the warning where there is one, more, the signature."""
        warning = [f"WARNING: {self.warning}"] if self.warning else []
        lines = [f"{self.benchmark}: {says}", *warning, *more, f"Signature: {self.signature}"]
        return [one_line(line) for line in lines]


def one_line(text: str) -> str:
    """A text that cannot end a comment: no line break, no control character."""
    return plain(text, LONGEST)


def commented(lines: list[str]) -> str:
    """Lines as comments of YAML or Python."""
    return "".join(f"# {one_line(line)}\n" for line in lines)
