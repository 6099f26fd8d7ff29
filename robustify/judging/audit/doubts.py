"""Doubtful items: keys that all strong models contradict, and items in text files.

None is proof, because models share errors and only the given files are searched. Items are not corrected or moved.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict

import numpy as np

from robustify.base.arrays import Bools, Floats
from robustify.base.errors import DataError
from robustify.judging.accuracy import Credits
from robustify.judging.context import Context
from robustify.judging.measures import against_chance
from robustify.judging.ngrams.overlap import PARTS, Overlap
from robustify.judging.screen.item_index import ItemIndex
from robustify.judging.screen.votes import UNANSWERED, first_picks
from robustify.judging.stats.distributions import poisson_binomial, upper_tail
from robustify.judging.stats.intervals import rate, wilson
from robustify.judging.summary.quantity import Quantity, Reason
from robustify.judging.summary.result import Contamination, ShortMode, TextFile, TextOverlap
from robustify.judging.summary.scored import LabelNoise

FEWEST_STRONG = 2
LISTED = 1_000
"""Maximum number of listed items. `flagged` counts all of them."""


def label_noise(ctx: Context, credits: Mapping[str, Credits]) -> LabelNoise | None:
    """Return the items that all strong models answer with the same wrong choice, or None if no full question was asked.

    A model is `strong` if the lower Wilson bound of its `full` accuracy is above chance. At least two strong models are
    required. `expected` is the number of `all_wrong` items that would be flagged if wrong picks were independent and
    uniform, and `p` the probability of as many or more. It is a lower bound, because models share errors. Exchangeable
    keys do not apply, because strong models know most keys.
    """
    index, parts = ctx.index, ctx.parts
    full = {name: won for name, of in credits.items() if (won := of.get("full")) is not None}
    if not full:
        return None
    accuracy = {name: against_chance(won[index.k > 0], index.k[index.k > 0]) for name, won in full.items()}
    strong = tuple(name for name, a in accuracy.items() if a.ci and a.ci[0] > (a.chance or 0.0))
    if len(strong) < FEWEST_STRONG:
        few = Reason.of("few_strong_models", strong=len(strong), asked=len(full))
        return LabelNoise(strong=strong, reason=few)
    found = (first_picks(ctx.answers, index, ctx.full, name) for name in strong)
    picks = np.column_stack([pick for pick in found if pick is not None])
    there = (picks != UNANSWERED).all(axis=1) & (index.key >= 0)
    wrong = there & (picks >= 0).all(axis=1) & (picks != index.key[:, None]).all(axis=1)
    flagged = wrong & (picks == picks[:, :1]).all(axis=1)
    agreeing = (index.k[wrong] - 1.0) ** (1 - len(strong))
    return LabelNoise(
        strong=strong,
        n=int(np.count_nonzero(there)),
        flagged=_rate(flagged[there]),
        all_wrong=int(np.count_nonzero(wrong)),
        expected=float(agreeing.sum()),
        p=upper_tail(poisson_binomial(agreeing), int(np.count_nonzero(flagged))),
        in_kept=_rate(flagged[there & parts.kept]),
        in_flagged=_rate(flagged[there & parts.flagged]),
        items=tuple(index.items[i] for i in np.flatnonzero(flagged)[:LISTED].tolist()),
    )


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
