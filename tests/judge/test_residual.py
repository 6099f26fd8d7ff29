"""The verdict of the residual audit, read by a sceptic: no false alarm on clean sets, no certificate from a copy
of the filter or from somebody who could not have seen, and a shortcut that an outsider finds is told.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robustify import orders
from robustify.answers import Answer, Answers, answer, unanswered
from robustify.arrays import Ints
from robustify.baselines.artifact_probe import ProbeSettings, probe
from robustify.baselines.linear_probes import CONTROL, FORWARD, VIEW, LinearProbeSettings, both_fits
from robustify.item import Item
from robustify.judge.audit.fresh import FreshProbe
from robustify.judge.audit.residual import residual as judge_residual
from robustify.judge.judgement import Facts, Rules, judge
from robustify.screen.item_index import item_index
from robustify.screen.screen_rules import ScreenRules
from robustify.screen.votes import Flagging, cast_votes
from robustify.stats.intervals import Rate
from tests.support.fake_answers import Bench, bench, items_of, rows
from tests.support.rules import unanimous
from tests.support.trees import in_trees

residual = in_trees(judge_residual)


def audited(
    b: Bench,
    voters: tuple[str, ...] = ("v0", "v1"),
    *,
    extra: list[Answer] | None = None,
    items: list[Item] | None = None,
    margin: float = 0.05,
    **settings: Any,
) -> dict[str, Any]:
    rules = ScreenRules(**{"criterion": "unanimous", "voters": voters, **settings})
    table = Answers.of([*rows(b, rotations=False, bias=0.0), *(extra or [])])
    held = item_index(table, b.ids)
    votes = cast_votes(table, rules, held)
    return residual(table, held, votes, rules, FreshProbe(items, ProbeSettings()), margin)


def head_rows(b: Bench, picks: Ints, name: str = "lm") -> list[Answer]:
    """A head's rows with these picks; -1 is unanswered, -2 a tie of all."""
    out = []
    for item, key, k, pick in zip(b.ids, b.key.tolist(), b.k.tolist(), picks.tolist(), strict=True):
        own = orders.own(k)
        if pick == -1:
            out.append(unanswered(item, VIEW, name, own, FORWARD, key, "made up to be missing"))
        else:
            scores = [-0.1 if pick in (j, -2) else -3.0 for j in range(k)]
            out.append(answer(item, VIEW, name, own, FORWARD, key, scores))
    return out


def guesses(b: Bench, seed: int = 0) -> Ints:
    return np.random.default_rng(seed).integers(0, b.k)


def knowing(b: Bench, share: float, seed: int = 0) -> Ints:
    """Guesses that see the key of this share of the items."""
    sees = np.random.default_rng(seed + 1).random(len(b.key)) < share
    return np.where(sees, b.key, guesses(b, seed))


def codes(found: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in found["reasons"]]


NOTHING_AGAINST = ["no_kind_tried"]
"""Without text nobody knows what the auditors could see: the one reason left where they are all within the margin."""


def two_of(b: Bench) -> Bench:
    return replace(b, picks=b.picks[:, :2])


# heads


def test_a_head_is_an_auditor_with_its_control_beside_it() -> None:
    b = bench(400, 2, agree=0.3, seed=1)
    found = audited(b, extra=[*head_rows(b, guesses(b)), *head_rows(b, guesses(b, 7), "lm" + CONTROL)])
    assert set(found["heads"]) == {"lm"}
    head = found["heads"]["lm"]
    assert set(head) == {
        "value", "n", "ci", "chance", "free", "before", "control", "p", "refits", "sees_from",
    }  # fmt: skip
    assert set(head["control"]) == set(head["before"]) == {"value", "n", "ci"}
    assert head["before"]["n"] == 400
    assert head["n"] == head["control"]["n"] < 400
    assert head["control"]["value"] != head["value"]
    alone = audited(b, extra=head_rows(b, guesses(b)))
    assert alone["heads"]["lm"] == {**head, "control": None}
    assert audited(b)["heads"] == {}


