"""Linear probes: they find what vectors give away, nothing in noise, and stay on few axes."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from robustify.answers import Answer
from robustify.arrays import Floats
from robustify.baselines.artifact_probe import FEWEST_ITEMS
from robustify.baselines.features import standardised
from robustify.baselines.linear_probes import (
    CONTROL,
    FORWARD,
    TEMPLATE,
    UNSCORED_BLOCK,
    VIEW,
    LinearProbeSettings,
    forward_probe,
    linear_probe,
    on_few_axes,
)
from robustify.item import Item
from tests.support.fake_answers import bench, items_of

SETTINGS = LinearProbeSettings()


def made_up(
    n: int, d: int, *, signal: float = 0.0, seed: int = 0, options: tuple[int, ...] = (4,)
) -> tuple[list[Item], Floats]:
    """Items and random vectors; the key's vector is moved by `signal` along one direction."""
    b = bench(n, 1, options=options, seed=seed)
    items = items_of(b, seed=seed)
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(int(b.k.sum()), d))
    towards = rng.normal(size=d)
    vectors[np.cumsum(b.k) - b.k + b.key] += signal * towards / np.linalg.norm(towards)
    return items, vectors


def fitted(items: list[Item], vectors: Floats) -> list[Answer]:
    return linear_probe(items, vectors, "m", SETTINGS)


def right(items: list[Item], vectors: Floats) -> Floats:
    return np.array([r.correct for r in fitted(items, vectors)], dtype=np.float64)


def test_rows_are_answer_rows() -> None:
    items, vectors = made_up(80, 12, options=(2, 4, 5))
    rows = fitted(items, vectors)
    assert [r.item for r in rows] == [i.id for i in items]
    assert {(r.view, r.model, r.template) for r in rows} == {(VIEW, "m", TEMPLATE)}
    assert all(len(r.scores) == i.k and r.key == i.key for r, i in zip(rows, items, strict=True))
    assert all(np.exp(r.scores).sum() == pytest.approx(1) for r in rows)
    assert rows == fitted(items, vectors)
    assert rows != linear_probe(items, vectors, "m", LinearProbeSettings(seed=1))


def test_a_direction_that_gives_the_key_away_is_found() -> None:
    assert right(*made_up(200, 12, signal=4.0)).mean() > 0.8
    assert right(*made_up(200, 300, signal=8.0)).mean() > 0.6


def test_forward_rows_are_of_the_blocks_after_the_second_and_know_no_key_but_those_before() -> None:
    items, vectors = made_up(200, 12, signal=4.0)
    rows = forward_probe(items, vectors, "m", SETTINGS)
    assert {(r.view, r.template) for r in rows} == {(VIEW, FORWARD)}
    missing = [r for r in rows if r.pick is None]
    assert (len(missing), {r.error for r in missing}) == (40, {UNSCORED_BLOCK})
    assert np.mean([r.correct for r in rows if r.pick is not None]) > 0.7
    scored = next(i for i, r in enumerate(rows) if r.pick is not None)
    other = [replace(i, key=(i.key + 1) % 4) if n == scored else i for n, i in enumerate(items)]
    again = forward_probe(other, vectors, "m", SETTINGS)
    assert again[scored].scores == rows[scored].scores, "its own key is never fitted on"
    assert sum(a.scores != b.scores for a, b in zip(rows, again, strict=True)) < 160


@pytest.mark.slow
def test_forward_hits_on_noise_are_those_of_a_coin() -> None:
    shares = []
    for seed in range(150):
        items, vectors = made_up(100, 30, seed=seed)
        rows = forward_probe(items, vectors, "m", SETTINGS)
        shares.append(np.mean([r.correct for r in rows if r.pick is not None]))
    assert np.mean(shares) == pytest.approx(0.25, abs=3 * np.sqrt(0.1875 / 80 / 150))
    assert np.var(shares) == pytest.approx(0.1875 / 80, rel=0.35)


@pytest.mark.parametrize("d", [12, 400])
def test_noise_gives_chance(d: int) -> None:
    """With more columns than items a leak between folds would make noise look solvable."""
    won = np.concatenate([right(*made_up(150, d, seed=seed)) for seed in range(8)])
    assert won.mean() == pytest.approx(0.25, abs=3 * np.sqrt(0.1875 / len(won)))


def test_near_duplicates_are_on_one_side() -> None:
    """Each item five times, with vectors that identify it: seen on both sides, it is learnt by heart."""
    items, vectors = made_up(40, 32)
    copies = [replace(i, id=f"{i.id}-{n}") for n in range(5) for i in items]
    distinct = [replace(i, choices=tuple(f"{c} {n}{j}x" for j, c in enumerate(i.choices)))
                  for n, i in enumerate(copies)]  # fmt: skip
    repeated = np.concatenate([vectors] * 5)
    assert right(copies, repeated).mean() < 0.35
    assert right(distinct, repeated).mean() > 0.4, "the control: a leak would show"


