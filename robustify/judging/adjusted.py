"""Adjusted scores: accuracy under item weights that make the listed cues useless (docs/filter.md). What
auditors still find is balanced too, and fresh ones look again (multiaccuracy, Kim et al. 2019)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints
from robustify.items.scoring import best, credit
from robustify.judging.audit.probing import FROM_TEXT, TO_SEE, gains, probed
from robustify.judging.baselines.artifact_probe import MEANING, MEANING_TEMPLATES
from robustify.judging.baselines.conditional_logit import centred, drawn, log_probabilities
from robustify.judging.baselines.heuristics import listed_credit
from robustify.judging.baselines.near_duplicates import balanced_folds, content_hashes, fold_groups
from robustify.judging.context import Context
from robustify.judging.screen.ranking import OptionScores
from robustify.judging.screen.votes import models_asked
from robustify.judging.stats import balance
from robustify.judging.stats.balance import weights, worth
from robustify.judging.stats.tests import LEVEL
from robustify.judging.summary.quantity import Reason, Score
from robustify.judging.summary.scored import AdjustedDifference, Adjustment, LeftToFind

Cues = Mapping[str, Floats]
"""Columns (n,) by name: what a strategy gains over chance on each item, with unit standard deviation."""
RULES = ("longest_answer", "shortest_answer", "longest_words", "shortest_words")
"""Length heuristics that the weights make worthless."""
LEAST_WORTH, LEAST_WORTH_SHARE, LARGEST_SHARE = 100, 0.25, 0.05
"""Minimum effective sample size, also as a share of the items, and maximum share of the weight for one item."""
REFITS, LEAST_REFITTED = 3, 0.6
"""Most times that the weights are fitted again, and the minimum worth of such weights as a share of the items."""
MOST_AUDITED, MOST_REFITTED = 5_000, 20_000
"""Number of items that auditors see of a set with more than `MOST_REFITTED` items, whose weights are fitted only once."""
_HOTTEST = 3.0
_PARTITIONS = 10_000
"""Seed of the auditors' first partition into folds, which are not the scorer's."""


@dataclass(frozen=True, eq=False)
class Balanced:
    """Item weights under which the cues to the key are useless, with their entry in the summary. `weight`
    (n,) has mean 1 and is NaN for items without a key or text. `groups` (n,) are clusters, if any, and `cues`
    (n, c) the balanced columns."""

    weight: Floats
    groups: Ints | None
    part: Adjustment
    cues: Floats

    @property
    def scored(self) -> Floats | None:
        """Weights for adjusted scores, or None if these are withheld (n,)."""
        return None if self.part.status == "withheld" else self.weight

    def rate(self, won: Floats | None) -> Score | None:
        """Return a model's adjusted accuracy, the weighted mean of its credits, or None if it is not known."""
        if won is None or self.scored is None:
            return None
        return Score.of(balance.weighted_rate(won, self.weight, self.groups))

    def taken_out(self, won: Floats | None) -> Score | None:
        """Return how much of a model's accuracy is due to the cues: its mean credit minus the weighted mean."""
        if won is None or self.scored is None:
            return None
        found = balance.taken_out(won, self.weight, self.cues, self.groups)
        return Score.of(found, mde=found.mde)

    def difference(self, one: Floats | None, two: Floats | None) -> AdjustedDifference | None:
        """Return the difference between two models' adjusted accuracies on the items that both answered."""
        if one is None or two is None or self.scored is None:
            return None
        found, p = balance.weighted_difference(one, two, self.weight, self.groups)
        return AdjustedDifference.of(found, p=p) if found.n else None


