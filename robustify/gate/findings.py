"""What a scan found, and how it is told: a path, a line, a rule and counts.

Never an excerpt, a key name, a digest of the text or the place of an item in its set: messages end up in logs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from robustify.gate.rules import Rule


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that matched in one place. `line` counts from 1; `says` holds counts and fixed words only."""

    path: str
    line: int
    rule: Rule
    says: str

    def told(self) -> str:
        """The one line that a person reads."""
        return f"{shown(self.path)}:{self.line}: {self.rule.id} {self.rule.name} {self.says}"

    def as_json(self) -> dict[str, object]:
        """The same for a program."""
        return {
            "path": shown(self.path),
            "line": self.line,
            "rule": self.rule.id,
            "name": self.rule.name,
            "layer": self.rule.layer,
            "refuses": self.rule.refuses,
            "says": self.says,
        }


def shown(text: str) -> str:
    """Text without what could steer a terminal or fake a line: everything unprintable is escaped."""
    return "".join(
        c if c.isprintable() and not "\ud800" <= c <= "\udfff" else c.encode("unicode_escape").decode()
        for c in text
    )


def refused(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that refuse; the others are warnings."""
    return [finding for finding in findings if finding.rule.refuses]
