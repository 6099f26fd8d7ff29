"""Scores: chance beside each rate, gaps on common items, random removals on known truth, and who voted."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robustify.answers import Answers
from robustify.arrays import Bools, Floats
from robustify.judge.accuracy import Parts, credits
from robustify.judge.accuracy import accuracy as judge_accuracy
from robustify.judge.accuracy import against_chance as judge_against_chance
from robustify.judge.accuracy import format_gap as judge_format_gap
from robustify.judge.accuracy import heuristic_gap as judge_heuristic_gap
from robustify.judge.accuracy import pairs as judge_pairs
from robustify.judge.permutation import permutation as judge_permutation
from robustify.judge.removal_effects import random_removal as judge_random_removal
from robustify.screen.item_index import item_index
from robustify.screen.votes import full_mode
from robustify.stats.intervals import wilson
from robustify.stats.tests import minimum_detectable_difference
from tests.support.fake_answers import bench, rows, text_rows
from tests.support.trees import in_trees

permutation = in_trees(judge_permutation)

pairs = in_trees(judge_pairs)

accuracy = in_trees(judge_accuracy)
against_chance = in_trees(judge_against_chance)
format_gap = in_trees(judge_format_gap)
heuristic_gap = in_trees(judge_heuristic_gap)
random_removal = in_trees(judge_random_removal)


def parts(robust: Bools, topic: Any = None, **more: Any) -> Parts:
    n = len(robust)
    of = np.zeros(n, dtype=np.int64) if topic is None else np.asarray(topic, dtype=np.int64)
    return Parts(~robust, robust, np.ones(n, dtype=bool), np.full(n, np.nan), of, **more)


def ones(mask: Any) -> Floats:
    return np.asarray(mask, dtype=np.float64)


def gap(won: Floats, longest: Floats, groups: Any = None) -> dict[str, Any]:
    found = heuristic_gap(won, longest, groups)
    assert found is not None
    return found


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
    assert full_mode(table, wanted) == mode
    held = item_index(table, b.ids)
    won = credits(table, held, "v0", None, mode=mode)
    assert (won["full"] is None, won["full_other"] is None) == ("cloze" in asked, len(asked) < 2)


def test_with_both_modes_asked_the_other_one_stands_beside_on_all_items() -> None:
    b = bench(40, 2, seed=2)
    by_text = text_rows(b, view="full_text", template="qa-v1")
    letters = rows(replace(b, picks=(b.picks + 1) % 4), view="full", template="mmlu-v1", rotations=False)
    table = Answers.of([*rows(b), *letters, *by_text])
    held = item_index(table, b.ids)
    where = parts(np.arange(40) < 20, k=held.k)
    trees: Any = {
        mode: accuracy(credits(table, held, "v0", None, mode=mode), where, is_voter=True)
        for mode in ("letter", "text")
    }
    assert trees["text"]["full"]["all"]["value"] == pytest.approx(np.mean(b.picks[:, 0] == b.key))
    assert trees["text"]["full_other"] == trees["letter"]["full"]["all"]
    assert trees["letter"]["full_other"] == trees["text"]["full"]["all"]
    assert trees["text"]["full_other"] != trees["text"]["full"]["all"]


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


def test_the_false_alarm_rate_of_a_guesser_is_five_in_a_hundred_whatever_hangs_together() -> None:
    """Fixed picks, keys drawn anew: the picks of a whole passage may be alike."""
    rng = np.random.default_rng(0)
    k = np.repeat([2, 4, 5], 100)
    picks = np.repeat(rng.integers(0, 2, 30), 10)
    told = [
        against_chance((rng.integers(0, k) == picks).astype(float), k)["significant"] for _ in range(2_000)
    ]
    assert 0.02 <= np.mean([bool(t) for t in told]) <= 0.06


def test_without_items_or_k_chance_is_null() -> None:
    nothing = {"chance": None, "significant": None, "mde": None}
    assert against_chance(np.zeros(0), np.zeros(0, dtype=np.int64)) == {
        "value": None, "n": 0, "ci": None, **nothing,
    }  # fmt: skip
    assert against_chance(np.ones(3), None) == {**against_chance(np.ones(3), np.full(3, 4)), **nothing}
    tiny = against_chance(np.array([1.0, 0.0]), np.array([2, 2]))
    assert (tiny["significant"], tiny["mde"]) == (False, None), "not even two of two would be told"


def test_every_measure_of_a_model_has_its_chance_and_the_splits_add_up() -> None:
    b = bench(90, 2, options=(4, 3), seed=2)
    full = rows(b, view="full", template="mmlu-v1")
    cloze = text_rows(b, view="cloze", template="qa-v1")
    table = Answers.of([*rows(b), *full, *cloze])
    held = item_index(table, b.ids)
    found = credits(table, held, "v0", "d4-like-v1")
    fit = np.arange(90) % 3 > 0
    where = replace(parts(np.arange(90) < 50, k=held.k), cloze=fit)
    tree: Any = accuracy(found, where, is_voter=False)
    json.dumps(tree, allow_nan=False)
    for name, of in (("full", np.ones(90, dtype=bool)), ("cloze_chars", fit)):
        assert [tree[name][split]["n"] for split in ("all", "shortcut", "robust")] == [
            of.sum(),
            (of & where.shortcut).sum(),
            (of & where.robust).sum(),
        ]
        assert tree[name]["robust"]["chance"] == pytest.approx(np.mean(1 / b.k[of & where.robust]))
    assert tree["choices_only_text"] is None
    assert tree["free"] is None
    assert tree["format_gap"]["n"] == fit.sum()


# Gaps


def test_the_format_gap_is_paired_on_items_fit_for_cloze_and_answered_both_ways() -> None:
    full = np.array([1.0, 1, 1, 0, np.nan, 1])
    cloze = np.array([0.0, 1, np.nan, 0, 1, 0])
    where = replace(parts(np.ones(6, dtype=bool)), cloze=np.arange(6) != 5)
    found = format_gap({"full": full, "cloze_chars": cloze}, where)
    assert found == {"value": pytest.approx(1 / 3), "n": 3, "ci": None, "mde": None}
    assert format_gap({"full": full, "cloze_chars": None}, where) is None
    assert format_gap({"full": full}, where) is None


def test_a_gap_that_is_not_told_has_its_mde_and_one_that_is_has_none() -> None:
    where = parts(np.ones(200, dtype=bool))
    same = np.random.default_rng(1).random(200)
    one, two = ones(same < 0.6), ones(same < 0.58)
    alike = format_gap({"full": one, "cloze_chars": two}, where)
    apart = format_gap({"full": one, "cloze_chars": 1 - one}, where)
    assert isinstance(alike["mde"], float)
    assert apart["mde"] is None


def test_the_heuristic_gap_finds_what_was_planted_and_covers_it() -> None:
    rng = np.random.default_rng(4)
    hits = []
    for _ in range(400):
        longest = rng.choice([0.0, 1.0, 0.5], p=[0.6, 0.3, 0.1], size=150)
        won = ones(rng.random(150) < 0.3 + 0.2 * (rng.random(150) < longest))
        low, high = gap(won, longest)["ci"]
        # A tied item stands on both sides: it moves both means towards each other by its share.
        right, wrong = 0.3 + 0.05, 0.6 + 0.05
        truth = (0.3 * 0.5 + 0.05 * 0.4) / right - (0.6 * 0.3 + 0.05 * 0.4) / wrong
        hits.append(low <= truth <= high)
    assert 0.92 <= np.mean(hits) <= 0.99


def test_a_gap_in_which_nothing_varies_claims_no_certainty() -> None:
    longest = credit((1, 20), (0, 30))
    never = gap(np.zeros(50), longest)
    low, high = never["ci"]
    assert low < -0.05
    assert high > 0.05
    assert never["mde"] is not None
    grouped = gap(np.zeros(50), longest, np.arange(50))
    assert grouped == {"value": 0, "n": 50, "ci": None, "mde": None}
    few = gap(np.zeros(50), longest, np.arange(50) // 10)
    assert few == {"value": 0, "n": 50, "ci": None, "mde": None}


# Random removals


def removed(won: Floats, robust: Bools, topic: Any = None, **more: Any) -> dict[str, Any]:
    found = random_removal({"full": won}, parts(robust, topic), **more)
    assert found is not None
    return found


@pytest.mark.slow
def test_the_percentile_is_even_and_p_holds_its_level_when_items_are_removed_at_random() -> None:
    rng = np.random.default_rng(5)
    topic = np.repeat([0, 1, 2, 3], [10, 90, 150, 250])
    won = ones(rng.random(500) < np.array([0.9, 0.7, 0.4, 0.2])[topic])
    won[::23] = 0.5
    found = [removed(won, rng.random(500) < 0.6, topic) for _ in range(80)]
    assert np.mean([f["percentile"] for f in found]) == pytest.approx(50, abs=8)
    assert np.mean([f["p"] <= 0.05 for f in found]) <= 0.12
    assert all((f["mde"] is None) == (f["p"] <= 0.05) for f in found)


def test_a_topic_that_is_gone_is_no_part_of_the_control() -> None:
    """The easy topic was removed whole: the fall is the topics' alone, and the control falls with it."""
    topic = np.repeat([0, 1], [100, 300])
    won = np.concatenate([np.ones(100), np.tile([1.0, 0.0, 0.0], 100)])
    found = removed(
        won, np.concatenate([np.zeros(100, dtype=bool), np.tile([True, True, True, False], 75)]), topic
    )
    assert found["mean"] == pytest.approx(1 / 3, abs=0.01)
    assert 5 < found["percentile"] < 95


