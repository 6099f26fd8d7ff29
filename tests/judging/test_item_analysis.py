"""Item analysis of models that saw the question: textbook numbers, and planted wrong keys."""

from typing import Any

import numpy as np
import pytest

from robustify.items.answers import Answers
from robustify.judging.audit.item_analysis import (
    FEWEST,
    AnalysedItems,
    corrected_item_total,
    information,
    item_analysis,
    key_doubt,
    keys_to_check,
    weighted_votes,
)
from tests.judging.test_doubts import asked, knowing
from tests.support.contexts import made_up
from tests.support.fake_answers import Bench, rows


def analysed(b: Bench) -> AnalysedItems | None:
    table = Answers.of(rows(b, view="full", template="mmlu-v1", rotations=False, bias=0.0))
    index, credits = asked(b, table)
    return item_analysis(made_up(b.voters, answers=table, index=index, full="full"), credits)


def test_planted_wrong_keys_are_listed_with_the_precision_that_was_measured() -> None:
    wrong = np.arange(600) % 60 == 0
    b = knowing(600, 0.8, 7, wrong=wrong)
    found = analysed(b)
    assert found is not None
    keys = found.part.keys
    listed = np.isin(b.ids, keys.items)
    assert listed[wrong].all()
    assert len(keys.items) <= 15
    # The ten wrong keys of the set itself count as right where others are planted.
    assert keys.precision.n == 30
    assert 0.6 <= (keys.precision.value or 0.0) < 0.8
    assert np.array(found.columns["check"]).tolist() == listed.tolist()
    assert (np.array(found.columns["other"])[listed & wrong] == (b.key[listed & wrong] - 1) % 4).all()


def test_a_set_without_wrong_keys_gets_hardly_any_to_check() -> None:
    found = analysed(knowing(600, 0.8, 7, seed=1))
    assert found is not None
    assert len(found.part.keys.items) <= 2


def test_no_keys_are_listed_where_the_models_know_too_little() -> None:
    found = analysed(knowing(400, 0.1, 5))
    assert found is not None
    assert (found.part.keys.precision.value or 0.0) < 0.5
    assert found.part.keys.items == ()
    assert not np.any(found.columns["check"])


def test_fewer_than_five_models_are_not_analysed() -> None:
    assert analysed(knowing(50, 0.8, FEWEST - 1)) is None


def test_who_picks_what_is_counted_by_ability() -> None:
    # Six models; the better half (the last three) knows items 1 to 9, and picks option 2 of item 0, whose key is 0.
    picks = np.zeros((10, 6), dtype=np.int64)
    picks[:, :3] = 1
    picks[0] = [0, 1, 1, 2, 2, 2]
    b = Bench(picks, np.zeros(10, dtype=np.int64), np.full(10, 4), np.zeros(10, dtype=bool))
    found = analysed(b)
    assert found is not None
    assert (found.columns["picks_of_weaker"][0], found.columns["picks_of_stronger"][0]) == (
        "1 2 0 0",
        "0 0 3 0",
    )  # type: ignore[index]
    assert (found.part.misled.value, found.part.misled.n) == (0.1, 10)
    # Of 30 distractors, nobody picks two of each item, but one of item 0.
    assert (found.part.unpicked.value, found.part.unpicked.n) == (pytest.approx(19 / 30), 30)
    assert np.array(found.columns["unpicked"]).tolist() == [1] + [2] * 9


def test_item_totals_are_those_of_the_textbook() -> None:
    rng = np.random.default_rng(0)
    won = (rng.random((40, 8)) < np.linspace(0.3, 0.9, 8)).astype(float)
    won[3] = 1.0  # does not vary
    total = corrected_item_total(won)
    for item in (0, 7, 39):
        rest = np.delete(won, item, axis=0).mean(axis=0)
        assert total[item] == pytest.approx(np.corrcoef(won[item], rest)[0, 1])
    assert np.isnan(total[3])
    won[5, 2] = np.nan
    there = ~np.isnan(won[5])
    rest = np.delete(won, 5, axis=0).mean(axis=0)
    assert corrected_item_total(won)[5] == pytest.approx(np.corrcoef(won[5][there], rest[there])[0, 1])


def test_reliability_is_kuder_and_richardson_s() -> None:
    b = knowing(80, 0.5, 6, seed=3)
    b.picks[:, 0] = b.key
    found = analysed(b)
    assert found is not None
    won = (b.picks == b.key[:, None]).astype(float)
    p, n = won.mean(axis=1), len(won)
    assert found.part.kr20.value == pytest.approx(
        n / (n - 1) * (1 - (p * (1 - p)).sum() / won.sum(axis=0).var())
    )


def test_information_is_largest_for_steep_items_of_medium_difficulty() -> None:
    found = information(
        np.array([0.5, 0.5, 0.95, 1.0, 0.5, np.nan]), np.array([0.3, 0.6, 0.3, 0.5, -0.4, 0.2])
    )
    assert found[1] > found[0] > found[2] > 0
    assert found[3:5].tolist() == [0, 0]
    assert np.isnan(found[5])


def test_the_measured_precision_is_that_of_keys_planted_by_hand() -> None:
    b: Any = knowing(1000, 0.7, 6, seed=5)
    measured = keys_to_check(weighted_votes(b.picks, b.key, b.k), b.key, b.k)[0].precision
    rng, hits = np.random.default_rng(9), []
    for _ in range(20):
        planted = rng.choice(1000, 50, replace=False)
        wrong = b.key.copy()
        wrong[planted] = (wrong[planted] + rng.integers(1, 4, 50)) % 4
        doubt = key_doubt(weighted_votes(b.picks, wrong, b.k), wrong)[0]
        hits.append(np.isin(np.argsort(-doubt)[:50], planted).mean())
    assert measured.value == pytest.approx(np.mean(hits), abs=0.05)
    votes = weighted_votes(b.picks, b.key, b.k)
    assert keys_to_check(votes[:5], b.key[:5], b.k[:5])[0].precision.n == 0
