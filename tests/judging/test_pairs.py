"""Pairs of models: McNemar by hand, its level, its power, clusters, ties, and the family it is tested in."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.arrays import Floats
from robustify.judging.accuracy import pairs as judge_pairs
from robustify.judging.context import Parts
from robustify.stats.tests import (
    detectable,
    holm,
    independent_difference,
    mcnemar_exact,
    paired_difference,
    sign_flip,
)
from tests.support.contexts import made_up
from tests.support.trees import in_trees

pairs = in_trees(judge_pairs)


def ones(mask: Any) -> Floats:
    return np.asarray(mask, dtype=np.float64)


def parts(n: int, *, robust: Any = None, cloze: Any = None, groups: Any = None) -> Parts:
    kept = np.ones(n, dtype=bool) if robust is None else robust
    fit = np.ones(n, dtype=bool) if cloze is None else cloze
    return Parts(~kept, kept, fit, np.full(n, np.nan), np.zeros(n, dtype=np.int64), groups)


def table(found: Any, where: Parts, voters: tuple[str, ...] = ()) -> dict[str, Any]:
    tree = pairs(made_up(list(found), voters, where), found)
    assert tree is not None
    json.dumps(tree, allow_nan=False)
    return tree


ONE = np.array([1, 1, 1, 1, 0, 0, 1, np.nan, 0.5, 0.0])
TWO = np.array([1, 0, 0, 0, 1, 0, 1, 1.0, 1.0, np.nan])


def test_the_counts_by_hand() -> None:
    leaf = table({"a": {"full": ONE}, "b": {"full": TWO}}, parts(10))["a vs b"]["full"]["all"]
    # Two items lack an answer; on one a shares its credit.
    assert {name: leaf[name] for name in ("n", "b", "c", "tied")} == {"n": 8, "b": 3, "c": 1, "tied": 1}
    assert leaf["p"] == pytest.approx(mcnemar_exact(3, 1)) == pytest.approx(0.625)
    assert leaf["difference"] == {"value": pytest.approx((3 - 1 - 0.5) / 8), "n": 8, "ci": None}


def test_robust_counts_robust_items_and_cloze_the_items_fit_for_cloze() -> None:
    robust, cloze = np.arange(10) < 5, np.arange(10) != 1
    found = table(
        {"a": {"full": ONE, "cloze_chars": ONE}, "b": {"full": TWO, "cloze_chars": TWO}},
        parts(10, robust=robust, cloze=cloze),
    )["a vs b"]
    assert [found[v][s]["n"] for v in ("full", "cloze_chars") for s in ("all", "robust")] == [8, 5, 7, 4]
    assert [found[v][s]["b"] for v in ("full", "cloze_chars") for s in ("all", "robust")] == [3, 3, 2, 2]


def test_a_pair_with_a_voter_is_flagged_where_selection_bites() -> None:
    found = {name: {"full": ONE} for name in ("a", "b", "c")}
    tree = table(found, parts(10), voters=("b",))
    assert {name: e["is_voter"] for name, e in tree.items()} == {
        "a vs b": True,
        "a vs c": False,
        "b vs c": True,
    }
    assert tree["a vs b"]["models"] == ["a", "b"]


def test_what_was_not_asked_is_null_and_a_lone_model_has_no_pair() -> None:
    tree = table({"a": {"full": ONE}, "b": {"full": TWO, "cloze_chars": TWO}}, parts(10))
    assert tree["a vs b"]["cloze_chars"] is None
    assert (
        pairs(made_up("ab", (), parts(10)), {"a": {"full": ONE}, "b": {"full": None, "choices_only": TWO}})
        is None
    )
    assert pairs(made_up("", (), parts(10)), {}) is None


def coins(n: int, p: float, seed: int) -> Floats:
    return (np.random.default_rng(seed).random(n) < p).astype(np.float64)


def test_holm_runs_over_pairs_views_and_splits_and_the_mde_stands_beside_null_results_only() -> None:
    n = 400
    strong = {"full": coins(n, 0.9, 0), "cloze_chars": coins(n, 0.5, 1)}
    weak = {"full": coins(n, 0.5, 2), "cloze_chars": coins(n, 0.5, 3)}
    third = coins(n, 0.5, 4)
    other = {"full": third, "cloze_chars": None}
    tree = table(
        {"strong": strong, "weak": weak, "other": other}, parts(n, robust=coins(n, 0.6, 5).astype(bool))
    )
    leaves = [
        e[view][split]
        for e in tree.values()
        for view in ("full", "cloze_chars")
        if e[view] is not None
        for split in ("all", "robust")
    ]
    assert len(leaves) == 8
    assert [leaf["p_holm"] for leaf in leaves] == pytest.approx(holm([leaf["p"] for leaf in leaves]))
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
    assert sign_flip(held) == pytest.approx(np.mean(all_sums >= abs(held.sum())), abs=1e-9)


def test_the_interval_of_two_independent_rates_is_newcombes() -> None:
    # Newcombe 1998, Statistics in Medicine 17:873, table II: 56/70 - 48/80 by method 10.
    found = independent_difference(56, 70, 48, 80)
    assert found.value == pytest.approx(0.2)
    assert found.ci == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert found.significant
    assert found.json() == {"value": found.value, "n": 150, "ci": list(found.ci), "mde": None}
    assert independent_difference(3, 4, 1, 5).ci is None
    assert independent_difference(3, 4, 1, 5).json()["ci"] is None
    none = independent_difference(0, 20, 0, 20)
    assert none.ci[0] < 0 < none.ci[1]
    assert none.mde > 0.05
