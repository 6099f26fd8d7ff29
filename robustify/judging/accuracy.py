"""Accuracy of each model by view and split, and paired comparisons of models.

Robust is a part of All, so `removal_effects` compares its accuracy with random removals of the same size and topic mix. A
view that a model was not asked is None, not zero. Two models are compared by an exact McNemar test on the items that both
answered.
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
from robustify.scoring import NORMS, Norm, credit, normalised, picks
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
"""Measures on which two models are compared."""

Credits = Mapping[str, Floats | None]
"""Credits (n,) by measure (`full`, `choices_only`, `cloze_chars`, ...), None for a measure that was not asked."""


def credits(
    answers: Answers, index: ItemIndex, model: str, template: str | None = None, mode: Mode = "letter"
) -> dict[str, Floats | None]:
    """Return one model's tie-fair credits by measure.

    `full` and the cloze measures use the first row of each item, which shows its original order. `choices_only` averages
    over rotations. Texts are scored per character. `template` applies to the letter screen, and `mode` to the full
    question.
    """
    return _with_question(answers, index, model, mode) | {
        "choices_only": _credit(_choices_only_best(answers, index, model, "letter", template), index),
        "choices_only_text": _credit(_choices_only_best(answers, index, model, "text"), index),
    }


def all_credits(ctx: Context) -> dict[str, Credits]:
    """Return the credits of every model that answered any view or gave free responses.

    The screen's view is scored with the screen's template and norm, so a voter has the same credits in every table.
    """
    free = ctx.facts.free
    names = ctx.names if free is None else tuple(dict.fromkeys((*ctx.names, *free.models)))
    # PMI needs scores of choices without any question, which a screen that hides only a passage or image lacks.
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
    balance: Balanced | None = None,
) -> dict[str, Accuracy]:
    """Return the accuracy of every model, with its free-response and adjusted scores if it has any."""
    found = {
        name: accuracy(won, ctx.parts, graded.get(name), is_voter=name in ctx.votes.voters)
        for name, won in credits.items()
    }
    if balance is None:
        return found
    alone = VIEW_OF[ctx.rules.screen.mode]
    return {
        name: rates.model_copy(
            update={
                "adjusted": balance.rate(credits[name].get("full")),
                "adjusted_choices_only": balance.rate(credits[name].get(alone)),
            }
        )
        for name, rates in found.items()
    }


def accuracy(credits: Credits, parts: Parts, free: FreeScores | None = None, *, is_voter: bool) -> Accuracy:
    """Return one model's accuracy by measure on All, Shortcut and Robust. Cloze measures count only items fit for cloze."""
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
    """Return the paired accuracy difference between `full` and `cloze_chars` on items suited to cloze, or None if either
    view was not asked.
    """
    full, cloze = credits.get("full"), credits.get("cloze_chars")
    if full is None or cloze is None:
        return None
    both = paired_difference(np.where(parts.cloze, full, np.nan), cloze, parts.groups)
    return DifferenceQuantity.from_stats(both)


def heuristic_gap(won: Floats, longest: Floats, groups: Ints | None = None) -> DifferenceQuantity | None:
    """Return a model's accuracy on items whose longest choice is the key, minus its accuracy on all others.

    None if either group is empty. An item with tied longest choices counts in both groups by its tie-fair credit. The
    interval is Newcombe's, or a cluster bootstrap if `groups` is given.
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
        return _choices_only_best(ctx.answers, ctx.index, model, mode)
    if model in votes.voters:
        return votes.best[:, votes.voters.index(model)]
    norm = rules.norm if mode == "text" else "chars"
    return _choices_only_best(ctx.answers, ctx.index, model, mode, votes.template, norm)


def _choices_only_best(
    answers: Answers,
    index: ItemIndex,
    model: str,
    mode: Mode,
    template: str | None = None,
    norm: TextNorm = "chars",
) -> Bools | None:
    """Return the choices (n, K) that share a model's best choices-only score, or None if the model was not asked."""
    view = VIEW_OF[mode]
    if template is None or model not in models_asked(answers, view, template):
        template = first_template(answers, view, (model,))
    block = answers.block(view, model, template)
    return averaged(block, mode, index, norm) if len(block) else None


def _credit(best: Bools | None, index: ItemIndex) -> Floats | None:
    return None if best is None else credit(best, index.key)


def _cloze(block: Block, norm: Norm, alone: Block, index: ItemIndex) -> Floats | None:
    if not len(block):
        return None
    won = picks(normalised(block, norm, alone), block.key, block.k)[0]
    if norm == "chars":
        # An imported log may contain picks without scores.
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
    """Return a rate with its chance level, mean(1/k), and whether a score test finds that the two differ.

    The test is valid for any fixed picks under exchangeable keys. `groups` affects only the interval. If the difference is
    not significant, `mde` is the increase detectable with 80 % power. The residual audit accounts for chance after
    selection.
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
    """Paired comparison of two models: ties, and items that only the first (`b`) or only the second (`c`) got right."""

    b: int
    c: int
    tied: int
    difference: Difference
    p: float | None

    def entry(self, p_holm: float | None, level: float) -> Paired:
        """Return the summary entry, with a minimum detectable difference only if the result is not significant."""
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
    ctx: Context, credits: Mapping[str, Credits], balance: Balanced | None = None
) -> dict[str, Pair] | None:
    """Return a paired comparison for each pair of models, named "A vs B", or None if there are fewer than two models.

    `p_holm` covers all pairs, views and splits. If it is above 0.05, `mde` is the difference detectable with 80 % power at
    the level that Holm's method requires of the smallest p-value.
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
            adjusted=None if balance is None else balance.difference(one, two),
            **views,
        )
    return table or None


def compare_pair(one: Floats, two: Floats, groups: Ints | None = None) -> Compared:
    """Compare two models' credits (n,), with NaN for unanswered items.

    McNemar's exact test (1947) needs right or wrong answers, so items with a shared credit count only as `tied`. With
    `groups` (n,), the p-value comes from the exact sign-flip test of the group sums.
    """
    there = ~np.isnan(one) & ~np.isnan(two)
    one, two = one[there], two[there]
    whole = _untied(one) & _untied(two)
    better = np.where(whole, np.sign(one - two), 0.0).astype(np.int64)
    b, c = int(np.count_nonzero(better > 0)), int(np.count_nonzero(better < 0))
    together = None if groups is None else groups[there]
    p = sign_flip(better, together) if whole.any() else None
    return Compared(b, c, int(np.count_nonzero(~whole)), paired_difference(one, two, together), p)


def _untied(credit: Floats) -> Bools:
    return np.asarray((credit == 0) | (credit == 1))
