"""The score cache: nothing is asked twice, nothing is overwritten, and a killed run goes on to the same bits."""

import errno
import multiprocessing
import os
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from robustify.base.files import MORE_SPACE
from robustify.items.views import Request
from robustify.models.engines.cache import FILE, Cache, CachedScores
from robustify.models.engines.plan import Encoded
from robustify.models.engines.protocols import Logprob
from robustify.models.replies import Replies
from tests.support.cases import refuses
from tests.support.model_cache import hf, tiny_llama

A, B = Encoded((1, 2), (3,)), Encoded((1,), (2, 3))
ONE, TWO = Logprob(-1.25, 1), Logprob(-0.1 - 0.2, 2)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    with Cache(tmp_path) as opened:
        yield opened


def test_what_was_kept_is_known_to_the_bit_and_to_its_recipe_alone(cache: Cache, tmp_path: Path) -> None:
    CachedScores(cache, {"weights": "w"}, "m").keep({A: ONE, B: TWO})
    with Cache(tmp_path) as again:
        assert CachedScores(again, {"weights": "w"}, "m").known([A, B]) == {A: ONE, B: TWO}
        for other in ({"weights": "x"}, {"weightsw": ""}):
            assert CachedScores(again, other, "m").known([A]) == {}


def test_the_first_value_counts_and_another_one_is_an_error(cache: Cache) -> None:
    kept = CachedScores(cache, {}, "m")
    kept.keep({A: ONE})
    assert kept.keep({A: Logprob(-1.2500000001, 1)}) == {A: ONE}
    for other in (Logprob(-1.2515, 1), Logprob(-1.25, 2), Logprob(float("nan"), 1)):
        with refuses("changed-scores"):
            kept.keep({A: other, B: TWO})
    assert kept.known([A, B]) == {A: ONE}


def test_without_a_cache_nothing_is_known() -> None:
    kept = CachedScores(None, {}, "m")
    kept.keep({A: ONE})
    kept.path = "trees"
    assert (kept.known([A]), kept.path) == ({}, None)


