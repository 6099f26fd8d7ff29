"""What each model scores on All, Shortcut and Robust under every view it was asked, and which of two models is better.

A part is never compared with the whole that holds it as if they were two sets: random removals of the same size and
topics stand beside it (`removal`). What a model was not asked is absent, not zero. Of two models only the items that one
got right and the other wrong say anything: exact McNemar on the items that both answered.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Floats, Ints
from robustify.judging.adjusted import Balanced
from robustify.judging.context import Context, Parts
from robustify.scoring import NORMS, Norm, credit, normalised
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import FULL_OF, VIEW_OF, Mode, TextNorm
from robustify.screen.votes import averaged, first_block, first_template, models_asked
from robustify.stats.intervals import FEWEST_CLUSTERS, clusters, interval, rate, resampled
from robustify.stats.tests import (
    LEVEL,
    Difference,
    detectable,
    holm,
    independent_difference,
    minimum_detectable_difference,
    paired_difference,
    sign_flip,
)
from robustify.summary.quantity import DifferenceQuantity, Quantity
from robustify.summary.scored import (
    Accuracy,
    AgainstChance,
    FreeScores,
    Pair,
    Paired,
    PairView,
    ViewScores,
)

PAIRED = ("full", "cloze_chars")
"""The measures in which two models are compared."""

Credits = Mapping[str, Floats | None]
"""By measure (`full`, `choices_only`, `cloze_chars`, ...): credits (n,), None where it was not asked.
"""


def credits(
    answers: Answers, index: ItemIndex, model: str, template: str | None = None, mode: Mode = "letter"
) -> dict[str, Floats | None]:
    """Return one model's tie-fair credits by measure; texts are compared per character.

    `full` and cloze count the first row of an item, its own order; `choices_only` the average over rotations.
    `template`: that of a screen by letter; `mode`: that of the full question.
    """
    return _with_question(answers, index, model, mode) | {
        "choices_only": _credit(_alone(answers, index, model, "letter", template), index),
        "choices_only_text": _credit(_alone(answers, index, model, "text"), index),
    }


def all_credits(ctx: Context) -> dict[str, Credits]:
    """Return the credits of every model that was asked any view, or that answered in words alone.

    The screen's own view takes its template and its norm, so that a voter has one number.
    """
    free = ctx.facts.free
    names = ctx.names if free is None else tuple(dict.fromkeys((*ctx.names, *free.models)))
    # Choices after a question whose passage or image is hidden are not unconditional.
    dropped = {} if ctx.rules.hidden == "question" else {"cloze_pmi": None}
    return {
        name: _with_question(ctx.answers, ctx.index, name, ctx.mode)
        | {view: _credit(_screened(ctx, name, mode), ctx.index) for mode, view in VIEW_OF.items()}
        | dropped
        for name in names
    }


def accuracies(
    ctx: Context,
    credits: Mapping[str, Credits],
    graded: Mapping[str, FreeScores],
    weighed: Balanced | None = None,
) -> dict[str, Accuracy]:
    """Return the rates of every model, with its graded answers in free words and its adjusted score where there are any."""
    found = {
        name: accuracy(won, ctx.parts, graded.get(name), is_voter=name in ctx.votes.voters)
        for name, won in credits.items()
    }
    if weighed is None:
        return found
    alone = VIEW_OF[ctx.rules.screen.mode]
    return {
        name: rates.model_copy(
            update={
                "adjusted": weighed.rate(credits[name].get("full")),
                "adjusted_choices_only": weighed.rate(credits[name].get(alone)),
            }
        )
        for name, rates in found.items()
    }


def accuracy(credits: Credits, parts: Parts, free: FreeScores | None = None, *, is_voter: bool) -> Accuracy:
    """The rates of one model on All, Shortcut and Robust; cloze counts only items fit for cloze."""
    measures: dict[str, Any] = {
        name: None if won is None else _measure(name, won, parts) for name, won in credits.items()
    }
    return Accuracy(
        is_voter=is_voter,
        **measures,
        free=free,
        format_gap=format_gap(credits, parts),
    )


def format_gap(credits: Credits, parts: Parts) -> DifferenceQuantity | None:
    """`full` less `cloze_chars` on the items fit for cloze that were answered in both; None where one was not asked."""
    full, cloze = credits.get("full"), credits.get("cloze_chars")
    if full is None or cloze is None:
        return None
    both = paired_difference(np.where(parts.cloze, full, np.nan), cloze, parts.groups)
    return DifferenceQuantity.from_stats(both)


def heuristic_gap(won: Floats, longest: Floats, groups: Ints | None = None) -> DifferenceQuantity | None:
    """Return the accuracy where the longest answer is right minus where it is wrong, from credits (n,).

    None if a side is empty. A tied longest answer counts on both sides by its credit. The interval is Newcombe's, with
    groups a bootstrap of them.
    """
    there = ~np.isnan(won) & ~np.isnan(longest)
    a, c = won[there], longest[there]
    right, wrong = float(c.sum()), float((1 - c).sum())
    if not right or not wrong:
        return None
    plain = independent_difference(float(a @ c), right, float(a @ (1 - c)), wrong)
    if groups is None:
        return DifferenceQuantity.from_stats(plain)
    if clusters(len(a), groups[there]) < FEWEST_CLUSTERS:
        return DifferenceQuantity(value=plain.value, n=plain.n)
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.column_stack([a * c, c, a * (1 - c), 1 - c])
        means = resampled(table, groups[there])
        draws = means[:, 0] / means[:, 1] - means[:, 2] / means[:, 3]
    error = float(np.nanstd(draws))
    ci = interval(draws) if error else None
    return DifferenceQuantity.from_stats(Difference(plain.value, plain.n, ci, error))


def _with_question(answers: Answers, index: ItemIndex, model: str, mode: Mode) -> dict[str, Floats | None]:
    full = first_block(answers, FULL_OF[mode], model).first()
    won = {"full": index.spread(full, full.correct) if len(full) else None}
    block = first_block(answers, "cloze", model).first()
    alone = first_block(answers, "choices_only_text", model)
    return won | {f"cloze_{norm}": _cloze(block, norm, alone, index) for norm in NORMS}


def _screened(ctx: Context, model: str, mode: Mode) -> Bools | None:
    rules, votes = ctx.rules.screen, ctx.votes
    if mode != rules.mode:
        return _alone(ctx.answers, ctx.index, model, mode)
    if model in votes.voters:
        return votes.best[:, votes.voters.index(model)]
    norm = rules.norm if mode == "text" else "chars"
    return _alone(ctx.answers, ctx.index, model, mode, votes.template, norm)


def _alone(
    answers: Answers,
    index: ItemIndex,
    model: str,
    mode: Mode,
    template: str | None = None,
    norm: TextNorm = "chars",
) -> Bools | None:
    """The options (n, K) that share a model's best score without the question; None if it was not asked."""
    view = VIEW_OF[mode]
    if template is None or model not in models_asked(answers, view, template):
        template = first_template(answers, view, (model,))
    block = answers.block(view, model, template)
    return averaged(block, mode, index, norm) if len(block) else None


