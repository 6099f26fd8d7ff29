"""Which items repeat one another or depend on each other, as copies, relatives or translations, and are in one fold."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.simulate.dependent import _SCRIPTS, DEPENDENT, longer_scripts, plain, scripts
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import guess
from robustify.judging.baselines.near_duplicates import (
    LOOSE,
    NEAR,
    balanced_folds,
    content_hashes,
    fold_groups,
    independent_groups,
    near_duplicates,
    parallel_items,
)
from robustify.judging.baselines.relatives import LARGEST, merge_groups, relatives
from robustify.judging.context import Rules, context
from robustify.judging.response_data import Facts
from robustify.judging.screen.screen_rules import ScreenRules
from tests.support.contexts import context_of
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


def order_of(items: list[Item]) -> np.ndarray:
    return np.argsort(content_hashes(items), kind="stable")


def test_most_translations_are_relatives_of_their_original() -> None:
    items = DEPENDENT["four languages with cognates"](360, np.random.default_rng(0)).items
    a, b = relatives(items, order_of(items))
    original = np.array([int(item.stem.split()[-1]) % 90 for item in items])
    assert (original[a] == original[b]).mean() > 0.6
    assert len(a) > 180


@pytest.mark.parametrize(
    ("world", "found"),
    [("four languages without shared letters", 0.8), ("plain", None), ("one pool of answers", None)],
)
def test_translations_without_shared_letters_are_known_by_lengths_and_numbers(
    world: str, found: float | None
) -> None:
    items = DEPENDENT[world](360, np.random.default_rng(0)).items
    a, b = parallel_items(items).pairs
    original = np.array([int(item.stem.split()[-1]) % 90 for item in items])
    if found is None:
        assert len(a) == 0, "unrelated items of similar lengths have other numbers"
        return
    group = fold_groups(items)
    assert (original[a] == original[b]).mean() > found
    assert sum(len(set(group[original == one].tolist())) == 1 for one in range(90)) > 80


def test_the_most_similar_pairs_come_first_and_no_group_is_too_large() -> None:
    items = DEPENDENT["half-changed copies"](360, np.random.default_rng(1)).items
    assert np.bincount(fold_groups(items)).max() <= LARGEST
    pairs = np.array([0, 2, 1]), np.array([1, 3, 2])
    assert merge_groups(np.arange(40), *pairs)[:5].tolist() == [0, 0, 0, 0, 4]
    assert merge_groups(np.arange(30), *pairs)[:5].tolist() == [0, 0, 2, 2, 4], "at most three of thirty"


def test_relatives_depend_on_content_alone() -> None:
    items = DEPENDENT["plain"](120, np.random.default_rng(2)).items
    shuffled = [items[i] for i in np.random.default_rng(3).permutation(120).tolist()]
    found = [{frozenset((its[i].id, its[j].id)) for i, j in zip(*relatives(its, order_of(its)), strict=True)}
             for its in (items, shuffled)]  # fmt: skip
    assert found[0] == found[1]


@pytest.mark.parametrize("choices", [("yes", "no"), ("", "?")])
def test_options_that_tell_nothing_have_no_relatives(choices: tuple[str, str]) -> None:
    items = [Item(f"i{n}", f"Question {n}", choices, 0) for n in range(400)]
    assert [len(part) for part in relatives(items, order_of(items))] == [0, 0]
    assert [len(part) for part in relatives(items[:3], order_of(items[:3]))] == [0, 0]
    for some in (items, items[:3], items[:0]):
        assert [len(part) for part in parallel_items(some).pairs] == [0, 0]


def test_translations_that_nothing_pairs_look_parallel_until_their_passage_is_named() -> None:
    items = DEPENDENT["four languages without shared letters or numbers"](120, np.random.default_rng(0)).items
    named = [replace(item, group=f"p{int(item.stem.split()[-1]) % 30}") for item in items]
    independent = DEPENDENT["plain"](480, np.random.default_rng(7)).items
    apart = [replace(item, choices=tuple(in_script(one, n % 4) for one in item.choices))
             for n, item in enumerate(independent)]  # fmt: skip
    longer = longer_scripts(360, np.random.default_rng(0)).items
    found = {name: parallel_items(some) for name, some in
             {"unnamed": items, "named": named, "other questions": apart, "one alphabet": independent,
              "unseen": longer}.items()}  # fmt: skip
    assert {name: one.unnamed > 100 for name, one in found.items()} == dict.fromkeys(found, False) | {
        "unnamed": True
    }
    assert all(one.unnamed == 0 for name, one in found.items() if name != "unnamed")
    assert not len(found["unnamed"].pairs[0])


def in_script(text: str, to: int) -> str:
    return text.translate(str.maketrans(_SCRIPTS[0], _SCRIPTS[to]))


@pytest.mark.parametrize(
    "words", [("日本語の選択肢", "東京都の天気予報"), ("हिन्दी के विकल्प", "दिल्ली का मौसम")]
)
def test_scripts_with_many_signs_are_one_alphabet_each(words: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    items = [Item(f"i{n}", f"Question {n}", tuple("".join(rng.permutation(list(words[n % 2] * 2))) + "あ" * int(size)
             for size in rng.integers(1, 30, 4)), 0) for n in range(200)]  # fmt: skip
    assert parallel_items(items).unnamed == 0
