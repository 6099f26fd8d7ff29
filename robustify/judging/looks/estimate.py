"""Points of looks of each model: the share of items that it gets right because their keys look like keys, from up to three
sources.

A model that does not know an item picks option j with p_j ~ exp(b z_j + a_position + kappa [j is the key]), where z is a
question-free reader's logit. If w is the share of wrong picks on an item, u = w / (1 - p_key) estimates how often it was
not known, and looks are the mean of u (p_key - p0_key), where p0 has b = 0. The sources of b fail for different reasons:

- `wrong`: wrong picks among the wrong options. Too large if plausible distractors look like keys.
- `blind`: picks without the question, with the smaller slope of wrong options and keys. Too large if looks count for less
  once the question can be read.
- `panel`: b of the wrong picks, plus how much more looks draw a panel of models to the key than to its wrong options, and
  kappa. Fails if only weak models find items with a cue easier.

The smallest counts. Claiming it only if the lower limits of two or more are above 0 is an intersection-union test (Berger
1982), whose level holds if any of them is sound. So does that of the interval, which spans those of all sources. Items on
which most other models share a wrong option leave the fits and add no looks. An unreadable answer may have been any option,
so that intervals span the extremes. Tied options share their credit, but are no picks.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints
from robustify.judging.looks.panel import Panel
from robustify.judging.looks.preference import FEWEST_WRONG, Slope, blind_slopes, wrong_groups, wrong_slope
from robustify.judging.looks.read_options import UNREAD, PickRows, ReadOptions
from robustify.judging.stats.intervals import (
    FEWEST_CLUSTERS,
    Interval,
    clustered_variance,
    unit_index,
)
from robustify.judging.stats.tests import Difference
from robustify.judging.summary.model_parts import Looks, LooksSource, LooksSourceName, LooksState
from robustify.judging.summary.quantity import Quantity, Reason

TAIL = 0.975
"""Level of the one-sided lower limit, and thus of each end of the two-sided 95 % interval."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Looks of one model: the part of the summary, and the influence of each item on the value (n,), 0 without a value."""

    part: Looks
    influence: Floats

    @property
    def values(self) -> Floats:
        """Looks by item (n,). Their mean is the value, and their spread gives its standard error."""
        # The ridge penalty leaves influences with a mean that is not quite 0.
        centred = self.influence - self.influence.mean()
        return np.asarray((self.part.value or 0.0) + len(centred) * centred)


@dataclass(frozen=True, eq=False)
class _Influenced:
    """Value, the influence of each item on it (n,), and the number of picks from which it was computed."""

    value: float
    influence: Floats
    picks: int = 0

    def less(self, other: "_Influenced") -> "_Influenced":
        """Return the difference of two values."""
        return _Influenced(self.value - other.value, self.influence - other.influence)

    def interval(self, group: Ints, df: int) -> Interval:
        """Return the two-sided 95 % interval over independent groups (n,)."""
        error, own_df = _error(self.influence, group)
        half = _quantile(min(df, own_df)) * error
        return self.value - half, self.value + half


_Sources = dict[LooksSourceName, tuple[_Influenced, ...]]
"""Looks by each source. Of several values, the smallest counts."""


