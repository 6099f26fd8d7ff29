"""The page that a run would release if no name contained a word of an item."""

from robustify.judging.summary.result import Summary
from robustify.report.printing import label
from robustify.restricted.disclosure.item_words import ItemWords
from robustify.restricted.disclosure.released import CELL, Candidates, Released, candidates


def every(summary: Summary, words: ItemWords | None = None, min_cell: int = CELL) -> Candidates:
    return candidates(summary, label, words or ItemWords(), min_cell)


def released(summary: Summary, min_cell: int = CELL) -> Released:
    return every(summary, min_cell=min_cell).filled()
