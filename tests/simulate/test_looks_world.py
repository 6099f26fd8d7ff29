"""Simulations with looks have the truth that they say, and `--only looks` measures and resumes them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.calibrate import looks as calibrated
from bench.simulate.behavior import Behavior, chances, picked, shared, softmax
from bench.simulate.cued import Form, drawn_items
from bench.simulate.looks_world import BY_NAME, DECIDE, OWN, SKETCHED, answered

LARGE = 40_000


@pytest.mark.parametrize(
    "name", ["follows", "follows .5, graded, rho .4", "follows, k mixed 2-10", "avoids the looks"]
)
def test_a_coupled_draw_gives_the_truth_of_the_probabilities(name: str) -> None:
    world, draw = BY_NAME[name], np.random.default_rng(5)
    items = drawn_items(replace(world.form, n=LARGE), draw)
    own = chances(items, world.model, shared(items, world.like_keys, 0.0, draw), draw)
    luck = draw.gumbel(size=items.there.shape)
    change = (picked(own.full, luck) == items.key).astype(float) - (picked(own.bare, luck) == items.key)
    truth = float(own.truth(items.key).mean())
    assert abs(change.mean() - truth) < 4.5 * change.std() / LARGE**0.5
    assert abs(truth) > 0.005


def test_the_truth_of_a_model_that_knows_nothing_has_a_closed_form() -> None:
    draw = np.random.default_rng(6)
    items = drawn_items(Form(n=2000, options=(3, 4)), draw)
    model = Behavior(ability=0.0, follows=0.7)
    own = chances(items, model, shared(items, 0.0, 0.0, draw), draw)
    rows = np.arange(len(items))
    guess = softmax(0.7 * items.true_looks, items.there)[rows, items.key] - 1 / items.there.sum(axis=1)
    unknown = own.bare[rows, items.key] < 0.99
    assert unknown.mean() > 0.9
    np.testing.assert_allclose(own.truth(items.key)[unknown], guess[unknown])
    np.testing.assert_allclose(own.truth(items.key)[~unknown], 0, atol=1e-9)


def test_looks_bring_nothing_in_a_world_without_them() -> None:
    for name, world in BY_NAME.items():
        truth = answered(world, 3).truth
        assert (truth == 0) == (world.kind == "none"), name
        assert world.kind != "follows" or truth > -0.02, name


def test_rows_of_a_question_show_the_same_options_in_all_orders() -> None:
    items = drawn_items(Form(n=400, copies=4, rotated=True), np.random.default_rng(7))
    rows = np.arange(len(items))
    assert len(np.unique(items.source)) == 100
    assert sorted(items.key[:4].tolist()) == [0, 1, 2, 3]
    key = items.features[rows, items.key].reshape(100, 4, -1)
    np.testing.assert_array_equal(key, np.repeat(key[:, :1], 4, axis=1))


def test_a_reader_never_sees_its_item_unless_it_is_in_sample() -> None:
    def hits(*, in_sample: bool) -> float:
        items = drawn_items(Form(n=600, cued=0.0, noise=60, in_sample=in_sample), np.random.default_rng(8))
        logits, there, key, _ = calibrated.placebo(items, 8, in_sample=in_sample)
        return float((np.where(there, logits, -9).argmax(axis=1) == key).mean())

    assert hits(in_sample=False) < 0.3 < 0.33 < hits(in_sample=True)


def test_those_that_decide_are_those_of_the_bars_and_their_neighbors() -> None:
    assert set(DECIDE) <= set(BY_NAME)
    assert len(SKETCHED) >= 56
    assert len(OWN) >= 8
    assert {"follows", "follows, k=5", "follows, k=10", "follows, passages of 8", "follows, misconceptions 20 %",
            "follows, cued easier, n=1500"} <= set(DECIDE)  # fmt: skip


def test_only_missing_sets_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTIFY_CACHE", str(tmp_path))
    some = {name: BY_NAME[name] for name in ("none", "follows, k=10", "none, reader in sample")}
    monkeypatch.setattr(calibrated, "BY_NAME", some)
    drawn: list[tuple[str, int]] = []
    outcome = calibrated.outcome

    def counted(name: str, seed: int) -> calibrated.Outcome:
        drawn.append((name, seed))
        return outcome(name, seed)

    monkeypatch.setattr(calibrated, "outcome", counted)
    with ThreadPoolExecutor(1) as pool:
        first = calibrated.looks(pool, 0.05)["looks"]
        again = calibrated.looks(pool, 0.05)["looks"]
        assert len(drawn) == 5 + 5 + 2
        calibrated.looks(pool, 0.06)
    assert len(drawn) == 6 + 6 + 2
    assert first == again
    none, follows, refused = first["simulations"]
    assert (none["kind"], none["sets"], none["truth"]) == ("none", 5, 0.0)
    assert none["with"]["both"]["claimed"]["share"] == 0
    assert follows["with"]["blind"]["claimed"]["share"] >= 0.6
    assert refused["with"]["both"]["estimated"] <= 0.5