@dataclass(frozen=True, eq=False)
class _ModelRows:
    """Answers of one model to all items, which items are `typical` (n,), and the excess of its panel at the key."""

    options: ReadOptions
    rows: PickRows
    blind: PickRows | None
    typical: Bools
    excess: Slope | None

    @property
    def df(self) -> int:
        """Degrees of freedom of an interval: the number of groups with a wrong pick, minus one."""
        return max(wrong_groups(self.options, self.rows, self.typical)[1] - 1, 1)

    @property
    def answered(self) -> int:
        """Number of items with a readable answer."""
        return int(np.count_nonzero(~np.isnan(self.rows.by_item(self.rows.credit, len(self.options)))))

    def filled(self) -> Iterator["_ModelRows"]:
        """Yield the answers in up to three versions. Unreadable answers count as the options that look least or most like
        keys, or as right."""
        if not self.unanswered:
            return
        options, key = self.options, self.options.key
        extremes = [
            (options.extreme(most=looks_most, wrong=True), options.extreme(most=looks_most, wrong=False))
            for looks_most in (False, True)
        ]
        for for_wrong, for_any in [*extremes, (key, key)]:
            blind = None if self.blind is None else self.blind.filled(for_any, key)
            yield replace(self, rows=self.rows.filled(for_wrong, key), blind=blind)

    @property
    def unanswered(self) -> int:
        """Number of unreadable answers with and without the question."""
        all_rows = (self.rows,) if self.blind is None else (self.rows, self.blind)
        return sum(int(np.count_nonzero(rows.pick == UNREAD)) for rows in all_rows)

    def slope(self) -> Slope | None:
        """Fit the slope of looks to the wrong picks."""
        return wrong_slope(self.options, self.rows, self.typical)

    def sources(self, wrong_picks: Slope | None) -> _Sources:
        """Return the looks that each source estimates, given the slope of the wrong picks."""
        if wrong_picks is None:
            return {}
        slopes: dict[LooksSourceName, tuple[Slope, ...]] = {"wrong": (wrong_picks,)}
        if self.blind is not None and (blind := blind_slopes(self.options, self.blind)):
            slopes["blind"] = blind
        if (excess := self.excess) is not None:
            b, influence = wrong_picks.b + excess.b, wrong_picks.b_influence + excess.b_influence
            slopes["panel"] = (replace(excess, b=b, b_influence=influence),)
        return {name: tuple(map(self._looks, slopes_of)) for name, slopes_of in slopes.items()}

    def _looks(self, slope: Slope) -> _Influenced:
        """Return the effect of looks, and the influence of each item on it (by the chain rule).

        The effect is the mean of u (p - p0). p is the probability of picking the key by looks, and p0 is the same if b = 0.
        u is the share of wrong picks, divided by 1 - p.
        """
        options, n = self.options, len(self.options)
        by_looks = options.key_probability(slope.b, slope.kappa)
        without_looks = options.key_probability(0.0, slope.kappa)
        wrong = self.rows.by_item(1 - self.rows.credit, n)
        answered = ~np.isnan(wrong)
        share_wrong = np.where(answered & self.typical, wrong, 0.0)
        u, u_slope, total = (
            share_wrong / (1 - by_looks.p),
            share_wrong / (1 - by_looks.p) ** 2,
            int(answered.sum()),
        )
        p_gain = by_looks.p - without_looks.p
        value = float((u * p_gain).sum() / total)
        by_b = float((u_slope * by_looks.by_b * (1 - without_looks.p)).sum() / total)
        by_kappa = float(
            (u_slope * by_looks.by_kappa * (1 - without_looks.p) - u * without_looks.by_kappa).sum() / total
        )
        direct = np.where(answered, (u * p_gain - value) / total, 0.0)
        return _Influenced(
            value, direct + by_b * slope.b_influence + by_kappa * slope.kappa_influence, slope.picks
        )

    def score(self) -> _Influenced:
        """Return the mean credit of the first answers, with the influence of each item."""
        credit = self.rows.first_credits(len(self.options))
        answered = ~np.isnan(credit)
        mean = float(credit[answered].mean())
        n = int(answered.sum())
        return _Influenced(mean, np.where(answered, (credit - mean) / n, 0.0), n)


def estimates(
    options: ReadOptions, rows_of: Mapping[str, PickRows], blind: Mapping[str, PickRows] | None = None
) -> dict[str, Estimate]:
    """Estimate the looks of each model that was `asked` the question. `blind` has the rows without the question, if
    any. The panel for a model consists of the other models."""
    panel = Panel.from_rows(options, rows_of)
    typical = {name: panel.typical(name) for name in rows_of}
    slopes = {name: wrong_slope(options, rows, typical[name]) for name, rows in rows_of.items()}
    excess = panel.excess(slopes)
    return {
        name: _estimate(
            _ModelRows(
                options,
                rows,
                (blind or {}).get(name),
                typical[name],
                excess if panel.has_others(name) else None,
            ),
            slopes[name],
        )
        for name, rows in rows_of.items()
    }


