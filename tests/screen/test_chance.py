"""Known truth: benchmarks whose shortcut rate and correlation we chose, judged without that knowledge."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.answers import Answers
from robustify.screen.chance import Chance, chance, chance_by_place, false_share
from robustify.screen.consensus import outcome, screen_chance, would_flag
from robustify.screen.item_index import where_keys_stand
from robustify.screen.screen_rules import ScreenRules
from robustify.screen.voters import agreement_intervals, independence, voter_agreement
from robustify.stats.intervals import Rate, wilson
from robustify.stats.tests import LEVEL, significantly_positive
from tests.support.fake_answers import Bench, Bools, Ints, bench, own_rows, placed_bench, votes_of
from tests.support.rules import collect_votes, unanimous

DATA = Path(__file__).parents[3] / "shared" / "data" / "predictions"
UNANIMOUS = unanimous()
MAJORITY = ScreenRules(criterion="majority")
BENCHMARKS = 250
PLACED = 120


def significant(measured: Chance, level: float = LEVEL) -> bool:
    by = measured.deciding
    return significantly_positive(by.p, by.excess_ci, level)


def measure(b: Bench, rules: ScreenRules = UNANIMOUS, groups: Ints | None = None) -> Chance:
    return screen_chance(votes_of(b), rules, groups)


def is_unbiased(error: npt.ArrayLike) -> bool:
    """Whether a mean is within three standard errors of 0."""
    values = np.asarray(error, dtype=np.float64)
    return bool(abs(values.mean()) < 3 * values.std() / math.sqrt(len(values)))


def judged(rules: ScreenRules, **made: object) -> list[Chance]:
    return [
        measure(bench(300, 3 if rules is MAJORITY else 2, seed=seed, **made), rules)
        for seed in range(BENCHMARKS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("rules", [UNANIMOUS, MAJORITY], ids=["unanimous", "majority"])
@pytest.mark.parametrize("agree", [0.0, 0.8], ids=["independent", "correlated"])
def test_on_a_clean_benchmark_the_null_is_unbiased_and_false_alarms_are_rare(
    rules: ScreenRules, agree: float
) -> None:
    found = judged(rules, s=0.0, agree=agree, options=(3, 4, 5))
    expected, flagged = (np.array([getattr(c, name) for c in found]) for name in ("expected", "flagged"))
    assert is_unbiased(flagged - expected)
    p = np.array([c.p for c in found])
    # An exact test on counts is never below its level; with enough flags it comes close to it.
    for level in (0.05, 0.1, 0.25, 0.5, 0.75):
        share = float(np.mean(p <= level))
        assert share <= level + 2.6 * math.sqrt(level * (1 - level) / BENCHMARKS)
        assert share >= level - 0.15
    assert np.mean([significant(c) for c in found]) <= 0.05
    inside = [c.expected_ci[0] <= c.flagged <= c.expected_ci[1] for c in found]
    assert np.mean(inside) >= 0.93
    assert np.mean([c.excess_ci is not None and c.excess_ci[0] <= 0 <= c.excess_ci[1] for c in found]) >= 0.92


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "s", "agree"),
    [(UNANIMOUS, 0.1, 0.8), (UNANIMOUS, 0.3, 0.0), (MAJORITY, 0.1, 0.0), (MAJORITY, 0.3, 0.8)],
)
def test_the_latent_rate_is_unbiased_and_its_interval_covers(
    rules: ScreenRules, s: float, agree: float
) -> None:
    found = judged(rules, s=s, agree=agree, options=(3, 4, 5))
    latent = np.array([c.latent for c in found])
    assert is_unbiased(latent - s)
    covered = float(
        np.mean([c.latent_ci is not None and c.latent_ci[0] <= s <= c.latent_ci[1] for c in found])
    )
    assert 0.91 <= covered <= 0.985
    # The excess is the latent rate less what shortcut items would have had by chance anyway.
    room = 1 - float(np.mean([1 / 3, 1 / 4, 1 / 5]))
    excess = np.array([c.excess for c in found])
    assert is_unbiased(excess - s * room)
    inside = [c.excess_ci is not None and c.excess_ci[0] <= s * room <= c.excess_ci[1] for c in found]
    covered = float(np.mean(inside))
    assert 0.91 <= covered <= 0.985


def varied(rates: tuple[float, ...], seed: int) -> tuple[Bench, Chance]:
    """Two to six options, of which shortcuts hold a share that goes with their number; guesses are mostly alike."""
    rng = np.random.default_rng(seed)
    k = rng.integers(2, 7, 400)
    key, shortcut = rng.integers(0, k), rng.random(400) < np.array(rates)[k - 2]
    picks = np.where(
        rng.random((400, 3)) < 0.8, rng.integers(0, k)[:, None], rng.integers(0, k[:, None], (400, 3))
    )
    b = Bench(np.where(shortcut[:, None], key[:, None], picks), key, k, shortcut)
    return b, measure(b)


@pytest.mark.slow
@pytest.mark.parametrize("rates", [(0.4, 0.1, 0, 0, 0), (0, 0, 0, 0.1, 0.4)], ids=["few options", "many"])
def test_shortcuts_that_go_with_the_number_of_options_bias_neither_rate(rates: tuple[float, ...]) -> None:
    """Ratio of sums gave 7.0 % or 11.6 % for these 10 %; the mean of the items' ratios gives 10 %."""
    found = [varied(rates, seed) for seed in range(BENCHMARKS)]
    assert is_unbiased([c.latent - 0.1 for _, c in found if c.latent is not None])
    inside = [c.latent_ci is not None and c.latent_ci[0] <= 0.1 <= c.latent_ci[1] for _, c in found]
    assert 0.91 <= np.mean(inside) <= 0.985
    hits = [(b.picks == b.key[:, None]).all(axis=1) for b, _ in found]
    by_chance = [float(((~b.shortcut) & h).sum() / h.sum()) for (b, _), h in zip(found, hits, strict=True)]
    shares = [(c.false_share, true) for (_, c), true in zip(found, by_chance, strict=True)]
    assert all(share.n == c.flagged for (share, _), (_, c) in zip(shares, found, strict=True))
    assert np.mean([(s.value or 0) - true for s, true in shares]) == pytest.approx(0, abs=0.025)
    inside = [s.ci is not None and s.ci[0] <= true <= s.ci[1] for s, true in shares]
    assert 0.92 <= np.mean(inside) <= 0.995


