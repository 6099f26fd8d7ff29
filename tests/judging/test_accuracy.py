"""Scores: chance beside each rate, gaps on common items, random removals on known truth, and who voted."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import hypergeom

from robustify.answers import Answers
from robustify.arrays import Bools, Floats
from robustify.judging.accuracy import Credits, Scored, scored
from robustify.judging.accuracy import heuristic_gap as judge_heuristic_gap
from robustify.judging.accuracy import pairs as judge_pairs
from robustify.judging.context import Facts, Parts, Rules, context
from robustify.judging.measures import CLOZE, FULL, MEASURES, Judged
from robustify.judging.measures import against_chance as judge_against_chance
from robustify.judging.positions import permutation as judge_permutation
from robustify.judging.removal_effects import random_removal as judge_random_removal
from robustify.screen.item_index import item_index
from robustify.screen.screen_rules import ScreenRules
from robustify.stats.intervals import wilson
from robustify.stats.tests import minimum_detectable_difference
from tests.support.fake_answers import bench, rows, text_rows
from tests.support.trees import in_trees

permutation = in_trees(judge_permutation)

pairs = in_trees(judge_pairs)

against_chance = in_trees(judge_against_chance)
heuristic_gap = in_trees(judge_heuristic_gap)
random_removal = in_trees(judge_random_removal)


def parts(robust: Bools, topic: Any = None, **more: Any) -> Parts:
    n = len(robust)
    of = np.zeros(n, dtype=np.int64) if topic is None else np.asarray(topic, dtype=np.int64)
    return Parts(~robust, robust, np.ones(n, dtype=bool), np.full(n, np.nan), of, **more)


def format_gap(won: Credits, where: Parts) -> Any:
    """The paired difference between the full question and the cloze, None if it is not measured."""
    (measure,) = (one for one in MEASURES if one.name == "format_gap")
    model = Scored("m", Answers.of([]), item_index(Answers.of([]), []), "full", won)
    judged = Judged(SimpleNamespace(parts=where), {"m": model}, {}, None)
    found = measure.computed(judged).get("m")
    return None if found is None else found.tree()["all"]


def ones(mask: Any) -> Floats:
    return np.asarray(mask, dtype=np.float64)


def credit(*runs: tuple[float, int]) -> Floats:
    return np.repeat([value for value, _ in runs], [times for _, times in runs])


# The mode of the full question


@pytest.mark.parametrize(
    ("asked", "wanted", "mode"),
    [(("full", "full_text"), "text", "text"), (("full",), "text", "letter"), (("full_text",), "letter", "text"),
     (("cloze",), "text", "text")],
)  # fmt: skip
def test_the_full_question_is_read_in_the_mode_wanted_else_in_the_one_there_is(asked, wanted, mode) -> None:
    b = bench(40, 2, seed=2)
    table = Answers.of([row for view in asked for row in text_rows(b, view=view, template="made-up-v1")])
    assert context(table, Facts("m"), Rules(mode=wanted)).mode == mode
    held = item_index(table, b.ids)
    won = scored(table, held, "v0", mode, ScreenRules()).credits
    assert (won["full"] is None) == ("cloze" in asked)


# Chance


def test_chance_is_the_mean_of_one_in_k_over_the_items_in_the_rate() -> None:
    found = against_chance(np.array([1.0, 0.0, np.nan, 0.5]), np.array([2, 4, 10, 4]))
    assert found["n"] == 3
    assert found["chance"] == pytest.approx((1 / 2 + 1 / 4 + 1 / 4) / 3)


@pytest.mark.parametrize(("right", "told"), [(55, False), (75, True), (28, True)])
def test_a_rate_is_significant_exactly_where_its_interval_leaves_chance_out(right: int, told: bool) -> None:
    found = against_chance(credit((1, right), (0, 200 - right)), np.full(200, 4))
    low, high = wilson(right, 200)
    assert found["significant"] is told
    assert (low <= 0.25 <= high) is not told
    assert found["mde"] == (None if told else pytest.approx(minimum_detectable_difference(200, 0.25)))


def test_every_measure_of_a_model_has_its_chance_and_the_splits_add_up() -> None:
    b = bench(90, 2, options=(4, 3), seed=2)
    full = rows(b, view="full", template="mmlu-v1")
    cloze = text_rows(b, view="cloze", template="qa-v1")
    table = Answers.of([*rows(b), *full, *cloze])
    held = item_index(table, b.ids)
    found = scored(table, held, "v0", "letter", ScreenRules(template="d4-like-v1")).credits
    fit = np.arange(90) % 3 > 0
    where = replace(parts(np.arange(90) < 50, k=held.k), cloze=fit)
    for measure, of in ((FULL, np.ones(90, dtype=bool)), (CLOZE, fit)):
        won = found[measure.name]
        assert won is not None
        parted = measure.mean(won, where)
        json.dumps(parted.tree(), allow_nan=False)
        scores = (parted.all, parted.flagged, parted.kept)
        assert [score and score.n for score in scores] == [
            of.sum(),
            (of & where.shortcut).sum(),
            (of & where.robust).sum(),
        ]
        assert parted.kept is not None
        assert parted.kept.chance == pytest.approx(np.mean(1 / b.k[of & where.robust]))
    assert found["choices_only_by_text"] is None
    assert format_gap(found, where)["n"] == fit.sum()


# Gaps


def test_the_format_gap_is_paired_on_items_fit_for_cloze_and_answered_both_ways() -> None:
    full = np.array([1.0, 1, 1, 0, np.nan, 1])
    cloze = np.array([0.0, 1, np.nan, 0, 1, 0])
    where = replace(parts(np.ones(6, dtype=bool)), cloze=np.arange(6) != 5)
    found = format_gap({"full": full, "cloze_chars": cloze}, where)
    assert {name: found[name] for name in ("value", "n", "ci", "mde")} == {
        "value": pytest.approx(1 / 3), "n": 3, "ci": None, "mde": None,
    }  # fmt: skip
    assert format_gap({"full": full, "cloze_chars": None}, where) is None
    assert format_gap({"full": full}, where) is None


# Random removals


def removed(won: Floats, robust: Bools, topic: Any = None, **more: Any) -> dict[str, Any]:
    found = random_removal({"full": won}, parts(robust, topic), **more)
    assert found is not None
    return found


@pytest.mark.parametrize(("n", "kept"), [(40, 28), (100, 70), (200, 150)])
def test_the_interval_of_random_removals_holds_at_least_what_it_says(n: int, kept: int) -> None:
    # Exact: every count of right items among those kept, with its hypergeometric probability. 91.8 % without the half step.
    for right in range(n // 5, n, n // 5):
        chance, held = hypergeom(n, right, kept), 0.0
        for x in range(max(0, kept - (n - right)), min(kept, right) + 1):
            robust = np.zeros(n, dtype=bool)
            robust[:x] = robust[right : right + kept - x] = True
            found = removed(ones(np.arange(n) < right), robust)
            held += chance.pmf(x) * (found["ci"][0] <= x / kept <= found["ci"][1])
        assert 0.95 <= held < 1


def test_where_removal_can_change_nothing_it_is_not_blamed() -> None:
    alike = removed(np.full(40, 0.5), np.arange(40) < 20)
    assert (alike["percentile"], alike["ci"]) == (100, [0.5, 0.5])
    whole = removed(credit((1, 10), (0, 30)), np.ones(40, dtype=bool))
    assert (whole["mean"], whole["percentile"]) == (0.25, 100)
    assert random_removal({"full": np.ones(10)}, parts(np.zeros(10, dtype=bool))) is None, "nothing kept"
    single = removed(credit((1, 10), (0, 30)), np.arange(40) < 20, np.arange(40))
    assert single["percentile"] == 100, "topics of one item each"


# Voters
