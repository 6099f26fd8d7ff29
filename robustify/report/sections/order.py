"""Whether the order of the options moves a model, and what it would score if places meant nothing to it."""

from collections.abc import Callable, Mapping

from robustify.report.blocks import Block, Cell, Column, Kind, Mark, Plot, Row, Section, Table, Text
from robustify.report.reading import at, named, number, part, quantity, whole
from robustify.report.sections.leaning import leaning
from robustify.report.sections.scores import chance_line
from robustify.report.words import (
    absent,
    again,
    between,
    count,
    counted,
    decimals,
    joined,
    model_cell,
    p_value,
    percent,
    places,
    plain,
    points_cell,
    rate_cell,
    rests_on,
)

Summary = Mapping[str, object]
Entry = Mapping[str, object]
Found = list[tuple[str, Entry]]
SETS: tuple[tuple[str, Kind, Callable[[Entry], Entry]], ...] = (
    ("random orders", "main", lambda e: e),
    ("all rotations", "before", lambda e: part(e, "rotations")),
)
TITLE = "Does the order of the options matter?"


def order(summary: Summary) -> Section:
    """How far accuracy depends on the order in which the options stand."""
    found = [(name, e) for name, e in named(summary, "permutation") if name != "cloze_invariance"]
    blocks: list[Block] = [
        Text("Not measured: no model was asked the full question in several orders.", quiet=True)
    ]
    if found:
        plot = order_plot(summary)
        blocks = [*([plot] if plot else []), _orders(summary, found), _places(summary, found)]
    return Section("order", TITLE, "Order", (*blocks, *leaning(summary), _invariance(summary)))


def order_plot(summary: Summary) -> Plot | None:
    """Mean accuracy over the orders of each set, with the lowest and the highest order."""
    rows, drawn = [], set()
    for name, e in named(summary, "permutation"):
        means = [(kind, of(e), quantity(at(of(e), "mean")).value) for _, kind, of in SETS]
        marks = [(k, entry, mean) for k, entry, mean in means if mean is not None]
        drawn |= {kind for kind, _, _ in marks}
        if marks:
            drawing = tuple(Mark(mean, *_ends(entry), kind) for kind, entry, mean in marks)
            rows.append(Row(plain(name), drawing, percent(drawing[0].value)))
    if not rows:
        return None
    title = "Accuracy on the full question over the orders of its options"
    legend = tuple((kind, f"{label}: mean, lowest to highest") for label, kind, _ in SETS if kind in drawn)
    return Plot("order", title, tuple(rows), legend, chance_line(summary))


def _ends(entry: Entry) -> tuple[float | None, float | None]:
    return quantity(entry.get("min")).value, quantity(entry.get("max")).value


def _orders(summary: Summary, found: Found) -> Table:
    heads = ("Mean", "SD", "Lowest to highest", "Picks that flip", "Same pick in all")
    asked = [s for s in SETS if any(quantity(at(s[2](e), "mean")).value is not None for _, e in found)]
    lacking = [f" No model was asked the full question in {label}." for label, _, _ in SETS]
    lacking = [said for said, s in zip(lacking, SETS, strict=True) if s not in asked]
    return Table(
        "Order sensitivity",
        (Column("Model", figures=False), Column("Asked in", figures=False), *(Column(h) for h in heads)),
        tuple(
            (
                again(_named(summary, name, e)) if i else _named(summary, name, e),
                Cell(label),
                _mean(of(e)),
                _points(of(e).get("sd")),
                _range(of(e)),
                rate_cell(of(e).get("flip_rate")),
                rate_cell(of(e).get("consistency")),
            )
            for name, e in found
            for i, (label, _, of) in enumerate(asked or SETS[:1])
        ),
        "n of asked: items answered in every order they can stand in, of those asked in two or more. Picks that "
        "flip: those in the other orders that differ from the pick in the first. Highest and lowest drift apart "
        "with the number of orders: compare sets of as many." + "".join(lacking),
    )


def _named(summary: Summary, name: str, entry: Entry) -> Cell:
    voted = entry.get("is_voter") is True
    return model_cell(name, entry if voted else part(summary, "accuracy", name))


