"""The table of readers: each finds its own cue and none in random keys, and no fit sees the keys that it predicts."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from robustify.base.arrays import Floats, Ints
from robustify.base.errors import UsageError
from robustify.composing.choosing import Choosing
from robustify.composing.composed_set import compose
from robustify.composing.pool import make_pool
from robustify.composing.proof import AFTER, BEFORE, prove
from robustify.items.item import Item
from robustify.items.scoring import credit
from robustify.judging.readers import READERS, Reader, ReaderFits, independent_readers
from robustify.judging.readers.fits import conditional_logit, nested_cross_fit
from tests.support.cases import contents

SYLLABLES = ["ba", "do", "fi", "gu", "ka", "le", "mo", "nu", "pe", "ri", "so", "tu", "va", "we", "xo", "zi"]
FROM_TEXT = [name for name, reader in READERS.items() if not reader.encoded]
Cue = Callable[[str], str]


def _word(draw: np.random.Generator) -> str:
    return "".join(draw.choice(SYLLABLES, 3))


def items_with(cue: Cue, share: float = 0.5, n: int = 240, seed: int = 0) -> list[Item]:
    """Three options of made-up words; in a share of the items, the key alone is changed by the cue."""
    draw, items = np.random.default_rng(seed), []
    for at in range(n):
        options = [" ".join(_word(draw) for _ in range(4)) for _ in range(3)]
        key = int(draw.integers(3))
        if draw.random() < share:
            options[key] = cue(options[key])
        items.append(Item(f"i{at}", f"Question {at}?", tuple(options), key))
    return items


def mixed(n: int = 80) -> list[Item]:
    """Items of two to five options, without any random number."""
    items = []
    for at in range(n):
        k, key = 2 + at * 7 % 4, at * 5 % (2 + at * 7 % 4)
        words = [
            " ".join(
                SYLLABLES[(3 * at + (5 + at) * j + m) % 16] + SYLLABLES[(at + j * m) % 16]
                for m in range(size)
            )
            for j, size in zip(range(k), (2, 3, 4, 2, 3), strict=False)
        ]
        words[key] += ", mo" * (at % 3 == 0)
        items.append(Item(f"m{at}", f"Which of {at}?", tuple(words), key))
    return items


def vectors_of(items: list[Item]) -> Floats:
    """Vectors of unit length in which the key of an item is marked, without any random number."""
    rows = [
        np.sin(np.arange(1, 9) * (1 + at + 2 * j)) + 0.8 * (j == item.key) * (np.arange(8) == 0)
        for at, item in enumerate(items)
        for j in range(item.k)
    ]
    return np.asarray(np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True))


def logits_of(name: str, items: list[Item], fold: Ints, vectors: Floats | None = None) -> Floats:
    return ReaderFits(READERS[name], items, vectors if READERS[name].encoded else None).logits(fold)


def gain(items: list[Item], name: str, vectors: Floats | None = None) -> tuple[float, float]:
    """The gain in accuracy over chance, 1 in 3, and its standard error."""
    logits = logits_of(name, items, np.arange(len(items)) % 4, vectors)
    found = (
        credit(logits == logits.max(axis=1, keepdims=True), np.array([item.key for item in items])) - 1 / 3
    )
    return float(found.mean()), float(found.std() / np.sqrt(len(items)))


CUES: dict[str, Cue] = {
    "probe": lambda text: f"{text}, bado",
    "form": lambda text: f"{text}, bado",
    "words": lambda text: f"quartz {text[7:]}",
    "characters": lambda text: text[:2] + "qz" + text[4:],
}


@pytest.mark.parametrize("name", FROM_TEXT)
def test_each_reader_finds_its_own_cue_and_none_finds_one_in_random_keys(name: str) -> None:
    assert gain(items_with(CUES[name]), name)[0] > 0.15
    by_chance, error = gain(items_with(CUES[name], share=0), name)
    assert by_chance <= 2 * error


def test_meaning_is_found_in_the_vectors() -> None:
    items = items_with(str)
    vectors = np.random.default_rng(1).normal(size=(720, 40))
    by_chance, error = gain(items, "meaning", vectors)
    assert by_chance <= 2 * error
    vectors[np.arange(240) * 3 + [item.key for item in items], 7] += 2
    assert gain(items, "meaning", vectors)[0] > 0.15


@pytest.mark.parametrize("name", READERS)
def test_logits_are_what_they_were(name: str) -> None:
    items = mixed()
    logits = logits_of(name, items, np.arange(80) % 5, vectors_of(items))
    assert logits.shape == (80, 5)
    # A logistic regression stops when its slope is small, which rounding may do one step earlier.
    rounding = 1e-6 if name in ("words", "characters") else 1e-9
    assert logits[[3, 42]] == pytest.approx(
        np.array(contents("judging")["logits_of_readers"][name]), abs=rounding
    )


@pytest.mark.parametrize("name", READERS)
def test_the_key_of_an_item_moves_no_logit_of_its_fold(name: str) -> None:
    items, fold = mixed(), np.arange(80) % 5
    vectors = vectors_of(items)
    other = [
        item.with_choices(item.choices, (item.key + 1) % item.k) if at == 7 else item
        for at, item in enumerate(items)
    ]
    before, after = (logits_of(name, some, fold, vectors) for some in (items, other))
    assert np.array_equal(before[fold == 2], after[fold == 2])
    assert not np.array_equal(before[fold != 2], after[fold != 2])
    nested = [
        nested_cross_fit(
            ReaderFits(READERS[name], some, vectors if READERS[name].encoded else None).predict, fold
        )
        for some in (items, other)
    ]
    assert np.array_equal(nested[0][2], nested[1][2])
    assert np.array_equal(nested[0][:, fold == 2], nested[1][:, fold == 2])


def test_a_nested_fit_of_a_fold_is_the_fit_without_it_and_without_the_predicted_fold() -> None:
    items, fold = mixed(), np.arange(80) % 4 * 3
    reading = ReaderFits(READERS["probe"], items)
    nested = nested_cross_fit(reading.predict, fold)
    assert nested.shape == (4, 80, 5)
    assert np.array_equal(nested[np.searchsorted([0, 3, 6, 9], fold), np.arange(80)], reading.cross_fit(fold))
    for unseen, predicted in ((1, 2), (3, 0)):
        train, test = ~np.isin(fold, (3 * unseen, 3 * predicted)), fold == 3 * predicted
        np.testing.assert_allclose(nested[unseen, test], reading.predict(train, test), atol=1e-12)


@pytest.mark.parametrize("name", FROM_TEXT)
def test_a_fit_learns_from_a_sample_and_only_from_known_keys(name: str) -> None:
    items, fold = items_with(CUES[name]), np.arange(240) % 4
    every = ReaderFits(READERS[name], items).cross_fit(fold)
    few = ReaderFits(replace(READERS[name], most=20), items).cross_fit(fold)
    assert np.abs(few).mean() != pytest.approx(np.abs(every).mean(), rel=0.05)
    key = np.array([item.key for item in items])
    unknown = np.arange(240) % 3 == 0
    one, two = (
        ReaderFits(READERS[name], [item.with_choices(item.choices, (item.key + hidden * step) % 3)
                for item, hidden in zip(items, unknown.tolist(), strict=True)], key=np.where(unknown, -1, key)).logits(fold)
        for step in (0, 1)
    )  # fmt: skip
    assert np.array_equal(one, two)


def test_too_few_items_in_the_other_folds_are_not_predicted() -> None:
    items = mixed(60)
    logits = logits_of("form", items, np.arange(60) // 40)
    assert np.isnan(logits[:40, :2]).all()
    assert not np.isnan(logits[40:]).any()
    assert np.isnan(logits_of("words", items, np.zeros(60, dtype=np.int64))[:, 0]).all()


def test_options_that_share_no_word_tell_readers_nothing() -> None:
    items = [
        Item(f"i{at}", "Which?", (f"{chr(0x4E00 + 2 * at)}", f"{chr(0x4E01 + 2 * at)}"), 0)
        for at in range(60)
    ]
    for name in FROM_TEXT:
        assert np.abs(logits_of(name, items, np.arange(60) % 3)).max() == 0


def test_the_same_items_give_the_same_bytes_whatever_the_number_of_threads() -> None:
    items, fold = mixed(), np.arange(80) % 3

    def once(threads: int, name: str) -> bytes:
        with threadpool_limits(threads):
            return ReaderFits(READERS[name], items).logits(fold).tobytes()

    for name in ("form", "words", "characters"):
        assert once(1, name) == once(2, name)


def _ends_in_vowel(items: object, _: object) -> Floats:
    ends = [[float(text[-1] in "aeiou") for text in item.choices] for item in items]  # type: ignore[attr-defined]
    return np.array(ends)[:, :, None]


def test_a_reader_that_is_added_to_the_table_audits_composed_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, "last letter", Reader(_ends_in_vowel, conditional_logit(1.0)))
    items = items_with(lambda text: text + "n", share=0.8, n=120)
    assert gain(items, "last letter")[0] > 0.4
    assert independent_readers() == ["characters", "meaning", "last letter"]
    with pytest.raises(UsageError, match="characters, meaning, last letter"):
        compose(items, [make_pool(item) for item in items], Choosing(), lambda _: None, ["probe"])
    found = prove({BEFORE: items, AFTER: items}, {"last letter": True}, lambda _: None)
    assert (found.worst.name, found.hidden) == ("last letter", "failed")
