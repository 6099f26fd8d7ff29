from collections.abc import Sequence

import pytest

from robustify import orders
from robustify.answers import Answers
from robustify.ask import Asking, ask, plan
from robustify.engines.base import Logprob, Progress, Request, no_progress
from robustify.errors import DataError, RequestError
from robustify.item import Item
from tests.fake_scorer import FakeScorer, finds, likes_long_texts, likes_the_letter


def rows_of(items: list[Item], taste, asking: Asking | None = None) -> Answers:
    return Answers.of(ask(plan(items, asking or Asking()), FakeScorer(taste)))


def test_every_asking_becomes_one_row(toys: list[Item]) -> None:
    table = rows_of(toys, likes_the_letter("A"))
    assert len(table) == len(toys) * (4 + 1 + 5 + 1)
    assert table.items == tuple(i.id for i in toys)
    assert [v for v, _, _ in table.askings()] == ["choices_only", "choices_only_text", "full", "cloze"]


def test_a_shown_order_is_put_back_before_the_row_leaves(toys: list[Item]) -> None:
    block = rows_of(toys[:4], finds("right")).block("choices_only", "fake")
    assert (block.pick == block.key).all()
    assert block.correct.tolist() == [1.0] * 16


def test_a_letter_lover_is_right_once_in_every_full_turn(toys: list[Item]) -> None:
    block = rows_of(toys, likes_the_letter("C")).block("choices_only", "fake")
    for item in range(len(toys)):
        assert block.correct[block.item == item].sum() == 1.0


def test_the_first_row_of_the_screen_is_the_item_s_fixed_order(toys: list[Item]) -> None:
    block = rows_of(toys, likes_the_letter("A")).block("choices_only", "fake").first()
    assert [tuple(o) for o in block.order.tolist()] == [orders.base(i.id, 4) for i in toys]


def test_the_full_view_begins_with_the_benchmark_s_own_order(toys: list[Item]) -> None:
    table = rows_of(toys, likes_the_letter("A"), Asking(orders=3, order_items=2))
    block = table.block("full", "fake")
    assert [tuple(o) for o in block.first().order.tolist()] == [(0, 1, 2, 3)] * len(toys)
    assert sorted((block.item == i).sum() for i in range(len(toys))) == [*[1] * 6, 3, 3]


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
        assert table.block(view, "fake").pick.tolist() == [-1]
    assert table.table.filter(table.table["error"].is_valid())["error"].to_pylist() == ["empty_choice"] * 2
    assert (table.block("full", "fake").pick >= 0).all()


def test_text_views_pick_per_character() -> None:
    item = Item("i", "Which?", ("red", "a long one"), 1)
    block = rows_of([item], lambda r: -float(len(r.continuation) ** 0.5)).block("cloze", "fake")
    assert block.pick.tolist() == [1]
    assert block.scores[0, 0] > block.scores[0, 1]
    assert block.n_chars.tolist() == [[3, 10]]


def test_an_item_is_never_its_own_shot(toys: list[Item]) -> None:
    planned = plan(toys, Asking(shots=3, views=("cloze",)))
    for p in planned:
        context = p.requests[0].context
        assert context.count(p.item.stem) == 1
        assert context.count("Question:") == 4


def test_the_plan_does_not_depend_on_the_other_items(toys: list[Item]) -> None:
    whole = {(p.item.id, p.template.name, p.order): p.requests for p in plan(toys, Asking())}
    part = {(p.item.id, p.template.name, p.order): p.requests for p in plan(toys[3:5], Asking())}
    assert all(whole[key] == requests for key, requests in part.items())


def test_one_order_asks_once() -> None:
    item = Item("i", "Which?", ("red", "blue"), 0)
    assert len(rows_of([item], likes_the_letter("A"), Asking(rotations="one", views=("choices_only",)))) == 1


def test_two_options_have_only_two_orders() -> None:
    item = Item("i", "Which?", ("red", "blue"), 0)
    assert len(rows_of([item], likes_the_letter("A"), Asking(orders=5, views=("full",)))) == 2


def test_numbers_of_a_row_are_the_scorer_s(toys: list[Item]) -> None:
    def taste(r):
        return -float(ord(r.continuation.strip()[0]))

    block = rows_of(toys[:1], taste).block("full", "fake")
    for order, scores in zip(block.order.tolist(), block.scores.tolist(), strict=True):
        for place, choice in enumerate(order):
            assert scores[choice] == pytest.approx(-float(ord("ABCD"[place])))


def test_a_prompt_that_does_not_fit_is_named_by_its_item_and_view(toys: list[Item]) -> None:
    class Short(FakeScorer):
        def loglikelihoods(
            self, requests: Sequence[Request], progress: Progress = no_progress
        ) -> list[Logprob]:
            raise RequestError.of(
                {i: "too long" for i, r in enumerate(requests) if toys[2].stem in r.context}
            )

    planned = plan(toys, Asking(views=("full", "cloze"), orders=1))
    with pytest.raises(DataError) as caught:
        list(ask(planned, Short(likes_long_texts)))
    assert caught.value.lines == (
        f"item {toys[2].id}, full (mmlu-v1): too long",
        f"item {toys[2].id}, cloze (qa-v1): too long",
    )
