"""Classical item analysis with models as test takers, and the keys that their answers contradict.

Item-total correlations and KR-20 treat the models as test takers (Lord and Novick 1968). They need at least five models per
item, and stay vague with so few. Item response models are left to other tools (`robustify export responses`). A doubtful
key is not proof of an error, because models share errors.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robustify.base.arrays import ROUNDING, Bools, Floats, Ints
from robustify.judging.accuracy import Credits
from robustify.judging.context import Parts
from robustify.judging.measures import against_chance
from robustify.judging.response_data import ResponseData
from robustify.judging.screen.votes import UNANSWERED, first_picks
from robustify.judging.stats.intervals import interval, rate
from robustify.judging.stats.tests import paired_difference, poisson_binomial, upper_tail
from robustify.judging.summary.model_parts import ItemAnalysis, KeysToCheck, LabelNoise
from robustify.judging.summary.quantity import Quantity, Reason

FEWEST, FEWEST_STRONG = 5, 2
"""Least number of models that answered an item, and of strong models if there are fewer."""
PLANTED, DRAWS, MOST_KEYS = 0.05, 200, 50
"""Share of keys that are made wrong to measure the precision of a list, number of times, and longest list."""
LEAST_PRECISION = 0.5
"""Precision below which no keys are listed."""
LISTED = 1_000
"""Maximum number of listed items. `flagged` counts all of them."""


@dataclass(frozen=True, eq=False)
class AnalysedItems:
    """Summary of the item analysis, and the values for each item. Columns are (n,), NaN or "" for items that too few
    models answered.

    `is_analysed` (n,) marks the items with enough answers, and `listed` has the keys to check, the most doubtful first.
    """

    part: ItemAnalysis
    columns: Mapping[str, Iterable[object]]
    is_analysed: Bools
    listed: Ints


def item_analysis(
    responses: ResponseData, parts: Parts, credits: Mapping[str, Credits]
) -> AnalysedItems | None:
    """Analyze each item by the models' answers to the full question. None if fewer than five models answered any item."""
    index, credit_of = responses.index, _full_credits(credits)
    picks_of = {
        name: picks
        for name in credit_of
        if (picks := first_picks(responses.answers, index, responses.full, name)) is not None
    }
    if len(picks_of) < FEWEST:
        return None
    credit = np.column_stack([credit_of[name] for name in picks_of])
    n = np.sum(~np.isnan(credit), axis=1)
    analysed = n >= FEWEST
    if not analysed.any():
        return None
    credit[~analysed] = np.nan
    picks = np.where(np.isnan(credit), -1, np.column_stack([*picks_of.values()]))
    order = np.argsort(np.nanmean(credit, axis=0), kind="stable")
    half = len(order) // 2
    weaker, stronger = (_pick_counts(picks[:, of], index.width) for of in (order[:half], order[half:]))
    options, rows = np.arange(index.width), np.arange(len(index))
    group_of = np.repeat(
        (rows if responses.groups is None else responses.groups)[:, None], index.width, axis=1
    )
    wrong = (options < index.k[:, None]) & (options != index.key[:, None]) & analysed[:, None]
    unpicked = wrong & (weaker + stronger == 0)
    difficulty = np.where(analysed, np.nansum(credit, axis=1) / np.maximum(n, 1), np.nan)
    total = corrected_item_total(credit)
    misled = np.where(wrong, stronger, -1).max(axis=1) > stronger[rows, index.key]
    votes = weighted_votes(picks, index.key, index.k)
    doubt, other = key_doubt(votes, index.key)
    keys, listed = keys_to_check(votes[analysed], index.key[analysed], index.k[analysed])
    listed = np.flatnonzero(analysed)[listed]
    part = ItemAnalysis(
        models=tuple(picks_of),
        n=int(analysed.sum()),
        kr20=_kr20(credit),
        negative=Quantity.from_rate(rate(np.where(np.isnan(total), np.nan, total < 0), responses.groups)),
        unpicked=Quantity.from_rate(rate(unpicked[wrong].astype(np.float64), group_of[wrong])),
        misled=Quantity.from_rate(parts.rate(misled.astype(np.float64), analysed)),
        keys=keys,
    )
    columns: dict[str, Iterable[object]] = {
        "models": n,
        "difficulty": difficulty,
        "item_total": total,
        "information": information(difficulty, total),
        "unpicked": np.where(analysed, unpicked.sum(axis=1), 0),
        "picks_of_weaker": _joined_counts(weaker, index.k),
        "picks_of_stronger": _joined_counts(stronger, index.k),
        "other": np.where(analysed & (doubt > 0), other, -1),
        "doubt": np.where(analysed, doubt, np.nan),
        "check": np.isin(rows, listed).astype(np.int64),
    }
    return AnalysedItems(part, columns, analysed, listed)


