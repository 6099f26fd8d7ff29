"""Topics: retention by hand, the divergence and its null against simulation."""

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from robustify.judging.removal_effects import divergence, mix_drift
from robustify.judging.removal_effects import topics as judge_topics
from tests.support.trees import in_trees

topics = in_trees(judge_topics)


def test_counts_and_retention_by_hand() -> None:
    found = topics(["x", "y", "x", "y", "x", "x"], np.array([True, False, True, True, True, False]))
    x = found["by_topic"]["x"]
    assert (x["before"], x["after"]) == (4, 3)
    assert x["retention"]["value"] == 0.75
    assert x["retention"]["n"] == 4
    assert x["retention"]["ci"][0] < 0.75 < x["retention"]["ci"][1]
    assert list(found["by_topic"]) == ["x", "y"]
    assert x["units"] is None, "no item hangs together with another"
    assert json.loads(json.dumps(found)) == found


def test_the_divergence_by_hand() -> None:
    p, q = np.array([3.5, 1.5]) / 5, np.array([4.5, 2.5]) / 7
    expected = float(np.sum(p * np.log(p / q)))
    assert divergence(np.array([3, 1]), np.array([4, 2])) == pytest.approx(expected)
    found = topics(["x"] * 4 + ["y"] * 2, np.array([1, 1, 1, 0, 1, 0], dtype=bool))
    assert found["kl_nats"] == pytest.approx(expected)


def test_keeping_everything_is_no_drift() -> None:
    found = topics(["x"] * 7 + ["y"] * 3, np.ones(10, dtype=bool))
    assert found["kl_nats"] == pytest.approx(0)
    assert found["kl_null"] == pytest.approx(0)
    assert found["p"] == 1


def test_keeping_nothing_is_no_number() -> None:
    found = topics(["x", "y"], np.zeros(2, dtype=bool))
    assert [found[name] for name in ("kl_nats", "kl_null", "p")] == [None, None, None]
    x = found["by_topic"]["x"]
    assert x["retention"]["value"] == 0
    assert (x["p"], x["p_bh"]) == (None, None)
    assert topics([], np.zeros(0, dtype=bool)) == {
        "by_topic": {},
        "kl_nats": None,
        "kl_null": None,
        "p": None,
    }


BEFORE = np.array([190, 60, 120, 40, 300, 563])


def test_the_null_is_that_of_random_removal() -> None:
    """Against plain shuffling of items, and against the first-order formula (t - 1) / 2n * (1 - n/N)."""
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(6), BEFORE)
    n = 868
    shuffled = [
        divergence(np.bincount(rng.permutation(label)[:n], minlength=6), BEFORE) for _ in range(1_000)
    ]
    after = np.bincount(rng.permutation(label)[:n], minlength=6)
    null = mix_drift(BEFORE, after)["kl_null"]
    assert null == pytest.approx(np.mean(shuffled), rel=0.1)
    assert null == pytest.approx(5 / (2 * n) * (1 - n / BEFORE.sum()), rel=0.15)


def test_p_is_uniform_under_random_removal_and_small_under_drift() -> None:
    rng = np.random.default_rng(1)
    p = [
        mix_drift(BEFORE, rng.multivariate_hypergeometric(BEFORE, 868), draws=200, seed=s)["p"]
        for s in range(200)
    ]
    assert np.mean(np.array(p) <= 0.05) <= 0.1
    assert np.mean(p) == pytest.approx(0.5, abs=0.08)
    collapsed = BEFORE - np.array([120, 0, 0, 0, 0, 285])
    assert mix_drift(BEFORE, collapsed)["p"] == pytest.approx(1 / 1001)


def unusual(before: Any, after: Any) -> tuple[list[float], list[float]]:
    names = np.repeat([f"t{i:02d}" for i in range(len(before))], before)
    kept = np.concatenate([np.arange(b) < a for b, a in zip(before, after, strict=True)])
    found = topics(names.tolist(), kept)
    rows = [found["by_topic"][f"t{i:02d}"] for i in range(len(before))]
    return [r["p"] for r in rows], [r["p_bh"] for r in rows]


def test_a_topic_against_the_removal_of_all_is_fishers_exact_test() -> None:
    before, after = np.array([5, 1, 40, 12, 100]), np.array([2, 0, 30, 1, 77])
    n, kept = before.sum(), after.sum()
    tables = [[[a, b - a], [kept - a, n - kept - b + a]] for b, a in zip(before, after, strict=True)]
    theirs = [float(stats.fisher_exact(np.array(t)).pvalue) for t in tables]
    p, adjusted = unusual(before, after)
    assert p == pytest.approx(theirs)
    assert adjusted == pytest.approx(stats.false_discovery_control(theirs).tolist())
