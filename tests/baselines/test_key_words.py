"""Words that stand in keys: counted without the item itself, and named only where chance does not explain them."""

import numpy as np

from robustify.baselines.words import KeyWords
from robustify.item import Item
from tests.support.fake_answers import WORDS


def marked(n: int, *, key_word: str, others_word: str = "") -> list[Item]:
    """n items whose key holds one word and whose other options hold another one."""
    rng = np.random.default_rng(0)
    items = []
    for at in range(n):
        key = int(rng.integers(4))
        texts = [
            f"{WORDS[int(rng.integers(12))]} {key_word if j == key else others_word} {at}{j}"
            for j in range(4)
        ]
        items.append(Item(f"i{at}", f"Which box is number {at}?", tuple(texts), key))
    return items


def alone(items: list[Item]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(len(items))


def test_a_word_that_marks_keys_is_found_and_the_item_itself_does_not_count() -> None:
    items = marked(12, key_word="zebra")
    (use,) = [u for u in KeyWords(items, alone(items)).of(3, items[3].key) if u.word == "zebra"]
    assert (use.picked, use.items, use.keys, use.expected) == (True, 11, 11, 11 / 4)
    assert use.p < 1e-5


def test_a_word_that_marks_other_options_speaks_for_the_option_without_it() -> None:
    items = marked(12, key_word="", others_word="zebra")
    (use,) = [u for u in KeyWords(items, alone(items)).of(3, items[3].key) if u.word == "zebra"]
    assert (use.picked, use.items, use.keys) == (False, 11, 0)
    assert use.expected == 11 * 3 / 4
    other = (items[3].key + 1) % 4
    assert not [u for u in KeyWords(items, alone(items)).of(3, other) if u.word == "zebra"]


def test_the_items_of_its_group_do_not_count() -> None:
    items = marked(12, key_word="zebra")
    uses = KeyWords(items, np.zeros(12, dtype=np.int64)).of(3, items[3].key)
    assert not uses


def test_words_that_mark_nothing_are_seldom_named() -> None:
    rng = np.random.default_rng(1)
    items = []
    for at in range(400):
        texts = tuple(" ".join(rng.choice(WORDS, 3)) + f" {at}{j}" for j in range(4))
        items.append(Item(f"i{at}", "Which box?", texts, int(rng.integers(4))))
    words = KeyWords(items, alone(items))
    named = sum(bool(words.of(at, int(rng.integers(4)))) for at in range(400))
    # Family-wise 5 % by item; the tests of one word in many items go together, so the bound is loose.
    assert named <= 60
