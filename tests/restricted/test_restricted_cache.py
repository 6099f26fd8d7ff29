"""The caches of a restricted set: nothing in them answers to whoever has the questions but not the key."""

import hashlib
import hmac
import json
import os
import sqlite3
from pathlib import Path

import pytest

from robustify.models.engines.cache import FILE, SEALED_FILE, Cache, CachedScores, open_caches
from robustify.models.engines.plan import Encoded
from robustify.models.engines.protocols import Logprob
from tests.support.command import invoked

SEAL, OTHER = hashlib.sha256(b"seal").digest(), hashlib.sha256(b"another").digest()
FINGERPRINT = {"engine": "t", "dtype": "float32"}
ASKED = [Encoded((1, 2, 3), (4, 5)), Encoded((1, 2, 3), (6,))]
SCORED = {ASKED[0]: Logprob(-1.25, 2), ASKED[1]: Logprob(-2.5, 1)}


def kept(cache: Cache) -> CachedScores:
    return CachedScores(cache, FINGERPRINT, "m")


def keys(file: Path) -> set[bytes]:
    with sqlite3.connect(file) as db:
        return {row[0] for row in db.execute("SELECT key FROM score")}


def test_sealed_scores_come_back_under_their_seal_and_no_other(tmp_path: Path) -> None:
    with Cache(tmp_path, SEAL) as cache:
        kept(cache).keep(SCORED)
        assert kept(cache).known(ASKED) == SCORED
    with Cache(tmp_path, OTHER) as cache:
        assert kept(cache).known(ASKED) == {}
    with Cache(tmp_path) as cache:
        assert kept(cache).known(ASKED) == {}


def test_a_key_is_the_hmac_of_what_would_be_the_key_of_a_public_row(tmp_path: Path) -> None:
    for seal in (None, SEAL):
        with Cache(tmp_path, seal) as cache:
            kept(cache).keep(SCORED)
    plain, sealed = keys(tmp_path / FILE), keys(tmp_path / SEALED_FILE)
    assert sealed == {hmac.new(SEAL, key, hashlib.sha256).digest() for key in plain}
    held = b"".join(p.read_bytes() for p in tmp_path.glob(f"{SEALED_FILE}*"))
    assert not any(key in held for key in plain)


def test_the_sealed_file_is_its_owner_s_alone_with_its_journal(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        with Cache(tmp_path, SEAL) as cache:
            kept(cache).keep(SCORED)
            modes = {p.name: p.stat().st_mode & 0o777 for p in tmp_path.glob(f"{SEALED_FILE}*")}
            assert cache.run(lambda db: db.execute("PRAGMA secure_delete").fetchone()) == (1,)
    finally:
        os.umask(before)
    assert modes[SEALED_FILE] == 0o600
    assert set(modes.values()) == {0o600}


def test_clearing_needs_no_key_and_leaves_no_row_in_any_byte(tmp_path: Path) -> None:
    with Cache(tmp_path, SEAL) as cache:
        kept(cache).keep(SCORED)
    held = keys(tmp_path / SEALED_FILE)
    with open_caches(tmp_path) as caches:
        assert [cache.info()["rows"] for cache in caches] == [2]
    shown = json.loads(invoked("models", "cache", "info", "--json", "--cache-dir", tmp_path).stdout)
    assert (shown["rows"], shown["restricted"]["rows"]) == (0, 2)
    done = invoked("models", "cache", "clear", "--cache-dir", tmp_path)
    assert done.stdout == "deleted 2 scores\n"
    left = b"".join(p.read_bytes() for p in tmp_path.iterdir() if p.is_file())
    assert not any(key in left for key in held)


@pytest.mark.parametrize("folder", ["none", "file/below"])
def test_showing_or_clearing_a_cache_that_is_not_there_creates_nothing(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    shown = invoked("models", "cache", "info", "--json", "--cache-dir", tmp_path / folder)
    assert {**json.loads(shown.stdout), "path": ""} == {"path": "", "rows": 0, "size": 0}
    assert invoked("models", "cache", "clear", "--cache-dir", tmp_path / folder).return_value == 0
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_damaged_sealed_file_is_set_aside_and_a_private_one_started(tmp_path: Path) -> None:
    (tmp_path / SEALED_FILE).write_bytes(b"no database" * 100)
    with Cache(tmp_path, SEAL) as cache:
        kept(cache).keep(SCORED)
    assert (tmp_path / SEALED_FILE).stat().st_mode & 0o777 == 0o600
