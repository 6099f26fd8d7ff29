"""Guardrails: each one says no when it should, says why, and stays quiet about what was never asked."""

from typing import Any

import pytest
from pydantic import ValidationError

from robustify.judging import guardrails as judge_side
from robustify.judging.guardrails import Limits, certificate, trial_run
from robustify.judging.guardrails import guardrails as judge_guardrails
from robustify.report.messages import sentence
from robustify.summary.reason import Reason
from robustify.summary.result import Guardrail, Residual, Summary
from tests.support.trees import filled, plain

LIMITS = Limits()
KEPT = sentence(Reason.of("topics_kept", share=0.5))


def of_tree(check: Any) -> Any:
    """A check that takes the summary as a tree."""
    return lambda tree, limits: check(Summary.model_validate(filled(Summary, tree)), limits)


guardrails = of_tree(judge_guardrails)
enough_robust_items = of_tree(judge_side.enough_robust_items)
excess_above_chance = of_tree(judge_side.excess_above_chance)
residual_shortcuts = of_tree(judge_side.residual_shortcuts)
ties_share = of_tree(judge_side.ties_share)
topic_collapse = of_tree(judge_side.topic_collapse)
topic_drift = of_tree(judge_side.topic_drift)
unanswered_share = of_tree(judge_side.unanswered_share)
undecided_share = of_tree(judge_side.undecided_share)
voters_by_place = of_tree(judge_side.voters_by_place)


def said(check: Guardrail) -> str:
    assert check.reason is not None
    return sentence(check.reason)


def code(check: Guardrail) -> str:
    return check.reason.code


def good() -> dict[str, Any]:
    return {
        "screen": {
            "asked": 200, "answered": 198, "mode": "letter", "unanswered": 2,
            "excess_over_chance": {"value": 0.12, "ci": [0.06, 0.18], "p": 1e-4},
            "voters": {
                "one": {"choices_only_accuracy": {"value": 0.4, "n": 200, "ci": [0.3, 0.5]}, "ties": 1},
                "two": {"choices_only_accuracy": {"value": 0.4, "n": 198, "ci": [0.3, 0.5]}, "ties": 0},
            },
        },
        "splits": {"all": 200, "shortcut": 50, "robust": 148, "undecided": 2},
        "topics": {
            "by_topic": {"maths": {"before": 100, "after": 70, "retention": {"value": 0.7, "n": 100, "ci": [0.6, 0.78]}},
            "music": {"before": 100, "after": 78, "retention": {"value": 0.78, "n": 100, "ci": [0.69, 0.85]}}},
            "kl_nats": 0.001, "kl_null": 0.0009, "p": 0.4,
        },
        "residual": {"verdict": "certified", "reasons": []},
    }  # fmt: skip


def test_a_good_run_passes_every_check() -> None:
    checks = guardrails(good(), LIMITS)
    assert [c.name for c in checks] == [
        "topic_collapse", "topic_drift", "enough_robust_items", "unanswered_share", "ties_share",
        "voters_by_place", "undecided_share", "excess_above_chance", "residual_shortcuts",
    ]  # fmt: skip
    assert all(c.passed for c in checks)
    assert all(c.reason for c in checks)
    assert [c.name for c in checks if c.halts_export] == [
        "topic_collapse", "topic_drift", "enough_robust_items", "voters_by_place",
    ]  # fmt: skip


def with_topic(before: int, after: int) -> dict[str, Any]:
    summary = good()
    summary["topics"]["by_topic"]["sport"] = {"before": before, "after": after}
    return summary


@pytest.mark.parametrize(
    ("before", "after", "passed", "reason"),
    [
        (100, 30, False, "sport kept 30 of 100"), (10, 0, False, "sport kept 0 of 10"),
        (10, 1, False, "sport kept 1 of 10"), (9, 0, True, "too few items to judge by: sport kept 0 of 9"),
        (10, 4, True, "too few items to judge by: sport kept 4 of 10"),
        (100, 47, True, "too few items to judge by: sport kept 47 of 100"), (100, 50, True, KEPT),
    ],
)  # fmt: skip
def test_topic_collapse(before: int, after: int, passed: bool, reason: str) -> None:
    check = topic_collapse(with_topic(before, after), LIMITS)
    assert (check.passed, said(check)) == (passed, reason)
    assert check.value == pytest.approx(min(0.7, after / before))
    assert check.halts_export


