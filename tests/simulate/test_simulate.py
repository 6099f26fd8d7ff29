"""Simulated benchmarks are what their truth says, and the judge finds that truth again."""

import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from bench.calibrate import gather, plots
from bench.calibrate.arms import alarm_verdict, all_cells, coverage_verdict
from bench.calibrate.trial import Interval, Trial, by_independence, estimator, screened, trial
from bench.simulate.__main__ import lines, written
from bench.simulate.drawing import Drawn, draw, truth
from bench.simulate.parameters import Case, Simulation, cases, place_probabilities, screen_probabilities
from bench.simulate.proof import estimates_beside, judged, value_at
from bench.simulate.truth import rule_accuracy, true_values
from bench.simulate.wording import HEDGING, NEUTRAL, SWEEPING
from robustify.baselines.heuristics import HEURISTICS
from robustify.baselines.wording import HEDGES, words_of
from robustify.item import Item
from robustify.loaders import Source, load
from tests.support.fake_answers import heuristic_numbers

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
        assert near(float((would @ places).mean()), true.by_chance_by_place, n)
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


def test_majority_and_missing_votes_are_as_the_probabilities_say() -> None:
    sim = Simulation(items=LARGE, voters=5, correlation=0.4, sight=0.7)
    drawn = draw(sim)
    right = (drawn.picks[:, :5] == drawn.key[:, None]).sum(axis=1)
    true = sum(c.weight * screen_probabilities(sim, c, "majority").flagged for c in cases(sim))
    assert near(float((right >= 3).mean()), true, LARGE)
    sim = Simulation(items=LARGE, unanswered=0.2, voters=3)
    drawn = draw(sim)
    votes = drawn.picks[:, :3]
    there = votes >= 0
    alike = np.stack([((votes == j) | ~there).all(axis=1) for j in range(4)], axis=1)
    weighed = there.all(axis=1) | ~alike.any(axis=1)
    agree = ((votes == drawn.key[:, None]) | ~there).all(axis=1)
    known = [(c, screen_probabilities(sim, c)) for c in cases(sim)]
    assert near(float(weighed.mean()), sum(c.weight * o.weighed for c, o in known), LARGE)
    assert near(float((~agree).mean()), sum(c.weight * o.kept for c, o in known), LARGE)


@settings(deadline=None, max_examples=8)
@given(
    st.builds(
        Simulation,
        items=st.just(10),
        shortcut_rate=st.floats(0, 0.6),
        hidden_rate=st.floats(0, 0.4),
        options=st.lists(st.integers(2, 5), min_size=1, max_size=2).map(tuple),
        voters=st.integers(1, 4),
        sight=st.floats(0, 1),
        knowing=st.floats(0, 1),
        correlation=st.floats(0, 1),
        distractors=st.floats(0, 1),
        letter_bias=st.floats(0, 1),
        ties=st.floats(0, 1),
        asked=st.sampled_from(["rotated", "own"]),
        places=st.sampled_from(["uniform", "skewed"]),
    )
)
def test_probabilities_are_between_0_and_1(sim: Simulation) -> None:
    assert sum(c.weight for c in cases(sim)) == pytest.approx(1)
    for case in cases(sim):
        own = screen_probabilities(sim, case)
        for o in (
            own,
            screen_probabilities(sim, case, "majority"),
            screen_probabilities(sim, case, plain=True),
        ):
            assert o.flagged + o.kept == pytest.approx(1)
            assert -1e-9 <= o.flagged <= 1 + 1e-9
            assert -1e-9 <= o.by_chance <= 1 + 1e-9
            assert (o.right_kept <= o.right + 1e-9).all()
            assert (o.right_kept >= -1e-9).all()
            assert (o.right <= 1 + 1e-9).all()
        assert (own.left_out_right <= own.left_out + 1e-9).all()
    assert all(math.isfinite(v) for v in true_values(sim).values())


def test_the_same_parameters_give_the_same_benchmark_and_another_seed_another() -> None:
    one, two, other = (draw(Simulation(items=40, seed=seed)) for seed in (3, 3, 4))
    assert one.answers(one.items()).table.equals(two.answers(two.items()).table)
    assert [i.choices for i in one.items()] == [i.choices for i in two.items()]
    assert truth(one) == truth(two)
    assert not one.answers().table.equals(other.answers().table)


