"""Simulated benchmarks are what their truth says, and the judge finds that truth again."""

import math
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from bench.calibrate import gather, plots
from bench.calibrate.arms import Cell, alarm_verdict, all_cells, coverage_verdict
from bench.calibrate.trial import Interval, Trial, trial
from bench.simulate.drawing import Drawn, draw
from bench.simulate.parameters import Case, Simulation, cases, place_probabilities, screen_probabilities
from bench.simulate.truth import rule_accuracy, true_values
from robustify.baselines.wording import HEDGES, words_of
from robustify.item import Item

LARGE = 60_000
BENCHMARKS = {
    "plain": Simulation(items=LARGE, shortcut_rate=0.2),
    "mixed options": Simulation(items=LARGE, options=(2, 3, 5), voters=2, correlation=0.8),
    "half blind": Simulation(items=LARGE, sight=0.6, knowing=0.15, hidden_rate=0.1, outside=2),
    "distractors and ties": Simulation(items=LARGE, distractors=0.7, ties=0.2, voters=2, sight=0.9),
    "logs of skewed keys": Simulation(items=LARGE, asked="own", places="skewed", letter_bias=0.3, ties=0.05),
}


def near(found: float, true: float, n: int) -> bool:
    """Within 4.5 standard errors of a share of n (and never stricter than a few items)."""
    return abs(found - true) <= 4.5 * math.sqrt(max(true * (1 - true), 1e-3) / n)


def by_letter(drawn: Drawn, rng: np.random.Generator) -> Any:
    """The picks as one asking in the own order shows them: the unsure, and who likes nothing, name place 0."""
    swayed = drawn.unsure | ((drawn.picks == -2) & (drawn.sim.letter_bias > 0))
    return np.where(swayed, 0, drawn.picks)


@pytest.mark.parametrize("sim", BENCHMARKS.values(), ids=BENCHMARKS)
def test_what_is_drawn_is_what_the_probabilities_say(sim: Simulation) -> None:
    drawn = draw(sim)
    picks = by_letter(drawn, np.random.default_rng(0)) if sim.asked == "own" else drawn.picks
    voters = picks[:, : sim.voters]
    kinds = np.array(drawn.kind)
    for case in cases(sim):
        here = (kinds == case.kind) & (drawn.k == case.k)
        n = int(here.sum())
        assert near(n / LARGE, case.weight, LARGE)
        true = screen_probabilities(sim, case)
        key, part = drawn.key[here], voters[here]
        would = np.stack([(part == j).all(axis=1) for j in range(case.k)], axis=1)
        assert near(float((part == key[:, None]).all(axis=1).mean()), true.flagged, n)
        places = place_probabilities(sim, case.k) if sim.asked == "own" else np.full(case.k, 1 / case.k)
        assert near(float(would.mean()), true.by_chance, n * case.k)
        assert near(float((would @ places).mean()), true.by_chance_by_position, n)
        flagged = (part == key[:, None]).all(axis=1)
        for person in range(picks.shape[1]):
            pick = picks[here, person]
            credit = (pick == key) + (pick == -2) / case.k
            assert near(float(credit.mean()), float(true.right[person]), n)
            assert near(float((credit * ~flagged).mean()), float(true.right_kept[person]), n)
        for voter in range(sim.voters):
            kept = ~(np.delete(part, voter, axis=1) == key[:, None]).all(axis=1)
            assert near(float(kept.mean()), float(true.left_out[voter]), n)
            credit = (part[:, voter] == key) + (part[:, voter] == -2) / case.k
            assert near(float((credit * kept).mean()), float(true.left_out_right[voter]), n)


