"""Rows of the probe and of the encoder: what their readers find in the options, or why they find nothing."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from robustify.base.errors import ResourceError
from robustify.base.files import cache_folder
from robustify.items.answers import Answer
from robustify.items.item import Item
from robustify.judging.baselines.conditional_logit import FEWEST_ITEMS
from robustify.judging.baselines.features import matrix
from robustify.judging.readers.reader_rows import (
    MEANING,
    MEANING_TEMPLATE,
    MOST_ENCODED,
    MOST_OPTIONS,
    NAME,
    TEMPLATE,
    UNFITTED,
    VIEW,
    ProbeSettings,
    encoded,
    meaning,
    probe,
)
from robustify.models import folder
from robustify.models.engines.local import vectors
from robustify.models.engines.protocols import Progress, no_progress
from robustify.pipeline import encoder
from robustify.pipeline.encoder import embedding
from tests.judging.readers.test_readers import items_with, vectors_of

SETTINGS = ProbeSettings()
KINDS = {"probe": (VIEW, NAME, TEMPLATE), "meaning": (MEANING, "e", MEANING_TEMPLATE)}


def cued(n: int) -> list[Item]:
    return items_with(lambda text: text + ", bado", n=n)


def rows_of(kind: str, items: list[Item]) -> list[Answer]:
    return probe(items, SETTINGS) if kind == "probe" else meaning(items, vectors_of(items), "e", SETTINGS)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_answer_rows(kind: str) -> None:
    items = cued(80)
    rows = rows_of(kind, items)
    assert [r.item for r in rows] == [i.id for i in items]
    assert {(r.view, r.model, r.template) for r in rows} == {KINDS[kind]}
    assert all(np.exp(r.scores).sum() == pytest.approx(1) for r in rows)
    assert all(r.pick == int(np.argmax(r.scores)) for r in rows)
    assert all(r.order == tuple(range(i.k)) and r.key == i.key for r, i in zip(rows, items, strict=True))
    assert np.mean([r.pick == r.key for r in rows]) > 0.5
    assert rows == rows_of(kind, items)


def test_neither_stem_nor_place_is_read() -> None:
    items = cued(80)
    blind = [replace(i, stem="?", topic="t") for i in items]
    assert (matrix(items) == matrix(blind)).all()
    first = [i.permuted([i.key, *(j for j in range(i.k) if j != i.key)]) for i in items]
    credits = [[row.correct for row in probe(some, SETTINGS)] for some in (first, items)]
    assert credits[0] == pytest.approx(credits[1])


def test_choices_that_do_not_differ_tie() -> None:
    same = Item("same", "?", ("balan", "balan", "balan", "balan"), 0)
    row = probe([*cued(80), same], SETTINGS)[-1]
    assert (row.tie, row.correct) == (4, 0.25)


@pytest.mark.parametrize("kind", KINDS)
def test_too_few_items_are_unanswered_with_a_reason(kind: str) -> None:
    rows = rows_of(kind, cued(FEWEST_ITEMS - 1))
    assert all(r.pick is None and r.correct is None and not r.scores for r in rows)
    assert all({str(FEWEST_ITEMS - 1), str(FEWEST_ITEMS)} <= set((r.error or "").split()) for r in rows)
    assert probe([], SETTINGS) == []


def test_near_duplicates_alone_cannot_be_cross_fitted() -> None:
    items = [Item(f"t{i}", "True?", ("yes", "no"), i % 2) for i in range(80)]
    assert {(r.pick, r.error) for r in probe(items, SETTINGS)} == {(None, UNFITTED)}


def test_a_large_set_is_drawn_from() -> None:
    many = [Item(f"i{at}", "?", ("a", "b"), 0) for at in range(MOST_ENCODED + 10)]
    chosen = encoded(many)
    assert len(chosen) == len({item.id for item in chosen}) == MOST_ENCODED
    assert encoded(many) == chosen
    wide = [Item(f"i{at}", "?", tuple("abcdefghij"[: 4 + at % 7]), 0) for at in range(4_000)]
    chosen = encoded(wide)
    assert MOST_OPTIONS - 10 < sum(item.k for item in chosen) <= MOST_OPTIONS
    assert encoded(chosen) == chosen


def answer_by_meaning(
    items: list[Item], cache: Path, *, keep: bool, dtype: str = "float32", progress: Progress = no_progress
) -> list[Answer]:
    texts = [choice for item in items for choice in item.choices]
    with embedding(texts, cache, keep=keep, dtype=dtype) as embedded:
        vectors = embedded(progress)
    return [] if vectors is None else meaning(items, vectors, "e", SETTINGS)


def test_without_the_encoder_nothing_is_asked(tmp_path: Path) -> None:
    assert not folder.has_encoder(tmp_path)
    assert answer_by_meaning(cued(60), tmp_path, keep=True) == []


def test_the_encoder_tells_kinds_of_things_apart_and_its_vectors_are_kept_only_where_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    here = cache_folder()
    if folder.encoder(here) is None:
        pytest.skip("the encoder is not here: robustify models pull minilm-l6-v2")
    (tmp_path / "models").symlink_to(here / "models")
    kinds = (("hammer", "wrench", "chisel", "pliers"), ("otter", "heron", "lynx", "badger"))
    draw = np.random.default_rng(0)
    keys = draw.integers(0, 4, 80).tolist()
    names = [[draw.choice(kinds[at == key]) for at in range(4)] for key in keys]
    items = [Item(f"i{at}", "?", tuple(f"the {one} number {at}" for one in of), key)
             for at, (of, key) in enumerate(zip(names, keys, strict=True))]  # fmt: skip
    rows = answer_by_meaning(items, tmp_path, keep=False)
    assert np.mean([row.correct for row in rows]) > 0.9
    shown: list[int] = []
    with monkeypatch.context() as many:
        many.setattr(encoder, "MANY_OPTIONS", 1)
        # Were the process to fail, the vectors would be computed here.
        many.setattr("robustify.models.engines.local.sentence_encoder.sentence_vectors", None)
        elsewhere = answer_by_meaning(items, tmp_path, keep=False, progress=shown.append)
    assert elsewhere == rows
    assert sum(shown) == len({choice for item in items for choice in item.choices})
    assert not (tmp_path / "vectors").exists()
    again = [answer_by_meaning(items, tmp_path, keep=True) for _ in range(2)]
    assert again == [rows, rows]
    [kept] = (tmp_path / "vectors").iterdir()
    whole = kept.read_bytes()
    for damaged in (b"", whole[:-4], whole[: len(whole) // 2], bytes(len(whole)), b"\0" * 64 + whole[64:]):
        kept.write_bytes(damaged)
        assert answer_by_meaning(items, tmp_path, keep=True) == rows
        assert kept.read_bytes() == whole
    with monkeypatch.context() as full:
        kept.unlink()
        full.setattr(encoder, "write_atomic", Mock(side_effect=OSError))
        assert answer_by_meaning(items, tmp_path, keep=True) == rows
    answer_by_meaning(items, tmp_path, keep=True)
    faster = answer_by_meaning(items, tmp_path, keep=True, dtype="bfloat16")
    # Vectors of another precision have files of their own.
    assert len(list((tmp_path / "vectors").iterdir())) == 2
    assert np.mean([row.correct for row in faster]) > 0.9
    assert [row.scores for row in faster] != [row.scores for row in rows]


@pytest.mark.parametrize(
    ("ending", "raised"),
    [("raise SystemExit(1)", None), ("os.kill(os.getpid(), 9)", ResourceError)],
)
def test_an_encoder_process_that_ends_early_is_told_by_how_it_ended(
    monkeypatch: pytest.MonkeyPatch, ending: str, raised: type[Exception] | None
) -> None:
    monkeypatch.setattr(vectors, "module_command", lambda _: [sys.executable, "-c", f"import os; {ending}"])
    texts = ["a tin box"] * 50_000
    refused = nullcontext() if raised is None else pytest.raises(raised)
    with refused, vectors.encoding(Path(), texts, dtype="float32") as received:
        assert received(no_progress) is None


def test_an_encoder_process_does_not_outlive_the_work_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def begin(*words: Any, **how: Any) -> "Popen[bytes]":
        begun.append(Popen(*words, **how))
        return begun[-1]

    monkeypatch.setattr(vectors, "Popen", begin)
    waiting = [sys.executable, "-c", "import sys, time; sys.stdin.read(); time.sleep(600)"]
    monkeypatch.setattr(vectors, "module_command", lambda _: waiting)
    with pytest.raises(KeyError), vectors.encoding(Path(), ["a tin box"], dtype="float32"):
        raise KeyError
    assert begun[0].returncode == -9


def test_a_forecast_names_the_faster_type_for_many_options_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = ([Item(f"i{i}", "?", (f"a {i}", f"b {i}"), 0) for i in range(n)] for n in (100, 3_000))
    for is_fast in (True, False):
        monkeypatch.setattr(encoder, "_has_bfloat16", lambda is_fast=is_fast: is_fast)
        counts = [encoder.options_for_bfloat16(items) for items in (few, many)]
        assert counts == [0, 6_000 * is_fast]