def _estimate(model: _ModelRows, wrong_picks: Slope | None) -> Estimate:
    as_read, n = model.sources(wrong_picks), len(model.options)
    rows = model.rows
    wrong = int(np.count_nonzero((rows.pick >= 0) & (rows.credit == 0)))
    if not as_read:
        groups = wrong_groups(model.options, rows, model.typical)[1]
        return Estimate(no_looks(_too_few(model.options, groups), wrong, model.unanswered), np.zeros(n))
    readings = [as_read, *(filled.sources(filled.slope()) for filled in model.filled())]
    df, group, score = model.df, model.options.group, model.score()
    intervals_of = [
        {name: _span(result.interval(group, df) for result in results) for name, results in sources.items()}
        for sources in readings
    ]
    smallest = {name: min(results, key=lambda result: result.value) for name, results in as_read.items()}
    sources = {
        name: LooksSource(
            value=result.value,
            n=model.answered,
            ci=_span(of[name] for of in intervals_of),
            picks=result.picks,
        )
        for name, result in smallest.items()
    }
    lowest = min(smallest.values(), key=lambda result: result.value)
    intervals_less = [
        score.less(result).interval(group, df)
        for sources in readings for results in sources.values() for result in results
    ]  # fmt: skip
    state, reason = _state(sources, intervals_of[0], model.unanswered)
    part = Looks(
        value=lowest.value,
        n=model.answered,
        ci=_span(interval for by_source in intervals_of for interval in by_source.values()),
        state=state,
        sources=sources,
        wrong_picks=wrong,
        unanswered=model.unanswered,
        reason=reason,
        less=Quantity(value=score.value - lowest.value, n=score.picks, ci=_span(intervals_less)),
    )
    return Estimate(part, lowest.influence)


def no_looks(reason: Reason, wrong_picks: int, unanswered: int) -> Looks:
    """Return looks that cannot be estimated. They differ from looks of 0."""
    return Looks(
        state="cannot tell", sources={}, wrong_picks=wrong_picks, unanswered=unanswered, reason=reason
    )


def _too_few(options: ReadOptions, groups: int) -> Reason:
    if (options.mask.sum(axis=1) <= 2).all():
        return Reason.of("looks_two_options")
    return Reason.of("looks_few_wrong", n=groups, least=FEWEST_WRONG)


def _state(
    sources: Mapping[LooksSourceName, LooksSource],
    as_read: Mapping[LooksSourceName, Interval],
    unanswered: int,
) -> tuple[LooksState, Reason | None]:
    """Return the state that the limits show. `as_read` has the intervals without the unreadable answers."""
    lows = {name: source.ci[0] for name, source in sources.items() if source.ci}
    if min(lows.values()) > 0:
        return ("claimed" if len(lows) > 1 else "wrong picks only"), None
    if min(low for low, _ in as_read.values()) > 0:
        return "cannot tell", Reason.of("looks_unanswered", n=unanswered)
    return "cannot tell", Reason.of("looks_not_above_zero", source=min(lows, key=lows.__getitem__))


def looks_difference(values: Floats, other: Floats, groups: Ints | None = None) -> Difference:
    """Return one model's points by looks minus the other's, given `Estimate.values` of both on the same items (n,).
    NaN does not count. `groups` (n,) are independent. Unreadable answers are left out."""
    is_paired = ~np.isnan(values) & ~np.isnan(other)
    differences, n = (values - other)[is_paired], int(is_paired.sum())
    group = unit_index(n, None if groups is None else groups[is_paired])
    n_groups = len(np.unique(group))
    if n_groups < FEWEST_CLUSTERS:
        return Difference(float(differences.mean()) if n else None, n, None)
    mean = float(differences.mean())
    error, df = _error((differences - mean) / n, group)
    half_width = _quantile(df) * error
    return Difference(mean, n, (mean - half_width, mean + half_width), error)


def _span(intervals: Iterable[Interval]) -> Interval:
    """Return the smallest lower and the largest upper limit. They span the truth if any of the intervals does."""
    lows, highs = zip(*intervals, strict=True)
    return min(lows), max(highs)


def _error(influence: Floats, group: Ints) -> tuple[float, float]:
    """Return the standard error of a sum of influences over groups (n,), and its degrees of freedom."""
    variance, df = clustered_variance(influence, group)
    return math.sqrt(variance), df


def _quantile(df: float) -> float:
    from scipy.special import stdtrit  # loaded only when needed

    return float(stdtrit(df, TAIL))