def test_a_head_that_sees_what_the_voters_miss_refuses_the_certificate() -> None:
    b = two_of(bench(400, 2, agree=0.5, seed=2))
    found = audited(b, extra=head_rows(b, knowing(b, 0.3)))
    assert found["verdict"] == "not certified"
    assert (found["reasons"][0]["auditor"], found["reasons"][0]["kind"]) == ("lm", "head")
    assert found["heads"]["lm"]["before"]["value"] > 0.4


def test_a_head_is_independent_even_where_the_probe_voted() -> None:
    b = two_of(bench(3000, 2, agree=0.0, seed=3))
    assert codes(audited(b))[0] == "no_independent_auditor"
    assert codes(audited(b, extra=head_rows(b, guesses(b)))) == NOTHING_AGAINST
    silent = [
        answer(i, "probe", "probe", orders.own(4), "probe-v1", int(key), [-1.0] * 4)
        for i, key in zip(b.ids, b.key, strict=True)
    ]
    found = audited(b, extra=[*silent, *head_rows(b, guesses(b))], probe_vote="with")
    assert codes(found) == [*NOTHING_AGAINST, "probe_voted"]


def test_the_control_neither_certifies_nor_raises_the_alarm() -> None:
    b = two_of(bench(3000, 2, agree=0.0, seed=4))
    control = "lm" + CONTROL
    lone = audited(b, extra=head_rows(b, guesses(b), control))
    assert (lone["heads"], lone["verdict"]) == ({}, "inconclusive")
    seeing = audited(b, extra=[*head_rows(b, guesses(b)), *head_rows(b, knowing(b, 0.5), control)])
    assert codes(seeing) == NOTHING_AGAINST
    assert seeing["heads"]["lm"]["control"]["value"] > 0.5


def test_a_head_without_answers_says_nothing() -> None:
    b = two_of(bench(200, 2, seed=5))
    found = audited(b, extra=head_rows(b, np.full(200, -1)))
    assert (found["heads"]["lm"]["n"], found["heads"]["lm"]["value"]) == (0, None)
    assert any(reason["code"] == "no_independent_auditor" for reason in found["reasons"])


def test_a_real_head_on_vectors_that_give_the_key_away_is_heard() -> None:
    b = two_of(bench(240, 2, agree=0.3, options=(4, 3), seed=6))
    items = items_of(b)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(int(b.k.sum()), 200))
    given = (np.cumsum(b.k) - b.k + b.key)[rng.random(240) < 0.5]
    x[given] += 6 * rng.normal(size=200) / np.sqrt(200)
    noise = rng.normal(size=x.shape)
    settings = LinearProbeSettings()
    found = audited(
        b, extra=[*both_fits(items, x, "lm", settings), *both_fits(items, noise, "lm" + CONTROL, settings)]
    )
    assert found["verdict"] == "not certified"
    assert found["heads"]["lm"]["value"] > 0.45 > found["heads"]["lm"]["control"]["value"]


# the verdict, read by a sceptic


def alarms(n: int, agree: float, options: tuple[int, ...], sets: int) -> int:
    """How many of these clean sets are "not certified": two voters, two held out, a head, and their control."""
    told = []
    for seed in range(sets):
        b = bench(n, 4, agree=agree, options=options, seed=10_000 + seed)
        told.append(audited(b, extra=head_rows(b, guesses(b, seed)))["verdict"])
    assert set(told) <= {"certified", "inconclusive", "not certified"}
    return told.count("not certified")


@pytest.mark.slow
@pytest.mark.parametrize("agree", [0.0, 0.8])
def test_clean_sets_raise_few_alarms(agree: float) -> None:
    assert alarms(200, agree, (4, 3, 5), 40) <= 5


@pytest.mark.proof
@pytest.mark.parametrize(("n", "agree", "options"), [
    (150, 0.0, (4,)), (150, 0.8, (2, 3, 4, 5)), (600, 0.0, (2, 3, 4, 5)), (600, 0.5, (4,)), (600, 0.8, (4,)),
])  # fmt: skip
def test_clean_sets_raise_at_most_one_alarm_in_twenty(n: int, agree: float, options: tuple[int, ...]) -> None:
    """24 of 300 is what a true rate of 5 % exceeds once in a hundred times."""
    assert alarms(n, agree, options, 300) <= 24


