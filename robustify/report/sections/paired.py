"""Two models on the same items, Robust against random removals, and whether probabilities mean what they say."""

from collections.abc import Iterator, Sequence

from robustify.report.blocks import Cell, Mark, Plot, PlotRow, Row, Section, Table, text_table, under
from robustify.report.format import (
    absent,
    count,
    count_cell,
    counted,
    model_cell,
    number_cell,
    p_before,
    p_cell,
    p_value,
    percent,
    plain,
    points_cell,
    power,
    rate_cell,
    spaced,
)
from robustify.summary.quantity import Quantity
from robustify.summary.result import Summary
from robustify.summary.scored import (
    Accuracy,
    ByDecoys,
    Calibration,
    CalibrationViews,
    Pair,
    PairOnAll,
    PairOnRobust,
)

VIEWS = (("full", "full question"), ("cloze_chars", "cloze"))
MOST_PAIRS = 15
REMOVAL_HEADS = ("On Robust", "After random removals", "Percentile", "p", "On flagged items", "Were all flags chance",
                 "p by decoys")  # fmt: skip
HEADS = ("Only the first right", "Only the second right", "First less second", "p, Holm")
Leaf = PairOnAll | PairOnRobust
Pairs = Sequence[tuple[str, Pair]]


def pairs(summary: Summary) -> Section:
    """Every pair of models on All and Robust."""
    found = list((summary.pairs or {}).items())
    title = "Which models differ?"
    if not found:
        return Section.of(
            "pairs", title, "Not measured: no two models were asked the full question or cloze."
        )
    return Section.of("pairs", title, _table(found), words="pairs")


def _table(found: Pairs) -> Table:
    cut = len(found) > MOST_PAIRS
    shown = sorted(found, key=lambda named: _least_p(named[1]))[:MOST_PAIRS] if cut else found
    return text_table(
        "Pairs of models on the same items",
        ("Pair", "View and items", *HEADS),
        under(_rows(name, pair) for name, pair in shown),
        f"The {MOST_PAIRS} pairs with the smallest p of {count(len(found))} are shown." if cut else "",
        words=2,
    )


def _least_p(pair: Pair) -> float:
    return min((leaf.p_holm for _, leaf in _leaves(pair) if leaf.p_holm is not None), default=2.0)


def _leaves(pair: Pair) -> Iterator[tuple[str, Leaf]]:
    for view, label in ((pair.full, "full question"), (pair.cloze_chars, "cloze")):
        if view is not None:
            for leaf, split in ((view.all, "All"), (view.robust, "Robust")):
                if leaf is not None:
                    yield f"{label}, {split}", leaf


def _rows(name: str, pair: Pair) -> tuple[Cell, list[Row]]:
    models = pair.models or ()
    label = " vs ".join(plain(m) for m in models) if len(models) == 2 else plain(name)
    rows: list[Row] = [
        (
            Cell(label, _ties(leaf), badge="biased by selection" if _biased(leaf) else ""),
            count_cell(leaf.b),
            count_cell(leaf.c),
            points_cell(leaf.difference),
            p_cell(leaf.p_holm, p_before(leaf.p), power(leaf.mde)),
        )
        for label, leaf in _leaves(pair)
    ]
    none: Row = (absent("no view in common"), *(absent() for _ in HEADS))
    return Cell(label, badge="voter" if pair.is_voter else ""), rows or [none]


def _ties(leaf: Leaf) -> str:
    return counted(leaf.tied, "tie") if leaf.tied else ""


def _biased(leaf: Leaf) -> bool:
    return isinstance(leaf, PairOnRobust) and leaf.voter is True


def random_removal(summary: Summary) -> Section:
    """Robust against random removals of the same size and topics."""
    rows: list[Row] = [
        (
            voter_cell(summary, name),
            spaced(e.view or "view unknown"),
            rate_cell(e.robust),
            rate_cell(Quantity(value=e.mean, ci=e.ci)),
            absent() if e.percentile is None else f"{e.percentile:.1f}",
            p_cell(e.p, power(e.mde)),
            *_by_decoys(e.by_decoys),
        )
        for name, e in (summary.random_removal or {}).items()
    ]
    found = text_table("Robust against random removals", ("Model", "View", *REMOVAL_HEADS), rows, words=2)
    none = "Not measured: no model was asked the full question or cloze."
    title = "Would removing random items have done the same?"
    return Section.of("random", title, found if rows else none, words="removal decoys voter")


def _by_decoys(found: ByDecoys | None) -> tuple[Cell, Cell, Cell]:
    if found is None:
        return absent("too few decoys"), absent(), absent()
    mde = None if found.difference is None else found.difference.mde
    return rate_cell(found.flagged), rate_cell(found.expected), p_cell(found.p, power(mde))


def voter_cell(summary: Summary, model: str) -> Cell:
    """The name of a model, marked if it voted in the filter."""
    entry = (summary.accuracy or {}).get(model) or Accuracy()
    return model_cell(model, entry.is_voter)


HOTTEST = 1e3
"""Where the search for a temperature ends: scores found there carry no signal to calibrate."""
FEWEST = 10
"""Items of a bin below which it is not drawn."""
MOST_DRAWN = 4
CALIBRATION_HEADS = ("ECE", "If calibrated", "Brier", "Temperature", "ECE, scaled", "Items")


def calibration(summary: Summary) -> Section:
    """Calibration by model and view."""
    models = (summary.calibration or {}).items()
    rows = list(under((voter_cell(summary, name), _calibration_rows(views)) for name, views in models))
    title = "Calibration"
    if not rows:
        return Section.of(
            "calibration", title, "Not measured: it needs the probabilities of at least 10 answers."
        )
    found = text_table("Calibration by model and view", ("Model", "View", *CALIBRATION_HEADS), rows, words=2)
    no_bins = "A reliability plot was not drawn: this run holds no bins."
    return Section.of("calibration", title, found, reliability_plot(summary) or no_bins, words="calibration")


def _calibration_rows(views: CalibrationViews) -> Iterator[Row]:
    for label, e in (("full question", views.full), ("cloze, by characters", views.cloze_chars)):
        if e is not None:
            yield (
                label,
                number_cell(e.ece, ci=e.ece_ci),
                number_cell(e.ece_if_calibrated, small="" if e.ece_p is None else p_value(e.ece_p)),
                number_cell(e.brier, ci=e.brier_ci),
                _temperature(e.temperature),
                number_cell(e.ece_scaled),
                count_cell(e.n),
            )


def _temperature(x: float | None) -> Cell:
    if x is not None and x >= HOTTEST:
        return Cell("not calibratable", f"at the bound: the search ends at {count(HOTTEST)}", "absent")
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
        note=f"Calibrated: the two dots are one below the other. Bins of fewer than {FEWEST} items are not drawn.{cut}",
    )


def _bins(entry: Calibration | None) -> Iterator[PlotRow]:
    bins = (entry or Calibration()).bins or ()
    for i, b in enumerate(bins):
        if b.confidence is not None and b.accuracy is not None and b.n is not None and b.n >= FEWEST:
            edges = f"{100 * i / len(bins):.0f} to {100 * (i + 1) / len(bins):.0f} %"
            marks = (Mark(b.accuracy, b.ci), Mark(b.confidence, kind="before"))
            yield PlotRow(f"sure by {edges}, n = {count(b.n)}", marks, percent(b.accuracy))
