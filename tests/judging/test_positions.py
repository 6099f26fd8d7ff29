"""Order sensitivity and leaning to a place: by hand, on a model that reads the text, and on one that loves a place."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.items import orders
from robustify.items.answers import Answer, Answers, Asked, Block, answer, unanswered
from robustify.judging.positions import cloze_invariance as judge_cloze_invariance
from robustify.judging.positions import favoured_position, orders_asked, position_share
from robustify.judging.positions import permutation as judge_permutation
from robustify.judging.positions import position_bias as judge_position_bias
from robustify.judging.positions import stability as judge_stability
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.votes import first_block
from robustify.judging.summary.model_parts import PositionBias
from robustify.report.printing import finding
from tests.support.cases import cases
from tests.support.contexts import made_up
from tests.support.fake_answers import bench, rows
from tests.support.trees import in_trees


def cloze_invariance(answers: Answers, names: Sequence[str]) -> Any:
    return in_trees(judge_cloze_invariance)([first_block(answers, "cloze", name) for name in names])


permutation = in_trees(judge_permutation)
stability = in_trees(judge_stability)


def row(item: str, order: Sequence[int], scores: Sequence[float], key: int = 0) -> Answer:
    return answer(Asked(item, "full", "m", tuple(order), "mmlu-v1", key), scores)


def block(rows: Sequence[Answer]) -> Block:
    return Answers.of(rows).block("full", "m")


def value(rate: Any) -> float:
    return float(rate["value"])


def moved(held: Block) -> dict[str, Any]:
    found = stability(held)
    assert found is not None
    json.dumps(found, allow_nan=False)
    return found


THREE = [row(*values) for values in cases("judging", "two_orders")]


def test_by_hand() -> None:
    found = moved(block(THREE))
    assert (found["n"], found["orders"]) == (3, 2)
    assert found["mean"] == pytest.approx(0.5)
    assert found["mean_ci"][0] < 0.5 < found["mean_ci"][1]
    assert (found["min"], found["max"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert found["sd"] == pytest.approx(np.std([2 / 3, 1 / 3], ddof=1))
    assert value(found["flip_rate"]) == pytest.approx(1 / 3)
    assert value(found["consistency"]) == pytest.approx(2 / 3)
    assert found["consistency"]["n"] == 3
    tied = moved(block([row("a", (0, 1), [-1, -1]), row("a", (1, 0), [-1, -1])]))
    # A tied pick agrees with nothing.
    assert (value(tied["flip_rate"]), value(tied["consistency"]), tied["mean"]) == (1, 0, 0.5)
    # Two choices have two orders, and both are rotations.
    assert found["rotations"] == {name: found[name] for name in found["rotations"]}


def test_items_that_miss_an_answer_are_left_out_and_counted_so() -> None:
    lone = [row("d", (0, 1), [-1, -2])]
    silent = [
        row("e", (0, 1), [-1, -2]),
        unanswered(Asked("e", "full", "m", (1, 0), "mmlu-v1", 0), "no letter"),
    ]
    found, alone = moved(block([*lone, *THREE, *silent])), moved(block(THREE))
    for tree in (found, found["rotations"]):
        assert tree.pop("asked") == 4
    for tree in (alone, alone["rotations"]):
        assert tree.pop("asked") == 3
    assert found == alone


def test_items_with_fewer_orders_than_others_count_in_those_they_have() -> None:
    wide = [[-1, -2, -3], [-1, -2, -3], [-2, -1, -3], [-3, -2, -1]]
    four = [row("w", order, s) for order, s in zip(orders.spread("w", 3, 4), wide, strict=True)]
    short = [row("x", order, [-1, -2, -3]) for order in orders.spread("x", 3, 2)]
    found = moved(block([*THREE, *four, *short]))
    # w is right, right, wrong, wrong; x misses two of its four orders; a, b and c have no more than two.
    assert (found["n"], found["asked"], found["orders"]) == (4, 5, 4)
    assert found["mean"] == pytest.approx(np.mean([3 / 4, 2 / 4, 0, 0]))
    assert value(found["flip_rate"]) == pytest.approx((0 + 1 + 0 + 2 / 3) / 4)
    assert value(found["consistency"]) == pytest.approx(2 / 4)


def test_one_order_or_none_says_nothing() -> None:
    assert stability(block(THREE[::2])) is None
    assert stability(block([])) is None
    silent = [unanswered(Asked("e", "full", "m", o, "mmlu-v1", 0), "no letter") for o in ((0, 1), (1, 0))]
    assert stability(block(silent)) is None


Asking = Callable[[str, int, int], tuple[orders.Order, ...]]


def asked_as(ask: Asking, sizes: Sequence[int], n: int) -> list[Answer]:
    rng = np.random.default_rng(1)
    return [
        row(f"i{i}", order, rng.normal(size=k).tolist())
        for i, k in enumerate(sizes)
        for order in ask(f"i{i}", k, n)
    ]


def random_sets(held: Block) -> dict[int, set[orders.Order]]:
    spread, _ = orders_asked(held)
    return {
        int(held.item[r[0]]): {tuple(held.order[i][held.order[i] >= 0].tolist()) for i in r if i >= 0}
        for r in spread
    }


@pytest.mark.parametrize("n", [2, 5, 10, 24])
@pytest.mark.parametrize(
    "sizes", [[4] * 80, [3] * 80, [2] * 80, [4, 2, 3, 4, 5, 4] * 20], ids=["four", "three", "two", "mixed"]
)
@pytest.mark.parametrize("ask", [orders.spread, orders.spread_and_turned])
def test_the_random_orders_are_told_from_the_rotations_asked_besides(
    ask: Asking, sizes: list[int], n: int
) -> None:
    found = random_sets(block(asked_as(ask, sizes, n)))
    told = {i: set(orders.spread(f"i{i}", k, n)) for i, k in enumerate(sizes)}
    assert len(found) == len(sizes)
    assert all(found[i] >= of for i, of in told.items())
    # Three choices have six orders, half of them rotations: two random ones cannot be told from three.
    assert found == told or (n == 2 and max(sizes) == 3 and ask is orders.spread_and_turned)


def test_all_rotations_are_found_in_any_row_order_and_begin_with_the_own_order() -> None:
    asked = asked_as(orders.spread_and_turned, [4, 3, 2, 5] * 10, 5)
    held = block(np.random.default_rng(2).permutation(np.array(asked, dtype=object)).tolist())
    spread, turned = orders_asked(held)
    assert len(spread) == len(turned) == 40
    for r in turned:
        shown = [tuple(held.order[i][held.order[i] >= 0].tolist()) for i in r if i >= 0]
        assert shown == list(orders.rotations(orders.own(len(shown))))
    for r in spread:
        assert held.order[r[0]][held.order[r[0]] >= 0].tolist() == list(range(int(held.k[r[0]])))


def test_the_part_of_the_summary_names_voters_and_leaves_out_items_that_are_not_judged() -> None:
    b = bench(40, 2, seed=3)
    table = Answers.of([*rows(b, view="full", template="mmlu-v1"), *rows(b)])
    whole: Any = permutation(
        made_up(("v0", "v1", "nobody"), answers=table, index=item_index(table, b.ids), full="full"), ["v1"]
    )
    whole = whole["by_model"]
    assert list(whole) == ["v0", "v1"]
    assert (whole["v0"]["is_voter"], whole["v1"]["is_voter"]) == (False, True)
    assert whole["v0"]["rotations"]["n"] == 40
    part: Any = permutation(
        made_up(["v0"], answers=table, index=item_index(table, b.ids[10:30]), full="full"), []
    )["by_model"]
    assert part["v0"]["rotations"]["n"] == 20
    once = Answers.of(rows(b, view="full", template="mmlu-v1", rotations=False))
    assert permutation(made_up(["v0"], answers=once, index=item_index(once, b.ids), full="full"), []) == {
        "by_model": {"v0": None},
        "cloze_invariance": None,
    }


@pytest.mark.parametrize(("given", "models", "found"), cases("judging", "cloze_orders"))
def test_cloze_is_inert_unless_a_score_or_a_pick_moves(
    given: list[Any], models: list[str], found: object
) -> None:
    asked = [
        (Asked(item, "cloze", model, tuple(order), "qa-v1", 0), scores)
        for item, order, scores, model in given
    ]
    held = [
        unanswered(asking, "empty_choice")
        if scores is None
        else answer(asking, scores, n_chars=[1] * len(scores))
        for asking, scores in asked
    ]
    assert cloze_invariance(Answers.of(held), models) == found


def test_position_share_by_hand() -> None:
    silent = unanswered(Asked("e", "full", "m", (0, 1, 2), "mmlu-v1", 0), "no letter")
    rows = [*(row(*values) for values in cases("judging", "picks_at_places")), silent]
    assert position_share(block(rows)) == pytest.approx([1.5 / 4, 2 / 4, 0.5 / 4])
    assert position_share(block(rows[4:])) is None
    assert position_share(block([])) is None


@pytest.mark.parametrize(("knows", "place"), [(0.0, 1), (0.9, None)], ids=["loves a place", "knows keys"])
def test_the_place_on_which_picks_sit_is_counted_by_item(knows: float, place: int | None) -> None:
    """Asked in all rotations: it picks what is shown second, or of a share of the items the key wherever it is shown."""
    knowing = np.random.default_rng(0).random(60) < knows
    shown = [(i, order) for i in range(60) for order in orders.rotations(orders.own(4))]
    picks = [i % 4 if knowing[i] else order[1] for i, order in shown]
    held = [
        row(f"i{i}", o, [-0.1 if j == p else -3 for j in range(4)], i % 4)
        for (i, o), p in zip(shown, picks, strict=True)
    ]
    found = favoured_position(block(held))
    assert (None if found is None else found.position) == place
    if found is not None:
        assert (found.picked.value, found.picked.n, found.keys) == (1, 60, 0.25)
        assert found.excess.value == pytest.approx(0.75)
        assert found.excess.ci[0] > 0.6


position_bias = in_trees(judge_position_bias)


def picks_of(rows: Sequence[tuple[int, int | None]], orders: Sequence[Sequence[int]] = ()) -> Block:
    """One row an item, (key, pick) in the item's own order, with four options."""
    made = []
    for at, (key, pick) in enumerate(rows):
        order = tuple(orders[at]) if orders else tuple(range(4))
        credit = None if pick is None else float(pick == key)
        made.append(Answer(f"i{at}", "full", "m", order, "t", key, pick, credit, ()))
    return block(made)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 3)), st.permutations(range(4))))
)
def test_shares_are_those_of_a_plain_count(drawn: list[tuple[int, int | None, list[int]]]) -> None:
    found = position_bias(picks_of([(k, p) for k, p, _ in drawn], orders=[o for *_, o in drawn]))
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
    found = position_bias(picks_of([(at % 4, 0) for at in range(80)]))
    assert {"100.0", "25.0"} <= set(finding("position_bias", PositionBias(**found)).split())
    assert found["positions"][0]["p_holm"] < 0.001
    first = found["positions"][0]["excess"]
    assert (first["value"], first["n"]) == (0.75, 80)
    assert 0.6 < first["ci"][0] < 0.75 < first["ci"][1] < 0.9


