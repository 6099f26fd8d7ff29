"""What grades add up to: nothing leaves a denominator in silence, and no kind is averaged with another."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robustify.freeform import metrics
from robustify.freeform.schema import Attempt, FreeItem, GradeResult, JudgeTrace, NuggetGrade, Status
from robustify.report.free_page import grade_lines
from tests.report.test_advice import numbers
from tests.support.cases import Fields, cases, refuses

SCORED: dict[str, float | None] = {"scored": 1.0, "no_answer": 0.0}
WHO = {"item_id": "i", "annotator": "x"}
approx = pytest.approx


def row(
    item: str, status: Status = "scored", score: float | None = None, *, vote: str | None = None, **more: Any
) -> GradeResult:
    value = SCORED.get(status) if score is None else score
    judged = vote is not None or more.pop("unread", False)
    trace = JudgeTrace("judge", "grader/mcq@2.0", "d", (), (vote,), 1.0, False) if judged else None
    more = {"model": "m", "kind": "short_text", "method": "judge" if judged else "deterministic", **more}
    return GradeResult(
        item, grader="g", status=status, verdict=None, reason="r", judge=trace, score=value, **more
    )


def label(item: str, who: str = "x", **said: Any) -> metrics.HumanLabel:
    return metrics.human_from({"item_id": item, "annotator": who, **said})


def words(n: int, off: int = 0) -> list[str]:
    """The right word on every second of `n` answers; the first `off` are the other way round."""
    return ["correct" if (i % 2 == 1) != (i < off) else "incorrect" for i in range(n)]


def judged(n: int, wrong: int = 0) -> list[GradeResult]:
    return [row(f"i{i}", score=float(i % 2), vote=word) for i, word in enumerate(words(n, wrong))]


def said(n: int) -> list[metrics.HumanLabel]:
    return [label(f"i{i}", verdict=word) for i, word in enumerate(words(n))]


def test_an_unscored_answer_is_in_the_bounds_and_not_in_the_mean() -> None:
    rows = [row("a"), row("b", score=0.0), *map(row, "cde", ("no_answer", "grader_error", "truncated"))]
    found = metrics.aggregate(rows)
    # Three of five have a score: an accuracy of these would say more than is known.
    assert found["accuracy"] == {"value": None, "n": 3, "ci": None, "withheld": "coverage below 80 %"}
    assert metrics.aggregate([*rows, *map(row, "fghijk")])["accuracy"]["value"] == approx(7 / 9)
    assert (found["n"], found["lower"], found["upper"]) == (5, approx(1 / 5), approx(3 / 5))
    assert found["coverage"]["value"] == approx(3 / 5)
    assert found["statuses"] == {"grader_error": 1, "no_answer": 1, "scored": 2, "truncated": 1}


def test_an_item_answered_twice_is_drawn_as_one() -> None:
    once = [row(f"i{n}", score=float(n % 2)) for n in range(40)]
    alone, twice = metrics.aggregate(once)["accuracy"], metrics.aggregate([*once, *once])["accuracy"]
    assert twice["n"] == 2 * alone["n"]
    # Twice the rows are no more items: the interval must not shrink by a root of two.
    assert np.ptp(twice["ci"]) > 0.9 * np.ptp(alone["ci"])
    assert metrics.aggregate([row(f"i{n // 2}") for n in range(6)])["accuracy"]["ci"] is None


@pytest.mark.parametrize(("labels", "settled"), cases("free", "labels_settled"))
def test_people_who_differ_are_settled_or_left_out(labels: dict[str, str], settled: str | None) -> None:
    assert metrics.consensus(labels) == settled


@pytest.mark.parametrize(("fields", "read"), cases("free", "labels_of_people"))
def test_a_label_of_a_person_is_a_verdict_a_score_or_labels(fields: Fields, read: Fields | None) -> None:
    if read is not None:
        assert metrics.human_from(WHO | fields).words == read
        return
    with refuses("not-a-human-label"):
        metrics.human_from(WHO | fields)


def test_a_judge_is_held_to_people() -> None:
    more = [label(name, verdict="correct") for name in ("u", "rule")]
    grades = [*judged(120, wrong=12), row("u", "grader_error", unread=True), row("rule")]
    found = metrics.calibrate(grades, [*said(120), *more])
    part = found["verdicts"]
    assert (found["status"], found["nuggets"]) == ("calibrated", None)
    counts = ("n", "n_labelled", "n_judge_unread", "n_without_judge")
    assert [part[name] for name in counts] == [120, 122, 1, 1]
    assert (part["raw"]["value"], part["kappa"]["value"]) == (approx(0.9), approx(0.8))
    assert part["kappa"]["ci"][0] > 0.6
    assert part["sensitivity"] == part["specificity"] == approx(0.9)


def test_a_label_without_a_model_is_refused_where_several_answered() -> None:
    both = [*judged(4), *(replace(g, model="n") for g in judged(4))]
    with refuses("label-without-model"):
        metrics.calibrate(both, said(4))
    named = [one.model_copy(update={"model": "n"}) for one in said(4)]
    assert metrics.calibrate(both, named)["verdicts"]["n"] == 4


CONSTANT = [row(f"i{i}", vote="correct") for i in range(40)]
DOUBTS = [
    (judged(1), said(1), "few_labels"), (judged(29), said(29), "few_labels"), (judged(40), said(29), "few_labels"),
    (judged(30), said(30), ""), (judged(40, wrong=12), said(40), "kappa_low"), (judged(300, wrong=30), said(300), ""),
    (CONSTANT, [label(f"i{i}", verdict="correct") for i in range(40)], "kappa_undefined"),
]  # fmt: skip


@pytest.mark.parametrize(("grades", "labels", "doubt"), DOUBTS)
def test_thirty_labels_and_a_sure_kappa_calibrate(grades: list[Any], labels: list[Any], doubt: str) -> None:
    found = metrics.calibrate(grades, labels)
    assert found["verdicts"]["doubt"] == doubt
    assert found["status"] == ("uncalibrated" if doubt else "calibrated")


def test_a_judge_of_two_things_is_calibrated_on_both() -> None:
    facts = (NuggetGrade("n", "vital", "support"),)
    grades = [*judged(40), row("e", unread=True, kind="nuggets", nuggets=facts, score=1.0)]
    assert metrics.calibrate(grades, said(40))["status"] == "uncalibrated"


def test_nugget_labels_are_compared_in_their_order() -> None:
    labels = ("not_support", "partial_support", "support")
    given = [(NuggetGrade("n", "vital", labels[(i + (i == 0)) % 3]),) for i in range(12)]
    grades = [row(f"i{i}", unread=True, kind="nuggets", nuggets=n, score=1.0) for i, n in enumerate(given)]
    human = [label(f"i{i}", model="m", labels={"n": labels[i % 3]}) for i in range(12)]
    part = metrics.calibrate(grades, human)["nuggets"]
    assert (part["n"], tuple(part["labels"])) == (12, labels)
    assert 0.8 < part["kappa"]["value"] < 1


def test_no_kind_is_averaged_with_another_and_topics_are_counted_by_kind() -> None:
    grades = [row(f"i{i}", score=float(i % 2), kind="numeric" if i < 4 else "explanation") for i in range(10)]
    items = [FreeItem(f"i{i}", "q", "numeric", "1", topic="heat" if i % 2 else "light") for i in range(10)]
    entry = metrics.summarise(items, grades)["models"]["m"]
    whole = entry["all"]
    assert (whole["accuracy"]["withheld"], whole["n"]) == ("several kinds", 10)
    assert whole["lower"] is whole["upper"] is None
    assert {kind: part["n"] for kind, part in entry["kinds"].items()} == {"numeric": 4, "explanation": 6}
    rates = {t: {k: p["lower"] for k, p in kinds.items()} for t, kinds in entry["topics"].items()}
    assert rates == {t: dict.fromkeys(("numeric", "explanation"), x) for t, x in (("heat", 1), ("light", 0))}


def test_two_models_are_compared_on_each_kind_and_on_the_items_of_both() -> None:
    """The gain on one kind and the loss on another do not cancel, and p is that of McNemar's exact test."""
    kinds = {"short_text": (range(20), range(10)), "explanation": (range(5), range(15))}
    grades = [
        row(f"{kind}{i}", model=model, kind=kind, score=float(i in right))
        for kind, sides in kinds.items()
        for model, right in zip(("base", "tuned"), sides, strict=True)
        for i in range(40)
    ]
    grades.append(row("alone", model="tuned", kind="explanation", score=1.0))
    summary = metrics.summarise([], grades)
    sides = [(p["kind"], p["model"], p["other"], p["left_out"]) for p in summary["pairs"]]
    assert sides == [("short_text", "tuned", "base", 0), ("explanation", "tuned", "base", 1)]
    differences = [(p["difference"]["value"], p["difference"]["n"], p["p"]) for p in summary["pairs"]]
    assert differences == [(-0.25, 40, approx(2 * 0.5**10)), (0.25, 40, approx(2 * 0.5**10))]
    shown = [numbers(line) for line in [*grade_lines(summary)][-2:]]
    assert shown == ["\u221225.0 40 \u221238.9 \u22128.7 0.004", "25.0 40 8.7 38.9 0.004"]
    # With too few scores there is a line without a difference.
    few = [row(f"i{i}", "grader_error", model=model) for model in ("base", "tuned") for i in range(5)]
    summary = metrics.summarise([], few)
    (pair,) = summary["pairs"]
    assert (pair["difference"]["value"], pair["p"], pair["p_holm"]) == (None, None, None)
    assert [*grade_lines(summary)][-1].startswith("tuned less base, short text:")


