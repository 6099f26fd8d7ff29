"""Classical item analysis: difficulty and discrimination of each item (Lord and Novick 1968).

An item that better models get wrong more often than worse models may have a wrong key or two correct choices.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from robustify.arrays import ROUNDING, Floats
from robustify.judging.accuracy import Credits
from robustify.judging.context import Context
from robustify.stats.intervals import rate
from robustify.summary.quantity import Quantity
from robustify.summary.scored import ItemAnalysis, ItemDiscrimination

FEWEST = 5
"""Minimum number of models per item. A correlation over fewer models is uninformative."""
LISTED = 20


@dataclass(frozen=True, eq=False)
class AnalysedItems:
    """Difficulty and discrimination of each item (n,), NaN if undefined, with a summary."""

    difficulty: Floats
    discrimination: Floats
    part: ItemAnalysis


def item_analysis(ctx: Context, credits: Mapping[str, Credits]) -> AnalysedItems | None:
    """Return the item analysis for the full question, or for cloze if the full question was not asked. None below five
    models.

    Difficulty is the share of models that are right. Discrimination is the correlation, over models, of the credit for an
    item with the mean credit for all other items (corrected item-total correlation), undefined if credits do not vary.
    """
    views = ("full", "cloze_chars")
    answered = {
        view: {m: c for m, of in credits.items() if (c := of.get(view)) is not None} for view in views
    }
    view = next((view for view, won in answered.items() if len(won) >= FEWEST), None)
    if view is None:
        return None
    won = np.column_stack(list(answered[view].values()))
    there = ~np.isnan(won) & (np.sum(~np.isnan(won), axis=1, keepdims=True) >= FEWEST)
    n = there.sum(axis=1)
    won = np.where(there, won, 0.0)
    rest = (won.sum(axis=0) - won) / np.maximum(there.sum(axis=0) - 1, 1)

    def deviations(x: Floats) -> Floats:
        mean = np.where(there, x, 0.0).sum(axis=1) / np.maximum(n, 1)
        return np.where(there, x - mean[:, None], 0.0)

    a, b = deviations(won), deviations(rest)
    size = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    found = np.where(size > ROUNDING, (a * b).sum(axis=1) / np.maximum(size, ROUNDING), np.nan)
    difficulty = np.where(n > 0, won.sum(axis=1) / np.maximum(n, 1), np.nan)
    worst = [i for i in np.argsort(found, kind="stable")[:LISTED].tolist() if found[i] < 0]
    rows = tuple(
        ItemDiscrimination(item=ctx.index.items[i], difficulty=difficulty[i], discrimination=found[i])
        for i in worst
    )
    part = ItemAnalysis(
        models=tuple(answered[view]),
        view="full" if view == "full" else "cloze_chars",
        negative=Quantity.of(rate(np.where(np.isnan(found), np.nan, found < 0))),
        lowest=rows,
    )
    return AnalysedItems(difficulty, found, part)
