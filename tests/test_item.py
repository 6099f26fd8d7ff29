import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.errors import ItemError
from robustify.item import Item, folded


@st.composite
def items_and_orders(draw: st.DrawFn) -> tuple[Item, list[int]]:
    k = draw(st.integers(2, 26))
    choices = draw(st.lists(st.text(), min_size=k, max_size=k))
    item = Item("i", "stem", tuple(choices), draw(st.integers(0, k - 1)))
    return item, draw(st.permutations(range(k)))


@given(items_and_orders())
def test_permuting_never_moves_the_key_off_its_choice(drawn: tuple[Item, list[int]]) -> None:
    item, order = drawn
    moved = item.permuted(order)
    assert moved.choices[moved.key] == item.choices[item.key]
    assert sorted(moved.choices) == sorted(item.choices)
    back = sorted(range(item.k), key=order.__getitem__)
    assert moved.permuted(back) == item


@pytest.mark.parametrize(
    ("choices", "key", "told"),
    [
        (("a",), 0, "1 choice; expected 2 to 26"),
        (tuple("abcdefghijklmnopqrstuvwxyzä"), 0, "27 choices; expected 2 to 26"),
        (("a", "b"), 2, "key 2, but only 2 choices (0 to 1)"),
        (("a", "b"), -1, "key -1, but only 2 choices (0 to 1)"),
        (("a", "b"), True, "key is a bool; expected a whole number from 0 to 1"),
        (("a", "b"), 1.0, "key is a float; expected a whole number from 0 to 1"),
    ],
)
def test_what_cannot_be_an_item_is_refused_at_birth(choices: tuple[str, ...], key: int, told: str) -> None:
    with pytest.raises(ItemError) as error:
        Item("i", "stem", choices, key)
    assert str(error.value) == told


def test_a_repr_shows_no_text() -> None:
    assert repr(Item("i7", "secret stem", ("secret one", "secret two"), 0)) == "Item(id='i7', 2 choices)"


def test_an_order_that_is_no_permutation_is_refused() -> None:
    with pytest.raises(ItemError, match="no permutation"):
        Item("i", "s", ("a", "b"), 0).permuted((0, 0))


def test_equal_texts_are_equal_but_for_white_space() -> None:
    assert Item("i", "s", ("New York", "Rome", " New  York"), 0).key_text_repeated()
    assert not Item("i", "s", ("Rr", "RR", "rr"), 0).key_text_repeated()
    assert not Item("i", "s", ("Rome", "Paris", "Paris"), 0).key_text_repeated()


def test_folding_is_blind_to_case_and_width() -> None:
    assert folded(" Ｎew  York ") == folded("new york")
