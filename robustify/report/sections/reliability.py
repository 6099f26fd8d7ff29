"""Whether a model's probabilities mean what they say, and how far few items alone would make them seem not to."""

from collections.abc import Iterator, Mapping

from robustify.report.blocks import Block, Cell, Column, Mark, Plot, Row, Section, Table, Text
from robustify.report.reading import named, number, part, quantity, records, whole
from robustify.report.words import (
    again,
    between,
    count,
    count_cell,
    model_cell,
    number_cell,
    p_value,
    percent,
    plain,
)

Summary = Mapping[str, object]
Entry = Mapping[str, object]
HOTTEST = 1e3
"""Where the search for a temperature ends: scores found there carry no signal to calibrate."""
FEWEST = 10
"""Items a bin must hold to be drawn."""
MOST_DRAWN = 4
HEADS = ("ECE", "If calibrated", "Brier", "Temperature", "ECE, scaled", "Items")
NOTE = (
    "ECE: the expected calibration error in 15 bins, which on few items is never 0. If calibrated: what it would be "
    "on as many items were every probability true, and how often that gives as much. Brier: summed over the "
    "options, 0 to 2. Temperature scaling is for calibration only: it cannot change which option is best."
)


def calibration(summary: Summary) -> Section:
    """Calibration by model and view."""
    rows = tuple(
        (
            again(_named(summary, name)) if i else _named(summary, name),
            Cell("full question" if view == "full" else "cloze, by characters"),
            _with_ends(e, "ece"),
            _if_calibrated(e),
            _with_ends(e, "brier"),
            _temperature(e.get("temperature")),
            number_cell(e.get("ece_scaled")),
            count_cell(e.get("n")),
        )
        for name, views in named(summary, "calibration")
        for i, (view, e) in enumerate(named(views))
    )
    blocks: list[Block] = [
        Text("Not measured: it needs the probabilities of at least 10 answers.", quiet=True)
    ]
    if rows:
        columns = (Column("Model", figures=False), Column("View", figures=False), *(Column(h) for h in HEADS))
        plot = reliability_plot(summary)
        drawn: Block = plot or Text("A reliability plot was not drawn: this run holds no bins.", quiet=True)
        blocks = [Table("Calibration by model and view", columns, rows, NOTE), drawn]
    return Section("calibration", "Calibration", "Calibration", tuple(blocks))


def _named(summary: Summary, name: str) -> Cell:
    return model_cell(name, part(summary, "accuracy", name))


def _with_ends(entry: Entry, name: str) -> Cell:
    cell, ends = number_cell(entry.get(name)), quantity({"value": 0, "ci": entry.get(f"{name}_ci")})
    if cell.tone == "absent" or ends.lo is None or ends.hi is None:
        return cell
    return Cell(cell.main, between(ends.lo, ends.hi, 1.0, 3))


def _if_calibrated(entry: Entry) -> Cell:
    cell, p = number_cell(entry.get("ece_if_calibrated")), number(entry.get("ece_p"))
    return cell if cell.tone == "absent" or p is None else Cell(cell.main, p_value(p))


def _temperature(x: object) -> Cell:
    found = number(x)
    if found is not None and found >= HOTTEST:
        return Cell("at the bound: not calibratable", f"the search ends at {count(HOTTEST)}", "absent")
    return number_cell(x, 2)


def reliability_plot(summary: Summary) -> Plot | None:
    """How often models are right where they are so sure, on the full question."""
    bins = [
        (plain(name), rows)
        for name, views in named(summary, "calibration")
        if (rows := tuple(_bins(part(views, "full"))))
    ]
    if not bins:
        return None
    cut = f" The first {MOST_DRAWN} of {len(bins)} models are drawn." if len(bins) > MOST_DRAWN else ""
    return Plot(
        "reliability",
        "How sure models are on the full question, and how often they are right",
        tuple(row for name, rows in bins[:MOST_DRAWN] for row in (Row(name), *rows)),
        (("main", "right"), ("before", "sure")),
        note=f"Bars are 95 % intervals; bins of fewer than {FEWEST} items are not drawn. Calibrated means that the "
        f"two dots stand one below the other.{cut}",
    )


def _bins(entry: Entry) -> Iterator[Row]:
    bins = records(entry.get("bins"))
    for i, b in enumerate(bins):
        sure, n = number(b.get("confidence")), whole(b.get("n"))
        right = quantity({"value": b.get("accuracy"), "ci": b.get("ci")})
        if sure is None or right.value is None or n is None or n < FEWEST:
            continue
        edges = f"{100 * i / len(bins):.0f} to {100 * (i + 1) / len(bins):.0f} %"
        marks = (Mark(right.value, right.lo, right.hi), Mark(sure, kind="before"))
        yield Row(f"sure by {edges}, n = {count(n)}", marks, percent(right.value))
