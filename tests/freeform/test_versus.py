"""A base model and what was made of it: gains, losses, and what unscored answers leave open."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.errors import UsageError
from robustify.freeform.metrics import against_base
from robustify.freeform.report import summarise
from robustify.freeform.schema import GradeResult
from robustify.report.free_page import markdown_page
from robustify.stats.tests import mcnemar_exact

Score = float | None


def grades(model: str, scores: Sequence[Score], group: str = "") -> list[GradeResult]:
    return [
        GradeResult(
            f"q{i}", model, "short_text", "mcq", "truncated" if score is None else "scored", score, None, "",
            answer_sha256=f"{model}{i}", group=group and f"{group}{i // 2}",
        )
        for i, score in enumerate(scores)
    ]  # fmt: skip


def pair(grades: Sequence[GradeResult], base: str, model: str) -> dict[str, Any]:
    found: dict[str, Any] = against_base(grades, base)["models"][model]["kinds"]["short_text"]
    return found


def test_gains_and_losses_are_counted_by_item_and_tested_exactly() -> None:
    before: list[Score] = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    after: list[Score] = [1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1]
    told = pair([*grades("base", before), *grades("tuned", after)], "base", "tuned")
    assert (told["gained"], told["lost"], told["n_both"]) == (6, 1, 12)
    assert told["difference"]["value"] == pytest.approx(5 / 12)
    assert told["p"] == pytest.approx(mcnemar_exact(6, 1))
    assert told["lower"] == told["upper"] == pytest.approx(5 / 12)


def test_an_unscored_answer_is_neither_a_gain_nor_a_loss_and_widens_the_bounds() -> None:
    one = pair([*grades("base", [1, 0, None, None]), *grades("tuned", [1, None, 1, None])], "base", "tuned")
    assert one["unscored"] == {"base": 2, "model": 2, "both": 1}
    assert (one["difference"]["n"], one["gained"], one["lost"]) == (1, 0, 0)
    assert (one["lower"], one["upper"]) == (-1 / 4, 3 / 4)


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, None])] * 2), min_size=1, max_size=12))
def test_the_bounds_hold_every_way_of_scoring_what_is_unscored(pairs: list[tuple[Score, Score]]) -> None:
    one = pair([*grades("a", [p[0] for p in pairs]), *grades("b", [p[1] for p in pairs])], "a", "b")
    rng = np.random.default_rng(len(pairs))
    for _ in range(5):
        full = [tuple(float(rng.integers(2)) if s is None else s for s in pair) for pair in pairs]
        mean = sum(b - a for a, b in full) / len(full)
        assert one["lower"] - 1e-12 <= mean <= one["upper"] + 1e-12


def test_items_of_one_passage_are_flipped_together() -> None:
    before, after = [0.0] * 8, [1.0] * 8
    alone = pair([*grades("a", before), *grades("b", after)], "a", "b")["p"]
    together = pair([*grades("a", before, "p"), *grades("b", after, "p")], "a", "b")["p"]
    assert alone == pytest.approx(2 / 2**8)
    assert together == pytest.approx(2 / 2**4)


def test_p_is_held_over_all_models_and_absent_where_scores_are_no_quarters() -> None:
    base, better = grades("a", [0.0] * 8), grades("b", [1.0] * 8)
    all_ = [*base, *better, *grades("c", [1.0] * 6 + [0.0] * 2)]
    b, c = (pair(all_, "a", name) for name in "bc")
    assert b["p_holm"] == pytest.approx(2 * b["p"])
    assert c["p_holm"] == pytest.approx(c["p"])
    odd = pair([*base, *grades("b", [0.3] * 8)], "a", "b")
    assert odd["p"] is odd["p_holm"] is None
    five = pair([*base, *grades("b", [0.25] * 8)], "a", "b")
    assert five["p"] == pytest.approx(2 / 2**8)


@pytest.mark.parametrize("base", ["nobody", "a"])
def test_a_base_that_cannot_be_held_against_is_refused(base: str) -> None:
    with pytest.raises(UsageError, match="expected one of two or more graded models"):
        against_base(grades("a", [1.0]), base)
    with pytest.raises(UsageError, match="two grades of a"):
        against_base([*grades("a", [1.0]), *grades("a", [1.0]), *grades("b", [1.0])], "a")


def test_the_page_holds_the_comparison_only_where_a_base_is_named() -> None:
    both = [*grades("a", [0.0] * 12), *grades("b", [1.0] * 10 + [None] * 2)]
    shown = markdown_page(summarise([], both, base="a"))
    assert "## Against a" in shown
    # Ten pairs are decided of twelve that both answered: n is that of the difference.
    assert (
        "| all topics | short text | b | 0.0 % to 0.0 % | 83.3 % to 100.0 % | 10 of 12 | 100.0 points"
        in shown
    )
    assert "83.3 to 100.0 points | 10, 0 | 0.002 |" in shown
    assert "## Against" not in markdown_page(summarise([], both))


def test_a_base_is_compared_by_kind_and_by_topic_and_never_over_kinds() -> None:
    both = [*grades("a", [0.0] * 12), *grades("b", [1.0] * 12)]
    mixed = [replace(g, kind="numeric") if g.item_id in ("q0", "q1") else g for g in both]
    topics = {f"q{i}": "heat" if i % 2 else "light" for i in range(12)}
    told = against_base(mixed, "a", topics)["models"]["b"]
    assert {kind: one["n_both"] for kind, one in told["kinds"].items()} == {"numeric": 2, "short_text": 10}
    assert {topic: {k: one["gained"] for k, one in kinds.items()} for topic, kinds in told["topics"].items()} == {
        "heat": {"numeric": 1, "short_text": 5}, "light": {"numeric": 1, "short_text": 5}
    }  # fmt: skip
    # Two kinds are two tests; topics are described and not tested.
    assert told["kinds"]["short_text"]["p_holm"] == pytest.approx(2 * told["kinds"]["short_text"]["p"])
    assert {one["p"] for kinds in told["topics"].values() for one in kinds.values()} == {None}
