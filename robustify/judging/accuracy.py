"""Accuracy of models under each view, comparisons of pairs of models, and calibration of their probabilities."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax

from robustify.base.arrays import Bools, Floats, Ints
from robustify.items.answers import Answers, Block
from robustify.items.scoring import FULL_OF, NORMS, VIEW_OF, Mode, Norm, credit, normalised, picks
from robustify.judging.context import Context
from robustify.judging.looks.estimate import Estimate, looks_difference
from robustify.judging.screen.item_index import ItemIndex
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screen.votes import averaged, first_block, first_template, models_asked
from robustify.judging.stats.intervals import FEWEST_CLUSTERS, clusters, interval, rate, resampled
from robustify.judging.stats.tests import (
    LEVEL,
    Difference,
    detectable,
    holm,
    independent_difference,
    paired_difference,
    sign_flip,
)
from robustify.judging.summary.quantity import Quantity, Score
from robustify.judging.summary.scored import (
    Calibration,
    CalibrationBin,
    CalibrationViews,
    Pair,
    Paired,
    PairView,
)

PAIRED = ("full", "cloze_chars")
"""Measures on which two models are compared."""

Credits = Mapping[str, Floats | None]
"""Credits (n,) by view, None for a view that was not asked. `choices_only` is in the screen's mode, and the other mode is
`choices_only_by_letter` or `choices_only_by_text`."""


@dataclass(frozen=True, eq=False)
class Scored:
    """Answers of one model to all items, and the credit that it earns on each item under each view. `full` is
    the view of the full question."""

    model: str
    answers: Answers
    index: ItemIndex
    full: str
    credits: Credits


def scored(
    answers: Answers, index: ItemIndex, model: str, full: Mode, rules: ScreenRules, voted: Bools | None = None
) -> Scored:
    """Score one model's answers under every view, sharing the credit of tied choices. `full` and the cloze
    use the first row of each item, and the choices-only views average over rotations. Texts are scored per
    character, and in the screen by its norm. `voted` (n, K) marks a voter's best choices in the screen."""
    other: Mode = "letter" if rules.mode == "text" else "text"
    question = first_block(answers, FULL_OF[full], model).first()
    cloze = first_block(answers, "cloze", model).first()
    alone = first_block(answers, "choices_only_text", model)
    if voted is None:
        voted = _choices_only(answers, index, model, rules)
    by_other = _choices_only(answers, index, model, ScreenRules(mode=other))
    won = {
        "full": index.spread(question, question.correct) if len(question) else None,
        **{f"cloze_{norm}": _cloze(cloze, norm, alone, index) for norm in NORMS},
        "choices_only": None if voted is None else credit(voted, index.key),
        f"choices_only_by_{other}": None if by_other is None else credit(by_other, index.key),
    }
    return Scored(model, answers, index, FULL_OF[full], won)


def all_scored(ctx: Context, names: Iterable[str]) -> dict[str, Scored]:
    """Score the answers of the named models under every view, following the rules of the run."""
    votes, hidden = ctx.votes, ctx.rules.hidden
    rules = ctx.rules.screen.model_copy(update={"template": votes.template})
    best = {name: votes.best[:, m] for m, name in enumerate(votes.voters)}
    found = {name: scored(ctx.answers, ctx.index, name, ctx.mode, rules, best.get(name)) for name in names}
    if hidden == "question":
        return found
    # PMI needs scores of choices without any question, which a screen that hides less lacks.
    return {name: replace(one, credits={**one.credits, "cloze_pmi": None}) for name, one in found.items()}


def heuristic_gap(won: Floats | None, longest: Floats, groups: Ints | None = None) -> Score | None:
    """Return how much more accurate a model is on items whose key is the longest choice than on all others.
    None if either accuracy is unknown. An item with tied longest choices counts in both by its tie-fair
    credit. The interval is Newcombe's, or a cluster bootstrap."""
    if won is None:
        return None
    there = ~np.isnan(won) & ~np.isnan(longest)
    a, c = won[there], longest[there]
    right, wrong = float(c.sum()), float((1 - c).sum())
    if not right or not wrong:
        return None
    plain = independent_difference(float(a @ c), right, float(a @ (1 - c)), wrong)
    if groups is None:
        return Score.of(plain, mde=plain.mde)
    if clusters(len(a), groups[there]) < FEWEST_CLUSTERS:
        return Score(value=plain.value, n=plain.n)
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.column_stack([a * c, c, a * (1 - c), 1 - c])
        means = resampled(table, groups[there])
        draws = means[:, 0] / means[:, 1] - means[:, 2] / means[:, 3]
    error = float(np.nanstd(draws))
    found = Difference(plain.value, plain.n, interval(draws) if error else None, error)
    return Score.of(found, mde=found.mde)


