"""Which items depend on each other: one notion, found in the texts and in the names of passages."""

from collections import Counter

import numpy as np
import pytest

from bench.simulate.dependent import plain, scripts
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import guess
from robustify.judging.baselines.near_duplicates import fold_groups, independent_groups
from robustify.judging.context import Rules, context
from robustify.judging.response_data import Facts
from robustify.judging.screen.screen_rules import ScreenRules
from tests.support.contexts import context_of


def sizes(items: list[Item]) -> Counter[int]:
    return Counter(np.bincount(independent_groups(items))[np.unique(independent_groups(items))].tolist())


def made(n: int, seed: int = 0) -> list[Item]:
    return plain(n, np.random.default_rng(seed)).items


def rotated(item: Item, by: int) -> Item:
    turned = item.choices[by:] + item.choices[:by]
    return Item(f"{item.id}-{by}", item.stem, turned, (item.key - by) % item.k)


def test_a_passage_whose_items_are_copies_of_another_passages_joins_it() -> None:
    """One copied item is enough, and the copy of a copy joins as well."""
    one, two = made(60), made(30, 1)
    items = [
        *(Item(i.id, i.stem, i.choices, i.key, group="first") for i in one[:3]),
        Item("copy", one[2].stem, one[2].choices, one[2].key, group="second"),
        Item("again", two[0].stem, two[0].choices, two[0].key, group="second"),
        Item("third", two[0].stem, two[0].choices, two[0].key),
        *one[3:],
    ]
    found = independent_groups(items)
    assert len(set(found[:6].tolist())) == 1
    assert sizes(items) == {6: 1, 1: 57}


@pytest.mark.parametrize("formats", [False, True], ids=["own options", "true or false"])
def test_rotations_of_a_question_are_one_group_whatever_their_names(formats: bool) -> None:
    stems = [f"Is made-up thing {word} {n} blue?" for n, word in enumerate("abcdefghij" * 4)]
    once = (
        [Item(f"s{n}", stem, ("True", "False"), n % 2) for n, stem in enumerate(stems)]
        if formats
        else made(40)
    )
    items = [rotated(item, by) for by in range(once[0].k) for item in once]
    assert sizes(items) == {once[0].k: 40}
    ctx = context_of(items)
    assert len(set(ctx.responses.groups.tolist())) == 40
    assert ctx.parts.groups is ctx.responses.groups


def test_without_dependence_there_are_no_groups_and_without_texts_names_count() -> None:
    items = made(120)
    assert context_of(items).responses.groups is None
    facts = Facts("made up", groups={item.id: f"passage {n // 3}" for n, item in enumerate(items)})
    named = context(guess(items), facts, Rules(ScreenRules(criterion="unanimous")))
    assert len(set(named.responses.groups.tolist())) == 40


def test_translations_that_numbers_pair_are_dependent_and_strangers_with_equal_numbers_are_not() -> None:
    translated = scripts(240, np.random.default_rng(2)).items
    assert len(set(independent_groups(translated).tolist())) <= 120
    # Copies have equal numbers, so that the numbers of a set with copies agree. This pairs no other items.
    some = made(200, 3)
    copies = [Item(f"c{n}", i.stem, i.choices, i.key) for n, i in enumerate(some[:60])]
    assert sizes([*some, *copies]) == {2: 60, 1: 140}


def test_folds_only_join_what_depends_on_each_other_further() -> None:
    some = made(90, 4)
    items = [rotated(item, by) for item in some[:30] for by in range(4)] + some[30:]
    group, fold = independent_groups(items), fold_groups(items)
    assert all(len(set(fold[group == g].tolist())) == 1 for g in np.unique(group).tolist())
