"""Whether outside auditors still find shortcuts in what was kept."""

from collections.abc import Iterator
from dataclasses import dataclass

from robustify.report.blocks import (
    Bullets,
    Cell,
    Kind,
    Line,
    Paragraph,
    Plot,
    Section,
    Table,
    heads_of,
    quiet,
)
from robustify.report.format import absent, count, dot, missing, percent, plain, present, rate_cell
from robustify.report.reasons import sentence
from robustify.summary.quantity import Quantity
from robustify.summary.result import Audit, Auditor, Residual, Summary

CONTROL = "control, not an auditor"
HOW = (
    "A voter scores low on the items kept by selection alone, so no voter certifies its "
    "own filter. Left out: a voter judged on the items that the others kept. Did not vote: a model "
    "outside the vote. Linear probe: fitted to a frozen model's vectors of the options, cross-fitted; most "
    "of its power is the fitting, so the same probe on random weights is shown below it. The artifact probe is "
    "trained afresh on the choices of the items kept, and cross-fitted."
)


def residual(summary: Summary) -> Section:
    """Auditors that did not vote, on the items that were kept."""
    entry = present(summary.residual)
    title = "Are shortcuts left?", "Residual audit"
    if entry is None:
        return Section("residual", *title, (quiet("Not measured: nothing audited the items kept."),))
    reasons = tuple(plain(sentence(r), 600) for r in entry.reasons or ())
    return Section.of(
        "residual",
        *title,
        Paragraph(_finding(entry)),
        Bullets(reasons) if reasons else None,
        residual_plot(entry),
        _auditors(entry),
        quiet(HOW),
    )


def _finding(entry: Residual) -> str:
    word = plain(entry.verdict or "no verdict")
    chance = "Chance was not computed" if entry.chance is None else f"Chance is {percent(entry.chance)}"
    beyond = missing() if entry.margin is None else f"{100 * entry.margin:.0f} points"
    return f"The audit's verdict: {word}. {chance}; the margin is {beyond}."


@dataclass(frozen=True, slots=True)
class Audited:
    """One auditor on the items kept; a `control` is there for comparison and has no part in the verdict."""

    name: str
    kind: str
    rate: Quantity | None
    control: bool = False


def audits(entry: Residual) -> Iterator[Audited]:
    """Every auditor, and below each linear probe the same one on random weights."""
    for rows, label in ((entry.non_voters, "did not vote"), (entry.leave_one_out, "left out")):
        for name, auditor in (rows or {}).items():
            yield Audited(plain(name), label, auditor)
    for name, head in (entry.heads or {}).items():
        yield Audited(plain(name), "linear probe", head)
        yield Audited(f"{plain(name)}, random weights", CONTROL, head.control, control=True)
    yield Audited("probe", "fresh, but a probe voted" if entry.probe_voted else "fresh", entry.probe)


def residual_plot(entry: Residual) -> Plot | None:
    """The auditors against chance and the margin."""
    shown = [a for a in audits(entry) if a.rate is not None and a.rate.value is not None]
    rows = tuple(
        row
        for a in shown
        for row in dot(
            a.name if a.control else f"{a.name}, {a.kind}", a.rate, "chance" if a.control else "main"
        )
    )
    if not rows:
        return None
    lines: tuple[Line, ...] = ()
    if entry.chance is not None:
        lines = (Line(entry.chance, f"chance {percent(entry.chance)}"),)
        if entry.margin is not None:
            limit = entry.chance + entry.margin
            lines = (*lines, Line(limit, f"chance + margin {percent(limit)}"))
    controls: tuple[tuple[Kind, str], ...] = (("chance", CONTROL),) if any(a.control for a in shown) else ()
    return Plot(
        "residual",
        "Right answers without the question, on the items kept",
        rows,
        (("main", "auditor"), *controls),
        lines,
        "Certified needs every auditor's interval left of its own chance + margin; its chance is that under "
        "selection, where that is the lower one. The bars are Wilson's; Clopper-Pearson's, a little wider, decide.",
    )


def _auditors(entry: Residual) -> Table:
    note = (
        "Chance under selection: what a picker that knows nothing but picks alike gets right of the items kept; "
        "one that picks as the filter does is never right on them."
    )
    if not entry.non_voters:
        note += " Every model of this run voted."
    if not entry.heads:
        note += " No linear probe was fitted to a frozen model's vectors."
    heads = ("Right on the items kept", "Chance under selection", "Right on all items")
    return Table(
        "The auditors",
        heads_of("Auditor", "Kind", *heads, words=2),
        tuple((Cell(a.name), Cell(a.kind), rate_cell(a.rate), *_beside(a)) for a in audits(entry)),
        note,
    )


def _beside(a: Audited) -> tuple[Cell, Cell]:
    if a.control:
        return absent("not judged by it"), absent("not asked")
    auditor = a.rate if isinstance(a.rate, Auditor) else Auditor()
    return _chance(auditor), rate_cell(auditor.before)


def _chance(auditor: Audit) -> Cell:
    cell = rate_cell(auditor.chance)
    if cell.tone == "absent" or auditor.free is None or auditor.n is None:
        return cell
    return Cell(cell.main, f"free to be right on {count(auditor.free)} of {count(auditor.n)}")
