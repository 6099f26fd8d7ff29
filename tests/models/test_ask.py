import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from robustify.base.errors import DataError, RequestError
from robustify.items import orders
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.items.views import Asking, Request
from robustify.models.asking import ask, plan
from robustify.models.engines.protocols import Logprob
from tests.support.fake_scorer import FakeScorer, finds, likes_long_texts, likes_the_letter


def rows_of(items: list[Item], taste, asking: Asking | None = None) -> Answers:
    return Answers.of(ask(plan(items, asking or Asking()), FakeScorer(taste)))


def test_a_shown_order_is_put_back_before_the_row_leaves(toys: list[Item]) -> None:
    block = rows_of(toys[:4], finds("right")).block("choices_only", "fake")
    assert (block.pick == block.key).all()
    assert block.correct.tolist() == [1.0] * 16


def test_the_full_view_begins_with_the_benchmark_s_own_order(toys: list[Item]) -> None:
    table = rows_of(toys, likes_the_letter("A"), Asking(orders=3, order_items=2, full_rotations=False))
    block = table.block("full", "fake")
    assert [tuple(o) for o in block.first().order.tolist()] == [(0, 1, 2, 3)] * len(toys)
    assert sorted((block.item == i).sum() for i in range(len(toys))) == [*[1] * 6, 3, 3]


def test_the_drawn_items_are_asked_in_random_orders_and_in_all_rotations(toys: list[Item]) -> None:
    asking = Asking(orders=3, order_items=2, views=("full",))
    shown: dict[str, list[orders.Order]] = {}
    for p in plan(toys, asking):
        shown.setdefault(p.item.id, []).append(p.order)
    several = {name for name, found in shown.items() if len(found) > 1}
    assert len(several) == 2
    for name, found in shown.items():
        if name in several:
            assert found[:3] == list(orders.spread(name, 4, 3))
            assert set(orders.rotations((0, 1, 2, 3))) <= set(found)
            assert len(found) == len(set(found))
        else:
            assert found == [(0, 1, 2, 3)]


@pytest.mark.parametrize(
    ("given", "views"),
    [
        ({}, ("choices_only", "choices_only_text", "full", "cloze")),
        ({"mode": "text"}, ("choices_only", "choices_only_text", "full_text", "cloze")),
        ({"mode": "text", "views": ("full", "full_text")}, ("full", "full_text")),
    ],
)
def test_the_mode_chooses_the_full_view_where_none_is_named(given, views) -> None:
    assert Asking(**given).views == views


def test_the_full_view_by_text_is_compared_per_character_in_every_order(toys: list[Item]) -> None:
    block = rows_of(toys, likes_long_texts, Asking(orders=2, views=("full_text",))).block("full_text", "fake")
    assert (block.pick == np.nanargmax(block.scores / block.n_chars, axis=1)).all()
    assert (block.scores.argmax(axis=1) != block.pick).any()
    first = block.first()
    assert (first.pick[block.item] == block.pick).all()


def test_cloze_is_asked_twice_of_the_drawn_items_with_the_same_requests(toys: list[Item]) -> None:
    planned = plan(toys, Asking(order_items=3, views=("cloze",)))
    back = [p for p in planned if p.order == (3, 2, 1, 0)]
    assert len(planned) == len(toys) + 3
    assert len(back) == 3
    drawn = {p.item.id for p in plan(toys, Asking(order_items=3, views=("full",))) if p.order != (0, 1, 2, 3)}
    assert {p.item.id for p in back} == drawn
    own = {p.item.id: p.requests for p in planned if p.order == (0, 1, 2, 3)}
    assert all(p.requests == own[p.item.id][::-1] for p in back)


def test_an_engine_that_answers_by_place_is_told_by_the_two_orders_of_cloze(toys: list[Item]) -> None:
    places = itertools.count()
    block = rows_of(toys, lambda _: -1.0 - 10 * (next(places) % 4), Asking(views=("cloze",))).block(
        "cloze", "fake"
    )
    assert (block.pick[0::2] != block.pick[1::2]).all()


def test_which_items_are_asked_in_several_orders_does_not_follow_the_file(toys: list[Item]) -> None:
    asking = Asking(orders=2, order_items=4, views=("full",))
    drawn = {p.item.id for p in plan(toys, asking) if p.order != (0, 1, 2, 3)}
    assert len(drawn) == 4
    assert drawn == {p.item.id for p in plan(toys[::-1], asking) if p.order != (0, 1, 2, 3)}
    assert drawn != {i.id for i in toys[:4]}


def test_an_empty_option_cannot_be_scored_by_its_text_and_says_so() -> None:
    item = Item("i", "Which?", ("red", " ", "blue"), 0)
    table = rows_of([item], likes_the_letter("A"))
    for view in ("cloze", "choices_only_text"):
        assert set(table.block(view, "fake").pick.tolist()) == {-1}
    assert table.table.filter(table.table["error"].is_valid())["error"].to_pylist() == ["empty_choice"] * 3
    assert (table.block("full", "fake").pick >= 0).all()


def test_numbers_of_a_row_are_the_scorer_s(toys: list[Item]) -> None:
    block = rows_of(toys[:1], lambda r: -float(ord(r.continuation.strip()[0]))).block("full", "fake")
    for order, scores in zip(block.order.tolist(), block.scores.tolist(), strict=True):
        for place, choice in enumerate(order):
            assert scores[choice] == pytest.approx(-float(ord("ABCD"[place])))


def test_a_prompt_that_does_not_fit_is_named_by_its_item_and_view(toys: list[Item]) -> None:
    class Short(FakeScorer):
        def loglikelihoods(self, requests: Sequence[Request], _: object = None) -> list[Logprob]:
            long = [i for i, r in enumerate(requests) if toys[2].stem in r.context]
            raise RequestError.of(dict.fromkeys(long, "too long"))

    planned = plan(toys, Asking(views=("full", "cloze"), orders=1))
    with pytest.raises(DataError) as caught:
        list(ask(planned, Short(likes_long_texts)))
    assert caught.value.lines == (
        f"item {toys[2].id}, full (mmlu-v1): too long",
        f"item {toys[2].id}, cloze (qa-v1): too long",
    )