def test_the_false_share_counts_decoys_and_admits_what_it_did_not_see() -> None:
    hits = np.arange(40) < 30
    found = false_share(hits, np.where(hits, 0, 1 / 3), np.full(40, 1 / 3))
    assert (found.value, found.n) == (pytest.approx(10 / 3 / 30), 30)
    # The by_chance hits L that are not rejected: (10/3 - L)^2 <= 1.96^2 (10 + L) / 3.
    for by_chance in (30 * end for end in found.ci):
        assert by_chance == 0 or (10 / 3 - by_chance) ** 2 == pytest.approx(
            3.8415 * (10 + by_chance) / 3, rel=1e-3
        )
    none = false_share(hits, np.zeros(40), np.full(40, 1 / 3))
    assert (none.value, none.ci) == (0.0, pytest.approx((0.0, 3.8415 / 3 / 30), rel=1e-3))
    assert false_share(~hits & hits, np.full(40, 1 / 3), np.full(40, 1 / 3)).value is None
    both = false_share(hits, np.full(40, 1 / 3), np.full(40, 1 / 3))
    assert (both.value, both.n) == (pytest.approx(40 / 3 / 30), 30), "a hit may have decoys"
    blind = false_share(hits, np.zeros(40), np.zeros(40))
    assert (blind.value, blind.n, blind.ci) == (None, 0, None)