def _choices_only(answers: Answers, index: ItemIndex, model: str, rules: ScreenRules) -> Bools | None:
    """Mark the choices that share a model's best choices-only score (n, K). Return None if the model was not asked."""
    view, template = VIEW_OF[rules.mode], rules.template
    if template is None or model not in models_asked(answers, view, template):
        template = first_template(answers, view, (model,))
    block = answers.block(view, model, template)
    norm = rules.norm if rules.mode == "text" else "chars"
    return averaged(block, rules.mode, index, norm) if len(block) else None


def _cloze(block: Block, norm: Norm, alone: Block, index: ItemIndex) -> Floats | None:
    if not len(block):
        return None
    won = picks(normalised(block, norm, alone), block.key, block.k)[0]
    if norm == "chars":
        # An imported log may contain picks without scores.
        won = np.where(np.isnan(won) & np.isnan(block.scores).all(axis=1), block.correct, won)
    return None if np.isnan(won).all() else index.spread(block, won)


def pairs(
    ctx: Context, credits: Mapping[str, Credits], looks: Mapping[str, Estimate]
) -> dict[str, Pair] | None:
    """Compare each pair of models on the items that both answered. Entries are named "A vs B". None if there are
    fewer than two models. `p_holm` adjusts the mid-p over all pairs, views and splits. If it is above 0.05, `mde` is
    the difference detectable with 80 % power at the level that Holm's method requires of the smallest p-value."""
    parts, voters = ctx.parts, ctx.votes.voters
    models = [m for m in ctx.names if any(credits[m].get(view) is not None for view in PAIRED)]
    compared: dict[tuple[str, str, str, str], tuple[Paired, Difference]] = {}
    for (a, b), view in product(combinations(models, 2), PAIRED):
        one, two = credits[a].get(view), credits[b].get(view)
        if one is None or two is None:
            continue
        inside = parts.cloze if view == "cloze_chars" else np.ones(len(one), dtype=bool)
        for split, mask in (("all", inside), ("kept", inside & parts.kept)):
            groups = None if parts.groups is None else parts.groups[mask]
            compared[a, b, view, split] = compare_pair(one[mask], two[mask], groups)
    tested = {place: paired.p_mid for place, (paired, _) in compared.items() if paired.p_mid is not None}
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    entries = {}
    for place, (paired, found) in compared.items():
        p_holm = corrected.get(place)
        null = found.error is not None and p_holm is not None and p_holm > LEVEL
        mde = detectable(found.error or 0.0, 1 - LEVEL / len(tested)) if null else None
        entries[place] = paired.model_copy(update={"p_holm": p_holm, "mde": mde})
    table = {}
    for a, b in combinations(models, 2):
        views = {
            view: PairView(all=entries[a, b, view, "all"], kept=entries[a, b, view, "kept"])
            for view in PAIRED
            if (a, b, view, "all") in entries
        }
        owed = _more_looks(ctx, looks.get(a), looks.get(b))
        voted = a in voters or b in voters
        table[f"{a} vs {b}"] = Pair(models=(a, b), is_voter=voted, looks=owed, **views)
    return table or None


def _more_looks(ctx: Context, of: Estimate | None, other: Estimate | None) -> Quantity | None:
    """Return how much more the first model owes to looks. None if that of one of them cannot be estimated."""
    if of is None or other is None or of.part.value is None or other.part.value is None:
        return None
    return Quantity.of(looks_difference(of.values, other.values, ctx.groups))


