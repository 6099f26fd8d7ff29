"""Which items repeat one another, and which are in one fold."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.items.item import Item
from robustify.judging.baselines.near_duplicates import (
    LOOSE,
    NEAR,
    balanced_folds,
    content_hashes,
    fold_groups,
    near_duplicates,
)
from tests.support.fake_answers import bench, items_of


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a | b else 1.0


bags = st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=7), min_size=1, max_size=14)


def folds(items: Sequence[Item], seed: int = 0) -> list[int]:
    return balanced_folds(fold_groups(items), content_hashes(items), 5, seed).tolist()


@settings(max_examples=60, deadline=None)
@given(bags)
def test_every_near_pair_is_found(choices: list[list[str]]) -> None:
    items = [Item(f"i{n}", "?", tuple(c), 0) for n, c in enumerate(choices)]
    sets = [frozenset(c) for c in choices]

    def chained(least: float) -> np.ndarray:
        graph = np.array([[jaccard(a, b) >= least for b in sets] for a in sets])
        for _ in items:
            graph = (graph.astype(int) @ graph.astype(int)) > 0
        return graph.argmax(axis=1)

    near, loose = chained(NEAR), chained(LOOSE)
    assert near_duplicates(items).tolist() == near.tolist()
    many = np.bincount(loose)[loose] > len(items) / 5
    together = np.where(many, near, loose)
    found = fold_groups(items)
    # Relatives only join.
    assert all(len(set(found[together == group].tolist())) == 1 for group in together.tolist())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=30), st.integers(2, 6))
def test_each_group_goes_to_the_smallest_fold_the_largest_groups_first(sizes: list[int], folds: int) -> None:
    group, rng = np.repeat(np.arange(len(sizes)), sizes), np.random.default_rng(len(sizes))
    content = rng.random(len(group))
    shuffled, smallest = np.empty(len(sizes)), [content[group == g].min() for g in range(len(sizes))]
    shuffled[np.argsort(smallest)] = np.random.default_rng(3).permutation(len(sizes))
    filled, expected = [0] * folds, {}
    for g in sorted(range(len(sizes)), key=lambda g: (-sizes[g], shuffled[g])):
        expected[g] = filled.index(min(filled))
        filled[expected[g]] += sizes[g]
    assert balanced_folds(group, content, folds, 3).tolist() == [expected[g] for g in group.tolist()]


def test_choices_of_symbols_compare_by_their_texts() -> None:
    items = [Item("a", "?", ("+", "-"), 0), Item("b", "?", ("-", "+"), 0), Item("c", "?", ("*", "/"), 0)]
    assert near_duplicates(items).tolist() == [0, 0, 2]


def test_choices_that_are_a_format_are_no_copies() -> None:
    """In 60 items of True or False all were one group, so that nothing could be fitted."""
    items = [Item(f"i{n}", f"Is it {n}?", ("True", "False"), n % 2) for n in range(60)]
    again = replace(items[0], id="again", choices=("False", "true"))
    assert near_duplicates([*items, again]).tolist() == [*range(60), 0]
    assert near_duplicates(items[:4]).tolist() == [0, 0, 0, 0], "four of them are copies"


def test_copies_and_passages_share_a_fold_and_folds_are_even() -> None:
    items = items_of(bench(100), seed=1)
    reworded = [
        replace(
            i, id=f"again-{i.id}", choices=tuple(c.upper() + "!" for c in reversed(i.choices)), key=3 - i.key
        )
        for i in items
    ]
    fold = folds(items + reworded)
    assert fold[:100] == fold[100:]
    assert np.bincount(fold).tolist() == [40] * 5
    passages = folds([replace(i, group=f"passage {n // 10}") for n, i in enumerate(items)])
    assert all(len(set(passages[n : n + 10])) == 1 for n in range(0, 100, 10))
    assert np.bincount(passages).tolist() == [20] * 5


def test_neither_names_nor_rows_nor_options_in_another_order_move_an_item_to_another_fold() -> None:
    items = items_of(bench(60), seed=2)
    fold = folds(items)
    renamed = [
        replace(i, id=f"other-{n}", choices=i.choices[::-1], key=3 - i.key) for n, i in enumerate(items)
    ]
    assert folds(renamed[::-1])[::-1] == fold
    assert folds(items, seed=1) != fold