def test_where_two_options_of_an_item_would_be_flagged_the_latent_rate_is_not_known() -> None:
    one = measure(bench(300, 3, s=0.2, seed=1), ScreenRules(criterion="1-of-3"))
    assert (one.latent, one.latent_ci) == (None, None)
    assert one.excess_ci is not None
    assert 0 < (one.false_share.value or 0) < 1


@pytest.mark.slow
def test_the_expected_number_is_that_of_keys_drawn_again() -> None:
    b = bench(250, 3, s=0.2, agree=0.6, options=(2, 4, 5), seed=9)
    measured = measure(b, MAJORITY)
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(4000):
        again = Bench(b.picks, rng.integers(0, b.k), b.k, b.shortcut)
        drawn.append(int((outcome(votes_of(again), MAJORITY) == 1).sum()))
    assert measured.expected == pytest.approx(np.mean(drawn), abs=4 * float(np.std(drawn)) / math.sqrt(4000))
    assert measured.expected_ci == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=1)


def test_the_p_value_is_that_of_keys_drawn_again() -> None:
    b = bench(120, 2, s=0.03, agree=0.7, seed=10)
    measured = measure(b)
    rng = np.random.default_rng(1)
    would = would_flag(votes_of(b), UNANIMOUS)
    drawn = np.array([would[np.arange(120), rng.integers(0, b.k)].sum() for _ in range(20_000)])
    assert measured.p == pytest.approx(float(np.mean(drawn >= measured.flagged)), abs=0.012)
    assert 0.001 < measured.p < 0.9, "a p that could not be wrong tests nothing"


def test_independence_would_have_called_chance_a_finding() -> None:
    """Two correlated voters that know nothing: the product formula expects far too few flags."""
    b = bench(2000, 2, s=0.0, agree=0.8, seed=11)
    measured = measure(b)
    by_accuracy, by_luck = independence(votes_of(b).credit().mean(axis=0), b.k)
    assert by_luck == pytest.approx(1 / 16)
    assert measured.flagged / measured.n > 2 * by_accuracy
    assert not significant(measured)


def test_undecided_items_bias_neither_side() -> None:
    rng = np.random.default_rng(2)
    over = []
    for seed in range(BENCHMARKS):
        b = bench(200, 2, agree=0.6, seed=seed)
        holes = np.where(rng.random(b.picks.shape) < 0.15, -1, b.picks)
        measured = measure(Bench(holes, b.key, b.k, b.shortcut))
        assert measured.n < 200
        over.append(measured.flagged - measured.expected)
    assert is_unbiased(over)


PICKS = st.lists(
    st.tuples(st.integers(-2, 3), st.integers(-2, 3), st.integers(0, 3)), min_size=1, max_size=30
)


@settings(deadline=None)
@given(PICKS)
def test_the_numbers_agree(rows: list[tuple[int, int, int]]) -> None:
    drawn = np.array(rows, dtype=np.int64)
    votes = votes_of(
        Bench(drawn[:, :2], drawn[:, 2], np.full(len(drawn), 4), np.zeros(len(drawn), dtype=bool))
    )
    measured = screen_chance(votes, UNANIMOUS)
    if not measured.n:
        assert (measured.p, measured.excess, measured.latent) == (None, None, None)
        return
    assert measured.excess == pytest.approx((measured.flagged - measured.expected) / measured.n)
    assert measured.latent == pytest.approx(max(0.0, measured.excess / 0.75))
    assert measured.share.value == pytest.approx(measured.flagged / measured.n)
    assert 0 < measured.p <= 1
    assert measured.expected_ci[0] <= measured.expected + 1
    assert measured.expected_ci[1] >= measured.expected - 1


def test_where_no_item_could_be_flagged_ignorance_is_admitted() -> None:
    measured = chance(np.zeros(40, dtype=bool), np.zeros((40, 4), dtype=bool), np.full(40, 4))
    assert (measured.expected, measured.p, measured.excess, measured.latent) == (0.0, 1.0, 0.0, 0.0)
    assert 0.05 < measured.latent_ci[1] < 0.15
    assert measured.excess_ci == wilson(0, 40)


