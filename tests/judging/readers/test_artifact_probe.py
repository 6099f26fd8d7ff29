"""The artifact probe: it finds what is planted, nothing where there is nothing, and never sees a stem."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from robustify.items.item import Item
from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS
from robustify.judging.baselines.features import matrix, standardised
from robustify.judging.readers.reader_rows import NAME, TEMPLATE, VIEW, ProbeSettings, probe

SETTINGS = ProbeSettings()

Cue = str
CUES: tuple[Cue, ...] = ("longer_key", "absolutes", "repeated_phrase", "format")
STARTS, ENDS = (
    ("ba", "co", "du", "fi", "ge", "lo", "mu", "ne", "pa", "ri"),
    ("lan", "mir", "tor", "vel", "sun"),
)
NOUNS = [a + b for a in STARTS for b in ENDS]


def _phrase(rng: np.random.Generator, n: int) -> list[str]:
    return [str(w) for w in rng.choice(NOUNS, size=n)]


def made_up(rng: np.random.Generator, name: str, cue: Cue | None = None, k: int = 4) -> Item:
    """An item of meaningless words with a random key and, if asked for, one cue that gives it away."""
    key = int(rng.integers(k))
    choices = [_phrase(rng, int(rng.integers(3, 7))) for _ in range(k)]
    match cue:
        case "longer_key":
            choices[key] += _phrase(rng, 6)
        case "absolutes":
            for j in range(k):
                if j != key:
                    choices[j].insert(1, str(rng.choice(["always", "never", "only"])))
        case "repeated_phrase":
            shared = _phrase(rng, 2)
            for j in range(k):
                choices[j] = _phrase(rng, 4) if j == key else shared + _phrase(rng, 2)
        case "format":
            choices[key][-1] += "."
    return Item(name, f"Question {name}?", tuple(map(" ".join, choices)), key)


def a_set(seed: int, n: int, share: float = 0.0) -> list[Item]:
    """n items, the first `share` of them with cues in turn."""
    rng = np.random.default_rng(seed)
    return [made_up(rng, f"s{seed}-{i}", CUES[i % 4] if i < share * n else None) for i in range(n)]


def right(items: list[Item]) -> npt.NDArray[np.float64]:
    return np.array([row.correct for row in probe(items, SETTINGS)], dtype=np.float64)


@pytest.mark.parametrize("cue", CUES)
def test_each_kind_of_cue_is_found_alone(cue: Cue) -> None:
    rng = np.random.default_rng(7)
    items = [made_up(rng, f"{cue}-{i}", cue if i % 2 else None) for i in range(200)]
    assert right(items)[1::2].mean() > 0.75
    assert right(items)[::2].mean() < 0.25 + 3 * np.sqrt(0.1875 / 100)


@pytest.mark.slow
def test_random_choices_give_chance() -> None:
    """Ten clean sets: a leak between folds would lift the mean far above 0.25 (standard error 0.009)."""
    won = np.concatenate([right(a_set(seed, 240)) for seed in range(10)])
    assert won.mean() == pytest.approx(0.25, abs=0.03)


def test_rows_are_answer_rows() -> None:
    items = a_set(4, 80)
    rows = probe(items, SETTINGS)
    assert [r.item for r in rows] == [i.id for i in items]
    assert {(r.view, r.model, r.template) for r in rows} == {(VIEW, NAME, TEMPLATE)}
    assert all(np.exp(r.scores).sum() == pytest.approx(1) for r in rows)
    assert all(r.pick == int(np.argmax(r.scores)) for r in rows)
    assert all(r.order == tuple(range(i.k)) and r.key == i.key for r, i in zip(rows, items, strict=True))
    assert rows == probe(items, SETTINGS)


def test_neither_stem_nor_place_is_read() -> None:
    items = a_set(5, 80, share=0.5)
    blind = [replace(i, stem="?", topic="t") for i in items]
    assert (matrix(items) == matrix(blind)).all()
    first = [i.permuted([i.key, *(j for j in range(i.k) if j != i.key)]) for i in items]
    assert right(first) == pytest.approx(right(items))


def test_choices_that_do_not_differ_tie() -> None:
    items = a_set(9, 80)
    same = replace(items[0], id="same", choices=("balan", "balan", "balan", "balan"))
    row = probe([*items, same], SETTINGS)[-1]
    assert (row.tie, row.correct) == (4, 0.25)


def test_too_few_items_are_unanswered_with_a_reason() -> None:
    items = a_set(10, FEWEST_ITEMS - 1)
    rows = probe(items, SETTINGS)
    assert all(r.pick is None and r.correct is None and not r.scores for r in rows)
    assert rows[0].error == f"{FEWEST_ITEMS - 1} items; the probe needs {FEWEST_ITEMS}"
    assert probe([], SETTINGS) == []


def test_near_duplicates_alone_cannot_be_cross_fitted() -> None:
    items = [Item(f"t{i}", "True?", ("yes", "no"), i % 2) for i in range(80)]
    rows = probe(items, SETTINGS)
    assert all(r.pick is None for r in rows)
    assert "near-duplicates" in (rows[0].error or "")


# --- features ---


def test_standardised_by_hand() -> None:
    raw = np.array([[1.0, 5.0], [3.0, 5.0], [0.0, 1.0], [0.0, 2.0], [3.0, 3.0]])
    z = standardised(raw, np.array([2, 3]))
    half, high = 1 / np.sqrt(2), np.sqrt(1.5)
    assert z == pytest.approx(np.array([[-1, 0], [1, 0], [-half, -high], [-half, 0], [2 * half, high]]))
