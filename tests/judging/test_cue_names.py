"""What the cues of flagged items are: the words and traits of their keys, counted, and the strongest cue of the set."""

import numpy as np
import pytest

from robustify.items.item import Item
from robustify.judging.evidence import MOST_NAMES, TRAITS, cue_names, trait_names, whole_cue
from robustify.judging.summary.screen_parts import CUES, CueCode
from tests.support.cases import cases

OTHERS = ("a stone", "a tree", "a river")


@pytest.mark.parametrize(("cue", "choices", "names"), cases("judging", "traits_of_a_cue"))
def test_a_trait_is_named_by_its_words_else_in_general(
    cue: CueCode, choices: list[str], names: list[str]
) -> None:
    assert sorted({*trait_names(cue, choices, 0)}) == names
    assert set(TRAITS) <= set(CUES)


def test_names_are_counted_by_item_and_the_commonest_stay() -> None:
    items = [Item(f"i{at}", "Which?", ("it is always so, always", "so", "so too"), 0) for at in range(7)]
    items += [Item(f"j{at}", "Which?", ("all of it", "so", "so too"), 0) for at in range(3)]
    items += [Item("k", "Which?", ("only it, entirely, solely", "so", "so too"), 0)]
    found = [(at, 0, "certainty") for at in range(len(items))]
    names = cue_names(items, found, np.arange(len(items)))["certainty"]  # type: ignore[arg-type]
    assert list(names.items())[:2] == [("has “always”", 7), ("has “all”", 3)]
    assert len(names) == MOST_NAMES


def test_words_of_keys_are_named_for_the_cue_of_words() -> None:
    items = [Item(f"i{at}", "Which?", (f"zebra {at}", f"stone {at}", f"tree {at}"), 0) for at in range(40)]
    names = cue_names(items, [(at, 0, "words") for at in range(40)], np.arange(40))
    assert names["words"]["has “zebra”"] == 40


def test_the_strongest_cue_of_the_set_is_that_of_lint() -> None:
    keyed = [
        Item(f"i{at}", f"Which of {at}?", ("the long one", "so", "it"), int(at >= 50)) for at in range(60)
    ]
    whole = whole_cue(keyed)
    assert (whole.rule, whole.keys, whole.n, whole.of) == ("R012", 50, 60, 60)
    assert whole.expected == pytest.approx(20)
    assert whole_cue([Item(f"i{at}", "Which?", OTHERS, at % 3) for at in range(60)]) is None
    assert whole_cue([]) is None


def test_words_of_which_none_stands_out_are_counted_as_what_lint_says_of_the_key() -> None:
    items = [Item(f"i{at}", "Which?", (f"a {w}1", f"a {w}22", f"a {w}33"), 0) for at, w in enumerate("vwxyz")]
    assert cue_names(items, [(at, 0, "words") for at in range(5)], np.arange(5))["words"] == {
        "is the shortest option": 5
    }
    for cue in ("text_votes", "none"):
        assert cue_names(items, [(0, 0, cue)], np.arange(5)) == {cue: {"is the shortest option": 1}}  # type: ignore[list-item]
    alike = [Item("i", "Which?", ("lamp one", "lamp two"), 0)]
    assert cue_names(alike, [(0, 0, "none")], np.arange(1)) == {}
    for cue in ("word_length", "function_words", "shared_words"):
        assert list(trait_names(cue, items[0].choices, 0))