def test_the_rows_of_a_voter_average_to_its_pick_and_the_first_letter_sways_single_askings() -> None:
    sim = Simulation(
        items=400, letter_bias=0.4, ties=0.1, unanswered=0.1, options=(3, 4), tested=0, outside=0
    )
    drawn = draw(sim)
    rows = drawn.answers().table.to_pylist()
    place = {name: i for i, name in enumerate(drawn.ids)}
    total: dict[tuple[int, int], Any] = {}
    swayed = 0
    for row in rows:
        i, m = place[row["item"]], int(row["model"].removeprefix("voter-")) - 1
        assert row["key"] == drawn.key[i]
        if drawn.picks[i, m] == -1:
            assert (row["pick"], row["correct"], row["scores"]) == (None, None, [])
            continue
        total[i, m] = total.get((i, m), 0) + np.array(row["scores"])
        likes_letter = drawn.unsure[i, m] or drawn.picks[i, m] == -2
        assert row["pick"] == (row["order"][0] if likes_letter else drawn.picks[i, m])
        swayed += likes_letter
    assert swayed > 0.3 * len(rows)
    for (i, m), summed in total.items():
        best = np.flatnonzero(summed >= summed.max() - 1e-9)
        assert (list(best) == [drawn.picks[i, m]]) if drawn.picks[i, m] >= 0 else (len(best) == drawn.k[i])


def test_models_under_test_are_as_good_as_the_parameters_say() -> None:
    sim = Simulation(
        items=6000, accuracy=(0.4, 0.8), cloze_accuracy=(0.3, 0.6), tested=1, outside=0, voters=2, orders=2
    )
    drawn = draw(sim)
    summary = judged(drawn, drawn.answers(), None).summary.tree()
    true = true_values(sim)
    for path in (
        "accuracy/model-1/full/all",
        "accuracy/model-1/cloze_chars/all",
        "permutation/by_model/model-1/flip_rate",
    ):
        node: Any = value_at(summary, path)
        assert near(node["value"], true[path], 6000), path


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


def test_the_words_are_neutral_and_the_choices_of_an_item_differ() -> None:
    known = {*NEUTRAL, *HEDGING, *SWEEPING}
    assert all(len(w) == 5 for w in known)
    assert set(HEDGING) <= HEDGES
    assert not set(NEUTRAL) & HEDGES
    for item in draw(Simulation(items=300, shortcut_rate=0.5)).items():
        assert len(set(item.choices)) == item.k
        assert {w for c in item.choices for w in words_of(c) if not w.isdigit()} <= known


@pytest.mark.slow
def test_heuristics_score_what_the_truth_says() -> None:
    sim = Simulation(
        items=4000, shortcut_rate=0.4, options=(3, 5), places="skewed", voters=2, tested=0, outside=0
    )
    drawn = draw(sim)
    items = drawn.items()
    names = ("longest_answer", "shortest_answer", "most_hedges", "first_option", "alphabetical_first")
    kinds = np.array(drawn.kind)
    for heuristic in (h for h in HEURISTICS if h.name in names):
        scores = heuristic_numbers(heuristic, items)
        credit = np.array([_credit(item, list(s)) for item, s in zip(items, scores, strict=True)])
        for case in cases(sim):
            here = (kinds == case.kind) & (drawn.k == case.k)
            true = rule_accuracy(sim, heuristic.name, case)
            assert true is not None
            assert near(float(credit[here].mean()), true, int(here.sum())), (heuristic.name, case)


@pytest.mark.slow
def test_nearly_every_true_value_stands_beside_an_interval_of_the_summary() -> None:
    drawn = draw(Simulation(items=300, shortcut_rate=0.3, seed=5))
    items = drawn.items()
    summary = judged(drawn, drawn.answers(items), items).summary.tree()
    found = {e.path for e in estimates_beside(true_values(drawn.sim), summary)}
    missing = {p for p in true_values(drawn.sim) if p not in found}
    assert missing <= {"sensitivity/1/latent_shortcut_rate"}, missing
    assert {estimator(path) for path in found} >= {
        "flagged_rate", "excess_over_chance", "latent_shortcut_rate", "d4_excess_over_chance", "accuracy_full_robust",
        "heuristic_rate_all", "topic_retention", "residual_leave_one_out", "residual_non_voters", "flip_rate",
    }  # fmt: skip


def test_truth_leaves_out_what_it_does_not_know() -> None:
    skewed = true_values(Simulation(asked="own", places="skewed"))
    assert not any(path.startswith(("accuracy/", "residual/", "heuristics/")) for path in skewed)
    holes = true_values(Simulation(unanswered=0.1))
    assert not any(path.startswith(("accuracy/", "residual/", "sensitivity/")) for path in holes)
    assert rule_accuracy(Simulation(), "most_common_position", Case("clean", 4, 1.0)) == 0.25, (
        "a fitted rule is asked of nobody"
    )
    assert not any("most_common_position" in path for path in true_values(Simulation()))


SETS = 40


