"""Signs that a model may have seen the benchmark, or that a key may be wrong.

Signs only: what was not looked at cannot be seen, so their absence is no evidence. A model that finds the place of a
key without being shown the options is compared with what its own preference for places gives on these keys, so that one
that always says C is not suspected where keys favour C. Agreement of models is no proof that a key is wrong: they share
errors, and a hard item can mislead all of them. Nothing is corrected and no item is moved.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict

import numpy as np

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Floats, Ints
from robustify.errors import DataError
from robustify.judge.accuracy import Credits, Parts
from robustify.judge.positions import first_rows
from robustify.ngrams.overlap import PARTS, Overlap
from robustify.scoring import best
from robustify.screen.item_index import ItemIndex
from robustify.screen.votes import UNANSWERED, first_picks
from robustify.stats.intervals import rate, wilson
from robustify.stats.tests import LEVEL, holm, independent_difference, minimum_detectable_difference
from robustify.summary.quantity import DifferenceQuantity, Quantity
from robustify.summary.reason import FewStrongModels
from robustify.summary.result import Contamination, Memorisation, Recall, ShortMode, TextFile, TextOverlap
from robustify.summary.scored import LabelNoise

MEMORISED = ("no_choices", "gold_repeated", "empty_choices")
"""Views without a choice to choose from (controls of Balepur et al. 2024, arXiv 2402.12483)."""
DRAWS = 20_000
FEWEST = 2
LISTED = 1_000
"""So many items are listed at most; `flagged` counts them all."""


def contamination(
    answers: Answers, index: ItemIndex, overlap: Overlap | None, robust: Bools, shortcut: Bools
) -> Contamination | None:
    """Both signs of contamination; None where nothing was looked for.

    `robust`, `shortcut` (n,) masks of the items.

    Raises:
        DataError: the overlap is that of other items.
    """
    recalled = memorisation(answers, index)
    if overlap is None and recalled is None:
        return None
    found = None if overlap is None else overlapped(overlap, index, robust, shortcut)
    return Contamination(overlap=found, memorisation=recalled)


def overlapped(found: Overlap, index: ItemIndex, robust: Bools, shortcut: Bools) -> TextOverlap:
    """How many items are in the files: of those checked by n-grams, and of the short ones checked whole.

    `in_robust` and `in_shortcut` join both modes. Items too short to check are in no rate.
    """
    silent, short = (_among(index, names) for names in (found.not_checkable, found.short))
    if found.items != len(index) or silent.sum() + short.sum() != len(found.not_checkable) + len(found.short):
        raise DataError(
            f"run.json: the overlap is that of {found.items} items, but {len(index)} others are judged; "
            "expected the same items: run it again"
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
        in_robust=_rate(there[robust & ~silent]),
        in_shortcut=_rate(there[shortcut & ~silent]),
        items=tuple(name for name in index.items if name in ids),
    )


def memorisation(answers: Answers, index: ItemIndex) -> dict[str, Memorisation] | None:
    """How often each model finds the place of the key with no choice to choose from; None if none was asked.

    `chance` and one-sided p are by permutation of the keys' places among items of as many options (`by_places`),
    Holm over models and views; `mde` is the rise above chance that n items detect with a power of 80 %. Where options
    have a natural order, a model that knows the answer may find its place without memory.
    """
    asked = list(dict.fromkeys((m, v) for v, m, _ in answers.askings() if v in MEMORISED))
    if not asked:
        return None
    entries = {(m, v): _recalled(answers, index, m, v) for m, v in asked}
    known = {name: e.p for name, e in entries.items() if e.p is not None}
    corrected = dict(zip(known, holm(list(known.values())), strict=True))
    out = {}
    for model in dict.fromkeys(m for m, _ in asked):
        views = {
            v: entries[model, v].model_copy(update={"p_holm": corrected.get((model, v))})
            for v in MEMORISED
            if (model, v) in entries
        }
        significant = any(corrected.get((model, v), 1.0) <= LEVEL for v in MEMORISED)
        out[model] = Memorisation(**views, significant=significant)
    return out


def by_places(
    tied: Bools, place: Ints, k: Ints, draws: int = DRAWS, seed: int = 0
) -> tuple[float, float] | tuple[None, None]:
    """The accuracy that preferring places gives, and P(credit >= the observed one), one-sided.

    `tied` (n, K): the places that share an item's best score; `place`, `k` (n,): where its key is, of how
    many. Keys change places among items of as many options and picks stay, so that how often each place was
    picked and how often it has a key are both as they were. p is (1 + as good) / (1 + draws), which never
    rejects too often (Phipson and Smyth 2010). None, None without items.
    """
    if not len(k):
        return None, None
    rng = np.random.default_rng(seed)
    expected, total = 0.0, np.zeros(draws)
    for options in np.unique(k).tolist():
        here = k == options
        # A set of places as one number: a million rows of booleans are slow to sort.
        bits = 1 << np.arange(options)
        sets, picked = np.unique(tied[here, :options] @ bits, return_counts=True)
        kinds = (sets[:, None] & bits) > 0
        share = kinds / kinds.sum(axis=1, keepdims=True)
        keys = np.bincount(place[here], minlength=options)
        expected += float(picked @ share @ keys) / int(picked.sum())
        total += _permuted(picked, keys, share, draws, rng)
    won = float((tied / tied.sum(axis=1, keepdims=True))[np.arange(len(k)), place].sum())
    return expected / len(k), float((1 + np.count_nonzero(total >= won - 1e-9)) / (1 + draws))


def _permuted(picked: Ints, keys: Ints, share: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """The credit of each draw: a random table with these rows and columns, cell by cell hypergeometric."""
    left = np.tile(keys, (draws, 1))
    total = np.zeros(draws)
    for row, n in enumerate(picked.tolist()):
        due = np.full(draws, n)
        for column in range(len(keys)):
            drawn = rng.hypergeometric(left[:, column], left[:, column + 1 :].sum(axis=1), due)
            left[:, column] -= drawn
            due -= drawn
            total += share[row, column] * drawn
    return total


def _recalled(answers: Answers, index: ItemIndex, model: str, view: str) -> Recall:
    block = first_rows(answers, index, view, model)
    tied, place = _as_shown(block)
    there = tied.any(axis=1)
    tied, place, k = tied[there], place[there], block.k[there]
    credit = (tied / tied.sum(axis=1, keepdims=True))[np.arange(len(k)), place]
    chance, p = by_places(tied, place, k)
    mde = math.nan if chance is None else minimum_detectable_difference(len(k), chance)
    unanswered = int(np.count_nonzero(~there))
    return Recall.of(
        rate(credit), unanswered=unanswered, chance=chance, p=p, mde=None if math.isnan(mde) else mde
    )


def _as_shown(block: Block) -> tuple[Bools, Ints]:
    """The places that share the best score, (r, K), none where unanswered; and where the key is, (r,)."""
    order = block.order
    known = order >= 0
    scores = np.where(known, np.take_along_axis(block.scores, np.where(known, order, 0), axis=1), np.nan)
    tied = best(scores, block.k)
    # A row with a pick but no scores behind it gives its place, unless the pick was tied.
    bare = (tied.sum(axis=1) != block.tie) & (block.tie == 1) & (block.pick >= 0)
    tied = np.where(bare[:, None], order == block.pick[:, None], tied & (block.pick >= 0)[:, None])
    return tied, np.asarray((order == block.key[:, None]).argmax(axis=1), dtype=np.int64)


def _among(index: ItemIndex, names: tuple[str, ...] | frozenset[str]) -> Bools:
    wanted = frozenset(names)
    return np.array([name in wanted for name in index.items], dtype=bool)


def _rate(credit: Floats | Bools) -> Quantity:
    return Quantity.of(rate(credit.astype(np.float64)))


def _share(x: int, n: int) -> Quantity:
    return Quantity(value=x / n, n=n, ci=wilson(x, n)) if n else Quantity(n=0)


def label_noise(
    answers: Answers, index: ItemIndex, credits: Mapping[str, Credits], parts: Parts, full: str = "full"
) -> LabelNoise | None:
    """Items that every strong model answers alike and not with the key, asked the full question by the view `full`.

    None where no model was asked the full question. `strong`: the models whose lower Wilson bound on `full` is above
    chance; with fewer than two of them nothing is judged and `reason` says so. `n`: items that all strong
    models answered; a shared pick agrees with nothing. `all_wrong`: those on which each has one pick and none
    is the key. `expected`: how many of these would be flagged if the wrong picks were independent and even
    over the wrong options, the sum of (k - 1) ** (1 - models). Models share their errors, so that is a lower bound
    of what happens without a wrong key, and with two options it is all of it. Exchangeable keys, the null of
    the screen, do not apply here: strong models know most keys, and that null would flag (k - 1) / k of
    whatever they agree on. `difference`: the share flagged among the robust items less the share
    among the shortcuts. A wrong key is hardly ever flagged as a shortcut, so wrong keys collect in Robust; so
    do hard items. `items` are ids, at most 1,000.
    """
    asked = [name for name, c in credits.items() if c.get("full") is not None]
    if not asked:
        return None
    strong = tuple(name for name in asked if _is_strong(credits[name], index))
    if len(strong) < FEWEST:
        return LabelNoise(strong=strong, reason=FewStrongModels(strong=len(strong), asked=len(asked)))
    found = (first_picks(answers, index, full, name) for name in strong)
    picks = np.column_stack([pick for pick in found if pick is not None])
    there = (picks != UNANSWERED).all(axis=1) & (index.key >= 0)
    wrong = there & (picks >= 0).all(axis=1) & (picks != index.key[:, None]).all(axis=1)
    flagged = wrong & (picks == picks[:, :1]).all(axis=1)
    by_chance = (index.k[wrong] - 1.0) ** (1 - len(strong))
    ids = tuple(index.items[i] for i in np.flatnonzero(flagged)[:LISTED].tolist())
    return LabelNoise(
        strong=strong,
        n=int(np.count_nonzero(there)),
        flagged=_rate(flagged[there]),
        all_wrong=int(np.count_nonzero(wrong)),
        expected=float(by_chance.sum()),
        in_robust=_rate(flagged[there & parts.robust]),
        in_shortcut=_rate(flagged[there & parts.shortcut]),
        difference=_difference(flagged, there & parts.robust, there & parts.shortcut),
        items=ids,
    )


def _is_strong(credits: Credits, index: ItemIndex) -> bool:
    won = credits["full"]
    if won is None:
        return False
    there = ~np.isnan(won) & (index.k > 0)
    accuracy = rate(won[there])
    return accuracy.ci is not None and accuracy.ci[0] > float(np.mean(1 / index.k[there]))


def _difference(flagged: Bools, robust: Bools, shortcut: Bools) -> DifferenceQuantity:
    if not robust.any() or not shortcut.any():
        return DifferenceQuantity(n=0)
    x, y = float(flagged[robust].sum()), float(flagged[shortcut].sum())
    return DifferenceQuantity.from_stats(
        independent_difference(x, float(robust.sum()), y, float(shortcut.sum()))
    )
