"""Simulated benchmarks are what their truth says, and the judge finds that truth again."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bench.calibrate.filtering import (
    NUMBERS_OF_OPTIONS,
    PICKED,
    PLANTED,
    SCENARIOS,
    Filtered,
    filtered,
    measured,
    scenarios,
)
from bench.calibrate.grid import Interval, Trial, alarm_verdict, all_cells, coverage_verdict, gathered, trial
from bench.simulate.drawing import draw
from bench.simulate.parameters import Simulation, cases, screen_probabilities
from robustify.judging.baselines.near_duplicates import fold_groups, near_duplicates
from robustify.judging.baselines.wording import HEDGES, words_of
from robustify.judging.context import Rules, context
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.preferences import VoterPreferences
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screening import screen
from tests.judging.baselines.test_near_duplicates import jaccard

LARGE = 60_000
BENCHMARKS = {
    "plain": Simulation(items=LARGE, shortcut_rate=0.2),
    "mixed options": Simulation(items=LARGE, options=(2, 3, 5), voters=2, correlation=0.8),
}


def near(found: float, true: float, n: int) -> bool:
    """Within 4.5 standard errors of a share of n (and never stricter than a few items)."""
    return abs(found - true) <= 4.5 * math.sqrt(max(true * (1 - true), 1e-3) / n)


@pytest.mark.parametrize("sim", BENCHMARKS.values(), ids=BENCHMARKS)
def test_what_is_drawn_is_what_the_probabilities_say(sim: Simulation) -> None:
    drawn = draw(sim)
    kinds = np.array(drawn.kind)
    for case in cases(sim):
        here = (kinds == case.kind) & (drawn.k == case.k)
        n = int(here.sum())
        assert near(n / LARGE, case.weight, LARGE)
        true = screen_probabilities(sim, case)
        right = drawn.picks[here] == drawn.key[here, None]
        voters, outside = right[:, : sim.voters], right[:, sim.voters]
        would = [(drawn.picks[here, : sim.voters] == j).all(axis=1) for j in range(case.k)]
        assert near(float(voters.all(axis=1).mean()), true.flagged, n)
        assert near(float(np.mean(would)), true.by_chance, n * case.k)
        assert near(float(outside.mean()), true.right, n)
        assert near(float((outside & ~voters.all(axis=1)).mean()), true.right_kept, n)
        kept = ~voters[:, 1:].all(axis=1)
        assert near(float(kept.mean()), true.left_out, n)
        assert near(float((voters[:, 0] & kept).mean()), true.left_out_right, n)


def test_a_cue_can_be_read_from_the_words_and_nothing_else_can() -> None:
    drawn = draw(Simulation(items=3000, shortcut_rate=0.6, options=(3, 4), tested=0, outside=0))
    items, credit = drawn.items(), []
    for item, kind in zip(items, drawn.kind, strict=True):
        sizes = [len(c) for c in item.choices]
        hedges = [sum(w in HEDGES for w in words_of(c)) for c in item.choices]
        if kind == "length":
            assert sizes[item.key] > max(s for j, s in enumerate(sizes) if j != item.key)
        elif kind == "hedge":
            assert hedges[item.key] >= 2
            assert max(h for j, h in enumerate(hedges) if j != item.key) == 0
        else:
            best = [j for j, s in enumerate(sizes) if s == max(sizes)]
            credit.append((item.key in best) / len(best) - 1 / item.k)
    assert abs(np.mean(credit)) < 4.5 * np.std(credit) / math.sqrt(len(credit))


def test_copies_share_their_key_and_a_fold_and_are_no_near_duplicates() -> None:
    drawn = draw(Simulation(items=300, shortcut_rate=0.3, copies=0.6, tested=0, outside=0))
    items = drawn.items()
    sets = [frozenset(w for c in item.choices for w in words_of(c)) for item in items]
    copies = np.flatnonzero(drawn.source != np.arange(300))
    assert len(copies) == 180
    alike = [jaccard(sets[i], sets[drawn.source[i]]) for i in copies]
    assert np.mean(alike) == pytest.approx(0.7, abs=0.02)
    assert (drawn.key == drawn.key[drawn.source]).all()
    together = fold_groups(items)
    assert np.mean(together[copies] == together[drawn.source[copies]]) > 0.95
    assert (near_duplicates(items) == np.arange(300)).mean() > 0.9


def test_a_benchmark_is_judged_beside_its_truth() -> None:
    worded = next(c for c in all_cells() if c.depth == "worded" and c.sim.options == (3, 4, 5))
    cell = replace(worded, sim=worded.sim.model_copy(update={"items": 120}))
    found = trial(cell, seed=2)
    assert len(found.intervals) > 25
    assert np.mean([one.inside for one in found.intervals]) >= 0.8
    assert {"excess_p", "topic_drift", "residual_failed"} <= set(found.alarms)
    alone = trial(replace(cell, depth="screen"), seed=2)
    assert {one.estimator for one in alone.intervals} >= {"flagged_rate", "false_share"}


def test_each_scenario_of_the_filter_is_measured() -> None:
    said, found = set(), 0
    for scenario in scenarios():
        if scenario.sim.shortcut_rate == PLANTED[-1]:
            small = replace(scenario, sim=scenario.sim.model_copy(update={"items": 60}))
            row = measured(small, [filtered(small, seed) for seed in (1, 2)])
            assert (row["benchmarks"], row["items"]) == (2, 60)
            assert 0 <= row["false_share"] <= row["ci"][1]
            said.add(row["says"])
            found += row["planted_flagged"] > 0.3
    assert said == set(SCENARIOS)
    assert found > len(SCENARIOS) / 2


def test_voters_that_only_pick_are_boosted_by_the_form_of_what_they_pick() -> None:
    picked = [one for one in scenarios() if one.sim.bare]
    assert len(picked) == len(PICKED) * len(NUMBERS_OF_OPTIONS)
    (longest,) = [one for one in picked if one.sim.longest and one.sim.options == (4,)]
    drawn = draw(longest.sim.model_copy(update={"items": 120, "shortcut_rate": 0.0}))
    answers, items = drawn.answers(), drawn.items()
    index = item_index(answers, answers.items)
    picks = VoterPreferences(answers, index).mean(ScreenRules(voters=drawn.sim.voter_names)).picks()
    assert picks.shape == (120, 4, 3)
    sizes = np.array([[len(choice) for choice in item.choices] for item in items])
    liked = np.take_along_axis(sizes, picks.argmax(axis=1), axis=1) == sizes.max(axis=1, keepdims=True)
    assert 0.6 < liked.mean() < 0.9
    row = measured(replace(longest, sim=drawn.sim), [filtered(replace(longest, sim=drawn.sim), 1)] * 2)
    assert row["planted"] == 0
    assert row["any_flag"] in (0, 1)


def test_shares_are_counted_as_they_are() -> None:
    cells = [c for c in all_cells(0.01) if c.arm == "grid" and c.depth == "screen"][:2]
    shares = {"good": 20, "bad": 2}

    def counted(i: int) -> Trial:
        intervals = [Interval(name, i % every != 1, 0.01, 0.1) for name, every in shares.items()]
        return Trial(intervals, {"test": i % 25 == 0})

    pairs = [(cell, counted(i)) for cell in cells for i in range(200)]
    main = gathered(pairs)["calibration"]
    rows = main["coverage_detail"]
    assert (main["benchmarks"], rows["good"]["share"], rows["bad"]["by_items"]) == (400, 0.95, {"100": 0.5})
    assert [coverage_verdict(rows[name]["ci"]) for name in shares] == ["not excluded", "narrow"]
    assert (coverage_verdict((0.94, 0.96)), coverage_verdict((0.975, 0.99))) == ("yes", "wide")
    assert [alarm_verdict(ci) for ci in ((0.0, 0.05), (0.04, 0.06), (0.06, 0.1))] == [
        "yes",
        "not excluded",
        "no",
    ]
    assert main["false_alarm_detail"]["test"]["share"] == 0.04


def test_the_interval_of_the_latent_rate_counts_copies_together() -> None:
    """With 60 % copies, as if all items stood alone, it held the planted rate in 65 % of sets, and now in 90 %."""
    sim = Simulation(items=200, shortcut_rate=0.2, copies=0.6, correlation=0.3, outside=0, tested=0, seed=5)
    drawn = draw(sim)
    items, rules = drawn.items(), Rules(ScreenRules(criterion="unanimous"))
    ctx = context(drawn.answers(items), drawn.facts, rules, items)
    source = [drawn.source[drawn.ids.index(name)] for name in ctx.responses.index.items]
    pairs = list(zip(ctx.responses.groups.tolist(), source, strict=True))
    # Each group is an original's.
    assert len(set(pairs)) == len(set(source)) == len(set(ctx.responses.groups.tolist()))
    found, alone = screen(ctx).latent_shortcut_rate, ctx.screen.result.chance()
    assert found.value == pytest.approx(alone.latent)
    assert found.ci[1] - found.ci[0] > 1.4 * (alone.latent_ci[1] - alone.latent_ci[0])


def test_benchmarks_that_are_not_evaluated_are_counted_apart() -> None:
    (scenario,) = [one for one in scenarios() if one.world == "plain"]
    ran, not_ran = Filtered(20, 4, 100, 0.1, (0.0, 0.3)), Filtered(0, 0, 100, None, None, evaluated=False)
    rows = [measured(scenario, [ran, ran]), measured(scenario, [ran, ran, not_ran])]
    assert [row["not_evaluated"] for row in rows] == [0, 1]
    assert rows[0] == rows[1] | {"not_evaluated": 0}, "they do not lower the false share"
    assert measured(scenario, [not_ran] * 3)["any_flag"] == 0


def test_without_a_flag_the_excess_may_still_be_that_of_missed_flags() -> None:
    """With ten options, 65 % of the intervals contained it, because chance explains more flags than none."""
    sim = Simulation(items=60, shortcut_rate=0, options=(10,), outside=0, tested=0)
    sets, inside = 40, 0
    for seed in range(sets):
        rules = Rules(ScreenRules(criterion="unanimous", voters=sim.voter_names))
        drawn = draw(sim.model_copy(update={"seed": seed}))
        ci = screen(context(drawn.answers(), drawn.facts, rules)).excess_over_chance.ci
        inside += ci is not None and ci[0] <= 0 <= ci[1]
    assert inside / sets >= 0.95 - 2 * (0.95 * 0.05 / sets) ** 0.5
