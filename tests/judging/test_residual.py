"""The verdict of the residual audit, read by a sceptic: no false alarm on clean sets, no pass from a copy
of the filter or from somebody who could not have seen, and a shortcut that an outsider finds is told.
"""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robustify.base.arrays import Ints
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.judging import judge
from robustify.judging.audit.auditor import AuditorRates, AuditRate
from robustify.judging.audit.auditor import audit_rate as rate_of
from robustify.judging.audit.residual import AUDITORS, AuditTask, audit_state
from robustify.judging.audit.residual import residual as judge_residual
from robustify.judging.baselines.heuristics import SEES_STEM, guess
from robustify.judging.context import Context, Limits, Rules, context
from robustify.judging.readers.reader_rows import ProbeSettings, probe
from robustify.judging.response_data import Facts
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.stats.intervals import Rate, clopper_pearson, rate
from robustify.judging.stats.tests import minimum_detectable_difference
from robustify.report.page_tables import auditors
from tests.support.cases import cases
from tests.support.fake_answers import Bench, bench, items_of, rows
from tests.support.rules import unanimous
from tests.support.trees import in_trees

residual = in_trees(judge_residual)


def audited(
    b: Bench, voters: tuple[str, ...] = ("v0", "v1"), *, items: list[Item] | None = None, **settings: Any
) -> dict[str, Any]:
    rules = ScreenRules(**{"criterion": "unanimous", "voters": voters, **settings})
    table = Answers.of(rows(b, rotations=False, bias=0.0))
    return residual(
        context(table, Facts("made-up"), Rules(rules, limits=Limits(residual_margin=0.05)), items)
    )


def guesses(b: Bench, seed: int = 0) -> Ints:
    return np.random.default_rng(seed).integers(0, b.k)


def knowing(b: Bench, share: float, seed: int = 0) -> Ints:
    """Guesses that see the key of this share of the items."""
    sees = np.random.default_rng(seed + 1).random(len(b.key)) < share
    return np.where(sees, b.key, guesses(b, seed))


def codes(found: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in found["reasons"]]


def with_outsider(b: Bench, picks: Ints) -> Bench:
    """The first two voters, and a model v2 with these picks that did not vote; -1 is unanswered."""
    return replace(b, picks=np.column_stack([b.picks[:, :2], picks]))


# the verdict, read by a sceptic


def test_planted_shortcuts_that_no_voter_sees_are_found_by_an_outsider() -> None:
    b = bench(500, 3, agree=0.5, seed=7)
    assert audited(with_outsider(b, knowing(b, 0.25)))["state"] == "failed"
    assert audited(with_outsider(b, guesses(b)))["state"] != "failed"
    big = bench(3000, 2, agree=0.0, seed=3)
    assert codes(audited(big))[0] == "no_independent_auditor"
    found = audited(with_outsider(big, guesses(big)))
    assert (found["state"], codes(found)) == ("passed", ["below_margin", "power"])
    assert 0.25 < found["reasons"][1]["params"]["rate"] == found["non_voters"]["v2"]["noticeable"] < 0.3


@pytest.mark.parametrize("n_auditors", [1, 6])
def test_what_is_noticeable_raises_an_alarm_in_four_of_five_sets(n_auditors: int) -> None:
    """At 5 % one-sided for each auditor, it was 66 % with one auditor."""
    level, n = 0.05 / n_auditors, 400
    rate = AuditRate(Rate(0.25, n, None), 0.25, 0.25, n).noticeable(level)
    assert rate is not None
    hits = np.random.default_rng(0).binomial(n, rate, 500).tolist()
    alarms = [AuditRate(Rate(h / n, n, None), 0.25, 0.25, n).alarm(0.25, level) for h in hits]
    assert 0.74 <= np.mean(alarms) <= 0.86


def test_on_clean_sets_agreeing_auditors_raise_no_alarm_and_their_own_chance_is_exact() -> None:
    """Voters that share their picks score far below 1/k on what they kept: their own chance says so."""
    found = [audited(bench(250, 3, agree=0.8, seed=seed)) for seed in range(30)]
    assert sum(f["state"] == "failed" for f in found) <= 3
    assert all(f["non_voters"]["v2"]["chance"] < 0.2 < f["chance"] for f in found)
    over = [f["non_voters"]["v2"]["value"] - f["non_voters"]["v2"]["chance"] for f in found]
    assert abs(np.mean(over)) < 3 * np.std(over) / np.sqrt(30)


def test_a_shortcut_hidden_by_selection_is_found_below_one_in_k() -> None:
    """Right less often than 1/k, and still more often than its agreement with the filter allows."""
    b = bench(1500, 3, agree=0.9, seed=4)
    sees = np.random.default_rng(1).random(1500) < 0.08
    picks = np.column_stack([b.picks[:, :2], np.where(sees, b.key, b.picks[:, 2])])
    found = audited(replace(b, picks=picks))
    auditor = found["non_voters"]["v2"]
    assert auditor["chance"] < auditor["value"] < found["chance"]
    assert found["state"] == "failed"


