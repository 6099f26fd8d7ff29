"""Leaning to a place, told from one order: against a plain count, and silent where there is nothing to tell."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.answers import Answer, Answers, Asked, Block, answer
from robustify.judging.positions import position_bias as judge_position_bias
from robustify.report.messages import finding
from robustify.summary.scored import PositionBias
from tests.support.trees import in_trees

position_bias = in_trees(judge_position_bias)

Row = tuple[int, int | None]


def block(rows: Sequence[Row], k: int = 4, orders: Sequence[Sequence[int]] | None = None) -> Block:
    """One row an item, (key, pick) in the item's own order."""
    made = []
    for at, (key, pick) in enumerate(rows):
        order = tuple(range(k)) if orders is None else tuple(orders[at])
        credit = None if pick is None else float(pick == key)
        made.append(Answer(f"i{at}", "full", "m", order, "t", key, pick, credit, ()))
    return Answers.of(made).block("full", "m")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 3)), st.permutations(range(4))))
)
def test_shares_are_those_of_a_plain_count(
    drawn: list[tuple[int, int | None, list[int]]],
) -> None:
    found = position_bias(block([(k, p) for k, p, _ in drawn], orders=[o for *_, o in drawn]))
    told = [(o.index(k), o.index(p)) for k, p, o in drawn if p is not None]
    if not told:
        assert found is None
        return
    assert found["n"] == len(told)
    for j, place in enumerate(found["positions"]):
        assert place["picked"]["value"] == pytest.approx(sum(p == j for _, p in told) / len(told))
        assert place["key"] == pytest.approx(sum(k == j for k, _ in told) / len(told))
        assert place["excess"]["value"] == pytest.approx(place["picked"]["value"] - place["key"])


def test_a_model_that_always_says_the_first_is_told() -> None:
    found = position_bias(block([(at % 4, 0) for at in range(80)]))
    assert (
        finding("position_bias", PositionBias(**found))
        == "Picks the first option in 100.0 % of the items, but the key is there in 25.0 % (p < 0.001)."
    )
    first = found["positions"][0]["excess"]
    assert (first["value"], first["n"]) == (0.75, 80)
    assert 0.6 < first["ci"][0] < 0.75 < first["ci"][1] < 0.9


def test_a_model_that_is_always_right_leans_nowhere_wherever_the_keys_stand() -> None:
    found = position_bias(block([(0, 0)] * 70 + [(3, 3)] * 10))
    assert finding("position_bias", PositionBias(**found)) == ""
    assert [p["p_holm"] for p in found["positions"]] == [1.0] * 4


def test_a_passage_counts_once() -> None:
    """Ten passages of eight equal items: each place is liked in two passages more or less, which tells nothing."""
    rng = np.random.default_rng(2)
    keys, picks = (np.repeat(rng.integers(0, 4, 10), 8) for _ in range(2))
    rows = block([(int(k), int(p)) for k, p in zip(keys, picks, strict=True)])
    alone, together = position_bias(rows), position_bias(rows, np.arange(80) // 8)
    assert min(p["p_holm"] for p in alone["positions"]) < 0.01
    assert min(p["p_holm"] for p in together["positions"]) > 0.05


def test_ties_share_their_place_and_do_not_test() -> None:
    rows = [answer(Asked(f"i{at}", "full", "m", (0, 1), "t", at % 2), [-1.0, -1.0]) for at in range(20)]
    found = position_bias(Answers.of(rows).block("full", "m"))
    assert [p["picked"]["value"] for p in found["positions"]] == [0.5, 0.5]
    assert [p["p_holm"] for p in found["positions"]] == [1.0, 1.0]


def test_items_of_fewer_options_count_only_where_they_have_a_place() -> None:
    rows = [
        Answer("a", "full", "m", (0, 1), "t", 0, 1, 0.0, ()),
        Answer("b", "full", "m", (0, 1, 2), "t", 2, 2, 1.0, ()),
    ]
    found = position_bias(Answers.of(rows).block("full", "m"))
    assert [p["picked"]["n"] for p in found["positions"]] == [2, 2, 1]