@pytest.mark.parametrize(
    ("kl", "p", "passed"), [(0.05, 0.001, False), (0.05, 0.2, True), (0.01, 0.001, True)]
)
def test_topic_drift(kl: float, p: float, passed: bool) -> None:
    summary = good()
    summary["topics"] |= {"kl_nats": kl, "p": p}
    check = topic_drift(summary, LIMITS)
    assert (check.passed, check.value, check.halts_export) == (passed, kl, True)
    assert code(check) == "topic_drift"


@pytest.mark.parametrize(
    ("check", "place", "bounds", "value", "reason"),
    [
        (enough_robust_items, "splits.robust", (29, 30), lambda n: n,
         lambda n: Reason.of("robust_items", n=n, least=30)),
        (unanswered_share, "screen.unanswered", (5, 4), lambda n: n / 200,
         lambda n: Reason.of("unanswered", open=n, asked=200, voter="one", missing=0)),
        (undecided_share, "splits.undecided", (5, 4), lambda n: n / 200,
         lambda n: Reason.of("undecided", n=n, of=200)),
    ],
    ids=["robust", "unanswered", "undecided"],
)  # fmt: skip
def test_a_count_fails_one_beyond_its_limit(
    check: Any, place: str, bounds: Any, value: Any, reason: Any
) -> None:
    part, name = place.split(".")
    for n, passed in zip(bounds, (False, True), strict=True):
        summary = good()
        summary[part][name] = n
        found = check(summary, LIMITS)
        assert (found.passed, found.value, found.reason) == (passed, value(n), reason(n))
        assert found.halts_export is (check is enough_robust_items)


@pytest.mark.parametrize(("n", "passed"), [(4, True), (5, False), (200, False)])
def test_the_worst_voter_decides_what_is_unanswered(n: int, passed: bool) -> None:
    """A dead voter among voters that disagree leaves no item open, and everything is kept."""
    summary = good()
    summary["screen"] |= {"answered": 200, "unanswered": 0}
    summary["screen"]["voters"]["two"]["unanswered"] = n
    summary["screen"]["voters"]["one"]["unanswered"] = 1
    check = unanswered_share(summary, LIMITS)
    assert (check.passed, check.value) == (passed, n / 200)
    assert check.reason == Reason.of("unanswered", open=0, asked=200, voter="two", missing=n)


@pytest.mark.parametrize(
    ("ties", "n", "passed"), [(0, 100, True), (2, 100, True), (3, 100, False), (1, 10, False)]
)
def test_ties_share(ties: int, n: int, passed: bool) -> None:
    summary = good()
    summary["screen"]["voters"]["two"] |= {"choices_only_accuracy": {"n": n}, "ties": ties}
    check = ties_share(summary, LIMITS)
    assert (check.passed, check.halts_export) == (passed, False)
    # The worst voter decides, however many others answer well.
    worst = max(ties / n, 1 / 200)
    assert check.value == pytest.approx(worst)
    assert said(check) == (
        f"two: {ties} of {n} answers are ties" if ties else "one: 1 of 200 answers are ties"
    )


def test_an_empty_robust_split_fails_once_and_what_is_about_it_is_not_judged() -> None:
    summary = good()
    summary["splits"] |= {"shortcut": 198, "robust": 0}
    for topic in ("maths", "music"):
        summary["topics"]["by_topic"][topic] |= {
            "after": 0,
            "retention": {"value": 0, "n": 100, "ci": [0, 0.04]},
        }
    summary["topics"] |= {"kl_nats": None, "kl_null": None, "p": None}
    summary["residual"] = {"verdict": "inconclusive", "reasons": [{"code": "no_item_kept"}]}
    checks = {c.name: c for c in guardrails(summary, LIMITS)}
    assert [name for name, c in checks.items() if not c.passed] == ["enough_robust_items"]
    for name in ("topic_collapse", "topic_drift", "residual_shortcuts"):
        assert code(checks[name]) == "not_judged"
        assert checks[name].value is None
    # What is about the screen holds whether or not it left anything.
    assert checks["excess_above_chance"].value == 1e-4
    summary["screen"]["unanswered"] = 200
    assert not unanswered_share(summary, LIMITS).passed


@pytest.mark.parametrize(
    ("value", "ci", "p", "passed"),
    [
        (0.1, [0.02, 0.2], 0.01, True),
        (0.1, [-0.01, 0.2], 0.04, False),
        (0.01, [0.001, 0.02], 0.2, False),
        (0.1, None, 0.01, False),
    ],
)  # fmt: skip
def test_excess_above_chance(value: float, ci: list[float] | None, p: float, passed: bool) -> None:
    summary = good()
    summary["screen"]["excess_over_chance"] = {"value": value, "ci": ci, "p": p}
    check = excess_above_chance(summary, LIMITS)
    assert (check.passed, check.value, check.limit) == (passed, p, 0.05)
    doubt = None if passed else "no_interval" if ci is None else "not_significant"
    assert check.reason == Reason.of("excess", value=value, p=p, level=0.05, doubt=doubt)


