"""Whether the order of the options moves a model, and what it would score if places meant nothing to it."""

from collections.abc import Callable, Iterator

from robustify.report.blocks import (
    Block,
    Cell,
    Kind,
    Mark,
    Paragraph,
    Plot,
    PlotRow,
    Row,
    Section,
    Table,
    text_table,
    under,
)
from robustify.report.format import (
    absent,
    between,
    count,
    counted,
    decimals,
    half,
    joined,
    model_cell,
    p_value,
    percent,
    plain,
    points_cell,
    rate_cell,
    shares_cell,
)
from robustify.report.reasons import position_bias_sentence
from robustify.report.sections.paired import voter_cell
from robustify.report.sections.scores import chance_line
from robustify.summary.quantity import Interval
from robustify.summary.result import Summary
from robustify.summary.scored import (
    Debiased,
    Moved,
    Orders,
    Permutation,
    PlaceRecall,
    PositionBias,
    Stability,
)

SETS: tuple[tuple[str, Kind, Callable[[Stability], Orders]], ...] = (
    ("random orders", "main", lambda e: e),
    ("all rotations", "before", lambda e: e.rotations or Orders()),
)
ORDER_HEADS = ("Mean", "SD", "Lowest to highest", "Picks that flip", "Same pick in all")
PLACE_HEADS = (
    "Place prior",
    "Keys found at each place",
    "Accuracy as answered",
    "Without the prior",
    "Change",
)
BIAS_HEADS = ("Picked", "Keys", "Picked less keys", "Right where the key is here")
Models = dict[str, Stability]


def order(summary: Summary) -> Section:
    """How far accuracy depends on the order of the options."""
    entry = summary.permutation or Permutation()
    models = {name: e for name, e in (entry.by_model or {}).items() if e is not None}
    title = "Does the order of the options matter?"
    found: tuple[Block | str | None, ...] = (
        "Not measured: no model was asked the full question in several orders.",
    )
    if models:
        found = order_plot(summary, models), _orders(summary, models), _places(summary, models)
    blocks = (*found, *_position_bias(summary), _invariance(entry, models))
    return Section.of("order", title, *blocks, words="orders prior bias places")


def order_plot(summary: Summary, models: Models) -> Plot | None:
    """Mean accuracy over the orders of each set, with the lowest and the highest order."""
    rows, drawn = [], set()
    for name, e in models.items():
        marks = [Mark(mean, _range(of(e)), kind) for _, kind, of in SETS if (mean := of(e).mean) is not None]
        drawn |= {mark.kind for mark in marks}
        rows += [PlotRow(plain(name), tuple(marks), percent(marks[0].value))] if marks else []
    if not rows:
        return None
    title = "Accuracy on the full question over the orders of its options"
    legend = tuple((kind, f"{label}: mean, lowest to highest") for label, kind, _ in SETS if kind in drawn)
    return Plot("order", title, tuple(rows), legend, chance_line(summary))


def _range(e: Orders) -> Interval | None:
    return None if e.min is None or e.max is None else (e.min, e.max)


def _orders(summary: Summary, models: Models) -> Table:
    asked = [s for s in SETS if any(s[2](e).mean is not None for e in models.values())]
    lacking = "".join(f" No model was asked the full question in {s[0]}." for s in SETS if s not in asked)
    return text_table(
        "Order sensitivity",
        ("Model", "Asked in", *ORDER_HEADS),
        under(
            (_named(summary, name, e), [(label, *_row(of(e))) for label, _, of in asked or SETS[:1]])
            for name, e in models.items()
        ),
        f"A model whose letters are drawn from a chat also flips by the draw alone.{lacking}",
        words=2,
    )


def _named(summary: Summary, name: str, e: Stability) -> Cell:
    return model_cell(name, True) if e.is_voter else voter_cell(summary, name)


def _row(e: Orders) -> Row:
    ends = _range(e)
    return (
        _mean(e),
        absent() if e.sd is None else Cell(f"{100 * e.sd:.{decimals()}f} points"),
        absent() if ends is None else Cell(f"{between(ends)} %"),
        rate_cell(e.flip_rate),
        rate_cell(e.consistency),
    )


