"""Intervals and tests against scipy's own, against brute force, and against known truth."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from robustify.judging.stats.intervals import (
    Rate,
    bootstrap,
    clopper_pearson,
    effective_size,
    fleiss_kappa,
    rate,
    shared_rate,
    wilson,
)
from robustify.judging.stats.tests import (
    benjamini_hochberg,
    holm,
    items_to_detect,
    mcnemar,
    minimum_detectable_difference,
    poisson_binomial,
)

COUNTS = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(COUNTS, st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_and_clopper_pearson_are_scipys(counts: tuple[int, int], level: float) -> None:
    x, n = counts
    for ours, method in ((wilson, "wilson"), (clopper_pearson, "exact")):
        theirs = scipy_stats.binomtest(x, n).proportion_ci(level, method=method)
        assert ours(x, n, level) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_known_intervals_and_bounds_at_the_ends() -> None:
    low, high = wilson(405, 1273)
    assert (round(100 * low, 1), round(100 * high, 1)) == (29.3, 34.4), "Deep Ignorance's own"
    assert wilson(0, 7)[0] == 0.0
    assert wilson(7, 7)[1] == 1.0
    assert wilson(0, 0) == clopper_pearson(0, 0) == (0.0, 1.0)


def test_a_rate_drops_what_was_not_answered() -> None:
    found = rate(np.array([1.0, 0.0, np.nan, 0.5]))
    assert (found.value, found.n) == (0.5, 3)
    assert found.ci == wilson(1.5, 3)
    assert rate(np.array([np.nan])) == Rate(None, 0, None)
    assert Rate(None, 0, None).json() == {"value": None, "n": 0, "ci": None}


def test_credit_that_is_shared_by_as_many_in_each_item_has_about_wilsons_interval() -> None:
    alone = np.random.default_rng(1).integers(0, 2, 60).astype(float)
    ones, fours = np.ones(60, dtype=np.int64), np.full(60, 4)
    assert shared_rate(alone, ones, fours) == rate(alone)
    certain = shared_rate(np.full(60, 0.25), fours, fours)
    assert certain.value == 0.25
    assert certain.ci == pytest.approx((0.225, 0.275), abs=0.001)
    low, high = wilson(alone.sum(), 60)
    halves = shared_rate(alone / 2, 2 * ones, fours)
    assert halves.ci == pytest.approx((low / 2, high / 2), abs=0.01)
    assert shared_rate(alone[:0], ones[:0], fours[:0]) == Rate(None, 0, None)


@pytest.mark.parametrize(("alone", "hits"), [(0.02, 1.0), (0.15, 0.5), (0.15, 1.0), (0.8, 1.0)])
def test_the_interval_of_shared_credit_contains_the_mean_of_the_items_drawn_from(
    alone: float, hits: float
) -> None:
    """With the number of ties as fixed, as few as 29 % of the intervals of the third case contained it."""
    rng, n, contained = np.random.default_rng(0), 150, 0
    for _ in range(400):
        is_alone = rng.random(n) < alone
        credit = np.where(is_alone, rng.random(n) < hits, 0.25)
        ci = shared_rate(credit, np.where(is_alone, 1, 4), np.full(n, 4)).ci
        assert ci is not None
        contained += ci[0] <= alone * hits + (1 - alone) / 4 <= ci[1]
    assert contained >= 0.92 * 400


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.75, 1.0]), max_size=9))
def test_the_poisson_binomial_is_the_sum_over_all_outcomes(p: list[float]) -> None:
    brute = np.zeros(len(p) + 1)
    for outcome in itertools.product((0, 1), repeat=len(p)):
        brute[sum(outcome)] += math.prod(q if hit else 1 - q for q, hit in zip(p, outcome, strict=True))
    assert poisson_binomial(np.array(p)) == pytest.approx(brute, abs=1e-12)
    with pytest.raises(ValueError, match="must be in"):
        poisson_binomial(np.array([0.5, 1.2]))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_corrections_are_scipys_and_never_below_p(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(scipy_stats.false_discovery_control(p).tolist())
    assert all(h >= q - 1e-15 for h, q in zip(holm(p), p, strict=True))
    assert holm(p) == pytest.approx(_holm_slowly(p))


def _holm_slowly(p: list[float]) -> list[float]:
    """By definition: the largest (m - i) p(i) over everything ranked at or before, cut at 1."""
    ranked = sorted(p)
    adjusted = [min(1.0, max((len(p) - i) * ranked[i] for i in range(rank + 1))) for rank in range(len(p))]
    # Equal p-values get what the first of them gets; the later factors are smaller.
    return [adjusted[ranked.index(q)] for q in p]


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_two_sided_binomial(b: int, c: int) -> None:
    theirs = scipy_stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert mcnemar(b, c)[0] == pytest.approx(theirs)


def test_fleiss_kappa_of_two_voters_is_scotts_pi() -> None:
    votes = np.random.default_rng(1).random((200, 2)) < 0.4
    votes[:80, 1] = votes[:80, 0]
    observed = float(np.mean(votes[:, 0] == votes[:, 1]))
    share = float(votes.mean())
    expected = share**2 + (1 - share) ** 2
    assert fleiss_kappa(votes) == pytest.approx((observed - expected) / (1 - expected))
    assert fleiss_kappa(np.array([[True, False], [False, True]])) == -1.0
    assert fleiss_kappa(np.repeat(votes[:, :1], 3, axis=1)) == pytest.approx(1.0)
    assert math.isnan(fleiss_kappa(np.ones((5, 2), dtype=bool)))


def test_equal_rows_drawn_at_once_are_items_drawn_one_by_one() -> None:
    values = np.repeat([0.0, 1.0, 0.25], [200, 60, 40])
    rng = np.random.default_rng(3)
    slow = np.quantile([rng.choice(values, size=300).mean() for _ in range(4000)], [0.025, 0.975])
    assert bootstrap(values, draws=4000) == pytest.approx(tuple(slow), abs=0.005)


def test_the_detectable_difference_is_detected_four_times_in_five() -> None:
    d = minimum_detectable_difference(360, 0.25)
    rng = np.random.default_rng(6)
    x = rng.binomial(360, 0.25 + d, size=20_000)
    seen = x / 360 - 0.25 > 1.96 * math.sqrt(0.25 * 0.75 / 360)
    assert seen.mean() == pytest.approx(0.8, abs=0.03)
    assert items_to_detect(0.25, d) == 360
    assert math.isnan(minimum_detectable_difference(1, 0.5))
    assert minimum_detectable_difference(10_000, 0.25) < minimum_detectable_difference(100, 0.25)


def test_passages_count_as_what_they_are_worth() -> None:
    rng = np.random.default_rng(0)
    inside: dict[str, list[bool]] = {"wilson": [], "exact": [], "alone": []}
    for _ in range(500):
        group = np.repeat(np.arange(60), rng.integers(1, 10, 60))
        won = ((rng.random(60) < 0.1)[group] | (rng.random(len(group)) < 0.16)).astype(np.float64)
        found, size = rate(won, group), effective_size(won, group)
        assert found.ci is not None
        assert found.n == len(won) >= size
        ends = {"wilson": found.ci, "exact": clopper_pearson(found.value * size, size), "alone": rate(won).ci}
        for name, ci in ends.items():
            inside[name].append(ci is not None and ci[0] <= 0.1 + 0.9 * 0.16 <= ci[1])
    assert 0.93 <= np.mean(inside["wilson"]) <= 0.99
    assert 0.93 <= np.mean(inside["exact"]) <= 0.99
    assert np.mean(inside["alone"]) < 0.85


@pytest.mark.parametrize("mean", [0.05, 0.8, 0.95])
def test_a_few_large_groups_among_many_items_are_covered(mean: float) -> None:
    """By the sums of groups alone, as few as 61 % were, because large groups were often all right or all wrong."""
    rng, group = np.random.default_rng(0), np.repeat(np.arange(300), [30] * 10 + [1] * 290)
    inside = []
    for _ in range(400):
        alike = rng.beta(mean, 1 - mean, 300)
        ci = rate((rng.random(len(group)) < alike[group]).astype(np.float64), group).ci
        inside.append(ci is not None and ci[0] <= mean <= ci[1])
    assert np.mean(inside) >= 0.95 - 0.022  # two standard errors


def test_few_groups_give_no_interval_and_groups_of_one_are_none() -> None:
    won = np.arange(300) % 3 == 0
    assert rate(won * 1.0, np.arange(300) % 29) == Rate(pytest.approx(1 / 3), 300, None)
    assert rate(won * 1.0, np.arange(300)[::-1]) == rate(won * 1.0)
    # What does not vary is known of its groups.
    assert effective_size(np.ones(300), np.arange(300) // 10) == 30
    # At most as many as there are.
    assert effective_size(np.tile([1.0, 0.0], 150), np.arange(300) // 10) == 300


def test_the_bootstrap_covers_a_ratio_in_95_of_100() -> None:
    rng = np.random.default_rng(4)
    hits = 0
    for i in range(300):
        y = rng.random(150) < 0.5
        table = np.column_stack([(rng.random(150) < 0.3) & y, y]).astype(np.float64)
        low, high = bootstrap(table, lambda m: m[:, 0] / m[:, 1], draws=500, seed=i)
        hits += low <= 0.3 <= high
    assert 0.91 <= hits / 300 <= 0.985