def test_a_copy_of_the_filter_proves_nothing() -> None:
    """One voter, and its twin held out: never right on what was kept, so far below any bar. It looked nowhere."""
    b = bench(2000, 1, s=0.4, seed=8)
    twin = replace(b, picks=np.column_stack([b.picks[:, 0], b.picks[:, 0]]))
    found = audited(twin, ("v0",))
    assert (found["non_voters"]["v1"]["value"], found["non_voters"]["v1"]["free"]) == (0, 0)
    assert found["state"] == "not evaluated"
    assert (found["reasons"][0]["code"], found["reasons"][0]["params"]["free"]) == ("could_not_see", 0)
    other = audited(replace(b, picks=np.column_stack([b.picks[:, 0], guesses(b)])), ("v0",))
    assert other["state"] == "passed"
    assert 0 < other["non_voters"]["v1"]["free"] < other["non_voters"]["v1"]["n"]


def test_a_voter_that_finds_what_the_others_left_keeps_it_from_passing() -> None:
    b = bench(600, 3, agree=0.2, seed=12)
    b = replace(b, picks=np.column_stack([b.picks[:, :2], knowing(b, 0.4)]))
    found = audited(b, ("v0", "v1", "v2"))
    assert found["state"] == "failed"
    params = found["reasons"][0]["params"]
    assert (params["auditor"], params["kind"]) == ("v2", "leave_one_out")


# small and empty sets


@pytest.mark.parametrize("n", [1, 2, 12])
def test_a_handful_of_items_of_one_topic_is_never_settled(n: int) -> None:
    b = bench(n, 3, agree=0.0, seed=13)
    items = items_of(b, topics=1)
    answers = Answers.of([*rows(b), *probe(items, ProbeSettings())])
    facts = Facts("made-up", {i.id: i.topic for i in items})
    found = judge(answers, facts, Rules(unanimous(voters=("v0", "v1"))), items).summary.tree()["residual"]
    assert found["state"] == "not evaluated"
    assert found["reasons"]
    assert found["probe"] is None


def test_nothing_kept_is_told_and_passes_nothing() -> None:
    b = bench(60, 2, s=1.0, seed=14)
    items = items_of(b)
    found = audited(with_outsider(b, guesses(b)), items=items)
    assert (found["state"], found["chance"]) == ("not evaluated", None)
    assert found["reasons"] == [{"code": "no_item_kept", "params": {}}]
    assert (found["non_voters"]["v2"]["n"], found["non_voters"]["v2"]["before"]["n"]) == (0, 60)


def test_if_a_fitted_scorer_decided_no_fitted_auditor_is_independent() -> None:
    b = bench(300, 2, s=0.3, agree=0.3, seed=21)
    found = audited(b, items=items_of(b, cue=True), criterion="fdr")
    assert found["probe_voted"]
    assert codes(found)[0] == "no_independent_auditor" or found["state"] == "failed"
    left = [row["n"] for row in found["leave_one_out"].values()]
    assert len(left) == 2
    # Each voter is left out of the ranking.
    assert len({*left, found["probe"]["n"]}) > 1


def test_a_rule_that_reads_the_question_audits_nothing_that_is_hidden() -> None:
    """ "Without the question" was said of `stem_overlap`, which names every key of this set."""
    b = bench(120, 2, agree=0.0, seed=21)
    items = [replace(item, stem=f"Why {item.choices[item.key]}?") for item in items_of(b)]
    answers = Answers.of([*rows(b, rotations=False, bias=0.0)]), guess(items)
    rules = Rules(ScreenRules(criterion="unanimous", voters=("v0", "v1")))
    found = judge_residual(context(Answers.concat(answers), Facts("made-up"), rules, items))
    assert not SEES_STEM & found.heuristics.keys()
    assert "stem_overlap" in SEES_STEM


def cheat(ctx: Context, task: AuditTask) -> Iterator[AuditorRates]:
    """Yield an auditor that saw the keys."""
    kept = task.kept
    right = kept.key[:, None] == np.arange(kept.would.shape[1])
    yield AuditorRates("cheat", "who saw the keys", rate_of(right, kept), True)


def test_a_made_up_auditor_is_one_function_and_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    made = bench(300)
    table = Answers.of(rows(made, rotations=False, bias=0.0))
    ctx = context(table, Facts("made-up"), Rules(ScreenRules(criterion="unanimous", voters=("v0", "v1"))))
    before = judge_residual(ctx)
    assert (before.others, before.state) == (None, "not evaluated")
    monkeypatch.setitem(AUDITORS, "cheat", cheat)
    after = judge_residual(ctx)
    for name, alone in before.leave_one_out.items():
        # One auditor more lowers the level of each.
        noticeable = after.leave_one_out[name].noticeable
        assert noticeable > alone.noticeable
        assert after.leave_one_out[name] == alone.model_copy(update={"noticeable": noticeable})
    assert after.others["who saw the keys"].value == 1.0
    assert after.state == "failed"
    assert [reason.params["auditor"] for reason in after.reasons] == ["who saw the keys"]
    shown = [name for (name, _), _ in auditors(SimpleNamespace(residual=after))]  # type: ignore[arg-type]
    assert shown[-1] == "who saw the keys"


