"""Fresh probes: each kind finds its own cue, none finds one in random keys, and the same input gives the same bytes."""

from collections.abc import Callable

import numpy as np
import pytest
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from robustify.base.arrays import Floats
from robustify.items.item import Item
from robustify.items.scoring import credit
from robustify.judging.audit import probing
from robustify.judging.audit.probing import FROM_TEXT, Kind, gains, probed
from robustify.judging.stats.tests import holm

SYLLABLES = ["ba", "do", "fi", "gu", "ka", "le", "mo", "nu", "pe", "ri", "so", "tu", "va", "we", "xo", "zi"]
Cue = Callable[[str], str]


def _word(draw: np.random.Generator) -> str:
    return "".join(draw.choice(SYLLABLES, 3))


def items_with(cue: Cue, share: float = 0.5, n: int = 240, seed: int = 0) -> list[Item]:
    """Three options of made-up words; in a share of the items, the key alone is changed by the cue."""
    draw, made = np.random.default_rng(seed), []
    for at in range(n):
        options = [" ".join(_word(draw) for _ in range(4)) for _ in range(3)]
        key = int(draw.integers(3))
        if draw.random() < share:
            options[key] = cue(options[key])
        made.append(Item(f"i{at}", f"Question {at}?", tuple(options), key))
    return made


def gain(items: list[Item], kind: Kind, vectors: Floats | None = None) -> tuple[float, float]:
    fold = np.arange(len(items)) % 4
    logits = probed(items, fold, [kind], vectors=vectors)[kind]
    key = np.array([item.key for item in items])
    found = gains({kind: credit(logits == logits.max(axis=1, keepdims=True), key)}, np.full(len(items), 3))
    return found[kind].value or 0.0, found[kind].p


CUES: dict[Kind, Cue] = {
    "form": lambda text: f"{text}, bado",
    "words": lambda text: f"quartz {text[7:]}",
    "characters": lambda text: text[:2] + "qz" + text[4:],
}


@pytest.mark.parametrize("kind", CUES)
def test_each_kind_of_probe_finds_its_own_cue_and_none_finds_one_in_random_keys(kind: Kind) -> None:
    assert gain(items_with(CUES[kind]), kind)[0] > 0.15
    assert gain(items_with(CUES[kind], share=0), kind)[1] > 0.05


def test_meaning_is_found_in_the_vectors_and_left_out_without_them() -> None:
    items = items_with(str)
    draw = np.random.default_rng(1)
    vectors = draw.normal(size=(720, 40))
    assert gain(items, "meaning", vectors)[1] > 0.05
    vectors[np.arange(240) * 3 + [item.key for item in items], 7] += 2
    assert gain(items, "meaning", vectors)[0] > 0.15
    assert list(probed(items, np.arange(240) % 2, ["meaning", "words"])) == ["words"]


def test_no_fit_sees_the_keys_that_it_predicts_or_too_many_items(monkeypatch: pytest.MonkeyPatch) -> None:
    items = items_with(CUES["words"])
    fold = np.arange(240) % 4
    plain = probed(items, fold, ["words"])["words"]
    other = [Item(i.id, i.stem, i.choices, (i.key + int(fold[at] == 0)) % 3) for at, i in enumerate(items)]
    assert np.array_equal(probed(other, fold, ["words"])["words"][fold == 0], plain[fold == 0])
    monkeypatch.setattr(probing, "MOST_LEARNED", 20)
    few = probed(items, fold, ["words"])["words"]
    assert np.abs(few).mean() < 0.7 * np.abs(plain).mean()


def test_options_that_share_no_word_tell_probes_nothing() -> None:
    items = [
        Item(f"i{at}", "Which?", (f"{chr(0x4E00 + 2 * at)}", f"{chr(0x4E01 + 2 * at)}"), 0)
        for at in range(60)
    ]
    found = probed(items, np.arange(60) % 3)
    assert {kind: float(np.abs(logits).max()) for kind, logits in found.items()} == dict.fromkeys(
        FROM_TEXT, 0.0
    )


def test_the_same_items_give_the_same_bytes_whatever_the_number_of_threads() -> None:
    items = items_with(CUES["form"], n=90)
    items += [Item("two", "Two?", ("bado", "fi gu"), 1), Item("five", "Five?", tuple("abcde"), 4)]
    fold = np.arange(len(items)) % 3

    def once(threads: int) -> dict[str, bytes]:
        with threadpool_limits(threads):
            return {kind: logits.tobytes() for kind, logits in probed(items, fold).items()}

    assert set(once(1)) == set(FROM_TEXT)
    assert once(1) == once(2)


def test_gains_count_groups_and_leave_out_unanswered_items() -> None:
    draw = np.random.default_rng(0)
    won = (draw.random(400) < 0.45).astype(float)
    missing = np.where(np.arange(400) < 100, np.nan, won)
    found = gains({"a": won, "b": missing, "none": np.full(400, np.nan)}, np.full(400, 4))
    assert list(found) == ["a", "b"]
    a = found["a"]
    assert (a.n, found["b"].n, a.chance) == (400, 300, 0.25)
    assert a.value == pytest.approx(won.mean() - 0.25)
    assert [found[x].p_holm for x in "ab"] == holm([found[x].p for x in "ab"])
    error = np.sqrt(won.var() / 400)
    assert a.ci == pytest.approx((a.value - 1.96 * error, a.value + 1.96 * error), abs=1e-4)
    copies = gains({"a": np.tile(won, 2)}, np.full(800, 4), groups=np.tile(np.arange(400), 2))["a"]
    assert copies.ci == pytest.approx(a.ci)
    assert a.power is not None
    many = gains({"a": np.tile(won, 25)}, np.full(10_000, 4))["a"].power
    assert many is not None
    assert many > 0.9 > 0.3 > a.power


def test_an_auditor_that_is_always_right_or_always_wrong_is_told_from_luck() -> None:
    k = np.full(60, 4)
    found = gains({"right": np.ones(60), "wrong": np.zeros(60), "lucky": np.full(60, 0.25)}, k)
    assert found["right"].p_holm < 1e-9
    assert found["right"].ci[0] > 0.6
    assert found["wrong"].p > 0.99
    assert found["lucky"].p == 0.5
    (passage,) = gains({"right": np.ones(60)}, k, groups=np.zeros(60, dtype=np.int64)).values()
    assert passage.p > 0.01, "the items of one passage are one observation"