def test_harder_items_kept_is_told() -> None:
    won = credit((1, 200), (0, 200))
    found = removed(won, np.arange(400) >= 80)
    assert (found["percentile"], found["mde"]) == (pytest.approx(0), None)
    # The least and the most that can be left: all 80 that go were right, or all were wrong.
    assert found["p"] == removed(won[::-1], np.arange(400) >= 80)["p"] == pytest.approx(1e-12)
    by_cloze = random_removal({"full": None, "cloze_chars": won}, parts(np.arange(400) >= 80))
    assert by_cloze == {**found, "view": "cloze_chars"}
    few = removed(credit((1, 6), (0, 6)), np.arange(12) >= 4)
    assert few["p"] == pytest.approx(2 * 15 / 495), "C(6, 4) of C(12, 4) removals take right answers only"


def test_where_removal_can_change_nothing_it_is_not_blamed() -> None:
    alike = removed(np.full(40, 0.5), np.arange(40) < 20)
    assert (alike["percentile"], alike["p"]) == (100, 1)
    whole = removed(credit((1, 10), (0, 30)), np.ones(40, dtype=bool))
    assert (whole["mean"], whole["percentile"], whole["p"], whole["mde"]) == (0.25, 100, 1, None)
    single = removed(credit((1, 10), (0, 30)), np.ones(40, dtype=bool), np.arange(40))
    assert single["p"] == 1, "topics of one item each"


