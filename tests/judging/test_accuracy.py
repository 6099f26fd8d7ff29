"""Scores: chance beside each rate, gaps on common items, random removals on known truth, picks, and pairs of models."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from robustify.base.arrays import Bools, Floats
from robustify.items.answers import Answers
from robustify.judging import judge
from robustify.judging.accuracy import Credits, ScoredModel, score_model
from robustify.judging.accuracy import pairs as judge_pairs
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Parts, Rules, context
from robustify.judging.measures import MEASURES, MeasureInput
from robustify.judging.measures import against_chance as judge_against_chance
from robustify.judging.removal_effects import random_removal as judge_random_removal
from robustify.judging.response_data import Facts
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screening import heuristic_gap as judge_heuristic_gap
from robustify.judging.stats.intervals import wilson
from robustify.judging.stats.tests import (
    detectable,
    holm,
    independent_difference,
    mcnemar,
    minimum_detectable_difference,
    paired_difference,
    sign_flip,
)
from tests.support.contexts import parts_of
from tests.support.fake_answers import bench, items_of, rows, text_rows
from tests.support.rules import unanimous
from tests.support.trees import in_trees, measured

pairs = in_trees(judge_pairs)

against_chance = in_trees(judge_against_chance)
heuristic_gap = in_trees(judge_heuristic_gap)
random_removal = in_trees(judge_random_removal)


def format_gap(won: Credits, where: Parts) -> Any:
    """The paired difference between the full question and the cloze, None if it is not measured."""
    (measure,) = (one for one in MEASURES if one.name == "format_gap")
    model = ScoredModel("m", Answers.of([]), item_index(Answers.of([]), []), "full", won)
    given: Any = MeasureInput(None, None, where, None, {}, {"m": model}, {})
    found = measure.computed(given).get("m")
    return None if found is None else found.tree()["all"]


def ones(mask: Any) -> Floats:
    return np.asarray(mask, dtype=np.float64)


def credit(*runs: tuple[float, int]) -> Floats:
    return np.repeat([value for value, _ in runs], [times for _, times in runs])


@pytest.mark.parametrize(
    ("asked", "wanted", "mode"),
    [(("full", "full_text"), "text", "text"), (("full",), "text", "letter"), (("full_text",), "letter", "text"),
     (("cloze",), "text", "text")],
)  # fmt: skip
def test_the_full_question_is_read_in_the_mode_wanted_else_in_the_one_there_is(asked, wanted, mode) -> None:
    b = bench(40, 2, seed=2)
    table = Answers.of([row for view in asked for row in text_rows(b, view=view, template="made-up-v1")])
    assert context(table, Facts("m"), Rules(mode=wanted)).responses.mode == mode
    held = item_index(table, b.ids)
    won = score_model(table, held, "v0", mode, ScreenRules()).credits
    assert (won["full"] is None) == ("cloze" in asked)


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


def test_the_format_gap_is_paired_on_items_fit_for_cloze_and_answered_both_ways() -> None:
    full = np.array([1.0, 1, 1, 0, np.nan, 1])
    cloze = np.array([0.0, 1, np.nan, 0, 1, 0])
    where = parts_of(np.ones(6), np.arange(6) != 5)
    found = format_gap({"full": full, "cloze_chars": cloze}, where)
    assert {name: found[name] for name in ("value", "n", "ci", "mde")} == {
        "value": pytest.approx(1 / 3), "n": 3, "ci": None, "mde": None,
    }  # fmt: skip
    assert format_gap({"full": full, "cloze_chars": None}, where) is None
    assert format_gap({"full": full}, where) is None


def removed(won: Floats, kept: Bools, topic: Any = None, **more: Any) -> dict[str, Any]:
    found = random_removal({"full": won}, parts_of(kept, topic=topic), **more)
    assert found is not None
    return found


@pytest.mark.parametrize(("n", "kept"), [(40, 28), (100, 70), (200, 150)])
def test_the_interval_of_random_removals_holds_at_least_what_it_says(n: int, kept: int) -> None:
    # Exact: every count of right items among those kept, with its hypergeometric probability. 91.8 % without the half step.
    for right in range(n // 5, n, n // 5):
        chance, held = hypergeom(n, right, kept), 0.0
        for x in range(max(0, kept - (n - right)), min(kept, right) + 1):
            left = np.zeros(n, dtype=bool)
            left[:x] = left[right : right + kept - x] = True
            found = removed(ones(np.arange(n) < right), left)
            held += chance.pmf(x) * (found["ci"][0] <= x / kept <= found["ci"][1])
        assert 0.95 <= held < 1


def test_where_removal_can_change_nothing_it_is_not_blamed() -> None:
    alike = removed(np.full(40, 0.5), np.arange(40) < 20)
    assert (alike["percentile"], alike["ci"]) == (100, [0.5, 0.5])
    whole = removed(credit((1, 10), (0, 30)), np.ones(40, dtype=bool))
    assert (whole["mean"], whole["percentile"]) == (0.25, 100)
    assert random_removal({"full": np.ones(10)}, parts_of(np.zeros(10, dtype=bool))) is None, "nothing kept"
    single = removed(credit((1, 10), (0, 30)), np.arange(40) < 20, np.arange(40))
    assert single["percentile"] == 100, "topics of one item each"


def table(found: Any, where: Parts, voters: tuple[str, ...] = ()) -> dict[str, Any]:
    tree = pairs(list(found), voters, where, found, {})
    assert tree is not None
    json.dumps(tree, allow_nan=False)
    return tree


ONE = np.array([1, 1, 1, 1, 0, 0, 1, np.nan, 0.5, 0.0])
TWO = np.array([1, 0, 0, 0, 1, 0, 1, 1.0, 1.0, np.nan])


def test_the_counts_by_hand() -> None:
    leaf = table({"a": {"full": ONE}, "b": {"full": TWO}}, parts_of(np.ones(10)))["a vs b"]["full"]["all"]
    # Two items lack an answer; on one a shares its credit.
    assert {name: leaf[name] for name in ("n", "b", "c", "tied")} == {"n": 8, "b": 3, "c": 1, "tied": 1}
    assert leaf["p"] == pytest.approx(mcnemar(3, 1)[0]) == pytest.approx(0.625)
    assert leaf["p_mid"] == pytest.approx(0.625 - 4 / 16)
    assert leaf["difference"] == {"value": pytest.approx((3 - 1 - 0.5) / 8), "n": 8, "ci": None}


def test_kept_counts_kept_items_and_cloze_the_items_fit_for_cloze() -> None:
    left, cloze = np.arange(10) < 5, np.arange(10) != 1
    found = table(
        {"a": {"full": ONE, "cloze_chars": ONE}, "b": {"full": TWO, "cloze_chars": TWO}},
        parts_of(left, cloze),
    )["a vs b"]
    assert [found[v][s]["n"] for v in ("full", "cloze_chars") for s in ("all", "kept")] == [8, 5, 7, 4]
    assert [found[v][s]["b"] for v in ("full", "cloze_chars") for s in ("all", "kept")] == [3, 3, 2, 2]


def test_a_pair_with_a_voter_is_flagged_what_was_not_asked_is_null_and_a_lone_model_has_no_pair() -> None:
    every = parts_of(np.ones(10))
    tree = table({name: {"full": ONE} for name in "abc"}, every, voters=("b",))
    assert {name: e["is_voter"] for name, e in tree.items()} == {
        "a vs b": True,
        "a vs c": False,
        "b vs c": True,
    }
    assert tree["a vs b"]["models"] == ["a", "b"]
    assert tree["a vs b"]["cloze_chars"] is None
    lone = {"a": {"full": ONE}, "b": {"full": None, "choices_only": TWO}}
    assert pairs("ab", (), every, lone, {}) is pairs("", (), every, {}, {}) is None


def coins(n: int, p: float, seed: int) -> Floats:
    return (np.random.default_rng(seed).random(n) < p).astype(np.float64)


def test_holm_runs_over_pairs_views_and_splits_and_the_mde_stands_beside_null_results_only() -> None:
    n = 400
    strong = {"full": coins(n, 0.9, 0), "cloze_chars": coins(n, 0.5, 1)}
    weak = {"full": coins(n, 0.5, 2), "cloze_chars": coins(n, 0.5, 3)}
    third = coins(n, 0.5, 4)
    other = {"full": third, "cloze_chars": None}
    tree = table({"strong": strong, "weak": weak, "other": other}, parts_of(coins(n, 0.6, 5)))
    leaves = [
        e[view][split]
        for e in tree.values()
        for view in ("full", "cloze_chars")
        if e[view] is not None
        for split in ("all", "kept")
    ]
    assert len(leaves) == 8
    assert [leaf["p_holm"] for leaf in leaves] == pytest.approx(holm([leaf["p_mid"] for leaf in leaves]))
    for leaf in leaves:
        assert (leaf["mde"] is None) == (leaf["p_holm"] <= 0.05)
    assert tree["strong vs weak"]["full"]["all"]["p_holm"] < 1e-6
    null = tree["weak vs other"]["full"]["all"]
    found = paired_difference(weak["full"], third)
    assert found.error is not None
    assert null["mde"] == pytest.approx(detectable(found.error, 1 - 0.05 / 8))
    assert null["mde"] > detectable(found.error) > 0, "one test of eight must see further to be told"


@given(st.lists(st.integers(-4, 4), max_size=12))
def test_flipping_signs_is_what_trying_all_signs_gives(sums: list[int]) -> None:
    held = np.array(sums, dtype=np.int64)
    signs = np.array(np.meshgrid(*[[1, -1]] * len(sums))).reshape(len(sums), -1) if sums else np.zeros((0, 1))
    all_sums = np.abs(held @ signs)
    as_far, farther = (np.mean(all_sums >= abs(held.sum()) + more) for more in (0, 1))
    exact, mid = sign_flip(held)
    assert exact == pytest.approx(as_far, abs=1e-9)
    assert mid == pytest.approx((as_far + farther) / 2 if held.sum() else 1.0, abs=1e-9)


def test_the_mid_p_rejects_about_as_often_as_its_level_says() -> None:
    """Over all outcomes of 10 to 60 discordant pairs; the exact test rejects in 3.3 % of them."""
    shares = []
    for n in range(10, 61):
        b, weight = np.arange(n + 1), binom.pmf(np.arange(n + 1), n, 0.5)
        p = np.array([sign_flip(np.repeat([1, -1], [x, n - x])) for x in b.tolist()])
        shares.append(weight @ (p <= 0.05))
    exact, mid = np.mean(shares, axis=0)
    assert exact < 0.036 < 0.045 < mid < 0.052


def test_the_interval_of_two_independent_rates_is_newcombes() -> None:
    # Newcombe 1998, Statistics in Medicine 17:873, table II: 56/70 - 48/80 by method 10.
    found = independent_difference(56, 70, 48, 80)
    assert found.value == pytest.approx(0.2)
    assert found.ci == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert found.significant
    assert found.json() == {"value": found.value, "n": 150, "ci": list(found.ci), "mde": None}
    assert independent_difference(3, 4, 1, 5).ci is None
    none = independent_difference(0, 20, 0, 20)
    assert none.ci[0] < 0 < none.ci[1]
    assert none.mde > 0.05


def test_the_share_of_picks_that_are_the_longest_option_is_that_of_the_texts() -> None:
    b = bench(120, 2, s=0.4, options=(4, 3), seed=5)
    items = items_of(b, cue=True)
    asked = Answers.of([*rows(b), *rows(b, view="full", template="mmlu-v1")])
    found = judge(Answers.concat([guess(items), asked]), Facts("made-up"), Rules(unanimous()), items)
    kept = np.array([verdict.verdict == "kept" for verdict in found.verdicts])
    for m, name in enumerate(b.voters):
        lengths = [list(map(len, item.choices)) for item in items]
        hit = np.array([own[pick] == max(own) for own, pick in zip(lengths, b.picks[:, m], strict=True)])
        parts = measured(found.summary, "longest_picks", name)
        assert [parts[part]["n"] for part in ("all", "kept")] == [120, kept.sum()]
        assert parts["all"]["value"] == pytest.approx(hit.mean())
        assert parts["kept"]["value"] == pytest.approx(hit[kept].mean())
        assert parts["all"]["chance"] is None
