"""The outside auditor: what vectors of options give away, found where it is there and not where it is not."""

from pathlib import Path

import numpy as np
import pytest

from robustify.base.arrays import Floats
from robustify.base.files import cache_folder
from robustify.items.item import Item
from robustify.judging.readers.reader_rows import (
    MEANING_TEMPLATE,
    MOST_ENCODED,
    MOST_OPTIONS,
    ProbeSettings,
    encoded,
    meaning,
)
from robustify.models import downloads
from robustify.pipeline import encoder
from robustify.pipeline.encoder import answer_by_meaning, has_encoder


def made(n: int, told: float) -> tuple[list[Item], Floats]:
    """Items of three to five options, and vectors in which so much of a common direction marks the keys."""
    draw = np.random.default_rng(1)
    items, vectors = [], []
    for at in range(n):
        k = int(draw.integers(3, 6))
        key = int(draw.integers(k))
        items.append(
            Item(f"i{at}", "?", tuple(f"option {at} {place} {draw.random()}" for place in range(k)), key)
        )
        rows = draw.normal(size=(k, 24)) + 3 * draw.normal(size=24)
        rows[key, 0] += told
        vectors += list(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return items, np.array(vectors)


def right(n: int, told: float) -> tuple[float, float]:
    items, vectors = made(n, told)
    rows = meaning(items, vectors, "e", ProbeSettings())
    assert [(row.template, row.item) for row in rows] == [(MEANING_TEMPLATE, item.id) for item in items]
    assert all(sum(np.exp(row.scores)) == pytest.approx(1) for row in rows)
    chance = np.array([1 / item.k for item in items])
    beyond = np.array([row.correct for row in rows]) - chance
    return float(beyond.mean()), float(beyond.std() / np.sqrt(n))


def test_a_direction_that_marks_keys_is_found_and_noise_is_not() -> None:
    found, error = right(600, 3.0)
    assert found > 0.25
    found, error = right(600, 0.0)
    assert abs(found) < 3 * error


def test_too_few_items_are_not_guessed_and_a_large_set_is_drawn_from() -> None:
    items, vectors = made(40, 3.0)
    rows = meaning(items, vectors, "e", ProbeSettings())
    assert {row.pick for row in rows} == {None}
    assert all("40 items" in (row.error or "") for row in rows)
    many = [Item(f"i{at}", "?", ("a", "b"), 0) for at in range(MOST_ENCODED + 10)]
    chosen = encoded(many)
    assert len(chosen) == len({item.id for item in chosen}) == MOST_ENCODED
    assert encoded(many) == chosen
    wide = [Item(f"i{at}", "?", tuple("abcdefghij"[: 4 + at % 7]), 0) for at in range(4_000)]
    chosen = encoded(wide)
    assert MOST_OPTIONS - 10 < sum(item.k for item in chosen) <= MOST_OPTIONS
    assert encoded(chosen) == chosen


def test_without_the_encoder_nothing_is_asked(tmp_path: Path) -> None:
    assert not has_encoder(tmp_path)
    assert answer_by_meaning(made(60, 0)[0], ProbeSettings(), tmp_path, keep=True) == []


def test_the_encoder_tells_kinds_of_things_apart_and_its_vectors_are_kept_only_where_they_may(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    here = cache_folder()
    if downloads.encoder(here) is None:
        pytest.skip("the encoder is not here: robustify models pull minilm-l6-v2")
    (tmp_path / "models").symlink_to(here / "models")
    kinds = (("hammer", "wrench", "chisel", "pliers"), ("otter", "heron", "lynx", "badger"))
    draw = np.random.default_rng(0)
    keys = draw.integers(0, 4, 80).tolist()
    names = [[draw.choice(kinds[at == key]) for at in range(4)] for key in keys]
    items = [Item(f"i{at}", "?", tuple(f"the {one} number {at}" for one in of), key)
             for at, (of, key) in enumerate(zip(names, keys, strict=True))]  # fmt: skip
    rows = answer_by_meaning(items, ProbeSettings(), tmp_path, keep=False)
    assert not (tmp_path / "vectors").exists()
    assert np.mean([row.correct for row in rows]) > 0.9
    again = [answer_by_meaning(items, ProbeSettings(), tmp_path, keep=True) for _ in range(2)]
    assert again == [rows, rows]
    assert len(list((tmp_path / "vectors").iterdir())) == 1
    faster = answer_by_meaning(items, ProbeSettings(), tmp_path, keep=True, dtype="bfloat16")
    assert len(list((tmp_path / "vectors").iterdir())) == 2, (
        "vectors of another precision have files of their own"
    )
    assert np.mean([row.correct for row in faster]) > 0.9
    assert [row.scores for row in faster] != [row.scores for row in rows]


def test_a_forecast_names_the_faster_type_for_many_options_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few, many = ([Item(f"i{i}", "?", (f"a {i}", f"b {i}"), 0) for i in range(n)] for n in (100, 3_000))
    monkeypatch.setattr(encoder, "has_encoder", lambda _cache: True)
    for is_fast in (True, False):
        monkeypatch.setattr(encoder, "_has_bfloat16", lambda is_fast=is_fast: is_fast)
        counts = [encoder.options_for_bfloat16(items, tmp_path) for items in (few, many)]
        assert counts == [0, 6_000 * is_fast]
