"""Guardrails: each one says no when it should, says why, and stays quiet about what was never asked."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from robustify.judging.context import Limits
from robustify.judging.guardrails import guardrails, run_state, trial_run
from robustify.judging.summary.quantity import Reason
from robustify.judging.summary.result import Guardrail, Residual, State, Summary
from robustify.report.printing import sentence
from tests.support.cases import cases, contents
from tests.support.trees import filled

LIMITS = Limits()
NAMES = [
    "topic_collapse", "topic_drift", "enough_kept_items", "unanswered_share", "ties_share",
    "voters_by_position", "undecided_share", "excess_above_chance", "residual_shortcuts",
]  # fmt: skip
GOOD: dict[str, Any] = contents("judging")["good_summary"]
FAVOURED = {"position": 0, "picked": {"value": 0.99, "n": 200, "ci": [0.96, 0.999]}, "keys": 0.25,
            "excess": {"value": 0.74, "n": 200, "ci": [0.72, 0.76]}}  # fmt: skip


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first tree with the values of the other."""
    deeper = {
        k: merged(one[k], v) for k, v in other.items() if isinstance(v, dict) and isinstance(one.get(k), dict)
    }
    return {**one, **other, **deeper}


def checked(
    change: Mapping[str, Any], limits: Limits = LIMITS, tree: Mapping[str, Any] = GOOD
) -> dict[str, Guardrail]:
    summary = Summary.model_validate(filled(Summary, merged(tree, change)))
    return {check.name: check for check in guardrails(summary, limits)}


def test_a_good_run_passes_every_check() -> None:
    checks = checked({})
    assert list(checks) == NAMES
    assert all(c.state == "passed" and c.reason for c in checks.values())


def topic(before: int, after: int) -> dict[str, Any]:
    whole = {"before": 90, "after": 90}
    return {"topics": {"by_topic": {"sport": {"before": before, "after": after}, "arts": whole}}}


def placed(**change: Any) -> dict[str, Any]:
    return {"screen": {"voters": {"two": {"favoured": {**FAVOURED, **change}}}}}


def audit(state: str) -> dict[str, Any]:
    return {"residual": {"state": state, "reasons": [{"code": "no_item_kept"}]}}


STATES = {True: "passed", False: "failed", None: "not evaluated"}


@pytest.mark.parametrize(
    ("name", "change", "passed", "value", "code", "params"), cases("judging", "guardrails")
)
def test_a_check_fails_beyond_its_limit_and_says_why(
    name: str, change: dict[str, Any], passed: bool | None, value: Any, code: str, params: dict[str, Any]
) -> None:
    check = checked(change)[name]
    assert (check.state, check.reason.code) == (STATES[passed], code)
    assert check.value == (pytest.approx(value) if isinstance(value, float) else value)
    assert check.reason.tree()["params"].items() >= params.items()
    assert sentence(check.reason)


def test_an_empty_kept_split_fails_once_and_what_is_about_it_is_not_judged() -> None:
    topics = {"by_topic": {name: {"before": 100, "after": 0} for name in ("maths", "music")}}
    empty = {"splits": {"flagged": 198, "kept": 0}, "topics": {**topics, "kl_nats": None, "p": None}}
    checks = checked(merged(empty, audit("not evaluated")))
    assert [name for name, c in checks.items() if c.state == "failed"] == ["enough_kept_items"]
    for name in ("topic_collapse", "topic_drift", "residual_shortcuts"):
        assert (checks[name].reason.code, checks[name].value) == ("not_judged", None)
    # What is about the screen holds whether or not it left anything.
    assert checks["excess_above_chance"].value == 1e-4


def test_what_was_not_asked_is_said_to_be_not_judged() -> None:
    for summary in ({}, {"screen": {"asked": 0}, "topics": {}, "residual": {}}):
        checks = checked({}, tree=summary).values()
        assert all(
            c.state == "not evaluated" and c.value is None and c.reason.code == "not_judged" for c in checks
        )
    assert checked({}, tree={})["topic_drift"].reason.params["why"] == "no_topics"


def test_limits_are_settings() -> None:
    strict = Limits(
        min_topic_n=200, min_kept=149, max_unanswered=0, max_ties=0, max_undecided=0, max_kl=0, kl_p=0.5,
        excess_p=1e-5,
    )  # fmt: skip
    assert [name for name, c in checked(topic(150, 0), strict).items() if c.state == "failed"] == [
        "topic_drift", "enough_kept_items", "unanswered_share", "ties_share", "undecided_share",
    ]  # fmt: skip
    for wrong in ({"topic_loss": 1.5}, {"min_topics": 3}):
        with pytest.raises(ValidationError):
            Limits.model_validate(wrong)


# The state of the run

NOBODY = Reason.of("no_auditor")


def residual(state: str) -> Residual:
    return Residual.model_validate(filled(Residual, {"state": state, "margin": 0.05, "reasons": [NOBODY]}))


def check(name: str, *, state: State = "failed") -> Guardrail:
    why = Reason.of("not_judged", why="no_audit")
    return Guardrail(name=name, state=state, value=None, limit=0, reason=why)


@pytest.mark.parametrize(("audited", "name", "checked_as", "state"), cases("judging", "run_states"))
def test_any_failed_audit_or_guardrail_fails_the_run(
    audited: str, name: str, checked_as: State, state: str
) -> None:
    judged, reasons = run_state(residual(audited), [check(name, state=checked_as)], ("v1",))
    assert judged == state
    assert NOBODY in reasons
    assert reasons[-1] == Reason.of("voter_under_test", name="v1")


@pytest.mark.parametrize(("code", "numbers"), [("too_few", {"least": 50}), ("dependent", {"groups": 5})])
def test_failed_guardrails_of_a_run_with_too_few_or_dependent_items_are_notes(
    code: str, numbers: dict[str, int]
) -> None:
    too_few = Guardrail(
        name="undecided_share", state="failed", value=1.0, limit=0.02, reason=Reason.of(code, n=40, **numbers)
    )
    judged, reasons = run_state(residual("failed"), [check("topic_drift"), too_few], ())
    assert judged == "not evaluated"
    assert [reason.code for reason in reasons] == [code, "guardrail_failed"]


@pytest.mark.parametrize(("forced", "state"), [(False, "not evaluated"), (True, "passed")])
def test_voters_by_place_leave_nothing_to_judge_unless_forced(forced: bool, state: str) -> None:
    one = checked(merged(placed(), {"screen": {"force_letters": forced}}))["voters_by_position"]
    found, reasons = run_state(residual("passed"), [one], ())
    assert found == state
    assert [c.code for c in reasons if c != NOBODY] == ["one_position"]


@pytest.mark.parametrize(
    ("n", "part", "trial"), [(29, False, True), (30, False, False), (500, True, True), (3, True, True)]
)
def test_a_trial_run_is_not_judged_whatever_failed(n: int, part: bool, trial: bool) -> None:
    summary = Summary.model_validate(filled(Summary, merged(GOOD, {"splits": {"all": n}})))
    failed = check("topic_drift")
    state, reasons = run_state(residual("failed"), [failed], (), trial_run(summary, LIMITS, part=part))
    assert state == ("not evaluated" if trial else "failed")
    whole = summary.model_copy(update={"state": state, "reasons": reasons, "guardrails": (failed,)})
    assert (whole.trial, bool(whole.halting)) == (trial, not trial)
    assert (reasons[0] == Reason.of("trial_run", n=n, least=30, part=part)) == trial