def test_where_none_is_flagged_the_latent_rate_has_an_upper_bound() -> None:
    would = np.zeros((40, 4), dtype=bool)
    would[:, 1] = True
    measured = chance(np.zeros(40, dtype=bool), would, np.full(40, 4))
    assert measured.latent == 0.0
    # 0 of 40 by Clopper-Pearson is at most 1 - 0.025^(1/40); an item without a shortcut has 3 in 4 left.
    assert measured.latent_ci == pytest.approx((0.0, (1 - 0.025 ** (1 / 40)) / 0.75))


def test_too_few_groups_give_no_interval_and_nothing_is_significant() -> None:
    b = votes_of(bench(300, 2, s=0.4, seed=3))
    one = screen_chance(b, UNANIMOUS, np.zeros(300, dtype=np.int64))
    assert (one.excess_ci, one.latent_ci, significant(one)) == (None, None, False)
    assert one.excess == screen_chance(b, UNANIMOUS).excess
    assert screen_chance(b, UNANIMOUS, np.arange(300) % 9).excess_ci is None
    assert screen_chance(b, UNANIMOUS, np.arange(300) % 10).excess_ci is not None


def test_items_that_share_a_passage_widen_the_interval() -> None:
    b = bench(40, 2, s=0.4, seed=3)
    ten = Bench(
        np.repeat(b.picks, 10, axis=0), np.repeat(b.key, 10), np.repeat(b.k, 10), np.repeat(b.shortcut, 10)
    )
    alone = measure(ten)
    together = measure(ten, groups=np.repeat(np.arange(40), 10))
    assert alone.excess == together.excess
    ratio = (together.excess_ci[1] - together.excess_ci[0]) / (alone.excess_ci[1] - alone.excess_ci[0])
    assert ratio == pytest.approx(math.sqrt(10), rel=0.2)


def test_agreement_is_measured_against_the_voters_own_likings() -> None:
    b = bench(4000, 2, agree=0.0, seed=4)
    found = voter_agreement(b.picks, b.key, b.k)
    assert found["observed"] == pytest.approx(0.25, abs=0.03)
    assert found["ratio"] == pytest.approx(1.0, abs=0.1)
    assert found["fleiss_kappa"] == pytest.approx(0.0, abs=0.06)
    same_letter = voter_agreement(np.zeros((500, 2), dtype=np.int64), np.arange(500) % 4, np.full(500, 4))
    assert (same_letter["observed"], same_letter["independent"]) == (1.0, 1.0)
    assert same_letter["fleiss_kappa"] == pytest.approx(1.0)
    close = voter_agreement(bench(4000, 3, agree=0.8, seed=5).picks, b.key, b.k)
    assert close["ratio"] > 4
    assert voter_agreement(b.picks[:, :1], b.key, b.k)["observed"] is None


def test_agreement_has_its_items_and_intervals_that_hold_it() -> None:
    b = bench(300, 3, s=0.2, agree=0.5, options=(4, 3), seed=21)
    picks = b.picks.copy()
    picks[:20, 1] = -1
    found, ends = voter_agreement(picks, b.key, b.k), agreement_intervals(picks, b.key, b.k)
    assert found["n"] == 280
    for name in ("observed", "ratio", "fleiss_kappa", "all_right", "all_right_ratio"):
        value, ci = found[name], ends[f"{name}_ci"]
        assert ci[0] < value < ci[1]
    each = np.repeat(picks, 5, axis=0), np.repeat(b.key, 5), np.repeat(b.k, 5)
    alone, together = agreement_intervals(*each), agreement_intervals(*each, np.repeat(np.arange(300), 5))
    assert _wide(together["observed_ci"]) > 2 * _wide(alone["observed_ci"])
    assert _wide(together["observed_ci"]) == pytest.approx(_wide(ends["observed_ci"]), rel=0.1)


