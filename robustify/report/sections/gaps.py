"""What a model gains where the longest option is the key, and what it gains from seeing the options at all."""

from collections.abc import Mapping, Sequence

from robustify.report.blocks import Column, Table
from robustify.report.reading import at
from robustify.report.words import model_cell, points_cell


def gaps(found: Sequence[tuple[str, Mapping[str, object]]]) -> Table:
    """Both gaps by model; `found` are the models with their accuracies."""
    return Table(
        "What models gain from the longest option, and from seeing the options",
        (
            Column("Model", figures=False),
            Column("Longest option, full question"),
            Column("Longest option, cloze by characters"),
            Column("Full question less cloze"),
        ),
        tuple(
            (
                model_cell(name, e),
                *(points_cell(at(e, view, "heuristic_gap")) for view in ("full", "cloze_chars")),
                points_cell(e.get("format_gap")),
            )
            for name, e in found
        ),
        "Longest option: accuracy where the longest-answer heuristic is right, less accuracy where it is wrong. "
        "Full question less cloze: on the items fit for cloze that were answered both ways. 80 % "
        "power: the gap that would have been told four times out of five, where none could be.",
    )
