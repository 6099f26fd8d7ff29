"""Order sensitivity: by hand, on a model that reads the text, and on one that loves a place."""

from collections.abc import Sequence

import numpy as np
import pytest

from robustify import orders
from robustify.answers import Answer, Answers, Block, answer, unanswered
from robustify.stability import complete, position_prior, position_share, stability


def row(item: str, order: Sequence[int], scores: Sequence[float], key: int = 0) -> Answer:
    return answer(item, "full", "m", tuple(order), "mmlu-v1", key, scores)


def block(rows: Sequence[Answer]) -> Block:
    return Answers.of(rows).block("full", "m")


def value(rate: object) -> float:
    assert isinstance(rate, dict)
    return float(rate["value"])


THREE = [
    row("a", (0, 1), [-1, -2]), row("a", (1, 0), [-1, -2]),  # right, right
    row("b", (0, 1), [-1, -2]), row("b", (1, 0), [-2, -1]),  # right, then flipped
    row("c", (0, 1), [-2, -1]), row("c", (1, 0), [-2, -1]),  # wrong, wrong
]  # fmt: skip


def test_by_hand() -> None:
    found = stability(block(THREE))
    assert found is not None
    assert (found["n"], found["orders"]) == (3, 2)
    assert found["mean"] == pytest.approx(0.5)
    assert (found["min"], found["max"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert found["sd"] == pytest.approx(np.std([2 / 3, 1 / 3], ddof=1))
    assert value(found["flip_rate"]) == pytest.approx(1 / 3)
    assert value(found["consistency"]) == pytest.approx(2 / 3)
    assert found["consistency"]["n"] == 3  # type: ignore[index]


def test_flips_count_orders_and_consistency_counts_items() -> None:
    picks = [[-1, -2, -3], [-1, -2, -3], [-2, -1, -3], [-3, -2, -1]]
    found = stability(
        block([row("a", order, s) for order, s in zip(orders.spread("a", 3, 4), picks, strict=True)])
    )
    assert found is not None
    assert value(found["flip_rate"]) == pytest.approx(2 / 3)
    assert value(found["consistency"]) == 0


def test_a_tie_agrees_with_nothing() -> None:
    found = stability(block([row("a", (0, 1), [-1, -1]), row("a", (1, 0), [-1, -1])]))
    assert found is not None
    assert (value(found["flip_rate"]), value(found["consistency"]), found["mean"]) == (1, 0, 0.5)


def test_items_that_miss_an_order_are_left_out_and_counted_so() -> None:
    lone = [row("d", (0, 1), [-1, -2])]
    silent = [row("e", (0, 1), [-1, -2]), unanswered("e", "full", "m", (1, 0), "mmlu-v1", 0, "no letter")]
    found, alone = stability(block([*lone, *THREE, *silent])), stability(block(THREE))
    assert found is not None
    assert alone is not None
    assert (found.pop("asked"), alone.pop("asked")) == (4, 3)
    assert found == alone


def test_items_with_fewer_orders_than_others_count_in_those_they_have() -> None:
    wide = [[-1, -2, -3], [-1, -2, -3], [-2, -1, -3], [-3, -2, -1]]
    rows = [row("w", order, s) for order, s in zip(orders.spread("w", 3, 4), wide, strict=True)]
    short = [row("x", order, [-1, -2, -3]) for order in orders.spread("x", 3, 2)]
    found = stability(block([*THREE, *rows, *short]))
    assert found is not None
    # w is right, right, wrong, wrong; x misses two of its four orders; a, b and c have no more than two.
    assert (found["n"], found["asked"], found["orders"]) == (4, 5, 4)
    assert found["mean"] == pytest.approx(np.mean([3 / 4, 2 / 4, 0, 0]))
    assert value(found["flip_rate"]) == pytest.approx((0 + 1 + 0 + 2 / 3) / 4)
    assert value(found["consistency"]) == pytest.approx(2 / 4)


def test_interleaved_rows_are_put_together() -> None:
    assert stability(block(THREE[::2] + THREE[1::2])) == stability(block(THREE))


def test_one_order_or_none_says_nothing() -> None:
    assert stability(block(THREE[::2])) is None
    assert stability(block([])) is None
    assert position_prior(block([])) is None
    silent = [unanswered("e", "full", "m", o, "mmlu-v1", 0, "no letter") for o in ((0, 1), (1, 0))]
    assert stability(block(silent)) is None
    assert complete(block(silent)) is None


def asked(n: int, love: Sequence[float], text_weight: float, seed: int = 0) -> Block:
    """A model whose log probability is a love of places plus a fixed liking of each text."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        liking = text_weight * rng.normal(size=4)
        for order in orders.rotations(orders.base(f"i{i}", 4)):
            scores = np.empty(4)
            scores[list(order)] = np.log(love) + liking[list(order)]
            rows.append(row(f"i{i}", order, scores.tolist(), key=int(rng.integers(4))))
    return block(rows)


def test_the_prior_of_places_is_recovered_through_strong_likings_of_texts() -> None:
    love = [0.5, 0.1, 0.1, 0.3]
    assert position_prior(asked(50, love, text_weight=2.0)) == pytest.approx(love, abs=1e-9)
    assert position_prior(asked(50, [0.25] * 4, text_weight=3.0)) == pytest.approx([0.25] * 4, abs=1e-9)


def test_a_model_that_reads_is_stable_and_one_that_loves_a_place_flips() -> None:
    reads, loves = stability(asked(60, [0.25] * 4, 1.0)), stability(asked(60, [0.97, 0.01, 0.01, 0.01], 0.1))
    assert reads is not None
    assert loves is not None
    assert (value(reads["flip_rate"]), value(reads["consistency"])) == (0, 1)
    assert (value(loves["flip_rate"]), value(loves["consistency"])) == (1, 0)
    assert position_share(asked(60, [0.97, 0.01, 0.01, 0.01], 0.1)) == pytest.approx([1, 0, 0, 0])


def test_the_prior_takes_the_commonest_number_of_choices() -> None:
    two = [row(f"t{i}", o, [-1.0, -1.0]) for i in range(3) for o in ((0, 1), (1, 0))]
    three = [row("x", o, [-1.0, -1.0, -1.0]) for o in ((0, 1, 2), (1, 2, 0))]
    assert position_prior(block(two + three)) == pytest.approx([0.5, 0.5])


def test_position_share_by_hand() -> None:
    rows = [
        row("a", (2, 0, 1), [-1, -2, -3]),  # picks choice 0, shown second
        row("b", (2, 0, 1), [-3, -2, -1]),  # picks choice 2, shown first
        row("c", (1, 2, 0), [-1, -1, -3]),  # choices 0 and 1 tie: shown third and first
        row("d", (1, 0), [-1, -2]),  # two choices: picks choice 0, shown second
        unanswered("e", "full", "m", (0, 1, 2), "mmlu-v1", 0, "no letter"),
    ]
    assert position_share(block(rows)) == pytest.approx([1.5 / 4, 2 / 4, 0.5 / 4])
    assert position_share(block(rows[4:])) is None
    assert position_share(block([])) is None


def test_a_pick_without_scores_still_has_a_place() -> None:
    bare = Answer("a", "full", "m", (1, 0), "imported", 0, pick=0, correct=1.0, scores=())
    assert position_share(block([bare])) == pytest.approx([0, 1])
    both = [bare, Answer("a", "full", "m", (0, 1), "imported", 0, pick=0, correct=1.0, scores=())]
    found = stability(block(both))
    assert found is not None
    assert (found["position_prior"], value(found["consistency"])) == (None, 1)