@pytest.mark.proof
def test_fresh_probes_and_real_heads_on_clean_sets_raise_no_more() -> None:
    told = []
    for seed in range(60):
        b = bench(150, 3, agree=0.5, seed=20_000 + seed)
        items = items_of(b, seed=seed)
        x = np.random.default_rng(seed).normal(size=(600, 40))
        told.append(
            audited(b, extra=both_fits(items, x, "lm", LinearProbeSettings()), items=items)["verdict"]
        )
    assert told.count("not certified") <= 7


def test_planted_shortcuts_that_no_voter_sees_are_told_whoever_of_the_outsiders_finds_them() -> None:
    b = bench(500, 3, agree=0.5, seed=7)
    by_model = replace(b, picks=np.column_stack([b.picks[:, :2], knowing(b, 0.25)]))
    assert audited(by_model)["verdict"] == "not certified"
    by_head = audited(two_of(b), extra=head_rows(b, knowing(b, 0.25)))
    assert by_head["verdict"] == "not certified"
    nobody = audited(b, extra=head_rows(b, guesses(b)))
    assert nobody["verdict"] != "not certified"


def test_on_clean_sets_agreeing_auditors_raise_no_alarm_and_their_own_chance_is_exact() -> None:
    """Voters that share their picks score far below 1/k on what they kept: their own chance says so."""
    found = [audited(bench(250, 3, agree=0.8, seed=seed)) for seed in range(60)]
    assert sum(f["verdict"] == "not certified" for f in found) <= 5
    assert all(f["non_voters"]["v2"]["chance"] < 0.2 < f["chance"] for f in found)
    over = [f["non_voters"]["v2"]["value"] - f["non_voters"]["v2"]["chance"] for f in found]
    assert abs(np.mean(over)) < 3 * np.std(over) / np.sqrt(60)


def test_a_shortcut_hidden_by_selection_is_found_below_one_in_k() -> None:
    """Right less often than 1/k, and still more often than its agreement with the filter allows."""
    b = bench(1500, 3, agree=0.9, seed=4)
    sees = np.random.default_rng(1).random(1500) < 0.08
    picks = np.column_stack([b.picks[:, :2], np.where(sees, b.key, b.picks[:, 2])])
    found = audited(replace(b, picks=picks))
    auditor = found["non_voters"]["v2"]
    assert auditor["chance"] < auditor["value"] < found["chance"]
    assert found["verdict"] == "not certified"


def test_a_copy_of_the_filter_proves_nothing() -> None:
    """One voter, and its twin held out: never right on what was kept, so far below any bar. It looked nowhere."""
    b = bench(2000, 1, s=0.4, seed=8)
    twin = replace(b, picks=np.column_stack([b.picks[:, 0], b.picks[:, 0]]))
    found = audited(twin, ("v0",))
    assert (found["non_voters"]["v1"]["value"], found["non_voters"]["v1"]["free"]) == (0, 0)
    assert found["verdict"] == "inconclusive"
    assert (found["reasons"][0]["code"], found["reasons"][0]["free"]) == ("could_not_see", 0)
    other = audited(replace(b, picks=np.column_stack([b.picks[:, 0], guesses(b)])), ("v0",))
    assert codes(other) == NOTHING_AGAINST
    assert 0 < other["non_voters"]["v1"]["free"] < other["non_voters"]["v1"]["n"]


def test_an_auditor_is_held_against_the_options_of_the_items_that_it_answered() -> None:
    """Asked the items with two options only, a guesser is right half of the time: no alarm."""
    b = bench(3000, 2, agree=0.0, options=(2, 5), seed=9)
    picks = np.where(b.k == 2, guesses(b), -1)
    found = audited(two_of(b), extra=head_rows(b, picks))
    assert found["heads"]["lm"]["value"] > 0.45 > found["chance"] + 0.05
    assert codes(found) == NOTHING_AGAINST


