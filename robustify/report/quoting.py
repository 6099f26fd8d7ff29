"""Number to quote for each model: the score, minus the points of looks if they are claimed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from robustify.judging.measures import CHOICES_ONLY, CLOZE, FULL
from robustify.judging.summary.model_parts import Looks, Quoted, number_to_quote
from robustify.judging.summary.quantity import Interval, Measured, Quantity, Score
from robustify.judging.summary.result import Summary
from robustify.report.format import Cell, Table, bracketed, count, in_points, percent, plain, text_table
from robustify.report.printing import finding
from robustify.report.verdict import Grounds

LONGEST_MODEL = 40
Missing = Literal["", "trial", "by_letter", "guessing", "blind"]
"""Code of why a model has no number to quote, empty if it has one."""
Asked = Literal["full", "cloze", "blind"]
"""View whose score is shown for a model: the full question, or else cloze, or else without the hidden part."""


@dataclass(frozen=True, slots=True)
class Quote:
    """Scores of one model on all items, with its number to quote or, in `missing`, the reason for its absence.

    `full` is the score under its `view`. `blind` is the score without the part that is `hidden`. `looks` says what
    options that look like keys brought. `logged` has the accuracies of an imported log, and `of` counts all items.
    """

    model: str
    full: Score
    blind: Score | None
    looks: Looks | None
    number: Quoted | None
    missing: Missing
    hidden: str
    view: Asked = "full"
    of: int = 0
    logged: Mapping[str, Quantity] = field(default_factory=dict)

    @property
    def stated(self) -> str:
        """Full score and score without the question (n if it differs): `61.7 % full (n = 1,000), 38.6 % without ...`."""
        chance = "" if self.full.chance is None else f", chance {percent(self.full.chance)}"
        view = f"without the {self.hidden}" if self.view == "blind" else self.view
        part = f" of {count(self.of)}" if (self.full.n or 0) < self.of else ""
        unread = finding("unread", self.full, unread=self.unread, ends=self.if_unread) if self.unread else ""
        scored = (
            f"{percent(self.full.value or 0.0)} {view} (n = {count(self.full.n or 0)}{part}{chance}{unread})"
        )
        if self.view == "blind" or self.blind is None or self.blind.value is None:
            return scored
        on = "" if self.blind.n == self.full.n else f" (n = {count(self.blind.n or 0)})"
        return f"{scored}, {percent(self.blind.value)} without the {self.hidden}{on}"

    @property
    def quoted(self) -> str:
        """Number to quote, as in `quote 56.9 % (52.0 to 62.0), score less looks`, or why there is no number."""
        if self.number is None:
            return finding("no_quote", self.full, missing=self.missing)
        kind = "" if self.number.kind == "score" else f", {self.number.kind}"
        return f"quote {_rated(self.number)}{kind}"

    @property
    def unread(self) -> int:
        """Number of items without a readable answer to the full question, which the score leaves out."""
        unread = self.looks.unanswered if self.looks and self.view == "full" else 0
        return min(unread, max(0, self.of - (self.full.n or 0)))

    @property
    def if_unread(self) -> Interval:
        """Scores if all unreadable answers were wrong, and if all were right."""
        n, right = self.full.n or 0, (self.full.n or 0) * (self.full.value or 0.0)
        return right / max(1, n + self.unread), (right + self.unread) / max(1, n + self.unread)

    @property
    def owed(self) -> str:
        """Sentence on the points by looks, with their assumption. It is empty in a run that judges nothing. Cloze
        scores have a sentence on the accuracies of their log instead."""
        if self.view == "cloze":
            return finding("logged", self.full, logged=self.logged, of=self.of)
        if self.missing in ("trial", "by_letter"):
            return ""
        return finding("looks", self.looks, model=plain(self.model, LONGEST_MODEL), full=self.full)

    @property
    def line(self) -> str:
        """Scores, number to quote, and looks as one line of text."""
        return f"{plain(self.model, LONGEST_MODEL)}: {self.stated}; {self.quoted}. {self.owed}".rstrip()

    @property
    def reason(self) -> str:
        """Code for why there is no number to quote, or for why looks are not claimed."""
        reason = self.looks.reason if self.looks else None
        return self.missing or (reason.code.removeprefix("looks_") if reason else "")

    def tree(self) -> dict[str, Any]:
        """Return the quote as JSON values."""
        scores = {view: self.full if view == self.view else None for view in ("full", "cloze")}
        numbers = {
            **scores,
            "without_question": self.blind,
            "quote": self.number,
            "looks": self.looks,
        }
        return {
            "model": self.model,
            **{name: q and {"value": q.value, "n": q.n, "ci": q.ci} for name, q in numbers.items()},
            "unread": self.unread,
            "if_unread": self.if_unread if self.unread else None,
            "logged": {metric: {"value": q.value, "n": q.n} for metric, q in self.logged.items()},
            "chance": self.full.chance,
            "kind": self.number and self.number.kind,
            "looks_state": self.looks and self.looks.state,
            "looks_sources": list(self.looks.sources) if self.looks else [],
            "reason": self.reason or None,
        }


def quotes(s: Summary, g: Grounds) -> tuple[Quote, ...]:
    """Return the number to quote for each model with a score. Models that were asked the full question come first."""
    views: dict[Asked, Mapping[str, Measured]] = {
        "full": FULL.read(s), "cloze": CLOZE.read(s), "blind": CHOICES_ONLY.read(s)
    }  # fmt: skip
    scores: dict[str, tuple[Asked, Score]] = {}
    for view, by_model in views.items():
        for name, parts in by_model.items():
            if parts.all is not None and parts.all.value is not None:
                scores.setdefault(name, (view, parts.all))
    return tuple(_quote(s, g, name, view, score) for name, (view, score) in scores.items())


def _quote(s: Summary, g: Grounds, name: str, view: Asked, full: Score) -> Quote:
    model, blind = s.models[name], CHOICES_ONLY.read(s).get(name, Measured()).all
    looks, missing = model.looks, _missing(g, view, full)
    number = Quoted.from_rate(full, kind="cloze") if view == "cloze" else number_to_quote(full, looks)
    logged = (model.logged or {}) if view == "cloze" else {}
    return Quote(
        name, full, blind, looks, None if missing else number, missing, g.hidden, view, s.splits.all, logged
    )


def _missing(g: Grounds, view: Asked, full: Score) -> Missing:
    if g.trial or g.by_letter:
        return "trial" if g.trial else "by_letter"
    if view == "blind":
        return "blind"
    return "guessing" if full.significant is False else ""


def _rated(q: Quantity) -> str:
    return percent(q.value or 0.0) + bracketed(q.ci)


def quote_table(quotes: Sequence[Quote]) -> Table:
    """Return the numbers to quote as a table with one row per model. Its CSV has every number with its interval and n."""

    def shown(q: Quantity | None) -> Cell | str:
        return "" if q is None or q.value is None else Cell(_rated(q), value=q.value, ends=q.ci, n=q.n)

    def owed(q: Quantity | None) -> Cell | str:
        if q is None or q.value is None:
            return ""
        return Cell(in_points(q.value) + bracketed(q.ci), value=q.value, ends=q.ci, n=q.n)

    metrics = list(dict.fromkeys(metric for quote in quotes for metric in quote.logged))
    several = [*{quote.view for quote in quotes} - {"full"}]
    rows = (
        (Cell(plain(quote.model)), *[quote.view] * bool(several), shown(quote.full),
         Cell(count(quote.full.n or 0), value=quote.full.n), shown(Quantity(value=quote.full.chance)),
         shown(quote.blind), owed(quote.looks),
         ", ".join(quote.looks.sources) if quote.looks else "", quote.looks.state if quote.looks else "", quote.reason,
         shown(quote.number), *(shown(quote.logged.get(metric)) for metric in metrics))
        for quote in quotes
    )  # fmt: skip
    heads = (
        "Model", *["Asked"] * bool(several), "Score", "Items", "Chance", "Without question", "Looks", "Sources", "State",
        "Reason", "Quote", *(f"{metric} of the log" for metric in metrics),
    )  # fmt: skip
    return text_table("The number to quote", heads, rows)