def _mean(entry: Entry) -> Cell:
    mean, orders, n = quantity(entry.get("mean")), whole(entry.get("orders")), whole(entry.get("n"))
    if mean.value is None:
        return absent()
    asked = whole(entry.get("asked"))
    of = "" if asked is None else f" of {count(asked)} asked"
    ends = quantity({"value": 0, "ci": entry.get("mean_ci")})
    return Cell(
        percent(mean.value),
        joined(
            "" if orders is None else f"{orders} orders",
            "" if n is None else f"n = {count(n)}{of}",
            rests_on(ends),
        ),
    )


def _points(x: object) -> Cell:
    value = quantity(x).value
    return absent() if value is None else Cell(f"{100 * value:.{decimals()}f} points")


def _range(entry: Entry) -> Cell:
    lo, hi = _ends(entry)
    return absent() if lo is None or hi is None else Cell(f"{between(lo, hi)} %")


def _places(summary: Summary, found: Found) -> Block:
    if not any(e.get(name) for _, e in found for name in ("position_prior", "place_recall", "debiased")):
        said = (
            "What places do to a model was not measured: no model was asked in all rotations of enough items."
        )
        return Text(said, quiet=True)
    heads = (
        "Letter prior",
        "Keys found at each place",
        "Accuracy as answered",
        "Without the prior",
        "Change",
    )
    return Table(
        "What places do to a model, whatever stands there",
        (Column("Model", figures=False), *(Column(h) for h in heads)),
        tuple(
            (
                _named(summary, name, e),
                _prior(e),
                _recall(part(e, "place_recall")),
                rate_cell(at(e, "debiased", "raw")),
                rate_cell(at(e, "debiased", "accuracy")),
                points_cell(at(e, "debiased", "difference")),
            )
            for name, e in found
        ),
        "From items asked in all rotations. Letter prior: the mean probability of each place whatever stands "
        "there (PriDe); even shares mean no preference. Keys found: how often the key is picked when it stands "
        "at each place; SD of those shares, what noise alone gives, and p that places do not matter. Without the "
        "prior: the first order, each item freed with a prior estimated on other items; the change is paired.",
    )


def _prior(entry: Entry) -> Cell:
    cell, n = places(entry.get("position_prior")), whole(entry.get("prior_n"))
    if n is None or cell.tone == "absent":
        return cell if n is None else absent("too few items") if n else absent()
    return Cell(cell.main, f"n = {count(n)}")


def _recall(entry: Entry) -> Cell:
    cell = places(entry.get("by_place"))
    if cell.tone == "absent":
        return cell
    n, sd, even, p = (number(entry.get(k)) for k in ("n", "sd", "sd_if_even", "p"))
    return Cell(
        cell.main,
        joined(
            "" if n is None else f"n = {count(n)}",
            "" if sd is None else f"SD {100 * sd:.{decimals()}f} points",
            "" if even is None else f"{100 * even:.{decimals()}f} by noise",
            "" if p is None else p_value(p),
        ),
    )


def _invariance(summary: Summary) -> Text:
    found = at(summary, "permutation", "cloze_invariance")
    # Until orders were told apart, "inert" also stood where cloze was asked in one order only.
    older = any("is_voter" not in e for _, e in named(summary, "permutation"))
    match found:
        case "inert" if older:
            said = (
                "Cloze did not move with the order of the options, if it was asked in more than one at all."
            )
        case "inert":
            said = (
                "Cloze was asked in several orders, and no pick and no score moved: as it must be, and no merit of "
                "a model."
            )
        case {"n_changed": int(changed), "n": int(n)}:
            said = f"Cloze was asked in several orders, and {count(changed)} of {counted(n, 'item')} moved: a fault."
        case {"n_changed": int(changed)}:
            said = f"Cloze was asked in several orders, and {counted(changed, 'pick')} changed; any but 0 is a fault."
        case _:
            said = "Whether cloze depends on the order was not tested: it was not asked in two orders."
    return Text(said, quiet=True)
