"""Adjusted scores: item weights that balance the listed cues, and audits of the shortcuts that remain.

Weights can make the listed cues worthless even if the filter can flag no item. `docs/filter.md` explains what the adjusted
score estimates, and under which conditions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints
from robustify.items.scoring import best, credit
from robustify.judging.baselines.conditional_logit import centred, drawn, log_probabilities
from robustify.judging.baselines.heuristics import listed_credit
from robustify.judging.baselines.meaning import VIEW as MEANING
from robustify.judging.baselines.other_probes import other_probes
from robustify.judging.context import Context
from robustify.judging.screen.ranking import OptionScores
from robustify.judging.screen.votes import models_asked
from robustify.judging.stats.balance import (
    Z,
    balancing,
    weighted_difference,
    weighted_mean,
    weighted_rate,
    weights,
    worth,
)
from robustify.judging.stats.tests import LEVEL, holm
from robustify.judging.summary.quantity import AuditorKind, Reason, Score
from robustify.judging.summary.scored import AdjustedDifference, Adjustment, LeftToFind

RULES = ("longest_answer", "shortest_answer", "longest_words", "shortest_words")
"""Length heuristics that the weights make worthless."""
LEAST_WORTH, LEAST_WORTH_SHARE, LARGEST_SHARE = 100, 0.25, 0.05
"""Minimum effective sample size, also as a share of the items, and maximum share of the weight for one item."""
AUDIT_RIDGE = 50.0
"""Stronger than the penalty of the score, because weights fitted on fewer items must generalize to others."""
MOST_AUDITED = 5_000
"""Maximum number of items that the other probes see."""
_HOTTEST = 3.0


@dataclass(frozen=True, eq=False)
class Balanced:
    """Balancing weights of n items, with their summary entry.

    `weight` (n,) has mean 1 and is NaN for items without a key or text. `groups` (n,) are the clusters, or None if items
    are independent. `cues` (n, c) are the balanced columns.
    """

    weight: Floats
    groups: Ints | None
    part: Adjustment
    cues: Floats

    @property
    def scored(self) -> Floats | None:
        """Weights (n,) to compute scores with, or None if the adjusted score is withheld."""
        return None if self.part.status == "withheld" else self.weight

    def rate(self, won: Floats | None) -> Score | None:
        """Return the weighted mean of a model's credits (n,), or None if there are no credits or the score is withheld."""
        if won is None or self.scored is None:
            return None
        return Score.of(weighted_rate(won, self.weight, self.groups))

    def difference(self, one: Floats | None, two: Floats | None) -> AdjustedDifference | None:
        """Return the weighted difference between two models' credits on the items that both answered."""
        if one is None or two is None or self.scored is None:
            return None
        found, p = weighted_difference(one, two, self.weight, self.groups)
        return AdjustedDifference.of(found, p=p) if found.n else None


def balanced(ctx: Context) -> Balanced | None:
    """Fit the balancing weights. Return None if the item texts are unknown or there are too few items to fit a scorer."""
    scores = ctx.ranker.by_options()
    if scores is None or ctx.items is None:
        return None
    known = scores.known
    cues = listed_cues(ctx, scores)
    columns = np.column_stack([np.empty((np.count_nonzero(known), 0)), *cues.values()])
    weight, table = np.full(len(known), np.nan), np.full((len(known), len(cues)), np.nan)
    weight[known], table[known] = weights(columns, balancing(columns)), columns
    found = weight[known]
    n, items, largest = len(found), worth(found), float(found.max() / found.sum())
    reason = _withheld(n, items, largest)
    left = {} if reason else _remaining_gains(ctx, scores, columns)
    partly = any(one.p_holm <= LEVEL for one in left.values())
    part = Adjustment(
        status="withheld" if reason else "partly adjusted" if partly else "adjusted",
        n=n,
        worth=items,
        largest_share=largest,
        columns=tuple(cues),
        left=left,
        reason=reason,
    )
    return Balanced(weight, ctx.parts.groups, part, table)