def test_thirds_of_credit_are_no_rounding_trap() -> None:
    rng = np.random.default_rng(6)
    won = rng.choice([0.0, 1 / 3, 1 / 2, 1.0], size=600)
    found = removed(won, np.ones(600, dtype=bool), np.arange(600) % 7)
    assert (found["percentile"], found["p"]) == (100, 1)


def test_nothing_kept_or_nothing_asked_is_null() -> None:
    empty = parts(np.zeros(10, dtype=bool))
    assert random_removal({"full": np.ones(10)}, empty) is None
    assert random_removal({"full": None, "cloze_chars": None}, empty) is None
    assert random_removal({"full": np.full(10, np.nan)}, parts(np.ones(10, dtype=bool))) is None


def alike(
    seed: int, n: int, follows: float, options: tuple[int, ...] = (4,), s: float = 0.0
) -> dict[str, Any]:
    """Two voters that guess alike in six of ten items; a model knows half, else follows their favourite that often.

    It uses every shortcut, of which there is a share s.
    """
    rng = np.random.default_rng(seed)
    k = rng.choice(options, n)
    key, favourite, shortcut = rng.integers(0, k), rng.integers(0, k), rng.random(n) < s
    votes = np.where(rng.random((n, 2)) < 0.6, favourite[:, None], rng.integers(0, k[:, None], (n, 2)))
    votes = np.where(shortcut[:, None], key[:, None], votes)
    agreed = np.where(votes[:, 0] == votes[:, 1], votes[:, 0], -1)
    guess = np.where(rng.random(n) < follows, favourite, rng.integers(0, k))
    pick = np.where((rng.random(n) < 0.5) | shortcut, key, guess)
    found = random_removal({"full": ones(pick == key)}, parts(agreed != key, k=k, agreed=agreed), pick)
    assert found is not None
    return found