def label_noise(
    responses: ResponseData,
    parts: Parts,
    credits: Mapping[str, Credits],
    analysed: AnalysedItems | None = None,
) -> LabelNoise | None:
    """Return the keys that may be wrong, or None if no model was asked the full question.

    With the `analysed` answers of five models, these are the most doubtful keys, if at least half of such a list is wrong.
    With fewer, they are the items that all strong models answer with the same wrong choice. A model is `strong` if its
    `full` accuracy is significantly above chance and above its own accuracy without the question. `expected` is the number
    of `all_wrong` items that would be flagged if wrong picks were independent and uniform, and `p` the probability of as
    many or more. It is a lower bound, because models share errors. Exchangeable keys do not apply, because strong models
    know most keys.
    """
    index, full = responses.index, _full_credits(credits)
    if not full:
        return None
    strong = tuple(name for name in full if _is_strong(responses.index.k, parts, credits[name]))
    if analysed is not None:
        keys = analysed.part.keys
        if (keys.precision.value or 0.0) < LEAST_PRECISION:
            vague = Reason.of("vague_list", precision=keys.precision.value, planted=keys.planted)
            return LabelNoise(strong=strong, reason=vague)
        return _noise(responses.index.items, parts, strong, analysed.is_analysed, analysed.listed)
    if len(strong) < FEWEST_STRONG:
        few = Reason.of("few_strong_models", strong=len(strong), asked=len(full))
        return LabelNoise(strong=strong, reason=few)
    all_picks = (first_picks(responses.answers, index, responses.full, name) for name in strong)
    picks = np.column_stack([pick for pick in all_picks if pick is not None])
    answered = (picks != UNANSWERED).all(axis=1) & (index.key >= 0)
    wrong = answered & (picks >= 0).all(axis=1) & (picks != index.key[:, None]).all(axis=1)
    flagged = np.flatnonzero(wrong & (picks == picks[:, :1]).all(axis=1))
    agreeing, units = (index.k[wrong] - 1.0) ** (1 - len(strong)), parts.groups_of(wrong)
    chance = {
        "all_wrong": int(np.count_nonzero(wrong)),
        "expected": float(agreeing.sum()),
        "p": upper_tail(poisson_binomial(agreeing, units), len(flagged)),
    }
    return _noise(responses.index.items, parts, strong, answered, flagged).model_copy(update=chance)


def _is_strong(k: Ints, parts: Parts, credits: Credits) -> bool:
    """Return whether a model is significantly better with the question than by chance and than without the question."""
    full, blind, was_asked = credits["full"], credits.get("choices_only"), k > 0
    if full is None:
        return False
    score = against_chance(full[was_asked], k[was_asked], parts.groups_of(was_asked))
    if score.value is None or score.ci is None or score.ci[0] <= (score.chance or 0.0):
        return False
    if blind is None:
        return True
    gain = paired_difference(full, blind, parts.groups)
    return gain.ci is not None and gain.ci[0] > 0


def _noise(
    items: Sequence[str], parts: Parts, strong: tuple[str, ...], answered: Bools, listed: Ints
) -> LabelNoise:
    """Summarize the keys in `listed`, which should be checked, among the `answered` items (n,) of each split."""
    flagged = np.isin(np.arange(len(answered)), listed).astype(np.float64)
    overall, kept, removed = (
        Quantity.from_rate(parts.rate(flagged, answered & split))
        for split in (True, parts.kept, parts.flagged)
    )
    return LabelNoise(
        strong=strong,
        n=int(np.count_nonzero(answered)),
        flagged=overall,
        in_kept=kept,
        in_flagged=removed,
        items=tuple(items[i] for i in listed[:LISTED].tolist()),
    )


def _full_credits(credits: Mapping[str, Credits]) -> dict[str, Floats]:
    return {name: credit for name, views in credits.items() if (credit := views.get("full")) is not None}


def corrected_item_total(credit: Floats) -> Floats:
    """Correlate the models' credit on each item with their mean credit on all others. The result is (n,), NaN
    if either does not vary. `credit` (n, m) has the credits of m models, NaN if unanswered."""
    seen = ~np.isnan(credit)
    n, credit = seen.sum(axis=1, keepdims=True), np.where(seen, credit, 0.0)
    others = (credit.sum(axis=0) - credit) / np.maximum(seen.sum(axis=0) - seen, 1)

    def deviations(x: Floats) -> Floats:
        return np.where(seen, x - np.where(seen, x, 0.0).sum(axis=1, keepdims=True) / np.maximum(n, 1), 0.0)

    a, b = deviations(credit), deviations(others)
    norm = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.where(norm > ROUNDING, (a * b).sum(axis=1) / np.maximum(norm, ROUNDING), np.nan)


