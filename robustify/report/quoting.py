"""The number to quote for each model: its full score, its score without the question, and the score that holds.

A robust or an adjusted score may be quoted. If a model has neither, the reason names the evidence that gets one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from robustify.judging.measures import ADJUSTED, CHOICES_ONLY, FULL, TEST_TAKING, Measure
from robustify.judging.stats.tests import items_to_detect
from robustify.judging.summary.quantity import Measured, Quantity, Score
from robustify.judging.summary.result import Summary
from robustify.report.advice import Grounds
from robustify.report.cells import Cell, Table, text_table
from robustify.report.format import between, count, in_points, percent, plain
from robustify.report.messages import finding
from robustify.report.recommending import UNSEEN


@dataclass(frozen=True, slots=True)
class Quote:
    """Scores of one model on all items, and the number to quote.

    `how` says of what kind `number` is: adjusted, partly adjusted, on robust items, or on all items. Without a number,
    `missing` is the reason. `blind` is the score without the part that is `hidden`. `test_taking` are the points that the
    listed cues earn, None unless they are significant.
    """

    model: str
    full: Score
    blind: Score | None
    number: Quantity | None
    how: str
    test_taking: Score | None
    missing: str
    hidden: str

    @property
    def known(self) -> str:
        """Full score and score without the question: `61.7 % full (n = 1,000, chance 25.0 %), 38.6 % without ...`."""
        chance = "" if self.full.chance is None else f", chance {percent(self.full.chance)}"
        said = f"{percent(self.full.value or 0.0)} full (n = {count(self.full.n or 0)}{chance})"
        if self.blind is None or self.blind.value is None:
            return said
        return f"{said}, {percent(self.blind.value)} without the {self.hidden}"

    @property
    def quoted(self) -> str:
        """Number to quote: `quote 56.9 % (52.0 to 62.0), adjusted`. Empty if there is none."""
        return "" if self.number is None else f"quote {_rated(self.number)}, {self.how}"

    @property
    def points(self) -> str:
        """Sentence on the points of test-taking. Empty if they are not significant."""
        q = self.test_taking
        if q is None or q.value is None or q.ci is None:
            return ""
        return f"At least {in_points(q.value)} ({between(q.ci)}) are test-taking."

    @property
    def line(self) -> str:
        """All of it in one line."""
        parts = (f"{plain(self.model, 40)}: {self.known}; {self.quoted or self.missing}.", self.points)
        return " ".join(filter(None, parts))

    def tree(self) -> dict[str, Any]:
        """Return the quote as JSON values."""
        numbers = {
            "full": self.full, "without_question": self.blind, "quote": self.number, "test_taking": self.test_taking
        }  # fmt: skip
        return {
            "model": self.model,
            **{name: q and {"value": q.value, "n": q.n, "ci": q.ci} for name, q in numbers.items()},
            "chance": self.full.chance,
            "how": self.how or None,
            "missing": self.missing or None,
        }


def quotes(s: Summary, g: Grounds) -> tuple[Quote, ...]:
    """Return the quote of each model that was asked the full question."""
    return tuple(
        _quote(s, g, name, parts)
        for name, parts in FULL.of(s).items()
        if parts.all is not None and parts.all.value is not None
    )


def _quote(s: Summary, g: Grounds, name: str, parts: Measured) -> Quote:
    blind, weighted, earned = (_all(s, measure, name) for measure in (CHOICES_ONLY, ADJUSTED, TEST_TAKING))
    full, voter = parts.all or Score(), s.models[name].is_voter
    number, how, missing = None, "", ""
    if g.trial or g.by_letter or full.significant is False:
        missing = finding("no_quote", s, g=g, guessing=full.significant is False)
    elif g.state == "passed" and not (g.flagged and voter):
        number, how = (parts.kept, "robust items") if g.flagged else (full, "all items")
    elif weighted is not None and weighted.value is not None and s.adjustment:
        number, how = weighted, s.adjustment.status
    else:
        missing = finding("no_quote", s, g=g, guessing=False, **_lacking(s, g))
    significant = earned is not None and earned.ci is not None and earned.ci[0] > 0
    hidden = s.screen.hidden if s.screen else "question"
    return Quote(name, full, blind, number, how, earned if significant else None, missing, hidden)


def _all(s: Summary, measure: Measure, name: str) -> Score | None:
    return measure.of(s).get(name, Measured()).all


def _lacking(s: Summary, g: Grounds) -> dict[str, Any]:
    """Return the numbers of items that an adjusted score and an audit of the kept items need, None if items do not help."""
    reason, audit = s.adjustment.reason if s.adjustment else None, s.residual
    few = reason is not None and reason.code == "worth_few"
    params = reason.params if reason and few else {}
    n, worth, limit = (float(str(params.get(name, 0))) for name in ("n", "worth", "limit"))
    kept = items_to_detect(audit.chance, audit.margin) if audit and audit.chance else None
    return {
        "items": math.ceil(n * limit / worth) if worth else None,
        "kept": kept if kept and kept > (g.kept or 0) else None,
        "unseen": bool(UNSEEN & g.reasons.keys()) or g.state == "passed",
    }


def _rated(q: Quantity) -> str:
    return percent(q.value or 0.0) + (f" ({between(q.ci)})" if q.ci else "")


def quote_table(found: Sequence[Quote]) -> Table:
    """Return the quotes as a table of one row per model. Its CSV has every number with its interval and n."""

    def shown(q: Quantity | None) -> Cell | str:
        return "" if q is None or q.value is None else Cell(_rated(q), value=q.value, ends=q.ci, n=q.n)

    def by_chance(one: Quote) -> Cell | str:
        chance = one.full.chance
        return "" if chance is None else Cell(percent(chance), value=chance)

    rows = (
        (Cell(plain(one.model)), shown(one.full), Cell(count(one.full.n or 0), value=one.full.n), by_chance(one),
         shown(one.blind), shown(one.number), one.how or one.missing, shown(one.test_taking))
        for one in found
    )  # fmt: skip
    heads = ("Model", "Full", "Items", "Chance", "Without question", "Quote", "As", "Test-taking, at least")
    return text_table("The number to quote", heads, rows)


def options_worth(read: Quantity | None) -> Quantity | None:
    """Return the effective number of options: one over the accuracy of a reader who never sees a question."""
    if read is None or not read.value:
        return None
    ends = None if read.ci is None or not read.ci[0] else (1 / read.ci[1], 1 / read.ci[0])
    return Quantity(value=1 / read.value, n=read.n, ci=ends)