def test_a_file_with_a_damaged_row_is_set_aside_and_said(
    cache: Cache, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = CachedScores(cache, {}, "m")
    kept.keep({A: ONE, B: TWO})
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("UPDATE score SET value = zeroblob(12) WHERE key = (SELECT min(key) FROM score)")
    assert kept.known([A, B]) == {}
    assert "scores.sqlite.corrupt-1" in capsys.readouterr().err
    kept.keep({A: ONE, B: TWO})
    assert len(kept.known([A, B])) == 2


@pytest.mark.parametrize(("name", "kind"), [(FILE, Cache), ("replies.sqlite", Replies)])
def test_a_file_of_a_later_version_is_refused_and_stays(
    tmp_path: Path, name: str, kind: type[Cache | Replies]
) -> None:
    for _ in range(2):
        kind(tmp_path).close()
    with sqlite3.connect(tmp_path / name) as db:
        db.execute("PRAGMA user_version=99")
    before = (tmp_path / name).read_bytes()
    with refuses("later-cache-version"):
        kind(tmp_path)
    assert (tmp_path / name).read_bytes() == before
    assert not list(tmp_path.glob("*.corrupt-*"))


@pytest.mark.parametrize(
    "content",
    [b"no database at all, just text that is long enough" * 40, b"SQLite format 3\0" + b"\xff" * 4000],
)
def test_a_damaged_file_is_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (tmp_path / FILE).write_bytes(content)
    with Cache(tmp_path) as cache:
        assert cache.info()["rows"] == 0
        assert (tmp_path / f"{FILE}.corrupt-1").read_bytes() == content
        cache.clear()
    assert not list(tmp_path.glob("*.corrupt-*"))
    assert len(capsys.readouterr().err.strip().split("\n")) == 1


PAGE = 4096
MANY = {Encoded((n,), (1,)): Logprob(-float(n + 1), 1) for n in range(2000)}


def noise(image: bytes, page: int, way: str) -> bytes:
    """The file with one page damaged: the whole of it, all but its header, a few bytes, or cut off in its middle."""
    drawn, start = random.Random(f"{page}/{way}"), page * PAGE
    match way:
        case "page":
            return image[:start] + drawn.randbytes(PAGE) + image[start + PAGE :]
        case "cells":
            return image[: start + 12] + drawn.randbytes(PAGE - 12) + image[start + PAGE :]
        case "bytes":
            spoiled = bytearray(image)
            for place in drawn.sample(range(start, start + PAGE), 20):
                spoiled[place] = drawn.randrange(256)
            return bytes(spoiled)
        case _:
            return image[: start + PAGE // 2]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    with Cache(folder) as cache:
        kept = CachedScores(cache, {}, "m")
        kept.keep(MANY)
        kept.path = "trees"
    return (folder / FILE).read_bytes()


@pytest.mark.parametrize("way", ["page", "cells", "bytes", "cut"])
def test_a_run_goes_on_over_any_damaged_page(
    way: str, image: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    n_pages = len(image) // PAGE
    assert n_pages > 20
    for page in {*range(6), *range(6, n_pages, 8)}:
        folder = tmp_path / str(page)
        folder.mkdir()
        (folder / FILE).write_bytes(noise(image, page, way))
        with Cache(folder) as cache:
            kept = CachedScores(cache, {}, "m")
            found = kept.known(MANY)
            assert found.items() <= MANY.items()
            assert kept.path in ("trees", None) or way == "bytes"
            assert kept.keep(MANY) == MANY
            kept.path = "trees"
            assert (kept.known(MANY), kept.path) == (MANY, "trees")
        said = capsys.readouterr().err.splitlines()
        assert len(said) == (folder / f"{FILE}.corrupt-1").exists()


def test_of_two_runs_that_find_the_damage_the_second_takes_the_file_of_the_first(
    image: bytes, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_bytes(image)
    with Cache(tmp_path) as one, Cache(tmp_path) as two:
        (tmp_path / FILE).write_bytes(noise(image, len(image) // PAGE // 2, "page"))
        for cache in (one, two):
            assert CachedScores(cache, {}, "m").keep(MANY) == MANY
            assert CachedScores(cache, {}, "m").known(MANY) == MANY
    assert not (tmp_path / f"{FILE}.corrupt-2").exists()


def test_an_operation_that_fails_on_a_whole_file_does_not_set_it_aside(cache: Cache) -> None:
    assert cache.run(lambda db: db.execute("SELECT count(*) FROM score").fetchone()) == (0,)
    with refuses("unusable-cache"):
        cache.run(lambda db: db.execute("SELECT no_such_function()"))
    assert not list(cache.file.parent.glob("*.corrupt-*"))


def test_another_program_s_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("PRAGMA application_id=7")
        db.execute("CREATE TABLE mine(x)")
    with refuses("foreign-cache-file"):
        Cache(tmp_path)
    with sqlite3.connect(tmp_path / FILE) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]


def test_a_place_that_cannot_hold_a_cache_is_a_resource_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with refuses("unusable-cache"):
        Cache(tmp_path / "file")


@pytest.mark.parametrize(
    ("fault", "full"),
    [(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), True), (sqlite3.OperationalError("database or disk is full"), True),
     (PermissionError(errno.EACCES, os.strerror(errno.EACCES)), False)],
)  # fmt: skip
def test_only_a_full_disk_needs_more_space(cache: Cache, fault: Exception, full: bool) -> None:
    def fail(_: sqlite3.Connection) -> None:
        raise fault

    with refuses("unusable-cache") as refusal:
        cache.run(fail)
    assert (MORE_SPACE in str(refusal.value)) == full


def _keep(folder: Path, first: int) -> None:
    with Cache(folder) as cache:
        for n in range(first, first + 40):
            CachedScores(cache, {}, "m").keep({Encoded((n,), (1,)): Logprob(-float(n + 1), 1)})


def test_two_runs_share_a_cache(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    runs = [context.Process(target=_keep, args=(tmp_path, first)) for first in (0, 20)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(600)
    assert [run.exitcode for run in runs] == [0, 0]
    with Cache(tmp_path) as cache:
        assert cache.info()["rows"] == 60


def test_a_warm_repeat_computes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")
    from robustify.models.engines.local import engine as local_engine

    folder = tiny_llama(tmp_path / "model")
    requests = [Request("the cat", " sat"), Request("the cat", " mat on"), Request("", "the")]
    with Cache(tmp_path) as cache, hf(folder, cache=cache) as engine:
        first, recipe = engine.loglikelihoods(requests), engine.fingerprint()
    monkeypatch.setattr(local_engine.HF, "open_model", lambda *_: pytest.fail("the model was opened"))
    monkeypatch.setattr(local_engine, "encode", lambda *_: pytest.fail("a text was tokenised"))
    with Cache(tmp_path) as cache, hf(folder, cache=cache) as engine:
        done: list[int] = []
        assert engine.loglikelihoods(requests, done.append) == first
        assert (sum(done), engine.fingerprint()) == (3, recipe)


def test_the_file_holds_no_text(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")

    folder = tiny_llama(tmp_path / "model")
    with Cache(tmp_path) as cache, hf(folder, cache=cache) as engine:
        engine.loglikelihoods([Request("the right mat", " green")])
    written = b"".join(p.read_bytes() for p in tmp_path.glob(f"{FILE}*"))
    assert written
    assert b"right" not in written
    assert b"green" not in written
