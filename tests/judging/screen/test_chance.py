"""Known truth: benchmarks whose shortcut rate and correlation we chose, judged without that knowledge."""

import math
from dataclasses import replace

import numpy as np
import pytest

from robustify.judging.screen.consensus import Chance, apply_rule, chance, false_share
from robustify.judging.screen.item_index import key_spread
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screen.votes import independence, voter_agreement
from robustify.judging.stats.intervals import wilson
from robustify.judging.stats.tests import LEVEL, significantly_positive
from tests.support.fake_answers import Bench, Ints, bench, placed_bench, votes_of
from tests.support.rules import unanimous

UNANIMOUS = unanimous()
MAJORITY = ScreenRules(criterion="majority")


def significant(measured: Chance, level: float = LEVEL) -> bool:
    by = measured.deciding
    return significantly_positive(by.p, by.excess_ci, level)


def measure(b: Bench, rules: ScreenRules = UNANIMOUS, groups: Ints | None = None) -> Chance:
    return apply_rule(votes_of(b), rules).chance(groups)


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


def test_the_p_value_is_that_of_keys_drawn_again() -> None:
    b = bench(120, 2, s=0.03, agree=0.7, seed=10)
    measured = measure(b)
    rng = np.random.default_rng(1)
    would = apply_rule(votes_of(b), UNANIMOUS).would
    drawn = np.array([would[np.arange(120), rng.integers(0, b.k)].sum() for _ in range(20_000)])
    assert measured.p == pytest.approx(float(np.mean(drawn >= measured.flagged)), abs=0.012)
    assert 0.001 < measured.p < 0.9


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
    one = apply_rule(b, UNANIMOUS).chance(np.zeros(300, dtype=np.int64))
    assert (one.excess_ci, one.latent_ci, significant(one)) == (None, None, False)
    assert one.excess == apply_rule(b, UNANIMOUS).chance().excess
    assert apply_rule(b, UNANIMOUS).chance(np.arange(300) % 9).excess_ci is None
    assert apply_rule(b, UNANIMOUS).chance(np.arange(300) % 10).excess_ci is not None


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


def test_a_decoy_of_k_options_stands_for_one_hit_in_k_less_one() -> None:
    """Three of five and two of three items are hits; what the others liked is no key."""
    k, hits = np.repeat([5, 3], 20), np.tile([1, 1, 1, 0, 0, 1, 0, 1, 0, 1], 4).astype(bool)
    would = np.zeros((40, 5), dtype=bool)
    would[:, 0] = True
    each = 1 / (k - 1)
    assert chance(hits, would, k).false_share == false_share(hits, np.where(hits, 0.0, each), each)
    alone = chance(hits, would & hits[:, None], k).false_share
    assert alone == false_share(hits, np.zeros(40), each), "hits without decoys count"


# The null that knows places

FIRST, LIKED = (0.5, 0.2, 0.2, 0.1, 0.05), (0.6, 0.2, 0.1, 0.1, 0.3)


def seen(b: Bench, rules: ScreenRules = UNANIMOUS) -> Chance:
    """Measured as if every voter had seen each choice at its own place."""
    measured = apply_rule(replace(votes_of(b), placed=True), rules).chance()
    assert measured.by_position is not None
    return measured


def test_a_voter_that_always_answers_first_earns_flags_by_place_and_no_more() -> None:
    b = placed_bench(1000, keys=FIRST, liking=(1, 0, 0, 0), agree=1.0, seed=1)
    measured = seen(b)
    assert measured.p < 1e-6, "keys anywhere: a finding"
    assert measured.by_position.expected == pytest.approx(measured.flagged)
    assert measured.by_position.excess == pytest.approx(0)
    assert not significant(measured)
    assert measured.key_position.position == 0
    # Of the 40 or so in 1000 that the interval leaves open: nothing varied, so ignorance is admitted.
    assert 0 < measured.by_position.excess_ci[1] < 0.01


def test_the_expected_number_by_place_is_that_of_the_permuted_keys() -> None:
    b = placed_bench(200, 3, keys=FIRST, liking=LIKED, s=0.1, agree=0.6, options=(3, 4), seed=4)
    measured = seen(b, MAJORITY).by_position
    would = apply_rule(votes_of(b), MAJORITY).would
    rng, drawn = np.random.default_rng(0), []
    for _ in range(4000):
        permuted = b.key.copy()
        for options in (3, 4):
            here = np.flatnonzero(b.k == options)
            permuted[here] = rng.permutation(permuted[here])
        drawn.append(int(would[np.arange(200), permuted].sum()))
    assert measured.expected == pytest.approx(np.mean(drawn), abs=4 * float(np.std(drawn)) / math.sqrt(4000))
    # The distribution shown is that of keys drawn, which is no narrower than that of keys permuted.
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert measured.expected_ci[0] <= low
    assert measured.expected_ci[1] >= high
    assert measured.p >= float(np.mean(np.array(drawn) >= measured.flagged))


def test_a_decoy_at_a_place_stands_for_the_odds_of_that_place() -> None:
    """Three in four keys are first, so that each of two items liked there for nothing stands for three hits."""
    key = np.repeat([0, 1], [15, 5])
    would = np.zeros((20, 4), dtype=bool)
    would[:17, 0] = True
    found = chance(key == 0, would, np.full(20, 4), by_position=key).false_share
    assert (found.value, found.n) == (pytest.approx(2 * 3 / 15), 15)


def test_voters_that_could_not_see_places_have_no_such_null() -> None:
    b = placed_bench(300, keys=(1, 0), liking=(0.5, 0.5), s=0.5, options=(2,), seed=7)
    measured = measure(b)
    assert (measured.by_position, measured.key_position, measured.deciding) == (None, None, measured)
    assert significant(measured)


def test_drawn_and_limit_agree_where_both_hold() -> None:
    key = np.repeat([0, 1, 2, 3], [9, 4, 4, 2])
    found = key_spread(key, np.full(19, 4))
    assert found.test == "drawn"
    # Chi-square of 5.63 on 3 degrees of freedom: 0.131 by the limit.
    assert found.p == pytest.approx(0.131, abs=0.02)


def test_the_formulas_give_what_the_protocol_works_out_by_hand() -> None:
    four = np.full(1, 4)
    assert independence(np.full(3, 0.25), four) == pytest.approx((1 / 64, 1 / 64))
    assert independence(np.array([0.5467, 0.5138, 0.5012]), four)[0] == pytest.approx(179 / 1273, abs=1e-3)
    assert independence(np.array([0.5, 0.4]), np.array([2, 4])) == pytest.approx((0.2, (1 / 4 + 1 / 16) / 2))
    assert independence(np.zeros(0), np.full(3, 4)) == (None, None)
    assert independence(np.array([0.5, np.nan]), four) == (None, None)


def test_agreement_counts_items_that_all_voters_answered() -> None:
    b = bench(300, 3, s=0.2, agree=0.5, options=(4, 3), seed=21)
    picks = b.picks.copy()
    picks[:20, 1] = -1
    found, there = voter_agreement(picks, b.key, b.k), picks[20:]
    assert found["n"] == 280
    assert found["observed"] == pytest.approx((there == there[:, :1]).all(axis=1).mean())
    assert found["all_right"] == pytest.approx((there == b.key[20:, None]).all(axis=1).mean())
    assert found["ratio"] > 2
    assert found["fleiss_kappa"] > 0.2
