"""Looks of each model: the share of items that it gets right because their keys look like keys, from up to three sources.

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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints
from robustify.judging.looks.panel import Panel
from robustify.judging.looks.preference import FEWEST_WRONG, Slope, blind_slopes, wrong_groups, wrong_slope
from robustify.judging.looks.read_options import UNREAD, PickRows, ReadOptions
from robustify.judging.stats.intervals import FEWEST_CLUSTERS, Interval, group_sums
from robustify.judging.stats.tests import Difference
from robustify.judging.summary.looks import Looks, LooksSource, LooksSourceName, LooksState
from robustify.judging.summary.quantity import Quantity, Reason

TAIL = 0.975
"""Level of the one-sided lower limit, and thus of each end of the two-sided 95 % interval."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Looks of one model: its part of the summary, and the influence of each item on the value (n,), all 0 without one."""

    part: Looks
    influence: Floats

    @property
    def values(self) -> Floats:
        """Looks by item (n,): their mean is the value, and their spread gives its standard error."""
        # The ridge penalty leaves influences with a mean that is not quite 0.
        off = self.influence - self.influence.mean()
        return np.asarray((self.part.value or 0.0) + len(off) * off)


@dataclass(frozen=True, eq=False)
class _Found:
    """Value with the influence of each item (n,), and the number of picks behind it."""

    value: float
    influence: Floats
    picks: int = 0

    def less(self, other: "_Found") -> "_Found":
        """Return the difference of two values."""
        return _Found(self.value - other.value, self.influence - other.influence)

    def interval(self, group: Ints, df: int) -> Interval:
        """Return the two-sided 95 % interval over independent groups (n,)."""
        half = _quantile(df) * _error(self.influence, group)
        return self.value - half, self.value + half


_Sources = dict[LooksSourceName, tuple[_Found, ...]]
"""Looks by each source. Of several values, the smallest counts."""


@dataclass(frozen=True, eq=False)
class _Asked:
    """Answers of one model to all items, with its `typical` items (n,) and the excess at the key of its panel."""

    options: ReadOptions
    rows: PickRows
    blind: PickRows | None
    typical: Bools
    excess: Slope | None

    @property
    def df(self) -> int:
        """Degrees of freedom of an interval: groups with a wrong pick, less one."""
        return max(wrong_groups(self.options, self.rows, self.typical)[1] - 1, 1)

    @property
    def answered(self) -> int:
        """Number of items with a readable answer."""
        return int(np.count_nonzero(~np.isnan(self.rows.by_item(self.rows.credit, len(self.options)))))

    def filled(self) -> Iterator["_Asked"]:
        """Yield the answers with the unreadable ones, if any, as if they were the options that look least or most like
        keys, or as if they were right."""
        if not self.unanswered:
            return
        options, key = self.options, self.options.key
        extremes = [
            (options.extreme(most=most, wrong=True), options.extreme(most=most, wrong=False))
            for most in (False, True)
        ]
        for wrong, any_option in [*extremes, (key, key)]:
            blind = None if self.blind is None else self.blind.filled(any_option, key)
            yield replace(self, rows=self.rows.filled(wrong, key), blind=blind)

    @property
    def unanswered(self) -> int:
        """Number of unreadable answers with and without the question."""
        rows = (self.rows,) if self.blind is None else (self.rows, self.blind)
        return sum(int(np.count_nonzero(of.pick == UNREAD)) for of in rows)

    def sources(self, own: Slope | None) -> _Sources:
        """Return the looks by each source, given the slope of the wrong picks."""
        if own is None:
            return {}
        slopes: dict[LooksSourceName, tuple[Slope, ...]] = {"wrong": (own,)}
        if self.blind is not None and (blind := blind_slopes(self.options, self.blind)):
            slopes["blind"] = blind
        if (excess := self.excess) is not None:
            b, influence = own.b + excess.b, own.b_influence + excess.b_influence
            slopes["panel"] = (replace(excess, b=b, b_influence=influence),)
        return {name: tuple(map(self._looks, of)) for name, of in slopes.items()}

    def _looks(self, slope: Slope) -> _Found:
        """Return the mean of u (p - p0), and the influence of each item by the chain rule."""
        options, n = self.options, len(self.options)
        by_looks = options.key_probability(slope.b, slope.kappa)
        even = options.key_probability(0.0, slope.kappa)
        wrong = self.rows.by_item(1 - self.rows.credit, n)
        answered = ~np.isnan(wrong)
        w = np.where(answered & self.typical, wrong, 0.0)
        u, bend, total = w / (1 - by_looks.p), w / (1 - by_looks.p) ** 2, int(answered.sum())
        gain = by_looks.p - even.p
        value = float((u * gain).sum() / total)
        by_b = float((bend * by_looks.by_b * (1 - even.p)).sum() / total)
        by_kappa = float((bend * by_looks.by_kappa * (1 - even.p) - u * even.by_kappa).sum() / total)
        own = np.where(answered, (u * gain - value) / total, 0.0)
        return _Found(value, own + by_b * slope.b_influence + by_kappa * slope.kappa_influence, slope.picks)

    def score(self) -> _Found:
        """Return the mean credit of the first answers, with the influence of each item."""
        credit = self.rows.first_credits(len(self.options))
        answered = ~np.isnan(credit)
        mean = float(credit[answered].mean())
        n = int(answered.sum())
        return _Found(mean, np.where(answered, (credit - mean) / n, 0.0), n)