def _mean(e: Orders) -> Cell:
    if e.mean is None:
        return absent()
    of = "" if e.asked is None else f" of {count(e.asked)} asked"
    rests = joined(
        "" if e.orders is None else f"{e.orders} orders",
        "" if e.n is None else f"n = {count(e.n)}{of}",
        "" if e.mean_ci is None else between(e.mean_ci),
    )
    return Cell(percent(e.mean), rests, spread=half(e.mean_ci))


def _places(summary: Summary, models: Models) -> Block | str:
    if not any(e.position_prior or e.place_recall or e.debiased for e in models.values()):
        return (
            "What places do to a model was not measured: no model was asked in all rotations of enough items."
        )
    return text_table(
        "What places do to a model, whatever option is there",
        ("Model", *PLACE_HEADS),
        (
            (_named(summary, name, e), _prior(e), _recall(e.place_recall), *_freed(e.debiased or Debiased()))
            for name, e in models.items()
        ),
    )


def _freed(e: Debiased) -> Row:
    return rate_cell(e.raw), rate_cell(e.accuracy), points_cell(e.difference)


def _prior(e: Stability) -> Cell:
    if e.position_prior:
        return Cell(
            shares_cell(e.position_prior).main, "" if e.prior_n is None else f"n = {count(e.prior_n)}"
        )
    return absent("too few items" if e.prior_n else "")


def _recall(e: PlaceRecall | None) -> Cell:
    if e is None or not e.by_place:
        return absent()
    return Cell(
        shares_cell(e.by_place).main,
        joined(
            "" if e.n is None else f"n = {count(e.n)}",
            "" if e.sd is None else f"SD {100 * e.sd:.{decimals()}f} points",
            "" if e.sd_if_even is None else f"{100 * e.sd_if_even:.{decimals()}f} by noise",
            "" if e.p is None else p_value(e.p),
        ),
    )


def _position_bias(summary: Summary) -> tuple[Block | str, ...]:
    """Picks and keys by place; empty where nothing was measured."""
    models = {name: e for name, e in (summary.position_bias or {}).items() if e is not None and e.places}
    if not models:
        return ()
    rows = under((voter_cell(summary, name), _by_place(e)) for name, e in models.items())
    heads = ("Model", "Place", *BIAS_HEADS)
    title = "Picks and keys by place, in the benchmark's own order"
    shown = text_table(title, heads, rows, _counted(models), words=2)
    if summary.release is not None:
        return shown, Paragraph("Whether a model prefers a place is given by the p beside each difference.")
    biased = {name: position_bias_sentence(e) for name, e in models.items()}
    found = " ".join(f"{plain(name)}: {plain(said, 500)}" for name, said in biased.items() if said)
    none = "No model picks a place more or less often than the key is there, by Holm over the places."
    return shown, Paragraph(found or none)


def _by_place(entry: PositionBias) -> Iterator[Row]:
    for j, place in enumerate((entry.places or ())[:26]):
        ends = points_cell(place.excess, place.p_holm), rate_cell(place.recall)
        yield chr(65 + j), rate_cell(place.picked), rate_cell(place.key), *ends


def _counted(models: dict[str, PositionBias]) -> str:
    parts = []
    for name, e in models.items():
        if e.n is not None:
            of = "" if e.asked is None else f" of {count(e.asked)}"
            ties = f", {counted(e.tied, 'tie')}" if e.tied else ""
            parts.append(f"{plain(name)}: {count(e.n)}{of} items answered{ties}")
    return "; ".join(parts) + "." if parts else ""


def _invariance(entry: Permutation, models: Models) -> str:
    # Until orders were counted by model, "inert" was also written where cloze was asked in one order only.
    older = any("is_voter" not in e.model_fields_set for e in models.values())
    match entry.cloze_invariance:
        case "inert" if older:
            return (
                "Cloze did not move with the order of the options, if it was asked in more than one at all."
            )
        case "inert":
            return (
                "Cloze was asked in several orders, and no pick and no score moved: as it must be, and no merit of "
                "a model."
            )
        case Moved(n_changed=int(changed), n=int(n)):
            return f"Cloze was asked in several orders, and {count(changed)} of {counted(n, 'item')} moved: a fault."
        case Moved(n_changed=int(changed)):
            return f"Cloze was asked in several orders, and {counted(changed, 'pick')} changed; any but 0 is a fault."
    return "Whether cloze depends on the order was not tested: it was not asked in two orders."