def summaries(**changed: Any) -> tuple[Simulation, list[dict[str, Any]]]:
    sim = Simulation(items=300, outside=0, tested=0, **changed)
    return sim, [screened(draw(sim.model_copy(update={"seed": 900 + i}))) for i in range(SETS)]


@pytest.fixture(scope="module")
def gamed() -> tuple[Simulation, list[dict[str, Any]]]:
    return summaries(shortcut_rate=0.15, correlation=0.7)


@pytest.mark.slow
def test_mini_calibration_the_intervals_of_excess_and_latent_rate_cover(
    gamed: tuple[Simulation, list[dict[str, Any]]],
) -> None:
    sim, found = gamed
    true = true_values(sim)
    for path in ("screen/excess_over_chance", "screen/latent_shortcut_rate", "screen/flagged"):
        nodes: list[Any] = [value_at(s, path) for s in found]
        value = np.array([n["value"] for n in nodes])
        width = np.mean([n["ci"][1] - n["ci"][0] for n in nodes]) / (2 * 1.96)
        covered = np.mean([n["ci"][0] <= true[path] <= n["ci"][1] for n in nodes])
        assert covered >= 0.85, f"{path}: P(fewer than 34 of 40 at 95 %) is 0.4 %"
        assert abs(value.mean() - true[path]) < 4 * value.std() / math.sqrt(SETS), path
        assert 0.7 < width / value.std() < 1.4, f"{path}: an interval is as wide as the estimate varies"


@pytest.mark.slow
def test_mini_calibration_p_is_neither_trigger_happy_nor_blind(
    gamed: tuple[Simulation, list[dict[str, Any]]],
) -> None:
    clean, shortcuts = (
        np.array([value_at(x, "screen/excess_over_chance/p") for x in found], dtype=float)
        for found in (summaries(shortcut_rate=0.0, correlation=0.7)[1], gamed[1])
    )
    assert np.mean(clean <= 0.05) <= 0.175, "more than 7 of 40 at 5 % happens once in 300 times"
    assert 0.3 < clean.mean() < 0.75, "under the null p is uniform, or a little above"
    assert clean.std() > 0.15
    assert np.mean(shortcuts <= 0.05) >= 0.95


def test_the_product_formula_is_right_only_where_voters_err_alone() -> None:
    s, g = 0.1, np.array([0.3, 0.35, 0.25])
    accuracy = (s + (1 - s) * g).tolist()
    assert by_independence(accuracy, s + (1 - s) * float(g.prod())) == pytest.approx(s)
    assert by_independence(accuracy, s + (1 - s) * 0.15) > 0.15


@pytest.mark.slow
def test_the_grid_holds_a_thousand_benchmarks_and_every_cell_can_be_made() -> None:
    cells = all_cells()
    assert sum(c.repeats for c in cells if c.arm == "grid" and c.depth != "screen") >= 1000
    assert {c.depth for c in cells} == {"screen", "whole", "worded"}
    whole = next(i for i, c in enumerate(cells) if c.depth == "worded" and c.labels["items"] == 100)
    one, two = trial(whole, cells[whole], 7), trial(whole, cells[whole], 7)
    assert one == two
    assert {"excess_p", "residual_not_certified", "topic_drift"} <= set(one.alarms)


def test_shares_and_what_does_not_hold_are_counted_as_they_are() -> None:
    cells = [c for c in all_cells(0.01) if c.arm == "grid" and c.depth == "screen"][:2]
    means = dict.fromkeys(
        ("latent", "latent_by_independence", "clean_flagged", "expected_share", "found_beyond_latent"), 0.01
    )
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


@pytest.mark.slow
def test_the_command_writes_three_files_and_finds_the_truth_beside_them(tmp_path: Path) -> None:
    drawn = draw(Simulation(items=120, options=(3, 4), seed=2))
    said, estimates = written(tmp_path, drawn)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["answers.parquet", "items.jsonl", "truth.json"]
    inside = sum(e.inside for e in estimates)
    assert inside >= 0.8 * len(estimates)
    assert f"{inside} of {len(estimates)} intervals" in "\n".join(lines(said, estimates))
    kept = json.loads((tmp_path / "truth.json").read_text(encoding="utf-8"))
    assert set(kept["kinds"].values()) <= {"length", "hedge", "wordless", "hidden"}
    assert kept["shortcut_rate"]["of_these_items"] == pytest.approx(len(kept["kinds"]) / 120)
    assert len(load(Source(path=str(tmp_path / "items.jsonl"))).items) == 120


def test_rates_that_cannot_be_are_refused() -> None:
    for wrong in ({"options": (1,)}, {"shortcut_rate": 0.8, "hidden_rate": 0.5}, {"planted": ()}):
        with pytest.raises(ValidationError):
            Simulation(**wrong)
