"""Whether a model that sees the question leans to a place, told from one order of each item."""

from collections.abc import Iterator, Mapping

from robustify.report.blocks import Block, Cell, Column, Table, Text
from robustify.report.reading import named, number, part, records, text, whole
from robustify.report.words import again, count, counted, model_cell, plain, points_cell, rate_cell

Summary = Mapping[str, object]
Entry = Mapping[str, object]


def leaning(summary: Summary) -> tuple[Block, ...]:
    """A table of picks and keys by place, and what is told of each model; empty where nothing was measured."""
    found = [(name, e) for name, e in named(summary, "position_bias") if records(e.get("places"))]
    if not found:
        return ()
    said = [(name, plain(text(e.get("sentence")), 500)) for name, e in found if text(e.get("sentence"))]
    nobody = "No model picks a place more or less often than the key stands there, by Holm over the places."
    if any("sentence" not in e for _, e in found):
        nobody = "Whether a model leans to a place is told by the p beside each difference."
    return _table(summary, found), Text(" ".join(f"{plain(name)}: {s}" for name, s in said) or nobody)


def _table(summary: Summary, found: list[tuple[str, Entry]]) -> Table:
    heads = ("Picked", "Keys", "Picked less keys", "Right where the key is here")
    return Table(
        "Picks and keys by place, in the benchmark's own order",
        (Column("Model", figures=False), Column("Place", figures=False), *(Column(h) for h in heads)),
        tuple(row for name, e in found for row in _rows(summary, name, e)),
        "Whoever is always right picks the places of the keys; what counts is how far the two lie apart (exact "
        f"McNemar for each place, Holm over the places). {_counted(found)}",
    )


def _rows(summary: Summary, name: str, entry: Entry) -> Iterator[tuple[Cell, ...]]:
    model = model_cell(name, part(summary, "accuracy", name))
    for j, place in enumerate(records(entry.get("places"))[:26]):
        yield (
            model if j == 0 else again(model),
            Cell(chr(65 + j)),
            rate_cell(place.get("picked")),
            rate_cell(place.get("key")),
            points_cell(place.get("excess"), number(place.get("p_holm"))),
            rate_cell(place.get("recall")),
        )


def _counted(found: list[tuple[str, Entry]]) -> str:
    told = []
    for name, e in found:
        n, asked, tied = (whole(e.get(part_)) for part_ in ("n", "asked", "tied"))
        if n is not None:
            of = "" if asked is None else f" of {count(asked)}"
            ties = f", {counted(tied, 'tie')}" if tied else ""
            told.append(f"{plain(name)}: {count(n)}{of} items answered{ties}")
    return "; ".join(told) + "." if told else ""