@pytest.mark.slow
def test_the_interval_of_agreement_covers_what_was_made() -> None:
    """Two voters, the favourite with probability 0.5 each, among four options: alike in 0.4375 of the items."""
    votes = []
    for seed in range(150):
        b = bench(120, 2, agree=0.5, seed=seed)
        low, high = agreement_intervals(b.picks, b.key, b.k)["observed_ci"] or (1.0, 0.0)
        votes.append(low <= 0.25 + 0.25 * 0.75 <= high)
    assert 0.89 <= np.mean(votes) <= 0.99


def test_agreement_that_does_not_vary_is_not_known_exactly() -> None:
    always = agreement_intervals(np.zeros((40, 2), dtype=np.int64), np.arange(40) % 4, np.full(40, 4))
    assert always["observed_ci"] == pytest.approx([0.025 ** (1 / 40), 1.0])
    assert always["ratio_ci"] is None
    few = agreement_intervals(np.zeros((9, 2), dtype=np.int64), np.arange(9) % 4, np.full(9, 4))
    assert set(few.values()) == {None}


def _wide(ci: list[float] | None) -> float:
    return ci[1] - ci[0]


def test_twelve_of_twelve_do_not_prove_that_every_item_is_flagged() -> None:
    """One pick shared by all, always right: nothing varies, and resampling would give [0.75, 0.75] and [1, 1]."""
    would = np.zeros((12, 4), dtype=bool)
    would[:, 2] = True
    measured = chance(np.ones(12, dtype=bool), would, np.full(12, 4))
    unseen = 1 - 0.025 ** (1 / 12)
    assert (measured.excess, measured.latent) == (0.75, 1.0)
    assert measured.excess_ci == pytest.approx((0.75 - unseen, min(1.0, 0.75 + unseen)))
    assert measured.latent_ci == pytest.approx((1 - unseen / 0.75, 1.0))
    groups = chance(np.ones(24, dtype=bool), np.repeat(would, 2, axis=0), np.full(24, 4), np.arange(24) // 2)
    assert groups.excess_ci == measured.excess_ci, "as many groups, not as many items"
    few = chance(np.ones(9, dtype=bool), would[:9], np.full(9, 4))
    assert (few.excess_ci, few.latent_ci) == (None, None)


def test_no_voter_is_nothing() -> None:
    none = measure(Bench(np.zeros((9, 0), dtype=np.int64), *_keys(9)))
    nothing = Rate(None, 0, None)
    assert none == Chance(0, 0, nothing, nothing, 0.0, (0.0, 0.0), None, None, None, None, None)


def test_a_decoy_of_k_options_stands_for_one_hit_in_k_less_one() -> None:
    """Three of five and two of three items are hits; what the others liked is no key."""
    k, hits = np.repeat([5, 3], 20), np.tile([1, 1, 1, 0, 0, 1, 0, 1, 0, 1], 4).astype(bool)
    would = np.zeros((40, 5), dtype=bool)
    would[:, 0] = True
    each = 1 / (k - 1)
    assert chance(hits, would, k).false_share == false_share(hits, np.where(hits, 0.0, each), each)
    alone = chance(hits, would & hits[:, None], k).false_share
    assert alone == false_share(hits, np.zeros(40), each), "hits without decoys count"


def _keys(n: int) -> tuple[Ints, Ints, Bools]:
    return np.zeros(n, dtype=np.int64), np.full(n, 4), np.zeros(n, dtype=bool)


@pytest.mark.parametrize("criterion", ["1-of-3", "2-of-3", "3-of-3"])
def test_the_null_is_exact_for_k_of_n(criterion: str) -> None:
    rules = ScreenRules(criterion=criterion)
    found = [measure(bench(150, 3, agree=0.4, seed=seed), rules) for seed in range(BENCHMARKS)]
    over = np.array([c.flagged - c.expected for c in found])
    assert is_unbiased(over)
    p = np.array([c.p for c in found])
    assert np.mean(p <= 0.05) <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / BENCHMARKS)


# The null that knows places

FIRST, LIKED = (0.5, 0.2, 0.2, 0.1, 0.05), (0.6, 0.2, 0.1, 0.1, 0.3)


