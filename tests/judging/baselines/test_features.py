"""The amounts of options by hand, and those of many items as of each alone."""

import re
import sys
import weakref
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.items.item import Item
from robustify.judging.baselines import features, option_texts, wording
from robustify.judging.baselines.features import NAMES, amounts, standardised
from robustify.judging.baselines.heuristics import guess
from tests.support.cases import contents


@pytest.mark.parametrize("name", NAMES)
def test_each_amount_by_hand(name: str) -> None:
    choices, expected = contents("judging")["amounts"][name]
    found = amounts([Item("i", "?", tuple(choices), 0)])
    assert found[:, NAMES.index(name)] == pytest.approx(expected)


SPOKEN = st.sampled_from(
    ["all of the above", "None of these.", "both of them are right", "Always", "may often be", "3,5 mg", "never 12",
     "(a, b)", "RED", "the red cat", "the cat", "a–b", "  outer  ", "it's", "Straße", "the following options",
     "any of the preceding", "Neither", "ſome of theſe", "3 mg", "12 or 3",
     "\0 nul", "²", "٣", "a-b c", "1.2.3", "don't--do", "a_b"]
)  # fmt: skip
texts = st.one_of(SPOKEN, st.text(max_size=10), st.lists(SPOKEN, max_size=3).map(" ".join))
made_up = st.lists(
    st.tuples(
        st.lists(texts, min_size=2, max_size=7), st.text(min_size=1).filter(str.strip), st.integers(0, 99)
    ),
    max_size=6,
).map(
    lambda rows: [
        Item(f"i{n}", stem, tuple(choices), key % len(choices)) for n, (choices, stem, key) in enumerate(rows)
    ]
)


@settings(deadline=None, max_examples=20)
@given(made_up, st.sampled_from([1, 2, 2000]))
def test_of_many_items_each_is_measured_as_alone_to_the_bit(items: list[Item], chunk: int) -> None:
    alone = [amounts([item]) for item in items]
    guessed = [row for item in items for row in guess([item]).table.to_pylist()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(option_texts, "CHUNK", chunk)
        together = amounts(items)
        rows = guess(items).table.to_pylist()
    assert np.isfinite(together).all()
    assert together.tobytes() == np.concatenate([np.zeros((0, len(NAMES))), *alone]).tobytes()

    def of_texts(rows: list[dict[str, object]]) -> set[str]:
        return {repr(row) for row in rows if row["model"] != "most_common_position"}

    assert of_texts(rows) == of_texts(guessed)


def test_every_letter_of_the_first_look_is_found_in_any_case_that_re_takes_for_it() -> None:
    # `re` ignores case in its own way; what it takes for a letter of these parts, case folding must turn into it.
    letters = sorted(set(wording._POINTING.pattern) - {"|"})
    assert "i" not in letters
    assert "".join(letters).isalpha()
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    for letter in letters:
        same = set(re.findall(letter, every, re.IGNORECASE))
        assert {one.casefold() for one in same} == {letter}


def test_the_words_of_a_chunk_are_let_go_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    alive = weakref.WeakSet[option_texts.OptionTexts]()

    def watched(items: Sequence[Item]) -> Iterator[option_texts.OptionTexts]:
        for start in range(0, len(items), 10):
            part = option_texts.OptionTexts(items[start : start + 10])
            alive.add(part)
            assert len(alive) <= 2, "all words of a large set are held at once"
            yield part

    items = [Item(f"i{at}", f"stem {at}?", (f"red {at}", "blue, or so"), at % 2) for at in range(60)]
    expected = amounts(items)
    monkeypatch.setattr(features, "chunks", watched)
    np.testing.assert_array_equal(amounts(items), expected)


def test_standardised_by_hand() -> None:
    raw = np.array([[1.0, 5.0], [3.0, 5.0], [0.0, 1.0], [0.0, 2.0], [3.0, 3.0]])
    z = standardised(raw, np.array([2, 3]))
    half, high = 1 / np.sqrt(2), np.sqrt(1.5)
    assert z == pytest.approx(np.array([[-1, 0], [1, 0], [-half, -high], [-half, 0], [2 * half, high]]))