def balanced(ctx: Context) -> Balanced | None:
    """Fit item weights that make the cues to the key useless. Return None if the item texts are unknown or
    there are too few items to fit a scorer."""
    scores = ctx.ranker.by_options()
    if scores is None or ctx.items is None:
        return None
    cues: Cues = listed_cues(ctx, scores)
    known, found = scores.known, _solved(cues, int(scores.known.sum()))
    reason, left = _withheld(found), dict[str, LeftToFind]()
    if reason is None:
        cues, found, left = _refitted(_Auditors(ctx, scores), cues, found)
    partly = any(_finds(one, one.p_holm) for one in left.values())
    part = Adjustment(
        status="withheld" if reason else "partly adjusted" if partly else "adjusted",
        n=len(found),
        worth=worth(found),
        largest_share=float(found.max() / found.sum()),
        columns=tuple(cues),
        left=left,
        reason=reason,
    )
    weight, table = np.full(len(known), np.nan), np.full((len(known), len(cues)), np.nan)
    weight[known], table[known] = found, np.column_stack([np.empty((len(found), 0)), *cues.values()])
    return Balanced(weight, ctx.parts.groups, part, table)


def _solved(cues: Cues, n: int) -> Floats:
    columns = np.column_stack([np.empty((n, 0)), *cues.values()])
    return weights(columns, balance.balancing(columns))


def _refitted(
    auditors: "_Auditors", cues: Cues, weight: Floats
) -> tuple[Cues, Floats, dict[str, LeftToFind]]:
    """Add to the cues what auditors find, and fit the weights again, until fresh auditors find nothing. Stop if
    further weights would be worth too little. Return the cues, the weights (n,), and what is left to find."""
    for times in range(REFITS + 1):
        logits = auditors.logits(times)
        left, more = auditors.left(logits, weight), dict(cues)
        for name in auditors.balanceable(logits, times):
            if _finds(left[name], left[name].p):
                more |= strategy(
                    f"{name}_{times + 1}", logits[name], auditors.there, auditors.key, auditors.fold(times)
                )
        found = _solved(more, len(weight))
        too_few = worth(found) < LEAST_REFITTED * len(found) or _withheld(found) is not None
        if times == REFITS or len(more) == len(cues) or too_few:
            break
        cues, weight = more, found
    return cues, weight, left


def _finds(one: LeftToFind, p: float) -> bool:
    return p <= LEVEL or (one.value or 0.0) > TO_SEE


def listed_cues(ctx: Context, scores: OptionScores) -> dict[str, Floats]:
    """Map the name of each cue that the weights balance to its values on items with a known key. They are what the scorer
    gives to the key (`strategy`), the contributions of form and words, and the credits of four length heuristics."""
    known, there = scores.known, scores.there[scores.known]
    rows, key = np.flatnonzero(known), ctx.index.key[known]
    by_rule = listed_credit(ctx.items or (), RULES).items()
    found = {
        "form": scores.surface[rows, key],
        "words": scores.words[rows, key],
        **{name: won[known] - 1 / there.sum(axis=1) for name, won in by_rule},
    }
    return strategy("scorer", scores.logits[known], there, key, scores.fold[known]) | _scaled(found)


def strategy(name: str, logits: Floats, there: Bools, key: Ints, fold: Ints) -> dict[str, Floats]:
    """Measure a strategy's gain over chance on each item by the key's logit, by the key's probability, and by the pick."""
    log_p, at = tempered(logits, there, key, fold), (np.arange(len(key)), key)
    chance = 1 / there.sum(axis=1)
    found = {
        "logit": centred(np.where(there, log_p, 0.0), there)[at],
        "probability": np.exp(log_p[at]) - chance,
        # By logits, because a temperature near 0 would make all options tie.
        "pick": credit(_picked(logits, there), key) - chance,
    }
    return _scaled({f"{name}_{of}": column for of, column in found.items()})


def _scaled(found: Cues) -> dict[str, Floats]:
    return {name: column / column.std() for name, column in found.items() if column.std() > ROUNDING}


def tempered(logits: Floats, there: Bools, key: Ints, fold: Ints) -> Floats:
    """Convert logits to log probabilities, using for each fold a temperature fitted to the keys of the other folds."""
    out = np.full(logits.shape, -np.inf)
    for f in np.unique(fold).tolist():
        mine = fold == f
        others = drawn(~mine)
        scale = sharpness(logits[others], there[others], key[others])
        out[mine] = log_probabilities(scale * logits[mine], there[mine])
    return out


