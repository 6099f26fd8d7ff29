"""Whether the order of the options moves a model, and whether its probabilities mean what they say."""

from collections.abc import Mapping

from robustify.report.blocks import Block, Cell, Column, Kind, Mark, Plot, Row, Section, Table, Text
from robustify.report.reading import at, named, number, part, quantity, whole
from robustify.report.removal import places
from robustify.report.scores import chance_line, model_cell
from robustify.report.words import (
    absent,
    again,
    count,
    count_cell,
    counted,
    number_cell,
    percent,
    plain,
    rate_cell,
)

Summary = Mapping[str, object]
HOTTEST = 1e3
"""Where the search for a temperature ends: scores found there carry no signal to calibrate."""


def order(summary: Summary) -> Section:
    """How far accuracy depends on the order in which the options stand."""
    found = [(name, e) for name, e in named(summary, "permutation") if name != "cloze_invariance"]
    blocks: list[Block] = [
        Text("Not measured: no model was asked the full question in several orders.", quiet=True)
    ]
    if found:
        plot = order_plot(summary)
        blocks = [*([plot] if plot else []), _orders(summary, found)]
    return Section("order", "Does the order of the options matter?", "Order", (*blocks, _invariance(summary)))


def order_plot(summary: Summary) -> Plot | None:
    """Mean accuracy over the orders, with the lowest and the highest order."""
    rows = [
        Row(
            plain(name),
            (Mark(mean, quantity(e.get("min")).value, quantity(e.get("max")).value),),
            percent(mean),
        )
        for name, e in named(summary, "permutation")
        if (mean := quantity(e.get("mean")).value) is not None
    ]
    if not rows:
        return None
    title = "Accuracy on the full question over the orders of its options"
    legend: tuple[tuple[Kind, str], ...] = (("main", "mean; bar: lowest to highest order"),)
    return Plot("order", title, tuple(rows), legend, chance_line(summary))


def _orders(summary: Summary, found: list[tuple[str, Mapping[str, object]]]) -> Table:
    heads = ("Mean", "SD", "Lowest to highest", "Picks that flip", "Same pick in all")
    return Table(
        "Order sensitivity",
        (Column("Model", figures=False), *(Column(h) for h in heads), Column("Letter prior")),
        tuple(
            (
                _named(summary, name),
                _mean(e),
                _points(e.get("sd")),
                _range(e),
                rate_cell(e.get("flip_rate")),
                rate_cell(e.get("consistency")),
                places(e.get("position_prior")),
            )
            for name, e in found
        ),
        "n of asked: items answered in every order they can stand in, of those asked in two or more. Picks "
        "that flip: those in the other orders that differ from the pick in the first. Letter prior: the mean "
        "probability of each place whatever stands there (PriDe); even shares mean no preference.",
    )


def _named(summary: Summary, name: str) -> Cell:
    return model_cell(name, part(summary, "accuracy", name))


def _mean(entry: Mapping[str, object]) -> Cell:
    mean, orders, n = quantity(entry.get("mean")), whole(entry.get("orders")), whole(entry.get("n"))
    if mean.value is None:
        return absent()
    asked = whole(entry.get("asked"))
    small = [f"{orders} orders"] if orders is not None else []
    of = "" if asked is None else f" of {count(asked)} asked"
    return Cell(percent(mean.value), ", ".join([*small, *([f"n = {count(n)}{of}"] if n is not None else [])]))


def _points(x: object) -> Cell:
    value = quantity(x).value
    return absent() if value is None else Cell(f"{100 * value:.1f} points")


def _range(entry: Mapping[str, object]) -> Cell:
    lo, hi = (quantity(entry.get(end)).value for end in ("min", "max"))
    return absent() if lo is None or hi is None else Cell(f"{100 * lo:.1f} to {100 * hi:.1f} %")


def _invariance(summary: Summary) -> Text:
    match at(summary, "permutation", "cloze_invariance"):
        case "inert":
            said = (
                "Cloze was asked in one order only: inert by construction; not a test of the program, and no "
                "merit of a model."
            )
        case {"n_changed": int(n)}:
            said = (
                f"Cloze was asked in several orders, and {counted(n, 'pick')} changed; any but 0 is a fault."
            )
        case _:
            said = "Whether cloze depends on the order was not measured."
    return Text(said, quiet=True)


def calibration(summary: Summary) -> Section:
    """Whether the models' probabilities mean what they say."""
    rows = tuple(
        (
            _named(summary, name) if i == 0 else again(_named(summary, name)),
            Cell("full question" if view == "full" else "cloze, by characters"),
            number_cell(e.get("ece")),
            number_cell(e.get("brier")),
            _temperature(e.get("temperature")),
            number_cell(e.get("ece_scaled")),
            count_cell(e.get("n")),
        )
        for name, views in named(summary, "calibration")
        for i, (view, e) in enumerate(named(views))
    )
    heads = ("ECE", "Brier", "Temperature", "ECE, scaled", "Items")
    block: Block = Text("Not measured.", quiet=True)
    if rows:
        note = "Temperature scaling is for calibration only: it cannot change which option is best."
        columns = (Column("Model", figures=False), Column("View", figures=False), *(Column(h) for h in heads))
        block = Table("Calibration by model and view", columns, rows, note)
    return Section("calibration", "Calibration", "Calibration", (block,))


def _temperature(x: object) -> Cell:
    found = number(x)
    if found is not None and found >= HOTTEST:
        return Cell("at the bound: not calibratable", f"the search ends at {count(HOTTEST)}", "absent")
    return number_cell(x, 2)
