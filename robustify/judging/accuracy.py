"""Accuracy of models under each view, comparisons of pairs of models, and calibration of their probabilities."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax

from robustify.base.arrays import Bools, Floats, Ints
from robustify.items.answers import Answers, Block
from robustify.items.scoring import FULL_OF, NORMS, VIEW_OF, Mode, Norm, credit, normalised, picks
from robustify.judging.context import Parts, Rules
from robustify.judging.looks.estimate import Estimate, looks_difference
from robustify.judging.response_data import ResponseData
from robustify.judging.screen.item_index import ItemIndex
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screen.votes import Votes, averaged, first_block, first_template, models_asked
from robustify.judging.stats.intervals import (
    FEWEST_CLUSTERS,
    clusters,
    mean_interval,
    rate,
    resampled,
    unit_index,
)
from robustify.judging.stats.tests import (
    LEVEL,
    Difference,
    detectable,
    holm,
    paired_difference,
    sign_flip,
)
from robustify.judging.summary.model_parts import (
    COLDEST,
    HOTTEST,
    Calibration,
    CalibrationBin,
    CalibrationViews,
    Pair,
    Paired,
    PairView,
)
from robustify.judging.summary.quantity import Quantity

PAIRED = ("full", "cloze_chars")
"""Measures on which two models are compared."""

Credits = Mapping[str, Floats | None]
"""Credits (n,) by view, None for a view that was not asked. `choices_only` is in the screen's mode, and the other mode is
`choices_only_by_letter` or `choices_only_by_text`."""


@dataclass(frozen=True, eq=False)
class ScoredModel:
    """Answers of one model to all items, and the credit that it earns on each item under each view. `full` is
    the view of the full question."""

    model: str
    answers: Answers
    index: ItemIndex
    full: str
    credits: Credits


def score_model(
    answers: Answers, index: ItemIndex, model: str, full: Mode, rules: ScreenRules, best: Bools | None = None
) -> ScoredModel:
    """Score one model's answers under every view. Tied choices share the credit. `full` and the cloze use the first row of
    each item, and the choices-only views average over rotations. Texts are scored per character, and in the screen by its
    norm. `best` (n, K) marks a voter's best choices in the screen."""
    other: Mode = "letter" if rules.mode == "text" else "text"
    full_rows = first_block(answers, FULL_OF[full], model).first()
    cloze_rows = first_block(answers, "cloze", model).first()
    choice_rows = first_block(answers, "choices_only_text", model)
    if best is None:
        best = _choices_only(answers, index, model, rules)
    other_best = _choices_only(answers, index, model, ScreenRules(mode=other))
    credits = {
        "full": index.spread(full_rows, full_rows.correct) if len(full_rows) else None,
        **{f"cloze_{norm}": _cloze(cloze_rows, norm, choice_rows, index) for norm in NORMS},
        "choices_only": None if best is None else credit(best, index.key),
        f"choices_only_by_{other}": None if other_best is None else credit(other_best, index.key),
    }
    return ScoredModel(model, answers, index, FULL_OF[full], credits)


def score_models(
    responses: ResponseData, votes: Votes, rules: Rules, names: Iterable[str]
) -> dict[str, ScoredModel]:
    """Score the answers of the named models under every view by the rules of the run."""
    screen_rules = rules.screen.model_copy(update={"template": votes.template})
    best_of = {name: votes.best[:, m] for m, name in enumerate(votes.voters)}
    models = {
        name: score_model(
            responses.answers, responses.index, name, responses.mode, screen_rules, best_of.get(name)
        )
        for name in names
    }
    if rules.hidden == "question":
        return models
    # PMI needs scores of choices without any question, which a screen that hides less lacks.
    return {
        name: replace(model, credits={**model.credits, "cloze_pmi": None}) for name, model in models.items()
    }


def _choices_only(answers: Answers, index: ItemIndex, model: str, rules: ScreenRules) -> Bools | None:
    """Mark the options with a model's best choices-only score, including ties (n, K). Return None if the model was
    not asked."""
    view, template = VIEW_OF[rules.mode], rules.template
    if template is None or model not in models_asked(answers, view, template):
        template = first_template(answers, view, (model,))
    block = answers.block(view, model, template)
    norm = rules.norm if rules.mode == "text" else "chars"
    return averaged(block, rules.mode, index, norm) if len(block) else None


def _cloze(block: Block, norm: Norm, choices: Block, index: ItemIndex) -> Floats | None:
    if not len(block):
        return None
    correct = picks(normalised(block, norm, choices), block.key, block.k)[0]
    if norm == "chars":
        # An imported log may contain picks without scores.
        correct = np.where(np.isnan(correct) & np.isnan(block.scores).all(axis=1), block.correct, correct)
    return None if np.isnan(correct).all() else index.spread(block, correct)


