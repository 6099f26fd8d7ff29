"""Items in text files. This is no proof of training on them, and only the given files are searched."""

from collections.abc import Collection
from dataclasses import asdict

import numpy as np

from robustify.base.arrays import Bools, Floats
from robustify.base.errors import DataError
from robustify.judging.context import Context
from robustify.judging.ngrams.overlap import PARTS, Overlap
from robustify.judging.screen.item_index import ItemIndex
from robustify.judging.stats.intervals import rate, wilson
from robustify.judging.summary.quantity import Quantity
from robustify.judging.summary.result import Contamination, ShortMode, TextFile, TextOverlap


def contamination(ctx: Context) -> Contamination | None:
    """Return the overlap of the items with text files, or None if there are no files. Raise `DataError` if the overlap
    was computed on other items."""
    found, parts = ctx.facts.overlap, ctx.parts
    if found is None:
        return None
    return Contamination(overlap=overlapped(found, ctx.index, parts.kept, parts.flagged))


def overlapped(found: Overlap, index: ItemIndex, kept: Bools, flagged: Bools) -> TextOverlap:
    """Summarize which items were found in the files, by n-grams or, for short items, as complete texts.

    `in_kept` and `in_flagged` combine both modes. Items too short to check are left out of all rates.
    """
    silent, short = (_among(index, names) for names in (found.not_checkable, found.short))
    if found.items != len(index) or silent.sum() + short.sum() != len(found.not_checkable) + len(found.short):
        raise DataError(
            f"run.json: the text overlap was computed on {found.items} items that differ from the {len(index)} items "
            "to judge. Run robustify again on the items to judge."
        )
    ids = found.found
    there = _among(index, ids).astype(np.float64)
    covered = {h.item: h.coverage for h in found.hits}
    coverage = np.array([covered.get(name) or 0.0 for name in index.items], dtype=np.float64)
    grams = ~silent & ~short
    return TextOverlap(
        files=tuple(TextFile(**asdict(file)) for file in found.files),
        ngram=found.ngram,
        n=int(grams.sum()),
        found=_rate(there[grams]),
        short_mode=ShortMode(n=int(short.sum()), found=_rate(there[short])),
        not_checkable=int(silent.sum()),
        coverage=_rate(coverage[grams]),
        parts={p: _share(sum(p in h.parts for h in found.hits), found.checked[p]) for p in PARTS},
        in_kept=_rate(there[kept & ~silent]),
        in_flagged=_rate(there[flagged & ~silent]),
        items=tuple(name for name in index.items if name in ids),
    )


def _among(index: ItemIndex, names: Collection[str]) -> Bools:
    wanted = frozenset(names)
    return np.array([name in wanted for name in index.items], dtype=bool)


def _share(x: int, n: int) -> Quantity:
    return Quantity(value=x / n, n=n, ci=wilson(x, n)) if n else Quantity(n=0)


def _rate(credit: Floats | Bools) -> Quantity:
    return Quantity.of(rate(credit.astype(np.float64)))
