"""Signs that a model may have seen the benchmark; that none was found acquits nobody."""

from collections.abc import Iterator, Mapping

from robustify.report.blocks import Block, Cell, Column, Section, Table, Text
from robustify.report.reading import at, number, part, records, text, whole
from robustify.report.sections.noise import listed
from robustify.report.words import (
    absent,
    again,
    count_cell,
    joined,
    missing,
    model_cell,
    p_cell,
    p_value,
    percent,
    plain,
    power,
    rate_cell,
)

Summary = Mapping[str, object]
Entry = Mapping[str, object]
VIEWS = (
    ("no_choices", "no options shown"),
    ("gold_repeated", "the key's text at every place"),
    ("empty_choices", "empty options"),
)
PARTS = (
    ("stem", "its question"),
    ("stem_key", "its key right after the question"),
    ("choices", "its options in a row"),
)
LEVEL = 0.05


def contamination(summary: Summary) -> Section:
    """What was looked for, where, and what was found."""
    entry = part(summary, "contamination")
    blocks: tuple[Block, ...] = (
        Text(
            "Not looked for: no text files were given, and no model was asked for the place of a key without its "
            "options.",
            quiet=True,
        ),
    )
    if entry:
        said = text(entry.get("sentence"))
        blocks = (
            *((Text(plain(said, 2000)),) if said else ()),
            *_overlap(part(entry, "overlap")),
            *_memorisation(summary, part(entry, "memorisation")),
        )
    return Section("contamination", "Signs that a model has seen it", "Contamination", blocks)


def _overlap(entry: Entry) -> tuple[Block, ...]:
    if not entry:
        return (Text("Overlap with texts: not looked for, no text files were given.", quiet=True),)
    n = whole(entry.get("ngram"))
    words = "words" if n is None else f"{n} words"
    rows = (
        (f"Found by {words} in a row", rate_cell(entry.get("found"))),
        ("Short items, found whole", rate_cell(at(entry, "short_mode", "found"))),
        ("Too short to check", count_cell(entry.get("not_checkable"))),
        ("Share of the question's words that stand there", rate_cell(entry.get("coverage"))),
        *((f"Of an item: {label}", rate_cell(at(entry, "parts", name))) for name, label in PARTS),
        ("Found among Robust", rate_cell(entry.get("in_robust"))),
        ("Found among Shortcut", rate_cell(entry.get("in_shortcut"))),
    )
    table = Table(
        "Items that stand in the given texts",
        (Column("", figures=False), Column("Value")),
        tuple((Cell(label), cell) for label, cell in rows),
        "Each rate counts the items in which that could be looked for. Words are compared in lower case without "
        "punctuation.",
    )
    return (table, _files(entry), *listed(entry, {"value": None}))


def _files(entry: Entry) -> Block:
    found = records(entry.get("files"))
    if not found:
        return Text(f"The files that were read: {missing()}.", quiet=True)
    heads = (
        Column("File", figures=False),
        Column("Words"),
        Column("Bytes"),
        Column("SHA-256", figures=False),
    )
    return Table(
        "The texts that were looked through",
        heads,
        tuple(
            (
                Cell(plain(text(f.get("name"), "unnamed"))),
                count_cell(f.get("words")),
                count_cell(f.get("bytes")),
                Cell(plain(text(f.get("sha256")))) if text(f.get("sha256")) else absent("not recorded"),
            )
            for f in found
        ),
    )


def _memorisation(summary: Summary, found: Entry) -> tuple[Block, ...]:
    if not found:
        said = "Memorised places: not looked for, no model was asked without the options."
        return (Text(said, quiet=True),)
    heads = ("Place of the key right", "By its liking for places", "p, Holm", "Unanswered")
    return (
        Table(
            "The place of the key, with no options to choose from",
            (
                Column("Model", figures=False),
                Column("Asked with", figures=False),
                *(Column(h) for h in heads),
            ),
            tuple(row for name in found for row in _recalled(summary, str(name), part(found, name))),
            "By its liking for places: what the model's picks bring when keys of as many options change places. p: "
            "one-sided, after Holm's correction over models and views; below it the p before. 80 % power: so "
            "many points more would have been told four times out of five. Options in a natural order (by size, by "
            "date) let knowledge find a place without memory.",
        ),
    )


def _recalled(summary: Summary, name: str, views: Entry) -> Iterator[tuple[Cell, ...]]:
    cell = model_cell(name, part(summary, "accuracy", name))
    asked = [(view, label) for view, label in VIEWS if part(views, view)]
    for i, (view, label) in enumerate(asked):
        entry = part(views, view)
        chance = number(entry.get("chance"))
        yield (
            again(cell) if i else cell,
            Cell(label),
            rate_cell(entry),
            absent() if chance is None else Cell(percent(chance)),
            _p(entry),
            count_cell(entry.get("unanswered")),
        )
    if not asked:
        yield (cell, absent("not asked"), absent(), absent(), absent(), absent())


def _p(entry: Entry) -> Cell:
    before, adjusted = number(entry.get("p")), number(entry.get("p_holm"))
    told = adjusted is not None and adjusted <= LEVEL
    beside = "more than luck" if told else power(entry.get("mde"))
    return p_cell(adjusted, joined("" if before is None else p_value(before), beside))
