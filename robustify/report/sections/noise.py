"""Items whose key deserves a second look: every strong model picks the same other option."""

from collections.abc import Mapping, Sequence

from robustify.report.blocks import Block, Cell, Column, Folded, Section, Table, Text
from robustify.report.reading import at, part, quantity, text, texts, whole
from robustify.report.words import count, count_cell, counted, plain, points_cell, rate, rate_cell

Summary = Mapping[str, object]
MOST_LISTED = 20
CAUTION = (
    "Agreement is no proof that a key is wrong: models share their errors, and a hard item can mislead all of them. "
    "This is a list for review; nothing was corrected and no item was moved. A wrong key is hardly ever flagged as a "
    "shortcut, so wrong keys gather in Robust; so do hard items."
)


def label_noise(summary: Summary) -> Section:
    """What was found, what was expected, and which items."""
    entry = part(summary, "label_noise")
    if not entry:
        blocks: tuple[Block, ...] = (Text("Not measured: no model was asked the full question.", quiet=True),)
    elif text(entry.get("reason")):
        blocks = (Text(f"Not judged: {plain(text(entry.get('reason')), 600)}.", quiet=True),)
    else:
        blocks = (Text(_found(entry)), _table(entry), *listed(entry, entry.get("flagged")))
        blocks = (*blocks, Text(CAUTION, quiet=True))
    return Section("noise", "Keys that deserve a second look", "Keys to review", blocks)


def _found(entry: Mapping[str, object]) -> str:
    strong = ", ".join(plain(name) for name in texts(entry.get("strong"))) or "not named"
    return (
        f"All strong models pick one and the same option that is not the key: {rate(quantity(entry.get('flagged')))}. "
        f"Strong models, above chance on the full question: {strong}."
    )


def _table(entry: Mapping[str, object]) -> Table:
    rows = (
        ("Every strong model wrong, alike or not", count_cell(entry.get("all_wrong"))),
        ("Wrong alike by luck, were wrong picks independent and even", count_cell(entry.get("expected"))),
        ("Alike and wrong, among Robust", rate_cell(entry.get("in_robust"))),
        ("Alike and wrong, among Shortcut", rate_cell(entry.get("in_shortcut"))),
        ("Robust less Shortcut", points_cell(entry.get("difference"))),
    )
    return Table(
        "Wrong alike, and what independence would give",
        (Column("", figures=False), Column("Value")),
        tuple((Cell(label), cell) for label, cell in rows),
        "Models share their errors, so the expectation is a floor of what happens without a single wrong key.",
    )


def listed(entry: Mapping[str, object], found: object) -> Sequence[Block]:
    """The first ids, folded; where none are listed, that this run only counts."""
    ids = texts(entry.get("items"))
    if not ids:
        none = quantity(found).value == 0 or at(entry, "items") == []
        return () if none else (Text("The items are counted and not listed in this run.", quiet=True),)
    q = quantity(found)
    n = max(len(ids), 0 if q.value is None or q.n is None else whole(q.value * q.n) or 0)
    first = ids[:MOST_LISTED]
    title = counted(n, "item") if n == len(first) else f"The first {len(first)} of {count(n)} items"
    return (Folded(f"{title} found, by id", "\n".join(plain(i) for i in first), "text"),)
