"""At which places the keys stand: whoever knows that alone is right more often than one in k."""

from collections.abc import Mapping

from robustify.report.blocks import Block, Cell, Column, Table, Text
from robustify.report.reading import named, number, part, text
from robustify.report.words import count_cell, joined, p_value, places, plain

Summary = Mapping[str, object]
LEVEL = 0.05
TESTS = {"chi-square": "chi-square", "drawn": "keys drawn evenly"}


def key_places(summary: Summary) -> tuple[Block, ...]:
    """The sentence and the shares; nothing where an older run did not look."""
    entry = part(summary, "benchmark", "key_places")
    if not entry:
        return (Text("Whether keys stand evenly over the places was not tested.", quiet=True),)
    said = text(entry.get("sentence"))
    found = Text(plain(said, 1000)) if said else Text(_even(entry), quiet=True)
    return (found, _shares(entry)) if entry.get("shares") else (found,)


def _even(entry: Mapping[str, object]) -> str:
    p = number(entry.get("p"))
    if p is None:
        return "Whether keys stand evenly over the places could not be tested."
    if p <= LEVEL and "sentence" not in entry:
        return f"Keys are not spread evenly over the places of the benchmark's own order ({_tested(entry)})."
    return f"Keys may well be spread evenly over the places of the benchmark's own order ({_tested(entry)})."


def _tested(entry: Mapping[str, object]) -> str:
    test = text(entry.get("test"))
    return joined(p_value(number(entry.get("p"))), plain(TESTS.get(test, test)) if test else "")


def _shares(entry: Mapping[str, object]) -> Table:
    sizes = tuple(named(entry, "by_options"))
    rows = [("All items", entry)]
    if len(sizes) > 1:
        rows += [(f"Items with {plain(options)} options", e) for options, e in sizes]
    return Table(
        "Where the keys stand, in the benchmark's own order",
        (Column("Items", figures=False), Column("Count"), Column("Keys at each place")),
        tuple((Cell(label), count_cell(e.get("n")), places(e.get("shares"))) for label, e in rows),
    )