def test_a_cue_can_be_read_from_the_words_and_nothing_else_can() -> None:
    sim = Simulation(items=3000, shortcut_rate=0.6, options=(3, 4), tested=0, outside=0)
    drawn = draw(sim)
    items = drawn.items()
    seen = {"length": 0, "hedge": 0}
    for item, kind in zip(items, drawn.kind, strict=True):
        sizes = [len(c) for c in item.choices]
        hedges = [sum(w in HEDGES for w in words_of(c)) for c in item.choices]
        if kind == "length":
            assert sizes[item.key] > max(s for j, s in enumerate(sizes) if j != item.key)
        if kind == "hedge":
            assert hedges[item.key] >= 2
            assert max(h for j, h in enumerate(hedges) if j != item.key) == 0
        seen[kind] = seen.get(kind, 0) + 1
    assert min(seen["length"], seen["hedge"]) > 400
    plain = [i for i, kind in zip(items, drawn.kind, strict=True) if kind in ("clean", "wordless")]
    share = np.mean([_credit(i, [len(c) for c in i.choices]) for i in plain])
    assert near(float(share), float(np.mean([1 / i.k for i in plain])), len(plain))


def _credit(item: Item, scores: list[int]) -> float:
    best = [j for j, s in enumerate(scores) if s == max(scores)]
    return (item.key in best) / len(best)


def test_truth_leaves_out_what_it_does_not_know() -> None:
    skewed = true_values(Simulation(asked="own", places="skewed"))
    assert not any(path.startswith(("accuracy/", "residual/", "heuristics/")) for path in skewed)
    holes = true_values(Simulation(unanswered=0.1))
    assert not any(path.startswith(("accuracy/", "residual/", "sensitivity/")) for path in holes)
    assert rule_accuracy(Simulation(), "most_common_position", Case("clean", 4, 1.0)) == 0.25, (
        "a fitted rule is asked of nobody"
    )
    assert not any("most_common_position" in path for path in true_values(Simulation()))


def test_shares_and_what_does_not_hold_are_counted_as_they_are() -> None:
    cells = [c for c in all_cells(0.01) if c.arm == "grid" and c.depth == "screen"][:2]
    means = {"latent": 0.01}
    shares = {"good": 20, "bad": 2, "latent_shortcut_rate": 1000}
    known = [
        Trial(
            cell,
            [Interval(name, i % every != 1, 0.01, 0.1) for name, every in shares.items()],
            {"test": i % 25 == 0},
            means,
        )
        for cell in (0, 1)
        for i in range(200)
    ]
    main = gather.gathered(cells, known)["calibration"]
    assert main["benchmarks"] == 400
    assert main["coverage"]["good"] == 0.95
    assert coverage_verdict(main["coverage_detail"]["good"]["ci"]) == "not excluded"
    assert coverage_verdict(main["coverage_detail"]["bad"]["ci"]) == "narrow"
    assert (coverage_verdict((0.94, 0.96)), coverage_verdict((0.975, 0.99))) == ("yes", "wide")
    assert [alarm_verdict(ci) for ci in ((0.0, 0.05), (0.04, 0.06), (0.06, 0.1))] == [
        "yes",
        "not excluded",
        "no",
    ]
    assert main["false_alarms"]["test"] == 0.04
    off = {row["estimator"]: row["is"] for row in main["does_not_hold"]}
    assert off == {"bad": "too narrow", "latent_shortcut_rate": "too wide"}
    assert main["coverage_detail"]["bad"]["by"]["items"] == {"100": 0.5}
    pytest.importorskip("matplotlib")
    drawn = plots.coverage(main)
    assert ET.fromstring(drawn).tag.endswith("svg")
    assert drawn == plots.coverage(main), "the same bytes every time"


def test_a_benchmark_is_judged_beside_its_truth() -> None:
    sim = Simulation(items=120, options=(3, 4))
    found = trial(0, Cell("grid", "worded", {}, sim, 1), seed=2)
    assert len(found.intervals) > 50
    assert np.mean([one.inside for one in found.intervals]) >= 0.8
    assert {"excess_p", "topic_drift", "residual_certified"} <= set(found.alarms)


def test_rates_that_cannot_be_are_refused() -> None:
    for wrong in ({"options": (1,)}, {"shortcut_rate": 0.8, "hidden_rate": 0.5}, {"planted": ()}):
        with pytest.raises(ValidationError):
            Simulation(**wrong)