def listed_cues(ctx: Context, scores: OptionScores) -> dict[str, Floats]:
    """Return the cue columns (n,) by name for items with a known key, leaving out constant columns.

    Each is the gain over chance of a strategy that sees only the choices, scaled to unit standard deviation: the scorer's
    centered logit of the key, its probability and its pick, the contributions of the key's form and words, and the
    tie-fair credits of four length heuristics.
    """
    known, there = scores.known, scores.there
    rows, key, chance = np.flatnonzero(known), ctx.index.key[known], 1 / there[known].sum(axis=1)
    log_p = tempered(scores, ctx.index.key)[known]
    at = np.arange(len(rows)), key
    found = {
        "scorer_logit": centred(np.where(there[known], log_p, 0.0), there[known])[at],
        "scorer_probability": np.exp(log_p[at]) - chance,
        # By logits, because a temperature near 0 would make all options tie.
        "scorer_pick": credit(_picked(scores.logits[known], there[known]), key) - chance,
        "form": scores.surface[rows, key],
        "words": scores.words[rows, key],
        **{name: won[known] - chance for name, won in listed_credit(ctx.items or (), RULES).items()},
    }
    return {name: column / column.std() for name, column in found.items() if column.std() > ROUNDING}


def tempered(scores: OptionScores, key: Ints) -> Floats:
    """Return log probabilities (n, K), using a temperature for each fold that is fitted to the keys of the other folds."""
    from scipy.optimize import minimize_scalar  # loaded only when needed

    out = np.full(scores.logits.shape, -np.inf)
    for f in np.unique(scores.fold).tolist():
        mine = scores.fold == f
        others = drawn(scores.known & ~mine)

        def loss(scale: float, others: Ints = others) -> float:
            log_p = log_probabilities(scale * scores.logits[others], scores.there[others])
            return -float(log_p[np.arange(len(others)), key[others]].sum())

        scale = minimize_scalar(loss, bounds=(0, _HOTTEST), method="bounded").x
        out[mine] = log_probabilities(scale * scores.logits[mine], scores.there[mine])
    return out


def _withheld(n: int, items: float, largest: float) -> Reason | None:
    if items < LEAST_WORTH:
        return Reason.of("worth_few", worth=items, n=n, limit=LEAST_WORTH)
    if items < LEAST_WORTH_SHARE * n:
        return Reason.of("worth_small_share", worth=items, n=n, limit=LEAST_WORTH_SHARE)
    if largest > LARGEST_SHARE:
        return Reason.of("one_item_weighs", share=largest, n=n, limit=LARGEST_SHARE)
    return None


def _remaining_gains(ctx: Context, scores: OptionScores, columns: Floats) -> dict[str, LeftToFind]:
    """Return each auditor's gain over chance. For each fold, weights and probes are fitted on the other folds."""
    of = np.flatnonzero(scores.known)
    seen = drawn(np.ones(len(of), dtype=bool), MOST_AUDITED)
    rows, c, items = of[seen], columns[seen], ctx.items or ()
    key, there, fold = ctx.index.key[rows], scores.there[rows], scores.fold[rows]
    weight = np.empty(len(rows))
    for f in np.unique(fold).tolist():
        mine = fold == f
        weight[mine] = np.exp(-c[mine] @ balancing(c[~mine], AUDIT_RIDGE))
    together = ctx.ranking.group if ctx.parts.groups is None else ctx.parts.groups
    groups, chance = together[rows], 1 / there.sum(axis=1)
    probes = other_probes([items[row] for row in rows.tolist()], key, there, fold).items()
    auditors: list[tuple[str, AuditorKind, Floats]] = [
        (name, "probe", credit(_picked(logits, there), key)) for name, logits in probes
    ]
    auditors += [(name, kind, won[rows]) for name, kind, won in _asked_auditors(ctx)]
    found: dict[str, LeftToFind] = {}
    for name, kind, won in auditors:
        if (answered := ~np.isnan(won)).any():
            beyond = (won - chance)[answered]
            value, error = weighted_mean(beyond, weight[answered], groups[answered])
            p = float(ndtr(-value / error)) if error else 1.0
            ci, before = (value - Z * error, value + Z * error), float(beyond.mean())
            found[name] = LeftToFind(
                kind=kind, value=value, n=len(beyond), ci=ci, before=before, p=p, p_holm=p
            )
    corrected = holm([one.p for one in found.values()])
    return {
        name: one.model_copy(update={"p_holm": p_holm})
        for (name, one), p_holm in zip(found.items(), corrected, strict=True)
    }


def _asked_auditors(ctx: Context) -> Iterator[tuple[str, AuditorKind, Floats]]:
    """Yield the name, kind and credits (n,), NaN if unanswered, of the cross-fitted encoder if it was asked."""
    for name in models_asked(ctx.answers, MEANING):
        block = ctx.answers.block(MEANING, name).first()
        yield name, "encoder", ctx.index.spread(block, block.correct)


def _picked(logits: Floats, there: Bools) -> Bools:
    return best(log_probabilities(logits, there), there.sum(axis=1))