def seen(b: Bench, rules: ScreenRules = UNANIMOUS) -> Chance:
    """Measured as if every voter had seen each choice at its own place."""
    measured = screen_chance(replace(votes_of(b), placed=True), rules)
    assert measured.by_place is not None
    return measured


def test_a_voter_that_always_answers_first_earns_flags_by_place_and_no_more() -> None:
    b = placed_bench(1000, keys=FIRST, liking=(1, 0, 0, 0), agree=1.0, seed=1)
    measured = seen(b)
    assert measured.p < 1e-6, "keys anywhere: a finding"
    assert measured.by_place.expected == pytest.approx(measured.flagged)
    assert measured.by_place.excess == pytest.approx(0)
    assert not significant(measured)
    assert measured.places.off[0] == 0
    # Of the 40 or so in 1000 that the interval leaves open: nothing varied, so ignorance is admitted.
    assert 0 < measured.by_place.excess_ci[1] < 0.01


@pytest.mark.parametrize("rules", [UNANIMOUS, MAJORITY], ids=["unanimous", "majority"])
@pytest.mark.parametrize(
    "options",
    [pytest.param((4,), id="four", marks=pytest.mark.slow), pytest.param((3, 5), id="three or five")],
)
def test_the_null_with_places_is_unbiased_and_its_false_alarms_are_rare(
    rules: ScreenRules, options: tuple[int, ...]
) -> None:
    made = [
        placed_bench(200, 3, keys=FIRST, liking=LIKED, agree=0.6, options=options, seed=seed)
        for seed in range(PLACED)
    ]
    found = [seen(b, rules) for b in made]
    plain = np.array([c.flagged - c.expected for c in found])
    assert plain.mean() > 5 * plain.std() / math.sqrt(PLACED), "without places this is called a finding"
    by = [c.by_place for c in found if c.by_place is not None]
    over = np.array([c.flagged - c.expected for c in by])
    assert is_unbiased(over)
    p = np.array([c.p for c in by])
    for level in (0.05, 0.1, 0.25, 0.5):
        assert np.mean(p <= level) <= level + 2.6 * math.sqrt(level * (1 - level) / PLACED)
    assert np.mean([significant(c) for c in found]) <= 0.05
    covered = np.mean([c.excess_ci is not None and c.excess_ci[0] <= 0 <= c.excess_ci[1] for c in by])
    assert 0.89 <= covered < 1


@pytest.mark.parametrize("s", [0.1, pytest.param(0.3, marks=pytest.mark.slow)])
def test_shortcuts_beside_places_are_found_and_their_rate_is_unbiased(s: float) -> None:
    found = [
        seen(placed_bench(300, keys=FIRST, liking=LIKED, s=s, agree=0.6, options=(3, 4, 5), seed=seed))
        for seed in range(PLACED)
    ]
    latent = np.array([c.by_place.latent for c in found if c.by_place is not None])
    assert is_unbiased(latent - s)
    inside = [
        c.by_place.latent_ci[0] <= s <= c.by_place.latent_ci[1]
        for c in found
        if c.by_place is not None and c.by_place.latent_ci is not None
    ]
    assert 0.89 <= np.mean(inside) < 1
    assert np.mean([significant(c) for c in found]) > (0.6 if s == 0.1 else 0.99)
    plain = np.array([c.latent for c in found])
    assert plain.mean() - s > 0.02, "without places the rate is too high"


def test_the_expected_number_by_place_is_that_of_the_keys_dealt_anew() -> None:
    b = placed_bench(200, 3, keys=FIRST, liking=LIKED, s=0.1, agree=0.6, options=(3, 4), seed=4)
    measured = seen(b, MAJORITY).by_place
    would = would_flag(votes_of(b), MAJORITY)
    rng, drawn = np.random.default_rng(0), []
    for _ in range(4000):
        dealt = b.key.copy()
        for options in (3, 4):
            here = np.flatnonzero(b.k == options)
            dealt[here] = rng.permutation(dealt[here])
        drawn.append(int(would[np.arange(200), dealt].sum()))
    assert measured.expected == pytest.approx(np.mean(drawn), abs=4 * float(np.std(drawn)) / math.sqrt(4000))
    # The distribution shown is that of keys drawn, which is no narrower than that of keys dealt.
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert measured.expected_ci[0] <= low
    assert measured.expected_ci[1] >= high
    assert measured.p >= float(np.mean(np.array(drawn) >= measured.flagged))