def _credit(best: Bools | None, index: ItemIndex) -> Floats | None:
    if best is None:
        return None
    tied = best.sum(axis=1)
    right = best[np.arange(len(index)), np.maximum(index.key, 0)]
    return np.where(tied > 0, right / np.maximum(tied, 1), np.nan)


def _cloze(block: Block, norm: Norm, alone: Block, index: ItemIndex) -> Floats | None:
    if not len(block):
        return None
    won = credit(normalised(block, norm, alone), block.key, block.k)[0]
    if norm == "chars":
        # An imported log may give the pick without the scores behind it.
        won = np.where(np.isnan(won) & np.isnan(block.scores).all(axis=1), block.correct, won)
    return None if np.isnan(won).all() else index.spread(block, won)


def _measure(name: str, won: Floats, parts: Parts) -> ViewScores:
    inside = parts.cloze if name.startswith("cloze") else np.ones(len(won), dtype=bool)

    def on(mask: Bools) -> AgainstChance:
        k, groups = (None if of is None else of[mask] for of in (parts.k, parts.groups))
        return against_chance(won[mask], k, groups)

    return ViewScores(
        all=on(inside),
        shortcut=on(inside & parts.shortcut),
        robust=on(inside & parts.robust),
        heuristic_gap=heuristic_gap(
            won[inside], parts.longest[inside], None if parts.groups is None else parts.groups[inside]
        ),
    )