@pytest.mark.parametrize(("follows", "options"), [(1.0, (4,)), (0.5, (4,)), (0.5, (2, 3, 5))])
def test_what_errs_as_the_voters_do_is_no_fall_by_decoys(follows: float, options: tuple[int, ...]) -> None:
    found = [alike(seed, 400, follows, options) for seed in range(150)]
    assert np.mean([f["p"] <= 0.05 for f in found]) > 0.7, "random removals take every one for a fall"
    tested = [f["by_decoys"] for f in found if f["by_decoys"]]
    assert np.mean([f["p"] <= 0.05 for f in tested]) <= 0.05 + 2.6 * (0.05 * 0.95 / 150) ** 0.5
    off = np.array([f["difference"]["value"] for f in tested])
    assert abs(off.mean()) < 3 * off.std() / len(off) ** 0.5
    assert all(
        f["flagged"]["value"] - f["expected"]["value"] == pytest.approx(d)
        for f, d in zip(tested, off, strict=True)
    )


def test_shortcuts_that_a_model_uses_are_found_by_decoys() -> None:
    found = [alike(seed, 600, 0.5, s=0.3)["by_decoys"] for seed in range(40)]
    assert np.mean([f["p"] <= 0.05 and f["difference"]["value"] > 0 for f in found]) > 0.8


def test_few_decoys_or_two_options_are_not_compared() -> None:
    assert alike(0, 400, 0.5, (2,))["by_decoys"] is None
    assert alike(0, 40, 0.5)["by_decoys"] is None
    assert alike(0, 400, 0.5)["by_decoys"] is not None


# Voters


@pytest.mark.parametrize("voters", [("v1",), ("v0", "v1"), ()])
def test_a_voter_is_flagged_wherever_its_numbers_stand(voters: Sequence[str]) -> None:
    b = bench(60, 3, s=0.3, seed=8)
    table = Answers.of([*rows(b), *rows(b, view="full", template="mmlu-v1")])
    held = item_index(table, b.ids)
    where = parts(~b.shortcut, k=held.k)
    found = {name: credits(table, held, name, "d4-like-v1") for name in b.voters}
    summary: dict[str, Any] = {
        "accuracy": {name: accuracy(c, where, is_voter=name in voters) for name, c in found.items()},
        "random_removal": {
            name: random_removal(c, where, is_voter=name in voters) for name, c in found.items()
        },
        "permutation": permutation(table, held, b.voters, voters)["by_model"],
        "pairs": pairs(found, where, voters),
    }
    flagged = {
        f"{part}.{name}"
        for part, tree in summary.items()
        for name, entry in tree.items()
        if isinstance(entry, dict) and entry["is_voter"]
    }
    assert flagged == {
        f"{part}.{name}"
        for part, tree in summary.items()
        for name, entry in tree.items()
        if isinstance(entry, dict) and set(voters) & set(entry.get("models") or (name,))
    }
    assert len(flagged) == (0 if not voters else 3 * len(voters) + (3 if len(voters) > 1 else 2))
