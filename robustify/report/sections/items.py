"""Which items, and why: flagged items by the cue that carries them, and those that most likely hold a shortcut."""

from robustify.report.blocks import Block, Cell, Column, Section, Table, heads_of, quiet
from robustify.report.cue_sentences import LABELS
from robustify.report.format import absent, count, percent, plain, rate_cell
from robustify.summary.cue_counts import CueCode, CueCounts, LikelyItem
from robustify.summary.quantity import Quantity
from robustify.summary.result import Summary


def items(summary: Summary) -> Section:
    """The cues of the flagged items, and the likeliest shortcuts by id."""
    title = "Which items, and why", "Items"
    found = summary.evidence
    if found is None:
        return Section(
            "items",
            *title,
            (
                quiet(
                    "Not measured: no question-free scorer ranked the items."
                    if summary.release is None
                    else "Withheld: what speaks of single items leaves no restricted run."
                ),
            ),
        )
    return Section.of("items", *title, _cues(found), _likeliest(found))


def _cues(found: CueCounts) -> Block:
    if not found.cues:
        return quiet("No flagged item was picked by the question-free scorer, so no cue is counted.")
    return Table(
        "Flagged items by the cue that carries them",
        heads_of("First cue", "Items", "Share of the flagged"),
        tuple((_cue(cue), _items(q), rate_cell(q)) for cue, q in found.cues.items()),
        "The first cue is what adds most to the scorer's pick, cues in the text before models' votes. Cues that go "
        "together share the weight, so it says what the scorer used, not what was put there. `robustify explain RUN "
        "ITEM` shows all cues of an item.",
    )


def _items(q: Quantity) -> Cell:
    return absent() if q.value is None or q.n is None else Cell(count(round(q.value * q.n)))


def _likeliest(found: CueCounts) -> Block | None:
    rows = [row for row in found.likeliest or () if row.item is not None]
    if not rows:
        return None
    return Table(
        "Items that most likely hold a shortcut",
        (Column("Item", figures=False), Column("P(shortcut | hit)"), Column("First cue", figures=False)),
        tuple((Cell(plain(row.item or "", 60)), _probability(row), _cue(row.cue)) for row in rows),
        "The probability that the key was found by a shortcut: (h - c) / ((1 - c) h), where h is the share of hits among "
        "items of this confidence (isotonic regression) and c that of items without a shortcut. 100 %: all items of this "
        "confidence were hits.",
    )


def _probability(row: LikelyItem) -> Cell:
    return absent() if row.p_shortcut is None else Cell(percent(row.p_shortcut))


def _cue(cue: CueCode | str | None) -> Cell:
    label = next((label for code, label in LABELS.items() if code == cue), None)
    return absent() if label is None else Cell(label)