@pytest.mark.parametrize(
    ("verdict", "passed"), [("certified", True), ("inconclusive", True), ("not certified", False)]
)
def test_residual_shortcuts(verdict: str, passed: bool) -> None:
    summary = good()
    summary["residual"] = {
        "verdict": verdict,
        "reasons": [{"code": "no_item_kept"}],
    }
    check = residual_shortcuts(summary, LIMITS)
    assert (check.passed, check.value, check.limit) == (passed, verdict, 0.05)
    assert said(check) == f"the audit is {verdict}: no item was kept"


def test_what_was_not_asked_is_said_to_be_not_judged() -> None:
    for summary in ({}, {"screen": {"asked": 0}, "topics": {}, "residual": {}}):
        checks = guardrails(summary, LIMITS)
        assert all(c.passed and c.value is None and code(c) == "not_judged" for c in checks)


def test_limits_are_settings() -> None:
    strict = Limits(
        min_topic_n=200, min_robust=149, max_unanswered=0, max_ties=0, max_undecided=0, max_kl=0, kl_p=0.5,
        excess_p=1e-5,
    )  # fmt: skip
    assert [c.name for c in guardrails(good(), strict) if not c.passed] == [
        "topic_drift", "enough_robust_items", "unanswered_share", "ties_share", "undecided_share",
        "excess_above_chance",
    ]  # fmt: skip
    assert topic_collapse(with_topic(150, 0), strict).passed
    with pytest.raises(ValidationError):
        Limits.model_validate({"topic_loss": 1.5})
    with pytest.raises(ValidationError):
        Limits.model_validate({"min_topics": 3})


PLACED = {"place": 0, "picked": {"value": 0.99, "n": 200, "ci": [0.96, 0.999]}, "keys": 0.25,
          "excess": {"value": 0.74, "n": 200, "ci": [0.72, 0.76]}}  # fmt: skip


def placed(screen: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    summary = good()
    summary["screen"] |= screen
    summary["screen"]["voters"]["two"]["favoured"] = {**PLACED, **change}
    return summary


@pytest.mark.parametrize(
    ("screen", "change", "passed", "named"),
    [
        ({}, {}, False, True),
        ({"force_letters": True}, {}, True, True),
        ({"mode": "text"}, {}, True, False),
        ({}, {"picked": {"value": 0.93, "n": 200, "ci": [0.89, 0.96]}}, True, False),
        ({}, {"excess": {"value": 0.01, "n": 200, "ci": [-0.01, 0.03]}}, True, False),
        ({}, {"excess": {"value": 0.74, "n": 9, "ci": None}}, True, False),
    ],
    ids=["named", "forced", "by text", "not surely", "where the keys are", "too few items"],
)
def test_voters_by_place(screen: dict[str, Any], change: dict[str, Any], passed: bool, named: bool) -> None:
    check = voters_by_place(placed(screen, change), LIMITS)
    assert (check.passed, check.halts_export) == (passed, True)
    found = plain(check.reason)["params"].get("voters", [])
    assert [v["params"]["voter"] for v in found] == ["two"] * named
    assert check.value == (0.96 if named else None)
    final = certificate(Residual.model_validate(filled(Residual, {"verdict": "certified"})), [check], ())
    assert final.verdict == ("certified" if passed else "not judged")
    assert [c.code for c in final.reasons or ()] == ["one_place"] * named


@pytest.mark.parametrize(
    ("n", "part", "trial"), [(29, False, True), (30, False, False), (500, True, True), (3, True, True)]
)
def test_a_trial_run_is_not_judged_whatever_failed(n: int, part: bool, trial: bool) -> None:
    summary = Summary.model_validate(filled(Summary, {**good(), "splits": {"all": n}}))
    found = trial_run(summary, LIMITS, part=part)
    failed = Guardrail(
        name="x", passed=False, value=None, limit=0, reason=Reason.of("not_judged"), halts_export=True
    )
    final = certificate(
        Residual.model_validate(filled(Residual, {"verdict": "not certified"})), [failed], (), found
    )
    assert final.verdict == ("not judged" if trial else "not certified")
    whole = summary.model_copy(update={"certificate": final, "guardrails": (failed,)})
    assert (whole.trial, bool(whole.halting)) == (trial, True)
    if trial:
        assert plain((final.reasons or ())[0]) == {
            "code": "trial_run",
            "params": {"n": n, "least": 30, "part": part},
        }
