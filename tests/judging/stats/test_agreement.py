"""Agreement: kappa beside scikit-learn's, and what is not defined."""

from typing import Any

import numpy as np
import pytest

from robustify.judging.stats.intervals import agreement, kappa_of, rate


def test_agreement_that_is_not_defined_is_none() -> None:
    assert agreement(["a"], ["a"], ["a"]).kappa.value is None
    assert agreement([], [], ["a", "b"]).kappa.value is None
    assert agreement(["a", "a"], ["a", "a"], ["a", "b"]).kappa.value is None


@pytest.mark.parametrize("weights", [None, "linear"])
def test_kappa_of_a_table_is_scikit_learn_s(weights: Any) -> None:
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 3, 60), rng.integers(0, 3, 60)
    second = np.where(rng.random(60) < 0.6, first, second)
    table = np.zeros((3, 3))
    np.add.at(table, (first, second), 1 / 60)
    cohen_kappa_score = pytest.importorskip("sklearn.metrics").cohen_kappa_score
    expected = cohen_kappa_score(first, second, weights=weights)
    assert float(kappa_of(table, weights)) == pytest.approx(expected)


def test_agreement_holds_the_table_behind_it() -> None:
    found = agreement(["a", "a", "b", "b"] * 10, ["a", "b", "b", "b"] * 10, ["a", "b"])
    assert found.confusion == ((10, 10), (0, 20))
    assert found.raw.value == 0.75
    assert found.kappa.value == pytest.approx(0.5)
    assert found.kappa.ci[0] < 0.5 < found.kappa.ci[1]
    assert agreement(["a"], ["b"], ["a", "b"]).kappa.ci is None


def test_answers_that_are_all_right_leave_room_for_doubt() -> None:
    same = agreement(["1"] * 6 + ["0"] * 6, ["1"] * 6 + ["0"] * 6, ["0", "1"]).kappa.ci
    # Wilson: of twelve that agree, a quarter may disagree, where half would by chance.
    assert same == (pytest.approx(1 - (1 - rate(np.ones(12)).ci[0]) / 0.5), 1.0)
    three = agreement(["a", "b", "c"] * 4, ["a", "b", "c"] * 4, ["a", "b", "c"], weights="linear").kappa.ci
    assert three[0] < same[0]


def test_a_rater_of_one_label_gives_no_interval() -> None:
    """Such a kappa is 0 in every sample, and its interval was 0.98 to 0."""
    found = agreement(["a"] * 30 + ["b"] * 20, ["a"] * 50, ["a", "b"]).kappa
    assert (found.value, found.ci) == (pytest.approx(0), None)


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_the_lower_limit_of_kappa_is_rarely_above_the_truth(share: float) -> None:
    """Resampled, it was in 4 to 6 % of such sets, so that too many judges were calibrated."""
    rng, off = np.random.default_rng(5), 0.4 * share * (1 - share)
    table = [1 - share - off, off, off, share - off]
    above = []
    for _ in range(2000):
        pairs = rng.choice(4, 60, p=table)
        first, second = (["ab"[i] for i in of] for of in (pairs // 2, pairs % 2))
        above.append(agreement(first, second, ["a", "b"]).kappa.ci[0] > 0.6)
    assert np.mean(above) <= 0.032  # 2.5 %, and two standard errors


def test_copies_say_no_more_than_one_of_each() -> None:
    first, second = ["a", "a", "b", "b"] * 10, ["a", "b", "b", "b"] * 10
    alone = agreement(first, second, ["a", "b"])
    twice = agreement(first * 2, second * 2, ["a", "b"], groups=np.tile(np.arange(40), 2))
    for one, of_both in ((alone.raw, twice.raw), (alone.kappa, twice.kappa)):
        assert np.ptp(of_both.ci) > 0.98 * np.ptp(one.ci)
