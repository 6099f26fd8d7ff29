"""Nuggets: labels that belong to their facts, scores with bounds, drafts that nobody has reviewed."""

from typing import Any

import pytest
from pydantic import ValidationError

from robustify.base.errors import UsageError
from robustify.freeform.grade.graders import grade_nuggets, score_nuggets
from robustify.freeform.schema import FreeItem, Nugget, NuggetGrade
from tests.freeform.scripted import ScriptedJudge, settings
from tests.support.cases import Fields, cases, fields

S, P, N = "support", "partial_support", "not_support"
FACTS = (
    Nugget("a", "Rain falls from clouds."), Nugget("b", "Clouds hold drops of water."),
    Nugget("c", "Rain is wet.", "okay"), Nugget("d", "Rain feeds rivers.", "okay"),
)  # fmt: skip


def grade(
    replies: list[Any], answer: str = "Clouds rain.", facts: tuple[int, int] = (0, 4), how: Any = None, **rules: Any
) -> tuple[Any, ScriptedJudge]:  # fmt: skip
    judge = ScriptedJudge(replies)
    item = FreeItem("i", "Why does it rain?", "explanation", "r", nuggets=FACTS[slice(*facts)])
    return grade_nuggets(item, answer, judge, settings(how, **rules), "m"), judge


@pytest.mark.parametrize(("labels", "values"), cases("free", "nuggets_scores"))
def test_scores_of_two_vital_and_two_okay_nuggets(labels: list[str | None], values: list[Any]) -> None:
    labelled = [NuggetGrade(n.id, n.importance, label) for n, label in zip(FACTS, labels, strict=True)]
    scores = score_nuggets(labelled).values()
    assert [score["value"] for score in scores] == pytest.approx(values)
    for score in scores:
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


@pytest.mark.parametrize(("given", "expected"), cases("free", "nuggets_graded"))
def test_labels_votes_and_missing_labels_make_a_grade(given: Fields, expected: Fields) -> None:
    found, judge = grade(**given)
    of_nuggets = {"labels": [n.label for n in found.nuggets], "errors": [n.error_type for n in found.nuggets]}
    of_nuggets |= {"vital": (found.nugget_scores or {}).get("vital")}
    named = {name: of_nuggets[name] for name in expected.keys() & of_nuggets.keys()}
    assert fields(found, expected.keys() - named.keys()) | named == expected
    assert len(judge.asked) == len(given["replies"])


@pytest.mark.parametrize(
    "bad",
    [{"batch_size": 0}, {"nugget_score": "most"}, {"format_type": "toml"},
     {"nugget_template": "nugget/legacy@1.0", "format_type": "csv"}],
)  # fmt: skip
def test_misuse_is_refused(bad: Fields) -> None:
    with pytest.raises((UsageError, ValidationError)):
        grade([], **bad)