def against_chance(won: Floats, k: Ints | None, groups: Ints | None = None) -> AgainstChance:
    """Return a rate (n,) with `chance`, mean(1/k) of its items, and whether the score test tells them apart.

    The test holds for any fixed set of picks under exchangeable keys; the interval rests on `groups`. `mde`: if the
    difference is not significant, the rise that 80 % power would detect. Chance after selection is the audit's.
    """
    measured, alone = rate(won, groups), rate(won).ci
    if k is None or alone is None:
        return AgainstChance.of(measured)
    chance = float(np.mean(1 / k[~np.isnan(won)]))
    significant = not alone[0] <= chance <= alone[1]
    rise = math.nan if significant else minimum_detectable_difference(measured.n, chance)
    mde = None if math.isnan(rise) else rise
    return AgainstChance.of(measured, chance=chance, significant=significant, mde=mde)


@dataclass(frozen=True, slots=True)
class Compared:
    """Two models on `difference.n` common items: `b` only the first got right, `c` only the second, and `tied`
    items with a shared credit. `p` is None where no item has whole credits on both sides.
    """

    b: int
    c: int
    tied: int
    difference: Difference
    p: float | None

    def entry(self, p_holm: float | None, level: float) -> Paired:
        """Return the entry of a table; the detectable difference is given beside a null result only."""
        null = p_holm is not None and p_holm > LEVEL and self.difference.error is not None
        return Paired(
            n=self.difference.n,
            b=self.b,
            c=self.c,
            tied=self.tied,
            difference=Quantity.of(self.difference),
            p=self.p,
            p_holm=p_holm,
            mde=detectable(self.difference.error or 0.0, level) if null else None,
        )


def pairs(
    ctx: Context, credits: Mapping[str, Credits], weighed: Balanced | None = None
) -> dict[str, Pair] | None:
    """Return which of two models is better, for every pair by "A vs B"; None below two models.

    `p_holm` is adjusted over all pairs, views and splits. `mde`: if it is above 0.05, the difference that 80 % power
    would detect at the level that Holm asks of the smallest p.
    """
    parts, voters = ctx.parts, ctx.votes.voters
    models = [m for m in ctx.names if any(credits[m].get(view) is not None for view in PAIRED)]
    leaves: dict[tuple[str, str, str, str], Compared] = {}
    for (a, b), view in product(combinations(models, 2), PAIRED):
        one, two = credits[a].get(view), credits[b].get(view)
        if one is None or two is None:
            continue
        inside = parts.cloze if view == "cloze_chars" else np.ones(len(one), dtype=bool)
        for split, mask in (("all", inside), ("robust", inside & parts.robust)):
            groups = None if parts.groups is None else parts.groups[mask]
            leaves[a, b, view, split] = compare_pair(one[mask], two[mask], groups)
    tested = {place: leaf.p for place, leaf in leaves.items() if leaf.p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    level = 1 - LEVEL / max(1, len(tested))
    entries = {place: leaf.entry(adjusted.get(place), level) for place, leaf in leaves.items()}
    table = {}
    for a, b in combinations(models, 2):
        views = {
            view: PairView(all=entries[a, b, view, "all"], robust=entries[a, b, view, "robust"])
            for view in PAIRED
            if (a, b, view, "all") in entries
        }
        one, two = credits[a].get("full"), credits[b].get("full")
        table[f"{a} vs {b}"] = Pair(
            models=(a, b),
            is_voter=a in voters or b in voters,
            adjusted=None if weighed is None else weighed.difference(one, two),
            **views,
        )
    return table or None


def compare_pair(one: Floats, two: Floats, groups: Ints | None = None) -> Compared:
    """Compare two models' credits (n,), NaN where unanswered.

    McNemar (1947, exact) needs right or wrong, so shared credits are `tied` and in neither b nor c. With `groups` (n,) p
    is the exact sign-flip test of their sums.
    """
    there = ~np.isnan(one) & ~np.isnan(two)
    one, two = one[there], two[there]
    whole = _whole(one) & _whole(two)
    better = np.where(whole, np.sign(one - two), 0.0).astype(np.int64)
    b, c = int(np.count_nonzero(better > 0)), int(np.count_nonzero(better < 0))
    together = None if groups is None else groups[there]
    p = sign_flip(better, together) if whole.any() else None
    return Compared(b, c, int(np.count_nonzero(~whole)), paired_difference(one, two, together), p)


def _whole(credit: Floats) -> Bools:
    return np.asarray((credit == 0) | (credit == 1))
