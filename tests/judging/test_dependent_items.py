"""Items that depend on each other raise no false alarms, and every number has one interval."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bench.simulate.dependent import plain
from robustify.base.arrays import Ints
from robustify.items.answers import Answers, Asked, answer
from robustify.items.item import Item
from robustify.judging import judge
from robustify.judging.baselines.heuristics import credit_p, guess, rule_table
from robustify.judging.context import Rules
from robustify.judging.measures import against_chance
from robustify.judging.response_data import Facts
from robustify.judging.screen.consensus import chance
from robustify.judging.screen.item_index import key_spread
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.stats.tests import independent_draws, poisson_binomial


def uncued(n: int, seed: int) -> list[Item]:
    """Items whose keys are drawn again, so that no cue is left."""
    rng = np.random.default_rng(seed)
    return [replace(item, key=int(rng.integers(item.k))) for item in plain(n, rng).items]


def turned(item: Item, order: list[int], name: str) -> Item:
    return Item(name, item.stem, tuple(item.choices[j] for j in order), order.index(item.key))


@pytest.mark.slow
@pytest.mark.parametrize("shuffled", [False, True], ids=["as they are", "with options in another order"])
def test_items_without_a_cue_raise_no_alarm_although_each_is_there_three_times(shuffled: bool) -> None:
    """As if they were independent, 22 of 60 sets raised one."""
    alarms = 0
    for seed in range(60):
        rng, once = np.random.default_rng(seed), uncued(150, seed)
        orders = [rng.permutation(4).tolist() if shuffled else [0, 1, 2, 3] for _ in range(3 * len(once))]
        table = rule_table([turned(once[n % 150], order, f"q{n}") for n, order in enumerate(orders)])
        assert (table["n"], table["groups"]) == (450, 150)
        alarms += any(
            row["p_holm"] <= 0.05 for of in ("heuristics", "with_question") for row in table[of].values()
        )
    assert alarms <= 5


def test_p_of_triple_copies_is_that_of_one_copy() -> None:
    rng = np.random.default_rng(0)
    tie, k = rng.integers(1, 4, 30), np.full(30, 5)
    total = 14.5
    alone = credit_p(total, tie, k)
    thrice = credit_p(3 * total, *(np.tile(of, 3) for of in (tie, k)), groups=np.tile(np.arange(30), 3))
    assert thrice == pytest.approx(alone)
    assert credit_p(3 * total, *(np.tile(of, 3) for of in (tie, k))) < alone / 5


def test_the_sum_over_groups_is_that_of_shared_draws() -> None:
    """Exact against simulation, for groups of unequal probabilities."""
    rng = np.random.default_rng(1)
    p, groups = rng.choice([0.1, 0.25, 0.5], 40), rng.integers(0, 12, 40)
    pmf = poisson_binomial(p, groups)
    drawn = (rng.random((40_000, 12))[:, groups] < p).sum(axis=1)
    assert np.abs(np.bincount(drawn, minlength=41) / 40_000 - pmf).max() < 0.01
    units = independent_draws(np.ones(40, dtype=np.int64), p, groups)
    assert sum(one.n for one in units) == len(np.unique(groups))
    assert sum(one.mean for one in units) == pytest.approx(p.sum())
    assert float(np.arange(41) @ pmf) == pytest.approx(p.sum())


def test_copies_of_the_same_flags_are_no_more_unlikely() -> None:
    would = np.zeros((40, 4), dtype=bool)
    would[:, 0] = True
    flagged = np.arange(40) < 16
    once = chance(flagged, would, np.full(40, 4))
    groups = np.tile(np.arange(40), 3)
    thrice = chance(np.tile(flagged, 3), np.tile(would, (3, 1)), np.full(120, 4), groups)
    assert thrice.p == pytest.approx(once.p)
    assert thrice.false_share.ci[1] == pytest.approx(once.false_share.ci[1], abs=0.02)


@pytest.mark.parametrize("times", [1, 3])
def test_even_key_positions_are_called_so_although_items_are_copied(times: int) -> None:
    rng, called = np.random.default_rng(2), 0
    for _ in range(200):
        key = np.tile(rng.integers(0, 4, 80), times)
        groups = None if times == 1 else np.tile(np.arange(80), times)
        called += key_spread(key, np.full(len(key), 4), groups).off is not None
    assert called <= 18


def _null(rng: np.random.Generator, n: int, k: Ints, groups: Ints | None) -> bool:
    key = rng.random(n) if groups is None else rng.random(n)[groups]
    score = against_chance((key < 1 / k).astype(float), k, groups)
    assert score.significant == (not score.ci[0] <= score.chance <= score.ci[1])
    return bool(score.significant)


@pytest.mark.parametrize("options", [(2,), (4,), (10,), (2, 3, 4, 5, 10)], ids=str)
@pytest.mark.parametrize(("n", "copies"), [(60, 1), (360, 1), (180, 3), (360, 2)])
def test_guesses_are_significant_as_often_as_the_level_says(
    options: tuple[int, ...], n: int, copies: int
) -> None:
    rng = np.random.default_rng([n, copies, *options])
    group = None if copies == 1 else np.arange(n) // copies
    draws, alarms = 400, 0
    for _ in range(draws):
        k = rng.choice(options, n)
        k = k if group is None else k[group]
        alarms += _null(rng, n, k, group)
    assert alarms <= stats.binom.ppf(0.999, draws, 0.065)


def _asked(items: list[Item], views: dict[str, Any]) -> Answers:
    rows = []
    for view, right in views.items():
        for n, item in enumerate(items):
            scores = [-2.0] * item.k
            scores[item.key if right(n) else (item.key + 1) % item.k] = -0.1
            rows.append(answer(Asked(item.id, view, "m", tuple(range(item.k)), "mmlu-v1", item.key), scores))
    return Answers.of(rows)


def _tree_numbers(tree: Any, path: str = "") -> list[tuple[str, float, int, Any]]:
    if isinstance(tree, dict):
        own = []
        if isinstance(tree.get("value"), float) and tree.get("n") and tree.get("ci"):
            own = [(path, tree["value"], tree["n"], tuple(tree["ci"]))]
        return own + [one for name, part in tree.items() for one in _tree_numbers(part, f"{path}/{name}")]
    if isinstance(tree, (list, tuple)):
        return [one for n, part in enumerate(tree) for one in _tree_numbers(part, f"{path}/{n}")]
    return []


def test_a_number_has_one_interval_wherever_it_stands_and_rotations_count_once() -> None:
    once = uncued(60, 3)
    items = [
        turned(item, [(j + by) % 4 for j in range(4)], f"{item.id}-{by}") for by in range(4) for item in once
    ]
    answers = Answers.concat(
        [_asked(items, {"choices_only": lambda n: n % 60 < 20, "full": lambda n: n % 60 < 40}), guess(items)]
    )
    rules = Rules(ScreenRules(criterion="unanimous"))
    summary = judge(answers, Facts("made up"), rules, items).summary
    assert (summary.benchmark.n_items, summary.benchmark.groups) == (240, 60)
    intervals: dict[tuple[float, int], set[Any]] = {}
    # The excess and what derives from a difference have other estimators than a rate.
    for path, value, n, ci in _tree_numbers(summary.model_dump()):
        if not any(
            word in path for word in ("excess", "false_share", "latent", "topics", "random_removal", "/rule/")
        ):
            intervals.setdefault((round(value, 9), n), set()).add((round(ci[0], 6), round(ci[1], 6)))
    assert len(intervals) >= 3
    assert [of for of in intervals.items() if len(of[1]) > 1] == []
    full = summary.measures.model["full"]["m"].all
    one = judge(_asked(once, {"full": lambda n: n < 40}), Facts("made up"), Rules(), once).summary
    alone = one.measures.model["full"]["m"].all
    assert (full.n, alone.n) == (240, 60)
    assert full.ci == pytest.approx(alone.ci, abs=0.02)