def test_models_that_are_equally_good_rarely_differ() -> None:
    """Without Holm's correction, some pair of six models did in a quarter of these sets."""
    rng, sets, alarms = np.random.default_rng(0), 40, 0
    for _ in range(sets):
        grades = [
            row(f"i{i}", model=model, score=float(right))
            for model in "abcdef"
            for i, right in enumerate(rng.random(20) < 0.5)
        ]
        alarms += any(pair["p_holm"] <= 0.05 for pair in metrics.summarise([], grades)["pairs"])
    assert alarms / sets <= 0.05 + 2 * (0.05 * 0.95 / sets) ** 0.5


def test_two_templates_are_compared_on_the_same_answers() -> None:
    """The first template needs a second attempt and calls all right, and the second is read at once and is right."""

    def by(first: bool) -> list[GradeResult]:
        attempts = (Attempt(0, "p", "r", "format_error" if first else None, "stop", {}),)
        votes = ["correct" if first or i % 2 else "incorrect" for i in range(12)]
        made = [row(f"i{i}", score=1.0, vote=vote) for i, vote in enumerate(votes)]
        return [replace(one, judge=replace(one.judge, attempts=attempts)) for one in made if one.judge]

    people = [label(f"i{i}", score=i % 2) for i in range(12)]
    rows = {one["measure"]: one for one in metrics.compare_gradings(by(True), by(False), people)}
    values = {name: (one["first"]["value"], one["other"]["value"]) for name, one in rows.items()}
    assert values == {"scored": (1.0, 1.0), "read_at_once": (0.0, 1.0), "agrees_with_people": (0.5, 1.0)}
    difference = rows["agrees_with_people"]["difference"]
    assert (difference["value"], difference["n"], difference["ci"] is None) == (0.5, 12, False)
    assert len(metrics.compare_gradings(by(True), by(False))) == 2
    with refuses("no-common-answers"):
        metrics.compare_gradings(by(True), [])


def test_answers_of_one_passage_count_together_in_every_interval() -> None:
    def graded(passages: int) -> list[GradeResult]:
        scores = {"vital": {"value": 0.5, "lower": 0.5, "upper": 0.5, "n": 1}}
        return [
            replace(grade, group=f"p{i % passages}", kind="nuggets", score=0.5, nugget_scores=scores)
            for i, grade in enumerate(judged(60, 3))
        ]

    few, many = graded(12), graded(60)
    for grades, has_interval in ((few, False), (many, True)):
        scores = metrics.aggregate(grades)["nugget_scores"]["vital"]
        agreed = metrics.calibrate(grades, said(60))["verdicts"]
        compared = metrics.compare_gradings(grades, grades, said(60))
        intervals = [scores["ci"], agreed["raw"]["ci"], *(row["first"]["ci"] for row in compared)]
        assert [ci is not None for ci in intervals] == [has_interval] * 5
