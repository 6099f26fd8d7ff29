"""Labels of people against W, cues and verdicts: numbers counted by hand, and the demo's planted labels."""

import json
from pathlib import Path

import numpy as np
import pytest

from robustify.judging.audit.people import agreement_with_people, auroc, labels_of_people
from tests.support.cases import contents, refuses
from tests.support.command import invoked
from tools.planted import CLEAN, kinds

ROWS = contents("judging")["evidence_of_people"]
LABELS = {"a": True, "b": False, "c": True, "d": False, "e": None, "x": True}


def test_a_confident_miss_is_no_shortcut_and_what_is_left_out_is_counted() -> None:
    found = agreement_with_people(ROWS, LABELS)
    assert found["n"] == 4
    assert found["people"]["value"] == 0.5
    assert found["left_out"] == {"not_in_run": 1, "people_even": 1, "undecided": 1}
    # W is 0.9, 0.5, 0 (a miss) and 0: a is above b and d; c is below b and ties with d.
    assert found["rankings"]["W"]["auroc"]["value"] == (1 + 1 + 0 + 0.5) / 4
    assert found["verdict"]["confusion"] == ((1, 0), (1, 1))


def test_surface_and_what_models_make_of_the_options_are_counted_apart() -> None:
    found = agreement_with_people(ROWS, LABELS)["rankings"]
    assert found["surface"] == found["length"]
    assert found["models"] == found["vectors"]
    assert found["surface"] != found["models"]


def test_the_interval_of_a_perfect_ranking_is_no_point() -> None:
    score, positive = np.arange(20.0), np.arange(20) >= 10
    value, (low, high) = auroc(score, positive)
    assert value == high == 1.0
    assert 0.7 < low < 0.95
    # Newcombe 2006, method 5: theta with |theta - 0.5| = z sqrt(V(theta)) on both sides of an even ranking.
    value, (low, high) = auroc(np.zeros(20), positive)
    assert (value, low + high) == (0.5, pytest.approx(1.0))


def test_labels_of_copies_count_once() -> None:
    rng = np.random.default_rng(3)
    score, positive = rng.random(60), rng.random(60) < 0.5
    alone = auroc(score, positive)
    area, ci = auroc(np.tile(score, 3), np.tile(positive, 3), np.tile(np.arange(60), 3))
    assert area == pytest.approx(alone[0])
    assert ci is not None
    assert alone[1] is not None
    assert np.ptp(ci) == pytest.approx(np.ptp(alone[1]), rel=0.1)
    rows = [{**ROWS[0], "item": str(i), "verdict": "flagged"} for i in range(40)]
    labels = {row["item"]: i % 3 == 0 for i, row in enumerate(rows)}
    found = agreement_with_people(rows, labels, {row["item"]: i // 2 for i, row in enumerate(rows)})
    assert (found["people"]["ci"], found["rankings"]["W"]["auroc"]["ci"]) == (None, None)


def test_labels_of_one_kind_or_of_other_items_are_refused() -> None:
    with refuses("labels-of-one-kind"):
        agreement_with_people(ROWS, {"a": True, "x": False})


def test_every_line_that_is_no_label_is_named_and_several_people_outvote_one(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text('item,label\na,shortcut\na,not\na,shortcut\nb,not\nb,shortcut\n"c,1",not\n\n')
    assert labels_of_people(path) == {"a": True, "b": None, "c,1": False}
    path.write_text("a,yes\nb,not\nshortcut\n")
    with refuses("invalid-label", "invalid-label", hidden="yes") as caught:
        labels_of_people(path)
    assert [line.split(": ")[0].rpartition(":")[2] for line in caught.value.lines] == ["1", "3"]
    with refuses("no-such-file"):
        labels_of_people(tmp_path / "none.csv")


def test_the_demo_agrees_with_its_planted_labels(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(
        "".join(f"{item},{'not' if kind == CLEAN else 'shortcut'}\n" for item, kind in kinds().items())
    )
    demo = Path(__file__).parents[2] / "results" / "benign_demo"
    done = invoked("agree", demo, path, "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert (found["n"], found["verdict"]["n"]) == (360, 360)
    assert found["rankings"]["W"]["auroc"]["ci"][0] > 0.85 > found["rankings"]["models"]["auroc"]["ci"][1]
    done = invoked("agree", demo, path)
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 4 + len(found["rankings"])
    # The demo inferred no questions.
    assert all(f"{found['rankings'][name]['auroc']['value']:.2f}" in done.stdout for name in ("W", "p_key"))
