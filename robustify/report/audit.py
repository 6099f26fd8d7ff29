"""What is left after the removal: outside auditors, other rules, faults of the benchmark, guardrails."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from robustify.report.blocks import Block, Bullets, Cell, Column, Line, Mark, Plot, Row, Section, Table, Text
from robustify.report.reading import Quantity, at, number, part, quantity, records, text, texts
from robustify.report.removal import probe_words
from robustify.report.words import (
    ABSENT,
    count_cell,
    number_cell,
    percent,
    plain,
    points_cell,
    rate_cell,
)

Summary = Mapping[str, object]


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
                "own filter. "
                "Left out: a voter judged on the items that the others kept. Held out: a model that "
                "never voted. "
                "The probe is trained afresh on the choices of the items kept, and cross-fitted.",
                quiet=True,
            ),
        ),
    )


def _finding(entry: Mapping[str, object]) -> str:
    word = plain(text(entry.get("verdict"), "no verdict"))
    chance, margin = number(entry.get("chance")), number(entry.get("margin"))
    luck = "Chance was not computed" if chance is None else f"Chance is {percent(chance)}"
    beyond = ABSENT if margin is None else f"{100 * margin:.0f} points"
    return f"The audit's verdict: {word}. {luck}; the margin is {beyond}."


def auditors(entry: Mapping[str, object]) -> Iterator[tuple[str, str, Quantity]]:
    """Every auditor with its kind and its accuracy."""
    for kind, label in (("held_out", "held out"), ("leave_one_out", "left out")):
        for name, rate in part(entry, kind).items():
            yield plain(str(name)), label, quantity(rate)
    voted = entry.get("probe_voted") is True
    yield "probe", "fresh, but a probe voted" if voted else "fresh", quantity(entry.get("probe"))


def residual_plot(summary: Summary) -> Plot | None:
    """The auditors against chance and the margin."""
    entry = part(summary, "residual")
    rows = tuple(
        Row(f"{name}, {kind}", (Mark(q.value, q.lo, q.hi),), percent(q.value))
        for name, kind, q in auditors(entry)
        if q.value is not None
    )
    chance, margin = number(entry.get("chance")), number(entry.get("margin"))
    lines = () if chance is None else (Line(chance, f"chance {percent(chance)}"),)
    if chance is not None and margin is not None:
        lines = (*lines, Line(chance + margin, f"chance + margin {percent(chance + margin)}"))
    title = "Right answers without the question, on the items kept"
    note = "Certified needs every interval left of chance + margin."
    return Plot("residual", title, rows, (("main", "auditor"),), lines, note) if rows else None


def _auditors(entry: Mapping[str, object]) -> Table:
    return Table(
        "The auditors",
        (Column("Auditor", figures=False), Column("Kind", figures=False), Column("Right on the items kept")),
        tuple((Cell(name), Cell(kind), rate_cell(q)) for name, kind, q in auditors(entry)),
        "" if part(entry, "held_out") else "No model was held out of the vote in this run.",
    )


def sensitivity(summary: Summary) -> Section:
    """What other rules would have removed."""
    rules = records(at(summary, "sensitivity"))
    heads = ("Flagged", "Luck", "Excess", "Probe on what is left", "Overlap")
    block: Block = Text("Not measured: no other rule was asked for.", quiet=True)
    if rules:
        block = Table(
            "What each rule would have removed",
            (Column("Rule", figures=False), *(Column(h) for h in heads)),
            tuple(_rule(r) for r in rules),
            "The first row is this run's rule. Overlap with it: items flagged by both over items "
            "flagged by either (Jaccard). Chance under selection: what a probe that knows nothing gets on the "
            "items that this rule leaves.",
        )
    return Section("rules", "Under other rules", "Other rules", (block,))


def _rule(r: Mapping[str, object]) -> tuple[Cell, ...]:
    parts = [text(r.get(key)) for key in ("criterion", "mode", "template")]
    small = ", ".join([*(plain(p) for p in parts if p), probe_words(r)])
    excess = r.get("excess")
    return (
        Cell(plain(text(r.get("name"), "unnamed rule")), small),
        rate_cell(r.get("flagged")),
        count_cell(r.get("expected")),
        points_cell(excess, number(at(excess, "p"))),
        _left(r),
        number_cell(r.get("jaccard"), 2),
    )


def _left(r: Mapping[str, object]) -> Cell:
    cell, chance = rate_cell(r.get("residual_probe")), number(at(r, "residual_probe", "chance"))
    beside = [] if chance is None else [f"chance under selection {percent(chance)}"]
    voted = r.get("probe_vote") in ("with", "alone") and number(at(r, "residual_probe", "value")) is not None
    beside += ["the probe voted: no independent audit"] * voted
    return replace(cell, small=", ".join([*([cell.small] if cell.small else []), *beside]))