def test_what_all_choices_share_and_their_scale_are_nothing() -> None:
    items, vectors = made_up(100, 12, signal=2.0)
    shift = np.repeat(np.random.default_rng(1).normal(size=(100, 12)), 4, axis=0)
    assert right(items, 7 * vectors + 100 * shift) == pytest.approx(right(items, vectors))
    single = vectors.astype(np.float32)
    assert fitted(items, single) == fitted(items, single.astype(np.float64)), "nor is their precision"


def test_an_item_without_vectors_is_unanswered_and_nobody_else() -> None:
    items, vectors = made_up(80, 8, signal=2.0)
    vectors[4 * 7 + 2] = np.nan
    rows = fitted(items, vectors)
    assert [r.item for r in rows if r.pick is None] == [items[7].id]
    assert rows[7].error == "empty_choice"
    less = [i for n, i in enumerate(items) if n != 7]
    alone = fitted(less, np.delete(vectors, range(28, 32), axis=0))
    assert [r for r in rows if r.pick is not None] == alone


def test_too_few_items_are_unanswered_with_a_reason() -> None:
    items, vectors = made_up(FEWEST_ITEMS - 1, 8)
    rows = fitted(items, vectors)
    assert {(r.pick, r.error) for r in rows} == {
        (None, f"{FEWEST_ITEMS - 1} items; a head needs {FEWEST_ITEMS}")
    }
    assert fitted([], np.zeros((0, 8))) == []
    same = [Item(f"t{i}", "True?", ("yes", "no"), i % 2) for i in range(80)]
    family = fitted(same, np.zeros((160, 3)))
    assert all("near-duplicates" in (r.error or "") for r in family)


def test_vectors_of_equal_choices_tie() -> None:
    items, vectors = made_up(80, 8)
    vectors[:4] = vectors[0]
    assert (fitted(items, vectors)[0].tie, right(items, vectors)[0]) == (4, 0.25)
    flat = fitted(items, np.ones_like(vectors))
    assert {(r.tie, r.correct) for r in flat} == {(4, 0.25)}
    many = fitted(items, np.ones((len(vectors), 300)))
    assert {(r.tie, r.correct) for r in many} == {(4, 0.25)}
    with pytest.raises(ValueError, match=r"319, 8.*320 choices"):
        fitted(items, vectors[:-1])


# the axes


@pytest.mark.parametrize("d", [30, 400])
def test_the_axes_are_the_principal_ones_of_the_training_rows(d: int) -> None:
    rng = np.random.default_rng(3)
    x = standardised(rng.normal(size=(160, d)) * rng.gamma(2, size=d), np.full(40, 4))
    train, test = on_few_axes(x[:120], x[120:], 30)
    _, sizes, axes = np.linalg.svd(x[:120], full_matrices=False)
    scale = np.sqrt(np.mean((x[:120] @ axes[:7].T) ** 2))
    assert train.shape == (120, 7)
    assert np.abs(train) == pytest.approx(np.abs(x[:120] @ axes[:7].T) / scale, abs=1e-6)
    assert np.abs(test) == pytest.approx(np.abs(x[120:] @ axes[:7].T) / scale, abs=1e-6)
    assert (train**2).mean() == pytest.approx(1)
    assert sizes[6] > sizes[7]


def test_few_columns_are_left_alone() -> None:
    x = np.random.default_rng(0).normal(size=(120, 7))
    train, test = on_few_axes(x, x[:4], 30)
    assert train is x
    assert (test == x[:4]).all()
    assert on_few_axes(x, x[:4], 24)[0].shape == (120, 6)


def test_no_more_axes_than_there_is_variance() -> None:
    x = np.zeros((120, 50))
    x[:, 3] = np.random.default_rng(0).normal(size=120)
    train, test = on_few_axes(x, x[:4], 100)
    assert train.shape == (120, 1)
    assert np.abs(test[:, 0]) == pytest.approx(np.abs(x[:4, 3]) / np.sqrt((x[:, 3] ** 2).mean()))


def test_models_are_named_once_and_the_control_by_no_model() -> None:
    from robustify.engines.settings import HFModel

    with pytest.raises(ValidationError, match="twice"):
        LinearProbeSettings(models=("m", "m"))
    with pytest.raises(ValidationError):
        HFModel(name="m" + CONTROL)
