"""Known truth: benchmarks whose shortcut rate and correlation we chose, judged without that knowledge."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.ballot import ScreenRules
from robustify.chance import Chance, agreement, chance, independence, sentence
from robustify.consensus import measured, outcome, would_flag
from tests.fake_answers import Bench, ballot_of, bench

UNANIMOUS = ScreenRules()
MAJORITY = ScreenRules(criterion="majority")
BENCHMARKS = 250


def judged(rules: ScreenRules, **made: object) -> list[Chance]:
    return [
        measured(ballot_of(bench(300, 3 if rules is MAJORITY else 2, seed=seed, **made)), rules)  # type: ignore[arg-type]
        for seed in range(BENCHMARKS)
    ]


@pytest.mark.parametrize("rules", [UNANIMOUS, MAJORITY], ids=["unanimous", "majority"])
@pytest.mark.parametrize("agree", [0.0, 0.8], ids=["independent", "correlated"])
def test_on_a_clean_benchmark_luck_is_unbiased_and_false_alarms_are_rare(
    rules: ScreenRules, agree: float
) -> None:
    found = judged(rules, s=0.0, agree=agree, options=(3, 4, 5))
    expected, flagged = (np.array([getattr(c, name) for c in found]) for name in ("expected", "flagged"))
    error = np.std(flagged - expected) / math.sqrt(BENCHMARKS)
    assert abs(np.mean(flagged - expected)) < 3 * error
    p = np.array([c.p for c in found])
    # An exact test on counts is never below its level; with enough flags it comes close to it.
    for level in (0.05, 0.1, 0.25, 0.5, 0.75):
        share = float(np.mean(p <= level))
        assert share <= level + 2.6 * math.sqrt(level * (1 - level) / BENCHMARKS)
        assert share >= level - 0.15
    assert np.mean([c.told_from_luck for c in found]) <= 0.05
    inside = [c.expected_ci[0] <= c.flagged <= c.expected_ci[1] for c in found]
    assert np.mean(inside) >= 0.93
    assert np.mean([c.excess_ci is not None and c.excess_ci[0] <= 0 <= c.excess_ci[1] for c in found]) >= 0.92


@pytest.mark.parametrize(
    ("rules", "s", "agree"),
    [(UNANIMOUS, 0.1, 0.8), (UNANIMOUS, 0.3, 0.0), (MAJORITY, 0.1, 0.0), (MAJORITY, 0.3, 0.8)],
)
def test_the_latent_rate_is_unbiased_and_its_interval_covers(
    rules: ScreenRules, s: float, agree: float
) -> None:
    found = judged(rules, s=s, agree=agree, options=(3, 4, 5))
    latent = np.array([c.latent for c in found])
    assert abs(latent.mean() - s) < 3 * latent.std() / math.sqrt(BENCHMARKS)
    covered = np.mean([c.latent_ci is not None and c.latent_ci[0] <= s <= c.latent_ci[1] for c in found])
    assert 0.91 <= covered <= 0.985
    # The excess is the latent rate less the luck that shortcut items would have had anyway.
    room = 1 - np.mean([1 / 3, 1 / 4, 1 / 5])
    excess = np.array([c.excess for c in found])
    assert abs(excess.mean() - s * room) < 3 * excess.std() / math.sqrt(BENCHMARKS)
    covered = np.mean(
        [c.excess_ci is not None and c.excess_ci[0] <= s * room <= c.excess_ci[1] for c in found]
    )
    assert 0.91 <= covered <= 0.985


def test_the_expected_number_is_that_of_keys_drawn_again() -> None:
    b = bench(250, 3, s=0.2, agree=0.6, options=(2, 4, 5), seed=9)
    luck = measured(ballot_of(b), MAJORITY)
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(4000):
        again = Bench(b.picks, rng.integers(0, b.k), b.k, b.shortcut)
        drawn.append(int((outcome(ballot_of(again), MAJORITY) == 1).sum()))
    assert luck.expected == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / math.sqrt(4000))
    assert luck.expected_ci == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=1)


def test_the_p_value_is_that_of_keys_drawn_again() -> None:
    b = bench(120, 2, s=0.03, agree=0.7, seed=10)
    luck = measured(ballot_of(b), UNANIMOUS)
    rng = np.random.default_rng(1)
    would = would_flag(ballot_of(b), UNANIMOUS)
    drawn = np.array([would[np.arange(120), rng.integers(0, b.k)].sum() for _ in range(20_000)])
    assert luck.p == pytest.approx(float(np.mean(drawn >= luck.flagged)), abs=0.012)
    assert 0.001 < luck.p < 0.9, "a p that could not be wrong tests nothing"


def test_independence_would_have_blamed_luck_on_the_items() -> None:
    """Two correlated voters that know nothing: the product formula expects far too few flags."""
    b = bench(2000, 2, s=0.0, agree=0.8, seed=11)
    luck = measured(ballot_of(b), UNANIMOUS)
    by_accuracy, by_luck = independence(ballot_of(b).credit().mean(axis=0), b.k)
    assert by_luck == pytest.approx(1 / 16)
    assert by_accuracy is not None
    assert luck.flagged / luck.n > 2 * by_accuracy
    assert not luck.told_from_luck


def test_undecided_items_bias_neither_side() -> None:
    rng = np.random.default_rng(2)
    over = []
    for seed in range(BENCHMARKS):
        b = bench(200, 2, agree=0.6, seed=seed)
        holes = np.where(rng.random(b.picks.shape) < 0.15, -1, b.picks)
        luck = measured(ballot_of(Bench(holes, b.key, b.k, b.shortcut)), UNANIMOUS)
        assert luck.n < 200
        over.append(luck.flagged - luck.expected)
    assert abs(np.mean(over)) < 3 * np.std(over) / math.sqrt(BENCHMARKS)


def test_a_confident_probe_that_flags_alone_is_luck_too() -> None:
    over = []
    for seed in range(BENCHMARKS):
        b = bench(200, 2, agree=0.3, seed=seed)
        probe = np.random.default_rng(seed + 1000).integers(-2, 4, 200)
        luck = measured(ballot_of(b, probe), ScreenRules(probe_vote="alone"))
        over.append(luck.flagged - luck.expected)
    assert abs(np.mean(over)) < 3 * np.std(over) / math.sqrt(BENCHMARKS)


PICKS = st.lists(
    st.tuples(st.integers(-2, 3), st.integers(-2, 3), st.integers(0, 3)), min_size=1, max_size=30
)


@settings(deadline=None)
@given(PICKS, st.permutations(range(4)))
def test_naming_the_options_otherwise_changes_no_number(
    rows: list[tuple[int, int, int]], names: list[int]
) -> None:
    drawn = np.array(rows, dtype=np.int64)
    k = np.full(len(drawn), 4)
    there = np.array([*names, -2, -1])
    none = np.zeros(len(drawn), dtype=bool)
    one = measured(ballot_of(Bench(drawn[:, :2], drawn[:, 2], k, none)), UNANIMOUS)
    other = measured(ballot_of(Bench(there[drawn[:, :2]], there[drawn[:, 2]], k, none)), UNANIMOUS)
    assert one == other


@settings(deadline=None)
@given(PICKS)
def test_the_numbers_hang_together(rows: list[tuple[int, int, int]]) -> None:
    drawn = np.array(rows, dtype=np.int64)
    held = ballot_of(
        Bench(drawn[:, :2], drawn[:, 2], np.full(len(drawn), 4), np.zeros(len(drawn), dtype=bool))
    )
    luck = measured(held, UNANIMOUS)
    if not luck.n:
        assert (luck.p, luck.excess, luck.latent) == (None, None, None)
        return
    assert luck.excess == pytest.approx((luck.flagged - luck.expected) / luck.n)
    assert luck.latent == pytest.approx(max(0.0, luck.excess / 0.75))
    assert luck.p is not None
    assert 0 < luck.p <= 1
    assert luck.expected_ci[0] <= luck.expected + 1
    assert luck.expected_ci[1] >= luck.expected - 1


def test_where_no_item_could_be_flagged_ignorance_is_admitted() -> None:
    luck = chance(np.zeros(40, dtype=bool), np.zeros((40, 4), dtype=bool), np.full(40, 4))
    assert (luck.expected, luck.p, luck.excess, luck.latent) == (0.0, 1.0, 0.0, 0.0)
    assert luck.latent_ci is not None
    assert 0.05 < luck.latent_ci[1] < 0.15
    assert "cannot be told from luck" in sentence(luck)


def test_where_none_is_flagged_the_latent_rate_has_an_upper_bound() -> None:
    would = np.zeros((40, 4), dtype=bool)
    would[:, 1] = True
    luck = chance(np.zeros(40, dtype=bool), would, np.full(40, 4))
    assert luck.latent == 0.0
    # 0 of 40 by Clopper-Pearson is at most 1 - 0.025^(1/40); an item without a shortcut has 3 in 4 left.
    assert luck.latent_ci == pytest.approx((0.0, (1 - 0.025 ** (1 / 40)) / 0.75))


def test_too_few_groups_give_no_interval_and_nothing_is_told_from_luck() -> None:
    b = ballot_of(bench(300, 2, s=0.4, seed=3))
    one = measured(b, UNANIMOUS, np.zeros(300, dtype=np.int64))
    assert (one.excess_ci, one.latent_ci, one.told_from_luck) == (None, None, False)
    assert one.excess == measured(b, UNANIMOUS).excess
    assert "too few items, or groups" in sentence(one)
    assert measured(b, UNANIMOUS, np.arange(300) % 9).excess_ci is None
    assert measured(b, UNANIMOUS, np.arange(300) % 10).excess_ci is not None


def test_items_that_share_a_passage_widen_the_interval() -> None:
    b = bench(40, 2, s=0.4, seed=3)
    ten = Bench(
        np.repeat(b.picks, 10, axis=0), np.repeat(b.key, 10), np.repeat(b.k, 10), np.repeat(b.shortcut, 10)
    )
    alone = measured(ballot_of(ten), UNANIMOUS)
    together = measured(ballot_of(ten), UNANIMOUS, np.repeat(np.arange(40), 10))
    assert alone.excess == together.excess
    assert alone.excess_ci is not None
    assert together.excess_ci is not None
    ratio = (together.excess_ci[1] - together.excess_ci[0]) / (alone.excess_ci[1] - alone.excess_ci[0])
    assert ratio == pytest.approx(math.sqrt(10), rel=0.2)


def test_the_sentence_says_when_the_excess_is_luck() -> None:
    clean = measured(ballot_of(bench(300, 2, s=0.0, agree=0.7, seed=1)), UNANIMOUS)
    assert "cannot be told from luck" in sentence(clean)
    gamed = measured(ballot_of(bench(300, 2, s=0.3, agree=0.7, seed=1)), UNANIMOUS)
    assert "more than luck" in sentence(gamed)
    assert f"{gamed.flagged} of 300 items" in sentence(gamed)
    nothing = chance(np.zeros(0, dtype=bool), np.zeros((0, 4), dtype=bool), np.zeros(0, dtype=np.int64))
    assert "Nothing was screened" in sentence(nothing)


def test_agreement_is_measured_against_the_voters_own_likings() -> None:
    b = bench(4000, 2, agree=0.0, seed=4)
    found = agreement(b.picks, b.key, b.k)
    assert found["observed"] == pytest.approx(0.25, abs=0.03)
    assert found["ratio"] == pytest.approx(1.0, abs=0.1)
    assert found["fleiss_kappa"] == pytest.approx(0.0, abs=0.06)
    same_letter = agreement(np.zeros((500, 2), dtype=np.int64), np.arange(500) % 4, np.full(500, 4))
    assert (same_letter["observed"], same_letter["independent"]) == (1.0, 1.0)
    assert same_letter["fleiss_kappa"] == pytest.approx(1.0)
    close = agreement(bench(4000, 3, agree=0.8, seed=5).picks, b.key, b.k)
    assert close["ratio"] is not None
    assert close["ratio"] > 4
    assert agreement(b.picks[:, :1], b.key, b.k)["observed"] is None


def test_independence_without_voters_is_absent() -> None:
    assert independence(np.zeros(0), np.full(3, 4)) == (None, None)
    assert independence(np.array([0.5, 0.4]), np.array([2, 4])) == pytest.approx((0.2, (1 / 4 + 1 / 16) / 2))