def test_a_decoy_at_a_place_stands_for_the_odds_of_that_place() -> None:
    """Three in four keys are first, so that each of two items liked there for nothing stands for three hits."""
    key = np.repeat([0, 1], [15, 5])
    would = np.zeros((20, 4), dtype=bool)
    would[:17, 0] = True
    found = chance_by_place(key == 0, would, key, np.full(20, 4)).false_share
    assert (found.value, found.n) == (pytest.approx(2 * 3 / 15), 15)


def test_where_all_keys_stand_at_one_place_nothing_is_known() -> None:
    b = bench(206, 3, s=0.4, options=(2,), seed=6)
    first = Bench(np.where(b.key[:, None] == 0, b.picks, 1 - b.picks), np.zeros_like(b.key), b.k, b.shortcut)
    measured = seen(first)
    by = measured.by_place
    assert (by.expected, by.p) == (measured.flagged, 1.0)
    assert (by.excess, by.excess_ci, by.latent, by.latent_ci) == (0.0, None, None, None)
    assert not significant(measured)


def test_voters_that_could_not_see_places_have_no_such_null() -> None:
    b = placed_bench(300, keys=(1, 0), liking=(0.5, 0.5), s=0.5, options=(2,), seed=7)
    measured = measure(b)
    assert (measured.by_place, measured.places, measured.deciding) == (None, None, measured)
    assert significant(measured)


def test_a_log_in_the_own_order_has_the_null_with_places() -> None:
    b = placed_bench(400, keys=FIRST, liking=(1, 0, 0, 0), agree=1.0, seed=8)
    for bare in (False, True):
        measured = screen_chance(
            collect_votes(Answers.of(own_rows(b, bare=bare)), UNANIMOUS, b.ids), UNANIMOUS
        )
        assert measured.by_place is not None
        assert not significant(measured)


@settings(deadline=None)
@given(PICKS, st.permutations(range(4)))
def test_naming_the_options_otherwise_changes_no_number(
    rows: list[tuple[int, int, int]], names: list[int]
) -> None:
    drawn = np.array(rows, dtype=np.int64)
    k, there = np.full(len(drawn), 4), np.array([*names, -2, -1])
    one, other = (
        screen_chance(replace(votes_of(Bench(p[:, :2], p[:, 2], k, k < 0)), placed=True), UNANIMOUS)
        for p in (drawn, there[drawn])
    )
    plain, renamed = (replace(c, by_place=None, places=None) for c in (one, other))
    assert plain == renamed
    if one.by_place is None or other.by_place is None:
        assert one.n == other.n == 0
        return
    for name in ("expected", "excess", "latent", "p"):
        assert getattr(one.by_place, name) == pytest.approx(getattr(other.by_place, name), abs=1e-9)


# Where the keys stand


def test_even_keys_are_called_uneven_as_often_as_the_level_says() -> None:
    for n, options in ((400, (4,)), (300, (2, 3, 5)), (12, (4,)), (9, (2, 5))):
        p = []
        for seed in range(120):
            rng = np.random.default_rng(seed)
            k = rng.choice(options, size=n)
            found = where_keys_stand(rng.integers(0, k), k)
            p.append(found.p)
        share = np.mean(np.array(p) < 0.05)
        assert share <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / 120), (n, options)
        assert np.mean(np.array(p) < 0.5) >= 0.3, "a test that never says no is none"


