"""Caches in SQLite files, such as the cache of log-probabilities.

The key of a score is a digest of the model's fingerprint and of the context and continuation tokens, and under a restricted
set's seal, its HMAC. The file contains no text, tokens, or item IDs. Values are never overwritten, because byte-identical
runs depend on them. Rows have checksums, because SQLite's pages have none.
"""

import contextlib
import functools
import hashlib
import hmac
import itertools
import os
import re
import sqlite3
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from robustify.base.errors import ModelError, ResourceError
from robustify.base.files import MORE_SPACE, locked, open_descriptor
from robustify.items.views import Request
from robustify.models.engines.plan import Encoded
from robustify.models.engines.protocols import Closing, Logprob, tolerance

T = TypeVar("T")
FILE = "scores.sqlite"
SEALED_FILE = "scores-restricted.sqlite"
_APPLICATION, _VERSION = 0x52425354, 1
# `alias` maps the digest of a request's text to the key of its score.
_TABLES = """
CREATE TABLE IF NOT EXISTS score(key BLOB PRIMARY KEY, value BLOB NOT NULL, checksum BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS alias(key BLOB PRIMARY KEY, score BLOB NOT NULL, checksum BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS path(model BLOB PRIMARY KEY, path TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""
_MANY = 500
"""Number of keys per query."""
_VALUE = struct.Struct("<dI")
_DRAWS = 20
"""Number of low bits of the second integer that count tokens. The higher bits count the replies that were read."""
# SQLite quotes bytes in its messages that may not be valid text.
_FAULTS = (sqlite3.Error, UnicodeDecodeError)
_NO_DAMAGE = re.compile("locked|locking|full|readonly|unable to open|I/O error|permission")
"""SQLite's messages about the disk or another process, as opposed to a damaged file."""


_FULL = re.compile("full|No space")