def test_a_model_that_is_always_right_or_tied_leans_nowhere_wherever_the_keys_stand() -> None:
    found = position_bias(picks_of([(0, 0)] * 70 + [(3, 3)] * 10))
    assert finding("position_bias", PositionBias(**found)) == ""
    assert [p["p_holm"] for p in found["positions"]] == [1.0] * 4
    ties = [answer(Asked(f"i{at}", "full", "m", (0, 1), "t", at % 2), [-1.0, -1.0]) for at in range(20)]
    found = position_bias(block(ties))
    assert [(p["picked"]["value"], p["p_holm"]) for p in found["positions"]] == [(0.5, 1.0)] * 2


def test_a_passage_counts_once() -> None:
    """Ten passages of eight equal items: each place is liked in two passages more or less, which tells nothing."""
    rng = np.random.default_rng(2)
    keys, picks = (np.repeat(rng.integers(0, 4, 10), 8) for _ in range(2))
    held = picks_of([(int(k), int(p)) for k, p in zip(keys, picks, strict=True)])
    alone, together = position_bias(held), position_bias(held, np.arange(80) // 8)
    assert min(p["p_holm"] for p in alone["positions"]) < 0.01
    assert min(p["p_holm"] for p in together["positions"]) > 0.05


def test_items_of_fewer_options_count_only_where_they_have_a_place() -> None:
    rows = [
        Answer("a", "full", "m", (0, 1), "t", 0, 1, 0.0, ()),
        Answer("b", "full", "m", (0, 1, 2), "t", 2, 2, 1.0, ()),
    ]
    found = position_bias(block(rows))
    assert [p["picked"]["n"] for p in found["positions"]] == [2, 2, 1]
