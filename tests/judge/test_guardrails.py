"""Guardrails: each one says no when it should, says why, and stays quiet about what was never asked."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from robustify.judge import guardrails as judge_side
from robustify.judge.guardrails import Limits, certificate, trial_run
from robustify.judge.guardrails import guardrails as judge_guardrails
from robustify.report.reasons import sentence
from robustify.summary.format_1 import read
from robustify.summary.reason import TopicsKept
from robustify.summary.result import Guardrail, Residual, Summary
from tests.support.trees import plain

LIMITS = Limits()
KEPT = sentence(TopicsKept(share=0.5))


def of_tree(check: Any) -> Any:
    """A check that takes the summary as a tree."""
    return lambda tree, limits: check(Summary.model_validate(tree), limits)


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
    summary["topics"]["by_topic"]["sport"] = {"before": before, "after": after, "retention": None}
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


def test_a_topic_that_vanished_entirely_is_still_counted() -> None:
    assert not topic_collapse(with_topic(40, 0), LIMITS).passed
    assert topic_collapse(with_topic(0, 0), LIMITS).passed


def test_a_set_without_topics_is_said_to_have_none() -> None:
    screened, asked_nothing = good() | {"topics": None}, good() | {"topics": None, "screen": None}
    for check in (topic_collapse, topic_drift):
        assert "no topics" in said(check(screened, LIMITS))
    assert "no topics" not in said(topic_collapse(asked_nothing, LIMITS))


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
         lambda n: {"code": "robust_items", "n": n, "least": 30}),
        (unanswered_share, "screen.unanswered", (5, 4), lambda n: n / 200,
         lambda n: {"code": "unanswered", "open": n, "asked": 200, "voter": "one", "missing": 0}),
        (undecided_share, "splits.undecided", (5, 4), lambda n: n / 200,
         lambda n: {"code": "undecided", "n": n, "of": 200}),
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
        assert (found.passed, found.value, plain(found.reason)) == (passed, value(n), reason(n))
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
    assert plain(check.reason) == {
        "code": "unanswered", "open": 0, "asked": 200, "voter": "two", "missing": n,
    }  # fmt: skip


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


def test_voters_that_answered_nothing_or_were_not_counted_have_no_ties() -> None:
    summary = good()
    summary["screen"]["voters"] = {
        "silent": {"choices_only_accuracy": {"value": None, "n": 0, "ci": None}, "ties": 0},
        "imported": {"choices_only_accuracy": {"value": 0.3, "n": 10, "ci": [0.1, 0.6]}},
    }
    check = ties_share(summary, LIMITS)
    assert (check.passed, check.value, plain(check.reason)) == (
        True,
        None,
        {"code": "not_judged", "why": "no_ties_counted"},
    )
    summary["screen"]["voters"]["silent"]["choices_only_accuracy"]["n"] = 5
    assert said(ties_share(summary, LIMITS)) == "no voter's answer is a tie"


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


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("limits", [LIMITS, Limits(min_topic_n=1)])
def test_a_topic_of_one_item_fails_nothing(after: int, limits: Limits) -> None:
    summary = with_topic(1, after)
    assert all(c.passed for c in guardrails(summary, limits))
    small = said(topic_collapse(summary, limits))
    assert small == (KEPT if after else "too few items to judge by: sport kept 0 of 1")


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
    reason = plain(check.reason)
    assert (reason["code"], reason["value"], reason["p"], reason["level"]) == ("excess", value, p, 0.05)
    assert reason["doubt"] == (None if passed else "no_interval" if ci is None else "not_significant")


@pytest.mark.parametrize(
    ("verdict", "passed"), [("certified", True), ("inconclusive", True), ("not certified", False)]
)
def test_residual_shortcuts(verdict: str, passed: bool) -> None:
    summary = good()
    summary["residual"] = {
        "verdict": verdict,
        "reasons": [{"code": "sentence", "text": "probe: above chance"}],
    }
    check = residual_shortcuts(summary, LIMITS)
    assert (check.passed, check.value, check.limit) == (passed, verdict, 0.05)
    assert said(check) == f"the audit is {verdict}: probe: above chance"


def test_what_was_not_asked_is_said_to_be_not_judged() -> None:
    absent: dict[str, Any] = dict.fromkeys(good())
    for summary in (
        absent,
        {},
        {"screen": {"asked": 0}, "splits": {"robust": 0}, "topics": {}, "residual": {"verdict": None}},
    ):
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


def test_the_made_up_summary_of_the_report_is_understood() -> None:
    path = Path(__file__).parents[1] / "data" / "summary_full.json"
    summary = read(json.loads(path.read_text(encoding="utf-8")))
    unjudged = {c.name for c in judge_guardrails(summary, LIMITS) if code(c) == "not_judged"}
    assert unjudged <= {"ties_share", "voters_by_place"}, "no ties were counted, and the screen was by text"


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
    found = plain(check.reason).get("voters", [])
    assert [v["voter"] for v in found] == ["two"] * named
    assert check.value == (0.96 if named else None)
    final = certificate(Residual(verdict="certified", reasons=()), [check], ())
    assert final.verdict == ("certified" if passed else "not judged")
    assert [c.code for c in final.reasons or ()] == ["one_place"] * named


@pytest.mark.parametrize(
    ("n", "part", "trial"), [(29, False, True), (30, False, False), (500, True, True), (3, True, True)]
)
def test_a_trial_run_is_not_judged_whatever_failed(n: int, part: bool, trial: bool) -> None:
    summary = Summary.model_validate({**good(), "splits": {"all": n}})
    found = trial_run(summary, LIMITS, part=part)
    failed = Guardrail(name="x", passed=False, halts_export=True)
    final = certificate(Residual(verdict="not certified", reasons=()), [failed], (), found)
    assert final.verdict == ("not judged" if trial else "not certified")
    whole = summary.model_copy(update={"certificate": final, "guardrails": (failed,)})
    assert (whole.trial, bool(whole.halting)) == (trial, True)
    if trial:
        assert plain((final.reasons or ())[0]) == {"code": "trial_run", "n": n, "least": 30, "part": part}


paths = st.sampled_from(
    [
        "screen", "splits", "topics", "residual", "screen.unanswered", "screen.excess_over_chance",
        "screen.excess_over_chance.ci", "screen.excess_over_chance.p", "topics.by_topic.maths", "topics.kl_nats",
        "residual.reasons", "splits.robust", "splits.undecided", "splits.all", "screen.voters",
        "screen.voters.one", "screen.voters.two.choices_only_accuracy",
    ]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(paths, max_size=6))
def test_any_part_may_be_absent(missing: list[str]) -> None:
    summary = good()
    for path in missing:
        *above, last = path.split(".")
        node: Any = summary
        for step in above:
            node = node[step] if node is not None else None
        if node is not None:
            node[last] = None
    if topics := summary["topics"]:
        topics["by_topic"] = {name: row for name, row in topics["by_topic"].items() if row is not None}
    if (screen := summary["screen"]) and screen["voters"]:
        screen["voters"] = {name: row for name, row in screen["voters"].items() if row is not None}
    checks = guardrails(summary, LIMITS)
    assert len(checks) == 9
    assert all(c.reason for c in checks)
