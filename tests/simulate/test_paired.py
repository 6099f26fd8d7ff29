"""The simulation of the paired test: what it draws, and that its published rates keep the level."""

import json

import numpy as np
import pytest

from bench.calibrate.paired import NULL, POWER, drawn, outcome
from bench.results import RESULTS


@pytest.mark.parametrize("name", NULL)
def test_equally_good_models_are_called_different_in_at_most_6_percent(name: str) -> None:
    published = json.loads((RESULTS / "calibration" / "paired.json").read_text("utf-8"))
    assert set(published["null"]) == set(NULL)
    assert published["null"][name]["paired"]["share"] <= 0.06
    assert abs(published["null"][name]["difference"]) < 0.002


def test_a_passage_makes_items_of_one_model_alike() -> None:
    rng = np.random.default_rng(0)
    one, two, groups = drawn(NULL["passages of 20"], rng)
    assert groups is not None
    assert np.bincount(groups).tolist() == [20] * 30
    assert not np.array_equal(one, two)
    assert drawn(NULL["300 items"], rng)[2] is None


def test_a_better_model_is_found_more_often_by_pairs() -> None:
    rows = [outcome(POWER["300 items"], seed) for seed in range(60)]
    paired, unpaired, gaps = zip(*rows, strict=True)
    assert sum(paired) > sum(unpaired)
    assert 0.03 < float(np.mean(gaps)) < 0.09
    assert rows[:3] == [outcome(POWER["300 items"], seed) for seed in range(3)]
