"""Which of two models is better, on the items that both answered."""

from collections.abc import Iterator, Mapping

from robustify.report.blocks import Block, Cell, Column, Section, Table, Text
from robustify.report.reading import named, number, part, texts, whole
from robustify.report.words import (
    absent,
    again,
    count,
    count_cell,
    counted,
    joined,
    p_cell,
    p_value,
    plain,
    points_cell,
    power,
)

Summary = Mapping[str, object]
Entry = Mapping[str, object]
VIEWS = (("full", "full question"), ("cloze_chars", "cloze"))
SPLITS = ("all", "robust")
MOST_PAIRS = 15
HEADS = ("Only the first right", "Only the second right", "First less second", "p, Holm")


def pairs(summary: Summary) -> Section:
    """Every pair of models on All and Robust."""
    found = list(named(summary, "pairs"))
    blocks: tuple[Block, ...] = (
        Text("Not measured: no two models were asked the full question or cloze.", quiet=True),
    )
    if found:
        blocks = (
            Text(
                "Two models are compared on the items that both answered, never by their separate intervals. "
                "Only items that one got right and the other wrong say anything.",
                quiet=True,
            ),
            _table(found),
        )
    return Section("pairs", "Which models differ?", "Pairs of models", blocks)


def _table(found: list[tuple[str, Entry]]) -> Table:
    shown = sorted(found, key=lambda f: _least_p(f[1]))[:MOST_PAIRS] if len(found) > MOST_PAIRS else found
    cut = f" The {MOST_PAIRS} pairs with the smallest p of {count(len(found))} are shown."
    return Table(
        "Pairs of models on the same items",
        (
            Column("Pair", figures=False),
            Column("View and items", figures=False),
            *(Column(h) for h in HEADS),
        ),
        tuple(row for name, pair in shown for row in _rows(name, pair)),
        "p by McNemar's exact test, after Holm's correction over all pairs, views and items of this table; below "
        "it the p before, and where it is above 0.05 the difference that would have been told four times out of "
        "five. Cloze is by characters. A pair with a voter is biased on Robust by the selection."
        + (cut if len(found) > MOST_PAIRS else ""),
    )


def _least_p(pair: Entry) -> float:
    found = [number(leaf.get("p_holm")) for _, leaf in _leaves(pair)]
    return min((p for p in found if p is not None), default=2.0)


def _leaves(pair: Entry) -> Iterator[tuple[str, Entry]]:
    for view, label in VIEWS:
        for split in SPLITS:
            leaf = part(pair, view, split)
            if leaf:
                yield f"{label}, {split.capitalize()}", leaf


def _rows(name: str, pair: Entry) -> Iterator[tuple[Cell, ...]]:
    models = texts(pair.get("models"))
    said = " vs ".join(plain(m) for m in models) if len(models) == 2 else plain(name)
    cell = Cell(said, badge="voter" if pair.get("is_voter") is True else "")
    leaves = list(_leaves(pair))
    for i, (label, leaf) in enumerate(leaves):
        yield (
            again(cell) if i else cell,
            Cell(label, joined(_tied(leaf), "biased by selection" if leaf.get("voter") is True else "")),
            count_cell(leaf.get("b")),
            count_cell(leaf.get("c")),
            points_cell(leaf.get("difference")),
            _p(leaf),
        )
    if not leaves:
        yield (cell, absent("no view in common"), *(absent() for _ in HEADS))


def _tied(leaf: Entry) -> str:
    tied = whole(leaf.get("tied"))
    return counted(tied, "tie") if tied else ""


def _p(leaf: Entry) -> Cell:
    before = number(leaf.get("p"))
    return p_cell(
        leaf.get("p_holm"), joined(p_value(before) if before is not None else "", power(leaf.get("mde")))
    )
