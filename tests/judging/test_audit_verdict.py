"""The state of the auditors: the margin, the alarm that they share, and what they could have seen."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robustify.judging.audit.auditor import AuditorRates, AuditRate
from robustify.judging.audit.residual import audit_state
from robustify.judging.stats.intervals import clopper_pearson, rate
from robustify.judging.stats.tests import minimum_detectable_difference
from tests.support.cases import cases


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
    rise = minimum_detectable_difference(800, 0.25, 0.9, 0.8)
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
