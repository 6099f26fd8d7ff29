"""Item analysis of models that saw the question: textbook numbers, and planted wrong keys."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robustify.items.answers import Answers
from robustify.judging.accuracy import score_model
from robustify.judging.audit.item_analysis import (
    FEWEST,
    AnalysedItems,
    corrected_item_total,
    information,
    item_analysis,
    key_doubt,
    keys_to_check,
    label_noise,
    weighted_votes,
)
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.summary.model_parts import LabelNoise
from tests.support.contexts import made_up, parts_of
from tests.support.fake_answers import Bench, rows


def knowing(n: int, skill: float, models: int, *, wrong: Any = None, k: int = 4, seed: int = 0) -> Bench:
    """Models that know the true choice with probability `skill` and else pick any; `wrong` keys are moved on."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n)
    picks = np.where(rng.random((n, models)) < skill, truth[:, None], rng.integers(0, k, (n, models)))
    moved = np.zeros(n, dtype=bool) if wrong is None else wrong
    key = np.where(moved, (truth + 1) % k, truth)
    return Bench(picks, key, np.full(n, k), moved)


def judged(b: Bench, kept: Any = None, view: str = "full") -> tuple[AnalysedItems | None, LabelNoise | None]:
    """The analysis and the keys to check of models that were asked a view."""
    table = Answers.of(rows(b, view=view, template="mmlu-v1", rotations=False, bias=0.0))
    held = item_index(table, b.ids)
    found = {name: score_model(table, held, name, "letter", ScreenRules()).credits for name in b.voters}
    parts = parts_of(np.ones(len(b.key)) if kept is None else kept)
    asked = made_up(b.voters, answers=table, index=held, full="full")
    analysed = item_analysis(asked, parts, found)
    return analysed, label_noise(asked, parts, found, analysed)


def test_keys_that_all_of_three_strong_models_contradict_are_planted_ones() -> None:
    wrong = np.arange(400) % 20 == 0
    b = knowing(400, 0.9, 3, wrong=wrong)
    analysed, found = judged(b)
    assert analysed is None
    flagged = np.isin(np.array(b.ids), found.items)
    assert found.strong == ("v0", "v1", "v2")
    assert flagged[wrong].mean() > 0.6
    assert flagged[~wrong].mean() < 0.01
    assert found.flagged.value == pytest.approx(flagged.mean())
    assert found.flagged.n == found.n == 400
    assert found.reason is None


def test_keys_contradicted_by_two_models_by_hand() -> None:
    picks = np.zeros((40, 2), dtype=np.int64)
    picks[0] = (1, 1)  # agree on a wrong option
    picks[1] = (1, 2)  # both wrong, apart
    picks[2] = (1, 0)  # one right
    picks[3] = (-1, 1)  # one without an answer
    picks[4] = (-2, -2)  # shared picks agree with nothing
    picks[5] = (2, 2)
    b = Bench(picks, np.zeros(40, dtype=np.int64), np.full(40, 4), np.zeros(40, dtype=bool))
    noise = judged(b, np.arange(40) != 5)[1]
    found = noise.tree()
    assert (found["n"], found["all_wrong"], found["items"]) == (39, 3, ["i00000", "i00005"])
    assert found["flagged"]["value"] == pytest.approx(2 / 39)
    assert found["expected"] == pytest.approx(3 / 3)
    assert found["p"] == pytest.approx(1 - (2 / 3) ** 3 - 3 * (1 / 3) * (2 / 3) ** 2)
    assert (found["in_kept"]["value"], found["in_kept"]["n"]) == (pytest.approx(1 / 38), 38)
    assert (found["in_flagged"]["value"], found["in_flagged"]["n"]) == (1, 1)


@pytest.mark.parametrize("strong", [[], ["v0"]])
def test_fewer_than_two_strong_models_judge_nothing_and_say_so(strong: list[str]) -> None:
    b = knowing(200, 0.9, 1)
    guess = np.arange(200) % 4
    noise = judged(replace(b, picks=np.column_stack([b.picks[:, 0] if strong else guess, guess[::-1]])))[1]
    found = noise.tree()
    assert found["strong"] == strong
    assert found["reason"] == {"code": "few_strong_models", "params": {"strong": len(strong), "asked": 2}}
    assert [found[name] for name in ("n", "flagged", "expected", "in_kept", "items")] == [None] * 5


def test_models_that_do_not_use_the_question_are_not_strong() -> None:
    """Two models above chance that are as good without the question know nothing of the keys."""
    b = knowing(120, 0.3, 2)
    table = Answers.of(rows(b, view="full", template="mmlu-v1", rotations=False, bias=0.0))
    asked = (
        made_up(b.voters, answers=table, index=item_index(table, b.ids), full="full"),
        parts_of(np.ones(120)),
    )
    won = (np.arange(120) % 2 == 0).astype(float)
    for blind, strong in ((won, ()), (None, b.voters), (np.where(np.arange(120) < 90, 0.0, won), b.voters)):
        assert (
            label_noise(*asked, {name: {"full": won, "choices_only": blind} for name in b.voters}).strong
            == strong
        )


def test_planted_wrong_keys_are_listed_with_the_precision_that_was_measured() -> None:
    wrong = np.arange(600) % 60 == 0
    b = knowing(600, 0.8, 7, wrong=wrong)
    found, noise = judged(b)
    keys = found.part.keys
    listed = np.isin(b.ids, noise.items)
    assert listed[wrong].all()
    assert listed.sum() == round(600 * (noise.flagged.value or 0.0)) <= 15
    assert (noise.expected, noise.p) == (None, None)
    # The ten wrong keys of the set itself count as right where others are planted.
    assert keys.precision.n == 30
    assert 0.6 <= (keys.precision.value or 0.0) < 0.8
    assert np.array(found.columns["check"]).tolist() == listed.tolist()
    assert (np.array(found.columns["other"])[listed & wrong] == (b.key[listed & wrong] - 1) % 4).all()


def test_a_set_without_wrong_keys_gets_hardly_any_to_check() -> None:
    noise = judged(knowing(600, 0.8, 7, seed=1))[1]
    assert len(noise.items or ()) <= 2


def test_no_keys_are_listed_where_the_models_know_too_little() -> None:
    found, noise = judged(knowing(400, 0.1, 5))
    assert (found.part.keys.precision.value or 0.0) < 0.5
    assert (noise.reason.code, noise.flagged, noise.items) == ("vague_list", None, None)
    assert not np.any(found.columns["check"])


def test_fewer_than_five_models_or_none_with_the_full_question_are_not_analysed() -> None:
    assert judged(knowing(50, 0.8, FEWEST - 1))[0] is None
    assert judged(knowing(20, 0.9, 2), view="choices_only") == (None, None)


def test_who_picks_what_is_counted_by_ability() -> None:
    # Six models; the better half (the last three) knows items 1 to 9, and picks option 2 of item 0, whose key is 0.
    picks = np.zeros((10, 6), dtype=np.int64)
    picks[:, :3] = 1
    picks[0] = [0, 1, 1, 2, 2, 2]
    b = Bench(picks, np.zeros(10, dtype=np.int64), np.full(10, 4), np.zeros(10, dtype=bool))
    found = judged(b)[0]
    assert found.columns["picks_of_weaker"][0] == "1 2 0 0"
    assert found.columns["picks_of_stronger"][0] == "0 0 3 0"
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
    found = judged(b)[0]
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