def pairs(
    models: Sequence[str],
    voters: Sequence[str],
    parts: Parts,
    credits: Mapping[str, Credits],
    looks: Mapping[str, Estimate],
) -> dict[str, Pair] | None:
    """Compare each pair of models on the items that both answered. Entries are named "A vs B". None if there are
    fewer than two models. `p_holm` adjusts the mid-p over all pairs, views and splits. If it is above 0.05, `mde` is
    the difference detectable with 80 % power at the level that Holm's method requires of the smallest p-value."""
    models = [m for m in models if any(credits[m].get(view) is not None for view in PAIRED)]
    comparisons: dict[tuple[str, str, str, str], tuple[Paired, Difference]] = {}
    for (a, b), view in product(combinations(models, 2), PAIRED):
        credit_a, credit_b = credits[a].get(view), credits[b].get(view)
        if credit_a is None or credit_b is None:
            continue
        fit = parts.cloze if view == "cloze_chars" else np.ones(len(credit_a), dtype=bool)
        for split, mask in (("all", fit), ("kept", fit & parts.kept)):
            groups = None if parts.groups is None else parts.groups[mask]
            comparisons[a, b, view, split] = compare_pair(credit_a[mask], credit_b[mask], groups)
    tested = {place: paired.p_mid for place, (paired, _) in comparisons.items() if paired.p_mid is not None}
    p_holm_of = dict(zip(tested, holm(list(tested.values())), strict=True))
    entries = {}
    for place, (paired, difference) in comparisons.items():
        p_holm = p_holm_of.get(place)
        null = difference.error is not None and p_holm is not None and p_holm > LEVEL
        mde = detectable(difference.error or 0.0, 1 - LEVEL / len(tested)) if null else None
        entries[place] = paired.model_copy(update={"p_holm": p_holm, "mde": mde})
    table = {}
    for a, b in combinations(models, 2):
        views = {
            view: PairView(all=entries[a, b, view, "all"], kept=entries[a, b, view, "kept"])
            for view in PAIRED
            if (a, b, view, "all") in entries
        }
        looks_gap = _more_looks(looks.get(a), looks.get(b), parts.groups)
        is_voter = a in voters or b in voters
        table[f"{a} vs {b}"] = Pair(models=(a, b), is_voter=is_voter, looks=looks_gap, **views)
    return table or None


def _more_looks(estimate: Estimate | None, other: Estimate | None, groups: Ints | None) -> Quantity | None:
    """Return the first model's points by looks minus the second's, or None if either model has no estimate."""
    if estimate is None or other is None or estimate.part.value is None or other.part.value is None:
        return None
    return Quantity.from_rate(looks_difference(estimate.values, other.values, groups))


def compare_pair(credit: Floats, other: Floats, groups: Ints | None = None) -> tuple[Paired, Difference]:
    """Test whether two models differ in accuracy, and estimate the difference with its standard error. Credits are (n,),
    NaN for unanswered items. McNemar's exact test (1947) needs right or wrong answers, so items with a shared credit
    count only as `tied`. With `groups` (n,), the p-values come from the exact sign-flip test of the group sums."""
    paired = ~np.isnan(credit) & ~np.isnan(other)
    credit, other = credit[paired], other[paired]
    unshared = np.isin(credit, (0, 1)) & np.isin(other, (0, 1))
    sign = np.where(unshared, np.sign(credit - other), 0.0).astype(np.int64)
    b, c = int(np.count_nonzero(sign > 0)), int(np.count_nonzero(sign < 0))
    units = None if groups is None else groups[paired]
    p, p_mid = sign_flip(sign, units) if unshared.any() else (None, None)
    difference = paired_difference(credit, other, units)
    counts = {"b": b, "c": c, "tied": int(np.sum(~unshared))}
    tested = Paired(
        n=difference.n,
        **counts,
        difference=Quantity.from_rate(difference),
        p=p,
        p_mid=p_mid,
        p_holm=None,
        mde=None,
    )
    return tested, difference


BINS = 15
DRAWS = 1_000
_MOST_BAGS = 1_024
_TRIALS = 1 << 20


