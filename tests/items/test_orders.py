from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from robustify.items import orders


def test_the_order_of_an_id_never_changes_between_versions() -> None:
    assert orders.base("x", 4) == (2, 3, 0, 1)
    assert orders.spread("x", 4, 3) == ((0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 1, 0))


@given(st.integers(2, 26))
def test_rotations_show_each_choice_once_at_each_place(k: int) -> None:
    turned = orders.rotations(orders.base("i", k))
    assert len(turned) == k
    for place in range(k):
        assert {order[place] for order in turned} == set(range(k))


@given(st.text(), st.integers(2, 6), st.integers(1, 9))
def test_spread_begins_with_the_own_order_and_never_repeats(item_id: str, k: int, n: int) -> None:
    shown = orders.spread(item_id, k, n)
    assert shown[0] == orders.own(k)
    assert len(set(shown)) == len(shown) <= n
    assert len(shown) == min(n, 2 if k == 2 else n, [0, 0, 2, 6, 24, 120, 720][k])


@given(st.text(), st.integers(2, 6), st.integers(1, 9))
def test_all_rotations_of_the_own_order_follow_the_random_orders(item_id: str, k: int, n: int) -> None:
    random = orders.spread(item_id, k, n)
    shown = orders.spread_and_turned(item_id, k, n)
    assert shown[: len(random)] == random
    assert len(set(shown)) == len(shown)
    assert set(shown) == {*random, *orders.rotations(orders.own(k))}


def test_base_orders_are_uniform_over_places() -> None:
    first = Counter(orders.base(f"item-{i}", 4)[0] for i in range(4000))
    assert all(abs(n - 1000) < 150 for n in first.values())
