"""Nuggets: labels that belong to their facts, scores with bounds, drafts that nobody has reviewed."""

from typing import Any

import pytest
from pydantic import ValidationError

from robustify.base.errors import UsageError
from robustify.freeform.grade.graders import grade_nuggets, score_nuggets
from robustify.freeform.llm_judge.judges import JudgeCallError
from robustify.freeform.schema import FreeItem, Nugget, NuggetGrade
from tests.freeform.scripted import ScriptedJudge, settings

S, P, N = "support", "partial_support", "not_support"
FACTS = (
    Nugget("a", "Rain falls from clouds."),
    Nugget("b", "Clouds hold drops of water."),
    Nugget("c", "Rain is wet.", "okay"),
    Nugget("d", "Rain feeds rivers.", "okay"),
)


def grade(
    replies: list[Any],
    answer: str = "Clouds rain.",
    nuggets: tuple[Nugget, ...] = FACTS,
    how: dict[str, Any] | None = None,
    **rules: Any,
) -> Any:
    judge = ScriptedJudge(replies)
    item = FreeItem("i", "Why does it rain?", "explanation", "r", nuggets=nuggets)
    return grade_nuggets(item, answer, judge, settings(how, **rules), "m"), judge


def labelled(*labels: str | None) -> list[NuggetGrade]:
    return [NuggetGrade(n.id, n.importance, label) for n, label in zip(FACTS, labels, strict=True)]


# labels of two vital and two okay nuggets; strict_vital, vital, strict_all, all, weighted
SCORES = [
    ((S, S, S, S), (1, 1, 1, 1, 1)),
    ((N, N, N, N), (0, 0, 0, 0, 0)),
    ((S, P, N, N), (0.5, 0.75, 0.25, 0.375, 0.5)),
    ((S, N, S, P), (0.5, 0.5, 0.5, 0.625, 1.75 / 3)),
    ((None, S, S, S), (None, None, None, None, None)),
    ((S, S, None, S), (1, 1, None, None, None)),
]


@pytest.mark.parametrize(("labels", "scores"), SCORES)
def test_labels_give_these_scores(labels: tuple[str | None, ...], scores: tuple[float | None, ...]) -> None:
    found = score_nuggets(labelled(*labels))
    assert tuple(s["value"] for s in found.values()) == pytest.approx(scores)
    for score in found.values():
        assert score["lower"] <= score["upper"]
        assert (score["lower"] == score["upper"]) == (score["value"] is not None)


def test_an_answer_is_graded_by_its_facts() -> None:
    found, judge = grade(['["support", "partial_support", "not_support", "support"]'])
    assert (found.kind, found.status, found.score, found.verdict) == ("nuggets", "scored", 0.75, "partial")
    assert [n.label for n in found.nuggets] == [S, P, N, S]
    assert found.nugget_scores["all"]["value"] == pytest.approx(0.625)
    assert found.judge.template_id == "nugget/optimized@2.0"
    shown = judge.asked[0][-1].content
    assert "1. Rain falls from clouds." in shown
    assert "Clouds rain." in shown


def test_nuggets_are_asked_in_batches_in_their_order() -> None:
    found, judge = grade(['["support", "not_support", "support"]', '["partial_support"]'], batch_size=3)
    assert [n.label for n in found.nuggets] == [S, N, S, P]
    assert len(judge.asked) == 2
    assert "1. Rain feeds rivers." in judge.asked[1][-1].content


def test_a_nugget_without_a_label_leaves_the_answer_unscored() -> None:
    found, _ = grade(['["support", "hm", "support", "support"]'] + ["hm"] * 2)
    assert (found.status, found.score, found.error_type) == ("grader_error", None, "format_error")
    assert [n.label for n in found.nuggets] == [S, None, S, S]
    assert found.nugget_scores["vital"] == {"value": None, "lower": 0.5, "upper": 1.0, "n": 2}
    found, _ = grade(['["support", "support", "hm", "support"]'] + ["hm"] * 2)
    assert (found.status, found.score) == ("scored", 1.0)
    assert grade([JudgeCallError("timeout")])[0].status == "grader_error"


VOTES = [("support", S, "votes", None), ("partial_support", None, "votes", "tie")]


@pytest.mark.parametrize(("third", "label", "method", "error"), VOTES)
def test_votes_are_cast_for_each_nugget(
    third: str, label: str | None, method: str, error: str | None
) -> None:
    replies = ['["support"]', '["not_support"]', f'["{third}"]']
    found, _ = grade(replies, nuggets=FACTS[:1], how={"votes": 3})
    assert (found.nuggets[0].label, found.nuggets[0].error_type, found.method) == (label, error, method)


def test_no_answer_is_no_judge_s_business() -> None:
    for answer, status in (("", "no_answer"), ("I don't know.", "no_answer"), ("<think>hm", "truncated")):
        found, judge = grade([], answer)
        assert found.status == status
        assert judge.asked == []
        assert [n.label for n in found.nuggets] == [None] * 4


def test_okay_nuggets_alone_give_no_vital_score() -> None:
    found, _ = grade(['["support", "support"]'], nuggets=FACTS[2:])
    assert (found.status, found.reason) == ("reference_error", "no_vital_nugget")
    found, _ = grade(['["support", "support"]'], nuggets=FACTS[2:], nugget_score="all")
    assert found.score == 1.0


@pytest.mark.parametrize(
    "template", ["legacy@1.0", "no_reasoning@1.1", "short_cot@1.2", "optimized@1.2", "long_cot"]
)
def test_every_version_can_grade(template: str) -> None:
    form, reply = "json", '<reasoning>\nk.\n</reasoning>\n["support","not_support"]'
    if template == "legacy@1.0":
        form, reply = "markdown", "* support\n* not_support"
    found, _ = grade([reply], nuggets=FACTS[:2], nugget_template=template, format_type=form)
    assert [n.label for n in found.nuggets] == [S, N]


MISUSE: list[dict[str, Any]] = [
    {"batch_size": 0},
    {"nugget_score": "most"},
    {"format_type": "toml"},
    {"nugget_template": "nugget/legacy@1.0", "format_type": "csv"},
]


@pytest.mark.parametrize("bad", MISUSE)
def test_misuse_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises((UsageError, ValidationError)):
        grade([], **bad)