def calibrations(responses: ResponseData, parts: Parts) -> dict[str, CalibrationViews]:
    """Measure each model's calibration on the full question and on cloze, for all items and for kept items."""

    def under(view: str, name: str, *, kept: bool = False) -> Calibration | None:
        rows, selected = responses.first_rows(view, name), np.ones(len(responses.index), dtype=bool)
        for mask in [parts.kept] * kept + [parts.cloze] * (view == "cloze"):
            selected = selected & mask
        rows = rows.where(selected[responses.index.index_of[rows.item]])
        if (rows.draws > 0).any():
            return None  # shares of a few sampled replies do not show the model's own error
        return calibration(rows.scores, rows.key, rows.k, responses.row_groups(rows)) if len(rows) else None

    return {
        name: CalibrationViews(
            full=under(responses.full, name),
            cloze_chars=under("cloze", name),
            full_kept=under(responses.full, name, kept=True),
            cloze_chars_kept=under("cloze", name, kept=True),
        )
        for name in responses.models
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
    correct, _, tie = picks(scores, key, k)
    rows = tie > 0
    n = int(np.count_nonzero(rows))
    if n < FEWEST_CLUSTERS:
        return None
    exists = np.arange(scores.shape[1]) < k[rows, None]
    # A choice with probability 0 would make the loss infinite at every temperature.
    logits = log_softmax(np.where(exists, np.maximum(scores[rows], -1e4), -np.inf), axis=1)
    key, correct, probabilities = key[rows], correct[rows], softmax(logits, axis=1)
    confidence, loss = probabilities.max(axis=1), brier(probabilities, key)
    error = ece(confidence, correct)
    unit = None if groups is None else groups[rows]
    scaled = _scaled(logits, key, unit, seed)
    # Many units are first combined into random bags, which have the same spread at a lower cost (Wolter 2007).
    columns = np.column_stack(
        [np.where(np.arange(BINS) == _place(confidence)[:, None], (correct - confidence)[:, None], 0.0), loss]
    )
    bag = unit
    if clusters(n, unit) > _MOST_BAGS:
        bag = unit_index(n, unit) % _MOST_BAGS
    means, drawn = columns.mean(axis=0), resampled(columns, bag, DRAWS, seed)
    noise = np.abs(drawn[:, :BINS] - means[:BINS]).sum(axis=1)
    # Clustered items are resampled by cluster, and the bootstrap noise replaces that of a calibrated model.
    n_units = clusters(n, unit)
    calibrated = _if_calibrated(confidence, seed) if n_units == n else noise
    # The estimate minus the 97.5 % quantile of the noise is a lower bound for any true error.
    widest = max(float(np.quantile(noise, 0.975)), float(np.quantile(calibrated, 0.975)))
    low = max(0.0, float(np.abs(means[:BINS]).sum()) - widest)
    errors, has_interval = np.abs(drawn[:, :BINS]).sum(axis=1), n_units >= FEWEST_CLUSTERS
    return Calibration(
        ece=error,
        ece_ci=(low, float(np.quantile(errors, 0.975))) if has_interval else None,
        ece_if_calibrated=float(calibrated.mean()),
        ece_p=(1 + int(np.count_nonzero(calibrated >= error))) / (1 + len(calibrated)),
        brier=float(loss.mean()),
        brier_ci=None if not has_interval else mean_interval(loss, unit),
        temperature=temperature(logits, key),
        scaled_ece=ece(scaled.max(axis=1), correct),
        scaled_brier=float(brier(scaled, key).mean()),
        n=n,
        bins=bins(confidence, correct, unit),
    )


def brier(probabilities: Floats, key: Ints) -> Floats:
    """Return the Brier score of each item: the squared errors of its probabilities, summed over choices (Brier 1950)."""
    right = np.arange(probabilities.shape[1]) == key[:, None]
    return np.asarray(((probabilities - right) ** 2).sum(axis=1))


def _scaled(logits: Floats, key: Ints, groups: Ints | None, seed: int) -> Floats:
    """Convert the logits of each random half to probabilities, at a temperature fitted to the other half (n, K)."""
    units = unit_index(len(key), groups)
    in_first = np.random.default_rng(seed).permutation(int(units.max()) + 1)[units] % 2 == 0
    out = logits
    for half in (in_first, ~in_first):
        if half.any() and not half.all():
            out = np.where(half[:, None], logits / temperature(logits[~half], key[~half]), out)
    return np.asarray(softmax(out, axis=1))


def ece(confidence: Floats, correct: Floats) -> float:
    """Return the expected calibration error: the mean gap between confidence and accuracy over 15 equal-width bins."""
    gap = np.bincount(_place(confidence), weights=correct - confidence, minlength=BINS)
    return float(np.abs(gap).sum() / len(confidence))


def bins(confidence: Floats, correct: Floats, groups: Ints | None = None) -> tuple[CalibrationBin, ...]:
    """Return the bins of the reliability diagram, from least to most confident, with Wilson intervals."""
    bin_of, rows = _place(confidence), []
    for b in range(BINS):
        accuracy = rate(correct[bin_of == b], None if groups is None else groups[bin_of == b])
        mean = float(confidence[bin_of == b].mean()) if accuracy.n else None
        rows.append(CalibrationBin(confidence=mean, accuracy=accuracy.value, n=accuracy.n, ci=accuracy.ci))
    return tuple(rows)


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
    finite = np.where(np.isfinite(centred), centred, 0.0)
    mean_at_key = float(finite[key, np.arange(len(key))].mean())

    def slope(log_beta: float) -> float:
        weights = np.exp(centred * math.exp(log_beta))
        return float(((weights * finite).sum(axis=0) / weights.sum(axis=0)).mean()) - mean_at_key

    hottest, coldest = -math.log(HOTTEST), -math.log(COLDEST)
    if slope(hottest) >= 0:
        return HOTTEST
    return COLDEST if slope(coldest) <= 0 else math.exp(-float(brentq(slope, hottest, coldest, xtol=1e-12)))
