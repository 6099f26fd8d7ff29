"""Keys that deserve a second look: planted wrong keys are found by models that know, and by no others."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robustify.answers import Answers
from robustify.judging.accuracy import Credits, scored
from robustify.judging.audit.doubts import item_analysis
from robustify.judging.audit.doubts import label_noise as judge_label_noise
from robustify.judging.context import Parts
from robustify.screen.item_index import ItemIndex, item_index
from robustify.screen.screen_rules import ScreenRules
from tests.support.contexts import made_up
from tests.support.fake_answers import Bench, rows
from tests.support.trees import in_trees

label_noise = in_trees(judge_label_noise)


def knowing(n: int, skill: float, models: int, *, wrong: Any = None, k: int = 4, seed: int = 0) -> Bench:
    """Models that know the true choice with probability `skill` and else pick any; `wrong` keys are moved on."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n)
    picks = np.where(rng.random((n, models)) < skill, truth[:, None], rng.integers(0, k, (n, models)))
    moved = np.zeros(n, dtype=bool) if wrong is None else wrong
    key = np.where(moved, (truth + 1) % k, truth)
    return Bench(picks, key, np.full(n, k), moved)


def judged(b: Bench, robust: Any = None) -> dict[str, Any]:
    table = Answers.of(rows(b, view="full", template="mmlu-v1", rotations=False, bias=0.0))
    held, found = asked(b, table)
    n = len(b.key)
    kept = np.ones(n, dtype=bool) if robust is None else robust
    parts = Parts(~kept, kept, np.ones(n, dtype=bool), np.full(n, np.nan), np.zeros(n, dtype=np.int64))
    tree = label_noise(made_up(b.voters, parts=parts, answers=table, index=held, full="full"), found)
    assert tree is not None
    json.dumps(tree, allow_nan=False)
    return tree


def asked(b: Bench, table: Answers) -> tuple[ItemIndex, dict[str, Credits]]:
    held = item_index(table, b.ids)
    return held, {name: scored(table, held, name, "letter", ScreenRules()).credits for name in b.voters}


def test_planted_wrong_keys_are_listed_and_few_others() -> None:
    wrong = np.arange(400) % 20 == 0
    b = knowing(400, 0.9, 3, wrong=wrong)
    found = judged(b)
    flagged = np.isin(np.array(b.ids), found["items"])
    assert found["strong"] == ["v0", "v1", "v2"]
    assert flagged[wrong].mean() > 0.6
    assert flagged[~wrong].mean() < 0.01
    assert found["flagged"]["value"] == pytest.approx(flagged.mean())
    assert found["flagged"]["n"] == found["n"] == 400
    assert found["reason"] is None


def test_by_hand() -> None:
    key = np.zeros(40, dtype=np.int64)
    picks = np.zeros((40, 2), dtype=np.int64)
    picks[0] = (1, 1)  # agree on a wrong option
    picks[1] = (1, 2)  # both wrong, apart
    picks[2] = (1, 0)  # one right
    picks[3] = (-1, 1)  # one without an answer
    picks[4] = (-2, -2)  # shared picks agree with nothing
    picks[5] = (2, 2)
    robust = np.arange(40) != 5
    found = judged(Bench(picks, key, np.full(40, 4), np.zeros(40, dtype=bool)), robust)
    assert (found["n"], found["all_wrong"], found["items"]) == (39, 3, ["i00000", "i00005"])
    assert found["flagged"]["value"] == pytest.approx(2 / 39)
    assert found["expected"] == pytest.approx(3 / 3)
    assert (found["in_robust"]["value"], found["in_robust"]["n"]) == (pytest.approx(1 / 38), 38)
    assert (found["in_shortcut"]["value"], found["in_shortcut"]["n"]) == (1, 1)


@pytest.mark.parametrize("strong", [[], ["v0"]])
def test_fewer_than_two_strong_models_judge_nothing_and_say_so(strong: list[str]) -> None:
    b = knowing(200, 0.9, 1)
    guess = np.arange(200) % 4
    found = judged(replace(b, picks=np.column_stack([b.picks[:, 0] if strong else guess, guess[::-1]])))
    assert found["strong"] == strong
    assert found["reason"] == {
        "code": "few_strong_models",
        "params": {"strong": len(strong), "asked": 2},
    }
    assert [found[name] for name in ("n", "flagged", "expected", "in_robust", "items")] == [None] * 5


def test_nobody_asked_the_full_question_is_null() -> None:
    b = knowing(20, 0.9, 2)
    table = Answers.of(rows(b))
    held, found = asked(b, table)
    every = np.ones(20, dtype=bool)
    parts = Parts(~every, every, every, np.full(20, np.nan), np.zeros(20, dtype=np.int64))
    assert label_noise(made_up(b.voters, parts=parts, answers=table, index=held, full="full"), found) is None


def test_a_planted_wrong_key_has_a_negative_discrimination() -> None:
    rng = np.random.default_rng(3)
    n, skills = 200, np.linspace(0.0, 0.95, 12)
    wrong = np.arange(n) % 20 == 0
    truth = rng.integers(0, 4, n)
    picks = np.where(rng.random((n, 12)) < skills, truth[:, None], rng.integers(0, 4, (n, 12)))
    b = Bench(picks, np.where(wrong, (truth + 1) % 4, truth), np.full(n, 4), wrong)
    table = Answers.of(rows(b, view="full", template="mmlu-v1", rotations=False, bias=0.0))
    held, found = asked(b, table)
    ctx = made_up(b.voters, parts=None, answers=table, index=held, full="full")
    analysed = item_analysis(ctx, found)
    assert analysed is not None
    won = (picks == b.key[:, None]).astype(float)
    assert analysed.difficulty == pytest.approx(won.mean(axis=1))
    rest = (won.sum(axis=0) - won) / (n - 1)
    defined = (won.std(axis=1) > 0) & ~np.isnan(analysed.discrimination)
    for i in np.flatnonzero(defined)[:20].tolist():
        assert analysed.discrimination[i] == pytest.approx(np.corrcoef(won[i], rest[i])[0, 1])
    # The models that pick a wrong key are those that guess.
    negative = analysed.discrimination < 0
    assert negative[wrong].mean() > 0.6
    assert negative[~wrong].mean() < 0.1
    part = analysed.part
    listed = [float(analysed.discrimination[held.items.index(row.item)]) for row in part.lowest]
    assert listed == sorted(listed)
    assert listed[-1] < 0
    assert item_analysis(ctx, {m: found[m] for m in b.voters[:4]}) is None
