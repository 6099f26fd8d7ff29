"""The verdict of the residual audit, read by a sceptic: no false alarm on clean sets, no certificate from a copy
of the filter or from somebody who could not have seen, and a shortcut that an outsider finds is told.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from robustify import orders
from robustify.answers import Answer, Answers, answer, unanswered
from robustify.arrays import Ints
from robustify.baselines.artifact_probe import ProbeSettings, crossfit, probe
from robustify.baselines.features import standardised
from robustify.baselines.linear_probes import CONTROL, TEMPLATE, VIEW, LinearProbeSettings, linear_probe
from robustify.item import Item
from robustify.judge.audit.auditor import Audit, Auditor
from robustify.judge.audit.fresh import FreshProbe
from robustify.judge.audit.residual import residual as judge_residual
from robustify.judge.audit.verdict import judged
from robustify.judge.judgement import Facts, Rules, judge
from robustify.screen.item_index import item_index
from robustify.screen.votes import cast_votes
from robustify.stats.intervals import clopper_pearson, rate, wilson
from robustify.summary.reason import CouldNotSee
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
    rules = unanimous(voters=voters, **settings)
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
            out.append(unanswered(item, VIEW, name, own, TEMPLATE, key, "made up to be missing"))
        else:
            scores = [-0.1 if pick in (j, -2) else -3.0 for j in range(k)]
            out.append(answer(item, VIEW, name, own, TEMPLATE, key, scores))
    return out


def guesses(b: Bench, seed: int = 0) -> Ints:
    return np.random.default_rng(seed).integers(0, b.k)


def knowing(b: Bench, share: float, seed: int = 0) -> Ints:
    """Guesses that see the key of this share of the items."""
    sees = np.random.default_rng(seed + 1).random(len(b.key)) < share
    return np.where(sees, b.key, guesses(b, seed))


def two_of(b: Bench) -> Bench:
    return replace(b, picks=b.picks[:, :2])


# heads


def test_a_head_is_an_auditor_with_its_control_beside_it() -> None:
    b = bench(400, 2, agree=0.3, seed=1)
    found = audited(b, extra=[*head_rows(b, guesses(b)), *head_rows(b, guesses(b, 7), "lm" + CONTROL)])
    assert set(found["heads"]) == {"lm"}
    head = found["heads"]["lm"]
    assert set(head) == {"value", "n", "ci", "chance", "free", "before", "control"}
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
    assert audited(b)["verdict"] == "inconclusive"
    assert audited(b, extra=head_rows(b, guesses(b)))["verdict"] == "certified"
    silent = [
        answer(i, "probe", "probe", orders.own(4), "probe-v1", int(key), [-1.0] * 4)
        for i, key in zip(b.ids, b.key, strict=True)
    ]
    found = audited(b, extra=[*silent, *head_rows(b, guesses(b))], probe_vote="with")
    assert found["verdict"] == "certified"
    assert found["reasons"][-1]["code"] == "probe_voted"


def test_the_control_neither_certifies_nor_raises_the_alarm() -> None:
    b = two_of(bench(3000, 2, agree=0.0, seed=4))
    control = "lm" + CONTROL
    lone = audited(b, extra=head_rows(b, guesses(b), control))
    assert (lone["heads"], lone["verdict"]) == ({}, "inconclusive")
    seeing = audited(b, extra=[*head_rows(b, guesses(b)), *head_rows(b, knowing(b, 0.5), control)])
    assert seeing["verdict"] == "certified"
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
        b,
        extra=[
            *linear_probe(items, x, "lm", settings),
            *linear_probe(items, noise, "lm" + CONTROL, settings),
        ],
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
            audited(b, extra=linear_probe(items, x, "lm", LinearProbeSettings()), items=items)["verdict"]
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


def test_a_copy_of_the_filter_proves_nothing() -> None:
    """One voter, and its twin held out: never right on what was kept, so far below any bar. It looked nowhere."""
    b = bench(2000, 1, s=0.4, seed=8)
    twin = replace(b, picks=np.column_stack([b.picks[:, 0], b.picks[:, 0]]))
    found = audited(twin, ("v0",))
    assert (found["non_voters"]["v1"]["value"], found["non_voters"]["v1"]["free"]) == (0, 0)
    assert found["verdict"] == "inconclusive"
    assert (found["reasons"][0]["code"], found["reasons"][0]["free"]) == ("could_not_see", 0)
    other = audited(replace(b, picks=np.column_stack([b.picks[:, 0], guesses(b)])), ("v0",))
    assert other["verdict"] == "certified"
    assert 0 < other["non_voters"]["v1"]["free"] < other["non_voters"]["v1"]["n"]


def test_few_free_picks_vouch_for_nothing() -> None:
    n, free = 2000, 100
    found = rate(np.repeat([1.0, 0.0], [25, n - 25]))
    near = Audit(found, 25 / n, 0.25, free)
    assert near.bounds()[1] < near.limit(0.25) + 0.05
    assert not near.could_see(0.05)
    assert near.could_see(0.2)
    verdict, reasons = judged([Auditor("non_voter", "m", near, independent=True)], 0.25, 0.05)
    assert verdict == "inconclusive"
    assert isinstance(reasons[0], CouldNotSee)
    assert (reasons[0].free, reasons[0].n) == (100, 2000)
    far = Audit(rate(np.repeat([1.0, 0.0], [500, 1500])), 0.25, 0.25, 2000)
    both = [Auditor("non_voter", "m", near, independent=True), Auditor("head", "h", far, independent=True)]
    assert judged(both, 0.25, 0.05)[0] == "certified"


def test_an_auditor_is_held_against_the_options_of_the_items_that_it_answered() -> None:
    """Asked the items with two options only, a guesser is right half of the time: no alarm."""
    b = bench(3000, 2, agree=0.0, options=(2, 5), seed=9)
    picks = np.where(b.k == 2, guesses(b), -1)
    found = audited(two_of(b), extra=head_rows(b, picks))
    assert found["heads"]["lm"]["value"] > 0.45 > found["chance"] + 0.05
    assert not any(r["code"] == "above_chance" and r["auditor"] == "lm" for r in found["reasons"])
    assert found["verdict"] == "certified"


def test_one_tie_widens_the_bounds_and_never_narrows_them() -> None:
    whole = Audit(rate(np.repeat([1.0, 0.0], [29, 71])), 0.25)
    assert whole.bounds() == clopper_pearson(29, 100), "0.29 * 100 is a hair less than 29"
    tied = Audit(rate(np.array([1.0] * 29 + [0.0] * 70 + [0.25])), 0.25)
    assert tied.bounds() == (clopper_pearson(29, 100)[0], clopper_pearson(30, 100)[1])
    thirds = Audit(rate(np.full(99, 1 / 3)), 1 / 3)
    assert thirds.bounds() == clopper_pearson(33, 99)


def test_cross_fitted_picks_count_half() -> None:
    found = rate(np.repeat([1.0, 0.0], [60, 140]))
    assert Audit(found, 0.25, fitted=True).bounds() == clopper_pearson(30, 100)
    odd = Audit(rate(np.repeat([1.0, 0.0], [31, 70])), 0.25, fitted=True)
    assert odd.bounds() == (clopper_pearson(15, 51)[0], clopper_pearson(16, 50)[1])
    assert Audit(rate(np.ones(1)), 0.25, fitted=True).bounds() == (0.0, 1.0)
    b = two_of(bench(300, 2, seed=19))
    told = audited(b, extra=head_rows(b, guesses(b)))["heads"]["lm"]
    n = told["n"]
    assert told["ci"] == pytest.approx(wilson(told["value"] * (n // 2), n // 2))
    for one in (Audit(found, 0.25, 0.25, 200), Audit(found, 0.25, 0.25, 200, fitted=True)):
        assert one.could_see(0.13) == (not one.fitted)


@pytest.mark.proof
def test_a_coin_s_interval_is_too_narrow_for_cross_fitted_picks() -> None:
    """Noise, fitted and judged: the picks of one set are right together or wrong together."""
    n, sets = 200, 300
    right, coin, counted = [], 0, 0
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        k, key = np.full(n, 4), rng.integers(4, size=n)
        x = standardised(rng.normal(size=(4 * n, 5)), k)
        picks = crossfit(x, k, key, rng.integers(5, size=n)).reshape(n, 4).argmax(axis=1)
        found = rate((picks == key).astype(float))
        right.append((picks == key).mean())
        coin += Audit(found, 0.25).bounds()[0] > 0.25
        counted += Audit(found, 0.25, fitted=True).bounds()[0] > 0.25
    assert 1.2 < np.var(right) / (0.1875 / n) < 2.2
    assert coin > 0.025 * sets
    assert counted <= 0.025 * sets


def test_a_certificate_by_auditors_that_saw_nothing_anywhere_says_so() -> None:
    b = bench(3000, 3, agree=0.0, seed=10)
    blind = audited(b)
    assert blind["verdict"] == "certified"
    assert blind["reasons"][1] == {"code": "nothing_to_see"}
    s = bench(3000, 3, s=0.3, agree=0.0, seed=11)
    seeing = audited(s)
    assert seeing["non_voters"]["v2"]["before"]["value"] > 0.4 > seeing["non_voters"]["v2"]["value"]
    assert seeing["verdict"] == "certified"
    assert len(seeing["reasons"]) == 1


def test_a_certificate_needs_every_auditor_and_an_alarm_only_one() -> None:
    """A voter left out counts too: it may find what the others left, though it may not vouch."""

    def at(share: float, *, independent: bool) -> Auditor:
        found = Audit(
            rate(np.repeat([1.0, 0.0], [round(800 * share), 800 - round(800 * share)])), 0.25, 0.25, 800
        )
        return Auditor("non_voter" if independent else "leave_one_out", "m", found, independent)

    low, doubtful, high = 0.24, 0.27, 0.35
    assert judged([at(low, independent=True), at(low, independent=False)], 0.25, 0.05)[0] == "certified"
    assert judged([at(low, independent=False)], 0.25, 0.05)[0] == "inconclusive"
    assert (
        judged([at(low, independent=True), at(doubtful, independent=False)], 0.25, 0.05)[0] == "inconclusive"
    )
    assert judged([at(low, independent=True), at(high, independent=False)], 0.25, 0.05)[0] == "not certified"


def test_a_voter_that_finds_what_the_others_left_refuses_the_certificate() -> None:
    b = bench(600, 3, agree=0.2, seed=12)
    b = replace(b, picks=np.column_stack([b.picks[:, :2], knowing(b, 0.4)]))
    found = audited(b, ("v0", "v1", "v2"), criterion="unanimous")
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
    assert isinstance(found, dict)
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
    before = audited(unseen, items=items)
    assert found["probe"]["n"] < before["probe"]["n"]
    assert found["probe"]["value"] < before["probe"]["value"] - 0.1
    assert found["probe_voted"]
    assert found["probe"]["before"]["value"] > 0.4


def test_the_fresh_probe_of_the_same_items_is_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(120, 2, seed=18)
    items = items_of(b)
    fresh = FreshProbe(items, ProbeSettings())
    fits: list[tuple[str, ...]] = []
    fit = fresh._best

    def counted(names: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        fits.append(names)
        return fit(names)

    monkeypatch.setattr(fresh, "_best", counted)
    table = Answers.of(rows(b, rotations=False, bias=0.0))
    held = item_index(table, b.ids)
    rules = unanimous(voters=("v0", "v1"))
    votes = cast_votes(table, rules, held)
    first, second = fresh.audit(votes, rules), fresh.audit(votes, rules)
    assert first == second
    assert len(fits) == 1
    assert isinstance(first, Audit)
    assert first.rate.n == 120 - np.count_nonzero((b.picks == b.key[:, None]).all(axis=1))
