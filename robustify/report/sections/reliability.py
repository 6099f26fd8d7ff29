"""Whether a model's probabilities mean what they say, and how far few items alone would make them seem not to."""

from collections.abc import Iterator

from robustify.report.blocks import Cell, Mark, Plot, PlotRow, Section, Table, heads_of, quiet, under
from robustify.report.format import count, count_cell, number_cell, p_value, percent, plain
from robustify.report.sections.paired import voter_cell
from robustify.summary.result import Summary
from robustify.summary.scored import Calibration, CalibrationViews

HOTTEST = 1e3
"""Where the search for a temperature ends: scores found there carry no signal to calibrate."""
FEWEST = 10
"""Items of a bin below which it is not drawn."""
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
        row
        for name, views in (summary.calibration or {}).items()
        for row in under(voter_cell(summary, name), _rows(views))
    )
    title = "Calibration", "Calibration"
    if not rows:
        none = quiet("Not measured: it needs the probabilities of at least 10 answers.")
        return Section("calibration", *title, (none,))
    table = Table("Calibration by model and view", heads_of("Model", "View", *HEADS, words=2), rows, NOTE)
    no_bins = quiet("A reliability plot was not drawn: this run holds no bins.")
    return Section("calibration", *title, (table, reliability_plot(summary) or no_bins))


def _rows(views: CalibrationViews) -> Iterator[tuple[Cell, ...]]:
    for label, e in (("full question", views.full), ("cloze, by characters", views.cloze_chars)):
        if e is not None:
            yield (
                Cell(label),
                number_cell(e.ece, ci=e.ece_ci),
                number_cell(e.ece_if_calibrated, small="" if e.ece_p is None else p_value(e.ece_p)),
                number_cell(e.brier, ci=e.brier_ci),
                _temperature(e.temperature),
                number_cell(e.ece_scaled),
                count_cell(e.n),
            )


def _temperature(x: float | None) -> Cell:
    if x is not None and x >= HOTTEST:
        return Cell("at the bound: not calibratable", f"the search ends at {count(HOTTEST)}", "absent")
    return number_cell(x, 2)


def reliability_plot(summary: Summary) -> Plot | None:
    """How often models are right where they are so sure, on the full question."""
    models = [
        (plain(name), rows)
        for name, views in (summary.calibration or {}).items()
        if (rows := tuple(_bins(views.full)))
    ]
    if not models:
        return None
    cut = f" The first {MOST_DRAWN} of {len(models)} models are drawn." if len(models) > MOST_DRAWN else ""
    return Plot(
        "reliability",
        "How sure models are on the full question, and how often they are right",
        tuple(row for name, rows in models[:MOST_DRAWN] for row in (PlotRow(name), *rows)),
        (("main", "right"), ("before", "sure")),
        note=f"Bars are 95 % intervals; bins of fewer than {FEWEST} items are not drawn. Calibrated means that the "
        f"two dots are one below the other.{cut}",
    )


def _bins(entry: Calibration | None) -> Iterator[PlotRow]:
    bins = (entry or Calibration()).bins or ()
    for i, b in enumerate(bins):
        if b.confidence is not None and b.accuracy is not None and b.n is not None and b.n >= FEWEST:
            edges = f"{100 * i / len(bins):.0f} to {100 * (i + 1) / len(bins):.0f} %"
            marks = (Mark(b.accuracy, b.ci), Mark(b.confidence, kind="before"))
            yield PlotRow(f"sure by {edges}, n = {count(b.n)}", marks, percent(b.accuracy))