class Database(Closing):
    """SQLite file that any number of runs can share, or a database in memory. A damaged file is renamed, and replaced with
    an empty file. A `private` file has mode 0600, and deleted rows are overwritten. Raise `ResourceError` if the file
    cannot be used, or has another version."""

    def __init__(self, file: Path | None, tables: str, *, private: bool = False) -> None:
        self.file = file or Path(":memory:")
        self._tables, self._private = tables, private
        self._db: sqlite3.Connection | None = None
        self._inode = 0
        self.run(lambda _: None)

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction and return its result. If the file is damaged, replace it and run `work` again."""
        try:
            try:
                return self._run_once(work)
            except _FAULTS as error:
                if not self._is_damage(error):
                    raise
            self._set_aside()
            return self._run_once(work)
        except (OSError, *_FAULTS) as error:
            cause = getattr(error, "strerror", None) or str(error)
            advice = "Choose another folder with --cache-dir"
            advice += f", or {MORE_SPACE}" * bool(_FULL.search(str(error)))
            raise ResourceError(
                f"{self.file}: cannot open, read, or write the cache ({cause}). {advice}. Stored scores are not lost.",
                code="unusable-cache",
            ) from None

    def _run_once(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._db = self._db or self._connect()
        with self._db:
            return work(self._db)

    def _is_damage(self, error: Exception) -> bool:
        if isinstance(error, sqlite3.ProgrammingError) or _NO_DAMAGE.search(str(error)):
            return False
        # An operation also fails on a whole file, which then passes SQLite's check.
        if isinstance(error, sqlite3.OperationalError) and self._db is not None:
            with contextlib.suppress(*_FAULTS):
                return bool(self._db.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",))
        return True

    def _set_aside(self) -> None:
        """Rename the damaged file, unless another process has already done so."""
        self.close()
        with locked(self.file.with_name(f".{self.file.name}.lock"), wait=True):
            if not self.file.exists() or self.file.stat().st_ino != self._inode:
                return
            names = (f"{self.file}.corrupt-{n}" for n in itertools.count(1))
            aside = next(name for name in names if not os.path.exists(name))
            Path(f"{self.file}-shm").unlink(missing_ok=True)
            for part in ("", "-wal"):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(f"{self.file}{part}", f"{aside}{part}")
        renamed = f"{self.file.name} is damaged and was renamed to {Path(aside).name}"
        print(f"robustify: {renamed}; its contents are computed again", file=sys.stderr)

    def _connect(self) -> sqlite3.Connection:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        if self._private:
            # Create the file before SQLite does, because its journal inherits the mode of the file.
            os.close(open_descriptor(self.file, os.O_RDWR | os.O_CREAT))
            self.file.chmod(0o600)
        with contextlib.ExitStack() as undo:
            db = undo.enter_context(contextlib.closing(sqlite3.connect(self.file, timeout=60)))
            self._inode = self.file.stat().st_ino if self.file.exists() else 0
            # On a network file system, SQLite chooses a different mode than WAL, which is correct there.
            for setting in ("journal_mode=WAL", "synchronous=FULL", "trusted_schema=OFF"):
                db.execute(f"PRAGMA {setting}")
            db.execute(f"PRAGMA secure_delete={self._private}")
            if db.execute("PRAGMA application_id").fetchone()[0] not in (0, _APPLICATION):
                raise ResourceError(
                    f"{self.file}: the file belongs to another program. Choose another folder with --cache-dir.",
                    code="foreign-cache-file",
                )
            if (file_version := db.execute("PRAGMA user_version").fetchone()[0]) > _VERSION:
                raise ResourceError(
                    f"{self.file}: the file was written by a later robustify (version {file_version}, expected at "
                    f"most {_VERSION}). Upgrade robustify, or choose another folder with --cache-dir.",
                    code="later-cache-version",
                )
            db.executescript(
                f"PRAGMA user_version={_VERSION}; PRAGMA application_id={_APPLICATION}; {self._tables}"
            )
            undo.pop_all()
            return db


class Cache(Database):
    """Cache of model scores. With `seal`, a subkey of the owner of a restricted set, the cache has a separate file, and its
    row keys are HMACs. Raise the errors of `Database`."""

    def __init__(self, folder: Path, seal: bytes | None = None) -> None:
        self._seal = seal
        super().__init__(folder / (FILE if seal is None else SEALED_FILE), _TABLES, private=seal is not None)

    def row_key(self, digest: bytes) -> bytes:
        """Return the row key for a digest: the digest itself, or its HMAC if the cache is sealed."""
        return digest if self._seal is None else hmac.digest(self._seal, digest, "sha256")

    def info(self) -> dict[str, Any]:
        """Return the file path, number of rows, and size in bytes, as printed by `robustify models cache info`."""
        return {"path": str(self.file), "rows": self.run(_row_count), "size": self.file.stat().st_size}

    def clear(self) -> int:
        """Delete all rows of the file, and all damaged versions of it. Return the number of deleted scores (0 if the file
        was damaged)."""

        def delete_rows(db: sqlite3.Connection) -> int:
            n = _row_count(db)
            db.execute("DELETE FROM score")
            db.execute("DELETE FROM alias")
            return n

        n = self.run(delete_rows)
        # Until it is truncated, the journal contains the deleted rows.
        for command in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            self.run(lambda db, command=command: db.execute(command))  # type: ignore[misc]
        for aside in self.file.parent.glob(f"{self.file.name}.corrupt-*"):
            aside.unlink()
        return n


@contextlib.contextmanager
def open_caches(folder: Path) -> Iterator[list[Cache]]:
    """Open the caches that a folder has, public and restricted, to count or clear their rows. Nothing is created, and no
    key is needed."""
    seals = [seal for name, seal in ((FILE, None), (SEALED_FILE, b"")) if _exists(folder / name)]
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Cache(folder, seal)) for seal in seals]


def _exists(file: Path) -> bool:
    """Return whether a file exists. If its folder cannot be searched, return True, so that opening the file fails."""
    try:
        return file.is_file()
    except PermissionError:
        return True


class CachedScores:
    """Cached scores of a single model. Without a cache, nothing is found or stored."""

    def __init__(self, cache: Cache | None, fingerprint: Mapping[str, str], name: str) -> None:
        self._cache = cache
        self._name = name
        # Sampled replies vary from run to run. The first stored scores count.
        self._dtype = None if "samples" in fingerprint else fingerprint.get("dtype", "float32")
        texts = [text.encode() for pair in sorted(fingerprint.items()) for text in pair]
        self._head = _extend_digest(hashlib.sha256(b"robustify/score/1"), texts)

    def known(self, requests: Iterable[Encoded]) -> dict[Encoded, Logprob]:
        """Return the cached scores of those requests that have one."""
        if self._cache is None:
            return {}
        keys = {self._key(request): request for request in requests}
        rows = self._cache.run(lambda db: _rows(db, "score", keys))
        return {keys[key]: _unpack(value) for key, value in rows.items()}

    def keep(self, scored: Mapping[Encoded, Logprob]) -> dict[Encoded, Logprob]:
        """Store these scores in one transaction. Return the stored scores, which may come from an earlier run. Raise
        `ModelError` if they differ by more than rounding."""
        if self._cache is None:
            return dict(scored)
        keys = {self._key(request): request for request in scored}

        def write(db: sqlite3.Connection) -> dict[Encoded, Logprob]:
            _write(db, "score", {key: _pack(scored[request]) for key, request in keys.items()})
            stored = {keys[key]: _unpack(value) for key, value in _rows(db, "score", keys).items()}
            if n_changed := sum(not self._is_alike(stored[request], scored[request]) for request in scored):
                raise ModelError(
                    f"{self._name}: the model is not deterministic: {n_changed} log-probabilities differ from the cached "
                    "ones by more than rounding. If the software of this machine has changed, clear the cache with "
                    "`robustify models cache clear`.",
                    code="changed-scores",
                )
            return stored

        return self._cache.run(write)

    def known_texts(self, requests: Sequence[Request]) -> list[Logprob] | None:
        """Return the cached scores of these requests, without tokenizing them. Return None if a score is missing."""
        if self._cache is None or not requests:
            return None
        keys = list(map(self._text_key, requests))
        scores = self._cache.run(lambda db: _rows(db, "alias", dict.fromkeys(keys)))
        if scores.keys() != set(keys):
            return None
        values = self._cache.run(lambda db: _rows(db, "score", set(scores.values())))
        logprobs = [_unpack(values[scores[key]]) for key in keys if scores[key] in values]
        return logprobs if len(logprobs) == len(keys) else None

    def keep_texts(self, requests: Sequence[Request], encoded: Sequence[Encoded]) -> None:
        """Link the text of each request to its score, so that later runs need no tokenizer."""
        if self._cache is not None:
            keys = {tokens: self._key(tokens) for tokens in set(encoded)}
            rows = {self._text_key(r): keys[tokens] for r, tokens in zip(requests, encoded, strict=True)}
            self._cache.run(lambda db: _write(db, "alias", rows))

    @property
    def path(self) -> str | None:
        """Scoring path that an earlier run used for this model, or None if there was no earlier run."""
        if self._cache is None:
            return None
        query = ("SELECT path FROM path WHERE model = ?", (self._head.digest(),))
        row = self._cache.run(lambda db: db.execute(*query).fetchone())
        return None if row is None else str(row[0])

    @path.setter
    def path(self, path: str) -> None:
        if self._cache is not None and self.path != path:
            row = (self._head.digest(), path)
            self._cache.run(lambda db: db.execute("INSERT OR REPLACE INTO path VALUES (?, ?)", row))

    def _is_alike(self, stored: Logprob, fresh: Logprob) -> bool:
        # The difference of two infinite values is NaN, so compare them directly.
        if self._dtype is None or stored == fresh:
            return True
        allowed = tolerance(self._dtype, stored.n_tokens)
        return stored.n_tokens == fresh.n_tokens and abs(stored.total - fresh.total) <= allowed

    def _key(self, request: Encoded) -> bytes:
        parts = (request.context, request.continuation)
        return self._row_key(struct.pack(f"<{len(tokens)}i", *tokens) for tokens in parts)

    def _text_key(self, request: Request) -> bytes:
        texts = (text.encode("utf-8", "surrogatepass") for text in (request.context, request.continuation))
        # A recipe does not include this version, on which tokens depend.
        return self._row_key((b"text", _tokenizers_version(), *texts))

    def _row_key(self, parts: Iterable[bytes]) -> bytes:
        digest = _extend_digest(self._head.copy(), parts).digest()
        return digest if self._cache is None else self._cache.row_key(digest)


_tokenizers_version = functools.cache(lambda: version("tokenizers").encode())


def _rows(db: sqlite3.Connection, table: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the values of the keys that exist in the table. Raise `DatabaseError` if the checksum of a row is wrong."""
    values: dict[bytes, bytes] = {}
    all_keys = list(keys)
    for start in range(0, len(all_keys), _MANY):
        part = all_keys[start : start + _MANY]
        marks = ",".join("?" * len(part))
        for row in db.execute(f"SELECT * FROM {table} WHERE key IN ({marks})", part):
            # A damaged page may contain anything, even text.
            match row:
                case (bytes() as key, bytes() as value, sum_) if sum_ == _checksum(key, value):
                    values[key] = value
                case _:
                    raise sqlite3.DatabaseError("a row is damaged")
    return values


def _write(db: sqlite3.Connection, table: str, rows: Mapping[bytes, bytes]) -> None:
    """Insert rows into a table in the current transaction. Existing keys keep their values."""
    with_checksums = [(key, value, _checksum(key, value)) for key, value in rows.items()]
    db.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?)", with_checksums)


def _checksum(key: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(key + value, digest_size=8).digest()


def _row_count(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM score").fetchone()[0])


def _extend_digest(digest: "hashlib._Hash", parts: Iterable[bytes]) -> "hashlib._Hash":
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest


def _pack(score: Logprob) -> bytes:
    return _VALUE.pack(score.total, score.draws << _DRAWS | score.n_tokens)


def _unpack(value: bytes) -> Logprob:
    total, counts = _VALUE.unpack(value)
    return Logprob(total, counts & ((1 << _DRAWS) - 1), counts >> _DRAWS)
