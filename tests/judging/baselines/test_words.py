"""Words and letter sequences: the columns are those of a plain count, and a scorer on them finds what nobody listed."""

import re
from collections import Counter

import numpy as np
import pytest

from robustify.base.texts import folded
from robustify.items.item import Item
from robustify.judging.baselines.words import FEWEST_OPTIONS, LEAST, LENGTHS, KeyWords, columns, score_test
from robustify.judging.readers.fits import OptionTable
from tests.support.fake_answers import WORDS, bench, items_of


def plain(text: str) -> set[str]:
    marked = f"\x02{folded(text)}\x03"
    sequences = {marked[i : i + n] for n in LENGTHS for i in range(len(marked) - n + 1)}
    return sequences | {f"word {w}" for w in re.findall(r"[^\W_]+", folded(text))}


def test_columns_are_those_of_a_plain_count() -> None:
    items = items_of(bench(40, 1, options=(2, 5), seed=1), seed=1)
    odd = Item("odd", "stem", ("Straße 3-4, Ünï\U0001f600", "", "?!", "naïve_word"), 0)
    texts = [c for item in (*items, odd, odd, odd) for c in item.choices]
    present = columns([*items, odd, odd, odd], 3)
    options = Counter(one for text in texts for one in plain(text))
    wanted = [sum(options[one] >= 3 for one in plain(text)) for text in texts]
    # Two of them may share a column, which then more options hold.
    assert present.sum(axis=1) == pytest.approx(np.array(wanted), abs=2)
    assert present.shape[1] == pytest.approx(sum(n >= 3 for n in options.values()), abs=3)
    together = (present @ present.T).toarray()
    assert together[0, 1] == len({w for w in plain(texts[0]) & plain(texts[1]) if options[w] >= 3})


@pytest.mark.parametrize("cued", [True, False])
def test_an_ending_that_nobody_listed_is_found(cued: bool) -> None:
    b = bench(200, 1, seed=3)
    rng = np.random.default_rng(3)
    stems = np.array(["paint", "plant", "cook", "read", "walk", "row", "sing", "rest", "camp", "fish"])
    items = [
        Item(
            name,
            "stem",
            tuple(f"{rng.choice(stems)}{'ing' if cued and j == key else rng.choice(['er', 'ed', 's'])}" for j in range(4)),
            int(key),
        )
        for name, key in zip(b.ids, b.key, strict=True)
    ]  # fmt: skip
    x, options = columns(items, FEWEST_OPTIONS), OptionTable.from_items(items)
    learn, fold = score_test(x, options), np.repeat(np.arange(200) % 5, 4)
    logits = np.zeros((800, len(LEAST)))
    for f in range(5):
        logits[fold == f] = learn(np.arange(200) % 5 != f).logits(x[np.flatnonzero(fold == f)])
    for column in logits.T:
        # Without any association that counts, all options are alike and the first is taken.
        right = (column.reshape(200, 4).argmax(axis=1) == b.key).mean()
        assert right > 0.9 if cued else right < 0.36


def test_only_items_that_are_known_are_fitted_on() -> None:
    b = bench(100, 1, seed=4)
    items = items_of(b, seed=4)
    x, known, train = columns(items, FEWEST_OPTIONS), np.arange(100) < 60, np.arange(100) % 2 == 0
    models = [
        score_test(x, OptionTable(b.k, key))(train)
        for key in (np.where(known, b.key, -1), np.where(known, b.key, b.key - 4))
    ]
    assert (models[0].logits(x) == models[1].logits(x)).all()
    other = score_test(x, OptionTable(b.k, np.where(train, b.key, (b.key + 1) % 4)))(train)
    every = score_test(x, OptionTable(b.k, b.key))(train)
    assert (other.logits(x) == every.logits(x)).all()


# Words that stand in keys: named only where chance does not explain them


def marked(n: int, *, key_word: str, others_word: str = "") -> list[Item]:
    """n items whose key holds one word and whose other options hold another one."""
    rng = np.random.default_rng(0)
    items = []
    for at, key in enumerate(rng.integers(4, size=n).tolist()):
        texts = (f"{rng.choice(WORDS)} {key_word if j == key else others_word} {at}{j}" for j in range(4))
        items.append(Item(f"i{at}", f"Which box is number {at}?", tuple(texts), key))
    return items


def test_a_word_that_marks_keys_is_found_and_the_item_itself_does_not_count() -> None:
    items = marked(12, key_word="zebra")
    (use,) = [u for u in KeyWords(items, np.arange(12)).supporting(3, items[3].key) if u.word == "zebra"]
    assert (use.picked, use.items, use.keys, use.expected) == (True, 11, 11, 11 / 4)
    assert use.p < 1e-5
    # The group of an item does not count.
    assert not KeyWords(items, np.zeros(12, dtype=np.int64)).supporting(3, items[3].key)


def test_a_word_that_marks_other_options_speaks_for_the_option_without_it() -> None:
    items = marked(12, key_word="", others_word="zebra")
    (use,) = [u for u in KeyWords(items, np.arange(12)).supporting(3, items[3].key) if u.word == "zebra"]
    assert (use.picked, use.items, use.keys) == (False, 11, 0)
    assert use.expected == 11 * 3 / 4
    other = (items[3].key + 1) % 4
    assert not [u for u in KeyWords(items, np.arange(12)).supporting(3, other) if u.word == "zebra"]


def test_words_that_mark_nothing_are_seldom_named() -> None:
    rng = np.random.default_rng(1)
    items = []
    for at in range(400):
        texts = tuple(" ".join(rng.choice(WORDS, 3)) + f" {at}{j}" for j in range(4))
        items.append(Item(f"i{at}", "Which box?", texts, int(rng.integers(4))))
    words = KeyWords(items, np.arange(len(items)))
    named = sum(bool(words.supporting(at, int(rng.integers(4)))) for at in range(400))
    # Family-wise 5 % by item; the tests of one word in many items go together, so the bound is loose.
    assert named <= 60