def sharpness(logits: Floats, there: Bools, key: Ints) -> float:
    """Return the inverse temperature, from 0 to 3, at which the logits predict the keys best."""
    from scipy.optimize import minimize_scalar  # loaded only when needed

    def loss(scale: float) -> float:
        return -float(log_probabilities(scale * logits, there)[np.arange(len(key)), key].sum())

    return float(minimize_scalar(loss, bounds=(0, _HOTTEST), method="bounded").x)


def _withheld(weight: Floats) -> Reason | None:
    n, items, largest = len(weight), worth(weight), float(weight.max() / weight.sum())
    if items < LEAST_WORTH:
        return Reason.of("worth_few", worth=items, n=n, limit=LEAST_WORTH)
    if items < LEAST_WORTH_SHARE * n:
        return Reason.of("worth_small_share", worth=items, n=n, limit=LEAST_WORTH_SHARE)
    if largest > LARGEST_SHARE:
        return Reason.of("one_item_weighs", share=largest, n=n, limit=LARGEST_SHARE)
    return None


class _Auditors:
    """Auditors that look for cues that remain after weighting: fresh probes and, if it was asked, the sentence
    encoder. They see all m items with a known key, or a sample if these are too many to balance what they find:
    `key` is (s,), `there` (s, K)."""

    def __init__(self, ctx: Context, scores: OptionScores) -> None:
        of = np.flatnonzero(scores.known)
        self._all = len(of) <= MOST_REFITTED
        self._seen = drawn(np.ones(len(of), dtype=bool), len(of) if self._all else MOST_AUDITED)
        self._ctx, self._rows = ctx, of[self._seen]
        self.key, self.there = ctx.index.key[self._rows], scores.there[self._rows]

    def fold(self, times: int) -> Ints:
        """Assign each item to a fold, with a new partition each time the auditors look (s,)."""
        items, settings = self._ctx.items or (), self._ctx.rules.probe
        groups, content = fold_groups(items)[self._rows], content_hashes(items)[self._rows]
        return balanced_folds(groups, content, settings.folds, _PARTITIONS * (1 + settings.seed) + times)

    def logits(self, times: int) -> dict[str, Floats]:
        """Return the logits that each auditor gives to the options (s, K). They are NaN if the encoder did not answer."""
        items, index, answers = self._ctx.items or (), self._ctx.index, self._ctx.answers
        found = probed([items[row] for row in self._rows.tolist()], self.fold(times), FROM_TEXT, seed=times)
        for name in models_asked(answers, MEANING):
            templates = self._templates(name)
            block = answers.block(MEANING, name, templates[min(times, len(templates) - 1)]).first()
            found[name] = np.full(self.there.shape, np.nan)
            for option, scores in enumerate(block.scores.T[: index.width]):
                found[name][:, option] = index.spread(block, scores)[self._rows]
        return found

    def _templates(self, name: str) -> list[str | None]:
        asked = [t for t in MEANING_TEMPLATES if name in models_asked(self._ctx.answers, MEANING, t)]
        return [*asked] or [None]

    def balanceable(self, logits: Mapping[str, Floats], times: int) -> list[str]:
        """Return the auditors whose findings can be balanced: they saw all items, and a fresh fit can check the
        weights. The encoder has one further cross-fit."""

        def fresh(name: str) -> bool:
            whole = not np.isnan(logits[name][self.there]).any()
            return name in FROM_TEXT or (times == 0 and len(self._templates(name)) > 1 and whole)

        return [name for name in logits if self._all and fresh(name)]

    def left(self, logits: Mapping[str, Floats], weight: Floats) -> dict[str, LeftToFind]:
        """Return each auditor's gain over chance on the weighted items. `logits` are (s, K), and `weight` is (m,)."""
        ctx = self._ctx
        together = ctx.ranking.group if ctx.parts.groups is None else ctx.parts.groups
        won = {name: credit(_picked(one, self.there), self.key) for name, one in logits.items()}
        found = gains(won, self.there.sum(axis=1), weight[self._seen], together[self._rows])
        kinds = {name: "probe" if name in FROM_TEXT else "encoder" for name in found}
        return {name: one.model_copy(update={"kind": kinds[name]}) for name, one in found.items()}


def _picked(logits: Floats, there: Bools) -> Bools:
    return best(log_probabilities(logits, there), there.sum(axis=1))