def auditor(value: float, n: int, chance: float, *, independent: bool = True) -> AuditorRates:
    found = rate(np.repeat([1.0, 0.0], [round(value * n), n - round(value * n)]))
    return AuditorRates("non_voter", "m", AuditRate(found, chance), independent)


def test_what_the_filter_itself_made_predictable_is_not_resistant_either() -> None:
    state, reasons = audit_state([auditor(0.33, 3000, 0.33)], 0.25, 0.05)
    assert (state, reasons[0].code, reasons[0].params["expected"]) == ("failed", "above_chance", 0.33)


GOOD = auditor(0.25, 800, 0.25)
RULE = replace(GOOD, kind="heuristic", audit=replace(GOOD.audit, p=0.5))


def of_case(value: float, n: int, chance: float, kind: str = "") -> AuditorRates:
    found = auditor(value, n, chance, independent=not kind)
    return RULE if kind == "rule" else replace(found, kind="leave_one_out") if kind == "voter" else found


@pytest.mark.parametrize(("auditors", "margin", "state"), cases("judging", "audit_states"))
def test_the_margin_and_every_auditor_decide(auditors: list[Any], margin: float, state: str) -> None:
    assert audit_state([of_case(*row) for row in auditors], 0.25, margin)[0] == state


def test_few_free_picks_vouch_for_nothing() -> None:
    n, free = 2000, 100
    near = AuditRate(rate(np.repeat([1.0, 0.0], [25, n - 25])), 25 / n, 0.25, free)
    assert near.bounds()[1] < near.limit(0.25) + 0.05
    assert not near.could_see(0.05)
    assert near.could_see(0.2)
    state, reasons = audit_state([AuditorRates("non_voter", "m", near, True)], 0.25, 0.05)
    assert state == "not evaluated"
    assert reasons[0].code == "could_not_see"
    assert (reasons[0].params["free"], reasons[0].params["n"]) == (100, 2000)


def test_an_auditor_below_chance_vouches_for_nothing() -> None:
    """It has learnt to avoid the keys, so that it would not show a shortcut that pays."""
    below, at = auditor(0.10, 800, 0.25), auditor(0.25, 800, 0.25)
    assert below.audit.could_see(0.05)
    state, reasons = audit_state([below], 0.25, 0.05)
    assert (state, [r.code for r in reasons]) == ("not evaluated", ["could_not_see"])
    state, reasons = audit_state([replace(below, name="below"), replace(at, name="at")], 0.25, 0.05)
    assert state == "passed"
    assert [r.params["auditor"] for r in reasons if r.code == "power"] == ["at"]


def test_a_pass_gives_the_rate_that_its_independent_auditors_would_have_noticed() -> None:
    one = auditor(0.25, 800, 0.25)
    state, reasons = audit_state([one, replace(one, independent=False)], 0.25, 0.05)
    assert (state, [r.code for r in reasons]) == ("passed", ["below_margin", "power"])
    rise = minimum_detectable_difference(800, 0.25, 0.975, 0.8)
    assert reasons[1].params["rate"] == pytest.approx(0.25 + rise)
    more = auditor(0.25, 8000, 0.25)
    assert audit_state([more], 0.25, 0.05)[1][1].params["rate"] < reasons[1].params["rate"]


def test_a_rule_above_its_own_chance_stands_against_passing() -> None:
    rule = replace(RULE, name="longest_answer")
    audit = AuditRate(rate(np.repeat([1.0, 0.0], [50, 10])), 0.3, 0.25, p=1e-9)
    state, reasons = audit_state([GOOD, replace(rule, audit=audit)], 0.25, 0.05)
    assert state == "failed"
    assert reasons[0].code == "above_chance"
    assert (
        reasons[0].params | {"auditor": "longest_answer", "kind": "heuristic", "p": 1e-9} == reasons[0].params
    )
    assert audit_state([GOOD, replace(rule, audit=replace(audit, p=0.04))], 0.25, 0.05)[0] == "not evaluated"
    assert audit_state([GOOD, replace(rule, audit=replace(audit, p=0.06))], 0.25, 0.05)[0] == "passed"


def test_one_tie_widens_the_bounds_and_never_narrows_them() -> None:
    whole = AuditRate(rate(np.repeat([1.0, 0.0], [29, 71])), 0.25)
    assert whole.bounds() == clopper_pearson(29, 100), "0.29 * 100 is a hair less than 29"
    tied = AuditRate(rate(np.array([1.0] * 29 + [0.0] * 70 + [0.25])), 0.25)
    assert tied.bounds() == (clopper_pearson(29, 100)[0], clopper_pearson(30, 100)[1])
    thirds = AuditRate(rate(np.full(99, 1 / 3)), 1 / 3)
    assert thirds.bounds() == clopper_pearson(33, 99)