def information(difficulty: Floats, total: Floats) -> Floats:
    """Return the information that each item gives about a model of mean ability (n,), or 0 without discrimination.

    The slope of the normal ogive is r / sqrt(1 - r^2) with the biserial correlation r (Lord and Novick 1968, 16.10), and
    information that of the logistic curve of this slope, 1.7 times as steep (Birnbaum 1968).
    """
    from scipy.special import expit, ndtri

    inside = (difficulty > 0) & (difficulty < 1) & (total > 0)
    p = np.where(inside, difficulty, 0.5)
    cut = ndtri(p)
    height = np.exp(-(cut**2) / 2) / np.sqrt(2 * np.pi)
    r = np.minimum(np.where(inside, total, 0.0) * np.sqrt(p * (1 - p)) / height, 0.95)
    slope, root = 1.7 * r / np.sqrt(1 - r**2), np.sqrt(1 - r**2)
    right = expit(1.7 * cut / root)
    return np.where(np.isnan(difficulty), np.nan, slope**2 * right * (1 - right))


def weighted_votes(picks: Ints, key: Ints, k: Ints) -> Floats:
    """Sum the models' votes for each option, giving accurate models more weight (n, K). `picks` are (n, m).

    A model that is right in a share p of its answers votes with the square of log(p (K - 1) / (1 - p)), because weak models
    share errors, and with 0 below chance.
    """
    answered, width = picks >= 0, int(k.max(initial=2))
    right = ((picks == key[:, None]) & answered).sum(axis=0) / np.maximum(answered.sum(axis=0), 1)
    right = np.clip(right, 0.01, 0.99)
    weight = np.maximum(np.log(right * (width - 1) / (1 - right)), 0.0) ** 2
    return np.stack([(picks == option) @ weight for option in range(width)], axis=1)


def key_doubt(votes: Floats, key: Ints) -> tuple[Floats, Ints]:
    """Return the strongest other option, and its lead over the key in votes. `votes` are (n, K). The difference orders keys
    by doubt, but is not a probability."""
    rows, others = np.arange(len(key)), votes.copy()
    others[rows, key] = -1.0
    return others.max(axis=1) - votes[rows, key], others.argmax(axis=1)


def keys_to_check(votes: Floats, key: Ints, k: Ints) -> tuple[KeysToCheck, Ints]:
    """Estimate the precision of a list of the most doubtful keys. Return it, and the listed items in order of doubt.

    The precision is the share of planted keys on such lists, on copies of the set in which 5 % of the keys are made wrong.
    It is a lower bound at this share, because keys that are wrong in the set itself count as right.
    """
    n, rng, precisions = round(PLANTED * len(key)), np.random.default_rng(0), list[float]()
    length = min(MOST_KEYS, n)
    for _ in range(DRAWS if n else 0):
        planted, wrong = rng.choice(len(key), n, replace=False), key.copy()
        wrong[planted] = (key[planted] + rng.integers(1, k[planted])) % k[planted]
        listed = np.argsort(-key_doubt(votes, wrong)[0], kind="stable")[:length]
        precisions.append(float(np.isin(listed, planted).mean()))
    doubt = key_doubt(votes, key)[0]
    top = np.argsort(-doubt, kind="stable")[:length]
    if not precisions:
        return KeysToCheck(planted=PLANTED, precision=Quantity(n=0)), top[:0]
    value, ci = float(np.mean(precisions)), interval(np.array(precisions))
    keys = KeysToCheck(planted=PLANTED, precision=Quantity(value=value, n=length, ci=ci))
    return keys, top[doubt[top] > 0] if value >= LEAST_PRECISION else top[:0]


def _kr20(credit: Floats) -> Quantity:
    """Return the reliability of the models' scores on items that every model answered (Kuder-Richardson formula 20)."""
    complete = credit[~np.isnan(credit).any(axis=1)]
    n, spread = len(complete), float(complete.sum(axis=0).var()) if len(complete) else 0.0
    if n < 2 or spread <= ROUNDING:
        return Quantity(n=n)
    return Quantity(value=n / (n - 1) * (1 - float(complete.var(axis=1).sum()) / spread), n=n)


def _pick_counts(picks: Ints, width: int) -> Ints:
    return np.stack([(picks == option).sum(axis=1) for option in range(width)], axis=1)


def _joined_counts(counts: Ints, k: Ints) -> list[str]:
    return [" ".join(map(str, row[:n])) for row, n in zip(counts.tolist(), k.tolist(), strict=True)]