def compare_pair(one: Floats, two: Floats, groups: Ints | None = None) -> tuple[Paired, Difference]:
    """Test whether two models differ in accuracy, and estimate the difference with its standard error. Credits are (n,),
    NaN for unanswered items. McNemar's exact test (1947) needs right or wrong answers, so items with a shared credit
    count only as `tied`. With `groups` (n,), the p-values come from the exact sign-flip test of the group sums."""
    there = ~np.isnan(one) & ~np.isnan(two)
    one, two = one[there], two[there]
    whole = np.isin(one, (0, 1)) & np.isin(two, (0, 1))
    better = np.where(whole, np.sign(one - two), 0.0).astype(np.int64)
    b, c = int(np.count_nonzero(better > 0)), int(np.count_nonzero(better < 0))
    together = None if groups is None else groups[there]
    exact, mid = sign_flip(better, together) if whole.any() else (None, None)
    found, counts = paired_difference(one, two, together), {"b": b, "c": c, "tied": int(np.sum(~whole))}
    tested = Paired(
        n=found.n, **counts, difference=Quantity.of(found), p=exact, p_mid=mid, p_holm=None, mde=None
    )
    return tested, found


BINS = 15
DRAWS = 1_000
COLDEST, HOTTEST = 1e-3, 1e3
_MOST_BAGS = 1_024
_TRIALS = 1 << 20


def calibrations(ctx: Context) -> dict[str, CalibrationViews]:
    """Measure how well each model is calibrated on the full question and on cloze, on all items and on kept ones."""

    def under(view: str, name: str, *, kept: bool = False) -> Calibration | None:
        rows, inside = ctx.first_rows(view, name), np.ones(len(ctx.index), dtype=bool)
        for mask in [ctx.parts.kept] * kept + [ctx.parts.cloze] * (view == "cloze"):
            inside = inside & mask
        rows = rows.where(inside[ctx.index.index_of[rows.item]])
        if (rows.draws > 0).any():
            return None  # shares of a few sampled replies do not show the model's own error
        return calibration(rows.scores, rows.key, rows.k, ctx.row_groups(rows)) if len(rows) else None

    return {
        name: CalibrationViews(
            full=under(ctx.full, name),
            cloze_chars=under("cloze", name),
            full_kept=under(ctx.full, name, kept=True),
            cloze_chars_kept=under("cloze", name, kept=True),
        )
        for name in ctx.names
    }


def calibration(
    scores: Floats, key: Ints, k: Ints, groups: Ints | None = None, *, seed: int = 0
) -> Calibration | None:
    """Return the calibration of a softmax over the choices, or None if fewer than 10 items were answered.

    `scores` (n, K) are log probabilities up to a constant per item. `groups` (n,) are resampled together. `ece` is the
    expected calibration error in 15 equal-width bins (Guo et al. 2017). On few items, even a calibrated model has a
    positive one: `ece_if_calibrated` is its mean for keys drawn from the model's confidence, and `ece_p` the share of
    draws that reach the observed error. `ece_ci` is conservative, because a plain bootstrap never covers the error of a
    calibrated model.
    """
    won, _, tie = picks(scores, key, k)
    rows = tie > 0
    n = int(np.count_nonzero(rows))
    if n < FEWEST_CLUSTERS:
        return None
    there = np.arange(scores.shape[1]) < k[rows, None]
    # A choice with probability 0 would make the loss infinite at every temperature.
    logits = log_softmax(np.where(there, np.maximum(scores[rows], -1e4), -np.inf), axis=1)
    key, won, probabilities = key[rows], won[rows], softmax(logits, axis=1)
    sure, loss = probabilities.max(axis=1), brier(probabilities, key)
    error = ece(sure, won)
    together = None if groups is None else groups[rows]
    scaled = _scaled(logits, key, together, seed)
    # Many units are first combined into random bags, which have the same spread at a lower cost (Wolter 2007).
    table = np.column_stack(
        [np.where(np.arange(BINS) == _place(sure)[:, None], (won - sure)[:, None], 0.0), loss]
    )
    bags = together
    if clusters(n, together) > _MOST_BAGS:
        each = np.arange(n) if together is None else np.unique(together, return_inverse=True)[1]
        bags = each % _MOST_BAGS
    means, drawn = table.mean(axis=0), resampled(table, bags, DRAWS, seed)
    noise = np.abs(drawn[:, :BINS] - means[:BINS]).sum(axis=1)
    # Clustered items are resampled by cluster, and the bootstrap noise replaces that of a calibrated model.
    units = clusters(n, together)
    calibrated = _if_calibrated(sure, seed) if units == n else noise
    # The estimate minus the 97.5 % quantile of the noise is a lower bound for any true error.
    widest = max(float(np.quantile(noise, 0.975)), float(np.quantile(calibrated, 0.975)))
    low = max(0.0, float(np.abs(means[:BINS]).sum()) - widest)
    errors, enough = np.abs(drawn[:, :BINS]).sum(axis=1), units >= FEWEST_CLUSTERS
    return Calibration(
        ece=error,
        ece_ci=(low, float(np.quantile(errors, 0.975))) if enough else None,
        ece_if_calibrated=float(calibrated.mean()),
        ece_p=(1 + int(np.count_nonzero(calibrated >= error))) / (1 + len(calibrated)),
        brier=float(loss.mean()),
        brier_ci=interval(drawn[:, BINS]) if enough else None,
        temperature=temperature(logits, key),
        scaled_ece=ece(scaled.max(axis=1), won),
        scaled_brier=float(brier(scaled, key).mean()),
        n=n,
        bins=bins(sure, won, together),
    )