def test_drawn_and_limit_agree_where_both_hold() -> None:
    key = np.repeat([0, 1, 2, 3], [9, 4, 4, 2])
    found = where_keys_stand(key, np.full(19, 4))
    assert found.exact
    # Chi-square of 5.63 on 3 degrees of freedom: 0.131 by the limit.
    assert found.p == pytest.approx(0.131, abs=0.02)


@pytest.mark.skipif(not DATA.is_dir(), reason="the public collection ../shared/data is not here")
def test_truthfulqa_pairs_have_the_key_first_and_the_statistics_say_exactly_this() -> None:
    with (DATA / "truthfulqa_pairs_answer_only" / "v9_scaled_data.csv").open(encoding="utf-8") as lines:
        votes = list(csv.DictReader(lines))
    columns = [c for c in votes[0] if c.endswith("_cleaned_picked")]
    picks = np.array([["AB".index(row[c].strip()) for c in columns] for row in votes])
    zeros = np.zeros(len(votes), dtype=np.int64)
    b = Bench(picks, zeros, np.full(len(votes), 2), zeros.astype(bool))
    assert picks.shape == (206, 9)
    places = where_keys_stand(b.key, b.k)
    assert (places.shares, places.off) == ((1.0, 0.0), (0, 1.0, 0.5))
    measured = screen_chance(collect_votes(Answers.of(own_rows(b, bare=True)), MAJORITY, b.ids), MAJORITY)
    assert measured.flagged > 0
    assert not significant(measured)


# Independence, for reference


def test_the_formulas_give_what_the_protocol_works_out_by_hand() -> None:
    four = np.full(1, 4)
    assert independence(np.full(3, 0.25), four) == pytest.approx((1 / 64, 1 / 64))
    assert independence(np.array([0.5467, 0.5138, 0.5012]), four)[0] == pytest.approx(179 / 1273, abs=1e-3)
    assert independence(np.array([0.5, 0.4]), np.array([2, 4])) == pytest.approx((0.2, (1 / 4 + 1 / 16) / 2))
    assert independence(np.zeros(0), np.full(3, 4)) == (None, None)
    assert independence(np.array([0.5, np.nan]), four) == (None, None)


def test_being_right_together_is_measured_against_being_right_apart() -> None:
    apart = bench(8000, 3, s=0.0, agree=0.0, seed=14)
    assert voter_agreement(apart.picks, apart.key, apart.k)["all_right_ratio"] == pytest.approx(1.0, abs=0.25)
    together = bench(8000, 3, s=0.3, agree=0.0, seed=15)
    found = voter_agreement(together.picks, together.key, together.k)
    right = together.picks == together.key[:, None]
    assert found["all_right"] == pytest.approx(right.all(axis=1).mean())
    assert found["all_right_independent"] == pytest.approx(right.mean(axis=0).prod())
    assert found["all_right_ratio"] > 2


def test_agreement_where_there_is_nothing_to_agree_on() -> None:
    key, k, _ = _keys(5)
    nothing = voter_agreement(np.zeros((5, 1), dtype=np.int64), key, k)
    assert set(nothing.values()) == {None}
    assert voter_agreement(np.zeros((5, 0), dtype=np.int64), key, k) == nothing
    assert voter_agreement(np.full((5, 2), -1), key, k) == {**nothing, "n": 0}
    assert voter_agreement(np.zeros((0, 2), dtype=np.int64), key[:0], k[:0]) == {**nothing, "n": 0}
    tied = voter_agreement(np.full((5, 2), -2), key, k)
    assert (tied["observed"], tied["independent"], tied["ratio"], tied["all_right_ratio"]) == (
        0.0, 0.0, None, None,
    )  # fmt: skip
    mixed = voter_agreement(
        np.array([[0, 0], [1, 1], [4, 4], [2, -1]]), np.array([0, 1, 4, 2]), np.array([2, 2, 5, 5])
    )
    assert (mixed["observed"], mixed["all_right"]) == (1.0, 1.0)
    # Two of two options by halves, then one of one: (2 (1/4 + 1/4) + 1) / 3.
    assert mixed["independent"] == pytest.approx(2 / 3)
