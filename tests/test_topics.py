"""Topics: retention by hand, the divergence and its null against simulation."""

import json

import numpy as np
import pytest

from robustify.topics import divergence, drift, topics


def test_counts_and_retention_by_hand() -> None:
    found = topics(["x", "y", "x", "y", "x", "x"], np.array([True, False, True, True, True, False]))
    x = found["x"]
    assert isinstance(x, dict)
    assert (x["before"], x["after"]) == (4, 3)
    assert x["retention"]["value"] == 0.75
    assert x["retention"]["n"] == 4
    assert x["retention"]["ci"][0] < 0.75 < x["retention"]["ci"][1]
    assert list(found) == ["x", "y", "kl_nats", "kl_null", "p"]
    assert json.loads(json.dumps(found)) == found


def test_the_divergence_by_hand() -> None:
    p, q = np.array([3.5, 1.5]) / 5, np.array([4.5, 2.5]) / 7
    expected = float(np.sum(p * np.log(p / q)))
    assert divergence(np.array([3, 1]), np.array([4, 2])) == pytest.approx(expected)
    assert topics(["x"] * 4 + ["y"] * 2, np.array([1, 1, 1, 0, 1, 0], dtype=bool))[
        "kl_nats"
    ] == pytest.approx(expected)


def test_keeping_everything_is_no_drift() -> None:
    found = topics(["x"] * 7 + ["y"] * 3, np.ones(10, dtype=bool))
    assert found["kl_nats"] == pytest.approx(0)
    assert found["kl_null"] == pytest.approx(0)
    assert found["p"] == 1


def test_keeping_nothing_is_no_number() -> None:
    found = topics(["x", "y"], np.zeros(2, dtype=bool))
    assert [found[name] for name in ("kl_nats", "kl_null", "p")] == [None, None, None]
    x = found["x"]
    assert isinstance(x, dict)
    assert x["retention"]["value"] == 0
    assert topics([], np.zeros(0, dtype=bool)) == {"kl_nats": None, "kl_null": None, "p": None}


def test_one_topic_cannot_drift() -> None:
    found = topics(["x"] * 20, np.arange(20) < 9)
    assert (found["kl_nats"], found["p"]) == (pytest.approx(0), 1)


def test_topics_named_like_the_measures_keep_their_names_apart() -> None:
    found = topics(["p", "kl_nats", "q"], np.ones(3, dtype=bool))
    assert set(found) == {"p_", "kl_nats_", "q", "kl_nats", "kl_null", "p"}
    assert found["p"] == 1


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
    null = drift(BEFORE, after)["kl_null"]
    assert null == pytest.approx(np.mean(shuffled), rel=0.1)
    assert null == pytest.approx(5 / (2 * n) * (1 - n / BEFORE.sum()), rel=0.15)


def test_p_is_uniform_under_random_removal_and_small_under_drift() -> None:
    rng = np.random.default_rng(1)
    p = [
        drift(BEFORE, rng.multivariate_hypergeometric(BEFORE, 868), draws=200, seed=s)["p"]
        for s in range(200)
    ]
    assert np.mean(np.array(p) <= 0.05) <= 0.1
    assert np.mean(p) == pytest.approx(0.5, abs=0.08)  # type: ignore[arg-type]
    collapsed = BEFORE - np.array([120, 0, 0, 0, 0, 285])
    assert drift(BEFORE, collapsed)["p"] == pytest.approx(1 / 1001)


def test_the_same_seed_gives_the_same_numbers() -> None:
    after = BEFORE // 2
    assert drift(BEFORE, after) == drift(BEFORE, after)
    assert drift(BEFORE, after, seed=1) != drift(BEFORE, after)
