"""Whether outside auditors still find shortcuts in what was kept."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from robustify.report.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Kind,
    Line,
    Mark,
    Plot,
    Row,
    Section,
    Table,
    Text,
)
from robustify.report.reading import Quantity, at, number, part, quantity, text, texts, whole
from robustify.report.words import absent, count, missing, percent, plain, rate_cell

Summary = Mapping[str, object]
CONTROL = "control, not an auditor"


def residual(summary: Summary) -> Section:
    """Auditors that did not vote, on the items that were kept."""
    entry = part(summary, "residual")
    if not entry:
        blocks: tuple[Block, ...] = (Text("Not measured: nothing audited the items kept.", quiet=True),)
        return Section("residual", "Are shortcuts left?", "Residual audit", blocks)
    reasons = tuple(plain(r, 600) for r in texts(entry.get("reasons")))
    plot = residual_plot(summary)
    return Section(
        "residual",
        "Are shortcuts left?",
        "Residual audit",
        (
            Text(_finding(entry)),
            *((Bullets(reasons),) if reasons else ()),
            *((plot,) if plot else ()),
            _auditors(entry),
            Text(
                "A voter scores low on the items kept by selection alone, so no voter certifies its "
                "own filter. Left out: a voter judged on the items that the others kept. Held out: a model that "
                "never voted. Linear head: fitted to a frozen model's vectors of the options, cross-fitted; most "
                "of its power is the fitting, so the same head on random weights stands below it. The probe is "
                "trained afresh on the choices of the items kept, and cross-fitted.",
                quiet=True,
            ),
        ),
    )


def _finding(entry: Mapping[str, object]) -> str:
    word = plain(text(entry.get("verdict"), "no verdict"))
    chance, margin = number(entry.get("chance")), number(entry.get("margin"))
    luck = "Chance was not computed" if chance is None else f"Chance is {percent(chance)}"
    beyond = missing() if margin is None else f"{100 * margin:.0f} points"
    return f"The audit's verdict: {word}. {luck}; the margin is {beyond}."


@dataclass(frozen=True, slots=True)
class Auditor:
    """Who answered the items kept; a `control` is there to be compared and is held to nothing."""

    name: str
    kind: str
    entry: object
    control: bool = False

    @property
    def rate(self) -> Quantity:
        """Its accuracy on the items kept."""
        return quantity(self.entry)


def auditors(entry: Mapping[str, object]) -> Iterator[Auditor]:
    """Every auditor, and below each head the same head on random weights."""
    for kind, label in (("held_out", "held out"), ("leave_one_out", "left out")):
        for name, found in part(entry, kind).items():
            yield Auditor(plain(str(name)), label, found)
    for name, found in part(entry, "heads").items():
        yield Auditor(plain(str(name)), "linear head", found)
        yield Auditor(f"{plain(str(name))}, random weights", CONTROL, at(found, "control"), control=True)
    voted = entry.get("probe_voted") is True
    yield Auditor("probe", "fresh, but a probe voted" if voted else "fresh", entry.get("probe"))


def residual_plot(summary: Summary) -> Plot | None:
    """The auditors against chance and the margin."""
    entry = part(summary, "residual")
    found = tuple(auditors(entry))
    rows = tuple(
        Row(
            a.name if a.control else f"{a.name}, {a.kind}",
            (Mark(q.value, q.lo, q.hi, "luck" if a.control else "main"),),
            percent(q.value),
        )
        for a in found
        if (q := a.rate).value is not None
    )
    chance, margin = number(entry.get("chance")), number(entry.get("margin"))
    lines = () if chance is None else (Line(chance, f"chance {percent(chance)}"),)
    if chance is not None and margin is not None:
        lines = (*lines, Line(chance + margin, f"chance + margin {percent(chance + margin)}"))
    title = "Right answers without the question, on the items kept"
    note = (
        "Certified needs every auditor's interval left of its own chance + margin; its chance is that under "
        "selection, where that is the lower one. The bars are Wilson's; Clopper-Pearson's, a little wider, decide."
    )
    legend: tuple[tuple[Kind, str], ...] = (("main", "auditor"),)
    if any(a.control and a.rate.value is not None for a in found):
        legend = (*legend, ("luck", CONTROL))
    return Plot("residual", title, rows, legend, lines, note) if rows else None


def _auditors(entry: Mapping[str, object]) -> Table:
    heads = ("Right on the items kept", "Chance under selection", "Right on all items")
    lacking = [
        said
        for said, kind in (
            ("No model was held out of the vote in this run.", "held_out"),
            ("No head was fitted to a frozen model's vectors.", "heads"),
        )
        if not part(entry, kind)
    ]
    return Table(
        "The auditors",
        (Column("Auditor", figures=False), Column("Kind", figures=False), *(Column(h) for h in heads)),
        tuple(
            (
                Cell(a.name),
                Cell(a.kind),
                rate_cell(a.entry),
                _luck(a),
                absent("not asked") if a.control else rate_cell(at(a.entry, "before")),
            )
            for a in auditors(entry)
        ),
        " ".join(
            [
                "Chance under selection: what somebody who knows nothing but picks alike gets right of the items kept; "
                "who picks as the filter does is never right on them.",
                *lacking,
            ]
        ),
    )


def _luck(a: Auditor) -> Cell:
    if a.control:
        return absent("not held to it")
    cell, free = rate_cell(quantity(at(a.entry, "chance"))), whole(at(a.entry, "free"))
    if cell.tone == "absent" or free is None or a.rate.n is None:
        return cell
    return Cell(cell.main, f"free to be right on {count(free)} of {count(a.rate.n)}")