def brier(probabilities: Floats, key: Ints) -> Floats:
    """Return the Brier score of each item: the squared errors of its probabilities, summed over choices (Brier 1950)."""
    right = np.arange(probabilities.shape[1]) == key[:, None]
    return np.asarray(((probabilities - right) ** 2).sum(axis=1))


def _scaled(logits: Floats, key: Ints, groups: Ints | None, seed: int) -> Floats:
    """Convert the logits of each random half to probabilities at a temperature fitted on the other half (n, K)."""
    units = np.arange(len(key)) if groups is None else np.unique(groups, return_inverse=True)[1]
    first = np.random.default_rng(seed).permutation(int(units.max()) + 1)[units] % 2 == 0
    out = logits
    for half in (first, ~first):
        if half.any() and not half.all():
            out = np.where(half[:, None], logits / temperature(logits[~half], key[~half]), out)
    return np.asarray(softmax(out, axis=1))


def ece(confidence: Floats, correct: Floats) -> float:
    """Return the expected calibration error: the mean gap between confidence and accuracy over 15 equal-width bins."""
    gap = np.bincount(_place(confidence), weights=correct - confidence, minlength=BINS)
    return float(np.abs(gap).sum() / len(confidence))


def bins(confidence: Floats, correct: Floats, groups: Ints | None = None) -> tuple[CalibrationBin, ...]:
    """Return the bins of the reliability diagram, from least to most confident, with Wilson intervals."""
    place, out = _place(confidence), []
    for b in range(BINS):
        accuracy = rate(correct[place == b], None if groups is None else groups[place == b])
        mean = float(confidence[place == b].mean()) if accuracy.n else None
        out.append(CalibrationBin(confidence=mean, accuracy=accuracy.value, n=accuracy.n, ci=accuracy.ci))
    return tuple(out)


def _place(confidence: Floats) -> Ints:
    return np.minimum((confidence * BINS).astype(np.int64), BINS - 1)


def _if_calibrated(confidence: Floats, seed: int) -> Floats:
    """Simulate the calibration error of a calibrated model (draws,). Many items are replaced by their normal limit."""
    rng, place, n = np.random.default_rng(seed), _place(confidence), len(confidence)
    if n * DRAWS <= _TRIALS:
        right = rng.random((DRAWS, n)) < confidence
        in_bin = np.arange(BINS) == place[:, None]
        gap = (right - confidence) @ in_bin
    else:
        spread = np.bincount(place, weights=confidence * (1 - confidence), minlength=BINS)
        gap = rng.normal(size=(DRAWS, BINS)) * np.sqrt(spread)
    return np.asarray(np.abs(gap).sum(axis=1) / n)


def temperature(logits: Floats, key: Ints) -> float:
    """Return the temperature T that minimizes the log loss of softmax(logits / T). The loss is convex in 1/T. T is 1000
    without signal, and 0.001 for scores that are never wrong. `logits` (n, K) are -inf beyond an item's choices."""
    columns = np.ascontiguousarray(logits.T)  # (choices, items), because sums along long rows are fast
    centred = np.asarray(columns - columns.max(axis=0))
    known = np.where(np.isfinite(centred), centred, 0.0)
    right = float(known[key, np.arange(len(key))].mean())

    def slope(at: float) -> float:
        weight = np.exp(centred * math.exp(at))
        return float(((weight * known).sum(axis=0) / weight.sum(axis=0)).mean()) - right

    hottest, coldest = -math.log(HOTTEST), -math.log(COLDEST)
    if slope(hottest) >= 0:
        return HOTTEST
    return COLDEST if slope(coldest) <= 0 else math.exp(-float(brentq(slope, hottest, coldest, xtol=1e-12)))
