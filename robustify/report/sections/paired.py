"""Two models on the same items, Robust against random removals, and whether probabilities mean what they say."""

from collections.abc import Iterator, Sequence

from robustify.report.blocks import Cell, Mark, Plot, PlotRow, Section, Table, heads_of, quiet, under
from robustify.report.format import (
    absent,
    count,
    count_cell,
    counted,
    joined,
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
HEADS = ("Only the first right", "Only the second right", "First less second", "p, Holm")
Leaf = PairOnAll | PairOnRobust
Pairs = Sequence[tuple[str, Pair]]


def pairs(summary: Summary) -> Section:
    """Every pair of models on All and Robust."""
    found = list((summary.pairs or {}).items())
    title = "Which models differ?", "Pairs of models"
    if not found:
        none = quiet("Not measured: no two models were asked the full question or cloze.")
        return Section("pairs", *title, (none,))
    how = quiet(
        "Two models are compared on the items that both answered, never by their separate intervals. "
        "Only items that one got right and the other wrong count."
    )
    return Section("pairs", *title, (how, _table(found)))


def _table(found: Pairs) -> Table:
    cut = len(found) > MOST_PAIRS
    shown = sorted(found, key=lambda named: _least_p(named[1]))[:MOST_PAIRS] if cut else found
    return Table(
        "Pairs of models on the same items",
        heads_of("Pair", "View and items", *HEADS, words=2),
        tuple(row for name, pair in shown for row in _rows(name, pair)),
        "p by McNemar's exact test, after Holm's correction over all pairs, views and items of this table; below "
        "it the p before, and where it is above 0.05 the difference that a test of 80 % power would detect. "
        "Cloze is by characters. A pair with a voter is biased on Robust by the selection."
        + (f" The {MOST_PAIRS} pairs with the smallest p of {count(len(found))} are shown." if cut else ""),
    )


def _least_p(pair: Pair) -> float:
    return min((leaf.p_holm for _, leaf in _leaves(pair) if leaf.p_holm is not None), default=2.0)


def _leaves(pair: Pair) -> Iterator[tuple[str, Leaf]]:
    for view, label in ((pair.full, "full question"), (pair.cloze_chars, "cloze")):
        if view is not None:
            for leaf, split in ((view.all, "All"), (view.robust, "Robust")):
                if leaf is not None:
                    yield f"{label}, {split}", leaf


def _rows(name: str, pair: Pair) -> Iterator[tuple[Cell, ...]]:
    models = pair.models or ()
    label = " vs ".join(plain(m) for m in models) if len(models) == 2 else plain(name)
    rows = [
        (
            Cell(label, joined(_ties(leaf), "biased by selection" if _biased(leaf) else "")),
            count_cell(leaf.b),
            count_cell(leaf.c),
            points_cell(leaf.difference),
            p_cell(leaf.p_holm, p_before(leaf.p), power(leaf.mde)),
        )
        for label, leaf in _leaves(pair)
    ]
    none = (absent("no view in common"), *(absent() for _ in HEADS))
    return under(Cell(label, badge="voter" if pair.is_voter else ""), rows or [none])


def _ties(leaf: Leaf) -> str:
    return counted(leaf.tied, "tie") if leaf.tied else ""


def _biased(leaf: Leaf) -> bool:
    return isinstance(leaf, PairOnRobust) and leaf.voter is True


def random_removal(summary: Summary) -> Section:
    """Robust against random removals of the same size and topics."""
    rows = tuple(
        (
            voter_cell(summary, name),
            Cell(spaced(e.view or "view unknown")),
            rate_cell(e.robust),
            rate_cell(Quantity(value=e.mean, ci=e.ci)),
            absent() if e.percentile is None else Cell(f"{e.percentile:.1f}"),
            p_cell(e.p, power(e.mde)),
            *_by_decoys(e.by_decoys),
        )
        for name, e in (summary.random_removal or {}).items()
    )
    how = quiet(
        "Robust is a part of All, so the two cannot be compared as if they were two sets. A fall counts "
        "only beyond what removing as many items at random, with the same topics, does."
    )
    table = Table(
        "Robust against random removals",
        heads_of(
            "Model",
            "View",
            "On Robust",
            "After random removals",
            "Percentile",
            "p",
            "On flagged items",
            "Were all flags chance",
            "p by decoys",
            words=2,
        ),
        rows,
        "Percentile: the share of random removals that left an accuracy no higher than that on Robust; "
        "p: how often they leave one as far out, doubled, with the difference that would be detected with 80 % "
        "power where it is above 0.05. For a voter a low percentile is expected. So it is for a model that errs as "
        "the voters do: what it guesses as they do is right where chance flagged an item, so its accuracy falls on a "
        "set without a shortcut too. The decoys decide there: items on which the voters agree on a wrong option show how "
        "the model answers where they guess alike, and so what it would score on the flagged items, were all flags "
        "chance. They need three options or more, and 10 such items. Only where the model scores "
        "higher than that on the flagged items do they hold more than chance for it.",
    )
    none = quiet("Not measured: no model was asked the full question or cloze.")
    title = "Would removing random items have done the same?"
    return Section("random", title, "Random removal", (how, table if rows else none))


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
CALIBRATION_NOTE = (
    "ECE: the expected calibration error in 15 bins, which on few items is never 0. If calibrated: what it would be "
    "on as many items were every probability true, and how often that gives as much. Brier: summed over the "
    "options, 0 to 2. Temperature scaling is for calibration only: it cannot change which option is best."
)


def calibration(summary: Summary) -> Section:
    """Calibration by model and view."""
    rows = tuple(
        row
        for name, views in (summary.calibration or {}).items()
        for row in under(voter_cell(summary, name), _calibration_rows(views))
    )
    title = "Calibration", "Calibration"
    if not rows:
        none = quiet("Not measured: it needs the probabilities of at least 10 answers.")
        return Section("calibration", *title, (none,))
    table = Table(
        "Calibration by model and view",
        heads_of("Model", "View", *CALIBRATION_HEADS, words=2),
        rows,
        CALIBRATION_NOTE,
    )
    no_bins = quiet("A reliability plot was not drawn: this run holds no bins.")
    return Section("calibration", *title, (table, reliability_plot(summary) or no_bins))


def _calibration_rows(views: CalibrationViews) -> Iterator[tuple[Cell, ...]]:
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
