"""Linear heads: they find what vectors give away, nothing in noise, and stay on few axes."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from robustify.arrays import Floats
from robustify.baselines.artifact_probe import FEWEST_ITEMS
from robustify.baselines.features import standardised
from robustify.baselines.linear_probes import (
    CONTROL,
    TEMPLATE,
    VIEW,
    LinearProbeSettings,
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


def right(items: list[Item], vectors: Floats, settings: LinearProbeSettings = SETTINGS) -> Floats:
    return np.array([r.correct for r in linear_probe(items, vectors, "m", settings)], dtype=np.float64)


def test_rows_are_answer_rows() -> None:
    items, vectors = made_up(80, 12, options=(2, 4, 5))
    rows = linear_probe(items, vectors, "m", SETTINGS)
    assert [r.item for r in rows] == [i.id for i in items]
    assert {(r.view, r.model, r.template) for r in rows} == {(VIEW, "m", TEMPLATE)}
    assert all(len(r.scores) == i.k and r.key == i.key for r, i in zip(rows, items, strict=True))
    assert all(np.exp(r.scores).sum() == pytest.approx(1) for r in rows)
    assert rows == linear_probe(items, vectors, "m", SETTINGS)
    assert rows != linear_probe(items, vectors, "m", LinearProbeSettings(seed=1))


def test_a_direction_that_gives_the_key_away_is_found() -> None:
    assert right(*made_up(200, 12, signal=4.0)).mean() > 0.8
    assert right(*made_up(200, 300, signal=8.0)).mean() > 0.6


@pytest.mark.parametrize("d", [12, 400])
def test_noise_gives_chance(d: int) -> None:
    """With more columns than items a leak between folds would make noise look solvable."""
    won = np.concatenate([right(*made_up(150, d, seed=seed)) for seed in range(8)])
    assert won.mean() == pytest.approx(0.25, abs=3 * np.sqrt(0.1875 / len(won)))


def test_near_duplicates_are_on_one_side() -> None:
    """Each item five times, with vectors that identify it: seen on both sides, it is learnt by heart."""
    items, vectors = made_up(40, 32)
    copies = [replace(i, id=f"{i.id}-{n}") for n in range(5) for i in items]
    told_apart = [replace(i, choices=tuple(f"{c} {n}{j}x" for j, c in enumerate(i.choices)))
                  for n, i in enumerate(copies)]  # fmt: skip
    repeated = np.concatenate([vectors] * 5)
    assert right(copies, repeated).mean() < 0.35
    assert right(told_apart, repeated).mean() > 0.4, "the control: a leak would show"


def test_what_all_choices_share_and_their_scale_are_nothing() -> None:
    items, vectors = made_up(100, 12, signal=2.0)
    shift = np.repeat(np.random.default_rng(1).normal(size=(100, 12)), 4, axis=0)
    assert right(items, 7 * vectors + 100 * shift) == pytest.approx(right(items, vectors))


def test_single_precision_is_read_as_it_is() -> None:
    items, vectors = made_up(80, 8, signal=2.0)
    single = vectors.astype(np.float32)
    rows = linear_probe(items, single, "m", SETTINGS)
    assert rows == linear_probe(items, single.astype(np.float64), "m", SETTINGS)


def test_an_item_without_vectors_is_unanswered_and_nobody_else() -> None:
    items, vectors = made_up(80, 8, signal=2.0)
    vectors[4 * 7 + 2] = np.nan
    rows = linear_probe(items, vectors, "m", SETTINGS)
    assert [r.item for r in rows if r.pick is None] == [items[7].id]
    assert rows[7].error == "empty_choice"
    less = [i for n, i in enumerate(items) if n != 7]
    alone = linear_probe(less, np.delete(vectors, range(28, 32), axis=0), "m", SETTINGS)
    assert [r for r in rows if r.pick is not None] == alone


def test_too_few_items_are_unanswered_with_a_reason() -> None:
    items, vectors = made_up(FEWEST_ITEMS - 1, 8)
    rows = linear_probe(items, vectors, "m", SETTINGS)
    assert {(r.pick, r.error) for r in rows} == {
        (None, f"{FEWEST_ITEMS - 1} items; a head needs {FEWEST_ITEMS}")
    }
    assert linear_probe([], np.zeros((0, 8)), "m", SETTINGS) == []
    same = [Item(f"t{i}", "True?", ("yes", "no"), i % 2) for i in range(80)]
    family = linear_probe(same, np.zeros((160, 3)), "m", SETTINGS)
    assert all("near-duplicates" in (r.error or "") for r in family)


def test_vectors_of_equal_choices_tie() -> None:
    items, vectors = made_up(80, 8)
    vectors[:4] = vectors[0]
    assert (linear_probe(items, vectors, "m", SETTINGS)[0].tie, right(items, vectors)[0]) == (4, 0.25)
    flat = linear_probe(items, np.ones_like(vectors), "m", SETTINGS)
    assert {(r.tie, r.correct) for r in flat} == {(4, 0.25)}
    many = linear_probe(items, np.ones((len(vectors), 300)), "m", SETTINGS)
    assert {(r.tie, r.correct) for r in many} == {(4, 0.25)}


def test_vectors_and_choices_must_go_together() -> None:
    items, vectors = made_up(80, 8)
    with pytest.raises(ValueError, match=r"319, 8.*320 choices"):
        linear_probe(items, vectors[:-1], "m", SETTINGS)


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


def test_heads_are_named_once_and_the_control_by_no_model() -> None:
    from robustify.engines import HFModel

    with pytest.raises(ValidationError, match="twice"):
        LinearProbeSettings(models=("m", "m"))
    with pytest.raises(ValidationError):
        HFModel(name="m" + CONTROL)
