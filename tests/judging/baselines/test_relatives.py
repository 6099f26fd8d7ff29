"""Relatives share a fold, so that no key is learned from a reworded copy or a translation."""

from dataclasses import replace

import numpy as np
import pytest

from bench.simulate.dependent import _SCRIPTS, DEPENDENT, longer_scripts
from robustify.items.item import Item
from robustify.judging.baselines.near_duplicates import content_hashes, fold_groups, parallel_items
from robustify.judging.baselines.relatives import LARGEST, merge_groups, relatives


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