def estimates(
    options: ReadOptions, rows_of: Mapping[str, PickRows], blind: Mapping[str, PickRows] | None = None
) -> dict[str, Estimate]:
    """Estimate the looks of each model that was `asked` the question. `blind` has the rows without it, if any. The panel of
    a model are the others."""
    panel = Panel.from_rows(options, rows_of)
    typical = {name: panel.typical(name) for name in rows_of}
    slopes = {name: wrong_slope(options, rows, typical[name]) for name, rows in rows_of.items()}
    excess = panel.excess(slopes)
    return {
        name: _estimate(
            _Asked(
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


def _estimate(model: _Asked, own: Slope | None) -> Estimate:
    first, n = model.sources(own), len(model.options)
    rows = model.rows
    wrong = int(np.count_nonzero((rows.pick >= 0) & (rows.credit == 0)))
    if not first:
        groups = wrong_groups(model.options, rows, model.typical)[1]
        return Estimate(no_looks(_too_few(model.options, groups), wrong, model.unanswered), np.zeros(n))
    every = [first, *(of.sources(wrong_slope(of.options, of.rows, of.typical)) for of in model.filled())]
    df, group, score = model.df, model.options.group, model.score()
    ends = [
        {name: _span(result.interval(group, df) for result in of) for name, of in sources.items()}
        for sources in every
    ]
    smallest = {name: min(of, key=lambda result: result.value) for name, of in first.items()}
    sources = {
        name: LooksSource(value=of.value, n=model.answered, ci=_span(e[name] for e in ends), picks=of.picks)
        for name, of in smallest.items()
    }
    least = min(smallest.values(), key=lambda result: result.value)
    less = [
        score.less(result).interval(group, df)
        for sources in every for of in sources.values() for result in of
    ]  # fmt: skip
    state, reason = _state(sources, ends[0], model.unanswered)
    part = Looks(
        value=least.value,
        n=model.answered,
        ci=_span(end for of in ends for end in of.values()),
        state=state,
        sources=sources,
        wrong_picks=wrong,
        unanswered=model.unanswered,
        reason=reason,
        less=Quantity(value=score.value - least.value, n=score.picks, ci=_span(less)),
    )
    return Estimate(part, least.influence)


def no_looks(reason: Reason, wrong_picks: int, unanswered: int) -> Looks:
    """Return looks that cannot be estimated, which differ from looks of 0."""
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
    """Return what the limits show. `as_read` has the intervals without the unreadable answers."""
    lows = {name: of.ci[0] for name, of in sources.items() if of.ci}
    if min(lows.values()) > 0:
        return ("claimed" if len(lows) > 1 else "wrong picks only"), None
    if min(low for low, _ in as_read.values()) > 0:
        return "cannot tell", Reason.of("looks_unanswered", n=unanswered)
    return "cannot tell", Reason.of("looks_not_above_zero", source=min(lows, key=lows.__getitem__))


def looks_difference(values: Floats, other: Floats, groups: Ints | None = None) -> Difference:
    """Return how much more the first of two models owes to looks, given `Estimate.values` of both on the same items (n,).
    NaN does not count. `groups` (n,) are independent. Unreadable answers are left out."""
    both = ~np.isnan(values) & ~np.isnan(other)
    off, n = (values - other)[both], int(both.sum())
    group = np.arange(n) if groups is None else np.unique(groups[both], return_inverse=True)[1]
    size = len(np.unique(group))
    if size < FEWEST_CLUSTERS:
        return Difference(float(off.mean()) if n else None, n, None)
    mean = float(off.mean())
    error = _error((off - mean) / n, group)
    half = _quantile(size - 1) * error
    return Difference(mean, n, (mean - half, mean + half), error)


def _span(intervals: Iterable[Interval]) -> Interval:
    """Return the smallest lower and the largest upper limit. This interval covers the truth if any of them does."""
    lows, highs = zip(*intervals, strict=True)
    return min(lows), max(highs)


def _error(influence: Floats, group: Ints) -> float:
    """Return the standard error of a sum of influences, which are added up in each group (n,)."""
    sums = group_sums(influence, group)
    return float(np.sqrt(sums @ sums * len(sums) / max(len(sums) - 1, 1)))


def _quantile(df: int) -> float:
    from scipy.special import stdtrit  # loaded only when needed

    return float(stdtrit(df, TAIL))