def test_a_voter_that_finds_what_the_others_left_refuses_the_certificate() -> None:
    b = bench(600, 3, agree=0.2, seed=12)
    b = replace(b, picks=np.column_stack([b.picks[:, :2], knowing(b, 0.4)]))
    found = audited(b, ("v0", "v1", "v2"))
    assert found["verdict"] == "not certified"
    assert (found["reasons"][0]["auditor"], found["reasons"][0]["kind"]) == ("v2", "leave_one_out")


# small and empty sets


@pytest.mark.parametrize("n", [1, 2, 12])
def test_a_handful_of_items_of_one_topic_is_never_settled(n: int) -> None:
    b = bench(n, 3, agree=0.0, seed=13)
    items = items_of(b, topics=1)
    answers = Answers.of([*rows(b), *probe(items, ProbeSettings()), *head_rows(b, guesses(b))])
    facts = Facts("made-up", {i.id: i.topic for i in items})
    found = judge(answers, facts, Rules(unanimous(voters=("v0", "v1"))), items).summary.tree()["residual"]
    assert found["verdict"] == "inconclusive"
    assert found["reasons"]
    assert found["probe"] is None


def test_nothing_kept_is_told_and_certifies_nothing() -> None:
    b = bench(60, 2, s=1.0, seed=14)
    items = items_of(b)
    found = audited(b, extra=head_rows(b, guesses(b)), items=items)
    assert (found["verdict"], found["chance"]) == ("inconclusive", None)
    assert found["reasons"] == [{"code": "no_item_kept"}]
    assert (found["heads"]["lm"]["n"], found["heads"]["lm"]["before"]["n"]) == (0, 60)


def test_nobody_to_audit_is_told() -> None:
    found = audited(bench(80, 1, seed=15), ("v0",))
    assert (found["verdict"], found["reasons"]) == ("inconclusive", [{"code": "no_auditor"}])


def test_a_probe_votes_and_a_fresh_one_audits_what_it_left() -> None:
    b = bench(240, 2, s=0.4, agree=0.2, seed=16)
    items = items_of(b, cue=True)
    unseen = replace(b, picks=bench(240, 2, agree=0.2, seed=17).picks)
    found = audited(unseen, extra=probe(items, ProbeSettings()), items=items, probe_vote="with")
    assert found["probe_voted"]
    assert "no_independent_auditor" in codes(found) or found["verdict"] == "not certified"
    assert found["probe"]["before"]["value"] > 0.4


# A rule that ranks


def test_where_a_fitted_scorer_flagged_no_fitted_auditor_is_independent() -> None:
    b = two_of(bench(300, 2, agree=0.3, seed=21))
    items = items_of(b)
    table = Answers.of([*rows(b, rotations=False, bias=0.0), *head_rows(b, guesses(b))])
    held = item_index(table, b.ids)
    top, sure = guesses(b, 5), np.random.default_rng(6).random(300) < 0.4
    asked: list[tuple[str, ...]] = []

    def ranked(voters: tuple[str, ...], _: ScreenRules) -> Flagging:
        asked.append(voters)
        return Flagging(
            sure[:, None] & (np.arange(4) == top[:, None]), np.zeros(300, dtype=bool), Rate(None, 0, None)
        )

    rules = ScreenRules(criterion="fdr", voters=b.voters)
    votes = replace(cast_votes(table, rules, held), ranked=ranked)
    found = residual(table, held, votes, rules, FreshProbe(items, ProbeSettings()), 0.05)
    left = int(np.count_nonzero(~(sure & (top == b.key))))
    assert found["leave_one_out"]["v0"]["n"] == left
    assert {("v0",), ("v1",)} <= set(asked), "each voter is left out of the ranking"
    assert found["probe_voted"]
    assert codes(found)[0] == "no_independent_auditor" or found["verdict"] == "not certified"
    open_ = np.where(sure & (top != b.key), 3, 4)
    assert found["probe"]["chance"] == pytest.approx(
        float(np.mean(1 / open_[~(sure & (top == b.key))])), abs=0.02
    )
    assert found["verdict"] != "certified"
