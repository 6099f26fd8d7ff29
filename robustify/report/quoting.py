"""The number to quote for each model: its score, less what looks brought if that is claimed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from robustify.judging.measures import CHOICES_ONLY, FULL
from robustify.judging.summary.looks import Looks, Quoted, quoted
from robustify.judging.summary.quantity import Measured, Quantity, Score
from robustify.judging.summary.result import Summary
from robustify.report.advice import Grounds
from robustify.report.format import Cell, Table, between, count, in_points, percent, plain, text_table
from robustify.report.printing import finding

LONGEST_MODEL = 40
Missing = Literal["", "trial", "by_letter", "guessing"]
"""Code of why a model has no number to quote, empty if it has one."""


@dataclass(frozen=True, slots=True)
class Quote:
    """Scores of one model on all items, and the number to quote for it, or why there is none (`missing`).

    `blind` is the score without the part that is `hidden`. `looks` says what options that look like keys brought.
    """

    model: str
    full: Score
    blind: Score | None
    looks: Looks | None
    number: Quoted | None
    missing: Missing
    hidden: str

    @property
    def known(self) -> str:
        """Full score and score without the question: `61.7 % full (n = 1,000, chance 25.0 %), 38.6 % without ...`."""
        chance = "" if self.full.chance is None else f", chance {percent(self.full.chance)}"
        scored = f"{percent(self.full.value or 0.0)} full (n = {count(self.full.n or 0)}{chance})"
        if self.blind is None or self.blind.value is None:
            return scored
        return f"{scored}, {percent(self.blind.value)} without the {self.hidden}"

    @property
    def quoted(self) -> str:
        """Number to quote: `quote 56.9 % (52.0 to 62.0), score less looks`, or why there is none."""
        if self.number is None:
            return finding("no_quote", self.full, missing=self.missing)
        kind = "" if self.number.kind == "score" else f", {self.number.kind}"
        return f"quote {_rated(self.number)}{kind}"

    @property
    def owed(self) -> str:
        """Sentence on what looks brought, with its assumption. Empty in a run that judges nothing."""
        if self.missing in ("trial", "by_letter"):
            return ""
        return finding("looks", self.looks, model=plain(self.model, LONGEST_MODEL), full=self.full)

    @property
    def line(self) -> str:
        """Scores, number to quote, and looks as one line of text."""
        return f"{plain(self.model, LONGEST_MODEL)}: {self.known}; {self.quoted}. {self.owed}".rstrip()

    @property
    def reason(self) -> str:
        """Short code of why there is no number to quote, or of why looks are not claimed."""
        reason = self.looks.reason if self.looks else None
        return self.missing or (reason.code.removeprefix("looks_") if reason else "")

    def tree(self) -> dict[str, Any]:
        """Return the quote as JSON values."""
        numbers = {
            "full": self.full,
            "without_question": self.blind,
            "quote": self.number,
            "looks": self.looks,
        }
        return {
            "model": self.model,
            **{name: q and {"value": q.value, "n": q.n, "ci": q.ci} for name, q in numbers.items()},
            "chance": self.full.chance,
            "kind": self.number and self.number.kind,
            "looks_state": self.looks and self.looks.state,
            "looks_sources": list(self.looks.sources) if self.looks else [],
            "reason": self.reason or None,
        }


def quotes(s: Summary, g: Grounds) -> tuple[Quote, ...]:
    """Return the number to quote for each model that was asked the full question."""
    return tuple(
        _quote(s, g, name, parts.all)
        for name, parts in FULL.of(s).items()
        if parts.all is not None and parts.all.value is not None
    )


def _quote(s: Summary, g: Grounds, name: str, full: Score) -> Quote:
    looks, blind = s.models[name].looks, CHOICES_ONLY.of(s).get(name, Measured()).all
    missing: Missing = ""
    if g.trial or g.by_letter:
        missing = "trial" if g.trial else "by_letter"
    elif full.significant is False:
        missing = "guessing"
    return Quote(name, full, blind, looks, None if missing else quoted(full, looks), missing, g.hidden)


def _rated(q: Quantity) -> str:
    return percent(q.value or 0.0) + (f" ({between(q.ci)})" if q.ci else "")


def quote_table(found: Sequence[Quote]) -> Table:
    """Return the numbers to quote as a table with one row per model. Its CSV has every number with its interval and n."""

    def shown(q: Quantity | None) -> Cell | str:
        return "" if q is None or q.value is None else Cell(_rated(q), value=q.value, ends=q.ci, n=q.n)

    def owed(q: Quantity | None) -> Cell | str:
        if q is None or q.value is None:
            return ""
        ends = f" ({between(q.ci)})" if q.ci else ""
        return Cell(in_points(q.value) + ends, value=q.value, ends=q.ci, n=q.n)

    rows = (
        (Cell(plain(one.model)), shown(one.full), Cell(count(one.full.n or 0), value=one.full.n),
         shown(Quantity(value=one.full.chance)), shown(one.blind), owed(one.looks),
         ", ".join(one.looks.sources) if one.looks else "", one.looks.state if one.looks else "", one.reason,
         shown(one.number))
        for one in found
    )  # fmt: skip
    heads = (
        "Model", "Score", "Items", "Chance", "Without question", "Looks", "Sources", "State", "Reason", "Quote"
    )  # fmt: skip
    return text_table("The number to quote", heads, rows)
